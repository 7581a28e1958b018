"""The calls to begin with, as a bare `rf` shows them."""

"""expression."""

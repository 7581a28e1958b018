"""foreign."""

"""Nested structures for a view: what is in them, and which parts are alike."""

"""Errors for a view: the user's line, the call in it with its operands, the way that led there."""

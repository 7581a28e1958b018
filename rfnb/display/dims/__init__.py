"""Dims for a view: their words and pills, what they are called, who has them, what is wrong with them."""

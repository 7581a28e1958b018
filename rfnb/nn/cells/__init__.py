"""Recurrences written as one step."""

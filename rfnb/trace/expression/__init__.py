"""Expressions about a step of a run: read, checked and computed here, never run as code."""

"""Recordings of plain Python loops."""

"""Pauses: a running loop is held after a step.

Read `pauses` first (where loops pause), then `hold` (what a held loop gives to the panel, how it goes on, and the files
of runs where nobody can look).
"""

"""Pauses: a running loop is held after a step.

Read `pauses` first (where loops pause), then `hold` (what a held loop gives to the panel, and how it goes on), `files`
(runs written where nobody can look).
"""

"""Recorded runs of loops: replay any step, fork a run at a step, follow gradients back through the steps.

Read `recorded` (what all runs of a body share, and the inputs and states of one run), then `replay` (what a Run reads
from it). `profile` times the steps.
"""

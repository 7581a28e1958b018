"""Recorded runs of loops: replay any step, fork a run at a step, follow gradients back through the steps.

Read `replay` (the inputs and states of one run, and what a Run reads from them). `profile` times the steps.
"""

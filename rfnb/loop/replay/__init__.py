"""Recorded runs of loops: replay any step, fork a run at a step, follow gradients back through the steps.

Read `recorded_plan` (what all runs of a body share), then `recorded_steps` (the inputs and states of one run) and
`replay` (what a Run reads from it).
"""

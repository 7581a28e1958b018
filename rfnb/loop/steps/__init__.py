"""The steps of a loop: the traced body as a program, what of it is hoisted, and how its steps are run.

Read `program` (the traced calls of one step, and their Python code), then `execute` (runs them step by step, keeps the
states) and `hoist` (moves ops before and after the steps).
"""

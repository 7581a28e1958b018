"""The traced body as a program: the raw calls of one step.

Read `program` (the calls, and which of them a result needs), `step_code` (their text as Python code), `schedule` (what
goes in and out of a step) and `analysis` (what is known of steps with the same structure).
"""

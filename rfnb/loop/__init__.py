"""Loops: one step is traced, and all steps run from what it did. The phases of a loop, and what they hand on:

open     `Loop.__enter__` (loop.py) makes a `Body` (body.py) for the states and frames of step 0.
trace    The user's lines run once; ops go to the `Recorder` of trace/record, branches to branch.py.
close    `close` (end_of_step.py) returns a `TracedStep` (step.py); pure.py keeps it for later calls.
judge    `judge` (run_body.py) warns of states and random numbers that were probably not meant.
hoist    `Hoist` (hoist.py) computes ops that may leave the steps; `DeferredGradients` does it for gradients.
run      `BodyRun` (run_body.py) has `execute` (step.py) do the steps, as the code that program.py writes.
settle   `settle` (run_body.py) gives states and results their final values.
record   `Replay` (replay.py) has the step and the states, from which a `Run` computes every value again.
"""

"""Recordings: loop bodies while they are traced, runs of loops, graphs of models, attention. The order to read it in:

record    The `Recorder` of a loop body: its ops become a graph with names and places, and a tape of raw calls.
run       A `Run` and its steps, as notebooks use them; `rf.runs` and the options; run/file: `rf.load_run`.
plain     `rf.steps`, `rf.record_loops` and `rf.record_calls`: loops and calls of plain Python as runs.
pause     A running loop is held after a step; compare: `rf.compare`, which finds where two runs first differ.
graph     `rf.model_graph`: the graph of one call of a model, including its loops.
capture   `rf.capture`: finds attention while a model runs, also in the steps of loops.
probe     `rf.probe`: a function that runs again and again during a training.
observe   Reports every op of a function and of its loops; the checks of `rf.check` use it.
"""

"""Loops of plain Python, recorded while they run. The order to read it in:

record      `rf.steps`, `rf.record_loops`, `rf.record_calls`: who wants which loops and calls; `block`, their decorator.
events      Line events of chosen code, by the standard library alone.
syntax      `Outline`: the loops of a code object, what its statements assign, and what begins at each instruction.
recording   The recording of a thread, for `client`s: it has a `recorder` for each frame; `calls`, those of a function.
variables   The values of a frame, which go into its `log`; `iterations`: where in it each begins; `forget`: the oldest.
values      Values as they were: by reference, as copies, or as statistics.
remembered  What a Run reads from the log; `fork`: the loop compiled anew; `pause`: pauses at a line, and edits.
cells       `%%record_loops`, that of all cells; `last_iteration`, of a loop that raises; `others` that ran; `yours`.
"""

"""Loops of plain Python, recorded while they run. The order to read it in:

record      `rf.steps`, `rf.record_loops`, `rf.record_calls`, `rf.pause`: who wants which loops; `cells`: the magic.
events      Line events of chosen code, by the standard library alone.
syntax      `Outline`: the loops of a code object, what its statements assign; `user_code`: the text of code.
recorder    The recording of a thread for its clients: it has a recorder for each frame, which forgets the oldest.
variables   The values of a frame, which go into its `log` within a budget; `iterations`: where in it each begins.
values      Values as they were: by reference, as copies, or as statistics; `containers`: their parts and attributes.
hidden_state        What no line shows: random numbers, objects, modules; `generators`: of Python, numpy and torch.
recorded_variables  What a Run reads from the log; `fork`: the loop compiled anew, by `rebuild`; `pause`: and edits.
"""

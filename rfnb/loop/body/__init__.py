"""The body of a loop while it is traced: its states, branches, end, and the traced step that comes out of it.

Read body.py and end_of_step.py first; state.py is `loop.state`, branch.py is `rf.cond` in a body.
"""

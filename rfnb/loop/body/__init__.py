"""The body of a loop while it is traced: its states, branches, end, and the traced step that comes out of it.

Read body.py and end_of_step.py first; branch.py is `rf.cond` in a body, print_value.py is `rf.watch`, and hypotheses.py
has those of a search.
"""

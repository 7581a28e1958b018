"""Recurrent cells, each written as one step.

Read `cell` first: the base class, which runs a step over a sequence, and `make_cell`. `simple` has the cells whose
state is one tensor, `lstm` the LSTMs.
"""

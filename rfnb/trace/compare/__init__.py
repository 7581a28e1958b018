"""Compares two runs. The order to read it in:

compare     `rf.compare`, which goes through all pairs of values and notes their differences.
comparison  Its result: `Comparison`, with a `Compared` for each value.
match       Which values, sequences and dims of the two runs match; pairs: the matching values, step by step.
part        The numbers that are compared, with the same axes; tolerance: how far apart they may be.
"""

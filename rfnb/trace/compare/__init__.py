"""Compares two runs. The order to read it in:

compare     `rf.compare`, which goes through all pairs of values, step by step, and notes where they differ by too much.
comparison  Its result: `Comparison`, with a `Compared` for each value.
match       Which values, sequences and dims of the two runs match, and the numbers of them that are compared.
"""

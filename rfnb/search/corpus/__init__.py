"""The errors of a search over many sequences, against references.

report   `rf.search.report`: rates, classes of errors, and several settings side by side.
tune     `rf.search.tune`: the scales of scores that give the fewest errors.
"""

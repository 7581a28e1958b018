"""The errors of a search over many sequences, against references.

edit_distance  How many labels differ; pairs: which reference belongs to which sequence; row: what is said of one.
report         `rf.search.report`: rates, classes of errors, and several settings side by side.
tune           `rf.search.tune`: the scales of scores that give the fewest errors.
"""

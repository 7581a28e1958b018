"""Search: beams of hypotheses over the steps of a loop, their scores, and the tree of all that was tried.

`choice` attaches a search to the body of a loop; a `trace` keeps what it chose; `tree` reads one sequence of it.
"""

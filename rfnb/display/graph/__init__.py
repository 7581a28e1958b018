"""Views of model graphs.

Read `view` first, then `fold` (from a graph to nested bodies) and `names`; `unfold` (which nodes are open, and the rows
of text), `measures` (numbers), `picture` with `cards` (the drawing).
"""

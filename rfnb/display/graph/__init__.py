"""Views of model graphs.

Read `view` first, then `fold` (from a graph to nested bodies) with `flow`, `runs`, `values` and `node_names`; `unfold`
(which nodes are open), `measures` (numbers), `picture` with `cards` and `pills` (the drawing), `rows` (text) and `dot`
(Graphviz).
"""

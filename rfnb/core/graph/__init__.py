"""Graphs of what was computed, without any tensors.

Read `graph` first: nodes, values and nested bodies; `facts` has what only some kinds of nodes know. `call_recorder`
records a call as a graph, `graph_names` then names its values, and `module_table` knows the modules by path.
`model_graph` is the result of `rf.model_graph`.
"""

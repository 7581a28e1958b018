"""The graph of one call of a model. The order to read it in:

model_graph  `rf.model_graph`, how to read the graph that it returns, and what `show=` measures over several calls.
tracer       `Tracer`, the listener that records ops, modules and branches during the call; `LoopDrawer` for loops.
unchanged    `Unchanged`, which restores random generators and parameters after the call.
time_meter, value_meters  What is measured.
"""

"""The graph of one call of a model. The order to read it in:

model_graph  `rf.model_graph`, and how to read the graph that it returns.
tracer       `Tracer`, the listener that records ops, modules, branches and loops during the call.
unchanged    `Unchanged`, which restores random generators and parameters after the call.
measure      What `show=` measures over several calls, with `time_meter` and `value_meters`.
"""

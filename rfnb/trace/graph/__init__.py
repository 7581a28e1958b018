"""The graph of one call of a model. The order to read it in:

model_graph  `rf.model_graph`, how to read the graph that it returns, and what `show=` measures over several calls.
             Random generators and parameters are restored after the call.
tracer       `Tracer`, the listener that records ops, modules and branches during the call; `LoopDrawer` for loops.
meters       What is measured.
"""

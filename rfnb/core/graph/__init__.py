"""The graph of a loop's body or of a model's call: what happened, with dims and places, but without tensors.

Read `graph` first: `Graph`, `Node` and `Value`, and the facts of modules, loops and branches; `BodyGraph` is the body
of a loop, `CallGraph` the call of a model. `call_recorder` builds a `CallGraph`, and `model_graph` is the result that
users get. `meter` is what recorders and loops tell while nodes are measured, and what was found.
"""

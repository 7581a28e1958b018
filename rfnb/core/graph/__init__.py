"""The graph of a loop's body or of a model's call: what happened, with dims and places, but without tensors.

Read `graph` first: `Graph`, `Node` and `Value`; `BodyGraph` is the body of a loop, `CallGraph` the call of a model.
`facts` holds what is known of modules, loops and branches. `call_recorder` builds a `CallGraph` with the help of
`module_table`; `graph_names` then numbers and names it, and `model_graph` is the result that users get.
`meter` is what recorders and loops tell while nodes are measured, `measured` what was found.
"""

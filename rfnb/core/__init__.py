"""What all other folders share: dims, tensors, ops, graphs. It does not import torch.

Read the folders in this order; imports point only to earlier ones. `ground`: places in the user's code, nested
structures, defaults, registries. `vocab`: the names of labels. `dims`: the class Dim, lengths of a batch, the planner.
`advice`: what to write here instead of a call in torch. `tensor`: Tensor and Parameter, and how an op is called and
observed. `expression`: the small language for conditions that users write as strings. `graph`: the graph that a traced
loop or model becomes. `run_ctx`: the context of a forward call, with its losses and outputs.
"""

"""The bridge to plain torch: rfnb modules as `torch.nn.Module`, and the other way round.

Read `to_torch` first: `TorchModule` wraps an rfnb module. Its base in `mirror` shares the parameters, also with torch's
optimizers; `symbolic` has sizes that are not numbers yet, while torch compiles. `from_torch` wraps a torch module;
`distributed` helps with training in several processes.
"""

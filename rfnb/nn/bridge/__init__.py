"""The bridge to plain torch: rfnb modules as `torch.nn.Module`, and the other way round.

Read `to_torch` first: `TorchModule` wraps an rfnb module. Its base in `mirror` shares the parameters; `inputs` and
`outputs` convert between raw tensors with lengths and Tensors; `crossing` lets torch's hooks run for the parts of a
model; `symbolic` has sizes that are not numbers yet, while torch compiles. `from_torch` wraps a torch module.
`parameters` prepares parameters for torch's optimizers; `distributed` helps with training in several processes.
"""

"""Saving and loading the parameters of modules, and importing weights of other libraries.

Read `save` and `load` first. `entries` reads a checkpoint from any source: safetensors files, torch files, tensors by
name; with `formats` and `bundle` also TensorFlow's, npz and HDF. `contents` shows one. `choice` applies `rename`,
`only` and `skip`; `mapping` matches the entries with parameters; `report` says what was loaded. `variables` is for net
dicts. `training` saves optimizers and random numbers, `plain_values` stores plain values as JSON. `foreign` converts
weights of torch and Hugging Face, for `load` and `import_weights`.
"""

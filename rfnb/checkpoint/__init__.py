"""Saving and loading the parameters of modules, and importing weights of other libraries.

Read `save` and `load` first. `entries` reads a checkpoint from any source: safetensors files, torch files, npz, HDF,
tensors by name; with `bundle` also TensorFlow's. `contents` shows one. `mapping` applies `rename`, `only` and `skip`,
and matches the entries with parameters; `report` says what was loaded. `variables` is for net dicts. `training` saves
optimizers and random numbers, `plain_values` stores plain values as JSON. `foreign` converts weights of torch and
Hugging Face.
"""

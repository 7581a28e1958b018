"""Saving and loading the parameters of modules, and importing weights of other libraries.

Read `save` and `load` first. `entries` reads a checkpoint from any source: safetensors files, torch files, npz, HDF,
tensors by name; with `bundle` also TensorFlow's. `mapping` applies `rename`, `only` and `skip`, and matches the entries
with parameters; `report` says what was loaded. `training` saves optimizers and random numbers as nested plain
values. `foreign` converts weights of torch and Hugging Face. `pretrained` writes folders with a model.
"""

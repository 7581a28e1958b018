"""Trained weights of networks: `rf.load` for checkpoints with the names of variables, and what a config says of them.

Read `restore` first. `access` gives the variables of a network by name, `preload` loads what a config wants.
"""

"""Checkpoints with the names of variables, as the networks of net dicts have them.

`net_dicts` is the table of what a variable can be made from, `transforms` how, `conversion` applies the table,
`importer` is for layers that import their parameters themselves, `restoring` loads all of it.
"""

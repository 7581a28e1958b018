"""Tables of variables that have other names, or another form, in a file than in a model.

`net_dicts` has the rows for the networks of net dicts; `rfnb.checkpoint.conversion` applies them.
"""

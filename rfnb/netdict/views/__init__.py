"""Networks of net dicts.

Read `network` first: the picture, a card for each layer, and the frames that masked_computation takes. `fold` makes the
boxes and lines of the picture, as a graph of a model call has them. `report` shows `net.report()`, and `loops` shows
`net.explain()`; `stages` and `training` show those of a config, and `diff` shows two nets beside each other.
"""

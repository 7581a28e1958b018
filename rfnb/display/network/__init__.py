"""Networks of net dicts.

Read `view` first: the picture, a card for each layer, and the frames that masked_computation takes. `fold` makes the
boxes and lines of the picture, as a graph of a model call has them; `report` is the view of `net.report()`.
"""

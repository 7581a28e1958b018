"""Scorers of a search: what `loop.choice({"model": scores, "lm": (scorer, 0.4)})` adds up for each label.

`scorer` is what a scorer must do, and reads the dict of a choice; `add_up` adds its parts up. `carried` takes the
states of scorers from step to step of a loop. The other files are scorers.
"""

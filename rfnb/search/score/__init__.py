"""Scorers of a search: what `loop.choice({"model": scores, "lm": (scorer, 0.4)})` adds up for each label.

`scorer` is what a scorer must do, and `module` makes one of an rf module. `parts` reads the dict of a choice, and
`add_up` adds them up; `scorer_states` takes the states of scorers from step to step, and `outside` does both in
searches without a loop. The other files are scorers.
"""

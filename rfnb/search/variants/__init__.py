"""Variants of a beam search: scores that allow some labels only, samples, and beams that keep other candidates.

A `constraint` scores labels by 0 or -∞: `constraints` has those on single labels and their number, `tries` whole words.
`sampling` draws labels, `stochastic` whole sequences, and `groups` keeps different ones. `apart` gives ended hypotheses
places of their own, `stopping` says when a search stops, and `endings` reads the options of both. `several_labels` is
about several labels in a step, `target` about a choice without search, `outside` about searches without a loop.
"""

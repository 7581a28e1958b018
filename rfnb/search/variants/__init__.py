"""Variants of a beam search: scores that allow some labels only, samples, and what is kept of other candidates.

A `constraint` scores labels by 0 or -∞: `constraints` has those on single labels and their number, `tries` whole words.
`sampling` draws labels, `stochastic` whole sequences. `several_labels` is about several labels in a step, `candidates`
about those without a place, `target` about a choice without search, `outside` about searches without a loop.
"""

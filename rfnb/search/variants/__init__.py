"""Variants of a beam search: scores that allow some labels only, samples, and what is kept of other candidates.

`constraints` score labels by 0 or -∞, and `history` by what a hypothesis has already. `sampling` draws labels, or whole
sequences. `candidates` is about those without a place, and about several labels in a step.
"""

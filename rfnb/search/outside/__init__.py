"""A search that steps without a loop, such as `rf.search.decode`.

hypotheses  Those of the search so far, and what is kept of each step. best: the candidates that get a place, found by
            raw tensors.
tensors     Steps with Tensors.
"""

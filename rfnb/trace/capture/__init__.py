"""Captures attention weights while a model runs. The order to read it in:

capture  `rf.capture` and its result `Captured`, a list of `Seen`; `AttentionFinder`, the listener that finds a softmax
         followed by a weighted sum.
steps    `joined`, which makes one matrix of the steps of a decoder; `generate` watches that of transformers.
"""

"""Decoders: label by label, from the previous labels and the output of an encoder.

`transformer` has the Transformer decoder, which is also a language model if there is no encoder.
"""

"""Encoders: from a sequence of frames to one that knows what is around each."""

from rfnb.nn.encoder import conformer as conformer, e_branchformer as e_branchformer

"""Encoders: from a sequence of frames to a sequence in which each frame has information about its context.

Read `transformer` first; `conformer` and `e_branchformer` add convolutions. `subsample` is the frontend that makes
fewer frames.
"""

from rfnb.nn.encoder import conformer as conformer, e_branchformer as e_branchformer

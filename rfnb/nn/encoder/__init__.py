"""Encoders: from a sequence of frames to a sequence in which each frame has information about its context.

Read `transformer` first; `conformer` and `e_branchformer` add convolutions, and `conformer` has the frontend that makes
fewer frames. `base` has the classes that all of them inherit from.
"""

from rfnb.nn.encoder import base as base, conformer as conformer, e_branchformer as e_branchformer

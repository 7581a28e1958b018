"""Recurrent subnetworks: their steps as the body of an `rf.Loop`.

Read `net` first (a recurrent net once it is constructed, and the values of a step), then `build` with `order`
(from a dict to it, and what leaves the loop), and `run` (its loop). `explain` says why a layer is in the loop; `search`
is for beams.
"""

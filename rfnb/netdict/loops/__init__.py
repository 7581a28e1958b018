"""Recurrent subnetworks: their steps as the body of an `rf.Loop`.

Read `net` first (a recurrent net once it is constructed), then `build` with `length` and `order` (from a dict to it),
and `run` with `values` (its loop). `move` takes layers out of the loop, and `explain` says why; `search` is for beams,
`trace_reuse` for steps of earlier calls; `lines` names values after layers.
"""

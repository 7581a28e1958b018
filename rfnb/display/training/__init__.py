"""Training loops: what they report, and how it is drawn.

Read `progress` first (`rf.progress` and its curves) with `history` (the data), then `gradient_norms`. `probe_view`
shows a `rfnb.trace.probe`.
"""

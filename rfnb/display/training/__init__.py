"""Training loops: what they report, and how it is drawn.

Read `train` first (`rf.progress`, `rf.gradient_norms`), then `progress` with `history` (the data) and `plot` (the
drawings), and `gradient_norms`. `probe_view` shows a `rfnb.trace.probe`.
"""

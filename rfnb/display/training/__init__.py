"""Training loops: what they report, and how it is drawn.

Read `train` first (`rf.progress`, `rf.gradient_norms`), then `progress` → `history` → `curve` (the data),
`progress_view` → `plot` and `figure` (the drawings), `gradient_norms` and its view. `probe_view` shows a
`rfnb.trace.probe`.
"""

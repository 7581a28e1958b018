"""Views of attention weights.

Read `view` first, then `read` with `arrays` and `weights` (which axes are layers, heads, rows and columns), `choose`,
`labels`, `measures` and `heads` (numbers about heads), and `overview`, `matrix` and `drawing` (pictures). `figure` is
for papers, `list_view` shows what `rf.capture` saw.
"""

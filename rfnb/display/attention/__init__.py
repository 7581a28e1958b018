"""Views of attention weights.

Read `view` first, then `weights` (which axes are layers, heads, rows and columns), and `drawing` (pictures).
`list_view` shows what `rf.capture` saw.
"""

"""Views of attention weights, and of what `rf.capture` saw.

Read `view` first, then `weights` (which axes are layers, heads, rows and columns), and `drawing` (pictures, sounds).
"""

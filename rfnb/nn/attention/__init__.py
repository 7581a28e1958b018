"""Self-attention and cross-attention.

Read `base` first: projections, heads, and attention without positions. `causal` adds the state of keys and values with
which a decoder runs step by step; `rel_pos` adds relative positions, `rotary` rotary positions, both with and without
such a state.
"""

"""Dims: axes with a name and an identity, and the lengths that they have in a batch.

Read `dim` first: the class `Dim`. `dim_algebra` gives it operators and copies, `dim_math` the canonical form of sums,
products and quotients, `dim_alias` makes two dims have one size. `lengths` holds the sizes of one batch, apart from
the dims: `Size` and `Lengths`; `binding` says what dims are bound to now.
`align` is the planner: from the dims of operands to how their axes are permuted and expanded; `entries` says which
entries of a tensor count, and `axis_names` parses names of axes such as "T". `dim_kind` says what a dim counts,
`capacity` gives a dim one size for all batches, and `size_limits` refuses sizes that no tensor can have.
"""

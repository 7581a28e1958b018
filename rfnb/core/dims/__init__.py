"""Dims: axes with a name and an identity, and the lengths that they have in a batch.

Read `dim` first: the class `Dim`. `dim_math` has its operators and the canonical form of sums, products and quotients.
`lengths` holds the sizes of one batch, apart from the dims (`Size` and `Lengths`), and which entries of a tensor count;
`binding` says what dims are bound to now. `align` is the planner: from the dims of operands to how their axes are
permuted and expanded. `axis_names` parses names of axes such as "T".
"""

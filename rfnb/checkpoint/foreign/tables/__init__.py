"""Tables of weights: which parameter of rfnb is made of which weights elsewhere.

Read `row` first: what a row says. `layers` has the tables of single layers, `attention` those of attention and of
Transformers; `by_class` says which table belongs to which class.
"""

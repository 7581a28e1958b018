"""Layered drawings of directed graphs: plain numbers in, plain numbers out.

Read `layered` first: it calls `ranks`, `layers`, `order`, `place`, `columns`, `lanes` and `route` in this order. `link`
holds the input, `drawing` the result.
"""

"""Layered drawings of directed graphs: plain numbers in, plain numbers out.

Read `layered` first: it calls `layers` (the rank of each box, and its place there) and `route` (the lines).
"""

"""Searches as data: a tree as JSON, and a whole search as a file. Both are read as untrusted data.

file     The files `x.rfbeam`, and whether the arrays of a Trace fit together; columns: the JSON of a tree.
"""

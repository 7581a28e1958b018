"""Searches as data: a tree as JSON, and a whole search as a file. Both are read as untrusted data.

check    Whether the arrays of a Trace fit together; columns: the JSON of a tree; file: the files `x.rfbeam`.
"""

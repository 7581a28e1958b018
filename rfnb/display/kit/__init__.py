"""The parts that all views share.

Read `view` first (what `rf.show` returns), then `degrade` (notes instead of exceptions), `data` (a tensor as views read
it), `dims` (dims as pills), `options` (limits), `page` (standalone files) and `window` (a marked part of an array).
"""

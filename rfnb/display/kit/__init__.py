"""The parts that all views share.

Read `view` first (what `rf.show` returns) and `kinds` (which module makes it), then `degrade` (notes instead of
exceptions), `data` (a tensor as views read it), `dims` (dims as pills), `options` (limits), `page` (standalone pages),
`files` (all formats) and `window` (a marked part of an array).
"""

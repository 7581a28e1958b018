"""The parts that all views share.

Read `view` first (what `rf.show` returns), then `blocks` (what a page consists of, the words in its lines, and notes
instead of exceptions), `data` (a tensor and its dims as views read them), `options` (limits), `page` (standalone pages,
files and widgets), and `window` (a marked part of an array).
"""

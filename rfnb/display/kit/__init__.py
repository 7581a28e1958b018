"""The parts that all views share.

Read `view` first (what `rf.show` returns), then `blocks` (what a page consists of), `words` (in its lines), `note`
(notes instead of exceptions), `data` (a tensor as views read it), `dims` (dims as pills), `options` (limits), `page`
(standalone pages, files and widgets), and `window` (a marked part of an array).
"""

"""Views of tensors and arrays.

Read `view` first (text and HTML), then `describe` (from a tensor to JSON) and what it calls: `stats` and `entries`.
`arrays` reads plain arrays, and `value` describes a value at one step of a loop.
"""

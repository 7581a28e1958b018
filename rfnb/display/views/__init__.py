"""One file for each kind of view, called as the `kind` of its JSON.

`describe(object)` makes the JSON. `to_text` and `to_html`, and where there is more to tell `to_repr` (short),
`to_table` and `to_scripts`, are made of that alone.
"""

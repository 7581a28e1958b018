"""The layers of net dicts, by topic as the ops. Each class is fields, for its options, and one `compute`.

`CLASSES` in `layer.py` says which class names are in which file, so that a net imports only the layers it has.
"""

"""Expressions in strings, such as conditions in a panel: parsed and computed here, never run as code.

`expression` parses and checks a text; `reader` computes its parts with the names and functions of the caller.
"""

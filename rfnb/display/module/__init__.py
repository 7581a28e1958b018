"""Views of modules of rfnb and torch: `rows` describes parameters, `equal_layers` groups layers of equal form, `view`
writes text and HTML.
"""

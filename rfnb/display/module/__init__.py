"""Views of modules of rfnb and torch: `rows` describes parameters, `alike` groups layers of equal form, `view` writes
text and HTML.
"""

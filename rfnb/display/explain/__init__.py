"""The views of what a search explains, as in `rfnb/search/explain`: where a reference was lost, the life of a
hypothesis, and two searches side by side.

`life` has the table of steps that the first two share.
"""

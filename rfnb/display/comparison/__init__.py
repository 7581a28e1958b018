"""The view of a comparison of two runs."""

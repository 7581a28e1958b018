"""Attention weights for a view: whose they are, what is measured of them, how they are drawn."""

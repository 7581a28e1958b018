"""Runs of loops for a view: their steps, states and sequences, and the lines of the body."""

"""Saving and loading the parameters of modules."""

"""Modules for a view: their parameters, and which layers are alike."""

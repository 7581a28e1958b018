"""Loops: one step is traced, all steps are run from what it did."""

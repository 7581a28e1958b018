"""The view of a load report."""

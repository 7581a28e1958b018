"""Tensors and arrays for a view: their numbers with lengths, statistics over them, and how those are told."""

"""The view of `loop.explain()`: where the ops of a loop ran."""

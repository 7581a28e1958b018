"""The views of `loop.explain()` and `net.explain(…)`: where the ops of a loop ran, and the layers of a net."""

"""The view of `rf.search.report`: settings side by side, and the wrong outputs."""

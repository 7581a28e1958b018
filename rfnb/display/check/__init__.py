"""The view of what `rf.check` found."""

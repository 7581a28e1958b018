"""What is recorded: the values of a body, the runs of a session."""

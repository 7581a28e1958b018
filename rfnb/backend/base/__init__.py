"""The contract of a backend: what each has to give, and what all share."""

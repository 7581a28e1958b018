"""The contract of a backend: what each backend must provide, and what all share."""

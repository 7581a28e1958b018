"""What options of all layers do: `batch_norm`, `changed` (parameters of one call), `penalties` (constraints)."""

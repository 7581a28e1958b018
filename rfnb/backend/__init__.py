"""What computes on raw tensors."""

"""What all ranks share: dims, lengths, tensors, the planner, the door, the graph. It imports no torch."""

"""The views of checkpoints: what is in one, and which parameters were loaded, are missing, or were left out."""

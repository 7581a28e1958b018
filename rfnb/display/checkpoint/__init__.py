"""The view of a load report: which parameters were loaded, which are missing, which were left out."""

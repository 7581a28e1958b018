"""Which weights of other libraries become which parameters here: tables, one row for each parameter."""

"""Functions on Tensors, in the families of the backends."""

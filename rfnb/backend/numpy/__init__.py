"""The numpy backend, a reference that computes ops without gradients, loops and fused kernels."""

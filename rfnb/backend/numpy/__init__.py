"""The numpy backend, a reference: what ops need to be computed, without gradients, loops and fused kernels."""

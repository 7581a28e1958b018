"""What computes on raw tensors, in families with one file each: math, matmul, reduce, index, convolution, …

Read `base` first: plans on dims, shared by all backends, and the list of raw functions that each has to provide.
`torch` provides them; `numpy` is the reference that tests compare with.
"""

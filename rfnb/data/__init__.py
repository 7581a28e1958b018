"""Data in HDF files: a data set for torch's DataLoader, batches of about as many frames, a writer.

`dataset` opens a file, checks it, gives its sequences, and joins those of similar length; `HdfWriter` writes
such files. `examples` gives the paths of the `configs` that examples read. h5py is needed when a file is opened or
written.
"""

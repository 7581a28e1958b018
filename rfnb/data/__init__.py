"""Data in HDF files: a data set for torch's DataLoader, batches of about as many frames, a writer.

`layout` opens a file and checks it, `dataset` gives its sequences, `batching` joins sequences of similar length,
`writing` writes such files. h5py is needed when a file is opened or written.
"""

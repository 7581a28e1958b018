"""TensorFlow's checkpoints, read without TensorFlow: `prefix.index` and `prefix.data-00000-of-00001`.

Read `reader` first: it finds the files and reads values. `table` reads the sorted string table of the index with its
checksums, `messages` its entries and the keys of slices.
"""

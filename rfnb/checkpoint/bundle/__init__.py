"""TensorFlow's checkpoints, read without TensorFlow: `prefix.index` and `prefix.data-00000-of-00001`.

Read `reader` first. `paths` finds the files, `table` reads the sorted string table of the index, `messages` its
entries, `ordered_keys` makes the keys of slices, `checksum` is CRC32C, `file_errors` the error for what is malformed.
"""

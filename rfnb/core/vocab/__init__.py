"""Vocabularies: the names of the entries of sparse tensors. `vocab` is the class; `vocab_file` and `tokenizer` read
labels from files and from tokenizers of other libraries.
"""

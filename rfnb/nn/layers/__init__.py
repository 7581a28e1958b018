"""Single layers, one topic per file.

Read `linear` first: linear maps, embeddings, and their weights. `conv`, `norm`, `dropout` and `rec` (the LSTM over a
sequence) are as in torch, with Dims. `transformer` has the parts of a Transformer that its encoder and decoder share.
"""

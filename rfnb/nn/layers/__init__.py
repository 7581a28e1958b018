"""Single layers, one topic per file.

Read `linear` first; `weights` makes its weight. `conv`, `norm`, `batch_norm`, `embedding`, `dropout` and `rec` (the
LSTM over a sequence) are as in torch, with Dims. `feed_forward` and `position` are parts of a Transformer;
`transformer` holds what its encoder and decoder share. `running_mean` keeps a mean of the data.
"""

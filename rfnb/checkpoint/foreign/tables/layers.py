"""Single layers, with the names that torch gives to their weights. The weight of torch's Linear is {out, in}."""

from __future__ import annotations

from rfnb.checkpoint.foreign.tables.row import Row

LINEAR = (
    Row("weight", ("weight",), "transposed"),
    Row("bias", ("bias",)),
)
NORM = (
    Row("scale", ("weight",)),
    Row("bias", ("bias",)),
)
BATCH_NORM = (
    Row("gamma", ("weight",)),
    Row("beta", ("bias",)),
    Row("running_mean", ("running_mean",)),
    Row("running_variance", ("running_var",)),
)
CONV = (
    Row("filter", ("weight",)),
    Row("bias", ("bias",)),
)
LSTM = (  # of LSTMCell; `unfold_lstms` gives the layers of an LSTM these names. torch has two biases, which are added
    Row("ff_weight", ("weight_ih",)),
    Row("rec_weight", ("weight_hh",)),
    Row("bias", ("bias_ih", "bias_hh"), "sum"),
)
GRU = (  # of GRUCell; `unfold_lstms` gives the layers of a GRU these names. For `rf.GRU` with `reset_after`
    Row("ff_weight", ("weight_ih",), "transposed"),
    Row("rec_weight", ("weight_hh",), "gates"),
    Row("candidate_weight", ("weight_hh",), "candidate"),
    Row("bias", ("bias_ih", "bias_hh"), "bias of GRU"),
    Row("candidate_bias", ("bias_hh",), "candidate"),
)

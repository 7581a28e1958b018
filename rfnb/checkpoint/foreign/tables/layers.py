"""Single layers, with the names that torch gives to their weights. The weight of torch's Linear is {out, in}."""

from __future__ import annotations

from rfnb.checkpoint.foreign.tables.row import TableRow

LINEAR = (
    TableRow("weight", ("weight",), "transposed"),
    TableRow("bias", ("bias",)),
)
NORM = (
    TableRow("scale", ("weight",)),
    TableRow("bias", ("bias",)),
)
BATCH_NORM = (
    TableRow("gamma", ("weight",)),
    TableRow("beta", ("bias",)),
    TableRow("running_mean", ("running_mean",)),
    TableRow("running_variance", ("running_var",)),
)
CONV = (
    TableRow("filter", ("weight",)),
    TableRow("bias", ("bias",)),
)
LSTM = (  # of LSTMCell; `unfold_lstms` gives the layers of an LSTM these names. torch has two biases, which are added
    TableRow("ff_weight", ("weight_ih",)),
    TableRow("rec_weight", ("weight_hh",)),
    TableRow("bias", ("bias_ih", "bias_hh"), "sum"),
)
GRU = (  # of GRUCell; `unfold_lstms` gives the layers of a GRU these names. For `rf.GRU` with `reset_after`
    TableRow("ff_weight", ("weight_ih",), "transposed"),
    TableRow("rec_weight", ("weight_hh",), "gates"),
    TableRow("candidate_weight", ("weight_hh",), "candidate"),
    TableRow("bias", ("bias_ih", "bias_hh"), "bias of GRU"),
    TableRow("candidate_bias", ("bias_hh",), "candidate"),
)

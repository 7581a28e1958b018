"""Single layers, as torch calls their weights. A Linear there is {out, in}."""

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
LSTM = (  # of LSTMCell; `unfolded` gives the layers of an LSTM these names. Both have a bias, which add up
    Row("ff_weight", ("weight_ih",)),
    Row("rec_weight", ("weight_hh",)),
    Row("bias", ("bias_ih", "bias_hh"), "sum"),
)
GRU = (  # of GRUCell, likewise; here with `reset_after`
    Row("ff_weight", ("weight_ih",), "transposed"),
    Row("rec_weight", ("weight_hh",), "gates"),
    Row("candidate_weight", ("weight_hh",), "candidate"),
    Row("bias", ("bias_ih", "bias_hh"), "bias of GRU"),
    Row("candidate_bias", ("bias_hh",), "candidate"),
)

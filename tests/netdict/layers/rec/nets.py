"""Runs net dicts on made-up data, as arrays with the batch first."""

import numpy as np

import rfnb as rf
from rfnb.netdict.axes import time_of


def run(net_dict, extern, batch, *, params=None, **flags):
    """The network and the outputs for a batch; params: a network whose parameters it gets."""
    net = rf.Network({"behavior_version": 21}, rf.ExternData(extern), **flags).construct_from_dict(net_dict)
    if params is not None:
        net.set_param_values_by_dict(params.get_param_values_dict())
    return net, net.forward(batch)


def array(x):
    """Batch, time, others, features; 0 behind the ends of sequences."""
    dims = [dim for dim in x.dims if dim.is_batch_dim()]
    dims += [dim for dim in (time_of(x),) if dim is not None and dim is not x.feature_dim]
    dims += [dim for dim in x.dims if dim not in dims and dim is not x.feature_dim]
    dims += [dim for dim in (x.feature_dim,) if dim is not None and dim not in dims]
    masked = x.copy_masked(0) if any(dim.need_masking() for dim in x.dims) else x
    return masked.copy_transpose(dims).raw_tensor.detach().numpy()


def sequences(seed, lengths, features):
    """Random sequences and their lengths."""
    values = np.random.default_rng(seed).normal(size=(len(lengths), max(lengths), features)).astype("float32")
    return values, list(lengths)

"""Conformer and E-Branchformer: outputs, gradients and running statistics known from before, with all weights given."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

KNOWN = json.loads(Path(__file__).parents[2].joinpath("golden/encoder_values.json").read_text(encoding="utf-8"))
FEAT, MODEL, LENGTHS = rf.Dim(6, name="feat"), rf.Dim(8, name="model"), [9, 6, 2]
NO_DROPOUT = {"dropout": 0.0, "att_dropout": 0.0}


def waves(shape, start):
    """Numbers that are the same everywhere."""
    count = torch.Size(shape).numel()
    return (torch.arange(count, dtype=torch.float64) * 0.7 + start).sin().float().reshape(shape)


def filled(module):
    for name, parameter in module.named_parameters():
        values = waves(parameter.raw_tensor.shape, sum(map(ord, name))) * 0.5
        shift = 1.0 if name.endswith(("scale", "gamma", "variance")) else 0.0
        parameter.raw_tensor.data.copy_(values + shift)
    return module


def conformer():
    conv = [rf.Dim(n, name=f"conv{n}") for n in (3, 4)]
    frontend = rf.ConformerConvSubsample(FEAT, out_dims=conv, filter_sizes=[(3, 3)] * 2, strides=[(2, 1), (1, 2)])
    options = {"num_layers": 1, "num_heads": 2, "conv_kernel_size": 5, "input_dropout": 0.0, **NO_DROPOUT}
    return rf.ConformerEncoder(FEAT, MODEL, input_layer=frontend, **options)


def e_branchformer(**more):
    options = {"num_layers": 2, "num_heads": 2, "input_dropout": 0.0, "input_layer": None, **NO_DROPOUT, **more}
    return rf.ConformerEncoder(FEAT, MODEL, encoder_layer=rf.EBranchformerLayer, **options)


MODELS = {
    "ConformerEncoder": conformer,
    "EBranchformerLayer": e_branchformer,
    "EBranchformerLayer, even kernel": lambda: e_branchformer(
        encoder_layer_opts={"cgmlp_conv_kernel": 4, "cgmlp_ff_dim": rf.Dim(10, name="cg"), "merge_conv_kernel": 5}
    ),
}


def some_numbers(module):
    """The last features of each valid frame, the sum of each gradient, and the running mean behind a step."""
    rf.init_train_step_run_ctx()
    time = rf.Dim(None, name="time")
    x = rf.convert_to_tensor(waves([3, 9, 6], 0.3), dims=[batch_dim, time, FEAT], lengths=LENGTHS)
    y, frames = filled(module)(x, in_spatial_dim=time)
    raw = y.copy_transpose([batch_dim, frames, MODEL]).raw_tensor
    valid = torch.cat([row[:n] for row, n in zip(raw, y.size_of(frames).values.tolist(), strict=True)])
    (valid * waves(valid.shape, 0.9)).sum().backward()
    trained = {name: p.raw_tensor for name, p in module.named_parameters()}
    grads = {name: float((p.grad * waves(p.shape, 2.0)).sum()) for name, p in trained.items() if p.requires_grad}
    return {"y": valid[:, -2:].tolist(), "grads": grads} | {n: trained[n].tolist() for n in trained if "mean" in n}


@pytest.mark.parametrize("name", MODELS)
def test_values(name):
    found, known = some_numbers(MODELS[name]()), KNOWN[name]
    assert found.keys() == known.keys() and found["grads"].keys() == known["grads"].keys()
    for key in set(known) - {"grads"}:
        torch.testing.assert_close(torch.tensor(found[key]), torch.tensor(known[key]), atol=1e-4, rtol=1e-4)
    for parameter, value in known["grads"].items():
        assert found["grads"][parameter] == pytest.approx(value, abs=2e-3, rel=1e-3), parameter

"""Modules made with the required arguments have the parameters, first values and results of RETURNN's frontend.

`tests/golden/reference_modules.json` was computed with it, at its newest behavior version.
"""

from __future__ import annotations

import json
import math
import zlib
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf

GOLDEN = Path(__file__).parents[1] / "golden" / "reference_modules.json"
CASES = json.loads(GOLDEN.read_text(encoding="utf-8"))


def find(path):
    found = rf
    for part in path.split("."):
        found = getattr(found, part, None) or getattr(rf, part)
    return found


def value(option, dims):
    """An option of the file; `["dim", 8]` is the Dim of this size."""
    if isinstance(option, list) and option[:1] == ["dim"]:
        return dims.setdefault(option[1], rf.Dim(option[1], name=f"f{option[1]}"))
    if isinstance(option, list):
        return [value(part, dims) for part in option]
    if isinstance(option, str) and option.startswith("rf."):
        return find(option.removeprefix("rf."))
    return rf.NotSpecified if option == "NotSpecified" else option


def numbers(name, shape):
    return np.random.RandomState(zlib.crc32(name.encode())).normal(0, 0.3, size=shape).astype("float32")


def call(module, how, dims):
    batch = rf.Dim(3, name="batch")
    time = rf.Dim(rf.convert_to_tensor([5, 3, 1], dims=[batch]), name="time")
    if "tokens" in how or how == "labels":
        labels = dims[8 if how == "labels" else 6]
        raw = np.arange(15).reshape(3, 5) * 7 % labels.dimension
        x = rf.convert_to_tensor(raw, dims=[batch, time], sparse_dim=labels)
    else:
        x = rf.convert_to_tensor(numbers("x", (3, 5, 8)), dims=[batch, time, dims[8]], feature_dim=dims[8])
    name = {"axis": "axis", "spatial": "spatial_dim", "in_spatial": "in_spatial_dim", "tokens": "spatial_dim"}.get(how)
    if how in ("state", "decoder", "decoder tokens"):
        options = {"state": module.default_initial_state(batch_dims=[batch]), "spatial_dim": time}
    else:
        options = {} if name is None else {name: time}
    y = module(x, **options)
    y = y if isinstance(y, rf.Tensor) else y[0]
    others = [dim for dim in y.dims if dim not in (batch, y.feature_dim)]
    return y.copy_masked(0.0).copy_transpose([batch, *others, y.feature_dim]).raw_tensor


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case['class']}-{case['call']}")
def test_a_module_agrees_with_the_reference(case):
    dims = {}
    value([["dim", 8], ["dim", 6]], dims)
    options = {name: value(option, dims) for name, option in case["options"].items()}
    module = find(case["class"])(*value(case["dims"], dims), **options)
    expected = case["parameters"]
    assert {name: list(p.raw_tensor.shape) for name, p in module.named_parameters()} == {
        name: shape for name, (shape, _) in expected.items()
    }
    for name, parameter in module.named_parameters():
        raw = parameter.raw_tensor.data
        constant = raw.flatten()[0].item() if raw.min() == raw.max() else "random"
        assert constant == expected[name][1], name
        new = torch.from_numpy(numbers(name, tuple(raw.shape)))
        raw.copy_(new.abs() + 0.5 if "variance" in name else new)
    rf.init_forward_step_run_ctx()
    y = call(module, case["call"], dims)
    assert list(y.shape) == case["shape"]
    assert y.double().sum().item() == pytest.approx(case["sum"], abs=5e-3)
    row = y[0].flatten().tolist()
    assert row[:8] == pytest.approx(case["first"], abs=2e-4) and row[-4:] == pytest.approx(case["last"], abs=2e-4)


@pytest.mark.parametrize(("encoder", "query"), [(64, 64), (200, 64), (64, 200)])
def test_cross_attention_begins_with_smaller_weights_than_a_linear_map(encoder, query):
    enc, dim, heads = rf.Dim(encoder), rf.Dim(query), rf.Dim(64)
    attention = rf.CrossAttention(enc, dim, heads, key_dim_total=heads, value_dim_total=heads, num_heads=4)
    for weight, scale in ((attention.kv.weight, 3 / 4), (attention.q.weight, 1 / 2), (attention.proj.weight, 1)):
        limit = math.sqrt(6 * scale / sum(weight.raw_tensor.shape))
        assert 0.97 * limit < weight.raw_tensor.abs().max().item() <= limit

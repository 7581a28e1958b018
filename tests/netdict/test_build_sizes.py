"""The construction of a net reads no size of a batch: whatever stands for one, all that is constructed is the same."""

import dataclasses

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import BackendError
from rfnb.loop import run_body
from rfnb.loop.step import execute
from rfnb.netdict import axes
from rfnb.netdict.build import NetNode, every_node
from rfnb.netdict.layer import Layer
from tests.netdict.test_goldens import CASES, Case
from tests.netdict.test_network_configs_kinds import CONFIGS


def drawn(number):
    """What stands for the size of the n-th dim: the same for every other one, much more for the rest."""
    return 2_500 - 7 * number if number % 2 else 1_000


class Description:
    """What a net consists of, as text: dims by the order in which they are met, and by what they are made of."""

    def __init__(self):
        self.dims, self.met = {}, []

    def of_dim(self, dim):
        if dim in self.dims:
            return f"dim {self.dims[dim]}"
        self.dims[dim] = len(self.dims)
        made = None if dim.expr is None else (dim.expr.op, dim.expr.numbers, [*map(self.of_dim, dim.expr.dims)])
        return f"dim {dim.name} {dim.dimension} {dim.kind} {made}"

    def of(self, x):
        if isinstance(x, rf.Dim):
            return self.of_dim(x)
        if isinstance(x, rf.Tensor):
            return [[*map(self.of, x.dims)], x.dtype, self.of(x.feature_dim), self.of(x.sparse_dim)]
        if isinstance(x, dict):
            return [(self.of(key), self.of(value)) for key, value in x.items()]
        if isinstance(x, list | tuple):
            return [*map(self.of, x)]
        if isinstance(x, bool | int | float | None):
            return x
        if isinstance(x, str):
            return x if not x.startswith("/") else "a file"
        if isinstance(x, NetNode | Layer) or (dataclasses.is_dataclass(x) and type(x).__name__ != "RecNet"):
            if any(x is other for other in self.met):
                return "as above"
            self.met.append(x)
            hidden = ("pool", "described", "nets", "inner")
            return [type(x).__name__, *((key, self.of(y)) for key, y in vars(x).items() if key not in hidden)]
        return type(x).__name__


def described(net):
    """Every layer with its options and decisions, templates and states."""
    description = Description()
    return [(path, description.of(node)) for path, node in every_node(net._nodes).items()]


@pytest.fixture
def twice(monkeypatch):
    """A function that constructs, and once more with other numbers that stand for sizes."""

    def construct_twice(construct):
        first, numbers = construct(), {}
        monkeypatch.setattr(axes, "symbol", lambda dim: drawn(numbers.setdefault(dim, len(numbers))))
        return first, construct()

    return construct_twice


@pytest.mark.parametrize("file", CASES, ids=[f"{file.parent.name}/{file.stem}" for file in CASES])
def test_recorded_nets_are_the_same_whatever_stands_for_sizes(file, twice):
    case = Case(file.stem, file.parent)
    flags = {f"{name}_flag": value for name, value in case.case["flags"].items()}

    def construct():
        case.dims = {}
        extern = rf.ExternData(case.read(case.case["extern_data"]))
        config = {"behavior_version": case.case["behavior_version"], **(case.case.get("config") or {})}
        net = rf.Network(config, extern, device="meta", **flags)
        return described(net.construct_from_dict(case.read(case.case["net_dict"])))

    first, second = twice(construct)
    assert first == second


@pytest.mark.parametrize("name", CONFIGS)
def test_configs_are_the_same_whatever_stands_for_sizes(name, twice, tmp_path):
    path = tmp_path / "published.config"
    path.write_text(CONFIGS[name])

    def construct():
        net = rf.Network.from_config(path, device="meta")
        return described(net), str(net.report())

    first, second = twice(construct)
    assert first == second


EXTERN = {"data": {"dim": 5}, "wave": {"shape": (None, 1)}, "classes": {"dim": 3, "sparse": True}}


def test_a_template_shows_no_sizes_that_come_with_the_batch():
    net = rf.Network(extern_data=rf.ExternData(EXTERN))
    net.construct_from_dict({"output": {"class": "pool", "mode": "max", "pool_size": 2, "from": "data"}})
    assert net.template("output").describe_dims() == "{batch:?, ⌈(data-1)/2⌉:?, feature:5}"


def test_lengths_of_templates_are_not_read():
    net = rf.Network(extern_data=rf.ExternData(EXTERN))
    x = net.construct_from_dict({"output": {"class": "copy", "from": "data"}}).template("output")
    for read in (lambda n: n.tolist(), np.asarray, lambda n: n[0].item(), int):
        with pytest.raises(BackendError, match="no batch"):
            read(x.size_of(x.dims[1]).values)


@pytest.mark.parametrize("unit", ["gru", "rhn"])
def test_a_loop_without_a_batch_takes_one_step_for_all(unit, monkeypatch):
    outcomes = []
    monkeypatch.setattr(
        run_body, "execute", lambda *args, **kwargs: outcomes.append(execute(*args, **kwargs)) or outcomes[-1]
    )
    net = rf.Network(extern_data=rf.ExternData(EXTERN))
    net.construct_from_dict({"output": {"class": "rec", "unit": unit, "n_out": 4, "from": "data"}})
    (rows,) = outcomes[0].outputs
    assert outcomes[0].steps == len(rows) >= 1000 and len({*map(id, rows)}) == 1


LONG = {
    "conv": {"class": "conv", "n_out": 4, "filter_size": (31,), "strides": 3, "padding": "valid", "from": "data"},
    "pool": {"class": "pool", "mode": "max", "pool_size": (40,), "padding": "valid", "from": "data"},
    "gather": {"class": "gather", "axis": "T", "position": 3000, "from": "data"},
    "slice": {"class": "slice", "axis": "T", "slice_start": 3000, "from": "data"},
    "slice_nd": {"class": "slice_nd", "start": 3000, "size": 4000, "from": "data"},
    "window": {"class": "window", "window_size": 5000, "padding": "valid", "from": "data"},
}
"""Layers that need many frames."""


@pytest.mark.parametrize("name", LONG)
def test_how_many_frames_a_layer_needs_stops_no_construction(name):
    net = rf.Network(extern_data=rf.ExternData(EXTERN), train_flag=False)
    net.construct_from_dict({"output": LONG[name]})
    assert not net.report().of("stops")

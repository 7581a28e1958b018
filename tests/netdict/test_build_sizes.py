"""The construction of a net depends on no size of a batch: with any made-up lengths, templates are the same."""

import pytest

import rfnb as rf
from rfnb.netdict import build
from rfnb.netdict.loops import build as loops_build
from tests.netdict.test_goldens import CASES, Case
from tests.netdict.test_network_configs_kinds import CONFIGS

LENGTHS = [[1, 1, 1], [331, 330, 77], [2, 1, 1]]


@pytest.fixture
def other_lengths(monkeypatch):
    """A function that lets dims have other lengths from now on: one frame, many frames, few."""

    def change():
        dims = {}

        def made_up(dim):
            return LENGTHS[dims.setdefault(dim, len(dims)) % len(LENGTHS)]

        for module in (build, loops_build):
            monkeypatch.setattr(module, "made_up", made_up)

    return change


def of_dim(dim):
    made = None if dim.expr is None else (dim.expr.op, dim.expr.numbers, [part.name for part in dim.expr.dims])
    return dim.name, dim.dimension, dim.kind, made


def described(net):
    """The templates of a net by path, without sizes that come with the data."""
    return {
        path: ([*map(of_dim, x.dims)], x.dtype, x.feature_dim and x.dims.index(x.feature_dim), x.sparse_dim is None)
        for path, x in net.templates().items()
    }


@pytest.mark.parametrize("file", CASES, ids=[f"{file.parent.name}/{file.stem}" for file in CASES])
def test_recorded_nets_have_the_same_templates_with_any_lengths(file, other_lengths):
    case = Case(file.stem, file.parent)
    flags = {f"{name}_flag": value for name, value in case.case["flags"].items()}

    def construct():
        case.dims = {}
        extern = rf.ExternData(case.read(case.case["extern_data"]))
        config = {"behavior_version": case.case["behavior_version"], **(case.case.get("config") or {})}
        net = rf.Network(config, extern, device="meta", **flags)
        return described(net.construct_from_dict(case.read(case.case["net_dict"])))

    expected = construct()
    other_lengths()
    assert construct() == expected


@pytest.mark.parametrize("name", CONFIGS)
def test_configs_have_the_same_templates_with_any_lengths(name, other_lengths, tmp_path):
    path = tmp_path / "published.config"
    path.write_text(CONFIGS[name])
    expected = described(rf.Network.from_config(path, device="meta"))
    other_lengths()
    assert described(rf.Network.from_config(path, device="meta")) == expected

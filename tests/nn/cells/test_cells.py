"""Recurrent cells against numbers of the reference, torch, numpy and finite differences."""

from __future__ import annotations

import json
import sys
from functools import partial
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.nn.cells.cell import CELLS as cell_classes

GOLDEN = Path(__file__).parents[2] / "golden"
CASES = {case["name"]: case for case in json.loads((GOLDEN / "cells.json").read_text(encoding="utf-8"))}


# -- the reference


@pytest.fixture(scope="module")
def arrays():
    return dict(np.load(GOLDEN / "cells.npz"))


class Case:
    """A golden case: its arrays, and the dims to read them with."""

    def __init__(self, name, arrays):
        self.row = CASES[name]
        prefix = f"{name}/"
        self.arrays = {key.removeprefix(prefix): a for key, a in arrays.items() if key.startswith(prefix)}
        self.time = rf.Dim(None, name="time")
        self.inp = rf.Dim(6 if self.sparse else self["data"].shape[2], name="in")
        self.out = rf.Dim(self.row["n_out"], name="out")
        self.lengths = self["lengths"]
        self.x = self.over_time("data", self.inp)

    @property
    def sparse(self):
        return self["data"].ndim == 2

    def __getitem__(self, key):
        return self.arrays[key]

    def over_time(self, key, feat):
        if self.sparse:
            return rf.convert_to_tensor(self[key], dims=[batch_dim, self.time], sparse_dim=feat, lengths=self.lengths)
        return rf.convert_to_tensor(self[key], dims=[batch_dim, self.time, feat], lengths=self.lengths)

    def params(self, prefix="param/"):
        """By the names that they have in a net dict."""
        return {key.removeprefix(prefix): a for key, a in self.arrays.items() if key.startswith(prefix)}

    def close(self, found, key, dims, **tolerance):
        found = found.copy_masked(0.0).copy_transpose(dims).raw_tensor.detach().numpy()
        np.testing.assert_allclose(found, self[key], **{"rtol": 1e-4, "atol": 1e-5, **tolerance})


NORMS = {
    "input_below": "input_norm",
    "state_below": "state_norm",
    "lstm_in": "joined_norm",
    "new_c": "cell_norm",
    "new_h": "hidden_norm",
    **{f"{gate}_gate": f"{gate}_norm" for gate in "ijfo"},
}


def translated(params, n_in):
    """Parameters of a net dict by the names of the cell here."""
    found = {}
    for name, value in params.items():
        first, _, rest = name.partition("_")
        if name in ("b", "bias_ff") or name.endswith(("lstm_cell/bias", "rnn_cell/bias")):
            found["bias"] = value
        elif name in ("W", "W_ff"):
            found["ff_weight"] = value
        elif name == "W_re":
            found["rec_weight"] = value
        elif name == "W_ff_re" or name.endswith(("lstm_cell/kernel", "rnn_cell/kernel")):
            found["ff_weight"], found["rec_weight"] = value[:n_in], value[n_in:]
        elif name.startswith("rhn_cell/depth_"):
            found[f"layers.{name.split('_')[2].split('/')[0]}.weight"] = value
        elif first in ("gamma", "beta"):
            found[f"{NORMS[rest]}.{'scale' if first == 'gamma' else 'bias'}"] = value
    if "gru_cell/gates/bias" in params:
        gates, candidate = params["gru_cell/gates/kernel"], params["gru_cell/candidate/kernel"]
        found["ff_weight"] = np.concatenate([gates[:n_in], candidate[:n_in]], axis=1)
        found["rec_weight"], found["candidate_weight"] = gates[n_in:], candidate[n_in:]
        found["bias"] = np.concatenate([params["gru_cell/gates/bias"], params["gru_cell/candidate/bias"]])
    return found


def laid_out(value, parameter, cell):
    """As the parameter has its axes: LSTMs without norms have theirs as torch does, [out, in]."""
    as_torch = isinstance(cell, rf.VanillaLSTM | rf.BasicLSTM | rf.ZoneoutLSTM) and value.ndim == 2
    value = value.T if as_torch else value
    assert parameter.raw_tensor.shape == value.shape
    return value


def cell_of(case, in_dim):
    options = dict(case.row["options"])
    if not case.row.get("input_projection", True):
        options["input_projection"] = False
    cell = rf.make_cell(case.row["unit"], in_dim, case.out, **options)
    own = {name: a for name, a in case.params().items() if not name.startswith(("out/", "pre/"))}
    values = translated(own, in_dim.dimension)
    parameters = dict(cell.named_parameters())
    assert parameters.keys() == values.keys()
    for name, parameter in parameters.items():
        parameter.raw_tensor.data = torch.tensor(laid_out(values[name], parameter, cell))
    return cell


def initial(cell, case):
    state = cell.default_initial_state(batch_dims=[batch_dim])
    given = case.row.get("initial_state", {})
    for name in state:
        if given == "ones" or (given and given[name] == "ones"):
            state[name] = rf.ones_like(state[name])
    return state


def reversed_in_time(x, case):
    return rf.reverse_sequence(x, axis=case.time) if case.row["direction"] == -1 else x


ALONE = [name for name, case in CASES.items() if not case["in_loop"]]
IN_LOOP = [name for name, case in CASES.items() if case["in_loop"]]


@pytest.mark.parametrize("name", ALONE)
def test_a_sequence_as_in_the_reference(name, arrays):
    case = Case(name, arrays)
    x, in_dim = case.x, case.inp
    if not case.row.get("input_projection", True):
        in_dim = rf.Dim(4 * case.out.dimension, name="gates")
        project = rf.convert_to_tensor(case["param/pre/W"], dims=[case.inp, in_dim])
        x = rf.matmul(x, project, reduce=case.inp)
    cell = cell_of(case, in_dim)
    y, state = cell(reversed_in_time(x, case), state=initial(cell, case), spatial_dim=case.time)
    case.close(reversed_in_time(y, case), "out", [batch_dim, case.time, case.out])
    if "last" in case.row:
        wanted = {"*": sorted(state), "h": ["h"], "c": ["c"]}[case.row["last"]]
        last, dim = rf.concat(*((state[part], case.out) for part in wanted))
        case.close(last, "last", [batch_dim, dim])


@pytest.mark.parametrize("name", IN_LOOP)
def test_a_step_of_a_loop_as_in_the_reference(name, arrays):
    case = Case(name, arrays)
    fed_back = rf.Dim(3, name="fed_back")
    both = case.inp + fed_back
    case.row["unit"] = {"LSTMBlock": "StandardLSTM"}.get(case.row["unit"], case.row["unit"])
    cell = cell_of(case, both)
    out = rf.Linear(case.out, fed_back)
    out.weight.raw_tensor.data = torch.tensor(case["param/out/W"])
    out.bias.raw_tensor.data = torch.tensor(case["param/out/b"])

    loop = rf.Loop(axis=case.time)
    loop.state.cell = cell.default_initial_state(batch_dims=[batch_dim])
    loop.state.y = rf.zeros([batch_dim, fed_back])
    with loop:
        x, _ = rf.concat((loop.unstack(case.x), case.inp), (loop.state.y, fed_back), out_dim=both)
        h, loop.state.cell = cell(x, state=loop.state.cell, spatial_dim=rf.single_step_dim)
        loop.state.y = rf.tanh(out(h))
        y = loop.stack(loop.state.y)
    case.close(y, "out", [batch_dim, case.time, fed_back])


def test_gradients_as_in_the_reference(arrays):
    case = Case("cell_rhn_bwd_grad", arrays)
    cell = cell_of(case, case.inp)
    target = rf.convert_to_tensor(case["target"], dims=[batch_dim, case.time, case.out])
    y, _ = cell(reversed_in_time(case.x, case), state=initial(cell, case), spatial_dim=case.time)
    difference = rf.squared_difference(reversed_in_time(y, case), target)
    total = rf.reduce_sum(rf.reduce_mean(difference, axis=case.out), axis=[batch_dim, case.time])
    total.raw_tensor.backward()
    np.testing.assert_allclose(total.raw_tensor.item(), case["loss"], rtol=1e-4)
    expected = translated(case.params("grad/"), case.inp.dimension)
    for name, parameter in cell.named_parameters():
        np.testing.assert_allclose(parameter.raw_tensor.grad.numpy(), expected[name], rtol=1e-3, atol=1e-4)


# -- torch, numpy, finite differences

IN, OUT, TIME, BATCH = (rf.Dim(n, name=name) for n, name in [(3, "in"), (4, "out"), (6, "time"), (2, "batch")])
CELLS = {
    "BasicRNN": rf.BasicRNN,
    "BasicRNN relu": lambda i, o: rf.BasicRNN(i, o, activation=rf.relu),
    "GRU": rf.GRU,
    "RHN": lambda i, o: rf.RHN(i, o, depth=2),
    "VanillaLSTM": rf.VanillaLSTM,
    "BasicLSTM": rf.BasicLSTM,
    "BasicLSTM no bias": lambda i, o: rf.BasicLSTM(i, o, with_bias=False),
    "ZoneoutLSTM": lambda i, o: rf.ZoneoutLSTM(i, o, zoneout_factor_cell=0.2, zoneout_factor_output=0.3),
    "LayerNormVariantsLSTM": rf.LayerNormVariantsLSTM,
    "LayerNormVariantsLSTM joined": lambda i, o: rf.LayerNormVariantsLSTM(
        i, o, global_norm=False, global_norm_joined=True, hidden_norm=True
    ),
}


def is_global(cls):
    """Whether a module has the class, other than those of examples in docstrings."""
    return getattr(sys.modules[cls.__module__], cls.__name__, None) is cls


def test_every_cell_is_in_the_table():
    ours = {cls for cls in cell_classes.values() if cls.__module__.startswith("rfnb.") and is_global(cls)}
    assert ours == {type(make(IN, OUT)) for make in CELLS.values()}


@pytest.fixture
def float64():
    with rf.set_default_float_dtype_ctx("float64"):
        yield


def at_random(module):
    torch.manual_seed(3)
    for parameter in module.parameters():
        torch.nn.init.normal_(parameter.raw_tensor, std=0.5)
    return module


def numbers(*dims, seed=4):
    generator = torch.Generator().manual_seed(seed)
    raw = torch.randn([dim.dimension for dim in dims], dtype=torch.float64, generator=generator)
    return rf.convert_to_tensor(raw, dims=dims)


def run(cell, x, time, **state):
    first = cell.default_initial_state(batch_dims=[d for d in x.dims if d not in (time, cell.in_dim)])
    return cell(x, state=type(first)({**first, **state}), spatial_dim=time)


def raw(x, *dims):
    return x.copy_transpose(dims).raw_tensor.detach()


@pytest.mark.usefixtures("float64")
def test_basic_rnn_as_torch():
    rnn = at_random(rf.BasicRNN(IN, OUT))
    same = torch.nn.RNN(3, 4, dtype=torch.float64)
    same.weight_ih_l0.data, same.weight_hh_l0.data = (p.raw_tensor.data.t() for p in (rnn.ff_weight, rnn.rec_weight))
    same.bias_ih_l0.data, same.bias_hh_l0.data = rnn.bias.raw_tensor.data, torch.zeros(4, dtype=torch.float64)
    x = numbers(TIME, IN)
    y, state = run(rnn, x, TIME)
    expected, last = same(x.raw_tensor)
    torch.testing.assert_close(raw(y, TIME, OUT), expected.detach())
    torch.testing.assert_close(raw(state.h, OUT), last[0].detach())


@pytest.mark.usefixtures("float64")
def test_gru_as_torch_where_the_reset_gate_may_be_on_either_side():
    gru = at_random(rf.GRU(IN, OUT))
    with torch.no_grad():
        gru.candidate_weight.raw_tensor.mul_(torch.eye(4))  # diagonal: U·(r ⊙ h) = r ⊙ (U·h)
    same = torch.nn.GRU(3, 4, dtype=torch.float64)
    same.weight_ih_l0.data, same.bias_ih_l0.data = gru.ff_weight.raw_tensor.data.t(), gru.bias.raw_tensor.data
    same.weight_hh_l0.data = torch.cat([gru.rec_weight.raw_tensor.data, gru.candidate_weight.raw_tensor.data], 1).t()
    same.bias_hh_l0.data.zero_()
    x, h = numbers(TIME, IN), numbers(OUT, seed=5)
    y, _ = run(gru, x, TIME, h=h)
    torch.testing.assert_close(raw(y, TIME, OUT), same(x.raw_tensor, h.raw_tensor[None])[0].detach())


@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("order", ["ifco", "icfo", "ojif", "gifo"])
@pytest.mark.parametrize("with_bias", [True, False])
@pytest.mark.parametrize("use_zoneout_output", [True, False])
def test_zoneout_lstm_as_numpy(order, with_bias, use_zoneout_output):
    options = {"zoneout_factor_cell": 0.2, "zoneout_factor_output": 0.3, "forget_bias": 0.7}
    lstm = rf.ZoneoutLSTM(
        IN, OUT, parts_order=order, with_bias=with_bias, use_zoneout_output=use_zoneout_output, **options
    )
    at_random(lstm)
    w, u = (p.raw_tensor.detach().numpy() for p in (lstm.ff_weight, lstm.rec_weight))
    b = lstm.bias.raw_tensor.detach().numpy() if with_bias else 0
    x, h, c = numbers(TIME, IN), numbers(OUT, seed=5), numbers(OUT, seed=6)
    y, state = run(lstm, x, TIME, h=h, c=c)

    h, c, outputs = h.raw_tensor.numpy(), c.raw_tensor.numpy(), []
    for frame in x.raw_tensor.numpy():
        part = dict(zip(order, np.split(w @ frame + u @ h + b, 4), strict=True))
        j = part.get("c", part.get("j", part.get("g")))
        i, f, o = (1 / (1 + np.exp(-z)) for z in (part["i"], part["f"] + 0.7, part["o"]))
        new_c = f * c + i * np.tanh(j)
        new_h = o * np.tanh(new_c)
        c, h = 0.8 * new_c + 0.2 * c, 0.7 * new_h + 0.3 * h
        outputs.append(h if use_zoneout_output else new_h)
    np.testing.assert_allclose(raw(y, TIME, OUT), outputs)
    np.testing.assert_allclose(raw(state.c, OUT), c)
    np.testing.assert_allclose(raw(state.h, OUT), h)


@pytest.mark.usefixtures("inference")
@pytest.mark.usefixtures("float64")
@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_gradients_by_finite_differences(make):
    inp, out, time, pair = (rf.Dim(n, name=name) for n, name in [(2, "in"), (2, "out"), (3, "time"), (2, "pair")])
    cell = at_random(make(inp, out))
    x = numbers(pair, time, inp)
    names = list(cell.default_initial_state(batch_dims=[pair]))

    def forward(source, *states):
        given = dict(zip(names, (rf.convert_to_tensor(s, dims=[pair, out]) for s in states), strict=True))
        y, state = run(cell, rf.convert_to_tensor(source, dims=x.dims), time, **given)
        return y.raw_tensor, *(state[name].raw_tensor for name in names)

    def of_parameters(*values):
        for parameter, value in zip(cell.parameters(), values, strict=True):
            parameter.raw_tensor.data = value.data
        return forward(x.raw_tensor, *begin)

    begin = [numbers(pair, out, seed=i).raw_tensor for i, _ in enumerate(names)]
    leaves = [t.clone().requires_grad_() for t in (x.raw_tensor, *begin)]
    assert torch.autograd.gradcheck(forward, leaves, fast_mode=True)
    for parameter in cell.parameters():
        assert_gradient(
            lambda: sum(part.square().sum() for part in forward(x.raw_tensor, *begin)), parameter.raw_tensor
        )


def assert_gradient(loss, parameter, eps=1e-6):
    """Along one direction."""
    [gradient] = torch.autograd.grad(loss(), [parameter])
    direction = torch.randn_like(parameter)
    start = parameter.detach().clone()
    sides = []
    for sign in (1, -1):
        with torch.no_grad():
            parameter.copy_(start + sign * eps * direction)
        sides.append(loss().item())
    with torch.no_grad():
        parameter.copy_(start)
    torch.testing.assert_close(
        (gradient * direction).sum().item(), (sides[0] - sides[1]) / (2 * eps), rtol=1e-5, atol=1e-7
    )


@pytest.mark.parametrize("parts", [1, 2, 3, 4])
@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_an_input_dim_that_is_a_dim_of_the_cell_is_as_any_other(make, parts):
    own = OUT if parts == 1 else parts * OUT
    x, results = torch.randn(6, own.dimension), []
    for inp in own, rf.Dim(own.dimension, name="other"):
        y, _ = run(at_random(make(inp, OUT)), rf.convert_to_tensor(x, dims=[TIME, inp]), TIME)
        results.append(raw(y, TIME, OUT))
    torch.testing.assert_close(*results)


@pytest.mark.parametrize("make", CELLS.values(), ids=CELLS)
def test_states_and_outputs_are_of_the_type_of_the_cell(make):
    cell = make(IN, OUT).to(dtype="float64")
    state = cell.default_initial_state(batch_dims=[BATCH])
    assert {(x.dims, x.feature_dim, x.dtype) for x in state.values()} == {((BATCH, OUT), OUT, "float64")}
    y, state = cell(numbers(BATCH, TIME, IN), state=state, spatial_dim=TIME)
    assert {value.dtype for value in (y, *state.values())} == {"float64"}


@pytest.mark.parametrize("kind", ["BasicRNN", "GRU", "VanillaLSTM", "BasicLSTM", "ZoneoutLSTM"])
def test_without_a_bias_it_is_as_with_zeros(kind):
    cell = at_random(getattr(rf, kind)(IN, OUT))
    cell.bias.raw_tensor.data.zero_()
    plain = getattr(rf, kind)(IN, OUT, with_bias=False)
    assert [*dict(plain.named_parameters()), "bias"] == [*dict(cell.named_parameters())]
    for name, parameter in plain.named_parameters():
        parameter.assign(cell.get_deep(name))
    x = rf.random_normal([TIME, IN])
    torch.testing.assert_close(run(plain, x, TIME)[0].raw_tensor, run(cell, x, TIME)[0].raw_tensor)


def test_a_zoneout_lstm_without_zoneout_needs_no_loop():
    assert rf.ZoneoutLSTM(IN, OUT).fits_kernel
    assert not rf.ZoneoutLSTM(IN, OUT, zoneout_factor_cell=0.1).fits_kernel


# -- training


@pytest.fixture
def training():
    rf.set_random_seed(7)
    return rf.init_train_step_run_ctx(train_flag=True)


MANY = rf.Dim(500, name="many")


@pytest.mark.usefixtures("training")
def test_zoneout_keeps_units_in_training():
    lstm = at_random(rf.ZoneoutLSTM(IN, OUT, zoneout_factor_cell=0.2, zoneout_factor_output=0.6))
    x, h, c = (numbers(MANY, dim, seed=i) for i, dim in enumerate([IN, OUT, OUT]))
    with rf.set_default_float_dtype_ctx("float64"):
        lstm.to(dtype="float64")
    old = rf.LstmState(h=h, c=c)
    y, state = lstm(x, state=old, spatial_dim=rf.single_step_dim)
    with rf.get_run_ctx().train_flag_ctx(False):
        plain = rf.ZoneoutLSTM(IN, OUT)
        for name, parameter in lstm.named_parameters():
            getattr(plain, name).raw_tensor.data = parameter.raw_tensor.data
        new, new_state = plain(x, state=old, spatial_dim=rf.single_step_dim)
    assert y is state.h or torch.equal(raw(y, MANY, OUT), raw(state.h, MANY, OUT))
    for part, factor in (("c", 0.2), ("h", 0.6)):
        found, before, after = (raw(s[part], MANY, OUT) for s in (state, old, new_state))
        kept, renewed = torch.isclose(found, before), torch.isclose(found, after)
        assert (kept | renewed).all()
        assert abs(kept.float().mean().item() - factor) < 0.05
    assert new.dims_set == {MANY, OUT}


@pytest.mark.usefixtures("training")
@pytest.mark.parametrize("factor", [0.0, 1.0])
def test_zoneout_of_none_and_of_all(factor):
    lstm = at_random(rf.ZoneoutLSTM(IN, OUT, zoneout_factor_cell=factor, zoneout_factor_output=factor))
    x, first = rf.random_normal([TIME, IN]), rf.random_normal([OUT])
    y, state = run(lstm, x, TIME, h=first, c=first)
    assert torch.isfinite(y.raw_tensor).all()
    assert torch.equal(state.c.raw_tensor, first.raw_tensor) == (factor == 1.0)


@pytest.mark.usefixtures("training")
def test_each_step_of_a_sequence_has_its_own_zoneout():
    lstm = at_random(rf.ZoneoutLSTM(IN, OUT, zoneout_factor_output=0.5))
    y, _ = run(lstm, rf.random_normal([MANY, TIME, IN]), TIME)
    y = raw(y, TIME, MANY, OUT)
    kept = y[1:] == y[:-1]
    assert abs(kept.float().mean().item() - 0.5) < 0.05
    assert 0.15 < (kept[0] & kept[1]).float().mean().item() < 0.35


class Shown(rf.RecCell):
    """Gives the entries of its h which are not dropped."""

    def __init__(self, in_dim, out_dim, *, dropout):
        super().__init__(in_dim, out_dim)
        self.recurrent_dropout = dropout

    def step(self, x, state):
        return self.dropped(state.h * 0 + 1, state), rf.State(state)


@pytest.mark.usefixtures("training")
def test_one_recurrent_dropout_mask_for_all_steps():
    cell = Shown(OUT, OUT, dropout=0.25)
    y, state = run(cell, rf.ones([MANY, TIME, OUT]), TIME)
    y = raw(y, TIME, MANY, OUT)
    assert (y == y[0]).all()
    assert torch.allclose(y[0].unique(), torch.tensor([0.0, 1 / 0.75]))
    assert abs((y[0] == 0).float().mean().item() - 0.25) < 0.05
    again, _ = cell(rf.ones([MANY, OUT]), state=state, spatial_dim=rf.single_step_dim)
    assert torch.equal(raw(again, MANY, OUT), y[0])  # the state goes on with its mask


@pytest.mark.usefixtures("training")
def test_rhn_drops_what_is_multiplied_with_weights_only():
    rhn = at_random(rf.RHN(IN, OUT, depth=2, dropout=0.5))
    x, h = rf.random_normal([MANY, IN]), rf.random_normal([MANY, OUT])
    state = rhn.default_initial_state(batch_dims=[MANY])
    state.h = h
    y, _ = rhn(x, state=state, spatial_dim=rf.single_step_dim)

    w, b, *us = (rhn.get_deep(name).raw_tensor for name in ("ff_weight", "bias", "layers.0.weight", "layers.1.weight"))
    s, mask = raw(h, MANY, OUT), raw(state.mask, MANY, OUT)
    assert set(mask.unique().tolist()) == {0.0, 2.0}
    for i, u in enumerate(us):
        v = (s * mask) @ u + (x.raw_tensor @ w + b if i == 0 else 0)
        s = s + torch.sigmoid(v[:, 4:]) * (torch.tanh(v[:, :4]) - s)
    torch.testing.assert_close(raw(y, MANY, OUT), s.detach())


@pytest.mark.usefixtures("training")
@pytest.mark.parametrize("option", ["dropout", "dropout_h"])
def test_dropout_of_the_layer_norm_lstm(option):
    lstm = at_random(rf.LayerNormVariantsLSTM(IN, OUT, **{option: 0.5}))
    x = rf.random_normal([MANY, TIME, IN])
    y, _ = run(lstm, x, TIME)
    other, _ = run(lstm, x, TIME)
    assert not torch.allclose(y.raw_tensor, other.raw_tensor)
    with rf.get_run_ctx().train_flag_ctx(False):
        plain, _ = run(lstm, x, TIME)
        same, _ = run(lstm, x, TIME)
    assert torch.equal(plain.raw_tensor, same.raw_tensor)


@pytest.mark.usefixtures("training")
def test_a_step_of_the_layer_norm_lstm_without_its_norms():
    options = {"global_norm": False, "cell_norm": False, "activation": rf.relu, "dropout": 0.5}
    lstm = at_random(rf.LayerNormVariantsLSTM(IN, OUT, **options))
    x, h, c = (rf.random_normal([MANY, dim]) for dim in (IN, OUT, OUT))
    y, state = lstm(x, state=rf.LstmState(h=h, c=c), spatial_dim=rf.single_step_dim)

    w, u, b = (p.raw_tensor.detach() for p in (lstm.ff_weight, lstm.rec_weight, lstm.bias))
    i, j, f, o = (x.raw_tensor @ w + h.raw_tensor @ u + b).chunk(4, 1)
    new_c = raw(state.c, MANY, OUT)
    kept = (new_c - f.sigmoid() * c.raw_tensor) / i.sigmoid()
    whole = torch.isclose(kept, 2 * j.relu(), atol=1e-4)[j > 0]
    assert (whole | torch.isclose(kept, torch.tensor(0.0), atol=1e-4)[j > 0]).all()
    assert abs(whole.float().mean().item() - 0.5) < 0.05
    assert len({tuple(row) for row in (kept.abs() > 1e-4).tolist()}) > 8  # each frame has its own
    torch.testing.assert_close(raw(y, MANY, OUT), o.sigmoid() * new_c.relu())


@pytest.mark.usefixtures("training")
@pytest.mark.parametrize("make", [partial(rf.RHN, dropout=0.5), partial(rf.LayerNormVariantsLSTM, dropout_h=0.5)])
def test_a_state_has_a_mask_if_something_is_dropped(make):
    cell, x = make(IN, OUT), rf.random_normal([BATCH, TIME, IN])
    first = cell.default_initial_state(batch_dims=[BATCH])
    _, last = cell(x, state=first, spatial_dim=TIME)
    assert set(first) == set(last) == {*cell.state_parts, "mask"}
    assert torch.equal(raw(first.mask, BATCH, OUT), raw(last.mask, BATCH, OUT))
    for off in {}, {"func": rf.dropout}:
        with rf.get_run_ctx().train_flag_ctx(False, **off):
            first = cell.default_initial_state(batch_dims=[BATCH])
            _, last = cell(x, state=first, spatial_dim=TIME)
        assert set(first) == set(last) == set(cell.state_parts)


@pytest.mark.usefixtures("training")
def test_a_state_without_its_mask_is_told():
    rhn = rf.RHN(IN, OUT, dropout=0.5)
    with pytest.raises(rf.errors.ParameterError, match=r"default_initial_state"):
        rhn(rf.ones([IN]), state=rf.State(h=rf.zeros([OUT])), spatial_dim=rf.single_step_dim)


# -- names and values at first


@pytest.mark.parametrize(
    ("name", "cls"),
    [
        ("GRU", rf.GRU),
        ("grucell", rf.GRU),
        ("BasicRNNCell", rf.BasicRNN),
        ("rhn", rf.RHN),
        ("LayerNormVariantsLSTMCell", rf.LayerNormVariantsLSTM),
        ("NativeLstm2", rf.VanillaLSTM),
        ("lstm", rf.VanillaLSTM),
        ("LSTMCell", rf.VanillaLSTM),
        *((name, rf.VanillaLSTM) for name in ("LSTMP", "NativeLSTM", "LSTMBlock", "LSTMBlockFused", "CudnnLSTM")),
        ("standardlstm", rf.BasicLSTM),
        ("ZoneoutLSTM", rf.ZoneoutLSTM),
    ],
)
def test_cells_by_name(name, cls):
    assert type(rf.make_cell(name, IN, OUT)) is cls


def test_a_cell_with_a_parametrization_is_no_new_class():
    rf.weight_noise(rf.BasicRNN(IN, OUT), "rec_weight", std=0.1)
    cell = rf.make_cell("BasicRNN", IN, OUT)
    assert type(cell) is rf.BasicRNN and not rf.is_parametrized(cell)


def test_a_new_class_is_known_by_its_name():
    class SumOfAllCell(rf.RecCell, names=["Total"]):
        def step(self, x, state):
            h = state.h + x
            return h, rf.State(h=h)

    for name in ("sumofall", "SumOfAllCell", "TOTAL"):
        y, _ = run(rf.make_cell(name, IN, IN), rf.ones([TIME, IN]), TIME)
        assert y.raw_tensor[:, 0].tolist() == [1, 2, 3, 4, 5, 6]


def test_an_unknown_cell_is_told_with_the_nearest_name():
    with pytest.raises(rf.errors.ParameterError, match="did you mean 'gru'"):
        rf.make_cell("grux", IN, OUT)
    with pytest.raises(rf.errors.ParameterError, match="there is no cell '_lstm'"):
        rf.make_cell("_lstm", IN, OUT)


def test_options_of_a_cell_take_precedence_over_its_defaults():
    cell = rf.make_cell("ZoneoutLSTM", IN, OUT, forget_bias=0.25)
    assert (cell.forget_bias, cell.parts_order) == (0.25, "ijfo")


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: rf.ZoneoutLSTM(IN, OUT, parts_order="ifc"), "parts_order"),
        (lambda: rf.ZoneoutLSTM(IN, OUT, parts_order="iffo"), "parts_order"),
        (lambda: rf.ZoneoutLSTM(IN, OUT, zoneout_factor_cell=1.5), "probability"),
        (lambda: rf.ZoneoutLSTM(IN, OUT, zoneout_factor_output=-0.5), "probability"),
        (lambda: rf.LayerNormVariantsLSTM(IN, OUT, per_gate_norm=True), "exclude"),
        (lambda: rf.LayerNormVariantsLSTM(IN, OUT, global_norm_joined=True), "exclude"),
        (lambda: rf.LayerNormVariantsLSTM(IN, OUT, with_concat=True), "exclude"),
        (lambda: rf.VanillaLSTM(IN, OUT, input_projection=False), "input projection"),
    ],
)
def test_options_that_do_not_fit(make, message):
    with pytest.raises(rf.errors.ParameterError, match=message):
        make()


def values(parameter):
    return parameter.raw_tensor.tolist()


def test_values_before_training():
    assert values(rf.GRU(IN, OUT).bias) == [1] * 8 + [0] * 4
    assert values(rf.RHN(IN, OUT, transform_bias=-2.0).bias) == [0] * 4 + [-2] * 4
    norms = {"norm_gain": 2.0, "norm_shift": 0.5, "forget_bias": 1.0}
    lstm = rf.LayerNormVariantsLSTM(IN, OUT, **norms)
    assert values(lstm.input_norm.bias) == [0.5] * 8 + [1.5] * 4 + [0.5] * 4
    assert values(lstm.state_norm.scale) == [2] * 16
    assert lstm.state_norm.bias is None and lstm.bias is None
    lstm = rf.LayerNormVariantsLSTM(IN, OUT, global_norm=False, cell_norm=False, forget_bias=1.0)
    assert values(lstm.bias) == [0] * 8 + [1] * 4 + [0] * 4
    lstm = rf.LayerNormVariantsLSTM(IN, OUT, global_norm=False, global_norm_joined=True, **norms)
    assert values(lstm.joined_norm.bias) == [0.5] * 8 + [1.5] * 4 + [0.5] * 4
    lstm = rf.LayerNormVariantsLSTM(IN, OUT, global_norm=False, per_gate_norm=True, **norms)
    assert [values(getattr(lstm, f"{gate}_norm").bias)[0] for gate in "ijfo"] == [0.5, 0.5, 1.5, 0.5]
    assert values(rf.BasicLSTM(IN, OUT).bias) == [0] * 16


def test_labels_count_as_one_hot():
    letter = rf.Dim(5, name="letter")
    labels = rf.convert_to_tensor([[0, 4, 2]], dims=[batch_dim, rf.Dim(None, name="time")], sparse_dim=letter)
    for cell in (rf.LSTM(letter, OUT), *(make(letter, OUT) for make in CELLS.values())):
        at_random(cell)
        y, _ = run(cell, labels, labels.dims[1])
        same, _ = run(cell, rf.one_hot(labels), labels.dims[1])
        torch.testing.assert_close(*(raw(z, batch_dim, labels.dims[1], OUT) for z in (y, same)))


# -- views


@pytest.mark.parametrize(
    ("make", "names"),
    [
        (lambda: rf.GRU(IN, OUT), "x gates r u c h"),
        (lambda: rf.RHN(IN, OUT), "x v v_h v_t h"),
        (lambda: rf.ZoneoutLSTM(IN, OUT, zoneout_factor_cell=0.1, parts_order="cofi"), "x gates i f o c h"),
        (lambda: rf.LayerNormVariantsLSTM(IN, OUT), "x gates i j f o c normalized h"),
    ],
)
def test_values_of_a_step_are_called_as_the_cell_calls_them(make, names):
    cell, x = make(), rf.random_normal([TIME, IN])
    with rf.recording("last"):
        _, state = run(cell, x, TIME)
    recorded = rf.runs[cell.get_default_name()]
    step = recorded[recorded.steps - 1]
    found = {value.name: value for value in step.values()}
    assert set(names.split()) <= found.keys()
    assert step.check == "replay agrees"
    torch.testing.assert_close(step.after.h.raw_tensor, state.h.raw_tensor)
    if "o" in found and "c" in found and "normalized" not in found:  # of the LSTM as in its paper
        torch.testing.assert_close(step.h.raw_tensor, step.o.raw_tensor * torch.tanh(step.c.raw_tensor))


def test_names_of_a_cell_stay_out_of_the_users_loop():
    gru, x = rf.GRU(IN, OUT), rf.random_normal([TIME, IN])
    with rf.recording("last"):
        loop = rf.Loop(axis=TIME, name="mine")
        loop.state.gru = gru.default_initial_state(batch_dims=[])
        with loop:
            mine, loop.state.gru = gru(loop.unstack(x), state=loop.state.gru, spatial_dim=rf.single_step_dim)
            loop.stack(mine)
    assert not {"r", "u", "c"} & {value.name for value in rf.runs["mine"][0].values()}


def test_a_cell_shows_its_parameters_and_its_loop():
    gru = rf.GRU(IN, OUT)
    assert "candidate_weight {out(1):4, out:4}" in str(rf.show(gru))
    state = gru.default_initial_state(batch_dims=[])
    graph = str(rf.show(gru, rf.random_normal([TIME, IN]), state=state, spatial_dim=TIME))
    assert "↻ h" in graph and "r {out:4}, u {out:4}" in graph


# -- states of other modules

FEAT, HERE, THERE = (rf.Dim(n, name=name) for n, name in [(3, "feat"), (4, "here"), (4, "there")])
LIKE_LSTM = ["LSTM", "VanillaLSTM", "LayerNormVariantsLSTM"]


def state_of(kind, dim=HERE):
    return getattr(rf, kind)(FEAT, dim).default_initial_state(batch_dims=[batch_dim])


@pytest.mark.parametrize("single", [True, False])
@pytest.mark.parametrize(
    ("kind", "state", "words"),
    [
        *((kind, lambda: state_of("GRU"), "it has no 'c'") for kind in LIKE_LSTM),
        *((kind, lambda: state_of("LSTM", THERE), "'h' is .*, without here") for kind in LIKE_LSTM),
        *((kind, rf.State, r"(?s)it has no 'h'.*nothing.*default_initial_state") for kind in [*LIKE_LSTM, "GRU"]),
        *((kind, rf.LstmState, "it has no 'h'") for kind in LIKE_LSTM),
        *((kind, lambda: None, "is not an rf.State") for kind in [*LIKE_LSTM, "GRU"]),
        ("LSTM", lambda: rf.LstmState(h=torch.zeros(2, 4), c=torch.zeros(2, 4)), "not an rf.Tensor"),
        ("GRU", lambda: state_of("LSTM"), "it also has 'c'"),
        ("GRU", lambda: state_of("GRU", THERE), "'h' is .*, without here"),
        ("GRU", lambda: rf.State(h=torch.zeros(2, 4)), "not an rf.Tensor"),
    ],
)
def test_the_state_of_another_module_is_an_error(kind, state, words, single):
    x, time = rf.zeros([batch_dim, FEAT]), rf.single_step_dim
    if not single:
        time = rf.Dim(2, name="time")
        x = rf.zeros([batch_dim, time, FEAT])
    with pytest.raises(rf.errors.RfError, match=words):
        getattr(rf, kind)(FEAT, HERE)(x, state=state(), spatial_dim=time)


@pytest.mark.parametrize("dims", [batch_dim, None, 3, ["batch"]], ids=str)
@pytest.mark.parametrize("kind", ["LSTM", "GRU"])
def test_dims_of_a_state_are_a_list_of_dims(kind, dims):
    with pytest.raises(rf.errors.DimError, match="`batch_dims`"):
        getattr(rf, kind)(FEAT, HERE).default_initial_state(batch_dims=dims)


@pytest.fixture(autouse=True)
def two_sequences():
    batch_dim.bind(rf.Dim(2).static_size)

"""Runs as files: what comes back is what was recorded, bit for bit; what a stranger wrote is refused or harmless."""

from __future__ import annotations

import errno
import json
import struct

import numpy as np
import pytest
import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import RunFileError
from rfnb.trace.run.file import series
from rfnb.trace.run.file.save import FORMAT

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

HOSTILE = "<script>alert(1)</script><!--\x1b[2J"


@pytest.fixture(autouse=True)
def recorded():
    with rf.recording("all"):
        yield
    rf.runs.clear()


def ragged(rows=((1.0, 2.0, 3.0), (4.0,)), tags=None, name="time"):
    time = rf.Dim(None, name=name)
    return time, rf.convert_to_tensor([list(row) for row in rows], dims=[batch_dim, time], tags=tags)


def running_sum(**given):
    time, x = ragged(tags=["kiwi", HOSTILE])
    loop = rf.Loop(axis=time, name="sum", **given)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        x_t = loop.unstack(x)
        doubled = x_t * 2.0
        loop.state.s = loop.state.s + doubled
    return loop.run


def dtypes():
    time, x = ragged()
    loop = rf.Loop(axis=time)
    start = rf.zeros([batch_dim])
    for dtype in "float16 bfloat16 float64 int8 int64 bool complex64".split():
        loop.state[dtype] = rf.cast(start, dtype)
    with loop:
        x_t = loop.unstack(x) * 0.3 - 1e-3
        for dtype in "float16 bfloat16 float64 int8 int64 complex64".split():
            loop.state[dtype] = loop.state[dtype] + rf.cast(x_t, dtype)
        loop.state.bool = rf.logical_not(loop.state.bool)
    return loop.run


def odd_numbers():
    time, x = ragged([[float("nan"), float("inf"), -0.0]])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.unstack(x) * 1.0
    return loop.run


def labels():
    letter = rf.Dim(3, name="letter", vocab=["a", HOSTILE, "\n"])
    time, x = ragged()
    loop = rf.Loop(axis=time)
    loop.state.last = rf.zeros([batch_dim], dtype="int64", sparse_dim=letter)
    with loop:
        loop.unstack(x)
        loop.state.last = rf.full(dims=[batch_dim], fill_value=2, sparse_dim=letter)
    return loop.run


def nested():
    time, x = ragged()
    feat = rf.Dim(2, name="feat")
    loop = rf.Loop(axis=time)
    loop.state.lstm = rf.State(h=rf.zeros([batch_dim, feat]), c=[rf.zeros([feat]), rf.zeros([])])
    layer = rf.Linear(feat, feat)
    with loop:
        h = layer(loop.state.lstm.h) + loop.unstack(x)
        loop.state.lstm = rf.State(h=h, c=[loop.state.lstm.c[0] + 1.0, loop.state.lstm.c[1]])
    return loop.run


def growing():
    time, x = ragged([[1.0, 2.0, 3.0]])
    hist = rf.Dim(0, name="hist")
    loop = rf.Loop(axis=time)
    loop.state.seen = rf.zeros([batch_dim, hist])
    loop.state.hist = hist
    with loop:
        seen, loop.state.hist = rf.cum_concat_step(loop.unstack(x), prev_accum=loop.state.seen, axis=loop.state.hist)
        loop.state.seen = seen
        mean = rf.reduce_sum(seen, axis=loop.state.hist)
        loop.stack(mean)
    return loop.run


def never():
    time, x = ragged([[], []])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    return loop.run


def ends():
    loop = rf.Loop(max_seq_len=5, name="counter")
    limit = rf.convert_to_tensor([2.0, 4.0], dims=[batch_dim])
    loop.state.n = rf.zeros([batch_dim])
    with loop:
        n = loop.state.n + 1.0 + rf.random_uniform([batch_dim]) * 0.01
        loop.state.n = n
        loop.end(n > limit, include_eos=True)
    return loop.run


def derived():
    time, x = ragged(name="Zeit")
    loop = rf.Loop(axis=time)
    feat = rf.Dim(3, name="feat")
    loop.state.s = rf.zeros([batch_dim, 2 * feat + 1])
    square = rf.ones([feat.copy(match_priority=1), feat])
    with loop:
        x_t = loop.unstack(x)
        product = rf.combine_bc(square, "mul", x_t)
        loop.state.s = loop.state.s + x_t + rf.reduce_sum(product, axis=product.dims)
    return loop.run


def fails():
    time, x = ragged([[1.0, 2.0, 3.0]])
    loop = rf.Loop(axis=time, name="fails")
    loop.state.s = rf.zeros([batch_dim])

    def no(raw):
        if raw.max() == 2.0:
            raise ValueError(HOSTILE)
        return raw

    with pytest.raises(ValueError, match="script"), loop:
        before = loop.unstack(x) + 0.0 * loop.state.s
        loop.state.s = rf.raw_call(no, before, out_dims=[batch_dim])
    return loop.run


RUNS = [running_sum, dtypes, odd_numbers, labels, nested, growing, never, ends, derived, fails]


def same(a, b):
    """Bit for bit, and the same dims."""
    if isinstance(a, int) or a is None:
        return a == b
    raw = [torch.empty(x.raw_tensor.shape, dtype=x.raw_tensor.dtype).copy_(x.raw_tensor.detach()) for x in (a, b)]
    raw = [x.reshape(-1).view(torch.uint8) for x in raw]
    lengths = all(a.size_of(dim).agrees(b.size_of(dim)) for dim in a.dims)
    return a.dims == b.dims and a.dtype == b.dtype and a.sparse_dim is b.sparse_dim and lengths and torch.equal(*raw)


def facts(run):
    """What a run says of itself."""
    names = "name place source steps flags states batch tags lengths loop failed forked_at axis".split()
    return {name: getattr(run, name) for name in names}


@pytest.mark.parametrize("make", RUNS, ids=lambda make: make.__name__)
def test_what_comes_back_is_what_was_recorded(make, tmp_path):
    run = make()
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    if make is not fails:
        assert facts(again) == facts(run)
    for i in [*range(run.steps), *([run.failed.step] if run.failed else [])]:
        for name in run.states:
            assert same(run[i].before[name], again[i].before[name])
            assert i >= run.steps or same(run[i].after[name], again[i].after[name])
        for ours, theirs in zip(run[i].values(), again[i].values(), strict=True):
            assert ours[:3] == theirs[:3]
            assert same(ours.tensor, theirs.tensor)
        assert again[i].check == run[i].check
    assert [node.op for node in again.graph.all_nodes()] == [node.op for node in run.graph.all_nodes()]
    assert [node.line for node in again.graph.all_nodes()] == [node.line for node in run.graph.all_nodes()]
    if make is not fails:  # whose message is made harmless
        explanation = rf.show(run).data["explanation"]
        left_out = f"  {explanation['headline']}" if explanation else None  # a file does not contain it
        lines = [line for line in rf.show(run).text.splitlines() if line != left_out]
        assert rf.show(again).text.splitlines()[1:] == lines[1:]
        assert again.save(tmp_path / "y.rfrun").read_bytes() == (tmp_path / "x.rfrun").read_bytes()


def test_a_loaded_run_is_looked_at_like_any_other(tmp_path):
    run = running_sum()
    again = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert same(again.stack("doubled"), run.stack("doubled"))
    assert again.find(rf.when.over(5.0, "s")) == run.find(rf.when.over(5.0, "s")) == [0, 1, 2]
    assert again[1].eval("rf.reduce_max(doubled, axis=batch)").item() == 8.0
    ours = [(op.op, op.name, op.line, op.place, op.text) for op in run[1].ops()]
    assert [(op.op, op.name, op.line, op.place, op.text) for op in again[1].ops()] == ours
    for refused in (lambda: again.fork(1, s=0.0), lambda: again.gradients("s"), again[1].loops):
        with pytest.raises(RunFileError, match="rerun"):
            refused()


def test_with_the_code_at_hand_it_runs_again_with_the_same_seed(tmp_path):
    run = ends()
    loaded = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert rf.compare(loaded, loaded.rerun(ends), exact=True)
    with pytest.raises(RunFileError, match="does not contain the code"):
        loaded.rerun()


@pytest.mark.slow
def test_in_another_process_the_dims_are_new_and_the_numbers_the_same(python, tmp_path):
    import subprocess

    path = running_sum().save(tmp_path / "x.rfrun")
    code = (
        f"import rfnb as rf; run = rf.load_run({str(path)!r}); "
        "print(run[1].after.s.raw_tensor.tolist(), run.axis, run.tags[0], run.stack('doubled').dims[0] is run.axis); "
        "print(rf.batch_dim in run[1].after.s.dims, run.source.lines[0].strip(), run.replay.versions['rfnb'])"
    )
    said = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.splitlines()
    assert said == ["[6.0, 8.0] Dim{time:1–3} kiwi True", f"True with loop: {rf.__version__}"]


def test_what_is_too_large_is_told_by_its_statistics(tmp_path):
    time, x = ragged()
    feat = rf.Dim(1000, name="feat")
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        wide = rf.expand_dim(loop.unstack(x), feat) * 1.0
        loop.state.s = loop.state.s + rf.reduce_sum(wide, axis=feat)
    again = rf.load_run(loop.run.save(tmp_path / "x.rfrun", limit=4000))
    assert again[0].after.s.raw_tensor.tolist() == [1000.0, 4000.0]
    assert "wide" in again.replay.note
    wide = again[1].wide
    assert (wide.dims, wide.dtype) == (loop.run[1].wide.dims, "float32")
    assert wide.statistics.mean == pytest.approx(loop.run[1].wide.raw_tensor.mean())
    with pytest.raises(RunFileError, match=r"wide is not in the file.*μ"):
        wide.raw_tensor  # noqa: B018
    with pytest.raises(RunFileError, match="wide is not in the file"):
        again.stack("wide")
    assert "not in the file" in rf.show(again).text
    assert rf.load_run(again.save(tmp_path / "y.rfrun"))[1].wide.statistics == wide.statistics
    assert (tmp_path / "x.rfrun").stat().st_size < 12_000


@pytest.mark.parametrize("part", [1, 2, 3, 7, 100])
def test_statistics_of_parts_are_those_of_the_whole(part, monkeypatch):
    numbers = [1.0, -2.0, float("nan"), float("inf"), float("nan"), 5.0, 0.5, 1e3, float("-inf"), -7.0]
    monkeypatch.setattr(series, "PART", part)
    found = series.statistics(rf.convert_to_tensor(numbers, dims=[rf.Dim(10, name="number")]))
    finite = np.array([number for number in numbers if np.isfinite(number)])
    assert found[1:5] == pytest.approx((finite.min(), finite.mean(), finite.max(), finite.std()))
    assert (found.entries, found.nan, found.inf) == (10, 2, 2)
    assert series.statistics(rf.zeros([rf.Dim(0, name="none")])).entries == 0


@pytest.mark.parametrize("shape", [(), (3,), (2, 40)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int64", "bool", "complex64"])
def test_statistics_of_many_tensors_are_those_of_each(shape, dtype):
    draw = torch.Generator().manual_seed(1)
    raws = [(torch.randn(shape, generator=draw) * 10).to(getattr(torch, dtype)) for _ in range(50)]
    if dtype in ("float32", "bfloat16"):
        raws[3].fill_(float("nan"))
        raws[7].view(-1)[-1] = float("-inf")
    dims = [rf.Dim(size, name=f"axis{i}") for i, size in enumerate(shape)]
    tensors = [rf.convert_to_tensor(raw, dims=dims) for raw in raws]
    alone = np.array([series.statistics(tensor) for tensor in tensors])
    np.testing.assert_array_equal(series.statistics_table(tensors), alone)


def test_statistics_leave_padding_out(tmp_path):
    _, x = ragged([[1.0, 2.0, 6.0], [5.0]])
    loop = rf.Loop(axis=rf.Dim(2, name="step"))
    loop.state.n = rf.zeros([])
    with loop:
        loop.state.n = loop.state.n + 1.0
        frames = x * loop.state.n  # noqa: F841
    again = rf.load_run(loop.run.save(tmp_path / "x.rfrun", limit=0))
    assert again[1].frames.statistics[:4] in [(4, 1.0, 3.5, 6.0), (4, 2.0, 7.0, 12.0)]


def test_states_of_a_long_run_are_those_that_were_kept(tmp_path, monkeypatch):
    monkeypatch.setattr("rfnb.loop.step.MAX_STATES", 3)
    time, x = ragged([[1.0] * 10])
    loop = rf.Loop(axis=time)
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        loop.state.s = loop.state.s + loop.unstack(x)
    every = loop.run.replay.every
    assert every > 1
    again = rf.load_run(loop.run.save(tmp_path / "x.rfrun"))
    assert again[every].before.s.raw_tensor.tolist() == [float(every)]
    assert again[9].after.s.raw_tensor.tolist() == [10.0]
    with pytest.raises(RunFileError, match="before step 1 is not in the file"):
        again[1].before.s  # noqa: B018


def test_a_fork_brings_its_parent_along(tmp_path):
    run = running_sum()
    fork = run.fork(1, s=100.0)
    again = rf.load_run(fork.save(tmp_path / "x.rfrun"))
    assert (again.forked_at, again.parent.name, again.parent.parent) == (1, "sum", None)
    assert same(again[2].after.s, fork[2].after.s)
    assert same(again.parent[2].after.s, run[2].after.s)


# -- writing


def test_a_save_that_fails_harms_no_file(tmp_path, monkeypatch):
    path = running_sum().save(tmp_path / "x.rfrun")
    before = path.read_bytes()

    def killed(tensors, path, metadata):
        path.write_bytes(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr("safetensors.torch.save_file", killed)
    with pytest.raises(KeyboardInterrupt):
        running_sum().save(path)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == ["x.rfrun"]


@pytest.mark.parametrize("step", ["safetensors.torch.save_file", "rfnb.core.ground.atomic._to_disk"])
@pytest.mark.parametrize("kind", [OSError(errno.ENOSPC, "No space left on device"), SafetensorError("I/O error")])
@pytest.mark.parametrize("name", ["x.rfrun", "x.html"])
def test_a_full_disk_leaves_the_file_that_was_there(name, kind, step, tmp_path, monkeypatch):
    path = running_sum().save(tmp_path / name)
    before = path.read_bytes()

    def full(*_):
        raise kind

    monkeypatch.setattr(step if name == "x.rfrun" else "pathlib.Path.write_bytes", full)
    with pytest.raises(RunFileError, match=r"save: .* cannot be written") as caught:
        running_sum().save(path)
    assert str(kind) in str(caught.value) and f"{name} is unchanged" in str(caught.value)
    assert path.read_bytes() == before
    assert [file.name for file in tmp_path.iterdir()] == [name]


@pytest.mark.parametrize("name", ["x.pkl", "x", "no/x.rfrun"])
def test_where_nothing_can_be_written(name, tmp_path):
    with pytest.raises(RunFileError):
        running_sum().save(tmp_path / name)
    with pytest.raises(RunFileError, match="limit"):
        running_sum().save(tmp_path / "x.rfrun", limit=-1)


# -- files of strangers


@pytest.fixture
def parts(tmp_path):
    """Path, tensors and JSON of a good file."""
    path = running_sum().save(tmp_path / "x.rfrun")
    with safe_open(path, framework="pt") as file:
        return path, {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["rfnb.run"])  # noqa: SIM118


def written(
    parts,
    change=lambda data: None,
    tensors=lambda tensors: None,
):
    path, raws, data = parts
    change(data)
    tensors(raws)
    save_file(raws, path, {"rfnb.run": json.dumps(data)})
    return path


def test_the_good_file_is_read(parts):
    assert rf.load_run(written(parts)).steps == 3


def put(*where, value):
    def change(data):
        for key in where[:-1]:
            data = data[key]
        data[where[-1]] = value

    return change


def bomb(data):
    """Dims whose names double."""
    for _ in range(60):
        last = len(data["dims"]) - 1
        data["dims"].append({"op": "product", "of": [last, last], "numbers": []})


RUN = ("runs", 0)
DAMAGE = {
    "no runs": put("runs", value=[]),
    "runs is a number": put("runs", value=3),
    "no name": lambda data: data["runs"][0].pop("name"),
    "name is a list": put(*RUN, "name", value=[]),
    "steps huge": put(*RUN, "steps", value=10**30),
    "steps true": put(*RUN, "steps", value=True),
    "axis points nowhere": put(*RUN, "axis", value=99),
    "axis negative": put(*RUN, "axis", value=-1),
    "size huge": put("sizes", 0, "values", value=10**17),
    "lengths huge": lambda data: [
        put("sizes", i, "values", value=[10**15] * 2)(data) for i in range(len(data["sizes"]))
    ],
    "lengths negative": put("sizes", 0, "values", value=-1),
    "lengths ragged": put("sizes", 0, "values", value=[[1], [1, 2]]),
    "lengths words": put("sizes", 0, "values", value=["a", "b"]),
    "tags too few": lambda data: [s.update(tags=["one"]) for s in data["sizes"]],
    "tensor missing": put(*RUN, "values", 0, "tensor", "key", value="nothing"),
    "tensor of another shape": put(*RUN, "values", 0, "tensor", "shape", value=[7]),
    "dtype": put(*RUN, "values", 0, "dtype", value="int64"),
    "dtype unknown": put(*RUN, "values", 0, "dtype", value="__import__('os')"),
    "dtype complex": put(*RUN, "values", 0, "dtype", value="complex64"),
    "dims twice": lambda data: data["runs"][0]["values"][0].update(dims=data["runs"][0]["values"][0]["dims"] * 2),
    "dims none": put(*RUN, "values", 0, "dims", value=[]),
    "steps of a value": put(*RUN, "values", 0, "steps", value=[0]),
    "steps twice": put(*RUN, "values", 0, "steps", value=[0, 0, 0]),
    "shapes": put(*RUN, "values", 0, "tensor", value={"key": "0", "shapes": [[2**62, 2**62]]}),
    "names that double": bomb,
    "unknown maths": lambda data: data["dims"].append({"op": "eval", "of": [], "numbers": []}),
    "sum of nothing": lambda data: data["dims"].append({"op": "sum", "of": [], "numbers": []}),
    "key negative": lambda data: (
        [d.update(key=["x", -5]) for d in data["dims"] if "key" in d and d.update(key=[1, 2]) is None][:0]
        or [d.update(key=[1, 2]) for d in data["dims"] if "key" in d]
    ),
    "graph of nothing": put(*RUN, "graph", value={}),
    "graph points nowhere": lambda data: data["runs"][0]["graph"]["nodes"][0].update(outputs=[10**6]),
    "source short": put(*RUN, "source", value=[1]),
    "lines are numbers": lambda data: data["runs"][0]["source"].__setitem__(4, [1, 2]),
    "words": put(*RUN, "words", value=[]),
    "deep": put(*RUN, "name", value=json.loads("[" * 900 + "]" * 900)),
}


@pytest.mark.parametrize("change", DAMAGE.values(), ids=DAMAGE)
def test_a_damaged_file_is_refused(change, parts):
    with pytest.raises(RunFileError, match="cannot be read"):
        rf.load_run(written(parts, change))


def test_lengths_that_a_tensor_does_not_have_are_refused(tmp_path):
    _, x = ragged()
    loop = rf.Loop(axis=rf.Dim(2, name="step"))
    loop.state.n = rf.zeros([])
    with loop:
        loop.state.n = loop.state.n + 1.0
        frames = x * loop.state.n  # noqa: F841
    path = loop.run.save(tmp_path / "x.rfrun")
    with safe_open(path, framework="pt") as file:
        raws, data = {key: file.get_tensor(key) for key in file.keys()}, json.loads(file.metadata()["rfnb.run"])  # noqa: SIM118
    [ragged_size] = [size for size in data["sizes"] if size["values"] == [3, 1]]
    ragged_size["values"] = [2**40, 1]
    save_file(raws, path, {"rfnb.run": json.dumps(data)})
    with pytest.raises(RunFileError, match="does not fit its dims"):
        rf.load_run(path)


@pytest.mark.parametrize("form", [FORMAT + 1, 0, "1", None, True])
def test_another_format_is_refused(form, parts):
    with pytest.raises(RunFileError, match="another version"):
        rf.load_run(written(parts, put("format", value=form)))


def test_tensors_that_are_no_run(tmp_path):
    save_file({"x": torch.zeros(2)}, tmp_path / "x.rfrun")
    with pytest.raises(RunFileError, match="no run"):
        rf.load_run(tmp_path / "x.rfrun")


@pytest.mark.parametrize("text", ["", "{", "[" * 200_000, '{"runs": NaN}', "1" * 10_000, "null", '"\ud800"'])
def test_no_json_is_refused(text, parts):
    path, raws, _ = parts
    save_file(raws, path, {"rfnb.run": text.encode("utf-8", "replace").decode()})
    with pytest.raises(RunFileError, match="cannot be read"):
        rf.load_run(path)


def test_an_empty_tensor_that_claims_to_be_long_is_refused(parts):
    with pytest.raises(RunFileError):
        rf.load_run(written(parts, tensors=lambda raws: raws.update({k: torch.zeros(0, 2**40) for k in raws})))


def test_half_a_file_and_no_file(parts):
    path, _, _ = parts
    whole = path.read_bytes()
    for n in (0, 4, 8, 100, len(whole) // 2, len(whole) - 1):
        path.write_bytes(whole[:n])
        with pytest.raises(RunFileError, match="cannot be read"):
            rf.load_run(path)
    path.write_bytes(struct.pack("<Q", 2**62) + whole[8:])
    with pytest.raises(RunFileError, match="cannot be read"):
        rf.load_run(path)
    with pytest.raises(RunFileError, match=r"does not exist\n.*x\.rfrun"):
        rf.load_run(path.with_name("y.rfrun"))
    with pytest.raises(RunFileError, match="is a folder"):
        rf.load_run(path.parent)


def test_nothing_of_a_stranger_is_run_or_steers_the_page(parts):
    run = rf.load_run(
        written(
            parts,
            lambda data: data["runs"][0].update(
                name=HOSTILE, place=HOSTILE, flags=[HOSTILE], source=[HOSTILE, HOSTILE, HOSTILE, 1, [HOSTILE]]
            ),
        )
    )
    for i in range(len(run.states)):
        run.replay.states[i].name = run.states[i]
    for text in (rf.show(run).html, str(rf.show(run, batch=1).html)):
        assert "<script" not in text
        assert "\x1b" not in text
    assert "\x1b" not in rf.show(run).text + rf.show(run, batch=1).text
    page = run.save(parts[0].with_name("x.html")).read_text()
    assert "alert(1)</script>" not in page
    assert page.count("<!--") == 0
    assert "\x1b" not in page


def test_a_file_does_not_change_the_dims_of_the_session(parts):
    ragged([[1.0], [2.0]])
    size = batch_dim.size
    rf.load_run(parts[0])
    assert batch_dim.size is size


def test_each_step_is_computed_once_when_a_run_is_saved(tmp_path, monkeypatch):
    monkeypatch.setattr(rf.options, "trace_budget", 64)  # of eight states, the first is kept
    feat = rf.Dim(16, name="feat")
    loop = rf.Loop(max_seq_len=8, name="large", debug=True)
    loop.state.h = rf.ones([feat])
    with loop:
        double = loop.state.h * 2.0
        loop.state.h = double + 1.0
    replay = loop.run.replay
    assert replay.every >= 8
    steps, computed = type(replay).compute, []
    monkeypatch.setattr(
        type(replay), "compute", lambda self, step, *a, **k: computed.append(step) or steps(self, step, *a, **k)
    )
    again = rf.load_run(loop.run.save(tmp_path / "x.rfrun"))
    assert computed == list(range(8))
    h = 1.0
    for step in range(8):
        assert again[step].double.raw_tensor.tolist() == [2 * h] * 16 and again[step].check == "replay agrees"
        h = 2 * h + 1
    assert float(loop.run[5].double.raw_tensor[0]) == 126.0  # computed from the start, as nothing is kept
    assert sorted(computed[8:]) == [0, 1, 2, 3, 4, 5]


def test_a_folder_or_file_that_is_missing_says_what_to_do(tmp_path):
    run = running_sum()
    with pytest.raises(RunFileError, match=r"(?s)save: the folder .*new does not exist.*os\.makedirs\(.*new"):
        run.save(tmp_path / "new" / "sum.rfrun")
    run.save(tmp_path / "sum.rfrun")
    (tmp_path / "notes.txt").write_text("")
    with pytest.raises(RunFileError, match=r"(?s)load_run: .*nothing does not exist.*in that folder: sum\.rfrun$"):
        rf.load_run(tmp_path / "nothing")

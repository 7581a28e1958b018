"""A table of loops computes what Python loops by hand compute: values and gradients, for any lengths, in all ways."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import pytest
import torch
from hypothesis import example, given, strategies as st

import rfnb as rf
from rfnb import Dim
from rfnb.trace.run.run import Run
from rfnb.trace.run.step import States
from tests.examples import examples
from tests.loop import loops_attention, loops_labels, loops_nested, loops_recurrent
from tests.loop.loops import Batch, Data, Results, Row, pieces

ROWS = [
    row
    for module in (loops_recurrent, loops_attention, loops_labels, loops_nested)
    for row in vars(module).values()
    if isinstance(row, type) and issubclass(row, Row) and row.__module__ == module.__name__
]
pytestmark = pytest.mark.filterwarnings("ignore:.*is never true")  # of few steps, none may end
each_row = pytest.mark.parametrize("kind", ROWS, ids=lambda row: row.__name__)
TOLERANCE = {"float64": 1e-9, "float32": 1e-4}


def run(row: Row, data: Data, rows: Sequence[int] | None = None, **options: Any) -> tuple[Batch, Results]:
    """The loop on the batch, or on some of its sequences."""
    torch.manual_seed(7)
    with rf.set_default_float_dtype_ctx(data.dtype):
        batch = Batch(data, rows, **options)
        return batch, row.loop(batch)


def split(data: Data, batch: Batch, results: Results) -> list[Results]:
    """By sequence."""
    return [pieces(results, i, batch.axis) for i in range(len(batch.rows))]


def loss(found: Sequence[Results]) -> torch.Tensor:
    """A number to which each value gives something of its own."""
    total = torch.zeros((), dtype=torch.float64)
    for piece in found:
        for number, value in enumerate(piece.values()):
            for raw in value if isinstance(value, list) else [value]:
                if raw.is_floating_point():
                    total = total + torch.sin(raw[torch.isfinite(raw)].double() * (number + 1)).sum()
    return total


def gradients(found: Sequence[Results], data: Data) -> list[torch.Tensor]:
    """Of all inputs, initial states and parameters."""
    total = loss(found)
    if not total.requires_grad:
        return [torch.zeros_like(raw) for raw in data.trained()]
    got = torch.autograd.grad(total, data.trained(), allow_unused=True)
    return [torch.zeros_like(raw) if g is None else g for g, raw in zip(got, data.trained(), strict=True)]


def by_hand(row: Row, data: Data, ours: Sequence[Results]) -> list[Results]:
    """The same in plain Python; as tensors of the same dtype."""
    found = []
    for i, piece in enumerate(ours):
        detached = {name: [v.detach() for v in value] for name, value in piece.items() if isinstance(value, list)}
        hand = row.hand(data, i, detached)
        found.append({name: _like(hand[name], value) for name, value in piece.items()})
        assert hand.keys() == piece.keys()
    return found


def _like(hand: Any, ours: Any) -> Any:
    if isinstance(ours, list):
        assert len(hand) == len(ours)
        return [_like(a, b) for a, b in zip(hand, ours, strict=True)]
    return hand if isinstance(hand, torch.Tensor) else torch.as_tensor(hand, dtype=ours.dtype)


def flat(found: Sequence[Results]) -> Iterator[tuple[str, torch.Tensor]]:
    """All values, by name."""
    for piece in found:
        for name, value in piece.items():
            yield from ((name, raw) for raw in (value if isinstance(value, list) else [value]))


def assert_same(a: Sequence[Results], b: Sequence[Results], tolerance: float) -> None:
    for (name, left), (other, right) in zip(flat(a), flat(b), strict=True):
        assert name == other
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}")


def assert_close(a: Sequence[torch.Tensor], b: Sequence[torch.Tensor], tolerance: float) -> None:
    for left, right in zip(a, b, strict=True):
        torch.testing.assert_close(left, right, rtol=tolerance, atol=tolerance)


def same_bits(a: Any, b: Any) -> bool:
    """NaN is NaN."""
    return torch.equal(a, b) or bool(((a == b) | ((a != a) & (b != b))).all())


# -- against loops by hand


@each_row
@examples(4)
@given(lengths=st.lists(st.integers(0, 5), min_size=1, max_size=4))
@example(lengths=[3, 0, 2])
@example(lengths=[1])
@example(lengths=[0])
def test_values_and_gradients_are_those_by_hand(kind, lengths):
    row = kind()
    lengths = [max(length, row.at_least) for length in lengths]
    tolerance = row.tolerance or TOLERANCE[row.dtypes[0]]
    data = Data(lengths, row.dtypes[0])
    ours = split(data, *run(row, data))
    hand = by_hand(row, data, ours)
    assert_same(ours, hand, tolerance)
    assert_close(gradients(ours, data), gradients(hand, data), tolerance)


LENGTHS = [4, 0, 3, 1]
"""Of the batch that is done in several ways."""


def data_for(row: Row, dtype: str | None = None) -> Data:
    return Data([max(length, row.at_least) for length in LENGTHS], dtype or row.dtypes[0])


@each_row
def test_in_single_precision(kind):
    row = kind()
    if "float32" not in row.dtypes:
        pytest.skip("not in this precision")
    data = data_for(row, "float32")
    ours = split(data, *run(row, data))
    for name, raw in flat(ours):
        assert raw.dtype is not torch.float64, name
    assert_same(ours, by_hand(row, data, ours), row.tolerance or 1e-4)


# -- in other ways


@each_row
def test_hoisted_or_not(kind):
    row = kind()
    data = data_for(row)
    (moved_batch, moved), (plain_batch, plain) = run(row, data), run(row, data, optimize_move_layers_out=False)
    for name, tensor in moved.items():
        other = plain[name]
        assert len(tensor.dims) == len(other.dims), name
        assert [d.name for d in tensor.dims] == [d.name for d in other.dims], name
        assert tensor.dtype == other.dtype, name
        assert (tensor.sparse_dim is None) == (other.sparse_dim is None), name
    a, b = split(data, moved_batch, moved), split(data, plain_batch, plain)
    tolerance = row.tolerance or TOLERANCE[row.dtypes[0]]
    assert_same(a, b, tolerance)
    assert_close(gradients(a, data), gradients(b, data), tolerance)


@each_row
def test_recording_changes_no_bit_of_a_result(kind):
    row = kind()
    data = data_for(row)
    plain, recorded = (split(data, *run(row, data, debug=debug)) for debug in (False, True))
    for (name, a), (_, b) in zip(flat(plain), flat(recorded), strict=True):
        assert same_bits(a, b), name
    for left, right in zip(gradients(plain, data), gradients(recorded, data), strict=True):
        torch.testing.assert_close(left, right)  # a recorded loop freezes all states, and sums in another order


@each_row
def test_without_gradients(kind):
    row = kind()
    data = data_for(row)
    ours = split(data, *run(row, data))
    with torch.no_grad():
        batch, results = run(row, data)
    assert not any(tensor.raw_tensor.requires_grad for tensor in results.values())
    assert_same(ours, split(data, batch, results), row.tolerance or TOLERANCE[row.dtypes[0]])


@each_row
def test_a_batch_without_sequences(kind):
    row = kind()
    _, results = run(row, Data([], row.dtypes[0]))
    for name, tensor in results.items():
        if rf.batch_dim in tensor.dims:
            assert tensor.raw_tensor.shape[tensor.dims.index(rf.batch_dim)] == 0, name


@each_row
def test_one_by_one(kind):
    row = kind()
    if row.random or not row.alone:
        pytest.skip("it depends on the others of the batch")
    data = data_for(row)
    together = split(data, *run(row, data))
    alone = [split(data, *run(row, data, [i]))[0] for i in range(len(LENGTHS))]
    tolerance = row.tolerance or TOLERANCE[row.dtypes[0]]
    assert_same(together, alone, tolerance)
    assert_close(gradients(together, data), gradients(alone, data), tolerance)


# -- the record


def leaves(states: States) -> dict[str, Any]:
    """All states at one point, nested ones with dots; raw tensors, or sizes."""
    found = {name: states[name] for name in states.names()}
    return {name: value.raw_tensor if isinstance(value, rf.Tensor) else value for name, value in found.items()}


def same_states(a: States, b: States) -> bool:
    left, right = leaves(a), leaves(b)
    return left.keys() == right.keys() and all(
        same_bits(left[n], right[n]) if isinstance(left[n], torch.Tensor) else left[n] == right[n] for n in left
    )


@each_row
@pytest.mark.parametrize("hoisted", [True, False], ids=["hoisted", "plain"])
def test_a_replay_gives_the_states_bit_for_bit(kind, hoisted, monkeypatch):
    row = kind()
    data = data_for(row)
    options = {"debug": True, "optimize_move_layers_out": None if hoisted else False}
    batch, results = run(row, data, **options)
    monkeypatch.setattr("rfnb.loop.step.MAX_STATES", 2)
    thinned, _ = run(row, data, **options)
    for loop, other in zip(batch.loops, thinned.loops, strict=True):
        record, few = loop.run, other.run
        assert record is not None
        assert few is not None
        assert len(record) == len(few)
        if len(record) > 3:
            assert few.replay.every > 1  # type: ignore[attr-defined]
        for step in range(len(record)):
            assert record[step].check == few[step].check == "replay agrees"
            assert same_states(record[step].after, few[step].after)  # kept, and computed again
            assert same_states(record[step].before, few[step].before)
        assert_final(loop, record)
    if row.named and batch.loops[0].run:
        assert_stacked(batch.loops[0].run, results, batch.axis, row.tolerance or TOLERANCE[row.dtypes[0]])


def assert_final(loop: rf.Loop, record: Run) -> None:
    """The states after the last step are those of the loop."""
    if len(record):
        last = leaves(record[-1].after)
        for name, value in last.items():
            final = loop.state
            for part in name.split("."):
                final = final[int(part) if isinstance(final, list | tuple) else part]
            if isinstance(value, torch.Tensor):
                assert same_bits(value, final.raw_tensor), name


def assert_stacked(record: Run, results: Results, axis: Dim | None, tolerance: float) -> None:
    """A variable of the body over all steps is what the loop stacked of it."""
    for name, tensor in results.items():
        if axis in tensor.dims and " " not in name and len(record):
            again = record.stack(name)
            a, b = (t.copy_masked(0).copy_transpose(tensor.dims).raw_tensor for t in (tensor, again))
            torch.testing.assert_close(a, b, rtol=tolerance, atol=tolerance, msg=lambda text, n=name: f"{n}: {text}")


def test_there_are_many():
    assert len(ROWS) >= 50

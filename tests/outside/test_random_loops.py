"""Random loop programs give for a padded batch what plain torch gives for each sequence alone, with all gradients."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.outside.alone import Alone, Found
from tests.outside.batched import Batched
from tests.outside.data import Data
from tests.outside.drawing import BySeed, drawn, programs
from tests.outside.programs import Program

pytestmark = pytest.mark.usefixtures("inference")
EXAMPLES = int(os.environ.get("RFNB_EXAMPLES", 60))
"""How many programs each test tries: `RFNB_EXAMPLES=3000` takes minutes."""
HOISTS = [None, True, False]
many = examples(EXAMPLES, derandomize=EXAMPLES <= 100, suppress_health_check=list(HealthCheck))


@contextmanager
def float64() -> Iterator[None]:
    before = rf.get_default_float_dtype()
    rf.set_default_float_dtype("float64")
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", rf.errors.LoopWarning)
            yield
    finally:
        rf.set_default_float_dtype(before)


def same(ours: np.ndarray, reference: torch.Tensor, what: str) -> None:
    expected = reference.detach().numpy()
    assert ours.shape == expected.shape, f"{what}: {ours.shape}, not {expected.shape}"
    scale = max(1.0, float(np.abs(expected).max(initial=0)))
    assert np.allclose(ours, expected, rtol=1e-7, atol=1e-8 * scale), f"{what}: {ours}, not {expected}"


def check(program: Program, *, hoist: bool | None, record: bool, device: str | None = None) -> None:
    """Values, gradients and, if it is recorded, what replay shows are those of the sequences alone."""
    data = Data(program)
    alone = [Alone(program, data, i).run() for i in range(len(program.t))]
    with float64():
        batched = Batched(program, data, hoist=hoist, record=record, device=device)
        loss = batched.run()
        check_values(batched, alone)
        check_gradients(batched, alone, loss)
        if record:
            check_replay(batched, alone)


def check_values(batched: Batched, alone: list[Found]) -> None:
    program = batched.program
    for i, found in enumerate(alone):
        axes = "ehk" if program.over_t else "tehk"
        for n, (y, frames) in enumerate(zip(batched.stacked, found.stacked, strict=True)):
            length = y.lengths.size(batched.loop.axis).over([rf.batch_dim]).reshape(-1)
            assert int(length[i if len(length) > 1 else 0]) == len(frames), f"steps of sequence {i}: {length}"
            ours = batched.of_sequence(y, i, axes)[: len(frames)]
            for step, frame in enumerate(frames):
                same(ours[step].reshape(frame.shape), frame, f"output {n} of sequence {i} at step {step}")
        for n, (ours, last) in enumerate(zip(batched.lasts, found.lasts, strict=True)):
            same(batched.of_sequence(ours, i), last, f"last value {n} of sequence {i}")
        for n, (ours, state) in enumerate(zip(batched.states, found.states, strict=True)):
            same(batched.of_sequence(ours, i), state, f"state {n} of sequence {i}")


def check_gradients(batched: Batched, alone: list[Found], loss: torch.Tensor) -> None:
    data, expected = batched.data, sum(y.sin().sum() for found in alone for y in found.results())
    same(loss.detach().cpu().numpy(), expected, "loss")
    if loss.requires_grad:
        loss.backward()
    if expected.requires_grad:
        expected.backward()
    for name, leaf in batched.leaves.items():
        ours = np.zeros(leaf.shape) if leaf.grad is None else leaf.grad.cpu().numpy()
        assert np.isfinite(ours).all(), f"the gradient of {name} is not finite: {ours}"
        if name in data.weights:
            same(ours, gradient(data.weights[name]), f"gradient of {name}")
            continue
        rest = ours.copy()
        for i, row in enumerate(data.rows[name]):
            cut = (i, *[slice(n) for n in row.shape])
            same(ours[cut], gradient(row), f"gradient of {name} of sequence {i}")
            rest[cut] = 0
        assert not rest.any(), f"the padding of {name} has a gradient: {rest}"


def gradient(leaf: torch.Tensor) -> torch.Tensor:
    return torch.zeros(leaf.shape) if leaf.grad is None else leaf.grad


def check_replay(batched: Batched, alone: list[Found]) -> None:
    run = batched.loop.run
    for step in range(run.steps):
        shown = run[step]
        assert shown.check in ("", "replay agrees") or not shown.check, shown.check
        known = {value.name for value in shown.values()}
        for i, found in enumerate(alone):
            if step >= len(found.steps):
                continue
            for name in sorted(known & batched.names.keys()):
                expected = found.steps[step][batched.names[name]]
                same(batched.of_sequence(shown[name], i), expected, f"{name} of sequence {i} in run[{step}]")
            for n, state in enumerate(found.before[step]):
                ours = batched.of_sequence(shown.before[f"s{n}"], i)
                same(ours, state, f"state {n} of sequence {i} before step {step} in the run")


variants = {"hoist": st.sampled_from(HOISTS), "record": st.booleans()}


@given(program=programs(padding=False), **variants)
@many
def test_a_random_loop_is_what_its_sequences_are_alone(program, hoist, record):
    check(program, hoist=hoist, record=record)


@pytest.mark.parametrize("seed", range(EXAMPLES))
def test_a_larger_random_loop_is_what_its_sequences_are_alone(seed):
    program = drawn(BySeed(seed), size=30)
    check(program, hoist=HOISTS[seed % 3], record=seed % 2 == 0)


@given(program=programs(), **variants)
@many
def test_a_random_loop_that_divides_by_padding_is_that_too(program, hoist, record):
    check(program, hoist=hoist, record=record)

"""The random generators that all code shares: their states, and whether they have changed."""

from __future__ import annotations

import ctypes
import random
import sys
from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

NUMPY: Any = np.random
HEAD = object.__basicsize__
"""Bytes of an object before what its type adds."""
WORDS = 625
"""Numbers of 32 bits in the state of a Mersenne Twister: 624, and the place of the next one."""

Numbers = tuple[Any, Any]


def other_numbers() -> Numbers:
    """The states of the generators of Python and numpy; the same object as the last time, if they are the same."""
    global _last
    look = _look()
    memory = None if look is None else look()
    if memory is None or _last is None or memory != _last[0]:
        _last = memory, (random.getstate(), frozen(NUMPY.get_state(legacy=False)))
    return _last[1]


_last: tuple[Any, Numbers] | None = None


def frozen(state: object) -> Any:
    """A state of numpy, whose dicts and arrays become tuples and bytes."""
    if isinstance(state, dict):
        return tuple((name, frozen(part)) for name, part in state.items())
    return (state.dtype.str, state.tobytes()) if isinstance(state, np.ndarray) else state


def thawed(state: object) -> Any:
    """The state of numpy that was frozen."""
    if isinstance(state, tuple) and isinstance(state[0], tuple):
        return {name: thawed(part) for name, part in state}
    return np.frombuffer(state[1], state[0]).copy() if isinstance(state, tuple) else state


@cache
def _look() -> Callable[[], Any] | None:
    """Reads the memory of the generators, which takes a twentieth of the time of their states.

    None where it is not known to be where CPython and numpy have it.
    """
    python, legacy = random._inst, NUMPY.mtrand._rand
    trial, numpy = random.Random(0), NUMPY.RandomState(0)
    words = np.frombuffer(_twister(trial), np.uint32)
    numpy.standard_normal()  # makes two numbers, and gives one
    before = _memory(numpy, type(numpy))
    numpy.standard_normal()
    state = numpy.get_state(legacy=False)["state"]
    key = np.frombuffer(_bits(numpy._bit_generator), np.uint32)
    is_there = (
        type(python) is random.Random
        and type(legacy) is type(numpy)
        and sorted(words.tolist()) == sorted(trial.getstate()[1])
        and key.tolist() == [*state["key"].tolist(), state["pos"]]
        and before != _memory(numpy, type(numpy))
    )
    return (lambda: _memory_of(python, legacy)) if is_there else None


def _memory_of(python: Any, legacy: Any) -> Any:
    bits = legacy._bit_generator
    if type(bits) is not NUMPY.MT19937:
        return None
    return _twister(python), python.gauss_next, id(bits), _bits(bits), _memory(legacy, type(legacy))


def _twister(generator: random.Random) -> bytes:
    return ctypes.string_at(id(generator) + HEAD, 4 * WORDS)


def _bits(generator: Any) -> bytes:
    return ctypes.string_at(generator.ctypes.state_address, 4 * WORDS)


TORCH_WORDS = 624
AROUND = 24
"""Bytes of the place of the next word, before the words, and of numbers that were drawn in pairs, behind them."""


@cache
def torch_memory() -> Any:
    """The memory of torch's generator of the CPU: its `raw` changes with the state, and is read in a tenth of the time.

    None where it is not known to be where torch has it.
    """
    torch = sys.modules["torch"]
    kind = ctypes.c_char * (AROUND + 4 * TORCH_WORDS + AROUND)
    trial = torch.Generator().manual_seed(3)
    before = ctypes.string_at(trial._cdata, 256).find(_torch_words(trial)[:64]) - AROUND
    if before < 0:
        return None
    memory, own = kind.from_address(trial._cdata + before), kind.from_address(torch.default_generator._cdata + before)
    looks = {memory.raw}
    for draw in (torch.rand, torch.randn, torch.randn):
        draw(1, generator=trial)
        looks.add(memory.raw)
    words = [part.raw[AROUND:-AROUND] for part in (memory, own)]
    is_there = len(looks) == 4 and words == [*map(_torch_words, (trial, torch.default_generator))]
    return own if is_there else None


def _torch_words(generator: Any) -> bytes:
    """The words of the Mersenne Twister, which are longer in a state."""
    state = np.frombuffer(generator.get_state().numpy().tobytes(), np.uint64)
    return state[3 : 3 + TORCH_WORDS].astype(np.uint32).tobytes()


def _memory(value: object, kind: type) -> bytes:
    """What the type of an object adds to the memory of all objects."""
    return ctypes.string_at(id(value) + HEAD, kind.__basicsize__ - HEAD)

"""What has a state that a copy must set: random generators that all code shares, and iterators of Python."""

from __future__ import annotations

import ctypes
import gc
import itertools
import operator
import random
import sys
import warnings
from collections.abc import Callable, Mapping
from functools import cache
from types import GeneratorType
from typing import Any

import numpy as np

NUMPY: Any = np.random
HEAD = object.__basicsize__
"""Bytes of an object before what its type adds."""
WORDS = 625
"""Numbers of 32 bits in the state of a Mersenne Twister: 624, and the place of the next one."""

OtherNumbers = tuple[Any, object]


def other_numbers() -> OtherNumbers:
    """The states of the generators of Python and numpy; the same object as the last time, if they are the same."""
    global _last
    look = _look()
    memory = None if look is None else look()
    if memory is None or _last is None or memory != _last[0]:
        _last = memory, (random.getstate(), frozen(NUMPY.get_state(legacy=False)))
    return _last[1]


_last: tuple[object, OtherNumbers] | None = None


def frozen(state: object) -> object:
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
def _look() -> Callable[[], object] | None:
    """Reads the memory of the generators, which takes a twentieth of the time of their states.

    None where it is not known to be where CPython and numpy have it.
    """
    python, legacy = random._inst, NUMPY.mtrand._rand
    trial, numpy = random.Random(0), NUMPY.RandomState(0)
    words = np.frombuffer(_twister(trial), np.uint32)
    numpy.standard_normal()  # makes two numbers, and gives one
    memory = _memory(numpy)
    numpy.standard_normal()
    state = numpy.get_state(legacy=False)["state"]
    key = np.frombuffer(_bits(numpy._bit_generator), np.uint32)
    is_there = (
        type(python) is random.Random
        and type(legacy) is type(numpy)
        and sorted(words.tolist()) == sorted(trial.getstate()[1])
        and key.tolist() == [*state["key"].tolist(), state["pos"]]
        and memory != _memory(numpy)
    )
    return (lambda: _memory_of(python, legacy)) if is_there else None


def _memory_of(python: Any, legacy: Any) -> object:
    bits = legacy._bit_generator
    if type(bits) is not NUMPY.MT19937:
        return None
    return _twister(python), python.gauss_next, id(bits), _bits(bits), _memory(legacy)


def _twister(generator: random.Random) -> bytes:
    return ctypes.string_at(id(generator) + HEAD, 4 * WORDS)


def _bits(generator: np.random.MT19937) -> bytes:
    return ctypes.string_at(generator.ctypes.state_address, 4 * WORDS)


TORCH_WORDS = 624
AROUND = 24
"""Bytes of the place of the next word, before the words, and of numbers that were drawn in pairs, after them."""


@cache
def torch_memory() -> Any:
    """The memory of torch's generator of the CPU: its `raw` changes with the state, and is read in a tenth of the time.

    None where it is not known to be where torch has it.
    """
    torch = sys.modules["torch"]
    kind = ctypes.c_char * (AROUND + 4 * TORCH_WORDS + AROUND)
    trial = torch.Generator().manual_seed(3)
    offset = ctypes.string_at(trial._cdata, 256).find(_torch_words(trial)[:64]) - AROUND
    if offset < 0:
        return None
    memory, main = kind.from_address(trial._cdata + offset), kind.from_address(torch.default_generator._cdata + offset)
    looks = {memory.raw}
    for draw in (torch.rand, torch.randn, torch.randn):
        draw(1, generator=trial)
        looks.add(memory.raw)
    words = [part.raw[AROUND:-AROUND] for part in (memory, main)]
    is_there = len(looks) == 4 and words == [*map(_torch_words, (trial, torch.default_generator))]
    return main if is_there else None


def _torch_words(generator: Any) -> bytes:
    """The words of the Mersenne Twister, which are longer in a state."""
    state = np.frombuffer(generator.get_state().numpy().tobytes(), np.uint64)
    return state[3 : 3 + TORCH_WORDS].astype(np.uint32).tobytes()


def _memory(value: object) -> bytes:
    """What the type of an object adds to the memory of all objects."""
    return ctypes.string_at(id(value) + HEAD, type(value).__basicsize__ - HEAD)


DICTS: dict[type, Any] = {type(iter(view({}))): view for view in (dict.keys, dict.values, dict.items)}
SETS: tuple[type, ...] = (type(iter(set())),)
PLAIN = (
    *(type(iter(kind())) for kind in (list, tuple, str, bytes, bytearray)),
    *(type(iter(numbers)) for numbers in (range(1), range(2**70))),
    *(type(iter("é")), type(reversed([])), type(iter(int, 1))),
    *(enumerate, filter, map, reversed, zip),
    *(operator.attrgetter, operator.itemgetter, operator.methodcaller),  # no iterators, but made in the same way
)
LAZY = (
    *(itertools.accumulate, itertools.chain, itertools.combinations, itertools.compress, itertools.count),
    *(itertools.cycle, itertools.dropwhile, itertools.filterfalse, itertools.islice, itertools.permutations),
    *(itertools.product, itertools.repeat, itertools.starmap, itertools.takewhile, itertools.zip_longest),
)
ITERATORS = frozenset((*DICTS, *SETS, *PLAIN, *LAZY, GeneratorType))
"""The types of iterators that can be made again; of generators only those that have ended."""


def iterator_contents(value: Any) -> dict[str, object] | None:
    """What an iterator goes through, and how far it has come; None if that cannot be read. No item is taken."""
    kind = type(value)
    if kind is GeneratorType:
        return {"made by": iter, "0": ()} if value.gi_frame is None else None
    if kind in DICTS:
        owner = next((part for part in gc.get_referents(value) if isinstance(part, dict)), {})
        return {"made by": kind, "0": owner, "left": value.__length_hint__()}
    try:
        made_by, arguments, *state = _reduced(value) if kind in LAZY else value.__reduce__()
    except (AttributeError, TypeError):
        return None
    contents = {"made by": made_by, **{str(number): part for number, part in enumerate(arguments)}}
    return contents | {"state": state[0]} if state else contents


def _reduced(value: object) -> Any:
    """An iterator of itertools as a call; since Python 3.12 that warns, and from 3.14 on it is gone."""
    if sys.version_info < (3, 12):
        return value.__reduce__()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return value.__reduce__()


def iterator_of(contents: Mapping[str, Any]) -> object:
    """An iterator with these contents."""
    parts = dict(contents)
    made_by, count, state = parts.pop("made by"), parts.pop("left", None), parts.pop("state", None)
    iterator: Any = iter(DICTS[made_by](*parts.values())) if made_by in DICTS else made_by(*parts.values())
    if count is not None:
        for _ in range(len(parts["0"]) - count):
            next(iterator)
    elif state is not None:
        iterator.__setstate__(state)
    return iterator

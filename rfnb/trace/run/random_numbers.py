"""Random numbers of functions that run beside a training, such as conditions: the training draws what it would have.

numbers = OwnNumbers(condition)
with numbers:  # the global generators go on where the last block ended, and afterwards are as they were
    condition(step)
"""

from __future__ import annotations

import dis
import random
from collections.abc import Callable, Iterator
from types import CodeType, ModuleType
from typing import Any, TypeVar

import numpy as np

from rfnb.core.ground.backends import BACKENDS
from rfnb.core.ground.source import codes_in
from rfnb.core.tensor.tensor import RawTensor, Tensor

SEED = 0
NUMPY: Any = np.random  # not all of its functions are declared
Function = TypeVar("Function", bound=Callable[..., object])


class OwnNumbers:
    """Generators that the code in its blocks draws from, one block after the other: of torch, numpy and Python.

    Those of numpy and Python are left out for a function that cannot draw from them, as they take 50 times as long.

    Args:
        fn: the function that the blocks call; None for any code.
    """

    def __init__(self, fn: Callable[..., object] | None = None):
        from rfnb.backend.torch.random import global_generators

        self._global_generators = global_generators
        self._all = fn is None or not uses_torch_only(fn)
        self._own: dict[int, RawTensor] = {}  # states of the generators of torch
        self._python, self._numpy = random.Random(SEED).getstate(), np.random.MT19937(SEED)
        self._before: list[Any] = []  # what each open block restores

    def __enter__(self) -> None:
        generators = self._global_generators()
        states = [generator.get_state() for generator in generators]
        numpy = (NUMPY.get_bit_generator(), NUMPY.get_state(legacy=False)) if self._all else None
        self._before.append((states, numpy, random.getstate() if self._all else None))
        for number, generator in enumerate(generators):
            if number in self._own:
                generator.set_state(self._own[number])
            else:
                generator.manual_seed(SEED)
        if self._all:
            random.setstate(self._python)
            NUMPY.set_bit_generator(self._numpy)

    def __exit__(self, *error: object) -> None:
        states, numpy, python = self._before.pop()
        for number, generator in enumerate(self._global_generators()):
            self._own[number] = generator.get_state()
            if number < len(states):
                generator.set_state(states[number])
        if self._all:
            self._python = random.getstate()
            random.setstate(python)
            NUMPY.set_bit_generator(numpy[0])
            NUMPY.set_state(numpy[1])


def with_own_numbers(fn: Function) -> Function | Callable[..., object]:
    """A function of the user with random numbers of its own; one of rfnb, which draws none, as it is."""
    inner = getattr(fn, "_holds", fn)  # of a condition
    if str(getattr(inner, "__module__", "")).startswith("rfnb."):
        return fn
    numbers = OwnNumbers(inner)

    def beside(*args: object) -> object:
        with numbers:
            return fn(*args)

    return beside


MODULES = ("builtins", "math", "numpy", "operator", "rfnb", "torch")
"""Modules whose functions draw from the generators of torch at most, apart from those that are called random."""
VALUES = (bool, int, float, complex, str, bytes, range, type(None), Tensor)


def uses_torch_only(fn: Callable[..., object]) -> bool:
    """Whether a function, by all that its code refers to, draws no random numbers but those of torch."""
    if not isinstance(getattr(fn, "__code__", None), CodeType):
        return False
    try:
        objects = [cell.cell_contents for cell in fn.__closure__ or ()]
    except ValueError:  # it is not set yet
        return False
    objects += [*(fn.__defaults__ or ()), *(fn.__kwdefaults__ or {}).values()]
    for name, is_global in _names(fn.__code__):
        if "random" in name or name in ("__import__", "eval", "exec"):
            return False
        if is_global and name in fn.__globals__:
            objects.append(fn.__globals__[name])
    values: tuple[type, ...] = (*VALUES, *BACKENDS)
    return all(
        item.__name__.partition(".")[0] in MODULES if isinstance(item, ModuleType) else isinstance(item, values)
        for item in objects
    )


def _names(code: CodeType) -> Iterator[tuple[str, bool]]:
    """The names in the code, also in functions inside of it, and whether each is global. An import is called random."""
    for part in (code, *codes_in(code)):
        for instruction in dis.get_instructions(part):
            if instruction.opname.startswith("IMPORT"):
                yield "random", False
            elif isinstance(instruction.argval, str):
                yield instruction.argval, instruction.opname in ("LOAD_GLOBAL", "LOAD_NAME")

"""Wrong arguments for each public function and module: the answer is an error of rfnb, or a result that is listed.

Each row starts from a valid call (`valid_calls.py`) and replaces one argument after the other. What works nevertheless
is in `tests/golden/accepted_calls.txt`: read its diff after `--update-golden`.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import RfError
from rfnb.public_names import NAMES
from tests.outside.valid_calls import BASES, CALLS, ELSEWHERE, FUNCTIONS, MODULES, World, arguments, call

Wrong = dict[str, Callable[[World], Any]]
Begin = Callable[[World], tuple[Callable[..., Any], dict[str, Any]]]
"""Gives a function, and the arguments of a valid call of it."""

WRONG: Wrong = {
    "text": lambda w: "nonsense",
    "None": lambda w: None,
    "an object": lambda w: object(),
    "a negative number": lambda w: -1,
    "NaN": lambda w: float("nan"),
}
"""For all parameters."""

WRONG_DATA: Wrong = {
    "a fraction": lambda w: 2.5,
    "a list": lambda w: [1.0],
    "a raw tensor": lambda w: torch.zeros(2),
    "a dim that is not there": lambda w: w.other,
    "a dim of another batch": lambda w: w.old_time,
    "the batch": lambda w: batch_dim,
    "time": lambda w: w.time,
    "a dim twice": lambda w: [w.feat, w.feat],
    "dims that are not there": lambda w: [w.other],
    "no dims": lambda w: [],
    "a tensor of another batch": lambda w: w.old_x,
    "integers": lambda w: w.labels,
    "booleans": lambda w: w.mask,
}
"""For parameters that take tensors or dims, too."""

DATA = ("Tensor", "Dim", "Axes", "Value", "Any", "Condition", "Offset")
"""What is in the annotations of such parameters."""

TAKEN = ("Tensor", "Dim", "Axes", "Value", "Module")
"""What is in the annotations of the functions that have a row."""

NAMESPACES = ("audio", "nested", "distributed")


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions that take tensors, dims or modules."""
    for name in " ".join(NAMES[folder] for folder in ("ops", "nn", "loop", "trace")).split():
        value = getattr(rf, name)
        own = {f"{name}.{key}": fn for key, fn in vars(value).items()} if name in NAMESPACES else {name: value}
        for path, fn in own.items():
            ours = (
                inspect.isfunction(fn)
                and not fn.__name__.startswith("_")
                and (path == name or fn.__module__ == value.__name__)
            )
            if ours and path not in ELSEWHERE and any(kind in str(inspect.signature(fn)) for kind in TAKEN):
                yield path, fn


def of_function(name: str, fn: Callable[..., Any]) -> Begin:
    return lambda w: (fn, arguments(name, fn, w, FUNCTIONS.get(name)))


def of_class(name: str) -> Begin:
    return lambda w: (getattr(rf, name), arguments(name, getattr(rf, name), w, MODULES[name]))


def of_module(name: str) -> Begin:
    def begin(w: World) -> tuple[Callable[..., Any], dict[str, Any]]:
        module = call(*of_class(name)(w))
        given = CALLS.get(name)
        own = None if given is None else lambda w: given(module, w)
        return module, arguments(name, module.__call__, w, own)

    return begin


ROWS: dict[str, Begin] = {
    **{name: of_function(name, fn) for name, fn in functions()},
    **{f"{name}(…)": of_class(name) for name in MODULES},
    **{f"{name}(…)(…)": of_module(name) for name in MODULES},
}


def test_each_module_has_a_row():
    classes = {name: getattr(rf, name) for name in NAMES["nn"].split()}
    modules = {name for name, cls in classes.items() if inspect.isclass(cls) and issubclass(cls, rf.Module)}
    assert modules - BASES == set(MODULES)


def outcomes(begin: Begin) -> Iterator[tuple[str, str, Exception | None]]:
    """Of a call with each wrong argument: the parameter, what was given, and the error."""
    world = World()
    fn, valid = begin(world)
    for p in inspect.signature(fn).parameters.values():
        takes_data = any(kind in str(p.annotation) for kind in DATA)
        for what, wrong in (WRONG | WRONG_DATA if takes_data else WRONG).items():
            if p.kind is p.VAR_KEYWORD:
                continue
            value = [wrong(world)] if p.kind is p.VAR_POSITIONAL else wrong(world)
            try:
                call(fn, valid | {p.name: value})
            except Exception as error:
                yield p.name, what, error
                continue
            yield p.name, what, None
            if takes_data:  # it may have bound the dims of this world again
                world = World()
                fn, valid = begin(world)


RAISED_BY_THE_USER = {"assert_", "while_loop"}
"""They raise what the functions of the user raise."""

accepted: dict[str, dict[str, list[str]]] = {}


@pytest.mark.parametrize("name", ROWS)
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_argument_gives_an_error_of_rfnb(name):
    call(*ROWS[name](World()))
    accepted[name] = {}
    for parameter, what, error in outcomes(ROWS[name]):
        if error is None:
            accepted[name].setdefault(parameter, []).append(what)
        elif not isinstance(error, RfError) and name not in RAISED_BY_THE_USER:
            raise AssertionError(f"{name}({parameter}={what}) gives {type(error).__name__}: {error}") from error


def test_what_is_accepted_changes_only_on_purpose(golden):
    if accepted.keys() != ROWS.keys():
        pytest.skip("needs the tests of all rows")
    lines = [f"{name} {p}: {', '.join(what)}\n" for name, found in accepted.items() for p, what in found.items()]
    golden("accepted_calls.txt", "".join(lines))

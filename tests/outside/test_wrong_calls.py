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
from rfnb.errors import DimError, DtypeError, ParameterError, RfError, TraceError
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

DATA = ("Tensor", "Dim", "Ax", "Value", "Any", "object", "Condition", "Offset")
"""What is in the annotations of such parameters."""

TAKEN = ("Tensor", "Dim", "Ax", "Value", "Module")
"""What is in the annotations of the functions that have a row."""

NAMESPACES = ("audio", "nested", "distributed")


def functions() -> Iterator[tuple[str, Callable[..., Any]]]:
    """The public functions that take tensors, dims or modules."""
    for name in [name for folder in ("ops", "nn", "loop", "trace") for name in NAMES[folder]]:
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
    classes = {name: getattr(rf, name) for name in NAMES["nn"]}
    modules = {name for name, cls in classes.items() if inspect.isclass(cls) and issubclass(cls, rf.Module)}
    assert modules - BASES == set(MODULES)


def outcomes(begin: Begin) -> Iterator[tuple[str, str, Exception | None]]:
    """Of a call with each wrong argument: the parameter, what was given, and the error."""
    world = World()
    fn, valid = begin(world)
    for p in inspect.signature(fn).parameters.values():
        if p.kind is p.VAR_KEYWORD or str(p.annotation).startswith("bool"):  # a flag may be anything, as in `if`
            continue
        takes_data = any(kind in str(p.annotation) for kind in DATA)
        for what, wrong in (WRONG | WRONG_DATA if takes_data else WRONG).items():
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


OF_TENSORS: dict[str, Callable[[World, Any], Any]] = {
    "size_of": lambda w, wrong: w.x.size_of(wrong),
    "axis": lambda w, wrong: w.x.axis(wrong),
    "remaining_dims": lambda w, wrong: w.x.remaining_dims([wrong]),
    "verify_out_shape": lambda w, wrong: w.x.verify_out_shape([*w.x.dims, wrong]),
    "check_place": lambda w, wrong: w.x.check_place([*w.x.dims, wrong]),
    "copy_compatible_to": lambda w, wrong: w.x.copy_compatible_to(wrong),
    "copy_compatible_to_dims": lambda w, wrong: w.x.copy_compatible_to_dims([*w.x.dims, wrong]),
    "copy_template_adding_axis": lambda w, wrong: w.x.copy_template_adding_axis(wrong),
    "copy_template_new_dim_tags": lambda w, wrong: w.x.copy_template_new_dim_tags([wrong]),
    "copy_template_replace_dim_tag": lambda w, wrong: w.x.copy_template_replace_dim_tag(w.time, wrong),
    "mark_as_output": lambda w, wrong: w.x.mark_as_output("x", shape=[wrong]),
    "mark_as_default_output": lambda w, wrong: w.x.mark_as_default_output(shape=[wrong]),
    "mark_as_loss": lambda w, wrong: w.x.mark_as_loss(wrong),
    "requires_grad_": lambda w, wrong: w.x.requires_grad_(wrong),
    "a dim plus": lambda w, wrong: w.feat + wrong,
    "a dim minus": lambda w, wrong: w.feat - wrong,
    "a dim times": lambda w, wrong: w.feat * wrong,
    "a dim divided by": lambda w, wrong: w.feat // wrong,
    "ceildiv_left": lambda w, wrong: w.feat.ceildiv_left(wrong),
    "ceildiv_right": lambda w, wrong: w.feat.ceildiv_right(wrong),
    "div_left": lambda w, wrong: w.feat.div_left(wrong),
    "div_right": lambda w, wrong: w.feat.div_right(wrong),
    "sub_left": lambda w, wrong: w.feat.sub_left(wrong),
    "sub_right": lambda w, wrong: w.feat.sub_right(wrong),
    "declare_same_as": lambda w, wrong: w.new.declare_same_as(wrong),
    "copy_from": lambda w, wrong: w.new.copy_from(wrong),
}
"""Methods of tensors and dims, with something else in place of a dim, tensor, name or flag."""


@pytest.mark.parametrize("wrong", [None, 2.5, object(), torch.zeros(2)], ids=["None", "a float", "an object", "raw"])
@pytest.mark.parametrize("method", OF_TENSORS)
def test_methods_of_tensors_and_dims_give_errors_of_rfnb(method, wrong):
    with pytest.raises(RfError):
        OF_TENSORS[method](World(), wrong)


def stepwise(body: Callable[[rf.Loop, rf.Tensor], Any]) -> Callable[[World], Any]:
    """Runs a body over the time of `x`."""

    def run(w: World) -> None:
        loop = rf.Loop(axis=w.time)
        with loop:
            body(loop, loop.unstack(w.x))

    return run


def lstm_over(w: World, spatial_dim: rf.Dim) -> Any:
    lstm = rf.LSTM(w.feat, w.out)
    return lstm(w.x, state=lstm.default_initial_state(batch_dims=[batch_dim]), spatial_dim=spatial_dim)


def ctc_over(w: World, frames: rf.Dim, labels: rf.Dim) -> Any:
    spaces = {"input_spatial_dim": frames, "targets_spatial_dim": labels}
    return rf.ctc_loss(logits=w.logits, targets=w.words, blank_index=4, **spaces)


UNEVEN = [[[1, 2], [1]], [[1], [1]]]
SAYS: list[tuple[Callable[[World], Any], type[RfError], str]] = [
    (lambda w: ctc_over(w, w.old_time, w.word), DimError, "`logits` has no dim old_time"),
    (lambda w: ctc_over(w, w.time, w.time), DimError, "ctc_loss: `targets`"),
    (lambda w: rf.edit_distance(w.words, w.time, w.words, w.word), DimError, "`a` has no dim time"),
    (lambda w: lstm_over(w, w.old_time), DimError, "lstm: `source` has no dim old_time"),
    (lambda w: lstm_over(w, batch_dim), DimError, "`state_h` has batch, over which the sequence runs"),
    (lambda w: rf.softmax(rf.range_over_dim(w.feat), axis=w.feat), DtypeError, "softmax: `a` has the dtype int64"),
    (lambda w: rf.LayerNorm(w.feat)(rf.range_over_dim(w.feat)), DtypeError, "layer_norm: `source` has the dtype int64"),
    (lambda w: -w.mask, DtypeError, "neg: `a` has the dtype bool.*logical_not"),
    (lambda w: rf.reduce_sum(w.x, axis=[w.feat, w.feat]), DimError, "`axis` has the dim feat twice"),
    (lambda w: rf.matmul(w.x, w.x, reduce=[w.feat, w.feat]), DimError, "`reduce` has the dim feat twice"),
    (lambda w: rf.slice(w.x, axis=w.time, start=0.5), DtypeError, "slice: `start` is not a whole number"),
    (lambda w: rf.slice(w.x, axis=w.time, size=1.5), DtypeError, "slice: `size` is not a whole number"),
    (lambda w: rf.convert_to_tensor(None), DtypeError, "not made of numbers.*NoneType"),
    (lambda w: rf.convert_to_tensor("abc"), DtypeError, "not made of numbers.*a vocab"),
    (lambda w: rf.convert_to_tensor(["abc"], dims=[batch_dim, w.new]), DtypeError, "not made of numbers.*a vocab"),
    (lambda w: rf.convert_to_tensor([torch.ones(2)] * 2, dims=[w.two, w.two]), DtypeError, "torch.stack"),
    (lambda w: rf.convert_to_tensor(torch.eye(2).to_sparse(), dims=[w.two, w.beam]), DtypeError, "to_dense"),
    (lambda w: rf.convert_to_tensor([[1, 2], [1]], dims=[w.two, w.beam]), DimError, "lists .* have different lengths"),
    (lambda w: rf.convert_to_tensor(UNEVEN, dims=[batch_dim, w.new, w.old_time]), DimError, "differ in more than one"),
    (lambda w: rf.AmpPolicy("float17"), DtypeError, "AmpPolicy: `compute_dtype`.*'float17'"),
    (lambda w: rf.AmpPolicy(None), DtypeError, "AmpPolicy: `compute_dtype`.*None"),
    (lambda w: rf.set_default_float_dtype("float17"), DtypeError, "set_default_float_dtype: unknown dtype"),
    (lambda w: rf.Loop(max_seq_len=-1), ParameterError, "max_seq_len is negative"),
    (lambda w: rf.Loop(w.time), ParameterError, r"by name.*rf.Loop\(axis="),
    (lambda w: rf.Dim(3, kind="spacial"), ParameterError, "unknown `kind`.*did you mean 'spatial'"),
    (lambda w: rf.Dim(object()), DimError, "Dim: the lengths are not whole numbers"),
    (lambda w: rf.Conv1d(w.feat, w.out, 3, padding="smae"), ParameterError, "Conv1d: unknown `padding`.*mean 'same'"),
    (lambda w: rf.reduce(w.x, mode="summ", axis=w.feat), ParameterError, "unknown `mode`.*did you mean 'sum'"),
    (lambda w: rf.Dropout(1.5), ParameterError, "Dropout: `drop_prob` is not a probability"),
    (lambda w: rf.ZoneoutLSTM(w.feat, w.out, zoneout_factor_cell=-1), ParameterError, "not a probability"),
    (lambda w: rf.concat([w.x, w.x], axis=w.time), DimError, r"its own dim.*rf.concat\(\(.*x, time\), \(.*x, time\)\)"),
    (lambda w: rf.compare(w.x, w.x), ParameterError, r"`kind`.*rf.compare\(.*x, \"==\", .*x\)"),
    (lambda w: rf.check.batch_invariance(rf.relu, torch.ones(2, 3)), DtypeError, "the batch is not an rf.Tensor"),
    (lambda w: rf.when.over("h", 5), DtypeError, r"not a number.*rf.when.over\(5, \"h\"\)"),
    (lambda w: rf.softmax(w.x, axis="T"), DimError, "'T' is not a Dim → axis=time"),
    (lambda w: rf.softmax(w.x, axis="tiem"), DimError, "'tiem' is not a Dim → axis=time"),
    (lambda w: rf.softmax(w.x, axis="speech"), DimError, "'speech' is not a Dim.*one of batch_dim, time, feat"),
    (lambda w: rf.reduce_sum(w.x, axis="B"), DimError, "'B' is not a Dim → axis=batch_dim"),
    (stepwise(lambda loop, x: bool(x > 0)), TraceError, "read in the body.*rf.where chooses"),
    (stepwise(lambda loop, x: float(x)), TraceError, "read in the body"),
    (stepwise(lambda loop, x: loop.unstack("x")), DtypeError, "unstack: `source` is not an rf.Tensor"),
]
"""What is said about the mistakes that are made most."""


@pytest.mark.parametrize(("mistake", "kind", "words"), SAYS, ids=lambda part: part if isinstance(part, str) else "")
def test_the_error_says_what_is_wrong(mistake, kind, words):
    with pytest.raises(kind, match=f"(?s){words}"):
        mistake(World())

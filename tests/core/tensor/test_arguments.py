"""A call that fails is explained by its arguments; what is not about them stays as it is."""

from __future__ import annotations

import inspect
from typing import Annotated

import pytest
import torch

import rfnb as rf
from rfnb.core.tensor.arguments import FloatTensor, OneOf, Probability, explained
from rfnb.core.tensor.op import guarded
from rfnb.errors import BackendError, DimError, DtypeError, ParameterError

feat, other = rf.Dim(4, name="feat"), rf.Dim(4, name="other")


def failing(x: FloatTensor, *, axis: rf.Dim, count: int = 1, **options: float) -> rf.Tensor:
    """Does nothing."""


def explain(failure: Exception, **arguments: object) -> Exception | None:
    given = {"x": rf.zeros([feat]), "axis": feat, "count": 1, "options": {}} | arguments
    return explained("failing", failing, given, failure)


@pytest.mark.parametrize(
    ("arguments", "kind", "words"),
    [
        ({"x": [1.0]}, DtypeError, "failing: `x` is not an rf.Tensor"),
        ({"axis": "featt"}, DimError, "'featt' is not a Dim → axis=feat"),
        ({"axis": -1}, DimError, "-1 is not a Dim → axis=feat"),
        ({"axis": other}, DimError, "no tensor has the dim other, which `axis` names"),
        ({"axis": [feat, feat]}, DimError, "`axis`"),
        ({"count": 1.5}, DtypeError, "`count` is not a whole number"),
        ({"options": {"scale": "big"}}, DtypeError, "`scale` is not a number"),
        ({"x": rf.range_over_dim(feat)}, DtypeError, "`x` has the dtype int64"),
    ],
)
def test_the_error_names_the_argument(arguments, kind, words):
    error = explain(TypeError("from Python"), **arguments)
    assert isinstance(error, kind) and words in str(error)


def test_arguments_that_look_right_are_shown_with_what_the_kernel_says():
    failure = RuntimeError("the kernel does not like it\nand more")
    error = explain(failure)
    assert isinstance(error, BackendError) and error.__cause__ is failure
    assert "{feat:4} float32" in str(error) and "does not like it" in str(error) and "and more" not in str(error)


@pytest.mark.parametrize(
    "failure",
    [torch.OutOfMemoryError(), RecursionError(), MemoryError(), OSError(), AssertionError(), KeyboardInterrupt()],
)
def test_what_is_not_about_arguments_stays(failure):
    assert explain(failure) is None


def test_errors_of_the_users_own_code_stay():
    @rf.op(name="with_an_error_of_its_own")
    def own(x: rf.Tensor) -> rf.Tensor:
        raise ValueError("of the user")

    with pytest.raises(ValueError, match=r"^of the user$"):
        own(rf.zeros([feat]))


def test_kinds_are_checked_before_the_call():
    calls = []

    @guarded
    def pooled(x: rf.Tensor, mode: Annotated[str, OneOf("max", "avg")] = "max", *, p: Probability = 0.0) -> None:
        calls.append((mode, p))

    pooled(None, "avg", p=1)
    for wrong in ({"mode": "avgg"}, {"p": 1.1}, {"p": float("nan")}):
        with pytest.raises(ParameterError, match="pooled: "):
            pooled(None, **wrong)
    assert calls == [("avg", 1)]


def test_a_guarded_function_looks_like_itself():
    assert list(inspect.signature(rf.dropout).parameters) == ["source", "drop_prob", "axis", "on_forward"]
    assert rf.dropout.__module__ == "rfnb.ops.random" and "probability" in rf.dropout.__doc__
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'drop_prob'"):
        rf.dropout(rf.zeros([feat]))


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (
            lambda x: rf.softmax(x, axs=feat),
            r"softmax\(\) got an unexpected keyword argument 'axs'. Did you mean 'axis'",
        ),
        (lambda x: rf.reduce_mean(x, axis=feat, keep=True), "'keep'. It takes source, axis, use_mask$"),
        (lambda x: rf.reduce_mean(x, axis=feat, keepdims=True), "'keepdims'. It is not needed: ops find axes by their"),
        (lambda x: rf.reduce_sum(x, dims=feat), "'dims'. Did you mean 'axis'"),
        (lambda x: rf.concat((x, feat), alow_broadcast=True), "Did you mean 'allow_broadcast'"),
        (lambda x: rf.cast(x, "int32", dtyp=1), r"cast\(\) .* Did you mean 'dtype'"),
        (lambda x: rf.sort(x, axis=feat, descnding=True), r"sort\(\) .* Did you mean 'descending'"),
        (lambda x: rf.Loop(axs=feat), r"Loop\(\) got .*'axs'. Did you mean 'axis'"),
        (lambda x: x.copy(nam="y"), r"copy\(\) .* Did you mean 'name'"),
        (lambda x: rf.Vocab.of_labels(["a"], lables=["a"]), "Did you mean 'labels'"),
        (lambda x: rf.relu(x, inplace=True), r"relu\(\) .*'inplace'. It is not needed: ops return new tensors"),
        (lambda x: rf.gelu(x, approximate="tanh"), r"gelu\(\) got .*'approximate'. It takes a$"),
        (lambda x: rf.softmax(x, axis=feat, dtype="float64"), "rf.cast converts"),
        (lambda x: rf.progress([x], nmae="epoch"), r"progress\(\) .* Did you mean 'name'"),
        (lambda x: rf.gather(x, indces=0, axis=feat), "missing 1 required keyword-only argument: 'indices'"),
    ],
)
def test_an_argument_that_does_not_exist_suggests_one_that_does(call, words):
    for _ in range(2):  # before and after the code of the wrapper is generated
        with pytest.raises(TypeError, match=words):
            call(rf.zeros([feat]))


def test_functions_with_options_of_any_name_take_them():
    @guarded
    def described(x: rf.Tensor, **options: int) -> dict[str, int]:
        return options

    assert described(None, colour=1) == {"colour": 1}

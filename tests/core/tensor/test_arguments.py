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

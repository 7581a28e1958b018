"""Initial values of parameters, as net dicts give them: a number, a name, a call as text, or a dict."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from typing import Any

from rfnb.core.ground.suggestions import did_you_mean
from rfnb.errors import NetworkError
from rfnb.nn.init import Glorot, HeNormal, HeUniform, Normal, VarianceScaling

NAMES: dict[str, Any] = {
    "glorot_uniform": lambda **_: Glorot(),
    "xavier_uniform": lambda **_: Glorot(),
    "xavier": lambda **_: VarianceScaling(1.0, "fan_avg", "normal"),
    "glorot_normal": lambda **_: VarianceScaling(1.0, "fan_avg", "normal"),
    "he_normal": lambda **_: HeNormal(),
    "he_uniform": lambda **_: HeUniform(),
    "zeros": lambda **_: 0.0,
    "ones": lambda **_: 1.0,
    "constant": lambda value=0.0, **_: value,
    "variance_scaling": lambda scale=1.0, mode="fan_in", distribution="truncated_normal", **_: VarianceScaling(
        scale, mode.lower(), distribution
    ),
    "random_normal": lambda mean=0.0, stddev=0.05, **_: Normal(stddev, truncated=False),
    "truncated_normal": lambda mean=0.0, stddev=0.05, **_: Normal(stddev),
}
"""What makes the initial values, by name, with the options of the call."""


def initial_values(given: Any) -> Any:
    """The `initial` of an rf.Parameter. Raises NetworkError if it is not known."""
    if given is None or isinstance(given, bool | int | float):
        return given or 0.0
    if isinstance(given, Mapping):
        options = {name: value for name, value in given.items() if name != "class"}
        return _made(str(given.get("class")), options)
    if not isinstance(given, str):
        raise NetworkError(
            "an initializer of a kind that is not known", got=repr(given)[:60], expected='"glorot_uniform"'
        )
    name, _, rest = given.partition("(")
    return _made(name.strip(), _options_of(given) if rest else {})


def _options_of(text: str) -> dict[str, Any]:
    """The keyword arguments of a call as text, which must be plain values."""
    try:
        call = ast.parse(text.strip(), mode="eval").body
        assert isinstance(call, ast.Call)
        return {str(keyword.arg): ast.literal_eval(keyword.value) for keyword in call.keywords}
    except (SyntaxError, ValueError, AssertionError, MemoryError, RecursionError):
        raise NetworkError("an initializer cannot be read", got=text[:60], expected="name(option=value)") from None


def _made(name: str, options: dict[str, Any]) -> Any:
    key = "".join(f"_{c.lower()}" if c.isupper() else c for c in name).strip("_").removesuffix("_initializer")
    if key not in NAMES:
        raise NetworkError(
            f"there is no initializer {name!r:.40}", expected=", ".join(NAMES), hint=did_you_mean(key, NAMES)
        )
    return NAMES[key](**options)

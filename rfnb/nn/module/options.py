"""The names of options of modules: errors for unknown ones and for values that cannot be."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from rfnb.core.advice.torch_equivalents import called
from rfnb.core.ground.text import did_you_mean
from rfnb.errors import ParameterError

ROOT = __name__.partition(".")[0]


def check_options(cls: type, given: Mapping[str, Any]) -> None:
    """Raises ParameterError for the first of the options that a class of rfnb does not have.

    The constructors of users are left to Python.
    """
    init: Any = cls.__init__  # type: ignore[misc]
    if str(getattr(init, "__module__", None)).partition(".")[0] == ROOT:  # None: made by exec
        names = _known(cls)
        for name, value in given.items():
            if names is not None and name not in names:
                raise unknown_option(cls, name, value)


def unknown_option(cls: type, name: str, value: Any) -> ParameterError:
    """The error for an option that the class does not have: it names the option that is probably meant."""
    names = _known(cls) or ()
    meant = next((option for option in MEANT.get(name, ()) if option in names), None)
    return ParameterError(
        f"{cls.__name__}: there is no option `{name}`",
        got=f"{name}={called(value)}",
        expected=", ".join(names),
        hint=f"`{meant}`" if meant else INSTEAD.get(name) or did_you_mean(name, names, "`{}`"),
    )


def one_of(cls: str, **given: Any) -> Any:
    """The value of an option that has several names; None if none is given. Raises ParameterError if several are."""
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        fault = f"{cls}: `{names[0]}` is given twice"
        raise ParameterError(fault, got=" and ".join(f"{name}=…" for name in names), expected="one of them")
    return given[names[0]] if names else None


def layer_numbers(cls: type, count: Any, option: str = "num_layers") -> range:
    """0, …, count - 1. Raises ParameterError if the number of layers is negative, or not a number."""
    if not isinstance(count, int) or count < 0:
        raise ParameterError(f"{cls.__name__}: `{option}` must be 0 or more", got=repr(count), expected="an int")
    return range(count)


def _known(cls: type) -> tuple[str, ...] | None:
    """The options of a class. Those that a constructor passes on are options of the class above; None: any."""
    options: list[str] = []
    for base in cls.__mro__:
        if "__init__" in vars(base) and base is not object:
            names, passes_on = _options(vars(base)["__init__"])
            options += [name for name in names if name not in options]
            if not passes_on:
                return tuple(options)
    return None


@functools.cache
def _options(init: Callable[..., Any]) -> tuple[tuple[str, ...], bool]:
    """The options that a constructor takes by name, and whether it takes any others."""
    parameters = list(inspect.signature(init).parameters.values())[1:]
    by_name = [p.name for p in parameters if p.kind in (p.POSITIONAL_OR_KEYWORD, p.KEYWORD_ONLY)]
    return tuple(by_name), any(p.kind is p.VAR_KEYWORD for p in parameters)


def _for(names: str, *meant: str) -> Iterable[tuple[str, tuple[str, ...]]]:
    return ((name, meant) for name in names.split())


MEANT: Mapping[str, tuple[str, ...]] = {
    **dict(_for("bias use_bias", "with_bias")),
    **dict(_for("kernel_size", "filter_size", "filter_sizes")),
    **dict(_for("stride", "strides")),
    **dict(_for("dilation", "dilation_rate")),
    **dict(_for("in_features in_channels input_size input_dim num_embeddings normalized_shape num_features", "in_dim")),
    **dict(_for("out_features out_channels hidden_size output_dim embedding_dim", "out_dim")),
    **dict(_for("embed_dim d_model hidden_size", "model_dim", "out_dim", "in_dim")),
    **dict(_for("dim_feedforward intermediate_size", "ff_dim")),
    **dict(_for("kdim", "key_dim_total")),
    **dict(_for("vdim", "value_dim_total")),
    **dict(_for("nhead n_heads heads num_attention_heads", "num_heads")),
    **dict(_for("n_layers num_hidden_layers", "num_layers")),
    **dict(_for("activation", "ff_activation")),
    **dict(_for("epsilon variance_epsilon", "eps")),
    **dict(_for("eps", "epsilon")),
    **dict(_for("dropout p", "att_dropout", "drop_prob")),
    **dict(_for("vocab_size", "vocab_dim", "in_dim")),
}
"""Options of rfnb that are probably meant by names of other libraries; the first one that a class has is suggested."""

INSTEAD = {
    "bidirectional": "use a second module for the other direction, on rf.reverse_sequence(x, axis=time)",
    "num_layers": "make one module for each layer, in an rf.ModuleList",
    "batch_first": "leave it out: axes are found by their dims, in any order",
    "dropout": "call rf.dropout(x, drop_prob) on the result",
    "device": "module.to(device=…), or rf.set_default_device",
    "dtype": "module.to(dtype=…), or rf.set_default_float_dtype",
    "padding_mode": "pad the source first: rf.pad(x, axes=[…], padding=[…], mode=…)",
}
"""What to write instead of options that have no counterpart."""

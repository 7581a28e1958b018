"""What to write where a net stops, and the functions of a config that are to be filled in."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator, Mapping

from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.config.values import Function, Unknown
from rfnb.netdict.report.outline import OutlineEntry

OF_GRADIENTS = frozenset("gradient synthetic_gradient synthetic_gradients tikhonov_regularization".split())
"""Classes whose output is their source, and which only change gradients or add to the loss."""


def known_limit(entry: OutlineEntry, fault: str) -> tuple[str, str] | None:
    """What is said in place of a fault that no layer of rfnb will mend, and the way out; None for others."""
    for option, value in entry.described.items():
        if isinstance(value, str) and value.startswith("keep_over_epoch") and value in fault:
            way = f'"{option}": a layer of a data key, which your loop gives; get_last_hidden_state gives the next one'
            return f"{option} is kept from epoch to epoch", way
    kind = entry.cls
    if kind in OF_GRADIENTS:
        return f"{kind} has an effect on gradients alone", '"class": "copy" has the same output, and plain gradients'
    needs_program = "sprint" in repr(dict(entry.described)).lower()
    if needs_program and re.match(r"there is no (loss|layer class)|unknown option|the class", fault):
        return "an external program (sprint) computes it", '"ce" with an alignment, "ctc", or a loss of your own'
    if "placeholder" in fault:
        return "a placeholder of a TensorFlow session has no value", "a number, or a data key in its place"
    if re.search(r"tensorflow\S*\.gradients", fault):
        return "tf.gradients works on a graph of TensorFlow", "your own loop: torch.autograd.grad(loss, x)"
    if "get_variable" in fault or "tensorflow.Variable" in fault:
        return "a function makes variables of TensorFlow", '"class": "variable", and the layer as a further source'
    return None


def functions_of(entry: OutlineEntry, values: Mapping[str, object]) -> Iterator[tuple[str, object]]:
    """The functions that an `eval` of a layer names, and that `functions={…}` may stand for, by name."""
    given = entry.described.get("eval")
    if isinstance(given, Function | Unknown):
        yield given.name.removesuffix("()").rpartition(".")[2], given
    elif isinstance(given, str):
        for name in re.findall(r"typed_value\(\s*['\"](\w+)['\"]", given):
            yield name, values.get(name)


def stub(name: str, given: object, entry: OutlineEntry, source: Tensor | None) -> str:
    """A function to fill in, in place of one of the config."""
    parameters = ["source"]
    if isinstance(given, Function):
        signature = given.node.args
        defaults = [*[None] * (len(signature.args) - len(signature.defaults)), *signature.defaults]
        pairs = [
            *zip(signature.args, defaults, strict=True),
            *zip(signature.kwonlyargs, signature.kw_defaults, strict=True),
        ]
        parameters = [f"{arg.arg}={'None' if default is None else ast.unparse(default)}" for arg, default in pairs]
    names = [parameter.partition("=")[0] for parameter in parameters]
    first = next((name for name in names if name not in ("self", "network")), "source")
    if names and names[0] == first:
        parameters[0] = first
    template = "a Tensor" if source is None else "{" + ", ".join(dim.name for dim in source.dims) + "}"
    what = f"{first}(0)" if first == "source" else first
    where = f"layer {entry.path!r}" + (f", line {entry.line}" if entry.line else "")
    return f"def {name}({', '.join(parameters)}, **options):  # {where}\n    return {what}  # {template}\n"

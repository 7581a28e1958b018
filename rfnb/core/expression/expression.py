"""A small language of expressions: `rf.reduce_max(att, axis=enc_time) > 0.9`. Parsed and computed here, never run."""

from __future__ import annotations

import ast
import operator
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from types import GetSetDescriptorType, ModuleType
from typing import Any, NamedTuple

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.expression import torch_ops
from rfnb.core.expression.torch_ops import Refusal, is_raw
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.op import OPS
from rfnb.core.tensor.tensor import Tensor, plain_tensor
from rfnb.errors import ExpressionError, ExpressionNameError, RfError
from rfnb.printable import error_message, terminal_text

BITS = 1024
"""Largest result of an integer power, in bits."""


class Members(ABC):
    """A value with parts that an expression can read: `owner.part`, `owner["a.part"]`."""

    @abstractmethod
    def members(self) -> Iterable[str]:
        """The names of the parts."""

    @abstractmethod
    def __getitem__(self, name: str) -> Any:
        """The part with this name."""


@dataclass(frozen=True)
class Names:
    """The names that an expression can use.

    Args:
        values: by name, or by path, such as `self.h`: numbers, texts, raw tensors and arrays, Tensors, Dims, and lists,
            tuples and dicts of them, as the variables of a running frame are; an ExpressionNameError stands for a part
            that was not kept. Raw tensors are computed as torch does, Tensors by their dims. Of other objects,
            attributes that are data can be read; none of their code runs.
        functions: are written `rf.name(…)`.
        own: functions of the user, written `name(…)`, which are given copies. Only for expressions that the user types:
            never for those of a file.
    """

    values: Mapping[str, object]
    functions: Mapping[str, Callable[..., object]]
    own: Mapping[str, Callable[..., object]] = field(default_factory=dict)


class ExpressionReader:
    """Computes the parts of an expression."""

    def __init__(self, names: Names, error: Callable[..., ExpressionError]):
        self.names, self.error = names, error

    def read(self, node: ast.expr) -> Any:
        """The value of a part of the expression. Raises the error that stands for a missing value."""
        value = READ[type(node)](self, node)
        if isinstance(value, ExpressionNameError):
            raise value
        return value

    def _constant(self, node: ast.Constant) -> object:
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return node.value
        if node.value is Ellipsis:
            raise self.error(node, "`...` can only be used as an index", hint="x[..., -1]")
        raise self.error(node, f"an expression must not contain {type(node.value).__name__}")

    def _name(self, node: ast.Name) -> Any:
        try:
            return self.names.values[node.id]
        except KeyError:
            pass
        if node.id == "rf":
            raise self.error(node, "`rf` can only be used in calls", hint="rf.reduce_max(x, axis=time)")
        if node.id in torch_ops.MODULES:
            raise self.error(node, f"`{node.id}` can only be used in calls", hint=f"{node.id}.{_EXAMPLES[node.id]}")
        if node.id in _BUILTINS or node.id in self.names.own:
            raise self.error(node, f"`{node.id}` is a function", hint=f"{node.id}(…)")
        raise self._unknown(node, node.id, list(self.names.values))

    def _sequence(self, node: ast.List | ast.Tuple) -> object:
        parts = [self.read(part) for part in node.elts]
        return tuple(parts) if isinstance(node, ast.Tuple) else parts

    def _attribute(self, node: ast.Attribute) -> Any:
        path = path_of(node)
        if path:
            try:
                return self.names.values[path]  # a value whose name has a dot, such as `chosen.labels`
            except KeyError:
                pass
        if self._is_module(path):
            return self._of_module(node, path, torch_ops.constants())
        owner = self.read(node.value)
        if is_raw(owner) or isinstance(owner, Tensor):
            return self._attribute_of_tensor(node, owner)
        if isinstance(owner, dict):
            return self._entry(node, owner, node.attr)
        if isinstance(owner, Members):
            return self._member(node, owner, node.attr)
        for kind, names in _ATTRIBUTES.items():
            if isinstance(owner, kind):
                if node.attr in names:
                    return getattr(owner, node.attr)
                raise self._unknown(node, node.attr, names, of=kind.__name__)
        if isinstance(owner, tuple):
            fields = getattr(owner, "_fields", getattr(type(owner), "__match_args__", ()))
            if node.attr in fields:
                return tuple.__getitem__(owner, fields.index(node.attr))
        for value in _held(owner, node.attr):
            return value
        raise self.error(node, f"{torch_ops.article(owner)} has no .{node.attr}")

    def _attribute_of_tensor(self, node: ast.Attribute, owner: object) -> object:
        name, named = node.attr, _ATTRIBUTES[Tensor] if isinstance(owner, Tensor) else ("dims",)
        if name in named:
            return getattr(owner if isinstance(owner, Tensor) else plain_tensor(owner), name)
        if name not in torch_ops.ATTRIBUTES or not hasattr(torch_ops.bare(owner), name):
            of = type(owner).__name__
            if name in torch_ops.methods():
                raise self.error(node, f"`{name}` is a method", hint=f"x.{name}(…)")
            raise self._unknown(node, name, [*named, *torch_ops.ATTRIBUTES], of=of)
        value = self._done(node, getattr, torch_ops.bare(owner), name)
        return str(value) if name == "device" else value

    def _slice(self, node: ast.Slice) -> slice:
        bounds = [
            None if part is None else torch_ops.bare(self.read(part)) for part in (node.lower, node.upper, node.step)
        ]
        return slice(*bounds)

    def _key(self, node: ast.expr) -> Any:
        """What stands in the brackets of an index."""
        if isinstance(node, ast.Constant) and node.value is Ellipsis:
            return Ellipsis
        return tuple(map(self._key, node.elts)) if isinstance(node, ast.Tuple) else self.read(node)

    def _subscript(self, node: ast.Subscript) -> object:
        owner, key = self.read(node.value), self._key(node.slice)
        if is_raw(owner) or isinstance(owner, Tensor):
            return self._done(node, torch_ops.pick, owner, key)
        if isinstance(owner, dict):
            return self._entry(node, owner, key)
        if isinstance(owner, Members) and isinstance(key, str | int):
            return self._member(node, owner, str(key))
        key = self._whole(key)
        if not isinstance(owner, list | tuple | str) or not (type(key) is int or isinstance(key, slice)):
            raise self.error(node, f"{torch_ops.article(owner)} cannot be indexed by {torch_ops.article(key)}")
        if isinstance(key, slice):
            return self._done(node, operator.getitem, owner, key)
        if not -len(owner) <= key < len(owner):
            raise self.error(node, "the index is out of range", expected=f"0 … {len(owner) - 1}")
        return owner[key]

    def _whole(self, key: object) -> object:
        """A whole number in a tensor of one entry as an int; others as they are."""
        raw = torch_ops.bare(key)
        return int(raw) if is_raw(raw) and raw.shape == () and "int" in str(raw.dtype) else key

    def _member(self, node: ast.AST, owner: Members, name: str) -> object:
        members = list(owner.members())
        if any(member == name or member.startswith(f"{name}.") for member in members):
            return owner[name]
        raise self._unknown(node, name, members)

    def _entry(self, node: ast.AST, owner: dict[object, object], key: object) -> object:
        if isinstance(key, str | int) and dict.__contains__(owner, key):
            return dict.__getitem__(owner, key)
        raise self._unknown(node, str(key), [str(entry) for entry in owner])

    def _call(self, node: ast.Call) -> object:
        function = self.function(node.func)
        if any(isinstance(part, ast.Starred) for part in node.args) or any(k.arg is None for k in node.keywords):
            raise self.error(node, "calls cannot use * or **")
        owner = [self.read(node.func.value)] if function is None and isinstance(node.func, ast.Attribute) else []
        args = [*owner, *(self.read(part) for part in node.args)]
        kwargs = {k.arg: self.read(k.value) for k in node.keywords if k.arg}
        if function is None:
            assert isinstance(node.func, ast.Attribute)
            function = self._done(node, torch_ops.method_of, owner[0], node.func.attr)
        if isinstance(function, torch_ops.Pure):
            return self._done(node, torch_ops.call, function, args, kwargs)
        return self._done(node, function, *args, **kwargs)

    def function(self, node: ast.expr) -> Callable[..., Any] | torch_ops.Pure | None:
        """The function that a call names; None for a method, of which it only checks the name."""
        if isinstance(node, ast.Name):
            return self._plain_function(node)
        if not isinstance(node, ast.Attribute):
            raise self.error(
                node, "only functions and methods can be called", expected="rf.name(…), x.sum(), torch.abs(x)"
            )
        path = path_of(node)
        if path.startswith("rf.") and path.count(".") == 1:
            if node.attr not in self.names.functions:
                raise self._unknown(node, node.attr, list(self.names.functions), of="rf here")
            return _of_tensors(self.names.functions[node.attr])
        if self._is_module(path):
            return self._of_module(node, path, torch_ops.functions())
        if node.attr not in torch_ops.methods() and node.attr not in torch_ops.ARRAY_METHODS:
            refusal = torch_ops.refused_method(node.attr, torch_ops.methods())
            raise self.error(node, refusal.what, **refusal.facts)
        return None

    def _plain_function(self, node: ast.Name) -> Callable[..., object]:
        name = node.id
        if name in self.names.own:
            return _with_copies(self.names.own[name])
        if name in _BUILTINS:
            return _BUILTINS[name]
        functions = [*_BUILTINS, *self.names.own]
        hint = (
            f"rf.{name}(…)"
            if name in self.names.functions
            else f"torch.{name}(…)"
            if f"torch.{name}" in torch_ops.functions()
            else did_you_mean(name, functions, "{}")
        )
        raise self.error(
            node,
            f"there is no function `{name}`",
            expected="rf.…, torch.…, methods of tensors, float, len, max, …, your own",
            hint=hint,
        )

    def _is_module(self, path: str) -> bool:
        """Whether a path begins with a module, which no value hides."""
        root = path.partition(".")[0]
        return root in torch_ops.MODULES and root not in self.names.values

    def _of_module(self, node: ast.Attribute, path: str, table: Mapping[str, object]) -> Any:
        full = torch_ops.path_of(path)
        if full in table:
            return table[full]
        if full in torch_ops.functions():
            raise self.error(node, f"`{path}` is a function", hint=f"{path}(…)")
        owner, _, name = full.rpartition(".")
        names = [entry.rpartition(".")[2] for entry in table if entry.rpartition(".")[0] == owner]
        hint = None if torch_ops.exists(full) else did_you_mean(name, names, "{}")
        fault = f"`{path}` cannot be {'called' if table is torch_ops.functions() else 'used'} in an expression"
        raise self.error(node, fault, expected=torch_ops.ONLY_COMPUTE, hint=hint)

    def _binary(self, node: ast.BinOp) -> object:
        how = _BINARY.get(type(node.op))
        left, right = self.read(node.left), self.read(node.right)
        if how is None:
            raise self.error(node, "unknown operator", expected="+ - * / // % ** @ & | ^")
        if not (_calculates(left) and _calculates(right)):
            odd = left if not _calculates(left) else right
            raise self.error(
                node, f"{torch_ops.article(odd)} cannot be used in a calculation", expected="tensors and numbers"
            )
        if is_raw(left) or is_raw(right):
            return self._done(node, torch_ops.operate, how, left, right)
        if how in _LOGICAL and (isinstance(left, Tensor) or isinstance(right, Tensor)):
            name = _LOGICAL[how]
            if name is None:
                raise self.error(node, "Tensors are multiplied by dims", hint="rf.matmul(a, b, reduce=dim)")
            return self._logical(node, name, left, right)
        whole = isinstance(left, int) and isinstance(right, int)
        if how is operator.pow and whole and left.bit_length() * abs(right) > BITS:
            raise self.error(node, "the power is too large")
        result = self._done(node, how, left, right)
        if isinstance(result, complex):
            raise self.error(node, "the result is not a real number")
        return result

    def _unary(self, node: ast.UnaryOp) -> object:
        value = self.read(node.operand)
        if isinstance(node.op, ast.Not):
            return self._logical(node, "logical_not", value) if _has_entries(value) else not self._truth(node, value)
        if isinstance(node.op, ast.Invert):
            if is_raw(value):
                return self._done(node, operator.invert, value)
            if isinstance(value, Tensor) and value.dtype == "bool":
                return self._logical(node, "logical_not", value)
        elif _calculates(value):
            return self._done(node, operator.neg if isinstance(node.op, ast.USub) else operator.pos, value)
        raise self.error(
            node, f"{torch_ops.article(value)} cannot be used in a calculation", expected="tensors and numbers"
        )

    def _both(self, node: ast.BoolOp) -> object:
        """Computes `and` and `or`, which work entry by entry on tensors."""
        every = isinstance(node.op, ast.And)
        result = self.read(node.values[0])
        for part in node.values[1:]:
            if _has_entries(result):
                result = self._logical(node, "logical_and" if every else "logical_or", result, self.read(part))
            elif self._truth(node, result) is every:
                result = self.read(part)
        return result

    def _comparison(self, node: ast.Compare) -> object:
        left = self.read(node.left)
        result: object = True
        for op, comparator in zip(node.ops, node.comparators, strict=True):
            how, right = _COMPARE.get(type(op)), self.read(comparator)
            if how is None:
                raise self.error(node, "unknown comparison", expected="== != < <= > >= in, `is None`")
            outcome = self._compared(node, how, left, right)
            if _has_entries(result):
                result = self._logical(node, "logical_and", result, outcome)
            elif result is True or self._truth(node, result):
                result = outcome
            left = right
        return result

    def _compared(self, node: ast.AST, how: Callable[[object, object], object], left: object, right: object) -> object:
        if how in (operator.is_, operator.is_not):
            if right is not None:
                raise self.error(node, "`is` is for None", hint="==")
            return how(left, right)
        if how in _IN and isinstance(right, list | tuple | dict | str) and _is_plain([left, *right]):
            return self._done(node, how, right, left)
        left, right = self._labels(node, left, right), self._labels(node, right, left)
        if is_raw(left) or is_raw(right):
            if _calculates(left) and _calculates(right):
                return self._done(node, torch_ops.operate, how, left, right)
        elif _calculates(left) and _calculates(right):
            return self._done(node, how, left, right)
        elif how in (operator.eq, operator.ne):
            if "dtype" in (type(left).__name__, type(right).__name__) or isinstance(left, np.dtype):
                left, right = (str(value).removeprefix("torch.") for value in (left, right))
            if all(map(_is_plain, (left, right))):
                return how(left, right)
        raise self.error(node, f"{torch_ops.article(left)} and {torch_ops.article(right)} cannot be compared")

    def _labels(self, node: ast.AST, value: object, other: object) -> object:
        """Returns the number of a label that is compared with a tensor of labels; other values as they are."""
        if isinstance(value, str) and isinstance(other, Tensor):
            if other.vocab is None:
                raise self.error(node, f"the entries have no names to compare with {value!r}")
            return self._done(node, other.vocab.encode, [value])[0]
        return value

    def _logical(self, node: ast.AST, name: str, *values: object) -> object:
        if not any(map(is_raw, values)):
            return self._done(node, OPS[name].fn, *values)
        first, *tail = (value != 0 if is_raw(value) or isinstance(value, Tensor) else bool(value) for value in values)
        how = operator.and_ if name == "logical_and" else operator.or_
        return self._done(node, torch_ops.operate, how, first, tail[0]) if tail else ~first

    def _truth(self, node: ast.AST, value: object) -> bool:
        if value is None or isinstance(value, bool | int | float | np.generic) or is_raw(value):
            return bool(value)
        raise self.error(node, f"{torch_ops.article(value)} is neither true nor false")

    def _done(self, node: ast.AST, function: Callable[..., object], *given: object, **by_name: object) -> Any:
        try:
            return function(*given, **by_name)
        except RfError:
            raise
        except Refusal as refusal:
            raise self.error(node, refusal.what, **refusal.facts) from None
        except Exception as error:
            words = (error_message(error).splitlines() or [type(error).__name__])[0]
            raise self.error(node, f"it cannot be computed: {words}") from error

    def _unknown(self, node: ast.AST, name: str, known: Iterable[str], of: str = "") -> ExpressionError:
        listed = sorted(known)
        names = ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")
        fault = f"{of} has no `{name}`" if of else f"there is no `{name}`"
        hint = did_you_mean(name, known, "{}")
        return self.error(node, fault, ExpressionNameError, expected=names or "no names", hint=hint)


READ: dict[type[ast.AST], Callable[[ExpressionReader, Any], object]] = {
    ast.Constant: ExpressionReader._constant,
    ast.Name: ExpressionReader._name,
    ast.List: ExpressionReader._sequence,
    ast.Tuple: ExpressionReader._sequence,
    ast.Attribute: ExpressionReader._attribute,
    ast.Subscript: ExpressionReader._subscript,
    ast.Call: ExpressionReader._call,
    ast.BinOp: ExpressionReader._binary,
    ast.UnaryOp: ExpressionReader._unary,
    ast.BoolOp: ExpressionReader._both,
    ast.Compare: ExpressionReader._comparison,
    ast.Slice: ExpressionReader._slice,
}
WORDS: dict[type[ast.AST], str] = {
    ast.Lambda: "lambda",
    ast.IfExp: "`if`; use rf.where",
    ast.Dict: "dict",
    ast.ListComp: "loops",
    ast.GeneratorExp: "loops",
    ast.JoinedStr: "f-strings",
    ast.NamedExpr: "`:=`",
    ast.Starred: "*",
}
_BINARY: dict[type[ast.AST], Callable[[object, object], object]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
    ast.MatMult: operator.matmul,
    ast.BitAnd: operator.and_,
    ast.BitOr: operator.or_,
    ast.BitXor: operator.xor,
}
_LOGICAL: dict[object, str | None] = {
    operator.and_: "logical_and",
    operator.or_: "logical_or",
    operator.xor: "not_equal",
    operator.matmul: None,
}
"""The ops on Tensors of operators; None where there is none."""
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], object]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
    ast.In: operator.contains,
    ast.NotIn: lambda values, value: value not in values,
    ast.Is: operator.is_,
    ast.IsNot: operator.is_not,
}
_IN = (_COMPARE[ast.In], _COMPARE[ast.NotIn])
_ATTRIBUTES: dict[type, tuple[str, ...]] = {
    Tensor: ("dims", "dtype", "device", "feature_dim", "name", "sparse_dim"),
    Dim: ("dimension", "kind", "name"),
}


_EXAMPLES = {"torch": "abs(x)", "F": "softmax(x, dim=-1)", "np": "abs(x)", "numpy": "abs(x)", "math": "sqrt(x)"}


class PositionalAxis(NamedTuple):
    """The axis of a tensor at a position, for the names axis0, axis1, … of axes that have only positions."""

    position: int


def _calculates(value: object) -> bool:
    return isinstance(value, Tensor | int | float | np.generic) or is_raw(value)


def _has_entries(value: object) -> bool:
    """Whether `and`, `or` and `not` work on each entry of a value."""
    return isinstance(value, Tensor) or (is_raw(value) and torch_ops.entries(value) != 1)


def _is_plain(value: object) -> bool:
    if isinstance(value, tuple | list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, str | bool | int | float)


def path_of(node: ast.expr) -> str:
    """`a.b.c` as text; empty for other expressions."""
    if isinstance(node, ast.Name):
        return node.id
    return f"{owner}.{node.attr}" if isinstance(node, ast.Attribute) and (owner := path_of(node.value)) else ""


def _held(owner: object, name: str) -> Iterator[object]:
    """The attribute that an object holds itself, or as a module of torch does. No code of its class runs."""
    slots = [cls.__dict__["__dict__"] for cls in type(owner).__mro__ if "__dict__" in cls.__dict__]
    if name.startswith("_") or isinstance(owner, type | ModuleType) or set(map(type, slots)) != {GetSetDescriptorType}:
        return
    attributes = object.__getattribute__(owner, "__dict__")
    for holder in (attributes, *(attributes.get(part) for part in ("_parameters", "_buffers", "_modules"))):
        if isinstance(holder, dict) and name in holder:
            yield holder[name]


def _of_tensors(function: Callable[..., object]) -> Callable[..., object]:
    """A function of rf, which is given Tensors in place of raw tensors, and their dims in place of positions."""

    def call(*args: object, **kwargs: object) -> Any:
        tensors = [plain_tensor(arg) if is_raw(arg) else arg for arg in args]
        by_name = {name: plain_tensor(arg) if is_raw(arg) else arg for name, arg in kwargs.items()}
        tensor = next((arg for arg in (*tensors, *by_name.values()) if isinstance(arg, Tensor)), None)

        def dims(arg: object) -> Any:
            if isinstance(arg, list):
                return [dims(part) for part in arg]
            return tensor.dims[arg.position] if isinstance(arg, PositionalAxis) and tensor is not None else arg

        return function(*map(dims, tensors), **{name: dims(arg) for name, arg in by_name.items()})

    return call


def _with_copies(function: Callable[..., object]) -> Callable[..., object]:
    """A function of the user, which is given copies of tensors, arrays and containers."""
    return lambda *args, **kwargs: function(
        *map(torch_ops.copied, args), **{name: torch_ops.copied(arg) for name, arg in kwargs.items()}
    )


def _abs(value: Any) -> object:
    is_tensor = isinstance(value, Tensor) or (is_raw(value) and not isinstance(value, np.ndarray))
    return _method("abs", value) if is_tensor else abs(value)


def _method(name: str, *args: object, **kwargs: object) -> object:
    return torch_ops.call(torch_ops.method_of(args[0], name), args, kwargs)


def _converted(kind: type) -> Callable[[Any], object]:
    def convert(value: object) -> object:
        value = torch_ops.bare(value)
        if not (is_raw(value) or isinstance(value, bool | int | float | str | np.generic)):
            raise Refusal(f"{torch_ops.article(value)} is not a number")
        return kind(value)

    return convert


def _length(value: Any) -> int:
    value = torch_ops.bare(value)
    if not (is_raw(value) or isinstance(value, str | list | tuple | dict)):
        raise Refusal(f"{torch_ops.article(value)} has no length")
    return len(value)


def _of_entries(function: Callable[..., object]) -> Callable[..., object]:
    """`max`, `any` and others of Python, which take one sequence or some values."""
    name = function.__name__

    def call(*values: object) -> Any:
        if len(values) == 1 and (is_raw(values[0]) or isinstance(values[0], Tensor)):
            axes = len(torch_ops.bare(values[0]).shape)
            if axes != 1 and name != "sum":
                raise Refusal(f"{name}(x) is for one axis", got=f"{axes} axes", hint=f"x.{name}()")
            return _method(name, *values, *([0] if name == "sum" else []))
        flat = values[0] if len(values) == 1 and isinstance(values[0], list | tuple) else values
        if not all(_calculates(value) for value in flat) or (len(values) > 1 and name in ("any", "all")):
            raise Refusal(f"{name} takes tensors and numbers, or one list of them")
        return function([torch_ops.bare(value) for value in flat])

    return call


def _round(value: Any, digits: int | None = None) -> object:
    if is_raw(value) or isinstance(value, Tensor):
        return _method("round", value, **({} if digits is None else {"decimals": digits}))
    return round(value, digits)


_BUILTINS: dict[str, Callable[..., object]] = {
    "abs": _abs,
    "len": _length,
    "round": _round,
    **{kind.__name__: _converted(kind) for kind in (float, int, bool)},
    **{function.__name__: _of_entries(function) for function in (max, min, sum, any, all)},
}


LONGEST = 2000
"""Longest expression, in characters."""
DEEPEST = 100
"""Deepest nesting of one part in another."""


class Expression:
    """A parsed expression. Raises ExpressionError if the text is not one.

    >>> from rfnb.core.expression.expression import Expression
    >>> from rfnb.core.expression.expression import Names
    >>> Expression("2 * x + 1").value(Names({"x": 3}, {}))
    7
    """

    def __init__(self, text: str):
        if not isinstance(text, str):
            raise ExpressionError("an expression must be a string", got=type(text).__name__)
        self.text = text.strip().replace("\n", " ")
        if len(self.text) > LONGEST:
            raise ExpressionError("the expression is too long", got=f"{len(text)} characters", expected=f"≤ {LONGEST}")
        self._tree = _parsed(self.text)
        self._check(self._tree, 0)

    def value(self, names: Names) -> Any:
        """Computes the value with these names. Raises ExpressionError, or the error of an op."""
        return ExpressionReader(names, self._error).read(self._tree)

    def names(self) -> set[str]:
        """The names in it: of values, modules and functions; of `before.h`, the first."""
        return {node.id for node in ast.walk(self._tree) if isinstance(node, ast.Name)}

    @property
    def asks_for_none(self) -> bool:
        """Whether it has `is None` or `is not None` in it."""
        return any(isinstance(node, ast.Is | ast.IsNot) for node in ast.walk(self._tree))

    def check_calls(self, names: Names) -> None:
        """Raises ExpressionError if it calls an unknown function, also in parts that may never be computed."""
        reader = ExpressionReader(names, self._error)
        for node in ast.walk(self._tree):
            if isinstance(node, ast.Call) and not _may_be_a_method(node.func):
                reader.function(node.func)

    @property
    def reads(self) -> frozenset[str]:
        """The values that it reads, with those in `before.h` and `after.h`; no modules, and no functions it calls."""
        nodes = [*ast.walk(self._tree)]
        called = {id(node.func) for node in nodes if isinstance(node, ast.Call)}
        names = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called} - {"rf", *torch_ops.MODULES}
        parts = [(n.value, n.attr) for n in nodes if isinstance(n, ast.Attribute)]
        return frozenset(names | {name for n, name in parts if isinstance(n, ast.Name) and n.id in ("before", "after")})

    def _error(
        self, node: ast.AST, what: str, kind: type[ExpressionError] = ExpressionError, **facts: Any
    ) -> ExpressionError:
        """An error about a part of the expression."""
        start = len(self.text.encode()[: getattr(node, "col_offset", 0)].decode(errors="ignore"))
        return kind(f"{what}, at column {start + 1} of `{self._short()}`", **facts)

    def _short(self) -> str:
        return self.text if len(self.text) <= 80 else f"{self.text[:79]}…"

    def _check(self, node: ast.AST, depth: int) -> None:
        if depth > DEEPEST:
            raise self._error(node, "the expression is nested too deeply")
        if isinstance(node, ast.expr) and type(node) not in READ:
            raise self._error(
                node, f"an expression must not contain {WORDS.get(type(node), type(node).__name__.lower())}"
            )
        for child in ast.iter_child_nodes(node):
            self._check(child, depth + 1)

    def __repr__(self) -> str:
        return terminal_text(self.text)


def _may_be_a_method(function: ast.expr) -> bool:
    """Whether a value may hide a module: `F.norm()` of a variable `F`."""
    module, _, name = path_of(function).rpartition(".")
    return module in torch_ops.MODULES and name in torch_ops.methods()


def _parsed(text: str) -> ast.expr:
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about escapes in strings, for example
            return ast.parse(text, mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        at = getattr(error, "offset", None)
        where = f", at column {at}" if at else ""
        excerpt = text if len(text) <= 80 else f"{text[:79]}…"
        raise ExpressionError(
            f"`{excerpt}` is not an expression{where}",
            got=getattr(error, "msg", None) or str(error) or "nothing",
            expected="names, numbers, operators, rf.…(…)",
        ) from None


MAKES_ROOM = frozenset(
    {"conv", "copy_to_device", "linspace_over_dim", "pad", "pool", "stft", "transposed_conv", "window"}
)
"""Ops that allocate memory in proportion to an argument, or that move data to a device."""


def functions_of_ops() -> dict[str, Callable[..., object]]:
    """The ops that expressions may use: they draw no random numbers, have no effects and call no other functions."""
    return {
        name: row.fn
        for name, row in OPS.items()
        if row.frames == "any" and not (row.random or row.effect or name in MAKES_ROOM)
    }

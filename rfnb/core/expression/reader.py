"""Computing an expression, part by part. Syntax that is not in `READ` is not allowed."""

from __future__ import annotations

import ast
import operator
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.suggestions import did_you_mean
from rfnb.core.tensor.op import OPS
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ExpressionError, ExpressionNameError, RfError
from rfnb.printable import error_message

BITS = 1024
"""Largest result of an integer power, in bits."""


@runtime_checkable
class Members(Protocol):
    """A value with parts that an expression can read: `owner.part`, `owner["a.part"]`."""

    def members(self) -> Iterable[str]:
        """The names of the parts."""

    def __getitem__(self, name: str) -> Any:
        """The part with this name."""


@dataclass(frozen=True)
class Names:
    """The names that an expression can use: values, and functions, which are written `rf.name(…)`."""

    values: Mapping[str, Any]
    functions: Mapping[str, Callable[..., Any]]


class Reader:
    """Computes the parts of an expression."""

    def __init__(self, names: Names, error: Callable[..., ExpressionError]):
        self.names, self.error = names, error

    def read(self, node: ast.expr) -> Any:
        """The value of a part."""
        return READ[type(node)](self, node)

    def _constant(self, node: ast.Constant) -> Any:
        if node.value is None or isinstance(node.value, bool | int | float | str):
            return node.value
        raise self.error(node, f"an expression must not contain {type(node.value).__name__}")

    def _name(self, node: ast.Name) -> Any:
        if node.id in self.names.values:
            return self.names.values[node.id]
        if node.id == "rf":
            raise self.error(node, "`rf` can only be used in calls", hint="rf.reduce_max(x, axis=time)")
        raise self._unknown(node, node.id, list(self.names.values))

    def _sequence(self, node: ast.List | ast.Tuple) -> Any:
        made = [self.read(part) for part in node.elts]
        return tuple(made) if isinstance(node, ast.Tuple) else made

    def _attribute(self, node: ast.Attribute) -> Any:
        whole = f"{node.value.id}.{node.attr}" if isinstance(node.value, ast.Name) else ""
        if whole in self.names.values:
            return self.names.values[whole]  # a value whose name has a dot, such as `chosen.labels`
        owner = self.read(node.value)
        if isinstance(owner, Members):
            return self._member(node, owner, node.attr)
        if isinstance(owner, dict):
            return self._entry(node, owner, node.attr)
        for kind, known in _ATTRIBUTES.items():
            if isinstance(owner, kind):
                if node.attr in known:
                    return getattr(owner, node.attr)
                raise self._unknown(node, node.attr, known, of=kind.__name__)
        if isinstance(owner, tuple) and node.attr in getattr(owner, "_fields", ()):
            return owner[owner._fields.index(node.attr)]  # type: ignore[attr-defined]
        raise self.error(node, f"{_kind(owner)} has no .{node.attr}")

    def _subscript(self, node: ast.Subscript) -> Any:
        owner, key = self.read(node.value), self.read(node.slice)
        if isinstance(owner, Members) and isinstance(key, str | int):
            return self._member(node, owner, str(key))
        if isinstance(owner, dict):
            return self._entry(node, owner, key)
        if isinstance(owner, Tensor):
            raise self.error(node, "a Tensor cannot be indexed by […]", hint="rf.gather(x, indices=0, axis=time)")
        if not isinstance(owner, list | tuple) or type(key) is not int:
            raise self.error(node, f"{_kind(owner)} cannot be indexed by {_kind(key)}")
        if not -len(owner) <= key < len(owner):
            raise self.error(node, "the index is out of range", expected=f"0 … {len(owner) - 1}")
        return owner[key]

    def _member(self, node: ast.AST, owner: Members, name: str) -> Any:
        known = list(owner.members())
        if any(each == name or each.startswith(f"{name}.") for each in known):
            return owner[name]
        raise self._unknown(node, name, known)

    def _entry(self, node: ast.AST, owner: dict[Any, Any], key: Any) -> Any:
        if isinstance(key, str | int) and key in owner:
            return owner[key]
        raise self._unknown(node, str(key), [str(known) for known in owner])

    def _call(self, node: ast.Call) -> Any:
        function = self.function(node.func)
        if any(isinstance(part, ast.Starred) for part in node.args) or any(k.arg is None for k in node.keywords):
            raise self.error(node, "calls cannot use * or **")
        given = [self.read(part) for part in node.args]
        by_name = {k.arg: self.read(k.value) for k in node.keywords if k.arg}
        return self._done(node, function, *given, **by_name)

    def function(self, node: ast.expr) -> Callable[..., Any]:
        """The function that a call names."""
        if not (isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "rf"):
            hint = f"rf.{node.id}(…)" if isinstance(node, ast.Name) and node.id in self.names.functions else None
            raise self.error(node, "only functions of rf can be called", expected="rf.name(…)", hint=hint)
        if node.attr not in self.names.functions:
            raise self._unknown(node, node.attr, list(self.names.functions), of="rf here")
        return self.names.functions[node.attr]

    def _binary(self, node: ast.BinOp) -> Any:
        how = _BINARY.get(type(node.op))
        left, right = self.read(node.left), self.read(node.right)
        if how is None:
            raise self.error(node, "unknown operator", expected="+ - * / // % **")
        if not (_calculates(left) and _calculates(right)):
            odd = left if not _calculates(left) else right
            raise self.error(node, f"{_kind(odd)} cannot be used in a calculation", expected="tensors and numbers")
        if how is operator.pow and isinstance(left, int) and isinstance(right, int) and _large(left, right):
            raise self.error(node, "the power is too large")
        made = self._done(node, how, left, right)
        if isinstance(made, complex):
            raise self.error(node, "the result is not a real number")
        return made

    def _unary(self, node: ast.UnaryOp) -> Any:
        value = self.read(node.operand)
        if isinstance(node.op, ast.Not):
            if isinstance(value, Tensor):
                return self._logical(node, "logical_not", value)
            return not self._truth(node, value)
        if isinstance(node.op, ast.Invert) or not _calculates(value):
            raise self.error(node, f"{_kind(value)} cannot be used in a calculation", expected="tensors and numbers")
        return self._done(node, operator.neg if isinstance(node.op, ast.USub) else operator.pos, value)

    def _both(self, node: ast.BoolOp) -> Any:
        """Computes `and` and `or`, which work entry by entry on tensors."""
        every = isinstance(node.op, ast.And)
        result = self.read(node.values[0])
        for part in node.values[1:]:
            if isinstance(result, Tensor):
                result = self._logical(node, "logical_and" if every else "logical_or", result, self.read(part))
            elif self._truth(node, result) is every:
                result = self.read(part)
        return result

    def _comparison(self, node: ast.Compare) -> Any:
        parts = [self.read(part) for part in [node.left, *node.comparators]]
        found: Any = True
        for position, op in enumerate(node.ops):
            how = _COMPARE.get(type(op))
            if how is None:
                raise self.error(node, "unknown comparison", expected="== != < <= > >=")
            one = self._compared(node, how, parts[position], parts[position + 1])
            if isinstance(found, Tensor):
                found = self._logical(node, "logical_and", found, one)
            elif found:
                found = one
        return found

    def _compared(self, node: ast.AST, how: Callable[[Any, Any], Any], left: Any, right: Any) -> Any:
        left, right = self._labels(node, left, right), self._labels(node, right, left)
        if _calculates(left) and _calculates(right):
            return self._done(node, how, left, right)
        if how in (operator.eq, operator.ne) and {type(left), type(right)} <= {str, type(None), bool, int, float}:
            return how(left, right)
        raise self.error(node, f"{_kind(left)} and {_kind(right)} cannot be compared")

    def _labels(self, node: ast.AST, value: Any, other: Any) -> Any:
        """Returns the number of a label that is compared with a tensor of labels; other values as they are."""
        if isinstance(value, str) and isinstance(other, Tensor):
            if other.vocab is None:
                raise self.error(node, f"the entries have no names to compare with {value!r}")
            return self._done(node, other.vocab.encode, [value])[0]
        return value

    def _logical(self, node: ast.AST, name: str, *values: Any) -> Any:
        return self._done(node, OPS[name].fn, *values)

    def _truth(self, node: ast.AST, value: Any) -> bool:
        if value is None or isinstance(value, bool | int | float):
            return bool(value)
        raise self.error(node, f"{_kind(value)} is neither true nor false")

    def _done(self, node: ast.AST, function: Callable[..., Any], *given: Any, **by_name: Any) -> Any:
        try:
            return function(*given, **by_name)
        except RfError:
            raise
        except Exception as error:
            words = (error_message(error).splitlines() or [type(error).__name__])[0]
            raise self.error(node, f"it cannot be computed: {words}") from error

    def _unknown(self, node: ast.AST, name: str, known: Iterable[str], of: str = "") -> ExpressionError:
        listed = sorted(known)
        shown = ", ".join(listed[:12]) + (", …" if len(listed) > 12 else "")
        what = f"{of} has no `{name}`" if of else f"there is no `{name}`"
        hint = did_you_mean(name, known, "{}")
        return self.error(node, what, ExpressionNameError, expected=shown or "no names", hint=hint)


READ: dict[type[ast.AST], Callable[[Reader, Any], Any]] = {
    ast.Constant: Reader._constant,
    ast.Name: Reader._name,
    ast.List: Reader._sequence,
    ast.Tuple: Reader._sequence,
    ast.Attribute: Reader._attribute,
    ast.Subscript: Reader._subscript,
    ast.Call: Reader._call,
    ast.BinOp: Reader._binary,
    ast.UnaryOp: Reader._unary,
    ast.BoolOp: Reader._both,
    ast.Compare: Reader._comparison,
}
WORDS: dict[type[ast.AST], str] = {
    ast.Lambda: "lambda",
    ast.IfExp: "`if`; use rf.where",
    ast.Dict: "dict",
    ast.ListComp: "loops",
    ast.GeneratorExp: "loops",
    ast.JoinedStr: "f-strings",
    ast.NamedExpr: "`:=`",
    ast.Slice: "slices; use rf.slice",
    ast.Starred: "*",
}
_BINARY: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Add: operator.add,
    ast.Sub: operator.sub,
    ast.Mult: operator.mul,
    ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv,
    ast.Mod: operator.mod,
    ast.Pow: operator.pow,
}
_COMPARE: dict[type[ast.AST], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq,
    ast.NotEq: operator.ne,
    ast.Lt: operator.lt,
    ast.LtE: operator.le,
    ast.Gt: operator.gt,
    ast.GtE: operator.ge,
}
_ATTRIBUTES: dict[type, tuple[str, ...]] = {
    Tensor: ("dims", "dtype", "device", "feature_dim", "name", "sparse_dim"),
    Dim: ("dimension", "kind", "name"),
}


def _calculates(value: Any) -> bool:
    return isinstance(value, Tensor | int | float)


def _kind(value: Any) -> str:
    return "nothing" if value is None else f"a {type(value).__name__}"


def _large(base: int, exponent: int) -> bool:
    return base.bit_length() * abs(exponent) > BITS

"""Computes the values of expressions of a config."""

from __future__ import annotations

import ast
import functools
import operator
from collections.abc import Callable, Iterator
from typing import Any

from rfnb.errors import ConfigError
from rfnb.netdict.config.limits import Limits
from rfnb.netdict.config.modules import TYPES, Builtins, ConfigModule, ConfigOptions, opaque_inside, unknown_of
from rfnb.netdict.config.tf_names import POOL, Array, Shape
from rfnb.netdict.config.values import (
    Bound,
    Class,
    ConfigRaised,
    Decorated,
    DictInstance,
    Frame,
    Function,
    Instance,
    Known,
    Located,
    NumberList,
    Super,
    Unknown,
)

BINARY: dict[type[ast.operator], Callable[[object, object], object]] = {
    ast.Add: operator.add, ast.Sub: operator.sub, ast.Mult: operator.mul, ast.Div: operator.truediv,
    ast.FloorDiv: operator.floordiv, ast.Mod: operator.mod, ast.Pow: operator.pow, ast.LShift: operator.lshift,
    ast.RShift: operator.rshift, ast.BitOr: operator.or_, ast.BitAnd: operator.and_, ast.BitXor: operator.xor,
    ast.MatMult: operator.matmul,
}  # fmt: skip
UNARY: dict[type[ast.unaryop], Callable[[Any], object]] = {
    ast.USub: operator.neg, ast.UAdd: operator.pos, ast.Not: operator.not_, ast.Invert: operator.invert,
}  # fmt: skip
COMPARE: dict[type[ast.cmpop], Callable[[Any, Any], Any]] = {
    ast.Eq: operator.eq, ast.NotEq: operator.ne, ast.Lt: operator.lt, ast.LtE: operator.le, ast.Gt: operator.gt,
    ast.GtE: operator.ge, ast.Is: operator.is_, ast.IsNot: operator.is_not,
    ast.In: lambda a, b: a in b, ast.NotIn: lambda a, b: a not in b,
}  # fmt: skip
OPERATORS = {ast.Mult: "mul", ast.Div: "truediv", ast.BitOr: "or", ast.BitAnd: "and"}
"""The names of methods for operators, where they are not those of the syntax tree."""
OF_FRAME = ("globals", "locals", "vars", "dir", "super", "eval", "exec")
"""Functions that read the frame in which they are called."""


class Expressions:
    """The value of each kind of expression: the method `_Name` is that of `ast.Name`, and so on."""

    limits: Limits
    globals: Frame
    builtins: Builtins
    names: dict[str, Any]
    starred: str | None
    call_function: Callable[[Function, tuple[object, ...], dict[str, object]], object]
    holds: Callable[[ast.expr, Frame], bool]
    interpreted: Callable[[str, list[object], Frame], object]

    def value(self, node: ast.expr, frame: Frame) -> Any:
        """The value of an expression."""
        self.limits.step()
        method = getattr(self, f"_{type(node).__name__}", None)
        if method is None:
            raise ConfigError(f"{type(node).__name__} is not supported in a config")
        return method(node, frame)

    # -- names

    def lookup(self, name: str, frame: Frame) -> object:
        """The value of a name."""
        if name not in frame.globally:
            at: Frame | None = frame
            while at is not None:
                if name in at.names and (at is frame or not at.is_class):
                    return at.names[name]
                at = at.parent
        if frame.root.is_module and name in frame.root.names:
            return frame.root.names[name]
        if name in self.globals.names and not frame.root.is_module:
            return self.globals.names[name]
        if name in self.names:
            return self.names[name]
        if self.starred is not None:  # it may be one of the names that `from … import *` gives
            return Unknown(f"{self.starred}.{name}")
        raise NameError(f"the name {name} is not defined")

    def attribute(self, owner: object, name: str) -> object:
        """The attribute of a value, if a config may read it."""
        if isinstance(owner, Unknown):
            return owner.members[name] if name in owner.members else Unknown(f"{owner.name}.{name}")
        if isinstance(owner, ConfigModule):
            return owner.names[name] if name in owner.names else Unknown(f"{owner.name}.{name}")
        if isinstance(owner, Array):
            if name == "size_placeholder":
                return owner.sizes()
            members = owner.members()
            if name in members:
                return members[name]
        if isinstance(owner, Shape) and name in ("ndims", "rank", "as_list"):
            return getattr(owner, name)
        if isinstance(owner, ConfigOptions) and name in owner.methods:
            return owner.methods[name]
        if isinstance(owner, Instance):
            if name in owner.names:
                return owner.names[name]
            exists, value = owner.kind.find(name)
            if exists:
                return self._bound(value, owner, owner.kind)
            if any(isinstance(base, Unknown) for base in owner.kind.bases):
                return Unknown(f"{owner.kind.name}.{name}")
            if name == "__class__":
                return owner.kind
        if isinstance(owner, Super):
            for base in owner.bases:
                exists, value = (
                    base.find(name) if isinstance(base, Class) else (True, _of_base(owner.owner, base, name))
                )
                if exists:
                    return self._bound(value, owner.owner, owner.owner.kind)
            return lambda *_, **__: None
        if isinstance(owner, Class):
            exists, value = owner.find(name)
            if exists:
                return self._bound(value, None, owner)
        if isinstance(owner, tuple) and name in getattr(owner, "_fields", ()):
            return getattr(owner, name)
        if name == "__name__" and isinstance(owner, Function | Class):
            return owner.name
        if name in ("args", "message") and isinstance(owner, Exception):
            return owner.args if name == "args" else str(owner)
        method = None if name.startswith("_") else self.builtins.method(owner, name)
        if method is None:
            kind = owner.__name__ if isinstance(owner, type) else type(owner).__name__
            raise AttributeError(f"a config may not read the attribute {name} of {kind}")
        return method

    def _bound(self, found: object, owner: Instance | None, kind: Class) -> object:
        """What a class has under a name, as its object (or itself, if the owner is None) gives it."""
        if not isinstance(found, Decorated):
            return found if owner is None or not isinstance(found, Function) else Bound(found, owner)
        if found.kind == "classmethod":
            return Bound(found.function, kind)
        return found.function(owner) if found.kind == "property" and owner is not None else found.function

    def call(self, function: object, args: tuple[object, ...], kwargs: dict[str, object]) -> Any:
        """The result of a call."""
        if isinstance(function, Instance):
            function = self.attribute(function, "__call__")
        if isinstance(function, Known) and POOL.get(None) is not None:
            return function.run(*args, **kwargs)
        if isinstance(function, Unknown):
            return Unknown(f"{function.name}()")
        if isinstance(function, type) and function in TYPES:
            return self.builtins.construct(function, args, kwargs)
        if not callable(function):
            raise TypeError(f"{type(function).__name__} is not callable")
        try:
            return self.limits.made(function(*args, **kwargs))
        except (TypeError, ValueError, AttributeError):
            if opaque_inside(*args, *kwargs.values()):
                return unknown_of(*args, *kwargs.values())
            raise

    # -- literals

    def _Constant(self, node: ast.Constant, frame: Frame) -> object:
        return self.limits.made(node.value)

    def _Name(self, node: ast.Name, frame: Frame) -> object:
        return self.lookup(node.id, frame)

    def _List(self, node: ast.List, frame: Frame) -> object:
        return self.limits.made(list(self._entries(node.elts, frame)))

    def _Tuple(self, node: ast.Tuple, frame: Frame) -> object:
        return tuple(self._entries(node.elts, frame))

    def _Set(self, node: ast.Set, frame: Frame) -> object:
        entries = list(self._entries(node.elts, frame))
        self.limits.weigh(entries)
        return set(entries)

    def _entries(self, nodes: list[ast.expr], frame: Frame) -> Iterator[Any]:
        for node in nodes:
            if isinstance(node, ast.Starred):
                yield from self.limits.entries_of(self.value(node.value, frame))
            else:
                yield self.value(node, frame)

    def _Dict(self, node: ast.Dict, frame: Frame) -> object:
        entries = Located({}, node.lineno, getattr(node, "file", None))
        for key, value in zip(node.keys, node.values, strict=True):
            if key is None:
                entries.update(self.value(value, frame))
            else:
                name = self.value(key, frame)
                self.limits.weigh(name)
                entries[name] = self.value(value, frame)
        return entries

    def _JoinedStr(self, node: ast.JoinedStr, frame: Frame) -> str:
        return self.limits.made("".join(str(self.value(part, frame)) for part in node.values))

    def _FormattedValue(self, node: ast.FormattedValue, frame: Frame) -> str:
        value = self.value(node.value, frame)
        if node.conversion != -1:
            self.limits.weigh(value)
            conversions: dict[str, Callable[[object], str]] = {"s": str, "r": repr, "a": ascii}
            value = conversions[chr(node.conversion)](value)
        spec = self.value(node.format_spec, frame) if node.format_spec else ""
        return self.builtins.formatter.format_field(value, spec)

    def _Lambda(self, node: ast.Lambda, frame: Frame) -> Function:
        return self.function(node, frame)

    def function(self, node: ast.FunctionDef | ast.Lambda, frame: Frame) -> Function:
        """A function, with the defaults that its parameters have now."""
        defaults = [self.value(default, frame) for default in node.args.defaults]
        keywords = {
            arg.arg: self.value(default, frame)
            for arg, default in zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            if default is not None
        }
        while frame.is_class and frame.parent is not None:
            frame = frame.parent
        return Function(node, frame, defaults, keywords, self.call_function)

    # -- operators

    def _BinOp(self, node: ast.BinOp, frame: Frame) -> object:
        return self.binary(node.op, self.value(node.left, frame), self.value(node.right, frame))

    def binary(self, op: ast.operator, a: object, b: object) -> Any:
        """The result of an operator."""
        writes = isinstance(a, str | bytes) and isinstance(op, ast.Mod)
        if isinstance(a, Unknown) or (isinstance(b, Unknown) and not writes):
            return unknown_of(a, b)
        if isinstance(a, Instance) and a.has(method := f"__{OPERATORS.get(type(op), type(op).__name__.lower())}__"):
            return a.special(method, b)
        if isinstance(a, NumberList):
            return NumberList(self.binary(op, x, y) for x, y in zip(a, a.paired(b), strict=True))
        if isinstance(b, NumberList) and not writes:
            return NumberList(self.binary(op, y, x) for x, y in zip(b, b.paired(a), strict=True))
        self.limits.before(type(op).__name__, a, b)
        try:
            result = self.limits.made(BINARY[type(op)](a, b))
        except TypeError:
            if writes and opaque_inside(b):  # "%i" % an unknown number
                return unknown_of(b)
            raise
        return Located(result) if isinstance(result, dict) else result

    def _UnaryOp(self, node: ast.UnaryOp, frame: Frame) -> object:
        value = self.value(node.operand, frame)
        if isinstance(value, NumberList) and not isinstance(node.op, ast.Not):
            return NumberList(UNARY[type(node.op)](entry) for entry in value)
        return value if isinstance(value, Unknown) else UNARY[type(node.op)](value)

    def _BoolOp(self, node: ast.BoolOp, frame: Frame) -> object:
        decisive = isinstance(node.op, ast.Or)
        value: Any = None
        unknown: Unknown | None = None
        for operand in node.values:
            try:
                value = self.value(operand, frame)
            except Exception as error:
                if unknown is None or isinstance(error, ConfigError):
                    raise
                return unknown  # what stands before it decides whether it is computed
            if isinstance(value, Unknown):
                unknown = value
            elif bool(value) == decisive:
                return value
        return value if unknown is None else unknown

    def _Compare(self, node: ast.Compare, frame: Frame) -> object:
        left = self.value(node.left, frame)
        for op, right_node in zip(node.ops, node.comparators, strict=True):
            right = self.value(right_node, frame)
            if isinstance(left, Unknown | ConfigModule) or isinstance(right, Unknown | ConfigModule):
                equal = left is right if left is right or left is None or right is None else None
                if equal is None or not isinstance(op, ast.Is | ast.IsNot | ast.Eq | ast.NotEq):
                    return Unknown(ast.unparse(node))
                holds = equal == isinstance(op, ast.Is | ast.Eq)
            elif isinstance(left, Array) or isinstance(right, Array):
                return COMPARE[type(op)](left, right)
            elif isinstance(op, ast.In | ast.NotIn) and isinstance(right, Instance) and right.has("__contains__"):
                holds = bool(right.special("__contains__", left)) == isinstance(op, ast.In)
            elif isinstance(op, ast.Eq | ast.NotEq) and isinstance(left, Instance) and left.has("__eq__"):
                holds = bool(left.special("__eq__", right)) == isinstance(op, ast.Eq)
            else:
                self.limits.weigh(left, right)
                holds = COMPARE[type(op)](left, right)
                if isinstance(holds, Array):  # of sizes that are not known
                    return holds
            if not holds:
                return False
            left = right
        return True

    def _IfExp(self, node: ast.IfExp, frame: Frame) -> object:
        return self.value(node.body if self.holds(node.test, frame) else node.orelse, frame)

    def _NamedExpr(self, node: ast.NamedExpr, frame: Frame) -> object:
        value = self.value(node.value, frame)
        while frame.is_inner and frame.parent is not None:
            frame = frame.parent
        frame.names[node.target.id] = value
        return value

    # -- parts and calls

    def _Attribute(self, node: ast.Attribute, frame: Frame) -> object:
        return self.attribute(self.value(node.value, frame), node.attr)

    def _Subscript(self, node: ast.Subscript, frame: Frame) -> object:
        owner, index = self.value(node.value, frame), self.value(node.slice, frame)
        if isinstance(owner, Unknown | ConfigModule):
            return Unknown(f"{owner.name}[…]")
        if isinstance(owner, Array):
            return owner[index]
        if isinstance(owner, Instance) and owner.has("__getitem__"):
            return owner.special("__getitem__", index)
        if isinstance(index, Unknown) and not (isinstance(owner, dict) and index in owner):
            return Unknown(f"{ast.unparse(node.value)}[{index.name}]")
        self.limits.weigh(index)
        if not isinstance(owner, str | bytes | list | tuple | dict | range):
            raise TypeError(f"{type(owner).__name__} has no entries")
        return self.limits.made(owner[index])

    def _Slice(self, node: ast.Slice, frame: Frame) -> slice:
        parts = (node.lower, node.upper, node.step)
        return slice(*(None if part is None else self.value(part, frame) for part in parts))

    def _Call(self, node: ast.Call, frame: Frame) -> object:
        name = node.func.id if isinstance(node.func, ast.Name) else None
        if name in OF_FRAME and name not in frame.names and not node.keywords:
            return self._of_frame(name, [self.value(arg, frame) for arg in node.args], frame)
        function = self.value(node.func, frame)
        args = tuple(self._entries(node.args, frame))
        kwargs: dict[str, object] = {}
        for keyword in node.keywords:
            value = self.value(keyword.value, frame)
            kwargs.update(value if keyword.arg is None else {keyword.arg: value})
        return self.call(function, args, kwargs)

    def _of_frame(self, name: str, args: list[object], frame: Frame) -> object:
        """The result of a call that reads the frame it is made in."""
        if name in ("eval", "exec"):
            return self.interpreted(name, args, frame)
        if name == "super":
            owner = args[1] if len(args) > 1 else next(iter(frame.names.values()), None)
            if not isinstance(owner, Instance):
                raise TypeError("super() outside of a method")
            bases = owner.kind.bases
            if args and isinstance(args[0], Class):
                bases = args[0].bases
            return Super(owner, bases)
        if args:
            [owner] = args
            names = owner.names if isinstance(owner, Instance | ConfigModule) else {}
        else:
            root = frame.root if frame.root.is_module else self.globals
            names = (root if name == "globals" else frame).names
        return sorted(names) if name == "dir" else names

    # -- comprehensions

    def _ListComp(self, node: ast.ListComp, frame: Frame) -> list[object]:
        return list(self._each(node.generators, [node.elt], frame))

    _GeneratorExp = _ListComp

    def _SetComp(self, node: ast.SetComp, frame: Frame) -> set[object]:
        return set(self._each(node.generators, [node.elt], frame))

    def _DictComp(self, node: ast.DictComp, frame: Frame) -> object:
        return Located(dict(self._each(node.generators, [node.key, node.value], frame)), node.lineno)

    def _each(self, generators: list[ast.comprehension], results: list[ast.expr], frame: Frame) -> Iterator[Any]:
        inner = Frame(parent=frame, globally=frame.globally, is_inner=True)

        def over(rest: list[ast.comprehension]) -> Iterator[Any]:
            if not rest:
                values = [self.value(result, inner) for result in results]
                self.limits.weigh(values[0])  # it may be a key
                self.limits.spend(1)
                yield values[0] if len(values) == 1 else tuple(values)
                return
            for entry in self.entries(self.value(rest[0].iter, inner)):
                self.assign(rest[0].target, entry, inner)
                if all(self.holds(test, inner) for test in rest[0].ifs):
                    yield from over(rest[1:])

        return over(generators)

    def entries(self, values: Any) -> Iterator[Any]:
        """The entries that a loop runs over; each is a step."""
        if isinstance(values, Instance) and values.has("__iter__"):
            values = values.special("__iter__")
        if isinstance(values, Function | Class | ConfigModule) or (
            isinstance(values, Instance) and not isinstance(values, dict)
        ):
            raise TypeError(f"{values!r} has no entries")
        for entry in values if isinstance(values, range) else list(values):
            self.limits.step()
            yield entry

    def assign(self, target: ast.expr, value: Any, frame: Frame) -> None:
        """Gives a target a value."""
        if isinstance(target, ast.Name):
            self._owner_of(target.id, frame)[target.id] = value
        elif isinstance(target, ast.Tuple | ast.List):
            self._unpack(target.elts, value, frame)
        elif isinstance(target, ast.Subscript):
            owner, index = self.value(target.value, frame), self.value(target.slice, frame)
            self.limits.weigh(index)
            if isinstance(owner, Instance) and owner.has("__setitem__"):
                owner.special("__setitem__", index, value)
            elif isinstance(owner, list | dict):
                owner[index] = self.limits.entries_of(value) if isinstance(index, slice) else value
            elif not isinstance(owner, Unknown):
                raise TypeError(f"entries of {type(owner).__name__} cannot be set")
        elif isinstance(target, ast.Attribute):
            owner = self.value(target.value, frame)
            if isinstance(owner, Instance | Class):
                owner.names[target.attr] = value
            elif not isinstance(owner, Unknown | ConfigModule | Function):
                raise AttributeError(f"the attribute {target.attr} of {type(owner).__name__} cannot be set")
        else:
            raise ConfigError(f"{type(target).__name__} cannot be assigned to")

    def _unpack(self, targets: list[ast.expr], value: Any, frame: Frame) -> None:
        if isinstance(value, Unknown):
            entries: list[object] = [Unknown(f"{value.name}[{i}]") for i in range(len(targets))]
        else:
            entries = self.limits.entries_of(value)
        stars = [i for i, name in enumerate(targets) if isinstance(name, ast.Starred)]
        if stars:
            place, tail = stars[0], len(targets) - stars[0] - 1
            if len(entries) < len(targets) - 1:
                raise ValueError("not enough values to unpack")
            end = len(entries) - tail
            entries = [*entries[:place], entries[place:end], *entries[end:]]
        if len(entries) != len(targets):
            raise ValueError(f"{len(entries)} values for {len(targets)} names")
        for target, entry in zip(targets, entries, strict=True):
            self.assign(target.value if isinstance(target, ast.Starred) else target, entry, frame)

    def _owner_of(self, name: str, frame: Frame) -> dict[str, object]:
        """The names among which an assignment sets this one."""
        if name in frame.globally:
            return frame.root.names if frame.root.is_module else self.globals.names
        if name in frame.outside:
            at = frame.parent
            while at is not None:
                if name in at.names:
                    return at.names
                at = at.parent
        return frame.names

    def raised(self, value: object) -> Exception:
        """What a `raise` statement raises."""
        if isinstance(value, type) and issubclass(value, Exception):
            return value()
        return value if isinstance(value, Exception) else ConfigRaised(value)


def _of_base(owner: Instance, base: object, name: str) -> object:
    """A method that `super()` finds in a base that is not a class of the config: those of dict are known."""
    if not isinstance(owner, DictInstance):
        return (lambda *_, **__: None) if base is object else Unknown(f"{base!r}.{name}")
    names = "__setitem__ __getitem__ __contains__ update get items keys values pop setdefault".split()
    of_dict = {"__init__": owner.update, **{key: functools.partial(getattr(dict, key), owner) for key in names}}
    return Decorated("staticmethod", of_dict.get(name, Unknown(f"dict.{name}")))

"""A small language of expressions: `rf.reduce_max(att, axis=enc_time) > 0.9`. Parsed and computed here, never run.

An expression consists of numbers, strings, lists, Python's operators, a few attributes, and the names and functions
that the caller supplies; functions are written `rf.name(…)`. Nothing else can be reached.
"""

from __future__ import annotations

import ast
import warnings
from collections.abc import Callable
from typing import Any

from rfnb.core.expression import pure
from rfnb.core.expression.reader import READ, WORDS, ExpressionReader, Names, path_of
from rfnb.core.tensor.op import OPS
from rfnb.errors import ExpressionError
from rfnb.printable import terminal_text

LONGEST = 2000
"""Longest expression, in characters."""
DEEPEST = 100
"""Deepest nesting of one part in another."""


class Expression:
    """A parsed expression. Raises ExpressionError if the text is not one.

    >>> from rfnb.core.expression.expression import Expression
    >>> from rfnb.core.expression.reader import Names
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
        names = {n.id for n in nodes if isinstance(n, ast.Name) and id(n) not in called} - {"rf", *pure.MODULES}
        parts = (n for n in nodes if isinstance(n, ast.Attribute) and isinstance(n.value, ast.Name))
        return frozenset(names | {n.attr for n in parts if n.value.id in ("before", "after")})  # type: ignore[attr-defined]

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
    return module in pure.MODULES and name in pure.methods()


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


def functions_of_ops() -> dict[str, Callable[..., Any]]:
    """The ops that expressions may use: they draw no random numbers, have no effects and call no other functions."""
    return {
        name: row.fn
        for name, row in OPS.items()
        if row.frames == "any" and not (row.random or row.effect or name in MAKES_ROOM)
    }

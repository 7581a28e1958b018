"""Expressions in the user's line for each parameter of a call."""

from __future__ import annotations

import ast
from collections.abc import Sequence
from types import FrameType, ModuleType

from rfnb.core.ground.source import Step, locals_of
from rfnb.core.ground.text import cut


def written(step: Step, names: Sequence[str]) -> dict[str, str]:
    """The expressions in the user's line, by parameter."""
    frame, source = step
    node = source.syntax()
    if isinstance(node, ast.Await):
        node = node.value
    parts: dict[str, ast.AST]
    if isinstance(node, ast.Call):
        parts = _call_parts(node, list(names), frame)
    elif isinstance(node, ast.Subscript | ast.Attribute):
        parts = {"self": node.value}
    else:
        parts = dict(zip(names, _sides(node), strict=False)) if list(names) == ["a", "b"] else {}
    return {name: _short(part) for name, part in parts.items()}


def _sides(node: ast.AST | None) -> Sequence[ast.AST]:
    """The operands of an operator."""
    if isinstance(node, ast.BinOp):
        return node.left, node.right
    if isinstance(node, ast.AugAssign):
        return node.target, node.value
    return (node.left, *node.comparators) if isinstance(node, ast.Compare) else ()


def _call_parts(node: ast.Call, names: list[str], frame: FrameType) -> dict[str, ast.AST]:
    parts: dict[str, ast.AST] = {word.arg: word.value for word in node.keywords if word.arg is not None}
    arguments = list(node.args)
    if names and names[0] == "self" and not _is_of_module(node.func, frame):
        arguments.insert(0, node.func.value if isinstance(node.func, ast.Attribute) else node.func)
    if not any(isinstance(part, ast.Starred) for part in arguments):
        parts |= {name: _tensor_of(part) if "[" in name else part for name, part in zip(names, arguments, strict=False)}
    for name, part in list(parts.items()):
        if isinstance(part, ast.List | ast.Tuple):
            parts |= {f"{name}[{i}]": _tensor_of(entry) for i, entry in enumerate(part.elts)}
    return parts


def _is_of_module(function: ast.expr, frame: FrameType) -> bool:
    """Whether a function of a module, like `np.sum`, calls a method of its first argument."""
    owner = function.value if isinstance(function, ast.Attribute) else None
    scope = {**frame.f_globals, **locals_of(frame)}
    return isinstance(owner, ast.Name) and isinstance(scope.get(owner.id), ModuleType)


def _tensor_of(entry: ast.AST) -> ast.AST:
    """The tensor of a pair of tensor and dim."""
    return entry.elts[0] if isinstance(entry, ast.Tuple) and entry.elts else entry


def _short(part: ast.AST) -> str:
    return cut(ast.unparse(part), 40)

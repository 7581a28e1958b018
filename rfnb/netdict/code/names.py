"""Names, numbers and texts as they stand in code: of a stranger's config, only names and literals get in.

Lines of a method that repeat with other modules become a loop over the modules.
"""

from __future__ import annotations

import ast
import builtins
import keyword
import math
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np

RESERVED = frozenset(
    {"rf", "self", "batch_dim", "single_step_dim", "x", "y", "z", "loop", "outputs", "losses", *dir(builtins)}
)
"""Names that no layer gets."""


def identifier(name: str, default: str = "value") -> str:
    """A Python name like this one.

    >>> from rfnb.netdict.code.names import identifier
    >>> identifier("fwd.1"), identifier("0"), identifier("class"), identifier("a\\n b")
    ('fwd_1', 'value_0', 'class_', 'a_b')
    """
    text = re.sub(r"[^A-Za-z0-9]+", "_", name).strip("_") or default
    text = f"{default}_{text}" if text[0].isdigit() else text
    return f"{text}_" if keyword.iskeyword(text) or text in RESERVED else text


def class_name(name: str) -> str:
    """A name for a class: "layer_norm" gives "LayerNorm".

    >>> from rfnb.netdict.code.names import class_name
    >>> class_name("layer_norm"), class_name("rec:unit")
    ('LayerNorm', 'RecUnit')
    """
    return identifier("".join(part[:1].upper() + part[1:] for part in re.split(r"[^A-Za-z0-9]+", name)), "Layer")


class Names:
    """Gives each thing a name of its own in a piece of code."""

    def __init__(self, used: Iterable[str] = ()):
        self.used = set(used)

    def new(self, name: str) -> str:
        """The name, with a number if it is used already."""
        number, candidate = 1, name
        while candidate in self.used:
            number += 1
            candidate = f"{name}{'_' if name[-1].isdigit() else ''}{number}"
        self.used.add(candidate)
        return candidate


def attribute(owner: str, name: str) -> str:
    """An attribute as it is read: `self.W`, `self.layers[0]`, or with getattr if its name is not a Python name."""
    if name.isdecimal() and name.isascii() and ".cell." in f"{owner}.":
        return f"{owner}[{name}]"
    plain = name.isascii() and name.isidentifier() and not keyword.iskeyword(name)
    return f"{owner}.{name}" if plain else f"getattr({owner}, {name!a})"


def in_module(owner: str, path: str) -> tuple[str, str]:
    """The module that has an attribute, "layers.0.weight" of `self` for example, and the last name."""
    *parts, last = path.split(".")
    for part in parts:
        owner = attribute(owner, part) if part else owner
    return owner, last


def assignment(owner: str, name: str, value: str) -> str:
    """A line that sets an attribute."""
    text = attribute(owner, name)
    return f"{text} = {value}" if not text.startswith("getattr(") else f"setattr({owner}, {name!a}, {value})"


def literal(value: object) -> str | None:
    """A plain value as code; None if it is none."""
    if isinstance(value, float) and not math.isfinite(value):
        return f'float("{value}")'
    if isinstance(value, np.generic):
        value = value.item()
    if type(value) is str and not {'"', "'"} & set(value):
        return f'"{ascii(value)[1:-1]}"'
    return ascii(value) if value is None or type(value) in (bool, int, float, str, complex) else None


def remark(text: str) -> str:
    """A text for a comment or a docstring: one line of ASCII without quotes or backslashes."""
    return re.sub(r"[\\\"\x00-\x1f]", "?", text.encode("ascii", "replace").decode())[:100]


WIDTH = 110
"""Most characters of a line, if it can be broken."""


def wrapped(line: str) -> list[str]:
    """A line that is too long is broken between the arguments of its outermost call.

    >>> from rfnb.netdict.code.names import wrapped
    >>> wrapped("x = f(" + "a" * 60 + ", " + "b" * 60 + ")")[0]
    'x = f('
    """
    stripped = line.lstrip()
    if stripped.startswith("#"):
        return [line]
    indent = line[: len(line) - len(stripped)]
    opened = _last_group(line) if len(line) > WIDTH and line[-1:] in ")]}" else None
    if opened is None:
        return [line]
    rows, row, parts = [line[: opened + 1]], "", _arguments(line[opened + 1 : -1])
    for part in parts:
        if row and len(indent) + 4 + len(row) + len(part) + 2 > WIDTH:
            rows.append(f"{indent}    {row}")
            row = ""
        row += f"{' ' * bool(row)}{part},"
    if len(parts) == 1 and line[-2] != "," and not re.match(r"[\w)\]]", line[opened - 1]):
        row = row[:-1]  # the brackets are those of an expression, which a comma would make a tuple
    return [*rows, f"{indent}    {row}", f"{indent}{line[-1]}"]


def _tokens(text: str) -> Iterator[tuple[int, str]]:
    """The characters outside of strings, with their places."""
    quote, skip = "", False
    for i, c in enumerate(text):
        if quote:
            skip, closed = c == "\\" and not skip, c == quote and not skip
            quote = "" if closed else quote
        elif c in "\"'":
            quote = c
        else:
            yield i, c


def _last_group(text: str) -> int | None:
    """Where the bracket opens that closes at the end of the text."""
    stack: list[int] = []
    opened = None
    for i, c in _tokens(text):
        if c in "([{":
            stack.append(i)
        elif c in ")]}":
            opened = stack.pop()
    return opened


def _arguments(text: str) -> list[str]:
    depth, start, parts = 0, 0, []
    for i, c in _tokens(text):
        depth += (c in "([{") - (c in ")]}")
        if c == "," and not depth:
            parts.append(text[start:i].strip())
            start = i + 1
    return [part for part in (*parts, text[start:].strip()) if part]


LIBRARIES = {"rf", "torch", "F", "nn", "self"}


@dataclass
class Block(ast.NodeTransformer):
    """Some lines, where names of variables and paths of modules are numbers.

    Attributes:
        names, paths: in the order in which they stand in the lines. loads, stores: by name, the lines. form: the rest.
    """

    names: list[str] = field(default_factory=list)
    paths: list[str] = field(default_factory=list)
    loads: dict[str, list[int]] = field(default_factory=dict)
    stores: dict[str, list[int]] = field(default_factory=dict)
    form: list[str] = field(default_factory=list)

    def visit_Attribute(self, node: ast.Attribute) -> object:
        """A path of a module, or an attribute of something else."""
        path = ast.unparse(node)
        if not re.fullmatch(r"self(\.\w+)+", path):
            return self.generic_visit(node)
        return ast.Name(f"m{self.number(self.paths, path)}", ast.Load())

    def visit_Name(self, node: ast.Name) -> object:
        """A variable, or a library."""
        if node.id in LIBRARIES:
            return node
        number = self.number(self.names, node.id)
        where = self.loads if isinstance(node.ctx, ast.Load) else self.stores
        where.setdefault(node.id, []).append(len(self.form))
        return ast.Name(f"v{number}", node.ctx)

    @staticmethod
    def number(known: list[str], text: str) -> int:
        """The number of a text, which is new or known."""
        if text not in known:
            known.append(text)
        return known.index(text)


def block_of(lines: Sequence[str]) -> Block | None:
    """The lines as a block; None if one of them does more than to assign variables."""
    block = Block()
    for line in lines:
        tree = [] if line.endswith(":") else ast.parse(line.strip()).body
        if not tree or not isinstance(tree[0], ast.Assign):
            return None
        tree[0].value = block.visit(tree[0].value)
        tree[0].targets = [block.visit(target) for target in tree[0].targets]
        block.form.append(ast.unparse(tree[0]))
    return block


def folded(lines: list[str], indent: str, names: tuple[str, str] | None = None) -> list[str]:
    """The lines of a method, where lines that repeat with other modules are a loop.

    names: of its variable, and of the list of modules; default: those that nothing has.
    """
    words = set(re.findall(r"\w+", " ".join(lines)))
    number = next(
        number for number in ("", *map(str, range(2, 99))) if not words & {f"block{number}", f"blocks{number}"}
    )
    names = names or (f"block{number}", f"blocks{number}")
    plain = [line.startswith(indent) and not line.startswith(f"{indent} ") for line in lines]
    forms = [block and block.form for block in (block_of([line]) for line in lines)]
    start = 0
    while start < len(lines):
        for size in range(2, (len(lines) - start) // 2 + 1):
            if not all(plain[start : start + 2 * size]):
                break
            if forms[start] != forms[start + size] or forms[start : start + size] != forms[start + size :][:size]:
                continue  # there, blocks differ too
            blocks = [block_of(lines[start : start + size])]
            while blocks[-1] is not None and blocks[-1].form == blocks[0].form:  # type: ignore[union-attr]
                at = start + len(blocks) * size
                blocks.append(block_of(lines[at : at + size]) if all(plain[at : at + size]) else None)
            twins = [block for block in blocks[:-1] if block is not None]
            end = start + len(twins) * size
            loop = loop_of(twins, lines[end - size : end], lines[end:], indent, names) if len(twins) > 1 else None
            if loop is not None:
                return [*lines[:start], *loop, *folded(lines[end:], indent, names)]
        start += 1
    return lines


def loop_of(
    blocks: Sequence[Block], lines: list[str], after: list[str], indent: str, names: tuple[str, str]
) -> list[str] | None:
    """The lines of the loop; None if what the blocks give each other has no form as a loop.

    lines: of the last block, whose variables are those of the loop. after: the lines that follow.
    """
    last, paths = blocks[-1], list(zip(*(block.paths for block in blocks), strict=True))
    varying = [i for i, of in enumerate(paths) if len({*of}) > 1]
    own_paths = [[of[k] for i, of in enumerate(paths) if i in varying] for k in range(len(blocks))]
    parents = common_parents(own_paths) if varying else None
    if parents is None:
        return None
    overwritten = {name for block in blocks for name in block.stores} - {*last.stores}
    if overwritten & set(re.findall(r"(?<![\w.])\w+", re.sub("\"[^\"]*\"|'[^']*'", "", " ".join(after)))):
        return None
    renamed: dict[str, str] = {}
    begin: dict[str, str] = {}
    for i, name in enumerate(last.names):
        aliases = [block.names[i] for block in blocks]
        first = name not in last.stores or last.loads.get(name, [len(lines)])[0] <= last.stores[name][0]
        if not first or (name not in last.stores and len({*aliases}) == 1):
            continue  # a variable of the block, or one that no block sets
        source = next((
            given for given in sorted(last.stores, key=lambda given: given != name)
            if all(block.names[last.names.index(given)] == aliases[k + 1] for k, block in enumerate(blocks[:-1]))
            and last.loads[name][-1] <= last.stores[given][0]
        ), None)  # fmt: skip
        if source is None or begin.get(source, aliases[0]) != aliases[0]:
            return None
        renamed[name], begin[source] = source, aliases[0]
    if {*begin} & {*begin.values()} - {a for a, b in begin.items() if a == b}:
        return None
    instead = renamed | {last.paths[i]: names[0] + last.paths[i].removeprefix(parents[-1]) for i in varying}
    heads = [f"{indent}{name} = {value}" for name, value in begin.items() if name != value]
    heads += [f"{indent}{names[1]} = [{', '.join(parents)}]", f"{indent}for {names[0]} in {names[1]}:"]
    return [*heads, *(f"{indent}    {replaced(line.strip(), instead)}" for line in lines)]


def replaced(line: str, instead: dict[str, str]) -> str:
    """The line with other texts for some paths, and for variables that it reads."""
    nodes = [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name | ast.Attribute)]
    end = len(line) + 1
    for node in sorted(nodes, key=lambda node: (-node.col_offset, -(node.end_col_offset or 0))):
        text, start = ast.unparse(node), node.col_offset
        if text in instead and isinstance(node.ctx, ast.Load) and start < end:  # the longest path at a place
            line, end = line[:start] + instead[text] + line[node.end_col_offset :], start
    return line


def common_parents(paths: Sequence[Sequence[str]]) -> list[str] | None:
    """The module of each block in which all of its paths are, at the same places; None if there is none."""
    parents = []
    for row in paths:
        parts = [path.split(".") for path in row]
        depth = next(
            i for i in range(99) if len({tuple(p[: i + 1]) for p in parts}) > 1 or i + 1 >= min(map(len, parts))
        )
        parents.append(".".join(parts[0][: max(depth, 1)]))
    places = {tuple(path[len(parent) :] for path in row) for row, parent in zip(paths, parents, strict=True)}
    return parents if len(places) == 1 and all(parent != "self" for parent in parents) else None

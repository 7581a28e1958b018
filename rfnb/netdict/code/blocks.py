"""Lines of a method that repeat with other modules, as a loop over the modules."""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence
from dataclasses import dataclass, field

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
        tree = ast.parse(line.strip()).body if not line.strip().startswith(("#", "with ", "for ", "return ")) else []
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
    more = next(more for more in ("", *map(str, range(2, 99))) if not words & {f"block{more}", f"blocks{more}"})
    names = names or (f"block{more}", f"blocks{more}")
    plain = [line.startswith(indent) and not line.startswith(f"{indent} ") for line in lines]
    start = 0
    while start < len(lines):
        for size in range(2, (len(lines) - start) // 2 + 1):
            if not all(plain[start : start + 2 * size]):
                break
            blocks = [block_of(lines[start : start + size])]
            while blocks[-1] is not None and blocks[-1].form == blocks[0].form:  # type: ignore[union-attr]
                at = start + len(blocks) * size
                blocks.append(block_of(lines[at : at + size]) if all(plain[at : at + size]) else None)
            same = [block for block in blocks[:-1] if block is not None]
            end = start + len(same) * size
            loop = loop_of(same, lines[end - size : end], lines[end:], indent, names) if len(same) > 1 else None
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
    gone = {name for block in blocks for name in block.stores} - {*last.stores}
    if gone & set(re.findall(r"(?<![\w.])\w+", re.sub("\"[^\"]*\"|'[^']*'", "", " ".join(after)))):
        return None
    renamed: dict[str, str] = {}
    begin: dict[str, str] = {}
    for i, name in enumerate(last.names):
        own = [block.names[i] for block in blocks]
        first = name not in last.stores or last.loads.get(name, [len(lines)])[0] <= last.stores[name][0]
        if not first or (name not in last.stores and len({*own}) == 1):
            continue  # a variable of the block, or one that no block sets
        source = next((
            given for given in sorted(last.stores, key=lambda given: given != name)
            if all(block.names[last.names.index(given)] == own[k + 1] for k, block in enumerate(blocks[:-1]))
            and last.loads[name][-1] <= last.stores[given][0]
        ), None)  # fmt: skip
        if source is None or begin.get(source, own[0]) != own[0]:
            return None
        renamed[name], begin[source] = source, own[0]
    if {*begin} & {*begin.values()} - {a for a, b in begin.items() if a == b}:
        return None
    instead = renamed | {last.paths[i]: names[0] + last.paths[i].removeprefix(parents[-1]) for i in varying}
    heads = [f"{indent}{name} = {value}" for name, value in begin.items() if name != value]
    heads += [f"{indent}{names[1]} = [{', '.join(parents)}]", f"{indent}for {names[0]} in {names[1]}:"]
    return [*heads, *(f"{indent}    {replaced(line.strip(), instead)}" for line in lines)]


def replaced(line: str, instead: dict[str, str]) -> str:
    """The line with other texts for some paths, and for variables that it reads."""
    nodes = [node for node in ast.walk(ast.parse(line)) if isinstance(node, ast.Name | ast.Attribute)]
    done = len(line) + 1
    for node in sorted(nodes, key=lambda node: (-node.col_offset, -(node.end_col_offset or 0))):
        text, start = ast.unparse(node), node.col_offset
        if text in instead and isinstance(node.ctx, ast.Load) and start < done:  # the longest path at a place
            line, done = line[:start] + instead[text] + line[node.end_col_offset :], start
    return line


def common_parents(paths: Sequence[Sequence[str]]) -> list[str] | None:
    """The module of each block in which all of its paths are, at the same places; None if there is none."""
    parents = []
    for own in paths:
        parts = [path.split(".") for path in own]
        depth = next(
            i for i in range(99) if len({tuple(p[: i + 1]) for p in parts}) > 1 or i + 1 >= min(map(len, parts))
        )
        parents.append(".".join(parts[0][: max(depth, 1)]))
    places = {tuple(path[len(parent) :] for path in own) for own, parent in zip(paths, parents, strict=True)}
    return parents if len(places) == 1 and all(parent != "self" for parent in parents) else None

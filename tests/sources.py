"""The project's Python files: which module each is, what it imports, which tests are about it, how long it is."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator
from functools import cache
from pathlib import Path

PROJECT = Path(__file__).parents[1]
ROOT = PROJECT / "rfnb"
TESTS = PROJECT / "tests"
FILES = sorted(file for file in ROOT.rglob("*.py") if "labextension" not in file.parts)
MODULES = {file: ".".join(file.relative_to(PROJECT).with_suffix("").parts) for file in FILES}
"""The dotted name of each file; a package's own file ends in `.__init__`."""
NAMES = {name.removesuffix(".__init__") for name in MODULES.values()}
PACKAGES = {name for name in MODULES.values() if name.endswith(".__init__")}
TEST_FILES = sorted(TESTS.rglob("test_*.py"))
BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
"""The fields of a node of a syntax tree that hold its statements."""


@cache
def parse(file: Path) -> ast.Module:
    """The syntax tree of a file; each is parsed once."""
    return ast.parse(file.read_text(encoding="utf-8"))


def statements(node: ast.AST, *, that_run: bool = False) -> Iterator[ast.stmt]:
    """The statements of a tree; `that_run`: without those in `if TYPE_CHECKING:` blocks."""
    nodes = [node]
    for node in nodes:
        if isinstance(node, ast.stmt):
            yield node
        parts = BLOCKS
        if that_run and isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            parts = ("orelse",)
        for part in parts:
            nodes += getattr(node, part, ())


def imports(nodes: Iterable[ast.AST], module: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of each import, relative ones resolved; `from rfnb.core.dims import dim` is
    `rfnb.core.dims.dim`."""
    for node in nodes:
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = module.split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield node.lineno, name if name in NAMES else base


def imports_at_the_top(file: Path) -> Iterator[tuple[int, str]]:
    """Imports that run when a file is imported."""
    for statement in parse(file).body:
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.Try):
            yield from imports(statements(statement), MODULES[file])


@cache
def needs(file: Path) -> frozenset[str]:
    """The modules of rfnb that a file imports, also inside functions; a package stands for its `__init__`."""
    module = MODULES.get(file, "tests")
    names = {name for _, name in imports(statements(parse(file), that_run=True), module)} & NAMES
    return frozenset(f"{name}.__init__" if f"{name}.__init__" in PACKAGES else name for name in names) - {module}


def distances(changed: Iterable[str]) -> dict[str, int]:
    """The number of imports between a module and the nearest of the `changed` ones, for all modules that reach one."""
    importers = defaultdict(set)
    for file, module in MODULES.items():
        for name in needs(file):
            importers[name].add(module)
    steps = dict.fromkeys(changed, 0)
    queue = list(steps)
    for name in queue:
        for module in sorted(importers[name] - steps.keys()):
            steps[module] = steps[name] + 1
            queue.append(module)
    return steps


WHOLE_FOLDER = {
    "backend": {"contract", "backends_agree", "lookup"},
    "ops": {"promises", "padding", "in_loop", "axes_in_loop"},
    "nn": {"in_loop", "learning", "step_by_step", "training", "recipes"},
    "display": {"hostile", "tags", "walk"},
    "netdict": {"goldens"},
}
"""By folder of tests: promises that hold for all files of the folder of the same name in `rfnb/`."""


def subject(test: Path) -> Path | None:
    """The file or folder that a file of tests is about: it has the same name, perhaps followed by what of it is tested,
    and stands in the same folder. None if there is no such place."""
    folder = test.relative_to(TESTS).parent
    name = test.stem.removeprefix("test_")
    places = [path for path in (ROOT / folder).iterdir() if path.stem != "__init__"] if (ROOT / folder).is_dir() else []
    named = [path for path in places if name == path.stem or name.startswith(f"{path.stem}_")]
    if named:
        return max(named, key=lambda path: len(path.stem))
    about_all = name in WHOLE_FOLDER.get(str(folder), ()) or name == folder.name or name.startswith(f"{folder.name}_")
    return ROOT / folder if about_all and folder.parts else None


def code_lines(file: Path) -> int:
    """The lines of a file that have code: neither blank, nor only a comment, nor part of a docstring."""
    words = {n for node in docstrings(parse(file)) for n in range(node.lineno, (node.end_lineno or 0) + 1)}
    lines = enumerate(map(str.strip, file.read_text(encoding="utf-8").splitlines()), start=1)
    return sum(bool(line) and line[0] != "#" and number not in words for number, line in lines)


def docstrings(tree: ast.AST) -> Iterator[ast.Expr]:
    """The texts below modules, classes, functions and constants."""
    for node in statements(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node


def room_sizes() -> dict[str, int]:
    """Lines of code by folder or file directly below `rfnb/`, in the order of their names."""
    sizes: dict[str, int] = defaultdict(int)
    for file in FILES:
        sizes[file.relative_to(ROOT).parts[0].removesuffix(".py")] += code_lines(file)
    return dict(sorted(sizes.items()))

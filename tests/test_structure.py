"""Imports point down. Nobody imports a layer above their own, not even inside a function, and no folder has a cycle."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from graphlib import CycleError, TopologicalSorter
from pathlib import Path

import pytest

from tests.walks import files_visited, recorded_loop

ROOT = Path(__file__).parents[1] / "rfnb"
ORDER = "printable errors core backend ops data trace loop nn search checkpoint network layers display".split()
ORDER += ["public_names", "module_paths", "as_returnn", "__main__"]
ROOMS = {
    "core": "ground vocab dims advice tensor expression graph run",
    "data": "layout dataset batching writing public",
    "trace": "record run pause observe compare graph capture probe public",
    "loop": "program steps body replay check zero_steps settle run_body choice loop kept breakpoint functional public",
    "nn": "init module layers schedule attention cells encoder decoder bridge public",
    "search": "trace words node tree_arrays explain stored tree found corpus sources checks variants beam blank "
    "options replayed collect score choice outside decoding register public",
    "checkpoint": "folder bundle stored formats entries contents mapping plain_values training choice report "
    "variables foreign save load import_weights public",
    "network": "versions axes resolve options layer_call layer extern_data losses holder params build rec builder "
    "inner_net config report interface network weights public",
    "layers": "activations initializers basic batches chunks conv create eval grad loss matmul norm random "
    "range rec reduce run shape shift signal slice softmax time concat wrap register",
    "display": "markup kit layout tensor dims loop beam run comparison attention graph * panel register schema_ts show "
    "public",
}
"""The folders and files of a rank, in their order: imports point to the left here too. `*` stands for the others, which
do not import each other."""
FILES = sorted(ROOT.rglob("*.py"))
MODULES = {file: ".".join(file.relative_to(ROOT.parent).with_suffix("").parts) for file in FILES}
KNOWN = {name.removesuffix(".__init__") for name in MODULES.values()}
TORCH_AT_THE_TOP = ("rfnb.backend.torch", "rfnb.checkpoint", "rfnb.nn.bridge")
ONLY_IN_DISPLAY = {"IPython", "ipywidgets", "anywidget", "matplotlib", "graphviz"}


def imported(tree: ast.AST, here: str) -> Iterator[tuple[int, str]]:
    """Line and absolute name of each import, relative ones resolved; `from rfnb.core.dims import dim` is
    `rfnb.core.dims.dim`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            package = here.split(".")[: -node.level] if node.level else []
            base = ".".join([*package, *filter(None, [node.module])])
            for alias in node.names:
                name = f"{base}.{alias.name}"
                yield node.lineno, name if name in KNOWN else base


def imported_at_the_top(tree: ast.Module, here: str) -> Iterator[tuple[int, str]]:
    """Imports that run when the module is imported, without those for type checkers only."""
    for statement in tree.body:
        if isinstance(statement, ast.Import | ast.ImportFrom | ast.Try):
            yield from imported(statement, here)


def layer_of(module: str) -> int:
    """The rank of a module's folder; `rfnb` itself is above all."""
    parts = module.split(".")
    return ORDER.index(parts[1]) if len(parts) > 1 and parts[1] != "__init__" else len(ORDER)


def parse(file: Path) -> ast.Module:
    return ast.parse(file.read_text(encoding="utf-8"))


def reaches_up(tree: ast.AST, here: str) -> list[str]:
    """The imports of a module that break the order."""
    names = [(line, name) for line, name in imported(tree, here) if name.split(".")[0] == "rfnb"]
    return [f"line {line}: {name}" for line, name in names if layer_of(name) > layer_of(here)]


def test_every_folder_has_its_rank():
    folders = {path.stem for path in ROOT.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert folders - {"__init__", "__pycache__", "labextension"} <= set(ORDER)


@pytest.mark.parametrize("file", FILES, ids=lambda file: MODULES[file])
def test_imports_point_down(file):
    assert not reaches_up(parse(file), MODULES[file])


@pytest.mark.parametrize(
    "code",
    [
        "import rfnb",
        "import rfnb.loop.loop as loop",
        "from rfnb.loop.loop import Loop",
        "from rfnb import loop",
        "from ...loop.loop import Loop",
        "from ... import loop",
        "def f():\n    from rfnb.loop import Loop",
    ],
)
def test_each_way_to_reach_up_is_seen(code):
    assert reaches_up(ast.parse(code), "rfnb.core.dims.dim")


@pytest.mark.parametrize("code", ["import rfnb.errors", "from .dims import Dim", "from ...errors import RfError"])
def test_reaching_down_is_allowed(code):
    assert not reaches_up(ast.parse(code), "rfnb.core.tensor.tensor")


def room_of(module: str) -> tuple[int, str]:
    """The place of a module within its rank, and the name of its room."""
    _, rank, room, *_ = module.split(".")
    places = ROOMS[rank].split()
    return places.index(room if room in places else "*"), room


def points_left(name: str, here: str) -> bool:
    """Whether `here` may import `name`, of the same rank: from its own room, or from one further left."""
    (place, room), (own_place, own_room) = room_of(name), room_of(here)
    return place < own_place or room == own_room


@pytest.mark.parametrize("rank", ROOMS)
def test_every_room_has_its_place(rank):
    rooms = {path.stem for path in (ROOT / rank).iterdir() if path.is_dir() or path.suffix == ".py"}
    listed = set(ROOMS[rank].split())
    found = rooms - {"__init__", "__pycache__", "static"}
    assert found == listed or ("*" in listed and found > listed - {"*"})


@pytest.mark.parametrize("rank", ROOMS)
def test_imports_point_left_inside_a_rank(rank):
    wrong = []
    for file, here in MODULES.items():
        if here.startswith(f"rfnb.{rank}.") and not here.endswith(f"{rank}.__init__"):
            for name in needs(file, here):
                inside = name.startswith(f"rfnb.{rank}.") and not name.endswith(f"{rank}.__init__")
                if inside and not points_left(name, here):
                    wrong.append(f"{here} → {name}")
    assert not wrong


def test_no_cycle_between_modules():
    """Imports inside functions count too: they hide a cycle, they do not remove it."""
    graph = {name: needs(file, name) for file, name in MODULES.items()}
    try:
        TopologicalSorter(graph).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def needs(file: Path, here: str) -> set[str]:
    """The modules that a module imports; a package stands for its `__init__`."""
    tree = without_type_checking(parse(file))
    names = {name for _, name in imported(tree, here)} & KNOWN
    packages = {name for name in MODULES.values() if name.endswith(".__init__")}
    return {f"{name}.__init__" if f"{name}.__init__" in packages else name for name in names} - {here}


def without_type_checking(tree: ast.Module) -> ast.Module:
    """Without `if TYPE_CHECKING:` blocks, which are never run."""
    for node in ast.walk(tree):
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            node.body = [ast.Pass()]
    return tree


@pytest.mark.parametrize("file", FILES, ids=lambda file: MODULES[file])
def test_torch_is_imported_where_it_belongs(file):
    here = MODULES[file]
    tops = {name.split(".")[0] for _, name in imported_at_the_top(parse(file), here)}
    anywhere = {name.split(".")[0] for _, name in imported(parse(file), here)}
    assert "torch" not in tops or here.startswith(TORCH_AT_THE_TOP)
    assert "torch" not in anywhere or not here.startswith("rfnb.core.")


@pytest.mark.parametrize("file", FILES, ids=lambda file: MODULES[file])
def test_front_ends_are_imported_inside_functions_of_display(file):
    here = MODULES[file]
    tops = {name.split(".")[0] for _, name in imported_at_the_top(parse(file), here)}
    anywhere = {name.split(".")[0] for _, name in imported(parse(file), here)}
    assert not tops & ONLY_IN_DISPLAY
    assert not anywhere & ONLY_IN_DISPLAY or here.startswith("rfnb.display.")


@pytest.mark.parametrize("file", FILES, ids=lambda file: MODULES[file])
def test_a_folder_says_in_which_order_to_read_it_and_a_file_stays_short(file):
    text = file.read_text(encoding="utf-8")
    docstring = ast.get_docstring(ast.parse(text)) or ""
    assert len(text.splitlines()) <= 800
    assert file.name != "__init__.py" or file.parent == ROOT or (len(docstring) > 30 and docstring.count("\n") < 10)


def test_a_recorded_loop_is_a_short_walk():
    walk = recorded_loop()
    walk()
    assert len(files_visited(walk)) < 55


TESTS = Path(__file__).parent
RANK_TESTS = [file for file in sorted(TESTS.rglob("test_*.py")) if file.relative_to(TESTS).parts[0] in ORDER]
WHOLE_RANK = {
    "backend": {"contract", "backends_agree", "lookup"},
    "ops": {"promises", "padding", "in_loop", "axes_in_loop"},
    "nn": {"in_loop", "learning", "step_by_step", "training", "recipes"},
    "network": {"goldens"},
    "display": {"hostile", "tags", "walk"},
}
"""Tests of a promise that holds for all files of a rank."""


@pytest.mark.parametrize("file", RANK_TESTS, ids=lambda file: str(file.relative_to(TESTS)))
def test_a_test_stands_where_the_file_stands_that_it_tests(file):
    """In the same folder, with the name of a file or a folder there, and perhaps what of it is tested."""
    inside = file.relative_to(TESTS).parent
    topics = {path.stem for path in (ROOT / inside).iterdir()} | {inside.name} | WHOLE_RANK.get(str(inside), set())
    name = file.stem.removeprefix("test_")
    assert any(name == topic or name.startswith(f"{topic}_") for topic in topics)


def test_names_of_tests_are_promises_of_a_bearable_length():
    names = [
        name for file in TESTS.rglob("test_*.py") for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))
    ]
    assert not [name for name in names if len(name) > 70]

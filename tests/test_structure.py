"""Imports point down, folders have no cycles, rooms keep to their budget, tests stand where their subject stands."""

from __future__ import annotations

import ast
import re
import tomllib
from graphlib import CycleError, TopologicalSorter

import pytest

from tests.sources import (
    FILES,
    MODULES,
    PACKAGES,
    PROJECT,
    ROOT,
    TEST_FILES,
    TESTS,
    distances,
    imports,
    imports_at_the_top,
    needs,
    parse,
    room_sizes,
    statements,
    subject,
)
from tests.walks import decoded, files_visited, net_forward, recorded_loop

ORDER = "printable errors core backend ops data trace loop nn search checkpoint display jobs netdict".split()
ORDER += ["public_names", "module_paths", "as_returnn", "__main__"]
ROOMS = {
    "core": "ground vocab dims advice tensor expression graph run_ctx",
    "data": "dataset examples configs public",
    "trace": "record run pause plain observe compare graph capture probe public",
    "loop": "program step ends steps body replay check run_body choice loop pure functional public",
    "nn": "init module layers schedule attention cells encoder decoder bridge public",
    "search": "trace text_result explain file tree sources rules beam search_steps variants "
    "repeated_decode result corpus frames score choice tensor_step decoding generate register public",
    "checkpoint": "bundle entries mapping training report foreign save load pretrained public",
    "display": "markup kit layout tensor dims loop beam run comparison attention graph * panel register show public",
    "jobs": "worker script job launch public",
    "netdict": "versions axes resolve options layer_call spec layer user_layers extern_data losses losses_of_layers "
    "loss_holder build loops builder inner_net config report network folder weights layers code stages views public",
}
"""The folders and files of a rank, in their order: imports point to the left here too. `*` stands for the others, which
do not import each other."""
TORCH_AT_THE_TOP = ("rfnb.backend.torch", "rfnb.checkpoint", "rfnb.nn.bridge", "rfnb.netdict.weights",
                    "rfnb.netdict.code.torch_")  # fmt: skip
ONLY_IN_DISPLAY = {"IPython", "ipywidgets", "anywidget", "matplotlib", "graphviz"}
LONGEST_FILE = 800


def rank_of(module: str) -> int:
    """The rank of a module's folder; `rfnb` itself is above all."""
    parts = module.split(".")
    return ORDER.index(parts[1]) if len(parts) > 1 and parts[1] != "__init__" else len(ORDER)


def reaches_up(tree: ast.AST, module: str) -> list[str]:
    """The imports of a module that break the order of ranks."""
    names = [(line, name) for line, name in imports(statements(tree), module) if name.split(".")[0] == "rfnb"]
    return [f"{module}, line {line}: {name}" for line, name in names if rank_of(name) > rank_of(module)]


def test_every_folder_has_its_rank():
    folders = {path.stem for path in ROOT.iterdir() if path.is_dir() or path.suffix == ".py"}
    assert folders - {"__init__", "__pycache__", "labextension"} <= set(ORDER)


def test_imports_point_down_to_a_lower_rank():
    assert not [line for file, module in MODULES.items() for line in reaches_up(parse(file), module)]


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


def points_left(name: str, module: str) -> bool:
    """Whether `module` may import `name`, of the same rank: from its own room, or from one further left."""
    (place, room), (own_place, own_room) = room_of(name), room_of(module)
    return place < own_place or room == own_room


@pytest.mark.parametrize("rank", ROOMS)
def test_every_room_has_its_place(rank):
    paths = {path.stem for path in (ROOT / rank).iterdir() if path.is_dir() or path.suffix == ".py"}
    rooms, listed = paths - {"__init__", "__pycache__", "static"}, set(ROOMS[rank].split())
    assert rooms == listed or ("*" in listed and rooms > listed - {"*"})


def test_imports_point_left_inside_a_rank():
    wrong = []
    for file, module in MODULES.items():
        rank = module.split(".")[1]
        for name in needs(file) if rank in ROOMS and module != f"rfnb.{rank}.__init__" else ():
            inside = name.startswith(f"rfnb.{rank}.") and name != f"rfnb.{rank}.__init__"
            if inside and not points_left(name, module):
                wrong.append(f"{module} → {name}")
    assert not wrong


@pytest.mark.slow
def test_no_cycle_between_modules():
    """Imports inside functions count too: they hide a cycle, they do not remove it."""
    try:
        TopologicalSorter({module: needs(file) for file, module in MODULES.items()}).prepare()
    except CycleError as error:
        pytest.fail(" → ".join(reversed(error.args[1])))


def test_torch_and_front_ends_are_imported_where_they_belong():
    wrong = []
    for file, module in MODULES.items():
        tops = {name.split(".")[0] for _, name in imports_at_the_top(file)}
        anywhere = {name.split(".")[0] for _, name in imports(statements(parse(file)), module)}
        torch = "torch" in tops and not module.startswith(TORCH_AT_THE_TOP)
        torch |= "torch" in anywhere and module.startswith("rfnb.core.")
        front_ends = tops & ONLY_IN_DISPLAY or (anywhere & ONLY_IN_DISPLAY and not module.startswith("rfnb.display."))
        wrong += [module] if torch or front_ends else []
    assert not wrong


def test_no_file_is_too_long_and_a_folder_says_in_which_order_to_read_it():
    wrong = []
    for file, module in MODULES.items():
        docstring = ast.get_docstring(parse(file)) or ""
        is_folder = module in PACKAGES and file.parent != ROOT
        if is_folder and not (len(docstring) > 30 and docstring.count("\n") < 10):
            wrong.append(f"{module}: a docstring that says what the folder holds")
        length = len(file.read_text(encoding="utf-8").splitlines())
        if length > LONGEST_FILE:
            wrong.append(f"{module}: {length} lines")
    assert not wrong


def test_rooms_keep_to_their_budget():
    """`.ci/budget.toml` says how to change it."""
    budget = tomllib.loads((PROJECT / ".ci" / "budget.toml").read_text(encoding="utf-8"))
    sizes = room_sizes()
    assert sizes.keys() == budget.keys()
    assert not {room: f"{size} > {budget[room]}" for room, size in sizes.items() if size > budget[room]}


def test_modules_that_comments_name_exist():
    """Those that are written as `backend.base.math`."""
    names = {module.removesuffix(".__init__") for module in MODULES.values()}
    ranks = "|".join(rank for rank in ORDER if rank not in ("loop", "data"))  # names of variables in examples
    wrong = []
    for file, module in MODULES.items():
        for path in re.findall(rf"`((?:{ranks})\.\w+\.\w+)[.`]", file.read_text(encoding="utf-8")):
            folder = f"rfnb.{path.rpartition('.')[0]}"
            if f"rfnb.{path}" not in names and (
                folder not in names or (ROOT.parent / folder.replace(".", "/")).is_dir()
            ):
                wrong.append(f"{module}: {path}")
    assert not wrong


def test_the_map_names_each_folder_once():
    text = (PROJECT / "docs" / "architecture.md").read_text(encoding="utf-8")
    links = [link.rstrip("/") for link in re.findall(r"\]\(\.\./(rfnb/[^)]*)\)", text)]
    folders = {str(file.parent.relative_to(PROJECT)) for file in FILES} - {"rfnb"}
    assert sorted(link for link in links if not link.endswith(".py")) == sorted(folders)


def test_the_modules_that_a_change_reaches():
    reached = distances(["rfnb.core.dims.dim"])
    assert reached["rfnb.core.dims.dim"] == 0
    assert reached["rfnb.core.tensor.tensor"] >= 1 and "rfnb.errors" not in reached
    assert {module for module, steps in distances(["rfnb.ops.audio"]).items() if steps} >= {"rfnb.ops.public"}


def test_a_recorded_loop_is_a_short_walk():
    walk = recorded_loop()
    walk()
    assert len(files_visited(walk)) < 41


def test_a_search_that_decodes_is_a_short_walk():
    walk = decoded()
    walk()
    assert len(files_visited(walk)) <= 24


def test_the_forward_call_of_a_net_is_a_short_walk():
    walk = net_forward()
    walk()
    assert len(files_visited(walk)) <= 38


def test_a_test_stands_where_its_subject_stands():
    """In the same folder, with the name of a file or a folder there, and perhaps what of it is tested."""
    of_ranks = [file for file in TEST_FILES if file.relative_to(TESTS).parts[0] in ORDER]
    assert not [str(file) for file in of_ranks if subject(file) is None]


def test_what_needs_a_browser_is_collected_for_it():
    """`.ci/check.py` names these files, since collecting all tests takes half a minute in each process."""
    marks = [f"pytest.mark.{name}" for name in ("browser", "wheel")]
    marked = [path for path in TEST_FILES if any(mark in path.read_text() for mark in marks)]
    assert marked and {path.relative_to(TESTS).parts[0] for path in marked} == {"browser", "test_wheel.py"}


def test_names_of_tests_are_promises_of_a_bearable_length():
    names = [name for file in TEST_FILES for name in re.findall(r"def (test_\w+)", file.read_text("utf-8"))]
    assert not [name for name in names if len(name) > 70]

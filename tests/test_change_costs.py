"""What an addition costs: an op, a cell, a view and a command of the panel, made in a copy of the project.

Each addition is a list of edits by hand, one entry for each file; its own test is among them where the project wants
one. Written by a command, and not counted: golden files and `extension/src/schema.ts`. The
tests of the project then run in the copy, so that an edit which is forgotten here fails.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow

ROOT = Path(__file__).parents[1]
COPIED = [
    *("rfnb", "tests", "conftest.py", "pyproject.toml", ".ci/budget.toml", ".ci/schema_ts.py"),
    *(f"extension/{name}" for name in ("src", "test", "schema", "tsconfig.json", "package.json")),
]
IGNORED = shutil.ignore_patterns(
    *("labextension", "static", "node_modules", "*.webp", "*.png", "bench", "browser", "notebooks")
)


@dataclass(frozen=True)
class Insert:
    """An edit: `text` directly after `anchor`, which the file has once."""

    anchor: str
    text: str

    def apply(self, file: Path) -> None:
        before = file.read_text(encoding="utf-8")
        assert before.count(self.anchor) == 1, (file, self.anchor)
        file.write_text(before.replace(self.anchor, self.anchor + self.text), encoding="utf-8")


Edits = dict[str, str | list[Insert]]
"""By file: the text of a new one, or what is inserted."""

OP: Edits = {
    "rfnb/ops/math.py": [
        Insert(
            'cos = _unary("cos", "cosine, in radians", "[-1.0, 0.0, 1.0] → [0.540..., 1.0, 0.540...]")\n',
            'tan = _unary("tan", "tangent, in radians", "[-1.0, 0.0, 1.0] → [-1.557..., 0.0, 1.557...]")\n',
        )
    ],
    "rfnb/ops/public.py": [Insert("swish as swish,", "\n    tan as tan,")],
    "rfnb/backend/torch/math.py": [Insert('    "cos": torch.cos,\n', '    "tan": torch.tan,\n')],
    "rfnb/backend/numpy.py": [Insert('"sin", "cos", ', '"tan", ')],
}
USE_OF_OP = """
def test_it_works_on_both_backends_and_in_a_loop():
    raw = np.linspace(-1.0, 1.0, 6).reshape(3, 2)
    time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    x = rf.convert_to_tensor(raw, dims=[time, feat])
    for y in (rf.tan(x), rf.tan(x.like(raw))):
        np.testing.assert_allclose(np.asarray(y.raw_tensor), np.tan(raw))
    loop = rf.Loop(axis=time)
    loop.state.total = rf.zeros([feat], dtype="float64")
    with loop:
        loop.state.total = rf.tan(loop.state.total + loop.unstack(x))
        out = loop.stack(loop.state.total)
    total = np.zeros(2)
    for frame, found in zip(raw, out.numpy(), strict=True):
        np.testing.assert_allclose(found, total := np.tan(total + frame))
"""

CELL: Edits = {
    "rfnb/nn/cells/leaky.py": '''\
"""A cell whose state leaks: LeakyRNN."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.nn.cells.simple import BasicRNN


class LeakyRNN(BasicRNN):
    """A leaky integrator (Jaeger 2001): h' = (1 − a)·h + a·tanh(W·x + U·h + b).

    {…, spatial_dim, in_dim} → {…, spatial_dim, out_dim}

    >>> inp, out, time = rf.Dim(3, name="in"), rf.Dim(4, name="out"), rf.Dim(5, name="time")
    >>> rnn = rf.LeakyRNN(inp, out, leak=0.5)
    >>> y, state = rnn(rf.zeros([time, inp]), state=rnn.default_initial_state(batch_dims=[]), spatial_dim=time)
    >>> y.dims == (time, out), state.h.dims == (out,)
    (True, True)
    """

    def __init__(self, in_dim: Dim, out_dim: Dim, *, leak: float = 0.1):
        super().__init__(in_dim, out_dim)
        self.leak = leak

    def step(self, x: Tensor, state: State) -> tuple[Tensor, State]:
        """The new h, which is also the output, and the new state."""
        new, _ = super().step(x, state)
        h = (1 - self.leak) * state.h + self.leak * new
        return h, State(h=h)
''',
    "rfnb/nn/public.py": [
        Insert(
            "from rfnb.nn.cells.cell import RecCell as RecCell, make_cell as make_cell\n",
            "from rfnb.nn.cells.leaky import LeakyRNN as LeakyRNN\n",
        )
    ],
    "tests/nn/cells/test_cells.py": [
        Insert('    "RHN": lambda i, o: rf.RHN(i, o, depth=2),\n', '    "LeakyRNN": rf.LeakyRNN,\n')
    ],
}
USE_OF_CELL = """
def test_it_is_made_by_its_name():
    time, inp, out = (rf.Dim(n, name=name) for n, name in [(5, "time"), (3, "in"), (4, "out")])
    cell = rf.make_cell("leakyrnn", inp, out, leak=0.5)
    y, state = cell(rf.ones([time, inp]), state=cell.default_initial_state(batch_dims=[]), spatial_dim=time)
    assert type(cell) is rf.LeakyRNN and y.dims == (time, out)
    np.testing.assert_allclose(y.numpy()[-1], state.h.numpy())
"""

VIEW: Edits = {
    "rfnb/display/vocab.py": '''\
"""The view of a vocabulary: how many labels it has, and the first of them."""

from __future__ import annotations

from rfnb.core.vocab import Vocab
from rfnb.display.kit import blocks as page


@page.shows("vocab", "rfnb.core.vocab.Vocab")
def describe(vocab: Vocab) -> page.Page:
    """The number of labels, and the first five."""
    first = " ".join(map(repr, vocab.labels[:5]))
    table = page.Table(["label"], [[label] for label in vocab.labels])
    words = page.Line(page.name(f"Vocab of {len(vocab.labels)} labels: "), page.mono(first))
    return page.Page("vocab", "vocab", [words], table)
''',
    "tests/display/test_vocab_view.py": '''\
"""A vocabulary as text and HTML."""

from __future__ import annotations

from collections.abc import Callable

import rfnb as rf
from rfnb.display.kit.view import View


def hostile_views(word: Callable[[str], str]) -> dict[str, View]:
    """A vocabulary with such labels; see `tests/display/hostile.py`."""
    return {"vocab": rf.show(rf.Vocab([word("a"), word("b")]))}


def test_the_text_is_as_it_was(golden):
    view = rf.show(rf.Vocab(["</s>", "kiwi", "fig"]))
    golden("vocab.txt", view.text + "\\n")
''',
}
USE_OF_VIEW = """
def test_it_is_shown():
    assert rf.show(rf.Vocab(["kiwi", "<fig>"])).text == "Vocab of 2 labels: 'kiwi' '<fig>'"
    assert "&#x27;&lt;fig&gt;&#x27;" in rf.show(rf.Vocab(["kiwi", "<fig>"])).html
    assert rf.show(rf.Vocab(["kiwi", "<fig>"])).data["rows"] == [{"label": "kiwi"}, {"label": "<fig>"}]
"""

COMMAND: Edits = {
    "rfnb/display/panel/commands.py": [
        Insert("FoundView, Hello, ", "Memory, "),
        Insert(
            "    return comparison_view.describe(compare_runs(a, b, sequence=sequence if has_sequence else None))\n",
            '''

def memory(dispatcher: Dispatcher, run: int) -> Memory:
    """How much memory the recorded values use."""
    return {"bytes": dispatcher.run_of(run).bytes}
''',
        ),
        Insert('    "compare": compare,\n', '    "memory": memory,\n'),
    ],
    "rfnb/display/panel/schema.py": [
        Insert(
            '    status: Literal["ok", "error", "gone", "queued", "busy"]\n    data: object\n    error: str | None\n',
            '\n\nclass Memory(TypedDict):\n    """The memory of a run."""\n\n    bytes: int\n',
        )
    ],
    "extension/src/views/stepper/stepper.tsx": [
        Insert(
            "<Gradients state={state} actions={actions} />\n          )}\n",
            """\
          <button className="rfnb-Button" type="button" onClick={() => actions.ask('memory', {})}>
            {`${state.asides.memory?.answer?.bytes ?? '?'} bytes`}
          </button>
""",
        )
    ],
    "extension/src/stepper/commands.ts": [
        Insert(
            "  { key: 'o', act: actions => actions.toggleOps() }",
            ",\n  { key: 'm', act: actions => actions.ask('memory', {}) }",
        )
    ],
    "tests/display/panel/test_commands_of_runs.py": [
        Insert(
            "@pytest.fixture\ndef ask() -> Asked:\n    return Asked()\n",
            '\n\ndef test_memory_of_a_run(ask):\n    assert ask("memory") == {"bytes": ask.run.bytes}\n',
        )
    ],
}
USE_OF_COMMAND = """
def test_typescript_knows_it():
    text = Path("extension/src/schema.ts").read_text()
    assert "  memory: { args: { run: number }; answer: Memory };" in text and "export interface Memory {" in text
"""

HEAD = "from pathlib import Path\n\nimport numpy as np\n\nimport rfnb as rf\n\n"
OF_OPS = ["test_public_api", "test_docstrings", "backend/test_backends_agree", "ops/test_in_loop"]
OF_CELLS = ["test_public_api", "test_docstrings", "nn/cells/test_cells", "nn/test_step_by_step"]
NAMES = "has_the_names or one_folder or completion_has"
STRUCTURE = ("tests/test_structure.py", "rank or room_has or left or cycle")
Check = tuple[str, str]
"""A file of tests, and which of them: an expression for `pytest -k`, where "" means all."""


class Copy:
    """A copy of the project in a folder, with the additions, and what commands write for them."""

    def __init__(self, folder: Path):
        self.folder, edits = folder, OP | CELL | VIEW | COMMAND
        for name in COPIED:
            put = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
            (folder / name).parent.mkdir(parents=True, exist_ok=True)
            put(ROOT / name, folder / name, **({"ignore": IGNORED} if put is shutil.copytree else {}))
        for name, edit in edits.items():
            self.edit(folder / name, edit)
        python = [name for name in edits if name.endswith(".py")]
        self.run("-m", "ruff", "check", *python)
        self.run("-m", "ruff", "format", "--check", *python)
        goldens = ["tests/test_public_api.py", "tests/display/test_vocab_view.py", "-k", "on_purpose or as_it_was"]
        self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", "--update-golden", *goldens)
        (folder / "extension/src/schema.ts").write_text(self.run(".ci/schema_ts.py"), encoding="utf-8")

    def edit(self, file: Path, edit: str | list[Insert]) -> None:
        if isinstance(edit, str):
            assert not file.exists()
            file.parent.mkdir(exist_ok=True)
            file.write_text(edit, encoding="utf-8")
        else:
            assert edit
            for insert in edit:
                insert.apply(file)

    def run(self, *args: str) -> str:
        """What Python prints when it is run in the copy with such arguments; fails where it fails."""
        command, paths = [sys.executable, *args], {"PYTHONPATH": str(self.folder)}
        done = subprocess.run(
            command, cwd=self.folder, env={**os.environ, **paths}, check=False, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
        return done.stdout

    def test(self, checks: list[Check], uses: dict[str, str]) -> None:
        """The tests of the project that have to do with the additions, and what their users would do."""
        for name, use in uses.items():
            (self.folder / "tests" / f"test_use_of_{name}.py").write_text(HEAD + use, encoding="utf-8")
        chosen = [f"({Path(file).name} and ({words}))" if words else Path(file).name for file, words in checks]
        files = dict.fromkeys(file for file, _ in checks)
        self.run("-m", "pytest", "-q", "-p", "no:cacheprovider", *files, "-k", " or ".join(chosen))


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    return Copy(tmp_path_factory.mktemp("copy"))


@pytest.mark.parametrize(
    ("addition", "most"), [(OP, 5), (CELL, 3), (VIEW, 3), (COMMAND, 5)], ids=["op", "cell", "view", "panel command"]
)
def test_an_addition_costs_at_most_so_many_files(addition, most):
    assert len(addition) <= most


def test_the_additions_need_no_more_than_that(copy):
    checks = [
        ("rfnb/ops/math.py", "math.tan"),
        *((f"tests/{name}.py", f"(tan and not tanh) or {NAMES}") for name in OF_OPS),
        ("rfnb/nn/cells/leaky.py", ""),
        *((f"tests/{name}.py", f"Leaky or every or {NAMES}") for name in OF_CELLS),
        ("tests/display/test_vocab_view.py", ""),
        ("tests/display/test_hostile.py", "every_kind"),
        STRUCTURE,
        ("tests/test_schema_ts.py", ""),
        ("tests/display/panel/test_commands_of_runs.py", "memory_of_a_run"),
    ]
    uses = {"op": USE_OF_OP, "cell": USE_OF_CELL, "view": USE_OF_VIEW, "command": USE_OF_COMMAND}
    copy.test([*((f"tests/test_use_of_{name}.py", "") for name in uses), *checks], uses)


def test_typescript_accepts_a_command_of_the_panel(copy, missing):
    modules = ROOT / "extension" / "node_modules"
    if shutil.which("node") is None or not modules.exists():
        missing("no node, or no packages of the extension")
    (copy.folder / "extension" / "node_modules").symlink_to(modules)
    tsc = [modules / ".bin" / "tsc", "--noEmit"]
    done = subprocess.run(tsc, cwd=copy.folder / "extension", check=False, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout

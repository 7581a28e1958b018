"""docs/from_returnn.md: its model runs unchanged, and after a change of its imports, and the names on it exist."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

import rfnb as rf

PAGE = (Path(__file__).parents[1] / "docs" / "from_returnn.md").read_text(encoding="utf-8")
FIRST, MODEL, *REST = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
ROWS = re.findall(r"^\| `((?:from|import) .*?)` \| `(.*?)` \|$", PAGE, re.MULTILINE)
LEFT_OUT = re.findall(r"`rf\.(\w+)`", PAGE.partition("### Left out")[2].partition(" | tensors are")[0])


@pytest.mark.parametrize(("there", "here"), ROWS, ids=[there for there, _ in ROWS])
def test_an_import(there, here):
    names: tuple[dict[str, object], ...] = {}, {}
    exec(f"{FIRST}\n{there}", names[0])
    exec(here, names[1])
    assert "returnn" in there and "returnn" not in here
    assert all(names[0][name] is value for name, value in names[1].items() if name not in ("__builtins__", "rf"))


def changed(code: str) -> str:
    """With the imports of the page's table, module by module."""
    modules = {there.split()[1]: here.split()[1] for there, here in ROWS if there.startswith("from")}
    modules["returnn.frontend"] = "rfnb"
    for there in sorted(modules, key=len, reverse=True):
        code = code.replace(f"from {there} import", f"from {modules[there]} import")
    return code.replace("import returnn.frontend as rf", "import rfnb as rf")


@pytest.mark.parametrize("model", [[FIRST, MODEL], [changed(MODEL)]], ids=["unchanged", "changed"])
def test_the_model_trains_and_its_checkpoint_loads(model):
    assert "returnn" in MODEL and "returnn" not in changed(MODEL)
    exec(compile("\n".join([*model, *REST]), "from_returnn_page.py", "exec"), {"__name__": "page"})


def test_what_is_named_is_there():
    names = set(re.findall(r"`rf\.(\w+)", PAGE)) - set(LEFT_OUT)
    assert len(LEFT_OUT) == 4 and len(names) > 20
    assert not [name for name in names if not hasattr(rf, name)]


def test_what_is_left_out_is_not_there():
    assert not [name for name in LEFT_OUT if hasattr(rf, name)]
    with pytest.raises(rf.errors.BackendError):
        rf.select_backend_tf()
    assert rf.dropout_broadcast_default() is True

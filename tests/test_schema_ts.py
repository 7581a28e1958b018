"""The TypeScript types are those of the Python side."""

from __future__ import annotations

import ast
import importlib.util
import sys
from pathlib import Path

import pytest

from rfnb.display.panel.commands import COMMANDS, Dispatcher

ROOT = Path(__file__).parents[1]
GENERATED = ROOT / "extension" / "src" / "schema.ts"
SCHEMA = '''
PROTOCOL = 3
"""Raised with care."""

Number = float | Literal["nan"]


class Base(TypedDict):
    """What all have."""

    number: Number  # never None


class Used(Base):
    """What is reached."""

    rows: NotRequired[list[Row]]


class Row(TypedDict):
    """A row; not the same as `Unused`."""


class Unused(TypedDict):
    """What no script asks for."""
'''
TYPESCRIPT = """\
/** Raised with care. */
export const PROTOCOL = 3;

export type Number = number | 'nan';

/** What all have. */
export interface Base {
  /** never None */
  number: Number;
}

/** What is reached. */
export interface Used extends Base {
  rows?: Row[];
}

/** A row; not the same as `Unused`. */
export interface Row {
}"""


@pytest.fixture(scope="module")
def schema_ts():
    """The tool that writes the types."""
    spec = importlib.util.spec_from_file_location("schema_ts", ROOT / ".ci" / "schema_ts.py")
    assert spec is not None and spec.loader is not None
    tool = importlib.util.module_from_spec(spec)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(sys.modules, "schema_ts", tool)
        patch.setattr(sys, "path", [*sys.path])
        spec.loader.exec_module(tool)
        yield tool


def test_the_generated_file_is_up_to_date(schema_ts):
    assert GENERATED.read_text(encoding="utf-8") == schema_ts.typescript(), (
        "python .ci/schema_ts.py > extension/src/schema.ts"
    )


def test_only_what_scripts_refer_to_is_written(schema_ts, tmp_path, monkeypatch):
    file = tmp_path / "schema.py"
    file.write_text(SCHEMA, encoding="utf-8")
    monkeypatch.setattr(schema_ts, "schemas", lambda: [file])
    monkeypatch.setattr(schema_ts, "imported_names", lambda: {"Used", "PROTOCOL"})
    monkeypatch.setattr(schema_ts, "COMMANDS", {})
    assert schema_ts.typescript().removeprefix(f"{schema_ts.HEADER}\n\n").rpartition("\n\n")[0] == TYPESCRIPT


def test_names_are_read_from_the_scripts(schema_ts):
    names = schema_ts.imported_names()
    assert {"PROTOCOL", "StepView", "AttentionScripts", "Commands"} <= names
    assert "type" not in names


def test_every_command_says_what_it_answers(schema_ts):
    text = schema_ts.commands(COMMANDS)
    assert all(f"  {name}: {{ args: " in text for name in COMMANDS)
    assert "Any" not in text and "unknown" not in text


def test_a_command_is_asked_with_the_arguments_of_its_function(schema_ts):
    def leap(dispatcher: Dispatcher, run: int, over: list[str] | None = None) -> RunView:  # type: ignore[name-defined]  # noqa: F821
        """Goes over some steps."""

    assert "  leap: { args: { run: number; over?: string[] | null }; answer: RunView };" in schema_ts.commands(
        {"leap": leap}
    )


@pytest.mark.parametrize(
    ("python", "wanted"),
    [
        ("int | float | None", "number | null"),
        ("list[list[str]]", "string[][]"),
        ("Sequence[str]", "readonly string[]"),
        ("dict[str, object]", "{ [key: string]: unknown }"),
        ("Literal['it']", "'it'"),
        ("list[DimView] | None", "DimView[] | null"),
    ],
)
def test_types(schema_ts, python: str, wanted: str):
    assert schema_ts.of_type(ast.parse(python, mode="eval").body) == wanted

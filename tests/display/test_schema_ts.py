"""The TypeScript types are those of the Python side."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from rfnb.display import schema_ts
from rfnb.display.panel.commands import COMMANDS, Dispatcher
from rfnb.display.schema_ts import commands, of_type, typescript

GENERATED = Path(__file__).parents[2] / "extension" / "src" / "schema.ts"
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


def test_the_generated_file_is_up_to_date():
    assert GENERATED.read_text(encoding="utf-8") == typescript(), (
        "python -m rfnb.display.schema_ts > extension/src/schema.ts"
    )


def test_only_what_scripts_refer_to_is_written(tmp_path, monkeypatch):
    file = tmp_path / "schema.py"
    file.write_text(SCHEMA, encoding="utf-8")
    monkeypatch.setattr(schema_ts, "schemas", lambda: [file])
    monkeypatch.setattr(schema_ts, "imported_names", lambda: {"Used", "PROTOCOL"})
    monkeypatch.setattr(schema_ts, "COMMANDS", {})
    assert typescript().removeprefix(f"{schema_ts.HEADER}\n\n").rpartition("\n\n")[0] == TYPESCRIPT


def test_names_are_read_from_the_scripts():
    names = schema_ts.imported_names()
    assert {"PROTOCOL", "StepView", "AttentionScripts", "Commands"} <= names
    assert "type" not in names


def test_every_command_says_what_it_answers():
    text = commands(COMMANDS)
    assert all(f"  {name}: {{ args: " in text for name in COMMANDS)
    assert "Any" not in text and "unknown" not in text


def test_a_command_is_asked_with_the_arguments_of_its_function():
    def leap(dispatcher: Dispatcher, run: int, over: list[str] | None = None) -> RunView:  # type: ignore[name-defined]  # noqa: F821
        """Goes over some steps."""

    assert "  leap: { args: { run: number; over?: string[] | null }; answer: RunView };" in commands({"leap": leap})


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
def test_types(python: str, wanted: str):
    assert of_type(ast.parse(python, mode="eval").body) == wanted

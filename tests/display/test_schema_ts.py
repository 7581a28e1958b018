"""The TypeScript interfaces are those of the Python side."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from rfnb.display import schema
from rfnb.display.schema_ts import of_type, typescript

GENERATED = Path(__file__).parents[2] / "extension" / "src" / "schema.ts"


def test_the_generated_file_is_up_to_date():
    assert GENERATED.read_text(encoding="utf-8") == typescript(), (
        "python -m rfnb.display.schema_ts > extension/src/schema.ts"
    )


def test_every_view_and_field_is_there():
    text = typescript()
    for name, made in vars(schema).items():
        if isinstance(made, type) and hasattr(made, "__total__"):
            assert re.search(rf"^export interface {name} (extends \w+ )?{{", text, re.MULTILINE)
            assert all(f"  {field}: " in text for field in made.__annotations__)


@pytest.mark.parametrize(
    ("python", "wanted"),
    [
        ("int | float | None", "number | null"),
        ("list[list[str]]", "string[][]"),
        ("dict[str, object]", "{ [key: string]: unknown }"),
        ("Literal['it']", "'it'"),
        ("list[DimView] | None", "DimView[] | null"),
    ],
)
def test_types(python: str, wanted: str):
    assert of_type(ast.parse(python, mode="eval").body) == wanted

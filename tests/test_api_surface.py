"""Functions, and members of core classes, have the names, parameters and defaults that models are written with.

`api_surface.json` lists them: "x" is a required parameter, "x=" an optional one; behind "*" they are given by name.
"""

from __future__ import annotations

import inspect
import json
from pathlib import Path
from typing import Any

import pytest

import rfnb as rf

SURFACE = json.loads(Path(__file__).with_name("api_surface.json").read_text(encoding="utf-8"))
PACKED = {"pack", "pack_import", "packed_flat_content", "packed_regap"}
"""For tensors that are packed all the time, which there are none of: `pack_padded` packs, `pad_packed` unpacks."""
FUNCTIONS = sorted(set(SURFACE["functions"]) - PACKED)
MEMBERS = [(owner, member) for owner, members in SURFACE["members"].items() for member in members]


def find(name: str) -> Any:
    found: Any = rf
    for part in name.split("."):
        found = getattr(found, part)
    return found


def split(listed: list[str]) -> tuple[list[str], list[str]]:
    """Parameters by position, and by name."""
    at = listed.index("*") if "*" in listed else len(listed)
    return listed[:at], listed[at + 1 :]


def check_parameters(function: Any, listed: list[str], *, method: bool = False) -> dict[str, inspect.Parameter]:
    """Ours may have more, if they are optional, and take by position what is listed by name."""
    ours = dict(inspect.signature(function).parameters)
    in_order = [p for p in ours.values() if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)][method:]
    by_position, by_name = split([name for name in listed if not name.startswith(("**", "_"))])
    stars = [name for name in by_position if name.startswith("*")]
    plain = [name.rstrip("=") for name in by_position if not name.startswith("*")]
    if stars:
        assert any(p.kind is p.VAR_POSITIONAL for p in ours.values())
        by_name = [*by_name, *by_position[by_position.index(stars[0]) + 1 :]]
        plain = plain[: by_position.index(stars[0])]
    assert [p.name for p in in_order[: len(plain)]] == plain
    assert {name.rstrip("=") for name in by_name} <= set(ours)
    required = [
        p.name for p in ours.values() if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)
    ]
    assert set(required[method:]) <= {name for name in listed if not name.endswith("=")}
    return ours


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_listed_parameters_and_defaults(name):
    listed = SURFACE["functions"][name]
    ours = check_parameters(find(name), listed["params"])
    for parameter, default in listed["defaults"].items():
        if not parameter.startswith("_") and isinstance(default, int | float | bool | None | list):
            found = ours[parameter].default
            assert list(found) == default if isinstance(found, tuple) else found == default


@pytest.mark.parametrize(("owner", "member"), MEMBERS, ids=lambda name: name)
def test_a_class_has_the_listed_members(owner, member):
    listed = SURFACE["members"][owner][member]["params"]
    if owner == "RunCtx" or not hasattr(find(owner), member):
        made = {"RunCtx": lambda: rf.RunCtx(stage="init"), "TensorDict": rf.TensorDict, "Dim": lambda: rf.Dim(2)}
        assert hasattr(made[owner](), member)
    elif listed is not None and callable(found := getattr(find(owner), member)):
        check_parameters(found, listed, method=True)


@pytest.mark.parametrize("name", SURFACE["classes"])
def test_a_class_is_made_with_the_listed_arguments(name):
    if name == "Tensor":
        return  # takes renamed arguments as well, and says so
    check_parameters(find(name), SURFACE["classes"][name])

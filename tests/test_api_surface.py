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


def check_defaults(ours: dict[str, inspect.Parameter], listed: dict[str, Any]) -> None:
    """The same, where one is given: "rf.relu" is a name, and a text in brackets leaves the choice to us."""
    for parameter, default in listed.items():
        found = ours[parameter].default if not parameter.startswith("_") else default
        if isinstance(default, str) and default.startswith("rf."):
            assert found is find(default.removeprefix("rf."))
        elif not isinstance(default, str) or default[0] != "(":
            assert list(found) == default if isinstance(found, tuple) else found == default


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_has_the_listed_parameters_and_defaults(name):
    listed = SURFACE["functions"][name]
    check_defaults(check_parameters(find(name), listed["params"]), listed["defaults"])


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


@pytest.mark.parametrize("name", SURFACE["modules"])
def test_a_module_has_the_listed_parameters_defaults_and_methods(name):
    listed = SURFACE["modules"][name]
    assert hasattr(rf, name.split(".")[0])
    if listed["params"] is not None and name != "State":  # Python does not know the parameters of a dict
        check_defaults(check_parameters(find(name), listed["params"]), listed.get("defaults", {}))
    if "call_params" in listed:
        check_parameters(find(name).__call__, listed["call_params"], method=True)
    for method, params in listed.get("methods", {}).items():
        of_an_object = inspect.isfunction(inspect.getattr_static(find(name), method))
        check_parameters(getattr(find(name), method), params, method=of_an_object)


@pytest.mark.parametrize("name", [name for name, listed in SURFACE["modules"].items() if "from" in listed])
def test_a_name_is_found_where_models_import_it(name):
    code = f"import rfnb.as_returnn; from {SURFACE['modules'][name]['from']} import {name}"
    names: dict[str, Any] = {}
    exec(code, names)
    assert names[name] is getattr(rf, name)


@pytest.mark.parametrize("name", SURFACE["objects"])
def test_an_object_is_there(name):
    assert isinstance(getattr(rf, name), rf.Dim)


def test_only_packed_tensors_are_missing():
    parts = [SURFACE[part] for part in ("classes", "functions", "modules", "objects")]
    assert {name for part in parts for name in part if not there(name)} == PACKED


def there(name: str) -> bool:
    try:
        return find(name) is not None
    except AttributeError:
        return False

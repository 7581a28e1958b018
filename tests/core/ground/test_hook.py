"""Functions that a lower rank calls and a higher one registers: all of them in one table."""

from __future__ import annotations

from importlib import import_module

import pytest

import rfnb.checkpoint.load  # noqa: F401, imports are lazy, but its hook is in the table
import rfnb.display.panel.comm as comm
from rfnb.core.ground.hook import HOOKS, ClassHook, Hook

REGISTERED = {
    "checkpoint.load.RESTORE": "netdict.weights",
    "core.dims.dim_math.derived_dim": "core.dims.dim",
    "core.dims.lengths.symbolic_range": "nn.bridge.symbolic",
    "core.dims.lengths.symbolic_values": "nn.bridge.symbolic",
    "core.ground.show.make_dot": "display.register",
    "core.ground.show.make_line": "display.register",
    "core.ground.show.make_page": "display.register",
    "core.ground.show.view_of": "display.register",
    "core.ground.hook.keep_state": "backend.torch.backend",
    "core.ground.hook.record_calls": "backend.torch.backend",
    "core.ground.hook.trace_call": "backend.torch.backend",
    "core.ground.hook.drop_numbers": "backend.torch.backend",
    "loop.choice.choose": "search.register",
    "trace.capture.generate.keep_candidates": "search.register",
    "trace.capture.generate.make_search": "search.register",
    "trace.pause.can_hold": "display.panel.comm",
    "trace.pause.show_and_wait": "display.panel.comm",
    "trace.plain.recorded_variables.continue_from": "trace.plain.fork",
    "trace.plain.recorded_variables.locked_variables": "trace.plain.fork",
    "trace.run.file.store.read_found": "search.register",
    "trace.run.file.store.write_found": "search.register",
    "trace.run.run.open_in_panel": "display.panel.comm",
    "trace.run.session.make_progress": "display.panel.comm",
    "trace.run.session.waits_for": "trace.pause",
}
"""By hook: the module that registers the function."""


@pytest.fixture
def hooks():
    """Those that this test declares are forgotten at its end."""
    before = list(HOOKS)
    yield HOOKS
    HOOKS[:] = before


def test_the_table_names_all_hooks():
    declared = [hook for hook in HOOKS if hook.name in REGISTERED]
    assert {hook.name: hook.by for hook in declared} == REGISTERED and len(declared) == len(REGISTERED)
    assert all(hook.name.startswith("core.ground.hook.") for hook in HOOKS if hook not in declared)  # of the doctest


@pytest.mark.parametrize("name", REGISTERED)
def test_a_hook_stands_where_its_name_says(name):
    module, _, attribute = name.rpartition(".")
    assert getattr(import_module(f"rfnb.{module}"), attribute).name == name


@pytest.mark.parametrize("name", [name for name, by in REGISTERED.items() if by != comm.__name__[5:]])
def test_functions_are_registered_by_the_module_of_the_table(name):
    """Those of the panel are only registered in a notebook."""
    [hook] = [hook for hook in HOOKS if hook.name == name]
    import_module(f"rfnb.{hook.by}")
    fns = hook.fns.values() if isinstance(hook, ClassHook) else [hook.fn]
    assert {fn.__module__ for fn in fns} == {f"rfnb.{hook.by}"}


def test_a_call_of_what_its_module_lacks_names_the_module(hooks):
    hook: Hook[[int], int] = Hook("core.ground.hook.double", by="display.register")
    with pytest.raises(LookupError, match=r"double is not registered by rfnb\.display\.register"):
        hook(1)
    assert hook.register(lambda n: 2 * n)(2) == hook(2) == 4


def test_otherwise_is_called_until_then(hooks):
    hook: Hook[[int], int] = Hook("core.ground.hook.same", by="display.register", otherwise=lambda n: n)
    assert hook(3) == 3


def test_classes_inherit_the_functions_of_their_bases(hooks):
    hook: ClassHook = ClassHook("core.ground.hook.named", by="display.register")
    hook.register(int, str)(lambda value: "general")
    hook.register(bool)(lambda value: "special")
    assert [fn(True) for fn in hook.of(bool)] == ["special", "general"]
    assert list(hook.of(float)) == []

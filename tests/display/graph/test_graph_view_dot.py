"""The graph of a model for Graphviz: what it says, and what happens without it."""

from __future__ import annotations

import builtins
import shutil
import subprocess
import sys
from typing import Any

import pytest

import rfnb as rf
from rfnb.display.graph import view as dot
from rfnb.errors import ViewError
from tests.display.graph.graph_models import Model, Stack, batch, describe, failing, feat, time

needs_dot = pytest.mark.skipif(shutil.which("dot") is None, reason="the program dot is not installed")


def text(view: Any) -> str:
    return dot.to_dot(view).source


def test_open_nodes_are_clusters():
    made = text(describe(Model(), time()))
    assert made.count("subgraph") == 2 and 'peripheries="2"' in made
    assert made.count("{") == made.count("}")


def test_carried_states_go_back():
    line = next(line for line in text(describe(Model(), time())).splitlines() if "t−1 → t" in line and "->" in line)
    assert 'style="dashed"' in line and 'constraint="false"' in line


def test_a_body_that_is_drawn_twice_has_its_nodes_twice():
    made = text(describe(Stack(2), open=["last", "layers.0"]))
    nodes = [line.split()[0] for line in made.splitlines() if " [label=" in line and "->" not in line]
    assert len(nodes) == len(set(nodes))
    assert sum('label="relu' in line for line in made.splitlines()) == 2


def test_a_failure_is_red_and_the_rest_dashed():
    made = text(failing())
    assert dot.FAILED in made and 'style="rounded,dashed"' in made


@pytest.mark.parametrize("bad", ['"', "\\", '\\"', "a\nb", "\\N", "<b>", "\x00", "ü → ß"])
def test_words_are_no_commands(bad):
    view = describe(Stack(1))
    view["bodies"][view["root"]]["nodes"][0]["name"] = bad
    made = text(view)
    assert dot.quoted(bad)[1:-1] in made
    assert '"' not in dot.quoted(bad)[1:-1].replace("\\\\", "").replace('\\"', "")
    if shutil.which("dot"):
        drawn = dot.rendered(dot.to_dot(view)).decode()
        assert "<b>" not in drawn


def test_views_and_graphs_give_it():
    graph = rf.model_graph(Stack(1), rf.zeros([batch, feat]))
    assert graph.to_dot().source == rf.show(graph).to_dot().source
    assert graph.to_dot(depth=0).source.count("subgraph") == 0


def test_other_views_do_not():
    with pytest.raises(ViewError, match="to_dot"):
        rf.show(batch).to_dot()


def test_without_the_package(monkeypatch: pytest.MonkeyPatch):
    kept = builtins.__import__

    def missing(name: str, *rest: Any, **more: Any) -> Any:
        if name == "graphviz":
            raise ImportError(name)
        return kept(name, *rest, **more)

    monkeypatch.delitem(sys.modules, "graphviz", raising=False)
    monkeypatch.setattr(builtins, "__import__", missing)
    with pytest.raises(ViewError, match="not installed") as error:
        dot.to_dot(describe(Stack(1)))
    assert "pip install graphviz" in str(error.value.hint)


def test_without_the_program(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(dot.shutil, "which", lambda _: None)
    source = dot.to_dot(describe(Stack(1)))
    with pytest.raises(ViewError, match="program `dot`") as error:
        source.pipe("svg")
    assert "view.save" in str(error.value.hint)
    bundle = source._repr_mimebundle_()
    assert list(bundle) == ["text/plain"] and "digraph" in bundle["text/plain"]


def test_the_program_is_stopped_in_time(monkeypatch: pytest.MonkeyPatch):
    def slow(*_: Any, timeout: float, **__: Any) -> Any:
        raise subprocess.TimeoutExpired("dot", timeout)

    monkeypatch.setattr(dot.shutil, "which", lambda _: "/usr/bin/dot")
    monkeypatch.setattr(dot.subprocess, "run", slow)
    with pytest.raises(ViewError, match=r"longer than 0.5 s"):
        dot.rendered(dot.to_dot(describe(Stack(1))), seconds=0.5)


def test_unknown_formats_are_told():
    with pytest.raises(ViewError, match="no such format"):
        dot.rendered(dot.to_dot(describe(Stack(1))), "doc")


@needs_dot
@pytest.mark.parametrize("make", [lambda: describe(Model(), time(), depth=9), failing, lambda: describe(lambda x: x)])
def test_the_program_draws_it(make):
    source = dot.to_dot(make())
    assert b"<svg" in source.pipe("svg")
    assert "image/svg+xml" in source._repr_mimebundle_()

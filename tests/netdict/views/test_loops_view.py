"""The view of `net.explain(…)`."""

from __future__ import annotations

import json

import rfnb as rf
from rfnb.netdict.loops.explain import NetExplanation

HOSTILE = "<script>alert(1)</script>"


def explanation(name="output"):
    linear = {"class": "linear", "activation": None, "n_out": 3}
    layers = {f"a{i}": {**linear, "from": f"a{i - 1}" if i else ["data:source", f"prev:{name}"]} for i in range(7)}
    unit = {"x": {**linear, "from": "data:source"}, **layers, name: {**linear, "from": ["a6", "x"]}}
    unit["output"] = unit.get("output") or {**linear, "from": name}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 3}}))
    return net.construct_from_dict({"output": {"class": "rec", "from": "data", "unit": unit}}).explain()


def changed(row_of, **names):
    """The explanation with other rows."""
    plain = explanation()
    name, axis = names.get("name", plain.name), names.get("axis", plain.axis)
    return rf.show(NetExplanation(name, axis, [row_of(i, row) for i, row in enumerate(plain.rows)]))


def hostile_views(word):
    def row_of(_, row):
        words = {key: word(getattr(row, key)) for key in ("name", "layer_class", "step", "whole", "why")}
        return row._replace(**words, path=tuple(map(word, row.path)))

    return {"net explanation": changed(row_of, name=word("net"), axis=word("axis"))}


def test_text():
    lines = rf.show(explanation()).text.splitlines()
    assert lines[0].endswith(": 1 layer before the loop, 8 in each step")
    assert lines[-1].split("  ")[0] == "output" and lines[-1].endswith("output ← a6 ← a5 ← a4 ← … ← output")
    assert "{data, batch, feature:3}" in next(line for line in lines if line.startswith("x "))


def test_data_table_and_html():
    view = rf.show(explanation())
    assert json.loads(json.dumps(view.data)) == view.data
    assert "before the loop" in view.html and "dims outside of the loop" in view.html
    path = next(row["path"] for row in view.table() if row["layer"] == "a0")
    names = path.split(" ← ")
    assert names[0] == names[-1] == "a0" and "prev:output" in names and path in view.html


def test_times_and_shares():
    count = len(explanation().rows)
    view = changed(lambda i, row: row._replace(seconds=None if i == count - 1 else 1e-3 * (i or 1)))
    lines = view.text.splitlines()
    assert lines[0].endswith("; 29 ms in a call")
    assert "3 ms" in lines[4] and "10 %" in lines[4] and "ms" not in lines[-1]
    assert "<th" in view.html and "share" in view.html and "share" not in rf.show(explanation()).html


def test_a_loop_without_steps_says_so():
    view = changed(lambda _, row: row._replace(place="before the loop"))
    assert view.text.splitlines()[0].endswith('no steps to look at, unless "optimize_move_layers_out" is False')


def test_names_are_text():
    view = rf.show(explanation(HOSTILE))
    assert HOSTILE in view.text
    assert "<script" not in view.html

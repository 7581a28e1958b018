"""The view of `loop.explain()`: source lines, where each op was done, the states that keep it there."""

from __future__ import annotations

import json
import linecache
import re
from html import unescape

import pytest
import torch

import rfnb as rf
from rfnb.display.loop import cost, lines as lines_of, total_time

HOSTILE = "<script>alert(1)</script>"
TEXT = """\
def energy(s, memory):
    return rf.tanh(query(s) + key(memory))

def decode():
    with decoder:
        label = embedding(decoder.unstack(targets))
        scores = rf.reduce_sum(energy(decoder.state.s, memory), axis=hidden)
        context = rf.matmul(rf.softmax(scores, axis=enc_time), memory, reduce=enc_time)
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.k = context
        with inner:
            inner.state.k = rf.tanh(inner.state.k)

        # what follows is 1 < 2
        decoder.state.s = rf.tanh(label + inner.state.k + decoder.state.s)
        logits = decoder.stack(rf.log_softmax(out(decoder.state.s), axis=vocab))
decode()
"""


def decoder(name: str = "decoder", text: str = TEXT, **options) -> rf.Loop:
    """A small attention decoder, as if it were written in decoder.py."""
    torch.manual_seed(0)
    time, enc_time = rf.Dim(None, name="time"), rf.Dim(None, name="enc_time")
    hidden, vocab = rf.Dim(4, name="hidden"), rf.Dim(5, name="vocab")
    memory = rf.convert_to_tensor(torch.randn(1, 3, 4), dims=[rf.batch_dim, enc_time, hidden])
    loop = rf.Loop(axis=time, name=name, **options)
    loop.state.s = rf.zeros([rf.batch_dim, hidden])
    names = {
        "rf": rf, "decoder": loop, "memory": memory, "hidden": hidden, "enc_time": enc_time, "vocab": vocab,
        "targets": rf.convert_to_tensor([[1, 2, 3]], dims=[rf.batch_dim, time], sparse_dim=vocab),
        "embedding": rf.Embedding(vocab, hidden), "query": rf.Linear(hidden, hidden),
        "key": rf.Linear(hidden, hidden), "out": rf.Linear(hidden, vocab),
    }  # fmt: skip
    linecache.cache["decoder.py"] = (len(text), None, text.splitlines(keepends=True), "decoder.py")
    exec(compile(text, "decoder.py", "exec"), names)
    return loop


def words(html: str) -> str:
    """What a reader sees, without spaces."""
    return "".join(unescape(re.sub(r"<[^>]*>", "", html)).split())


def test_golden(golden):
    golden("loop_explanation.txt", rf.show(decoder().explain()).text + "\n")


def test_each_op_is_there_with_its_line_place_and_states():
    view = rf.show(decoder().explain())
    ops = {(op["line"], op["op"], op["where"]): op for op in view.data["rows"]}
    assert ops[6, "gather", "all steps"]["states"] == ""
    assert ops[7, "linear", "each step"]["states"] == "s"
    assert ops[7, "linear", "once"]["text"] == "key(memory)"
    assert ops[16, "log_softmax", "after the loop"]["why"] == "only outputs need it"
    assert ops[11, "Loop", "each step"]["why"] == "a nested loop"
    assert ops[15, "add", "each step"]["why"] == "needs s"
    assert re.findall(r"query\(s\)<span[^>]*>  (decoder.py:2)<", view.html) == ["decoder.py:2"]


@pytest.mark.parametrize("options", [{}, {"optimize_move_layers_out": False}])
def test_text_and_html_name_the_same_facts(options):
    loop = decoder(**options)
    shown = loop.explain()
    assert repr(shown) == rf.show(shown).text
    html = words(shown._repr_mimebundle_()["text/html"])
    for word in repr(shown).replace(", s", " s").replace("# ", "").split():
        assert word.rstrip(":,") in html, word


def test_totals_count_each_op_once():
    explanation = decoder().explain()
    first = repr(explanation).splitlines()[0]
    assert first == "decoder: 1 op once, 1 for all steps together, 10 in each step, 2 after the loop"
    assert len(explanation.rows) == 14
    assert repr(decoder(optimize_move_layers_out=False).explain()).startswith("decoder: 14 ops in each step\n")


def test_before_it_has_run():
    explanation = rf.Loop(max_seq_len=1, name="later").explain()
    assert repr(explanation) == "later has not run yet"
    assert "later has not run yet" in rf.show(explanation).html


def test_names_and_source_are_escaped():
    text = TEXT.replace("1 < 2", HOSTILE)
    html = rf.show(decoder(name=HOSTILE, text=text).explain()).html
    assert "<script" not in html
    assert html.count("&lt;script&gt;") == 2


def test_without_the_source_each_op_has_its_expression():
    loop = decoder()
    del linecache.cache["decoder.py"]
    explained = loop.explain()
    view = rf.show(explained)
    assert len(view.text.splitlines()) == 1 + len(explained.rows)
    assert view.html.count("<tr") == len(explained.rows)


def test_a_page_of_its_own(tmp_path):
    page = rf.show(decoder().explain()).save(tmp_path / "x.html").read_text()
    assert page.startswith("<!doctype html>")
    assert "<title>decoder</title>" in page


def test_complete_without_scripts_and_not_large():
    html = rf.show(decoder().explain()).html
    assert "<script" not in html
    assert "class=" not in html
    assert "onclick" not in html
    assert len(html) < 20_000


def timed():
    return decoder(debug=True).explain(time=True)


def test_each_line_has_its_time_share_and_calls():
    view = rf.show(timed())
    lines = view.text.splitlines()
    assert "3 steps on the CPU, without gradients" in lines[1] and "of timing taken off" in lines[2]
    [line] = [line for line in lines if "label = embedding" in line]
    assert " once " in line
    [line] = [line for line in lines if "context = rf.matmul" in line]
    assert "2 a step" in line and "%" in line
    for word in ("2 a step", "once", "linear-gradient"):
        assert word in view.html
    assert json.loads(json.dumps(view.data)) == view.data


def test_times_of_lines_add_up_to_all_steps():
    explained = timed()
    total = total_time(explained)
    in_ops = sum(op.time.seconds for op in explained.rows if op.time is not None)
    assert 0 < in_ops <= total * 1.05
    shares = [cost(explained, ops)[3] for _, _, ops in lines_of(explained)]
    assert sum(shares) == pytest.approx(in_ops / total, abs=1e-6)


def test_the_table_with_times_begins_with_the_slowest_op():
    explained = timed()
    table = rf.show(explained).table()
    assert list(table.columns[:4]) == ["time", "share", "calls", "line"]
    slowest = max(explained.rows, key=lambda op: op.time.seconds if op.time else 0.0)
    assert table.rows[0][4] == slowest.node.op and len(table) == len(explained.rows)


def test_without_times_there_are_none():
    view = rf.show(decoder().explain())
    assert "time" not in view.table().columns and "without gradients" not in view.text + view.html

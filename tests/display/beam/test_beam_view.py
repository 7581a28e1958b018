"""The view of a beam search."""

import re

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.display.beam.picture import JOINED
from rfnb.errors import SearchError, ViewError
from tests.search.test_choice import Net, search
from tests.search.test_decoding import step_of

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def found_of(net, batch=1, *, labels=None, **options):
    step, state = step_of(net)
    return rf.search.decode(step, state, start=0, end=1, labels=labels, **{"beam": 3, "limit": 5} | options)


def test_the_picture_has_each_node_and_marks_the_best():
    found = found_of(Net(5, 2, 1), labels=list("a.cde"), tags=["laugh", "kiwi"])
    data = rf.show(found, batch="kiwi").data
    tree = found.tree["kiwi"]
    assert data["name"] == "kiwi" and data["others"] == ["laugh", "kiwi"]
    assert [len([n for n in c["nodes"] if n["state"] != "pruned"]) for c in data["columns"]] == [
        len(tree.nodes(step)) for step in range(tree.steps)
    ]
    best = [[n["row"] for n in column["nodes"] if n["best"]] for column in data["columns"]]
    assert best == [[place] for place in tree.best.places]
    svg = rf.show(found, batch=1).svg
    assert svg.count("<text") >= sum(len(column["nodes"]) for column in data["columns"])


def test_a_reference_is_framed_until_it_falls_out():
    net = Net(5, 1, 2)
    wide = found_of(net, beam=30, labels=list("a.cde"))
    tree = found_of(net, beam=2, labels=list("a.cde")).tree[0]
    lost = next(each for each in wide.tree[0].hypotheses if tree.where(each.labels).fall is not None and each.labels)
    view = rf.show(tree, reference=lost.labels)
    fall = view.data["reference"]["fall"]
    framed = [c["step"] for c in view.data["columns"] if any(n["reference"] for n in c["nodes"])]
    assert framed == list(range(fall["step"])) and "✂" in view.svg and fall["words"] in view.text
    assert fall["row"] == rf.show(tree, reference=lost.labels, pruned=1).data["reference"]["fall"]["row"] is not None
    assert rf.show(tree.where(lost.labels)).data["beam"]["reference"] == view.data["reference"]


def test_scissors_at_the_first_step_are_in_the_picture():
    tree = search(Net(5, 1, 2), 1, 2, 4, debug=True)[0].found.tree[0]
    lost = next(node for node in tree.pruned(0) if not node.ends)
    at = float(re.search(r'<text x="([-\d.]+)"[^>]*>✂', rf.show(tree, reference=[lost.label]).svg)[1])
    assert tree.where([lost.label]).fall.step == 0 and at >= 0


def test_pruned_copies_of_ended_hypotheses_are_dots():
    seen = 0
    for seed in range(6):
        tree = search(Net(3, 1, seed), 1, 2, 6, debug=True)[0].found.tree[0]
        for column in rf.show(tree).data["columns"]:
            shown = [node["text"] for node in column["nodes"] if node["state"] == "pruned"]
            pruned = tree.pruned(column["step"], len(shown))
            assert shown == ["·" if node.ended else node.text for node in pruned]
            seen += sum(node.ended for node in pruned)
    assert seen


def test_text_html_and_files(tmp_path):
    found = found_of(Net(5, 2, 3), labels=["<s>", "</b>", "c & d", "\x1b[31m", "\u202eabc"])
    view = rf.show(found)
    assert "</b>" not in str(view.html).replace("&lt;/b&gt;", "") and "\x1b" not in view.text + view.svg
    assert all(len(line) <= 120 for line in view.text.splitlines())
    for suffix in ("html", "svg", "json", "txt", "csv"):
        assert view.save(tmp_path / f"beam.{suffix}").stat().st_size > 50
    assert found.tree[0].save(tmp_path / "tree.svg").read_text().startswith("<svg")
    assert repr(found) == "\n".join(view.data["summary"][:-1])


@pytest.mark.filterwarnings("ignore:Glyph")
def test_a_figure_has_what_the_picture_has(tmp_path):
    net = Net(5, 1, 2)
    wide = found_of(net, beam=30, labels=list("a.cde"))
    tree = found_of(net, beam=2, labels=["a", ".", "$c$", "d\n", "e"]).tree[0]
    lost = next(each for each in wide.tree[0].hypotheses if tree.where(each.labels).fall is not None and each.labels)
    view = rf.show(tree, reference=lost.labels)
    texts = [text.get_text() for axes in view.figure().axes for text in axes.texts]
    nodes = [node for column in view.data["columns"] for node in column["nodes"]]
    assert len(texts) == len(nodes) + tree.steps + 1 and "✂" in texts
    assert sum("\\$c\\$" in text for text in texts) == sum(
        node["text"] == "$c$" for node in nodes if node["state"] != "copy"
    )
    framed = sum(node["reference"] for node in nodes) + 1
    boxes = [patch for patch in view.figure().axes[0].patches if type(patch).__name__ == "Rectangle"]
    assert len(boxes) == len(nodes) + framed
    assert tree.save(tmp_path / "tree.pdf").read_bytes().startswith(b"%PDF")
    assert tree.save(tmp_path / "tree.png").read_bytes().startswith(b"\x89PNG")


def test_large_trees_are_small_pictures():
    net = Net(20, 1, 4)
    step, state = step_of(net)
    never = lambda prev, state: (step(prev, state)[0] - 50.0 * torch.eye(20)[1], step(prev, state)[1])  # noqa: E731
    found = rf.search.decode(
        never, state, beam=12, start=0, end=1, limit=200, labels=[f"label{i:02}" for i in range(20)]
    )
    view = rf.show(found)
    assert any(node["state"] == "pruned" for column in view.data["columns"] for node in column["nodes"])
    assert len(str(view.html)) < 150_000 and view.data["note"].endswith("of 200 steps are drawn")
    assert sum(column["skipped"] for column in view.data["columns"]) == 200 - len(view.data["columns"])


def test_nothing_to_draw():
    nothing = found_of(Net(4, 1, 5), limit=0)
    view = rf.show(nothing)
    assert view.data["columns"] == [] and "reached the limit" in view.text and str(view.html)
    for draw in (lambda: view.svg, view.figure):
        with pytest.raises(ViewError, match="no step to draw"):
            draw()
    empty = rf.show(rf.search.Found(nothing.trace.alone(0)))
    assert empty.text
    with pytest.raises(SearchError, match=r"did you mean|no sequence"):
        rf.show(nothing, batch="laugh")


def test_hypotheses_that_merge_are_joined_by_a_second_line():
    time, axis = rf.Dim(6, name="time"), rf.Dim(3, name="axis", vocab=["-", "a", "b"])
    scores = torch.log_softmax(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), -1)
    log_probs = rf.convert_to_tensor(scores, dims=[time, axis])
    found = rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=0, beam=4)
    tree, view = found.tree[0], rf.show(found)
    joined = [node.joined for step in range(tree.steps) for node in tree.nodes(step)]
    assert [node["joined"] for column in view.data["columns"] for node in column["nodes"]] == joined
    joins = sum(place is not None for place in joined)
    assert joins > 3
    lines = next(line for line in view.svg.split("<path")[1:] if JOINED in line)
    assert lines.count("M") == joins
    assert "⋎" in view.text and "joined" in str(view.html)
    apart = rf.show(rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=0, beam=4, merge=None))
    assert JOINED not in apart.svg and "⋎" not in apart.text and "joined" not in str(apart.html)


def test_the_search_of_a_loop():
    loop, _ = search(Net(5, 3, 6), 3, 4, 6)
    text = rf.show(loop.found, batch=2).text
    assert text.startswith("search: 3 sequences, beam 4") and "sequence 2:\ntree" in text
    assert re.search(r"-\d", text) and np.isfinite(loop.found.trace.final_scores[:, 0]).all()


def hostile_views(word):
    labels = [word(label) for label in ("a", "end", "c", "d", "e")]
    found = found_of(Net(5, 2, 1), labels=labels, tags=[word("laugh"), word("kiwi")])
    tree = found.tree[0]
    reference = (*tree.hypotheses[-1].labels[:1], 4)
    return {
        "beam": rf.show(found),
        "beam, of a tag": rf.show(found, batch=word("kiwi"), reference=[labels[2], labels[3]]),
        "beam, one tree": rf.show(tree, reference=reference),
    }

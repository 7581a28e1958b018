"""The view of a beam search."""

import json
import re

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb.display.beam.picture import FAINT, INK, JOINED, PAPER, TINTS, drawn
from rfnb.display.beam.view import LIVE
from rfnb.errors import SearchError, ViewError
from tests.search.test_choice import Net, search
from tests.search.test_decoding import step_of

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def found_of(net, batch=1, *, labels=None, **options):
    step, state = step_of(net)
    return rf.search.decode(step, state, start=0, end=1, labels=labels, **{"beam": 3, "limit": 5} | options)


def endless(beam, limit, size=20, **options):
    """A search in which no hypothesis ends before the limit."""
    step, state = step_of(Net(size, 1, 4))
    never = lambda prev, state: (step(prev, state)[0] - 50.0 * torch.eye(size)[1], step(prev, state)[1])  # noqa: E731
    labels = [f"label{i:02}" for i in range(size)]
    return rf.search.decode(never, state, beam=beam, start=0, end=1, limit=limit, labels=labels, **options)


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
    assert svg.count("<text") == sum(len(column["nodes"]) for column in drawn(data)) + tree.steps


def test_a_constraint_has_no_column_of_zeros():
    before, label = (rf.Dim(3, name=name, vocab=["</s>", "a", "b"]) for name in ("before", "label"))
    table = rf.convert_to_tensor([[0.0, 2.0, 1.0], [0.0, 0.0, 2.0], [3.0, 0.0, 0.0]], dims=[before, label])
    loop, beam = rf.Loop(max_seq_len=9), rf.Dim(2, name="beam")
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
    with loop:
        logits = rf.gather(table, indices=loop.state.prev, axis=before)
        scores = {"model": rf.log_softmax(logits, axis=label), "no repeat": rf.search.no_repeat(1)}
        chosen = loop.choice(scores, beam=beam, input_type="log_prob")
        loop.state.prev = chosen.labels
        loop.end(chosen.labels == 0, include_eos=False)
    view = rf.show(loop.found)
    assert list(view.table().columns) == ["rank", "score", "text", "model", "end"] and "no repeat" not in view.html


def test_a_remark_on_the_end_has_a_column_only_if_there_is_one():
    names = lambda view: re.findall(r"<th[^>]*>([^<]*)</th>", view.html)  # noqa: E731
    ended, unended = (rf.show(found) for found in (found_of(Net(5, 1, 1), limit=9), endless(2, 3)))
    assert all(not row["end"] for row in ended.table()) and names(ended)[:3] == ["rank", "score", "text"]
    assert "" not in names(ended) and names(unended)[:4] == ["rank", "score", "text", ""] and "no end" in unended.html


def test_a_single_folded_hypothesis_is_one():
    assert "1 more hypothesis<" in rf.show(endless(6, 3)).html and "2 more hypotheses<" in rf.show(endless(7, 3)).html


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
    assert rf.show(tree.where(lost.labels)).svg == view.svg


def test_references_by_tag_are_those_of_the_sequence():
    found = found_of(Net(5, 2, 1), labels=list("a.cde"), tags=["laugh", "kiwi"])
    references = {"kiwi": "ca", "laugh": "d", "other": "e"}
    assert rf.show(found, reference=references).data["reference"]["text"] == "d"
    assert rf.show(found, batch="kiwi", reference=references).text == rf.show(found, batch=1, reference="ca").text
    with pytest.raises(SearchError, match="a sequence has no reference") as error:
        rf.show(found, reference={"kiwi": "ca"})
    assert error.value.got == "'laugh'"


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
    nodes = [node for column in drawn(view.data) for node in column["nodes"]]
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
    found = endless(12, 200)
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


KINDS = {
    "words": (list("a.cde"), {}),
    "word pieces": (["▁the", "</s>", "▁", "s", "▁cat"], {}),
    "pairs of bytes": (["c@@", "</s>", "at", "the", "do@@"], {}),
    "inner pieces": (["play", "</s>", "##ing", "##s", "go"], {}),
    "numbers": (None, {}),
}


@pytest.mark.parametrize("kind", KINDS)
def test_what_labels_add_is_the_text_of_each_hypothesis(kind):
    labels, options = KINDS[kind]
    tree = found_of(Net(5, 2, 3), labels=labels, **options).tree[1]
    checked = 0
    for column in (data := rf.show(tree).data)["columns"]:
        kept = [node for node in column["nodes"] if node["state"] != "pruned"]
        for node in kept:
            text, row = "", node["row"]
            for step in range(column["step"], -1, -1):
                nodes = data["columns"][step]["nodes"]
                one = next(n for n in nodes if n["row"] == row and n["state"] != "pruned")
                text, row = one["adds"] + text, one["parent"]
            prefix = tree.prefix(column["step"], node["row"])
            assert text.strip() == tree.text_of(label for label in prefix if label not in tree.end_labels)
            checked += 1
    assert checked > 8


def test_blanks_add_nothing_and_frames_have_no_end():
    time, axis = rf.Dim(6, name="time"), rf.Dim(3, name="axis", vocab=["-", "a", "b"])
    scores = torch.log_softmax(torch.randn(6, 3, generator=torch.Generator().manual_seed(0)), -1)
    log_probs = rf.convert_to_tensor(scores, dims=[time, axis])
    data = rf.show(rf.search.ctc_beam(log_probs, spatial_dim=time, axis=axis, blank=0, beam=4)).data
    adds = {(node["text"], node["adds"].strip()) for column in data["columns"] for node in column["nodes"]}
    assert adds >= {("-", ""), ("a", "a"), ("b", "b")}


def unpacked(scripts):
    """The nodes of each column of what scripts get, as dicts."""
    names = ("rows", "parents", "labels", "adds", "ranks", "scores", "marks")
    return [
        [dict(zip(names, node, strict=True)) for node in zip(*(column[name] for name in names), strict=True)]
        for column in scripts["columns"]
    ]


def test_scripts_have_ranks_parts_and_all_candidates_that_were_kept():
    found = found_of(Net(9, 2, 1), labels=list("a.cdefghi"), limit=6, candidates=8)
    tree, view = found.tree[1], rf.show(found, batch=1)
    scripts = view.scripts
    assert scripts["parts"] == ["model"] and scripts["fall"] is None
    for step, nodes in enumerate(unpacked(scripts)):
        pruned = tree.pruned(step, 8)
        assert len(nodes) == len(tree.nodes(step)) + len(pruned) and (step == 0 or len(pruned) == 8)
        for node, source in zip(nodes, [*tree.nodes(step), *pruned], strict=True):
            assert node["ranks"] == source.rank and scripts["texts"][node["labels"]] in (source.text, "·")
            assert node["scores"] == pytest.approx(source.compared, rel=1e-4)
        parts = scripts["columns"][step]["parts"][0]
        for node, part in zip(tree.nodes(step), parts, strict=False):
            before = tree.scores[step - 1, node.parent] if step else 0.0
            assert part == pytest.approx(0.0 if node.ended else node.score - before, abs=1e-4)


def test_scripts_have_all_steps_where_the_picture_has_some():
    view = rf.show(endless(2, 200, 4, candidates=3))
    assert [column["step"] for column in view.scripts["columns"]] == list(range(200))
    assert len(drawn(view.data)) == 60
    many = rf.show(endless(30, 200))
    columns = many.scripts["columns"]
    assert len(columns) < 200 and sum(column["skipped"] for column in columns) == 200 - len(columns)
    assert sum(len(column["rows"]) for column in columns) <= LIVE
    gap = next(column for column in columns if column["skipped"])
    rows = columns[columns.index(gap) - 1]["rows"]
    assert {*gap["parents"]} <= {*rows, -1} and max(gap["parents"]) >= 0  # ancestors, across the gap


def test_a_beam_of_12_over_40_steps_is_a_small_page():
    found = endless(12, 40)
    view = rf.show(found)
    assert {len(column["rows"]) for column in view.scripts["columns"]} == {20}
    assert len(str(view.html)) + len(json.dumps(view.scripts)) < 200_000  # 300 kB with the scripts themselves


def test_views_with_a_tree_give_it_to_scripts():
    tree = search(Net(5, 1, 2), 1, 2, 4, debug=True)[0].found.tree[0]
    lost = next(node for node in tree.pruned(0) if not node.ends)
    scripts = rf.show(tree.where([lost.label])).scripts
    assert scripts["kind"] == "beam" and scripts["fall"]["step"] == 0
    assert rf.show(tree.run).scripts["kind"] == "beam"
    assert rf.show(found_of(Net(4, 1, 5), limit=0)).scripts == {"kind": "beam"}


def test_words_of_the_picture_can_be_read_on_any_page():
    grounds = [*TINTS, PAPER]
    assert min(contrast(INK, ground) for ground in grounds) >= 4.5 and contrast(FAINT, PAPER) >= 4.5
    found = found_of(Net(5, 2, 1), labels=list("a.cde"))
    svg = rf.show(found).svg
    boxes = [path for path in re.findall(r"<path[^>]*>", svg) if "z" in path]
    assert boxes and not any('fill="none"' in box for box in boxes)  # no word stands on the page itself
    grounds = next(path for path in boxes if path.endswith(f'z" fill="{PAPER}">'))
    assert grounds.count("M") == found.tree[0].steps  # behind the numbers of the steps


def contrast(ink, ground):
    """Of two colours, as WCAG defines it."""

    def luminance(colour):
        parts = [int(colour[i : i + 2], 16) / 255 for i in (1, 3, 5)]
        linear = [part / 12.92 if part <= 0.03928 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    high, low = sorted([luminance(ink), luminance(ground)], reverse=True)
    return (high + 0.05) / (low + 0.05)


def legend_of(view):
    """The words below the picture."""
    return re.search(r'<div style="font-size:12px" data-rfnb-still>(.*?)</div>', str(view.html))[1]


def test_the_legend_explains_the_marks_that_occur():
    plain = legend_of(rf.show(endless(2, 3, 4), pruned=0))
    assert "the bluer, the better" in plain
    assert not any(words in plain for words in ("pruned:", "had ended", "joined", "✂"))
    tree = found_of(Net(5, 1, 2), beam=2, labels=list("a.cde")).tree[0]
    lost = next(w for step in range(3) for n in tree.pruned(step) if (w := tree.where([n.label])).fall is not None)
    assert "✂" in legend_of(rf.show(lost)) and "pruned:" in legend_of(rf.show(lost))

"""The view of reports on a search."""

import re
from html import unescape

import pytest

import rfnb as rf
from rfnb.errors import ViewError
from tests.display.beam.test_beam_view import found_of
from tests.search.test_choice import Net

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

LABELS = ["a", "</s>", "c", "d", "e"]


def searches(labels=LABELS, tags=("x", "y", "z")):
    net = Net(5, 3, 1)
    return {
        "beam 1": found_of(net, beam=1, labels=labels, tags=tags),
        "beam 9": found_of(net, beam=9, labels=labels, tags=tags),
    }


def references(found):
    """Of the second best hypotheses and the best one."""
    return [found.tree[0].hypotheses[1].text, found.tree[1].best.text, found.tree[2].hypotheses[2].text]


def test_settings_are_side_by_side_with_the_wrong_outputs():
    both = searches()
    given = references(both["beam 9"])
    report = rf.search.report(both, given)
    view = rf.show(report)
    assert view.text == report.text == repr(report)
    for row, (name, setting) in zip(view.table(), report.settings.items(), strict=True):
        assert (row["setting"], row["sequences"], row["label errors"]) == (name, 3, setting.error_rate)
        assert {verdict: row[verdict] for verdict in setting.classes} == setting.classes
    html = unescape(str(view.html))
    wrong = [name for name in "xyz" if any(setting[name].verdict != "correct" for setting in report.settings.values())]
    assert {"x", "z"} <= set(wrong) == set(re.findall(r"<td[^>]*>([xyz])</td>", html))
    for row in (setting[name] for setting in report.settings.values() for name in wrong):
        assert f">{row.verdict} </span>{row.output or '(no labels)'}" in html
    table = view.table()
    assert table.columns[:3] == ["setting", "sequences", "label errors"] and len(table) == 2
    assert all(words in html for words in ("beam 1", "beam 9", given[0], "flex:"))


def test_one_report_and_a_choice_of_its_rows(tmp_path):
    found = searches()["beam 9"]
    report = rf.search.report(found, references(found))
    view = rf.show(report)
    assert "setting" not in str(view.html) and "more sequence" not in view.html
    assert re.findall(r"<td[^>]*>([xyz])</td>", str(rf.show(report, verdict="correct").html)) == ["y"]
    short = str(rf.show(report, most=1).html)
    assert len(re.findall(r"<td[^>]*>([xyz])</td>", short)) == 1 and "(1 more sequence; " in short
    for suffix in ("html", "json", "csv", "txt"):
        assert view.save(tmp_path / f"report.{suffix}").stat().st_size > 50
    with pytest.raises(ViewError, match="no such verdict"):
        rf.show(report, verdict="wrong")


def test_a_report_without_sequences_and_one_without_settings():
    found = searches()["beam 1"]
    empty = rf.search.report([], [])
    assert len(empty) == 0 and str(rf.show(empty).html) and "reference" not in rf.show(empty).html
    assert str(rf.show(rf.search.report({}, [])).html) and rf.show(rf.search.report({}, [])).text == ""
    assert len(rf.search.report(found, references(searches()["beam 9"]))) == 3


def hostile_views(word):
    labels = [word(label) for label in ("a", "end", "c", "d", "e")]
    both = searches(labels, [word(tag) for tag in ("x", "y", "z")])
    given = [[labels[0], labels[2]], [labels[3]], [labels[0]]]
    reports = rf.search.report({word(name): found for name, found in both.items()}, given)
    return {"search report": rf.show(rf.search.report(both["beam 1"], given)), "search reports": rf.show(reports)}

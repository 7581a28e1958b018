"""The view of reports on a search."""

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
    assert [each["name"] for each in view.data["settings"]] == ["beam 1", "beam 9"]
    for each in view.data["settings"]:
        own = report[each["name"]]
        assert each["classes"] == own.classes and sum(each["classes"].values()) == each["sequences"] == 3
        assert each["rates"]["label errors"] == own.error_rate
    wrong = [row for row in view.data["rows"] if any(output["verdict"] != "correct" for output in row["outputs"])]
    assert wrong == view.data["rows"] and {"x", "z"} <= {row["name"] for row in wrong}
    for row in wrong:
        for name, output in zip(("beam 1", "beam 9"), row["outputs"], strict=True):
            assert (output["text"], output["verdict"]) == (
                report[name][row["name"]].output,
                report[name][row["name"]].verdict,
            )
    table = view.table()
    assert table.columns[:3] == ["setting", "sequences", "label errors"] and len(table) == 2
    html = str(view.html)
    assert all(words in html for words in ("beam 1", "beam 9", given[0], "flex:"))


def test_one_report_and_a_choice_of_its_rows(tmp_path):
    found = searches()["beam 9"]
    report = rf.search.report(found, references(found))
    view = rf.show(report)
    assert "setting" not in str(view.html) and view.data["note"] is None
    assert [row["name"] for row in rf.show(report, verdict="correct").data["rows"]] == ["y"]
    short = rf.show(report, most=1)
    assert len(short.data["rows"]) == 1 and short.data["note"].startswith("1 more sequence")
    for suffix in ("html", "json", "csv", "txt"):
        assert view.save(tmp_path / f"report.{suffix}").stat().st_size > 50
    with pytest.raises(ViewError, match="no such verdict"):
        rf.show(report, verdict="wrong")


def test_a_report_without_sequences_and_one_without_settings():
    found = searches()["beam 1"]
    empty = rf.search.report([], [])
    assert len(empty) == 0 and str(rf.show(empty).html) and rf.show(empty).data["rows"] == []
    assert str(rf.show(rf.search.report({}, [])).html) and rf.show(rf.search.report({}, [])).text == ""
    assert len(rf.search.report(found, references(searches()["beam 9"]))) == 3


def hostile_views(word):
    labels = [word(label) for label in ("a", "end", "c", "d", "e")]
    both = searches(labels, [word(tag) for tag in ("x", "y", "z")])
    given = [[labels[0], labels[2]], [labels[3]], [labels[0]]]
    reports = rf.search.report({word(name): found for name, found in both.items()}, given)
    return {"search report": rf.show(rf.search.report(both["beam 1"], given)), "search reports": rf.show(reports)}

"""Tables of views."""

from __future__ import annotations

from rfnb.display.kit.blocks import SHORT, Table, table_html


def test_few_words_stay_in_one_line_and_many_have_a_least_width():
    few, many = "no end", "a dog barks " * SHORT
    first, second, third = str(table_html(Table(["end", "text", "rank"], [[few, many, "1"]]))).split("<td")[1:]
    assert "white-space:nowrap" in first and "min-width" not in first
    assert "min-width" in second and "white-space" not in second
    assert "min-width" not in third and "white-space" not in third


def test_a_huge_cell_or_name_of_a_column_is_cut():
    assert len(str(table_html(Table(["w" * 10**6], [["w" * 10**6]])))) < 10**5

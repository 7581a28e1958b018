"""`python -m rfnb`: rows, files, errors as one line."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

from rfnb.__main__ import main

NET = "num_inputs, num_outputs = 4, 5\nnetwork = {'output': {'class': %r, 'from': 'data', 'loss': 'ce'}}\n"


@pytest.fixture
def configs(tmp_path):
    (tmp_path / "good.config").write_text(NET % "softmax")
    (tmp_path / "stops.config").write_text(NET % "softmacks")
    (tmp_path / "broken.config").write_text("network = {")
    return tmp_path


def test_report_has_a_row_for_each_file(configs, capsys):
    status = main(["report", *map(str, sorted(configs.glob("*.config")))])
    shown = capsys.readouterr()
    rows = shown.out.splitlines()
    assert (status, shown.err) == (1, "")
    assert [row.split()[0] for row in rows] == [
        "config", "broken.config", "good.config", "stops.config", "1", "configs", "1", "1"
    ]  # fmt: skip
    assert "cannot be read" in rows[1] and "broken.config:1" in rows[1]
    assert rows[2].split()[1:] == ["runs", "1"]
    assert "there is no layer class 'softmacks'" in rows[3]
    assert rows[4] == "1 of 3 run"
    assert {row.split()[-1] for row in rows[6:]} == {"broken.config", "stops.config"}


def test_report_of_a_folder_and_its_json(configs, capsys):
    (configs / "deep").mkdir()
    for i in range(8):
        (configs / "deep" / f"net{i}.py").write_text(NET % ("softmax" if i else "softmacks"))
    (configs / "helpers.py").write_text("def size():\n    return 3\n")
    assert main(["report", str(configs)]) == 1
    rows = capsys.readouterr().out.splitlines()
    assert rows[12] == "8 of 11 run"
    assert rows[14].split() == "2 there is no layer class 'softmacks' net0.py".split()
    assert main(["report", "--json", str(configs)]) == 1
    found = {Path(report["file"]).name: report for report in json.loads(capsys.readouterr().out)}
    assert [name for name, report in found.items() if report["runs"]] == [f"net{i}.py" for i in range(1, 8)] + [
        "good.config"
    ]
    assert found["stops.config"]["findings"][0]["lines"] == [2] and "error" in found["broken.config"]


def test_report_of_nets_that_run(configs, capsys):
    assert main(["report", str(configs / "good.config")]) == 0
    assert main(["report", "--all", str(configs / "good.config")]) == 0
    assert "good: runs (1 layer constructed, 25 parameters)" in capsys.readouterr().out


@pytest.mark.parametrize("name", ["good", "stops"])
def test_show_writes_a_page(configs, capsys, name):
    page = configs / "net.html"
    assert main(["show", str(configs / f"{name}.config"), str(page)]) == 0
    assert capsys.readouterr().out.strip() == str(page)
    assert "data:image/svg+xml" in page.read_text()


@pytest.mark.parametrize("arguments", [["broken.config", "a.html"], ["none.config", "a.html"], ["good.config", "a.x"]])
def test_errors_are_one_line(configs, capsys, arguments):
    assert main(["show", *(str(configs / name) for name in arguments)]) == 1
    shown = capsys.readouterr()
    assert shown.out == "" and shown.err.startswith("python -m rfnb: ") and shown.err.count("\n") == 1


@pytest.mark.parametrize("encoding", ["ascii", "cp1252"])
def test_output_that_is_not_utf8(configs, encoding):
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding=encoding, write_through=True) for _ in range(2))
    (configs / "größe→.config").write_text((NET % "softmacks→").replace("output'", "größe→'"), encoding="utf-8")
    with redirect_stdout(out), redirect_stderr(err):
        assert main(["report", "--all", *map(str, configs.glob("*.config"))]) == 1
        assert main(["show", str(configs / "größe→.config"), str(configs / "netz→.html")]) == 0
        assert main(["show", str(configs / "kein→.config"), "x.html"]) == 1
    assert "->.config" in out.buffer.getvalue().decode(encoding) and b"kein->" in err.buffer.getvalue()


def test_wrong_usage(capsys):
    with pytest.raises(SystemExit) as error:
        main(["draw"])
    assert error.value.code == 2

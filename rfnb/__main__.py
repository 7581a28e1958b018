"""`python -m rfnb`: looks at configs of net dicts from a shell.

python -m rfnb report FOLDER                    a row for each config, whether it runs, and a table of what stops them
python -m rfnb show returnn.config net.html     the picture of its network; also .svg, .txt, .json
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rfnb.display.kit.blocks import Table
from rfnb.display.kit.view import View, describe
from rfnb.errors import RfError
from rfnb.netdict.folder import as_json, by_cause, configs_in, drafted, one_line, report_stops, reports_of
from rfnb.printable import terminal_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns the exit status: 0, or 1 if a network does not run or cannot be read.

    Exits with the status 2 if the command is used in a wrong way.
    """
    parser = argparse.ArgumentParser(prog="python -m rfnb", description="Looks at configs of net dicts.")
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report", help="whether networks run, and what stops them: a row for each file")
    report.add_argument("configs", nargs="+", metavar="CONFIG", help="a file, or a folder of files")
    report.add_argument("--all", action="store_true", help="all that a report says, beside a row")
    report.add_argument("--json", action="store_true", help="all that a report says, as JSON")
    show = commands.add_parser("show", help="the picture of a network")
    show.add_argument("config", metavar="CONFIG")
    show.add_argument("output", metavar="FILE", help=".html, .svg, .txt or .json")
    for command in (report, show):
        command.add_argument("--epoch", type=int, help="of the training; default: the last one")
    given = parser.parse_args(arguments)
    try:
        if given.command == "show":
            print(terminal_text(str(View(describe(drafted(given.config, given.epoch))).save(given.output))))
            return 0
        files = [file for path in given.configs for file in configs_in(Path(path))]
        return _report(files, given.epoch, full=given.all, in_json=given.json)
    except RfError as error:
        print(f"python -m rfnb: {one_line(error)}", file=sys.stderr)
        return 1


def _report(files: Sequence[Path], epoch: int | None, *, full: bool, in_json: bool) -> int:
    """Prints a row for each file, or everything, or JSON. Returns the exit status."""
    reports = reports_of(files, epoch)
    runs = [not isinstance(report, str) and bool(report) for report in reports]
    if in_json:
        print(json.dumps([as_json(file, report) for file, report in zip(files, reports, strict=True)], indent=1))
        return 0 if all(runs) else 1
    rows: list[list[Any]] = []
    for file, report in zip(files, reports, strict=True):
        if isinstance(report, str):
            rows.append([file.name, "cannot be read", "", report])
            continue
        if full:
            print(report, end="\n\n")
        stops = report_stops(report)
        words = "; ".join(dict.fromkeys(stops[:3])) + (" …" if len(stops) > 3 else "")
        rows.append([file.name, "runs" if report else "stops", report.layers, words])
    print(Table(["config", "", "layers", "what stops it"], rows))
    if len(files) > 1:
        print(f"{sum(runs)} of {len(files)} run")
        if causes := by_cause(files, reports):
            print(Table(["configs", "cause", "for example"], causes))
    return 0 if all(runs) else 1


if __name__ == "__main__":
    sys.exit(main())

"""`python -m rfnb`: looks at configs of net dicts from a shell.

python -m rfnb report *.config                  a row for each file: whether it runs, and what stops it
python -m rfnb show returnn.config net.html     the picture of its network; also .svg, .txt, .json
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rfnb.display.kit.view import View, describe
from rfnb.display.markup.elements import Table
from rfnb.errors import RfError
from rfnb.netdict.network import Network
from rfnb.printable import terminal_text


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a command. Returns the exit status: 0, or 1 if a network does not run or cannot be read.

    Exits with the status 2 if the command is used in a wrong way.
    """
    parser = argparse.ArgumentParser(prog="python -m rfnb", description="Looks at configs of net dicts.")
    commands = parser.add_subparsers(dest="command", required=True)
    report = commands.add_parser("report", help="whether networks run, and what stops them: a row for each file")
    report.add_argument("configs", nargs="+", metavar="CONFIG")
    report.add_argument("--all", action="store_true", help="all that a report says, instead of a row")
    show = commands.add_parser("show", help="the picture of a network")
    show.add_argument("config", metavar="CONFIG")
    show.add_argument("output", metavar="FILE", help=".html, .svg, .txt or .json")
    for command in (report, show):
        command.add_argument("--epoch", type=int, help="of the training; default: the last one")
    given = parser.parse_args(arguments)
    try:
        if given.command == "show":
            print(terminal_text(str(View(describe(_network(given.config, given.epoch))).save(given.output))))
            return 0
        return _report(given.configs, given.epoch, full=given.all)
    except RfError as error:
        print(f"python -m rfnb: {_line(error)}", file=sys.stderr)
        return 1


def _network(path: str, epoch: int | None) -> Network:
    return Network.from_config(path, epoch=epoch, device="meta", strict=False)


def _report(paths: Sequence[str], epoch: int | None, *, full: bool) -> int:
    """Prints a row for each file, or everything. Returns the exit status."""
    rows: list[list[Any]] = []
    bad = 0
    for path in paths:
        try:
            report = _network(path, epoch).report()
        except RfError as error:
            bad += 1
            rows.append([Path(path).name, "cannot be read", "", _line(error)])
            continue
        bad += not report
        if full:
            print(report, end="\n\n")
        stops = report.of("stops")
        words = "; ".join(dict.fromkeys(found.what for found in stops[:3])) + (" …" if len(stops) > 3 else "")
        rows.append([Path(path).name, "runs" if report else "stops", report.layers, words])
    print(Table(["config", "", "layers", "what stops it"], rows))
    if len(paths) > 1:
        print(f"{len(paths) - bad} of {len(paths)} run")
    return 1 if bad else 0


def _line(error: RfError) -> str:
    """An error as one line."""
    what = error.what if error.got is None else f"{error.what}: {str(error.got).partition(chr(10))[0]:.100}"
    return terminal_text(" ".join(what.split()))


if __name__ == "__main__":
    sys.exit(main())

"""Reports of many configs: which files these are, a report for each, and what stops them by cause."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict
from multiprocessing import get_context
from pathlib import Path

from rfnb.errors import RfError
from rfnb.netdict.network import Network
from rfnb.netdict.report.findings import NetworkReport
from rfnb.printable import terminal_text

SUFFIXES = (".config", ".py", ".json", "")
"""What the names of configs end in."""
NETWORK = re.compile(r'(?m)^\s*(network\b|def get_network\b|"network"\s*:)')
"""What a config has a line of, and a file of helpers has not."""
MANY = 8
"""From so many files on, other processes help."""


def configs_in(path: Path) -> list[Path]:
    """The files of a folder that describe a network; a file is itself."""
    if not path.is_dir():
        return [path]
    files = [file for file in sorted(path.rglob("*")) if file.suffix in SUFFIXES and file.is_file()]
    return [file for file in files if NETWORK.search(file.read_text(errors="replace"))]


def reports_of(files: Sequence[Path], epoch: int | None = None) -> list[NetworkReport | str]:
    """The report of each file, or why it cannot be read; many files are divided among the processors."""
    jobs = [(str(file), epoch) for file in files]
    if len(files) < MANY:
        return [*map(report_of_file, jobs)]
    with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
        return list(pool.map(report_of_file, jobs, chunksize=4))


def report_of_file(job: tuple[str, int | None]) -> NetworkReport | str:
    """The report of a config at an epoch, or why it cannot be read."""
    path, epoch = job
    try:
        return drafted(path, epoch).report()
    except RfError as error:
        return one_line(error)
    except Exception as error:  # one of many files does not hide the others
        return f"{type(error).__name__}: {error}".partition("\n")[0][:200]


def drafted(path: str, epoch: int | None) -> Network:
    """The network of a config as far as it can be constructed, without memory for its parameters."""
    return Network.from_config(path, epoch=epoch, device="meta", strict=False)


def by_cause(files: Sequence[Path], reports: Iterable[NetworkReport | str]) -> list[list[object]]:
    """Rows of a table: how many configs a cause stops, the cause, and one of them; the most frequent cause first."""
    causes: dict[str, list[str]] = {}
    for file, report in zip(files, reports, strict=True):
        if isinstance(report, str):
            whats = [re.sub(rf"^{re.escape(file.name)}(:\d+)?: ", "", report)]
        else:
            whats = report_stops(report)
        for cause in dict.fromkeys(whats):
            causes.setdefault(cause, []).append(file.name)
    return [[len(names), cause, names[0]] for cause, names in sorted(causes.items(), key=lambda item: -len(item[1]))]


def report_stops(report: NetworkReport) -> list[str]:
    """What stops a network, in words."""
    return [finding.what for finding in report.of("stops")]


def as_json(file: Path, report: NetworkReport | str) -> dict[str, object]:
    """A report in values that JSON has."""
    if isinstance(report, str):
        return {"file": str(file), "runs": False, "error": report}
    sizes = {"layers": report.layers, "params": report.params}
    return {"file": str(file), "runs": bool(report), **sizes, "findings": [asdict(x) for x in report.findings]}


def one_line(error: RfError) -> str:
    """An error as one line."""
    text = error.what if error.got is None else f"{error.what}: {str(error.got).partition(chr(10))[0]:.100}"
    return terminal_text(" ".join(text.split()))

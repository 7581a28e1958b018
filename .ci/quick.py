"""Checks what a change can reach, in two minutes at most: style, types, and the tests nearest to it by imports.

Usage: `python .ci/quick.py [COMMIT]`. The change is what differs from COMMIT, which is the last commit if it is left
out; if nothing differs, it is what the last commit changed.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from check import STYLE, check, check_quietly
from step import ROOT

sys.path.insert(0, str(ROOT))

from tests.sources import MODULES, TEST_FILES, TESTS, distances, needs, subject

MOST_FILES = 40
SECONDS = 80
"""How many files of tests are collected, and when no further test begins."""
ALWAYS = ["tests/test_structure.py"]
FAR = 1000


def main(arguments: list[str]) -> int:
    """The number of checks that failed."""
    changed = changed_files(*arguments)
    files = nearest(changed)
    pytest = ["pytest", "-q", "-n", "2", "--dist", "loadfile", "--no-loadscope-reorder", f"--seconds={SECONDS}"]
    pytest += ["-m", "not slow and not browser and not wheel", *ALWAYS, *files[:MOST_FILES]]
    os.environ["RFNB_PROFILE"] = "quick"
    with ThreadPoolExecutor(1) as pool:
        style = {name: pool.submit(check_quietly, command) for name, command in style_for(changed).items()}
        results = {"pytest": check(*pytest)} | {name: result.result() for name, result in style.items()}
    print()
    for name, result in results.items():
        print(f"  {name:<12} {result}")
    print(f"\n  {len(changed)} files changed, {min(len(files), MOST_FILES)} files of tests nearest to them run", end="")
    print(f", {len(files) - MOST_FILES} farther ones left to `make test`" * (len(files) > MOST_FILES))
    return sum(result.startswith("failed") for result in results.values())


def changed_files(commit: str = "HEAD") -> list[str]:
    """The paths of files that differ from a commit, new ones included."""
    names = git("diff", "--name-only", "--diff-filter=d", commit) + git("ls-files", "--others", "--exclude-standard")
    return names or git("diff", "--name-only", "--diff-filter=d", f"{commit}~1")


def git(*command: str) -> list[str]:
    """The lines that git prints."""
    return subprocess.run(["git", *command], cwd=ROOT, check=True, capture_output=True, text=True).stdout.splitlines()


def style_for(changed: list[str]) -> dict[str, tuple[str, ...]]:
    """The checks of style and types for the languages of the changed files."""
    extension = any(name.startswith("extension/") for name in changed)
    commands = {name: command for name, command in STYLE.items() if command[0] != "jlpm" or extension}
    return commands | ({"jlpm test": ("jlpm", "test")} if extension else {})


def nearest(changed: list[str]) -> list[str]:
    """The files of tests, and changed files with examples in docstrings, that the change reaches: the nearest first."""
    modules = [MODULES[ROOT / name] for name in changed if ROOT / name in MODULES]
    steps = distances(modules)
    ranked = {name: 0 for name in changed if ROOT / name in MODULES}
    for test in TEST_FILES:
        distance = min(reach(test, steps, changed), default=FAR)
        if distance < FAR:
            ranked[str(test.relative_to(ROOT))] = distance
    return [name for name in sorted(ranked, key=lambda name: (ranked[name], name)) if name not in ALWAYS]


def reach(test: Path, steps: dict[str, int], changed: list[str]) -> Iterator[int]:
    """How far a file of tests is from the change: by its subject, by what it imports, by what stands beside it."""
    place = subject(test)
    if place:
        about = [module for file, module in MODULES.items() if place in (file, *file.parents)]
        yield from (steps[module] for module in about if module in steps)
    yield from (steps[module] + 1 for module in needs(test) if module in steps)
    for name in map(Path, changed):
        beside = name.parent == test.parent.relative_to(ROOT) and name.parts[0] == "tests" and test.parent != TESTS
        if ROOT / name == test or (beside and not name.name.startswith("test_")):
            yield 0
        if name.suffix == ".md" and test.stem in (
            "test_links",
            f"test_{name.stem.lower()}_page",
            f"test_{name.stem.lower()}",
        ):
            yield 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

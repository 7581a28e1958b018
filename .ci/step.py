"""A step of the setup: one printed line, skipped while nothing it depends on has changed, its output in a log file."""

from __future__ import annotations

import hashlib
import shutil
import subprocess
import sys
import time
from collections.abc import Iterable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CACHE = ROOT / ".cache"
LOG = CACHE / "setup.log"


class StepFailed(Exception):
    """A command of a step failed; the message says how it ended."""


def say(topic: str, what: str) -> None:
    """One line of the setup's report."""
    print(f"  {topic:<12} {what}", flush=True)


def run(*command: str | Path, cwd: Path = ROOT, env: dict[str, str] | None = None) -> None:
    """The command, silent; its output goes to the log."""
    with LOG.open("a") as log:
        print("$", *command, file=log, flush=True)
        try:
            done = subprocess.run(command, cwd=cwd, env=env, stdout=log, stderr=subprocess.STDOUT, check=False)
        except OSError as error:
            raise StepFailed(f"{command[0]}: {error.strerror}") from error
    if done.returncode:
        raise StepFailed(f"{Path(command[0]).name} ended with status {done.returncode}")


def fingerprint(files: Iterable[Path], *words: str) -> str:
    """Changes when a file or a word changes."""
    digest = hashlib.sha256(repr(words).encode())
    for file in sorted(files):
        digest.update(f"{file.relative_to(ROOT)}\0".encode() + file.read_bytes())
    return digest.hexdigest()


class Stamps:
    """What was done last, in one folder: a file per step that holds the fingerprint of what the step was done for."""

    def __init__(self, folder: Path):
        self.folder = folder

    def fresh(self, step: str, key: str) -> bool:
        """Whether the step was done for this very key."""
        file = self.folder / step
        return file.exists() and file.read_text() == key

    def mark(self, step: str, key: str) -> None:
        """The step is done."""
        self.folder.mkdir(parents=True, exist_ok=True)
        (self.folder / step).write_text(key)

    def clear(self) -> None:
        """Nothing is done."""
        shutil.rmtree(self.folder, ignore_errors=True)


class Timer:
    """Tells how long a step took: `packages     installing … done (23 s)`."""

    def __init__(self, topic: str, what: str):
        self.start = time.monotonic()
        print(f"  {topic:<12} {what} … ", end="", flush=True)

    def done(self, how: str = "done") -> None:
        """Ends the line."""
        print(f"{how} ({time.monotonic() - self.start:.0f} s)", flush=True)


def give_up(why: str, *, log: bool = False) -> None:
    """Ends the setup with a message for people."""
    print(f"\n{why}", file=sys.stderr)
    if log:
        tail = LOG.read_text(errors="replace").splitlines()[-15:]
        print("\n".join(["", *tail, "", f"All output: {LOG.relative_to(ROOT)}"]), file=sys.stderr)
    sys.exit(1)

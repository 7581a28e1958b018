"""Which Python everything is installed into: the active venv or conda environment, else `.venv`, made when needed."""

from __future__ import annotations

import contextlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from step import CACHE, ROOT, Stamps, StepFailed, Timer, give_up, run, say

VENV = ROOT / ".venv"
OLDEST = (3, 11)

QUESTION = """
import importlib.metadata as m, json, os, sys, sysconfig
torch = [d.version for d in m.distributions(name="torch")]
print(json.dumps([list(sys.version_info[:3]), os.access(sysconfig.get_path("purelib"), os.W_OK), (torch or [None])[0]]))
"""


@dataclass(frozen=True)
class Environment:
    """A Python with the place where its packages go."""

    prefix: Path
    version: tuple[int, ...]
    writable: bool
    torch: str | None

    @property
    def python(self) -> Path:
        """The interpreter."""
        return self.prefix / "bin" / "python"

    @property
    def stamps(self) -> Stamps:
        """What was installed here for this checkout."""
        return Stamps(self.prefix / "share" / "rfnb-setup" / str(ROOT).strip("/").replace("/", "-"))


def look_at(prefix: Path) -> Environment | None:
    """What is there, or None if no Python answers."""
    try:
        answer = subprocess.run([prefix / "bin" / "python", "-c", QUESTION], capture_output=True, check=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    version, writable, torch = json.loads(answer.stdout)
    return Environment(prefix, tuple(version), writable, torch)


def choose() -> Environment:
    """The active environment if packages can be installed there, else `.venv`."""
    return active() or own()


def ensure_pip(env: Environment) -> None:
    """Environments that uv made have no pip."""
    if subprocess.run([env.python, "-c", "import pip"], capture_output=True, check=False).returncode:
        try:
            run(env.python, "-m", "ensurepip")
            say("pip", "added to the environment")
        except StepFailed:
            give_up(f"{env.prefix} has no pip, and Python's ensurepip did not bring it: please install pip there.")


def active() -> Environment | None:
    """The venv or conda environment that the shell is in."""
    for variable in ("VIRTUAL_ENV", "CONDA_PREFIX"):
        found = look_at(Path(os.environ[variable])) if os.environ.get(variable) else None
        if not found:
            continue
        if found.writable and found.version >= OLDEST:
            say("environment", f"{found.prefix}, the active one (Python {dotted(found.version)})")
            return found
        why = "not writable" if not found.writable else f"Python {dotted(found.version)} is older than {dotted(OLDEST)}"
        say("environment", f"the active one is passed over: {why}")
    return None


def own() -> Environment:
    """`.venv` in the checkout; it sees the packages of the system's Python if torch is among them."""
    found = look_at(VENV)
    if not found:
        make_venv()
        found = look_at(VENV)
    if not found or found.version < OLDEST:
        give_up(f"{VENV} has no working Python ≥ {dotted(OLDEST)}: remove that folder and try again.")
    say("environment", f".venv (Python {dotted(found.version)})")
    return found


def make_venv() -> None:
    """A fresh `.venv`."""
    if importlib.util.find_spec("ensurepip") is None:
        apt_install("python3-venv", "to make a virtual environment", needed=True)
    with_system = ["--system-site-packages"] if importlib.util.find_spec("torch") else []
    timer = Timer("environment", "making .venv" + (" that sees the system's torch" if with_system else ""))
    shutil.rmtree(VENV, ignore_errors=True)
    try:
        run(sys.executable, "-m", "venv", *with_system, VENV)
    except StepFailed as error:
        print()
        give_up(f"No virtual environment could be made in .venv: {error}", log=True)
    with contextlib.suppress(StepFailed):  # a pip of today needs half the time of the one that comes with Python 3.11
        run(VENV / "bin" / "python", "-m", "pip", "install", "--upgrade", "pip")
    timer.done()


def apt_install(package: str, purpose: str, *, needed: bool = False) -> None:
    """A Debian package: installed where we may, else said."""
    if os.geteuid() == 0 and shutil.which("apt-get"):
        timer = Timer(package, "apt-get install")
        try:
            run("apt-get", "update", "-qq")
            run("apt-get", "install", "-y", "-qq", "--no-install-recommends", package)
            return timer.done()
        except StepFailed as error:
            timer.done(f"did not work: {error}")
    advice = f"install `{package}` {purpose} (Debian, Ubuntu: sudo apt install {package})"
    give_up(f"Please {advice}, then run this again.") if needed else say(package, f"missing: {advice}")
    return None


def writable_home() -> str:
    """HOME, or a folder in the checkout where HOME cannot be written: pip, jlpm and Jupyter all want one."""
    home = Path(os.environ.get("HOME") or "/nonexistent")
    if os.access(home, os.W_OK):
        return str(home)
    instead = CACHE / "home"
    instead.mkdir(parents=True, exist_ok=True)
    say("home", f"{home} cannot be written, taking {instead.relative_to(ROOT)} instead")
    return str(instead)


def dotted(version: tuple[int, ...]) -> str:
    """The version as people write it."""
    return ".".join(map(str, version))

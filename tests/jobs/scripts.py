"""Runs code as a user's script, in a process of its own: `rf.launch` takes definitions of `__main__`."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).parents[2]


def run_script(python: str, code: str, folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    """Python runs a script in a folder."""
    path = folder / "user.py"
    path.write_text(code, encoding="utf-8")
    env = {**os.environ, "PYTHONPATH": str(ROOT), "OMP_NUM_THREADS": "1", **environment}
    command = [python, str(path)]
    return subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, timeout=240, check=False)

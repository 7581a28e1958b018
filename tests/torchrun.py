"""A script run by torchrun in two processes."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]


def run_in_two_processes(
    python: str, script: Path, *arguments: object, paths: tuple[Path, ...] = (), timeout: int = 120
) -> str:
    """What the two processes print. A failure shows what they wrote to stderr."""
    command = [python, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    path = os.pathsep.join([*map(str, [ROOT, *paths]), *filter(None, [os.environ.get("PYTHONPATH")])])
    environment = os.environ | {"PYTHONPATH": path, "OMP_NUM_THREADS": "1", "PYTHON_EXEC": python}
    command += map(str, [script, *arguments])
    done = subprocess.run(command, check=False, env=environment, timeout=timeout, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-6000:]
    return done.stdout

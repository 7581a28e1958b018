"""Runs the tests of `tests/gpu` on a device and prints one page of results, which `.cache/gpu.txt` keeps.

Usage: `python .ci/gpu.py [arguments of pytest]`, with RFNB_DEVICE=cpu or cuda:1 for another device than "cuda".
"""

from __future__ import annotations

import os
import subprocess
import sys

from step import CACHE, ROOT

NO_GPU = """No GPU tests: {reason}.

Where there is a GPU, install a build of torch for it into the environment of `make` (`. .cache/env`, then pip), and run
`make test-gpu` again. `make test-gpu RFNB_DEVICE=cpu` runs the same tests on the CPU, as `make test` does."""


def main(arguments: list[str]) -> int:
    """0 if all tests pass, or if there is no GPU to test."""
    device = os.environ.get("RFNB_DEVICE") or "cuda"
    reason = why_not(device)
    if reason:
        print(NO_GPU.format(reason=reason))
        return 0
    CACHE.mkdir(exist_ok=True)
    env = os.environ | {"RFNB_DEVICE": device, "RFNB_GPU_PAGE": str(CACHE / "gpu.txt")}
    command = [sys.executable, "-m", "pytest", "-q", "tests/gpu", *arguments]
    return subprocess.run(command, cwd=ROOT, env=env, check=False).returncode


def why_not(device: str) -> str | None:
    """Why torch cannot use the device."""
    import torch

    if not device.startswith("cuda") or torch.cuda.is_available():
        return None
    if torch.version.cuda is None and torch.version.hip is None:
        return f"torch {torch.__version__} is a build for the CPU only"
    return f"torch {torch.__version__} finds no GPU (torch.cuda.is_available() is False)"


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))

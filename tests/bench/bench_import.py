"""How long `import rfnb` takes beside `import torch`: python tests/bench/bench_import.py [repeats]

Fresh processes in turn, user and system time, with compiled files in place. The first line is what the others are
compared with.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from statistics import median

ROOT = Path(__file__).parents[2]
CASES = {
    "torch": "import torch",
    "rfnb": "import rfnb",
    "rfnb, a layer": "import rfnb as rf; rf.Linear",
    "rfnb, all names": "from rfnb import *",
}


def seconds(code: str) -> float:
    """Of the processor, for a new process that runs `code`."""
    before = os.times()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, env=environment, check=True)
    after = os.times()
    return after.children_user + after.children_system - before.children_user - before.children_system


def main() -> None:
    """Prints the table; the first round compiles."""
    repeats = int(sys.argv[1]) if len(sys.argv) > 1 else 15
    rounds = [{name: seconds(code) for name, code in CASES.items()} for _ in range(repeats + 1)][1:]
    print(f"{'':<16}  {'s':>6}  {'least':>6}  {'ratio':>6}")
    for name in CASES:
        times, ratios = [each[name] for each in rounds], [each[name] / each["torch"] for each in rounds]
        print(f"{name:<16}  {median(times):>6.3f}  {min(times):>6.3f}  {median(ratios):>6.3f}")


if __name__ == "__main__":
    main()

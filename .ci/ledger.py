"""Prints the lines of code of each room of `rfnb/` beside its budget; ends with an error if a room is above it."""

from __future__ import annotations

import sys
import tomllib

from step import ROOT

sys.path.insert(0, str(ROOT))

from tests.sources import room_sizes


def main() -> int:
    """The number of rooms above their budget."""
    budget, sizes = tomllib.loads((ROOT / ".ci" / "budget.toml").read_text(encoding="utf-8")), room_sizes()
    above = [room for room, size in sizes.items() if size > budget.get(room, 0)]
    for room, size in sizes.items():
        print(f"  {room:<14} {size:>6} of {budget.get(room, 0):>6}{'  above its budget' if room in above else ''}")
    print(f"  {'all':<14} {sum(sizes.values()):>6} of {sum(budget.values()):>6}")
    return len(above)


if __name__ == "__main__":
    sys.exit(main())

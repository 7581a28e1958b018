"""The README's first example runs as it stands."""

from __future__ import annotations

import re
from pathlib import Path

README = (Path(__file__).parents[1] / "README.md").read_text(encoding="utf-8")
EXAMPLE, *_ = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def test_the_example_sums_up():
    names: dict[str, object] = {}
    exec(EXAMPLE, names)
    sums, axis = names["sums"], names["sums"].dims.index(names["time"])
    assert sums.raw_tensor.select(axis, 0).tolist() == [3.0, 2.0, 1.0]
    assert sums.raw_tensor.select(axis, 2)[0].item() == 8.0

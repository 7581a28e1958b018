"""Numbers as JSON, and their short forms, the same in text and HTML."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, Literal

Number = float | int | Literal["nan", "inf", "-inf"]


BLOCKS = "▁▂▃▄▅▆▇█"


def short(number: object) -> str:
    """Three significant digits, no noise.

    >>> [short(x) for x in (0, 3.0, -0.3149, 12345.6, 2.5e-7, 1e30, "nan", True)]
    ['0', '3', '-0.315', '12346', '2.5e-7', '1e30', 'nan', 'true']
    """
    if isinstance(number, bool):
        return str(number).lower()
    if isinstance(number, str | int):
        return str(number)
    number = real(number)
    if not math.isfinite(number):
        return str(plain(number))
    if number == int(number) and abs(number) < 1e6:
        return str(int(number))
    if 1e-3 <= abs(number) < 1e6:
        digits = max(0, 2 - math.floor(math.log10(abs(number))))
        text = f"{number:.{digits}f}"
        return text.rstrip("0").rstrip(".") if "." in text else text
    mantissa, _, exponent = f"{number:.2e}".partition("e")
    return f"{mantissa.rstrip('0').rstrip('.')}e{int(exponent)}"


def plain(number: float | str) -> Number:
    """A number for JSON, which lacks NaN and infinities: they become "nan", "inf" and "-inf"."""
    if isinstance(number, bool | int):
        return number
    number = float(number)
    if math.isfinite(number):
        return number
    return "nan" if math.isnan(number) else "inf" if number > 0 else "-inf"


def real(number: Any) -> float:
    """A number from JSON as a float."""
    return float(number)


def size(count: int) -> str:
    """A number of bytes with its unit.

    >>> [size(n) for n in (12, 2048, 13107200)]
    ['12 B', '2 kB', '12.5 MB']
    """
    amount = float(count)
    for unit in ("B", "kB", "MB", "GB"):
        if amount < 1024 or unit == "GB":
            break
        amount /= 1024
    return f"{amount:.3g} {unit}" if amount < 1000 else f"{amount:.0f} {unit}"


def duration(seconds: float) -> str:
    """A duration with its unit.

    >>> [duration(t) for t in (3.2e-6, 0.00412, 0.25, 75.0, 0.0)]
    ['3.2 µs', '4.12 ms', '250 ms', '75 s', '0 µs']
    """
    for unit, scale in (("µs", 1e6), ("ms", 1e3)):
        if seconds * scale < 999.5:
            return f"{short(float(f'{seconds * scale:.3g}'))} {unit}"
    return f"{short(float(f'{seconds:.3g}'))} s"


def amount(count: int) -> str:
    """A large count in short form.

    >>> [amount(n) for n in (12, 3276800, 3_276_800_000)]
    ['12', '3.28 M', '3.28 G']
    """
    for unit, step in (("T", 1e12), ("G", 1e9), ("M", 1e6)):
        if count >= step:
            return f"{count / step:.3g} {unit}"
    return f"{count:,}"


def percent(share: float) -> str:
    """A share in percent, rounded to 0 % or 100 % only if it is exactly that.

    >>> [percent(x) for x in (0, 0.0001, 0.366, 0.9999, 1)]
    ['0 %', '<1 %', '37 %', '>99 %', '100 %']
    """
    if 0 < share <= 0.005:
        return "<1 %"
    return ">99 %" if 0.995 <= share < 1 else f"{share:.0%}".replace("%", " %")


def bars(values: Sequence[object]) -> str:
    """A line of blocks: the size of each value relative to the largest.

    >>> bars([0, 1, 2, 4, "nan"])
    '▁▂▄█×'
    """
    numbers = [real(v) for v in values]
    finite = [n for n in numbers if math.isfinite(n)]
    top = max([abs(n) for n in finite], default=0.0)
    return "".join(_bar(n, top) for n in numbers)


def _bar(number: float, top: float) -> str:
    if not math.isfinite(number):
        return "×"
    return BLOCKS[0 if top == 0 else min(7, int(abs(number) / top * 7))]

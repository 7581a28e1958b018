"""What dims are called where several have one name: "time¹", "time²"."""

from __future__ import annotations

from collections.abc import Iterable

from rfnb.core.dims.dim import Dim

HIGH = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")


def namesakes(dims: Iterable[Dim]) -> dict[int, int]:
    """Dims of one name that are not the same: by serial, which of them it is, from 1."""
    by_name: dict[str, dict[int, None]] = {}
    for dim in dims:
        by_name.setdefault(dim.name, {})[dim.serial] = None
    return {serial: i for serials in by_name.values() if len(serials) > 1 for i, serial in enumerate(serials, 1)}


def names_of(dims: Iterable[Dim]) -> dict[int, str]:
    """By serial, names that tell them apart.

    >>> names = names_of([rf.Dim(3, name="time"), rf.Dim(4, name="time"), rf.Dim(2, name="feat")])
    >>> list(names.values())
    ['time¹', 'time²', 'feat']
    """
    every = list(dims)
    which = namesakes(every)
    return {dim.serial: dim.name + str(which.get(dim.serial, "")).translate(HIGH) for dim in every}

"""A progress bar for loops that take long, and a place for their curves below the cell."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rfnb.printable import encodable, visible

PATIENCE = 2.0
"""Seconds that a loop runs before its bar appears."""


def bar(name: str, steps: int, clock: Callable[[], float] = time.monotonic) -> Callable[[int], None]:
    """A callback that receives the number of steps done, and draws a bar once the loop has run for a while."""
    began = clock()
    bars: list[Any] = []

    def update(done: int) -> None:
        if not bars and clock() - began > PATIENCE and done < steps:
            bars.append(_draw(name, steps))
        if bars and bars[0] is not None:
            bars[0].update(done - bars[0].n)
            if done >= steps:
                bars[0].close()

    return update


def _draw(name: str, steps: int) -> Any:
    try:
        return new_bar(name, total=steps, unit="step", leave=False)
    except Exception:
        return None


class DisplayPlace:
    """A place below the running cell, whose content is replaced."""

    def __init__(self) -> None:
        self._handle: Any = None

    @property
    def is_used(self) -> bool:
        """Whether something is shown there."""
        return self._handle is not None

    def show(self, bundle: dict[str, Any]) -> None:
        """Shows a MIME bundle in the place of the one before."""
        from IPython.display import DisplayHandle

        if self._handle is None:
            self._handle = DisplayHandle()  # first, so that an interrupt while it is shown makes no second one
            self._handle.display(bundle, raw=True)
        else:
            self._handle.update(bundle, raw=True)


def new_bar(name: str, *, disable: bool = False, **options: object) -> Any:
    """A tqdm bar. In a notebook it is replaced at the end by text or nothing, as saved notebooks have no widgets."""
    from tqdm import std
    from tqdm.auto import tqdm

    options["desc"] = encodable(" ".join(visible(name).split()))
    if disable or "tqdm_notebook" not in [base.__name__ for base in tqdm.__mro__]:
        return tqdm(disable=disable, **options)
    from IPython import get_ipython
    from IPython.display import DisplayHandle

    if get_ipython() is None:  # a script that has imported a kernel
        return std.tqdm(**options)
    bar = tqdm(display=False, **options)
    place, close = DisplayHandle(), bar.close

    def close_and_replace() -> None:
        if not bar.disable:  # it was not closed before
            close()
            place.update({"text/plain": str(bar)} if bar.leave else {}, raw=True)

    bar.close = close_and_replace
    try:
        place.display(bar.container)
    except BaseException:  # an interrupt: nobody else will close it
        bar.close()
        raise
    return bar

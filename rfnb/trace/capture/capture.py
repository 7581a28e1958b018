"""Collects attention weights while a model runs, without changing it.

Attention is a softmax over a dim whose result is summed over the same dim, in a product with something; and
`dot_attention`. Where one kernel does it all, queries and keys are remembered, and the weights computed again from
them when somebody looks. Of a loop the weights of all steps are computed by a replay when it is done.
"""

from __future__ import annotations

import fnmatch
import math
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from operator import index
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground.raw import BACKENDS
from rfnb.core.ground.scope import modules_described_by
from rfnb.core.ground.show import Shown
from rfnb.core.ground.source import Source
from rfnb.core.tensor.listener import active_listener, listening
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LoopError, ViewError
from rfnb.trace.capture.attention_finder import AttentionFinder, Found
from rfnb.trace.capture.in_loops import attention_of
from rfnb.trace.record.record import current_recorder
from rfnb.trace.run import session
from rfnb.trace.run.run import Run
from rfnb.trace.run.stacked import over_steps

BUDGET = 2**30
"""Bytes that the tensors of one `capture` may hold; what comes later is left out, and named."""


class Seen(Shown):
    """Attention that was seen: `weights`, a Tensor {batch, heads, rows, cols} or less; its view as `repr`.

    name: of the module, or what the user's line calls it; with "#2" for the second `call` of that name. rows, cols: the
    dims of the two sides. axes: all dims with their sizes. place: the line. bytes: that are held for it.
    """

    def __init__(self, found: Found):
        self.name, self.call = "", 1
        self.path, self.variable = found.path, found.variable
        self.rows, self.cols, self.axes = found.rows, found.cols, found.axes
        self.source: Source | None = found.source
        self.bytes = found.bytes
        self._make = found.make

    @property
    def dims(self) -> tuple[Dim, ...]:
        """Those of the weights."""
        return tuple(dim for dim, _ in self.axes)

    @property
    def shape(self) -> tuple[int, int, int]:
        """(rows, columns, heads): what else there is besides sequences counts as heads."""
        sizes = dict(self.axes)
        sides = (self.rows, self.cols)
        heads = math.prod(n for dim, n in self.axes if dim not in sides and dim.kind != "batch")
        return (1 if self.rows is None else sizes[self.rows], sizes[self.cols], heads)

    @property
    def weights(self) -> Tensor:
        """The weights themselves, without gradient; where a kernel did not give them, computed again.

        Raises ViewError if what they are computed from was changed in place since.
        """
        with listening(None):
            return self._make().with_name(self.name)

    @property
    def place(self) -> str:
        """ "cell 4, line 2" """
        return "" if self.source is None else self.source.place()


class Captured(Shown):
    """What `rf.capture` saw, in order: `seen["decoder.att"]`, `seen[0]`, `for each in seen`; a table as `repr`.

    A name may be that of a module, of a variable, or of both; with `*` or `?` it is a `Captured` of all that match.

    >>> time, key, value = rf.Dim(4, name="time"), rf.Dim(2, name="key"), rf.Dim(1, name="value")
    >>> with rf.capture() as seen:
    ...     k, v = rf.ones([time, key]), rf.ones([time, value])
    ...     first = rf.dot_attention(rf.zeros([key]), k, v, key_dim=key, axis=time)
    ...     second = rf.dot_attention(rf.ones([key]), k, v, key_dim=key, axis=time)
    >>> len(seen), seen.names(), seen["s*"].names()
    (2, ['first', 'second'], ['second'])
    """

    def __init__(self, items: Iterable[Seen] = ()):
        self._items = list(items)
        self.left_out: list[str] = []
        self.calls = self.outside = 0

    def __len__(self) -> int:
        return len(self._items)

    def __iter__(self) -> Iterator[Seen]:
        return iter(self._items)

    def names(self) -> list[str]:
        """Of all, in order."""
        return [item.name for item in self._items]

    def __getitem__(self, which: int | str | slice) -> Any:
        """One of them; of a slice, or with `*` or `?` in the name, all these. Raises ViewError if there is none."""
        if isinstance(which, slice):
            return Captured(self._items[which])
        if not isinstance(which, str):
            which = _number(which)
            if not -len(self) <= which < len(self):
                raise ViewError("capture: there are not so many", got=which, expected=f"0 to {len(self) - 1}")
            return self._items[which]
        if "*" in which or "?" in which:
            found = [item for item in self._items if fnmatch.fnmatchcase(item.name, which)]
            if found:
                return Captured(found)
        for item in self._items:
            if which and which in (item.name, item.path, item.variable, f"{item.path}.{item.variable}"):
                return item
        names = self.names()
        raise ViewError(
            f"capture: no attention is called {which!r}",
            got=which,
            expected=", ".join(names[:12]) + (" …" if len(names) > 12 else "") or self.why_nothing(),
        )

    def why_nothing(self) -> str | None:
        """What may be the reason if nothing was seen."""
        if self._items:
            return None
        if self.left_out:
            return f"all was left out: {', '.join(dict.fromkeys(self.left_out))}; there is room for {BUDGET} bytes"
        if self.outside:
            return "there was some outside of calls of the model's modules: rf.capture() without a model sees that too"
        if not self.calls:
            return "nothing was called inside of `with rf.capture(…)`"
        return "attention is a softmax over a dim, then a weighted sum over it, or rf.dot_attention"

    # -- while it is captured

    def _add(self, found: Found) -> None:
        if sum(item.bytes for item in self._items) + found.bytes > BUDGET:
            self.left_out.append(found.path or found.variable or "attention")
        else:
            self._items.append(Seen(found))

    def _add_run(self, run: Run, path: str | None) -> None:
        room = BUDGET - sum(item.bytes for item in self._items)
        try:
            found, left_out = attention_of(run, path, room)
        except Exception as error:  # whatever it is: the model goes on
            found, left_out = [], [f"{run.name}: {type(error).__name__}"]
        self.left_out += left_out
        self._items += map(Seen, found)

    def _finish(self) -> None:
        """Steps of a Python loop become one; all get their names."""
        self._items = list(_merged(self._items))
        variables: dict[str, set[str]] = {}
        for item in self._items:
            variables.setdefault(item.path, set()).add(item.variable)
        counts: dict[str, int] = {}
        for item in self._items:
            alone = item.path and len(variables[item.path]) == 1
            parts = [item.path] if alone else [part for part in (item.path, item.variable) if part]
            name = ".".join(parts) or "attention"
            item.call = counts[name] = counts.get(name, 0) + 1
            item.name = name if item.call == 1 else f"{name}#{item.call}"


def _number(which: Any) -> int:
    try:
        return index(which)
    except TypeError:
        raise ViewError("capture: a name or a number says which", got=repr(which)) from None


def _merged(items: list[Seen]) -> Iterator[Seen]:
    """Those without rows that the same line made one after the other are the steps of a loop of Python."""
    groups: dict[Any, list[Seen]] = {}
    for item in items:
        key = id(item) if item.rows is not None else (item.path, item.source, item.cols, frozenset(item.dims))
        groups.setdefault(key, []).append(item)
    for group in groups.values():
        first = group[0]
        if first.rows is None:
            first.rows = Dim(len(group), name="step")
            first.axes = ((first.rows, len(group)), *first.axes)
            first.bytes = sum(item.bytes for item in group)
            first._make = _over([item._make for item in group], first.rows)
        yield first


def _over(makes: list[Callable[[], Tensor]], steps: Dim) -> Callable[[], Tensor]:
    return lambda: over_steps([make() for make in makes], steps, Size([], len(makes)))


@contextmanager
def capture(model: Any = None, *, attention: bool = True) -> Iterator[Captured]:
    """Collects the attention weights of all that is called inside: of every step, head and layer.

        with rf.capture(model) as seen:
            model(batch)
        rf.show_attention(seen, layer=3, head=5)
        seen["decoder.att"].weights  # {dec_time, batch, enc_time}

    The model computes what it computes anyway, to the bit, with gradients if it has them; loops are recorded for it.
    (Only in `torch.inference_mode` does torch round some products otherwise while it is looked at.)
    Where a kernel does not give the weights they are computed again from queries and keys when they are looked at:
    those before dropout. What holds more than a gigabyte in all is left out, and `seen` says so.

    >>> time, key, value = rf.Dim(4, name="time"), rf.Dim(2, name="key"), rf.Dim(1, name="value")
    >>> with rf.capture() as seen:
    ...     keys, values = rf.ones([time, key]), rf.ones([time, value])
    ...     att = rf.dot_attention(rf.zeros([key]), keys, values, key_dim=key, axis=time)
    >>> seen.names(), seen["att"].weights.raw_tensor.tolist()
    (['att'], [[0.25, 0.25, 0.25, 0.25]])

    Args:
        model: an `rf.Module` or a `torch.nn.Module`: only calls of it and of modules in it count, and those give the
            names. Without, all that is called, such as other methods of a module.
        attention: for what there is nothing else yet.

    Raises ViewError if `model` is no module, LoopError in the body of a loop.
    """
    if not attention:
        raise ViewError("capture: there is nothing else to capture", got="attention=False", expected="attention=True")
    if model is not None and (isinstance(model, type) or not hasattr(model, "named_modules")):
        raise ViewError(
            "capture: this is no module",
            got=f"the class {model.__name__}" if isinstance(model, type) else type(model).__name__,
            expected="an rf.Module or a torch.nn.Module, or nothing",
            hint=f"with rf.capture() as seen: {getattr(model, '__name__', 'fn')}(…)" if callable(model) else None,
        )
    if current_recorder() is not None:
        raise LoopError("capture: in the body of a loop", hint="put `with rf.capture(…)` around the loop")
    seen = Captured()
    finder = AttentionFinder(model, seen._add, active_listener())
    with ExitStack() as stack:
        stack.callback(seen._finish)
        stack.enter_context(session.observing_runs(lambda run: finder.loop_done(run, seen._add_run)))
        stack.enter_context(modules_described_by(finder.facts_of))
        for backend in dict.fromkeys(BACKENDS.values()):
            stack.enter_context(backend.watching_attention(finder.raw_attention, model))
        stack.enter_context(listening(finder))
        try:
            yield seen
        finally:
            seen.calls, seen.outside = finder.calls, finder.outside

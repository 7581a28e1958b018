"""Dims that look alike, and errors for operands that broadcast against each other by accident, with a likely cause."""

from __future__ import annotations

import ast
import weakref
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import combinations, product
from typing import TYPE_CHECKING, Any, Literal

from rfnb.core.dims.align import forget_all_plans, show_dims
from rfnb.core.dims.dim import Dim
from rfnb.core.ground.source import CELLS, locals_of, user_frame
from rfnb.errors import DimError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim


_beams: weakref.WeakSet[Dim] = weakref.WeakSet()
_replaced: weakref.WeakKeyDictionary[Dim, weakref.WeakSet[Dim]] = weakref.WeakKeyDictionary()
_extended: weakref.WeakKeyDictionary[Dim, weakref.WeakSet[Dim]] = weakref.WeakKeyDictionary()
_PARTS = {"floordiv": 1, "ceildiv": 1, "floordiv_left": 1, "ceildiv_left": 1, "mod": 1}
"""How many dims of an expression its entries belong to, where not all: a divisor only says how many there are."""


def mark_beam(dim: Dim) -> None:
    """Says that `dim` counts hypotheses or other choices, so that it looks like no other dim; not for a batch."""
    if not dim.is_batch_dim():
        _beams.add(dim)


def is_beam(dim: Dim) -> bool:
    """Whether `dim` counts hypotheses or other choices."""
    return dim in _beams


def mark_extended(before: Dim, after: Dim) -> None:
    """Says that the hypotheses of `after` extend those of `before`: entry i of one is not entry i of the other."""
    _extended.setdefault(before, weakref.WeakSet()).update((after, *_extended.get(after, ())))


def extends(a: Dim, b: Dim) -> bool:
    """Whether the hypotheses of one extend those of the other."""
    return b in _extended.get(a, ()) or a in _extended.get(b, ())


def mark_replaced(dim: Dim, by: Dim) -> None:
    """Says that `by` stands for a second axis of the size of `dim`, so that the two are meant to be different."""
    replaced = _replaced.get(by)
    if (replaced is not None and dim in replaced) or derived(dim, by):
        return
    if replaced is None:
        replaced = _replaced[by] = weakref.WeakSet()
    replaced.update((dim, *_replaced.get(dim, ())))


def look_alike(a: Dim, b: Dim) -> bool:
    """Whether the dims have the same name, line, or fixed size, or are derived from each other.

    Equal lengths do not count, since they differ from batch to batch. Dims of size 1 and beams look like no other dim;
    a dim and its replacement by `rf.replace_dim` are different on purpose.
    """
    if 1 in (a.dimension, b.dimension) or a in _beams or b in _beams or _apart(a, b):
        return False
    if a.name == b.name:
        return True
    if a.is_batch_dim() or b.is_batch_dim():
        return False
    return (a.dimension == b.dimension and (a.is_static() or same_line(a, b))) or derived(a, b)


def same_line(a: Dim, b: Dim) -> bool:
    """Whether the same expression in the user's code made both."""
    if a.made is None or b.made is None:
        return False
    return (a.made.file, a.made.span) == (b.made.file, b.made.span)


def derived(a: Dim, b: Dim) -> bool:
    """Whether one is an expression of the other, or of the same dims: `time` and `time + 1`, `2 * feat` and `feat`."""
    origins_a, origins_b = _origins(a), _origins(b)
    return origins_a <= origins_b or origins_b <= origins_a


def _origins(dim: Dim) -> set[Dim]:
    if dim.expr is None:
        return {dim}
    parts = dim.expr.dims[: _PARTS.get(dim.expr.op)]
    return set().union(*map(_origins, parts))


def _apart(a: Dim, b: Dim) -> bool:
    """Whether one is, or is derived from, a replacement of the other, or both are replacements of the same dim."""
    origins_a, origins_b = _origins(a), _origins(b)
    return origins_a.isdisjoint(origins_b) and not _family(origins_a).isdisjoint(_family(origins_b))


def _family(dims: set[Dim]) -> set[Dim]:
    return dims.union(*(_replaced.get(dim, ()) for dim in dims))


_COMPARISONS = ("equal", "not_equal", "less", "less_equal", "greater", "greater_equal")

Accidents = Literal["alike", "all", "off"]

_allowed: ContextVar[bool] = ContextVar("rfnb_broadcast_allowed", default=False)
_refused: Accidents = "alike"


@contextmanager
def broadcast_allowed() -> Iterator[None]:
    """Inside the block, a result whose dims no single operand has is accepted."""
    token = _allowed.set(True)
    try:
        yield
    finally:
        _allowed.reset(token)


def refuse_accidents(which: Accidents) -> None:
    """Sets what `check_pair` refuses: "alike", "all" or "off". Forgets all plans, as they are checked when made."""
    global _refused
    if which != _refused:
        _refused = which
        forget_all_plans()


def check_pair(a: Sequence[Dim], b: Sequence[Dim], out: Sequence[Dim], what: str, *, strictly: bool = False) -> None:
    """Raises DimError if a dim that only `a` has looks like one that only `b` has: they were probably meant to be one.

    strictly: whether to refuse each result whose dims no single operand has. `rf.options.accidents` says so for all.
    """
    if strictly or _refused == "all":
        check_all_in_one((a, b), out, what, ("`a`", "`b`"))
    if len(a) == len(out) or len(b) == len(out) or _allowed.get():
        return
    check_one_beam(out, what)
    pairs = product((dim for dim in a if dim not in b), (dim for dim in b if dim not in a))
    if _refused == "alike" and (pair := next((pair for pair in pairs if look_alike(*pair)), None)):
        raise _accident((a, b), out, what, ("`a`", "`b`"), pair, likely(pair)[0])


def check_all_in_one(dims_of: Sequence[Sequence[Dim]], out: Sequence[Dim], what: str, names: Sequence[str]) -> None:
    """Raises DimError if no single operand has all dims of the result: usually a mistake, and an expensive one."""
    if any(len(dims) == len(out) for dims in dims_of) or _allowed.get():
        return
    check_one_beam(out, what)
    shared = set.intersection(*(set(dims) for dims in dims_of))
    odd = [dim for dim in out if dim not in shared]
    hint, pair = likely(odd)
    odd = [dim for dim in odd if dim in pair] or odd  # the other dims that an operand lacks are harmless
    raise _accident(dims_of, out, what, names, odd, hint)


def check_one_beam(dims: Sequence[Dim], what: str) -> None:
    """Raises DimError if `dims`, of one result, are of the hypotheses before a choice and of those after it."""
    if pair := next((pair for pair in combinations(dims, 2) if extends(*pair)), None):
        raise DimError(
            f"{what}: one operand has the hypotheses before a choice, the other those after it",
            got=f"two different dims {pair[0].name}, in {show_dims(dims)}",
            expected="the same hypotheses in both",
            hint="chosen = loop.choice(…); chosen.follow(x) gives each hypothesis after the choice the x of its parent",
            dims=pair,
        )


def _accident(
    dims_of: Sequence[Sequence[Dim]],
    out: Sequence[Dim],
    what: str,
    names: Sequence[str],
    odd: Sequence[Dim],
    hint: str | None,
) -> DimError:
    return DimError(
        f"{what}: no operand has all dims of the result",
        got=" and ".join(f"{name} {show_dims(dims)}" for name, dims in zip(names, dims_of, strict=True)),
        expected=f"one operand with all of {', '.join(dim.name for dim in out)}",
        made="; ".join(f"{dim.name}: {dim.made.place()}" for dim in odd if dim.made is not None) or None,
        hint=hint or f"if this is intended: {_explicit_call(what)}",
        dims=odd,
    )


def _explicit_call(what: str) -> str:
    """The call that combines operands none of which has all dims of the result."""
    if what in ("where", "clip_by_value", "lerp"):
        return f"rf.{what}(…, allow_broadcast_all_sources=True)"
    kind = "compare" if what in _COMPARISONS else "combine"
    return f'rf.{kind}_bc(a, "{what}", b)'


def likely(dims: Sequence[Dim]) -> tuple[str | None, tuple[Dim, ...]]:
    """A hint about the first two of these dims that are easily confused, and the two dims; (None, ()) if none are."""
    for explain in (made_again, _same_name, _same_root, _same_size):
        for a, b in combinations(dims, 2):
            older, newer = sorted((a, b), key=lambda dim: dim.serial)
            if (hint := explain(older, newer)) is not None:
                return hint, (a, b)
    return None, ()


def _same_name(a: Dim, b: Dim) -> str | None:
    if a.name != b.name:
        return None
    return (
        f"there are two dims called {a.name}: did you mean to use the same one in both? "
        "rf.replace_dim replaces one by the other"
    )


def _same_root(a: Dim, b: Dim) -> str | None:
    if not derived(a, b):
        return None
    return (
        f"{a.name} and {b.name} are derived from the same frames: shorten one (rf.slice) or extend the other (rf.pad)"
    )


def _same_size(a: Dim, b: Dim) -> str | None:
    if a.is_batch_dim() != b.is_batch_dim() or not (a.is_defined() and b.is_defined() and a.size.agrees(b.size)):
        return None
    swap = f"rf.replace_dim(x, in_dim={b.name}, out_dim={a.name})"
    return f"{a.name} and {b.name} have the same size: {swap} if they are the same axis, rf.combine_bc if not"


def nearest(dim: Dim, dims: Sequence[Dim]) -> str | None:
    """A hint about which of `dims` was probably intended by `dim`; None if none of them is similar."""
    for match in dims:
        if match.name == dim.name:
            older, newer = sorted((dim, match), key=lambda dim: dim.serial)
            place = f" (made in {match.made.place()})" if match.made else ""
            hint = f"did you mean {match.name}? It has the same name but is a different Dim{place}."
            return made_again(older, newer) or hint
    same_size = [match for match in dims if match.is_defined() and dim.is_defined() and match.size.agrees(dim.size)]
    return f"did you mean {same_size[0].name}? It has the same size." if same_size else None


def made_again(older: Dim, newer: Dim) -> str | None:
    """A hint if the same line made both dims; None if not.

    Example: "time was made twice, by cell 2, line 1. x still has the first one: run cell 3 again".
    """
    if older.made is None or newer.made is None or not same_line(older, newer):
        return None
    text = f"{older.name} was made twice, by {newer.made.place()}"
    names = _holders(older)
    if not names:
        return f"{text}: remake everything that was made before the second time"
    cells = sorted({number for name in names if (number := _cell_of(name)) is not None})
    holders = ", ".join(names[:4]) + (", …" if len(names) > 4 else "")
    verb = "has" if len(names) == 1 else "have"
    advice = f"run cell{'s' * (len(cells) > 1)} {', '.join(map(str, cells))} again" if cells else "remake them"
    return f"{text}. {holders} still {verb} the first one: {advice}"


def _holders(dim: Dim) -> list[str]:
    """The names of the user's variables whose values have `dim`: tensors, and modules with such parameters."""
    frame = user_frame()
    if frame is None:
        return []
    scope = {**frame.f_globals, **locals_of(frame)}
    return [name for name, value in scope.items() if not name.startswith("_") and _has(value, dim)]


def _has(value: object, dim: Dim) -> bool:
    if hasattr(type(value), "named_parameters") and hasattr(value, "parameters"):
        return any(_has(parameter, dim) for parameter in value.parameters())
    dims: Iterable[Any] = getattr(getattr(value, "sig", None), "dims", ())
    return any(dim is part or dim.serial in part.roots for part in dims)


def _cell_of(name: str) -> int | None:
    """The number of the newest cell that assigns to `name`."""
    numbers = [cell.number for cell in CELLS.values() if _assigns(cell.text, name)]
    return max(numbers, default=None)


def _assigns(text: str, name: str) -> bool:
    try:
        tree = ast.parse(text)
    except SyntaxError:
        return False
    return any(
        isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store) and node.id == name for node in ast.walk(tree)
    )

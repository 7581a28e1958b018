"""`rf.show` and `rf.show_attention`: views on demand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from rfnb.backend.base.tape import untaped
from rfnb.display import bundle
from rfnb.display.view import View
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.core.dim import Dim
    from rfnb.core.tensor import Tensor


def show(shown: Any, *, batch: int | str | None = None, **positions: int | str) -> View:
    """A view of a tensor, dim, module or run.

    >>> layer = rf.Dim(2, name="layer")
    >>> x = rf.convert_to_tensor([[1.0, 2.0], [3.0, 4.0]], dims=[rf.batch_dim, layer], tags=["kiwi", "banana"])
    >>> rf.show(x, batch="banana", layer=1)
    x of 'banana', layer 1 Tensor float32 {}
      4

    Args:
        batch: one sequence of a tensor or run, by number or tag.
        positions: of a tensor: for a dim by name, which of its entries: a number, or a label of its vocab.

    Raises ViewError if there is no such view, sequence, dim or position.
    """
    choice = positions if batch is None else {"batch": batch, **positions}
    try:
        return View(bundle.describe(shown, **choice))
    except TypeError as error:
        said = ", ".join(f"{name}={value!r}" for name, value in choice.items())
        if choice and "unexpected keyword" in str(error):
            raise ViewError(f"show: a {type(shown).__name__} has nothing to choose from", got=said) from None
        if "no view for" not in str(error):
            raise
    known = ", ".join(sorted(t.__name__ for t in bundle.DESCRIBE))
    raise ViewError("show: there is no such view", got=type(shown).__name__, expected=known)


def show_attention(
    weights: Tensor,
    *,
    rows: Dim | Tensor | Sequence[str] | None = None,
    cols: Dim | Tensor | Sequence[str] | None = None,
    batch: int | str | None = None,
) -> View:
    """The weights of one sequence as a picture: `rows` attend to `cols`.

    Args:
        weights: with two axes besides the one that counts sequences; the mean is taken over any other.
        rows, cols: the Dim of each side, or its labels: strings, or a sparse Tensor with a vocab.
        batch: number or tag of the sequence; the first one if not given.
    """
    from rfnb.display.views import attention

    with untaped():
        return View(attention.describe(weights, rows=rows, cols=cols, batch=batch))

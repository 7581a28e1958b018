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


def show(shown: Any, *, batch: int | str | None = None) -> View:
    """A view of a tensor, dim, module or run; of one sequence, by number or tag, if `batch` is given.

    Raises ViewError if there is no such view.
    """
    choice = {} if batch is None else {"batch": batch}
    try:
        return View(bundle.describe(shown, **choice))
    except TypeError as error:
        if "no view for" not in str(error) and "batch" not in str(error):
            raise
        known = ", ".join(sorted(t.__name__ for t in bundle.DESCRIBE))
        raise ViewError("show: there is no such view", got=type(shown).__name__, expected=known) from None


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

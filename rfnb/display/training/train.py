"""`rf.progress` and `rf.gradient_norms`, for training loops in plain torch."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from rfnb.display.training.gradient_norms import GradientNorms
    from rfnb.display.training.progress import Progress

B = TypeVar("B")


def progress(
    batches: Iterable[B],
    *,
    total: int | None = None,
    plot: bool | Collection[str] = True,
    smooth: float | None = None,
    name: str | None = None,
) -> Progress[B]:
    """Iterates over batches with a progress bar; in a notebook it also draws curves of reported measures.

    >>> batch, feat, out = rf.Dim(4, name="batch"), rf.Dim(3, name="feat"), rf.Dim(2, name="out")
    >>> model = rf.Linear(feat, out)
    >>> optimizer = torch.optim.SGD(rf.torch_parameters(model), lr=0.1)
    >>> progress = rf.progress([rf.ones([batch, feat]) for _ in range(4)])
    >>> for x in progress:
    ...     loss = rf.square(model(x))  # {batch, out}
    ...     progress.report(loss=loss)  # its mean
    ...     optimizer.zero_grad()
    ...     rf.reduce_mean(loss, axis=loss.dims).backward()
    ...     optimizer.step()
    >>> progress.step, len(progress.history), sorted(progress.history[0])
    (3, 4, ['epoch', 'loss', 'step'])

    Losses that the model marks (`loss.mark_as_loss("ce")` in the context of `rf.init_train_step_run_ctx()`) are
    reported automatically; if there are several entries, their mean. Iterating again starts the next epoch. The plot
    stays in the saved notebook, also when the loop is interrupted.

    Args:
        total: how many batches there are, if `len(batches)` does not say.
        plot: False: only the bar. Names: the curves of these.
        smooth: how many values the running mean is over; 3 % of them if not given.
        name: the text before the bar.

    Reported values are read a few times a second, so that a GPU need not wait. `progress.history` has all of them, one
    dict per step; `.table()` has a column for each measure, and `.figure()` is a matplotlib figure. Of several
    processes started by torchrun, only the first shows it.
    """
    from rfnb.display.training.progress import Progress

    return Progress(batches, total=total, plot=plot, smooth=smooth, name=name)


def gradient_norms(model: object) -> GradientNorms:
    """The norms of gradients after `backward()`, by parameter and module; NaN, Inf, zero and missing ones are flagged.

    >>> feat, out = rf.Dim(2, name="feat"), rf.Dim(3, name="out")
    >>> model = rf.Sequential(rf.Linear(feat, out), rf.Linear(out, out))
    >>> rf.reduce_sum(model[0](rf.ones([feat])), axis=out).backward()
    >>> norms = rf.gradient_norms(model)
    >>> round(norms.total, 3), norms.bad
    (3.0, {'1.weight': 'no gradient', '1.bias': 'no gradient'})
    >>> {name: round(norm, 3) for name, norm in norms.modules.items()}
    {'': 3.0, '0': 3.0, '1': 0.0}

    `.parameters` are the numbers by name, `rf.show(norms).table()` has all in rows. model: of rfnb, or of torch.
    """
    from rfnb.display.training.gradient_norms import gradient_norms

    return gradient_norms(model)

"""`rf.show` and `rf.show_attention`: views on demand."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Collection, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from rfnb.backend.base.tape import untaped
from rfnb.core.graph.model_graph import keywords_of, title
from rfnb.core.ground.source import locals_of, user_frame, user_source
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.op import guarded
from rfnb.display.kit.view import View, describe, kind_of, maker, views
from rfnb.display.tensor import arrays, view as tensor_view
from rfnb.display.tensor.view import select
from rfnb.errors import ViewError

if TYPE_CHECKING:
    from rfnb.core.dims.dim import Dim
    from rfnb.core.tensor.tensor import Tensor
    from rfnb.display.training.gradient_norms import GradientNorms
    from rfnb.display.training.progress import Progress
    from rfnb.trace.run.run import Run


def show(
    shown: object,
    *inputs: object,
    batch: int | str | None = None,
    dims: Sequence[str | Dim] | None = None,
    lengths: object = None,
    **positions: object,
) -> View:
    """A view of a tensor, plain array, nested structure, dim, module or run.

    >>> layer = rf.Dim(2, name="layer")
    >>> x = rf.convert_to_tensor([[1.0, 2.0], [3.0, 4.0]], dims=[rf.batch_dim, layer], tags=["kiwi", "banana"])
    >>> rf.show(x, batch="banana", layer=1)
    x of 'banana', layer 1 Tensor float32 {}
      4
    >>> rf.show(np.array([[1.0, 2.0], [3.0, 0.0]]), dims=["batch", "time"], lengths=[2, 1])
    array numpy.ndarray float64 {batch:2, time:1–2 Σ3}
      μ 2  σ 0.816  [1 █▁▁▁█▁▁█ 3]
      batch 0  1 2
      batch 1  3 ·

    Args:
        inputs: of a model or function: what to call it with; the view is the graph of that call, as from
            `rf.model_graph`. All keywords that the call knows go to it: `rf.show(model, input_ids=ids, lengths=n)`. The
            others are options of the graph: `meta`, `show`, `calls`, `loss`, and what its view shows: `depth`, `open`,
            `hide`. A model that takes an argument with the name of an option gets it.
        batch: one sequence of a tensor or run, by number or tag.
        dims: of a plain array: the names of its axes, or Dims.
        lengths: of a plain array: how long each sequence is, along the first axis that is neither batch nor
            features; or by name: `{"time": [5, 3]}`.
        positions: of a tensor: for a dim by name, which of its entries: a number, or a label of its vocab.

    Raises ViewError if there is no such view, sequence, dim, position or keyword, or dims and lengths do not fit.
    """
    choice = positions if batch is None else {"batch": batch, **positions}
    named = {**choice, **{name: x for name, x in (("dims", dims), ("lengths", lengths)) if x is not None}}
    kind = kind_of(shown)
    if inputs or _is_call(shown, kind, named):
        return _graph(shown, inputs, named)
    if dims is not None or lengths is not None or (kind in (None, "tree") and arrays.is_array(shown)):
        return _array(shown, dims, lengths, choice)
    if kind is None:
        kinds = ", ".join(sorted({name.rpartition(".")[2] for name in views().kinds}))
        hint = "the graph of a call: rf.model_graph(f)" if callable(shown) else None
        raise ViewError(
            "show: there is no such view", got=type(shown).__name__, expected=f"an array, {kinds}", hint=hint
        )
    return View(describe(shown, **choice))


CALL_OPTIONS = ("meta", "show", "calls", "loss")
GRAPH_OPTIONS = (*CALL_OPTIONS, "depth", "open", "hide")
"""Options of `rf.show` for the call of a model: those of `rf.model_graph`, and of the view of a graph."""


def _is_call(shown: object, kind: str | None, named: dict[str, object]) -> bool:
    """Whether keywords are arguments of a model's or a function's call, not a choice of what its view shows."""
    if not named or not callable(shown) or isinstance(shown, type) or arrays.is_array(shown):
        return False
    options = () if kind is None else (*inspect.signature(maker(kind)).parameters, *GRAPH_OPTIONS)
    return any(name not in options or name in keywords_of(shown)[0] for name in named)


def _graph(model: object, inputs: tuple[object, ...], named: dict[str, Any]) -> View:
    from rfnb.trace.graph.model_graph import graph_of_call

    if not callable(model):
        raise ViewError(
            "show: one thing at a time",
            got=f"{type(model).__name__} and {len(inputs)} more",
            expected="a model or a function before its inputs",
            hint="rf.show([x, y]), or rf.show(x, batch=…)",
        )
    parameters, takes_any = keywords_of(model)
    options = {name: named.pop(name) for name in GRAPH_OPTIONS if name in named and name not in parameters}
    unknown = [name for name in named if name not in parameters and not takes_any]
    if unknown:
        raise ViewError(
            f"show: the call of {title(model)} does not take {', '.join(map(repr, unknown))}",
            expected=f"{', '.join(parameters) or 'no argument'}; for the graph: {', '.join(GRAPH_OPTIONS)}",
            hint=did_you_mean(unknown[0], [*parameters, *GRAPH_OPTIONS]),
        )
    call_options = {name: options.pop(name) for name in CALL_OPTIONS if name in options}
    return View(describe(graph_of_call(model, inputs, named, **call_options), **options))


def _array(array: object, dims: Sequence[str | Dim] | None, lengths: object, choice: dict[str, Any]) -> View:
    with untaped():
        data = arrays.data_of(array, dims, lengths)
        return View(tensor_view.describe_data(select(data, choice.pop("batch", None), **choice)))


def show_dims(*objects: object) -> View:
    """A table of the dims of models, tensors, batches, runs and graphs; without any, of your variables.

    Likely mistakes come first: two dims with the same name, or a dim with different lengths in different tensors.

    >>> time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    >>> x = rf.convert_to_tensor(np.ones((2, 3, 2)), dims=[rf.batch_dim, time, feat], lengths=[3, 1])
    >>> [row["dim"] for row in rf.show_dims(x).table()]
    ['batch', 'time', 'feat']

    Args:
        objects: objects that have dims, also in lists and dicts.
    """
    from rfnb.display.dims import page_of_dims

    with untaped():
        if objects:
            return View(page_of_dims(zip(_names(objects), objects, strict=True)))
        frame = user_frame()
        scope = {} if frame is None else {**frame.f_globals, **locals_of(frame)}
        variables = [x for x in scope.items() if not x[0].startswith("_")]
        variables.sort(key=lambda x: x[0] in ("In", "Out"))  # what IPython keeps has better names
        return View(page_of_dims(variables, "your dims"))


def _names(objects: Sequence[object]) -> list[str]:
    """What the user's line calls the objects; for others their names or classes."""
    source = user_source()
    call = source.syntax() if source is not None else None
    written = call.args if isinstance(call, ast.Call) and len(call.args) == len(objects) else [None] * len(objects)
    return [_name(value, node) for value, node in zip(objects, written, strict=True)]


def _name(held: object, node: ast.expr | None) -> str:
    if node is None or isinstance(node, ast.Starred | ast.List | ast.Dict | ast.Tuple):
        return str(getattr(held, "name", None) or type(held).__name__)
    return ast.unparse(node)


@guarded
def stepper(run: Run, batch: int | str | None = None) -> object:
    """A widget that steps through `run`; where widgets are not available, its static history with a note.

    >>> time, feat = rf.Dim(3, name="time"), rf.Dim(2, name="feat")
    >>> loop = rf.Loop(axis=time, name="sum")
    >>> loop.state.total = rf.zeros([feat])
    >>> with rf.recording("last"), loop:
    ...     loop.state.total = loop.state.total + 1
    >>> widget = rf.stepper(rf.runs["sum"])

    Args:
        batch: the sequence to look at first, by number or tag.
    """
    from rfnb.display.panel import stepper as widget

    if not hasattr(run, "steps"):
        raise ViewError("stepper: `run` is not a recorded run", got=type(run).__name__, expected='rf.runs["name"]')
    return widget.make(run, batch)


@guarded
def show_attention(
    weights: object,
    *,
    rows: Dim | Tensor | Sequence[str] | Sequence[Sequence[str]] | None = None,
    cols: Dim | Tensor | Sequence[str] | Sequence[Sequence[str]] | None = None,
    batch: int | str | None = None,
    layer: int | str | None = None,
    head: int | str | None = None,
    dims: Sequence[str] | None = None,
    lengths: object = None,
    seconds: float | tuple[float | None, float | None] | None = None,
    sort: Literal["entropy", "monotonicity", "coverage", "diagonal"] | None = None,
    tokenizer: object = None,
    audio: tuple[object, float] | None = None,
) -> View:
    """Attention of one sequence: small pictures of all layers and heads, and one large: `rows` attend to `cols`.

    >>> phone, letter = rf.Dim(2, name="phone"), rf.Dim(3, name="letter")
    >>> weights = rf.convert_to_tensor([[0.9, 0.1, 0.0], [0.2, 0.7, 0.1]], dims=[phone, letter])
    >>> rf.show_attention(weights, rows=["B", "AH"], cols="bat")
    weights: {phone:2} attends to {letter:3}
      B   b 0.9  a 0.1  t 0
      AH  a 0.7  b 0.2  t 0.1

    `.table()` has a row for each head. `rfnb/display/attention/view.py` defines entropy, monotonicity, coverage and
    so on, with references; all lie between 0 and 1. `.figure()` is a figure for a paper.

    Args:
        weights: a Tensor; an array of torch or numpy, [layers, batch, heads, rows, columns] or the last two, three
            (heads) or four (batch, heads) of these; a list of either, one for each layer, whose sizes may differ; or
            what `rf.capture` saw.
        rows, cols: of each side its Dim, or its labels: strings (a list of them for each sequence, if they differ), or
            a sparse Tensor with a vocab.
        batch: number or tag of the sequence; the first one if not given.
        layer, head: only these, by number (a layer of `rf.capture` by name as well); or "mean", over them.
        dims: what the axes of an array are, if it is not as above: ["batch", "query", "key"]. "layer", "batch" and
            "head" have a meaning; the two others are rows and columns.
        lengths: of the sequences of an array: of the columns, or (of the rows, of the columns).
        seconds: the duration of a frame (0.01) or the frames per second (100); the axis is then labelled in seconds. It
            refers to the dim from which the columns are derived: an entry of time/4 is four frames. A pair: (rows,
            columns).
        sort: the order of the heads, and so which one is drawn large: by the lowest entropy, or by the largest value of
            another measure.
        tokenizer: of Hugging Face or another library, or an `rf.Vocab`: for the labels of `generate`, whose numbers
            `rf.capture` saw.
        audio: the sound that the columns stand for, from the first to the last: (samples from −1 to 1, samples a
            second). Its spectrogram is drawn above them; a click on a column plays from there, also in a saved page.

    Raises ViewError if there are no two sides, no such sequence, layer or head, or `audio` is not a sound.
    """
    from rfnb.display.attention import view as attention_view

    with untaped():
        return View(
            attention_view.describe(
                weights, rows=rows, cols=cols, batch=batch, layer=layer, head=head, dims=dims, lengths=lengths,
                seconds=seconds, sort=sort, tokenizer=tokenizer, audio=audio,
            )
        )  # fmt: skip


B = TypeVar("B")


@guarded
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

"""`rf.Loop`: its body is written as one step of the maths, and runs for all steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.binding import bind_again
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.ground.nested import arranged, form_of, map_leaves, named_leaves
from rfnb.core.ground.text import did_you_mean
from rfnb.core.tensor.arguments import CountFrom0, Name
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DtypeError, LoopError, LoopNameError, ParameterError
from rfnb.loop.body.body import Body, abort, end, entered, iter_idx, last, reorder, stack, unstack
from rfnb.loop.body.end_of_step import close
from rfnb.loop.choice import choose
from rfnb.loop.replay.profile import profile
from rfnb.loop.replay.replay import EnclosingCall, current_call
from rfnb.loop.run_body import BodyRun
from rfnb.loop.step import has_steps
from rfnb.loop.steps.explain import Explanation, ExplanationData
from rfnb.ops.shape import expand_dims
from rfnb.printable import encodable, printable_name

if TYPE_CHECKING:
    from rfnb.core.ground.source import Listing
    from rfnb.loop.step import TracedStep
    from rfnb.trace.record.record import Recorder
    from rfnb.trace.run.run import Run


class Loop:
    """A loop over the frames of a sequence, or until a condition is true.

    >>> time, feat = rf.Dim(None, name="time"), rf.Dim(2, name="feat")
    >>> x = rf.convert_to_tensor([[[1, 0], [2, 0]], [[3, 1]]], dims=[rf.batch_dim, time, feat])
    >>> loop = rf.Loop(axis=time)
    >>> loop.state.total = rf.zeros([rf.batch_dim, feat], dtype="int64")
    >>> with loop:
    ...     x_t = loop.unstack(x)  # {batch, time, feat} → {batch, feat}
    ...     loop.state.total = loop.state.total + x_t
    ...     totals = loop.stack(loop.state.total)  # → {time, batch, feat}, when the block ends
    >>> loop.state.total.raw_tensor.tolist()
    [[3, 0], [3, 1]]

    Python runs the body once, on frame 0, to trace it; all steps are then computed from the trace.
    Ended sequences keep their state: after the loop, `loop.state.h` is the state at the end of each sequence.
    The same Loop may be entered again; it then continues from its final state.

    Args:
        max_seq_len: the largest number of steps: an int, or a Tensor {batch}.
        axis: the axis to step along; for loops with `end`, the Dim of stacked outputs.
        optimize_move_layers_out: by default, ops that do not depend on a state run before the steps, for all steps
            together, and ops that only outputs depend on run after them; see `explain`. False runs all ops in the
            steps. Values agree up to rounding.
        unroll: accepted for compatibility; it has no effect.
        debug: whether to record the steps; None follows `rf.options.record`.
        recompute: with gradients, keep only the states before every so many steps, and compute the values inside of
            these steps again in the backward pass: best about √steps. 0 keeps all values. Results are the same.
        name: shown in the list of runs and in errors.
    """

    is_kept = False  # whether the traced step is used again

    @guarded
    def __init__(
        self,
        *,
        max_seq_len: Tensor | int | None = None,
        optimize_move_layers_out: bool | None = None,
        unroll: bool = False,
        axis: Dim | None = None,
        debug: bool | None = None,
        recompute: CountFrom0 = 0,
        name: Name = "loop",
    ):
        if axis is not None:
            check_dims([axis], "Loop")
            if has_steps(axis):
                bind_again(axis.size.dims, axis.lengths)  # the batch of the axis becomes the current one
        self.max_seq_len = max_seq_len
        self.optimize_move_layers_out = optimize_move_layers_out
        self.unroll = unroll
        self.axis = axis
        self.debug = debug
        self.recompute = recompute
        self.name = name
        self.file: str | None = None  # a file of rfnb whose lines are the step: values get the names of its variables
        self.listing: Listing | None = None  # the lines that stand for the step, if it is not written as code
        self.warns = True  # of states and ends that look like mistakes; not where rfnb writes the body itself
        self.run: Run | None = None
        self.found: Any = None  # the result of the search, if the body has a choice
        self._state = StateHolder(name)
        self._body: Body | None = None
        self._call: EnclosingCall | None = None  # that the loop runs in, if it is recorded
        self._explanation_data: ExplanationData | None = None

    @property
    def state(self) -> StateHolder:
        """The values carried from step to step."""
        return self._state

    @state.setter
    def state(self, values: Any) -> None:
        for name, value in values.items():
            self._state[name] = value

    @property
    def recorder(self) -> Recorder:
        """What records the body while it is traced."""
        return self._open_body("the recorder").recorder

    @property
    def has_entered_scope(self) -> bool:
        """Whether the body of the loop is being traced now."""
        return self._body is not None

    @property
    def max_seq_len(self) -> Tensor | int | None:
        """The largest number of steps, if one was given."""
        return self._max_seq_len

    @max_seq_len.setter
    def max_seq_len(self, longest: Tensor | int | None) -> None:
        kind = longest.dtype if isinstance(longest, Tensor) else type(longest).__name__
        if not (longest is None or isinstance(longest, int | np.integer) or kind.startswith(("int", "uint"))):
            raise DtypeError("Loop: max_seq_len must be a number of steps", got=kind, expected="an integer")
        if isinstance(longest, int | np.integer) and longest < 0:
            raise ParameterError("Loop: max_seq_len is negative", got=longest, expected="0 or more")
        self._max_seq_len = longest

    def __enter__(self) -> Loop:
        if self._body is not None:
            raise LoopError(f"{self.name}: the loop is entered twice", hint="make a Loop for each `with`")
        body = Body(self)
        self._call = current_call() if body.outer is None and body.recorder.recorded else None
        body.open()
        self._body = body
        entered.set((*entered.get(), body))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        body, self._body = self._open_body("the end"), None
        entered.set(entered.get()[:-1])
        if error is None:
            body.backend.uncompiled(lambda: self._run(close(body)))
            return
        body.end_of_lines()
        abort(body)
        error.add_note(f"in step 0 of {self.name}, while its body was traced")

    def _run(self, step: TracedStep) -> None:
        BodyRun(self, step).run()

    def _open_body(self, what: str) -> Body:
        if self._body is None:
            raise LoopError(f"{self.name}: {what} outside of the body", hint="inside `with loop:`")
        return self._body

    @guarded
    def unstack(self, source: Tensor, *, axis: Dim | None = None, name: str | None = None) -> Tensor:
        """The frame of this step. {…, axis} → {…}

        After its end, a sequence repeats its last frame, or, unless the loop is recorded, goes on with its padding.
        What is computed there counts nowhere.

        >>> time, feat = rf.Dim(None, name="time"), rf.Dim(3, name="feat")
        >>> x = rf.convert_to_tensor(np.ones((2, 5, 3)), dims=[rf.batch_dim, time, feat], lengths=[5, 2])
        >>> loop = rf.Loop(axis=time)
        >>> with loop:
        ...     frame = loop.unstack(x)
        ...     frame.dims == (rf.batch_dim, feat)
        True
        """
        frame = unstack(self._open_body("unstack"), source, axis)
        return frame if name is None else frame.with_name(name)

    @guarded
    def stack(self, source: Tensor, *, name: str | None = None, resolve: bool = True) -> Tensor:
        """The values of all steps, available after the block. {…} → {axis, …}

        After a `choice`, those of each final hypothesis; with `resolve=False`, by the places of the beam at each step.

        >>> time = rf.Dim(None, name="time")
        >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
        >>> loop = rf.Loop(axis=time)
        >>> with loop:
        ...     y = loop.stack(loop.unstack(x) * 10)
        >>> y.dims == (time, rf.batch_dim), rf.reduce_sum(y, axis=time).raw_tensor.tolist()
        (True, [60, 40])
        """
        return stack(self._open_body("stack"), source, name, resolve)

    @guarded
    def last(self, source: Tensor, *, name: str | None = None) -> Tensor:
        """The value at the last step of each sequence, available after the block. {…} → {…}

        If `source` lacks a dim that the lengths depend on, such as the batch dim, the result has it. In a search, the
        last step is that of each final hypothesis; one without labels has 0.

        >>> time = rf.Dim(None, name="time")
        >>> x = rf.convert_to_tensor([[1, 2, 3], [4]], dims=[rf.batch_dim, time])
        >>> loop = rf.Loop(axis=time)
        >>> with loop:
        ...     y = loop.last(loop.unstack(x) * 10)
        >>> y.raw_tensor.tolist()
        [30, 40]
        """
        body = self._open_body("last")
        return last(body, _of_each_sequence(body, source), name)

    @guarded
    def end(self, source: Tensor, *, include_eos: bool) -> None:
        """Ends each sequence at the step where `source` is true. {batch, …} bool

        include_eos: whether that step itself counts: its frame is stacked, and its state is the last one.

        >>> steps = rf.Dim(None, name="steps")
        >>> loop = rf.Loop(max_seq_len=9, axis=steps)
        >>> loop.state.n = rf.convert_to_tensor([1, 5], dims=[rf.batch_dim])
        >>> with loop:
        ...     loop.state.n = loop.state.n * 2
        ...     loop.end(loop.state.n > 15, include_eos=True)
        >>> loop.state.n.raw_tensor.tolist(), steps.get_size_tensor().raw_tensor.tolist()
        ([16, 20], [4, 2])
        """
        end(self._open_body("end"), source, include_eos)

    @guarded
    def reorder(self, indices: Tensor, dim: Dim) -> None:
        """Reorders all states by `indices` along `dim`, including what the loop itself carries: for beam search.

        It takes effect at once: values set after this line are expected in the new order.

        >>> beam = rf.Dim(2, name="beam")
        >>> loop = rf.Loop(max_seq_len=1)
        >>> loop.state.score = rf.convert_to_tensor([1.0, 2.0], dims=[beam])
        >>> with loop:
        ...     loop.reorder(rf.convert_to_tensor([1, 0], dims=[beam], sparse_dim=beam), beam)
        ...     loop.state.score = loop.state.score * 10
        >>> loop.state.score.raw_tensor.tolist()
        [20.0, 10.0]
        """
        reorder(self._open_body("reorder"), indices, dim)

    def choice(self, scores: object, **options: object) -> Any:
        """The best extensions of the hypotheses of a beam by one label: a step of beam search. {…, beam, labels}

        The first hypothesis has no labels. All states with `beam` follow their hypotheses: at the next step, each
        hypothesis has the states of the one that it extends. After the loop, stacked values are those of the final
        hypotheses, and `loop.found` has their scores, their lengths and the tree. States go on after the end of a
        hypothesis, until the loop ends; `loop.last(loop.state.h)` has those of its last step.

        >>> label, before, beam = rf.Dim(3, name="label"), rf.Dim(3, name="before"), rf.Dim(2, name="beam")
        >>> table = rf.convert_to_tensor([[2.0, 3.0, 0.0], [1.0, 0.0, 2.0], [0.0, 0.0, 0.0]], dims=[before, label])
        >>> loop = rf.Loop(max_seq_len=9)
        >>> loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=label)
        >>> with loop:
        ...     logits = rf.gather(table, indices=loop.state.prev, axis=before)
        ...     chosen = loop.choice(logits, beam=beam, input_type="logits")  # .labels .parents .scores .follow(x)
        ...     loop.state.prev = chosen.labels
        ...     loop.end(chosen.labels == 2, include_eos=True)
        ...     labels = loop.stack(chosen.labels)  # {steps, beam}: by final hypothesis
        >>> labels.copy_transpose([beam, loop.axis]).tolist(), loop.found.lengths.tolist()
        ([[1, 2, 0], [0, 1, 2]], [2, 3])

        Values from before the choice and after it have different dims of the same name; `chosen.follow(x)` takes a
        value from before to the hypotheses after it.

        Args:
            scores: of the labels, for each hypothesis; without `beam`, the same for all. For a list of several sources,
                each candidate is a combination of a label of each: of the best `source_beam_sizes` labels of each one.
                Or a dict of parts that are added up, `{"model": logits, "lm": (lm, 0.4), "length": 0.1}`: by name a
                Tensor, a scorer (`rf.search.Scorer`) or a module such as a language model, alone or with its scale;
                for "length", the reward of each label. The parts of each hypothesis are kept, for the tree and
                `found.rerank(lm=0.6)`.
            start: the label before the first one, for scorers. partial_candidates: how many labels of each hypothesis
                scorers see that cost much (`rf.search.PartialScorer`); default: twice the beam.
            beam: the dim of the hypotheses, which the states have. beam_size: how many there are after this choice, if
                it is not the last one of the step.
            axis: the dim of the labels; default: the feature dim of `scores`, or the only dim that the states lack.
            input_type: "prob", "log_prob" or "logits". Scores of log-probabilities add up.
            prob_scale: of the scores of labels. base_beam_score_scale: of the scores of hypotheses before the step.
            random_sample_scale: of Gumbel noise that is added to the scores of labels.
            length_normalization: whether hypotheses of different length are compared by
                score / length ** length_normalization_exponent. The length counts the end label. With
                length_normalization_offset, by score / ((offset + length) / (offset + 1)) ** exponent (Wu et al. 2016,
                whose offset is 5).
            custom_score_combine: the score of a candidate, instead of a sum: a function of the scores of labels
                {…, beam, labels} and those of the hypotheses before the step {…, beam}.
            keep_beams: each hypothesis is extended by as many labels, its own best ones.
            target: the right labels of this step. search=False: they are chosen, without a search;
                scheduled_sampling: or, with this probability, a label that is drawn from `scores`;
                add_to_beam_scores: their scores are added to those of the hypotheses.
            cheating: the last hypothesis is the one of the target, whatever its score; "exclusive": no other is.
            groups: the beam consists of so many groups, where a label costs a candidate `diversity` for each time that
                an earlier group chose it in this step (https://arxiv.org/abs/1610.02424).
            threshold: hypotheses that are worse than the best by more than this die.
            ended: "compete": ended hypotheses compete with the others for the places of the beam. "apart": they have
                places of their own, the last ones of the beam, so that they take none from those that go on; needs
                end=, the label that ends them. living: how many places are for those that go on; default: half.
            patience: the search of a sequence stops when patience · living hypotheses have ended; with ended="apart"
                (https://arxiv.org/abs/2204.05424). By default, as many go on as leave room for those that end.
            early_stop: it stops when so many of the best hypotheses are certain, as no other can become better; those
                that go on lose their places then. most_gain: the most that a label adds to a score; by default 0 for
                log-probabilities and positive scales, as scores can only fall.
            candidates: how many of the candidates that found no place are kept of each step, for the tree. A recorded
                loop needs none, as its steps are computed again, unless hypotheses merge or a step has several choices.
            blank: the number of a label that stands for no label, in a search over frames. Scores are then not
                normalized by length. merge: two hypotheses with the same labels but for blanks become one, with the
                "sum" of their probabilities or the "max"; None: they stay apart. Scorers score labels, not blanks.
            label_loop: whether a label may take several frames, as in CTC: then `labels` has the label in one of them
                and blank in the others, and two equal labels need a blank between them.

        Raises LoopError outside of a body, in a branch, or in a loop inside of another; DimError if the dims do not
        fit; SearchError after the loop, if the score of a hypothesis is NaN.
        """
        return choose(self._open_body("choice"), scores, **options)

    @property
    def iter_idx(self) -> Tensor:
        """The number of this step, from 0. {} int64"""
        return iter_idx(self._open_body("iter_idx"))

    def explain(self, *, time: bool = False) -> Explanation:
        """Where each op of the body ran when the loop last ran: before, in or after the steps; and the state that keeps
        it in the steps.

        time: whether to measure how long each took, as `rf.profile(loop.run)` does; the loop must have been recorded.

        Raises LoopError if there is no recorded run to be timed.

        >>> time = rf.Dim(4, name="time")
        >>> x = rf.ones([time])
        >>> loop = rf.Loop(axis=time, name="adding")
        >>> loop.state.s = rf.zeros([])
        >>> with loop:
        ...     loop.state.s = loop.state.s + rf.exp(loop.unstack(x))  # exp needs no state, + needs s
        >>> rf.show(loop.explain()).text.splitlines()[0]
        'adding: 1 op for all steps together, 1 in each step'
        """
        if not time:
            return Explanation(self.name, self._explanation_data)
        if self.run is None:
            raise LoopError(
                f"{self.name}: only a recorded loop can be timed",
                got="a loop that was not recorded" if self._explanation_data is not None else "a loop that has not run",
                hint="rf.Loop(…, debug=True), or run it in `with rf.recording('last'):`",
            )
        return profile(self.run)

    def __repr__(self) -> str:
        steps = f", {self.run.steps} steps recorded" if self.run is not None else ""
        axis = f"axis={printable_name(self.axis.name)}" if self.axis is not None else "no axis"
        state = ", ".join(map(printable_name, self.state)) or "none"
        return encodable(f"Loop '{printable_name(self.name)}' ({axis}, state: {state}{steps})")


def _of_each_sequence(body: Body, source: Tensor) -> Tensor:
    """The value with all dims that the number of steps depends on."""
    axis = body.loop.axis
    size = axis.size if body.size is None and axis is not None and has_steps(axis) else body.size
    lacking = [dim for dim in size.dims if dim not in source.dims] if size and isinstance(source, Tensor) else []
    if body.hypotheses is not None and body.hypotheses.has(source):
        lacking = [dim for dim in lacking if dim is not body.hypotheses.beam]
    return expand_dims(source, lacking) if lacking else source


class StateHolder:
    """Named values, possibly nested: `loop.state.h = rf.zeros(…)`, `loop.state.lstm = rf.State(h=…, c=…)`.

    Lists, tuples, dicts, dataclasses and namespaces may be nested in any way.
    Before the loop, these are the initial values; in the body, the values of the previous step until they are set;
    after the loop, the final values. A state that is None stays None.
    """

    _on_read: Callable[[Any], None] | None = None  # set while the body is traced
    _on_set: Callable[[str], None] | None = None

    def __init__(self, loop_name: str):
        self._loop_name = loop_name
        self._values: dict[str, object] = {}

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):
            raise AttributeError(name)
        return self[name]

    def __setattr__(self, name: str, value: object) -> None:
        if name.startswith("_"):
            object.__setattr__(self, name, value)
        else:
            self[name] = value

    def __getitem__(self, name: str) -> Any:
        if name not in self._values:
            near = did_you_mean(name, self._values)
            raise LoopNameError(
                f"{self._loop_name}: there is no state {name!r}",
                expected=", ".join(self._values) or "a state set before the loop",
                hint=(f"{near} Otherwise, " if near else "")
                + f"before the loop: loop.state.{name} = rf.zeros([…])  # its initial value",
            )
        value = self._values[name]
        if self._on_read is not None:
            self._on_read(value)
        return value

    def __setitem__(self, name: str, value: object) -> None:
        if self._on_set is not None:
            self._on_set(f"the state {name!r} is set")
            value = arranged(value, self._values.get(name))
            self._check(name, value, self._values)
            self._assigned.add(name)
        self._values[name] = value

    def _check(self, name: str, value: object, before: dict[str, object]) -> None:
        if name not in before:
            raise LoopError(
                f"{self._loop_name}: the state {name!r} has no initial value",
                hint=f"before the loop: loop.state.{name} = …  # the value at the first step",
            )
        olds, news = named_leaves(before[name], name), named_leaves(value, name)
        if [path for path, _ in olds] != [path for path, _ in news]:
            raise LoopError(
                f"{self._loop_name}: the new value of the state {name!r} has a different structure",
                got=_structure(value),
                expected=_structure(before[name]),
            )
        for (path, old), (_, new) in zip(olds, news, strict=True):
            if (old is None) != (new is None):
                raise self._sometimes_none(path, old, new)

    def _sometimes_none(self, path: str, old: object, new: object) -> LoopError:
        value, way = new if old is None else old, None
        dims_text, initial = "a value", "…"
        if isinstance(value, Tensor):
            dims = ", ".join(dim.name for dim in value.dims)
            dims_text, initial = value.describe_dims(), f'rf.zeros([{dims}], dtype="{value.dtype}")'
        if old is None:
            way = f"before the loop: loop.state.{path} = {initial}  # its value at the first step"
        change = "None at first, and has a value later" if old is None else "a tensor at first, and None later"
        return LoopError(
            f"{self._loop_name}: the state {path!r} is {change}",
            got=dims_text if old is None else None,
            expected="None" if old is None else dims_text,
            hint=way,
        )

    def __contains__(self, name: str) -> bool:
        return name in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __repr__(self) -> str:
        names = ", ".join(map(printable_name, self._values))
        return encodable(f"state of {printable_name(self._loop_name)}: {names or 'empty'}")

    # -- for the loop

    def _leaves(self) -> list[tuple[str, Any]]:
        """Full names and values of all tensors and dims; None is left out, as it never changes."""
        return [(name, leaf) for name, leaf in named_leaves(self._values) if leaf is not None]

    def _check_nested(self, before: dict[str, object]) -> None:
        """Checks nested states, of which parts may have been set directly."""
        for name, value in self._values.items():
            if form_of(type(value)) is not None:
                self._check(name, value, before)

    def _replace(self, others: list[object]) -> None:
        """Replaces all leaves and keeps the structure."""
        values = iter(others)
        self._values = map_leaves(lambda leaf: None if leaf is None else next(values), self._values)

    def _map(self, fn: Callable[[Any], object]) -> None:
        self._values = map_leaves(lambda leaf: fn(leaf) if isinstance(leaf, Tensor) else leaf, self._values)

    def _begin_body(self, on_read: Callable[[Any], None], on_set: Callable[[str], None]) -> None:
        self._on_read, self._on_set = on_read, on_set
        self._assigned: set[str] = set()  # names of the states that the body has set

    def _end_body(self) -> None:
        self._on_read = self._on_set = None


def _structure(value: object) -> str:
    """The structure in words, such as "a State with h, c" or "a list of length 2"."""
    if isinstance(value, list | tuple) and not hasattr(value, "_fields"):
        return f"a {type(value).__name__} of length {len(value)}"
    parts = [path for path, _ in named_leaves(value)]
    return "one value" if parts == [""] else f"a {type(value).__name__} with {', '.join(parts) or 'nothing'}"

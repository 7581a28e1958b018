"""Loops as functions, `while_loop` and `scan`, and the lists of tensors that they give, `TensorArray`."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeVar

from rfnb.backend.base.require import require_same_dims
from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.dims.lengths import Size
from rfnb.core.ground import backends
from rfnb.core.ground.nested import arranged, leaves, map_leaves, map_pairs, same_structure
from rfnb.core.tensor.arguments import not_a_tensor
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DtypeError, LoopError, TraceError
from rfnb.loop.pure import NO_AXIS, Keeping, kept_steps, key_of, loop_to_keep
from rfnb.ops.control import cond as branch
from rfnb.ops.create import full
from rfnb.ops.index import gather
from rfnb.ops.math import add, cast, less, logical_and, logical_not, where
from rfnb.ops.nested import mask_nested
from rfnb.ops.reduce import reduce_all, reduce_any
from rfnb.trace.record.record import current_recorder


class TensorArray:
    """An immutable list of tensors with the same dims and dtype.

    >>> feat, steps = rf.Dim(2, name="feat"), rf.Dim(None, name="steps")
    >>> array = rf.TensorArray(rf.Tensor("x", [feat], "float32"))
    >>> for number in (1.0, 2.0, 3.0):
    ...     array = array.push_back(rf.full(dims=[feat], fill_value=number))
    >>> array.stack(axis=steps).raw_tensor.tolist()
    [[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]]

    In the body of an `rf.Loop`, use `loop.stack` instead.

    Args:
        tensor_template: gives the dims and dtype of each tensor; it needs no data, as in `Tensor(name, dims, dtype)`.
    """

    @guarded
    def __init__(
        self,
        tensor_template: Tensor,
        *,
        _backend_tensor_array: list[Tensor] | None = None,
        _backend: Any = None,
        _enable_delayed_check: bool = False,
    ):
        if not isinstance(tensor_template, Tensor):
            raise not_a_tensor("TensorArray: `tensor_template`", tensor_template)
        self.tensor_template = tensor_template
        self._backend = _backend or backends.selected()
        self._tensors = self._backend.tensor_array_create() if _backend_tensor_array is None else _backend_tensor_array

    def _with(self, tensors: list[Tensor]) -> TensorArray:
        return TensorArray(self.tensor_template, _backend_tensor_array=tensors, _backend=self._backend)

    def push_back(self, tensor: Tensor) -> TensorArray:
        """A new array with `tensor` appended. Raises DimError or DtypeError if its dims or dtype differ."""
        require_same_dims("push_back", tensor, self.tensor_template.dims, "tensor")
        if tensor.dtype != self.tensor_template.dtype:
            raise DtypeError("push_back: wrong dtype", got=tensor.dtype, expected=self.tensor_template.dtype)
        return self._with(self._backend.tensor_array_push_back(self._tensors, tensor))

    def stack(self, *, axis: Dim) -> Tensor:
        """All tensors stacked along `axis`, which gets their number as its size if it has none. → {axis, …}

        If `axis` has lengths, tensors after the longest sequence are dropped; `rf.gather` of the result still finds
        them.
        """
        stacked: Tensor = self._backend.tensor_array_stack(
            self._tensors, axis=axis, tensor_template=self.tensor_template
        )
        return stacked

    @classmethod
    def unstack(cls, tensor: Tensor, *, axis: Dim) -> TensorArray:
        """A TensorArray of the frames of `tensor` along `axis`. {…, axis}"""
        backend = backends.backend_of_raw(tensor._raw)
        frames = backend.tensor_array_unstack(tensor, axis=axis)
        dims = [dim for dim in tensor.dims if dim is not axis]
        template = Tensor(tensor.name, dims, tensor.dtype, sparse_dim=tensor.sparse_dim)
        return cls(template, _backend_tensor_array=frames, _backend=backend)

    def __getitem__(self, index: int | Tensor) -> Tensor:
        item: Tensor = self._backend.tensor_array_get_item(self._tensors, index)
        return item

    def __len__(self) -> int:
        return len(self._tensors)

    def __iter__(self) -> Iterator[Tensor]:
        return iter(self._tensors)

    def __repr__(self) -> str:
        return f"TensorArray({len(self)} of {self.tensor_template.describe_dims()})"


S = TypeVar("S")
FOREVER = 2**31 - 1


@guarded
def while_loop(cond: Callable[[S], bool | Tensor], body: Callable[[S], S], initial: S) -> S:
    """Applies `body` to the state, starting with `initial`, as long as `cond` is true.

    >>> feat = rf.Dim(2, name="feat")
    >>> x = rf.convert_to_tensor([1, 5], dims=[feat])
    >>> rf.while_loop(lambda x: rf.reduce_sum(x, axis=feat) < 100, lambda x: x * 3, x).raw_tensor.tolist()
    [27, 135]

    Args:
        cond: function from the state to a bool, or to a Tensor {} bool.
        body: function from a state to the next one, of the same structure; Tensors in it keep their dims and dtype.
        initial: a Tensor, or a structure of Tensors.

    If possible, this runs like `rf.Loop`: `body` is traced once, and its ops are repeated. Otherwise, for example if it
    depends on values, Python calls it at every step. In the body of another loop, it is traced on the first state, even
    if `cond` is false there.
    """
    in_body = current_recorder() is not None
    if not in_body and not bool(cond(initial)):
        return initial
    if in_body or all(leaf is None or type(leaf) is Tensor for leaf in leaves(initial)):
        try:
            return _while_traced(cond, body, initial, first=in_body)
        except TraceError:
            if in_body:
                raise
    state: S = backends.selected().while_loop(cond, _keeping_structure(body, initial), initial)
    return state


def _while_traced(cond: Callable[[S], object], body: Callable[[S], S], initial: S, first: bool) -> S:
    """first: whether `cond` may be false for `initial`. In no case does a step run `body` on a state that `cond`
    refuses, such as an index after the last entry."""
    key = None if first else key_of((cond, body), NO_AXIS, "while_loop", None, initial)
    if (step := kept_steps.find(key, (cond, body))) is not None:
        final_state: S = step.run({"s": initial}, None)[1]["s"]
        return final_state
    keeping = None if key is None else Keeping(key, (cond, body))
    loop = loop_to_keep(keeping, max_seq_len=FOREVER, name="while_loop")
    loop.state.s = initial
    with loop:
        state = loop.state.s
        if first:
            over = _not_again(cond(state))
            loop.end(over, include_eos=False)
            loop.state.s = branch(over, lambda: state, lambda: body(state))
        else:
            loop.state.s = new = body(state)
            loop.end(_not_again(cond(new)), include_eos=True)
    final: S = loop.state.s
    if keeping is not None:
        keeping.done(loop, None, initial)
    return final


def _not_again(go: object) -> Tensor:
    if not isinstance(go, Tensor):
        raise TraceError("while_loop: `cond` returns a Python bool, which cannot change from step to step")
    return logical_not(go)


def _keeping_structure(body: Callable[[S], S], initial: S) -> Callable[[S], S]:
    def checked(state: S) -> S:
        new = arranged(body(state), initial)
        if not same_structure(new, initial):
            raise LoopError(
                "while_loop: `body` returns a different structure from `initial`", got=new, expected=initial
            )
        return new

    return checked


@guarded
def scan(
    *,
    spatial_dim: Dim | None = None,
    cond_dims: Sequence[Dim] | None = None,
    cond_before_body: bool = True,
    initial: object = None,
    xs: object = None,
    ys: object = None,
    cond: Callable[[Any, Any], Tensor] | None = None,
    body: Callable[[Any, Any], tuple[object, object]],
    max_seq_len: Tensor | int | None = None,
    return_tensor_arrays: bool = False,
) -> tuple[Any, Any, Dim]:
    """Steps through `xs`, or as long as `cond` is true. → outputs of all steps, last state, dim of the steps.

    >>> time = rf.Dim(4, name="time")
    >>> sums, total, _ = rf.scan(
    ...     spatial_dim=time, xs=rf.range_over_dim(time), initial=rf.convert_to_tensor(0),
    ...     body=lambda x, total: (total + x, total + x))
    >>> sums.raw_tensor.tolist(), total.item()
    ([0, 1, 3, 6], 6)

    Args:
        spatial_dim: the axis of `xs`; for a scan by `cond` the dim of the result, which it defines.
        initial: the state before the first step; None for no state.
        xs: {…, spatial_dim}, or a structure of such Tensors; `body` gets their frames.
        ys: optional templates that the outputs are checked against; of a `TensorArray`, only their structure counts.
        cond: function from (x, state) to whether a sequence continues, {batch, …} bool; called before each step with
            `cond_before_body`, otherwise after it. `cond_dims` are the dims that its result is checked against.
        body: function from (x, state) to (output, next state); either may be None or a structure.
        max_seq_len: the largest number of steps.
        return_tensor_arrays: whether to return the outputs as a `TensorArray` of steps. If the state also holds Dims,
            such as the beam of the step before, `body` may return other dims at each step; Python calls it then.

    Ended sequences keep their state; their further steps are not part of the dim of the steps. With `xs`, or in the
    body of another loop, `body` runs once more when a `cond` that is called before the steps has become false for all
    sequences; the result of that step is discarded.
    """
    if spatial_dim is single_step_dim:
        outputs, state = body(xs, initial)
        return outputs, state, single_step_dim
    job = _Scan(
        spatial_dim, cond_dims, cond_before_body, initial, xs, ys, cond, body, max_seq_len, return_tensor_arrays
    )
    in_body = current_recorder() is not None
    if in_body or not (return_tensor_arrays and job.carries_dims):
        try:
            outputs, state = job.traced()
        except TraceError:
            if in_body:
                raise
        else:
            if return_tensor_arrays:
                outputs = _map(partial(TensorArray.unstack, axis=job.dim), outputs)
            return outputs, state, job.dim
    frames, state = job.by_steps()
    return job.arrays(frames) if return_tensor_arrays else job.stacked(frames), state, job.dim


@dataclass
class _Scan:
    """The arguments of a scan, and two ways to run it."""

    spatial_dim: Dim | None
    cond_dims: Sequence[Dim] | None
    before: bool
    initial: object
    xs: object
    ys: object
    cond: Callable[[Any, Any], Tensor] | None
    body: Callable[[Any, Any], tuple[object, object]]
    max_seq_len: Tensor | int | None
    into_arrays: bool

    def __post_init__(self) -> None:
        if self.cond is None and self.spatial_dim is None and self.max_seq_len is None:
            raise LoopError("scan: the number of steps is not given", hint="give spatial_dim, cond or max_seq_len")
        for parameter, tree in (("xs", self.xs), ("ys", self.ys)):
            _check_leaves(parameter, tree)
        self.dim = self.spatial_dim if self.spatial_dim is not None else Dim(None, name="scan")
        self.carries_dims = any(isinstance(leaf, Dim) for leaf in leaves(self.initial))

    def goes_on(self, x: object, state: object) -> Tensor:
        """The checked result of `cond`."""
        assert self.cond is not None
        condition = self.cond(x, state)
        if self.cond_dims is not None:
            require_same_dims("scan", condition, self.cond_dims, "cond")
        return condition

    def step(self, x: object, state: object) -> tuple[Any, Any]:
        """The checked result of `body`."""
        outputs, new = self.body(x, state)
        new = arranged(new, state)
        if self.ys is not None:
            outputs = arranged(outputs, self.ys)
            if not self.into_arrays and not same_structure(outputs, self.ys):
                raise LoopError("scan: `body` returns a different structure from `ys`", got=outputs, expected=self.ys)
            for output, template in () if self.into_arrays else zip(leaves(outputs), leaves(self.ys), strict=True):
                if isinstance(template, Tensor):
                    require_same_dims("scan", output, template.dims, "ys")
        return outputs, new

    def traced(self) -> tuple[object, object]:
        """Runs the scan as a Loop. Raises TraceError if its functions depend on values."""
        before = self.before and not self.all_begin()
        functions, key = (self.cond, self.body), None
        if self.max_seq_len is None and self.ys is None:
            key = key_of(functions, self.dim, "scan", before, self.initial, self.xs)
        if (step := kept_steps.find(key, functions)) is not None:
            stacked, states = step.run({"s": self.initial}, self.xs)
            return stacked, states["s"]
        keeping = None if key is None else Keeping(key, functions)
        longest = FOREVER if self.max_seq_len is None and self.cond is not None else self.max_seq_len
        loop = loop_to_keep(keeping, axis=self.dim, max_seq_len=longest, name="scan")
        if self.initial is not None:
            loop.state.s = self.initial
        with loop:
            x = _map(loop.unstack, self.xs)
            state = loop.state.s if self.initial is not None else None
            if self.cond is not None and before:
                loop.end(logical_not(self.goes_on(x, state)), include_eos=False)
            outputs, new = self.step(x, state)
            if new is not None:
                loop.state.s = new
            if self.cond is not None and not before:
                loop.end(logical_not(self.goes_on(x, new)), include_eos=True)
            stacked = _map(loop.stack, outputs)
        if keeping is not None:
            keeping.done(loop, stacked, new)
        return stacked, map_pairs(_in_order_of, loop.state.s, new) if self.initial is not None else None

    def all_begin(self) -> bool:
        """Whether no sequence ends before its first step.

        Then `cond` can be asked after each step, of the new state, and `body` never sees one that it refuses for all
        sequences, such as an index after the last frame.
        """
        if self.cond is None or self.xs is not None or current_recorder() is not None:
            return False
        going = self.goes_on(None, self.initial)
        return isinstance(going, Tensor) and bool(reduce_all(going, axis=going.dims))

    def by_steps(self) -> tuple[list[object], object]:
        """Runs the scan in Python, step by step: the outputs of each step, and the last state."""
        state, frames = self.initial, []
        active: Tensor | None = None
        lengths: Tensor | None = None
        for number in range(self.limit):
            x = _map(partial(gather, indices=number, axis=self.dim, clip_to_valid=True), self.xs)
            going = self.within(number)
            if self.cond is not None and self.before:
                going = _both(going, self.goes_on(x, state))
            active = _both(active, going)
            if active is not None and not bool(reduce_any(active, axis=active.dims)):
                break
            outputs, new = self.step(x, state)
            state = new if active is None else self.kept(active, new, state)
            frames.append(outputs)
            if active is not None:
                steps = cast(active, "int64")
                lengths = add(steps, number if lengths is None else lengths)  # until then no sequence had ended
            if self.cond is not None and not self.before:
                active = _both(active, self.goes_on(x, new))
        if frames and (self.xs is None or self.cond is not None):
            count = Size((), len(frames)) if lengths is None else Size(lengths.dims, lengths.numpy())
            self.dim.define(count, "scan")
        return frames, state

    def kept(self, active: Tensor, new: object, state: object) -> object:
        """The new state, where sequences that have ended keep theirs. Of dims with the same lengths, the new stay."""
        if self.carries_dims:
            if bool(reduce_all(active, axis=active.dims)):
                return new
            pairs = zip(leaves(new), leaves(state), strict=False)
            dim_map = {b: a for a, b in pairs if isinstance(a, Dim) and isinstance(b, Dim) and a.size.agrees(b.size)}
            return mask_nested(new, mask=active, mask_value=state, dim_map=dim_map)
        return map_pairs(partial(_where, active), new, state)

    @property
    def limit(self) -> int:
        """The largest possible number of steps."""
        longest = FOREVER if self.max_seq_len is None else int(_longest(self.max_seq_len))
        return min(self.dim.size.max, longest) if self.xs is not None else longest

    def within(self, number: int) -> Tensor | None:
        """Which sequences are longer than `number`; None if all are."""
        mask = None
        if self.xs is not None and self.dim.size.ragged:
            mask = less(full(dims=(), fill_value=number), self.dim.get_size_tensor())
        if isinstance(self.max_seq_len, Tensor):
            mask = _both(mask, less(full(dims=(), fill_value=number), self.max_seq_len))
        return mask

    def stacked(self, frames: list[object]) -> object:
        """The outputs of all steps under the dim of the steps."""
        return self.columns(frames, lambda column: _stacked(column, column[0], self.dim))

    def arrays(self, frames: list[object]) -> object:
        """The outputs of all steps, each with its own dims."""
        if not frames and self.ys is not None:
            return _map(TensorArray, self.ys)
        return self.columns(frames, lambda column: TensorArray(column[0], _backend_tensor_array=list(column)))

    def columns(self, frames: list[object], join: Callable[[tuple[Tensor, ...]], object]) -> object:
        """The structure of the outputs, with what `join` makes of the Tensors at each place of it."""
        if not frames:
            raise LoopError("scan: there were no steps, so the dims of the outputs are unknown")
        columns = zip(*([leaf for leaf in leaves(outputs) if leaf is not None] for outputs in frames), strict=True)
        return _map(lambda _: join(next(columns)), frames[0])


def _check_leaves(parameter: str, tree: object) -> None:
    """Raises DtypeError if something in a structure is not a Tensor, a Dim or None."""
    wrong = [leaf for leaf in leaves(tree) if not (leaf is None or isinstance(leaf, Tensor | Dim))]
    if wrong:
        raise not_a_tensor(f"scan: `{parameter}`", wrong[0])


def _stacked(frames: Sequence[Tensor], first: Tensor, dim: Dim) -> Tensor:
    backend = backends.backend_of_raw(first._raw)
    stacked: Tensor = backend.tensor_array_stack(list(frames), axis=dim, tensor_template=first)
    return stacked


def _map(fn: Callable[[Any], object], tree: object) -> object:
    return map_leaves(lambda leaf: None if leaf is None else fn(leaf), tree)


def _in_order_of(x: Any, body: Any) -> object:
    """`x`, which has the order of dims of the first state, with the order that the body gave it."""
    are_tensors = isinstance(x, Tensor) and isinstance(body, Tensor)
    return x.copy_transpose(body.dims) if are_tensors and x.dims_set == body.dims_set else x


def _where(on: Tensor, new: Any, old: Any) -> object:
    return where(on, new, old) if isinstance(new, Tensor) and on.dims_set <= new.dims_set else new


def _both(a: Tensor | None, b: Tensor | None) -> Tensor | None:
    return b if a is None else a if b is None else logical_and(a, b)


def _longest(longest: Tensor | int) -> int:
    return int(longest.numpy().max(initial=0)) if isinstance(longest, Tensor) else longest

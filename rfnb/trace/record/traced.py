"""Tensors of a loop body while it is traced, and results that are available after the loop."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rfnb.core.graph.graph import Value
from rfnb.core.ground.source import user_source
from rfnb.core.tensor.listener import active_listener
from rfnb.core.tensor.tensor import RawTensor, Tensor
from rfnb.errors import LoopError, TraceError
from rfnb.ops.shape import set_feature_dim, set_sparse_dim
from rfnb.printable import encodable, printable_name

if TYPE_CHECKING:
    from rfnb.core.dims.align import Sig
    from rfnb.trace.record.record import Recorder


class Traced(Tensor):
    """A tensor of a loop body, traced at step 0. Ops accept it; Python code can print it, but not read its numbers."""

    __slots__ = ()

    _trace: tuple[Tensor, Recorder, Value]

    def __init__(self, plain: Tensor, recorder: Recorder, value: Value):
        self._trace = (plain, recorder, value)
        self.sig, self.lengths = plain.sig, plain.lengths

    @property
    def plain(self) -> Tensor:
        """The tensor of the traced frame."""
        return self._trace[0]

    @property
    def recorder(self) -> Recorder:
        """The recorder of the body."""
        return self._trace[1]

    @property
    def value(self) -> Value:
        """The value in the graph of the body."""
        return self._trace[2]

    @property  # type: ignore[misc]
    def name(self) -> str:
        """The name of the value in the user's code."""
        return self.recorder.name_of(self.value)

    def with_name(self, name: str) -> Tensor:
        """Renames the value, and returns it."""
        self.value.name = name
        return self

    def backward(self, *args: object, **kwargs: object) -> None:
        """Raises TraceError: call `backward()` after the loop, for all steps together."""
        raise TraceError(
            f"{self.recorder.name}: backward() in the body would be called once, at step 0",
            got=f"{self.name}.backward()",
            hint=f"loss = loop.stack({self.name}); after the loop: rf.reduce_sum(loss, axis=loss.dims).backward()",
        )

    def _describe(self, signature: Sig) -> None:
        """Becomes another value of the body, which an op makes of the one before."""
        if active_listener() is not self.recorder:
            raise TraceError(
                f"{self.recorder.name}: dim roles of `{self.name}` cannot be set here, in a part of its body",
                expected="an op",
                hint=f"rf.set_sparse_dim({self.name}, dim), rf.set_feature_dim({self.name}, dim)",
            )
        name = self.name
        if signature.feature_dim is self.feature_dim:
            described = set_sparse_dim(self, signature.sparse_dim)
        else:
            described = set_feature_dim(self, signature.feature_dim)
        assert isinstance(described, Traced)
        described.value.name = name
        self.recorder.becomes(self, described)

    @property
    def dtype(self) -> str:
        """The dtype of the entries, as in `Tensor.dtype`."""
        return self.plain.dtype

    @property
    def device(self) -> str | None:
        """The device of the data, as in `Tensor.device`."""
        return self.plain.device

    @property
    def _raw(self) -> RawTensor:
        where = user_source()
        place = f" ({where.place()})" if where else ""
        loop = self.recorder.name
        if self.recorder.open:
            instead = "rf.where chooses" if self.dtype == "bool" else "use an op"
            raise TraceError(
                f"{loop}: the numbers of `{self.name}` are read in the body{place}, but they differ at every step",
                got=f"{self.name} {self.describe_dims()} at step 0",
                expected="ops on it",
                hint=f"{instead}; or rf.raw_call(fn, *tensors, out_dims=[…]), which calls fn at every step",
            )
        if self.recorder.within is not None:
            raise LoopError(
                f"{loop}: `{self.name}` is a value of one side of a `cond`, used outside of it{place}",
                hint=f"let both sides return it: {self.name} = rf.cond(pred, …, …)",
            )
        raise LoopError(
            f"{loop}: `{self.name}` is a value of step 0, used after the loop{place}",
            expected="a value that left the loop",
            hint=self._way_out(),
        )

    def _way_out(self) -> str:
        if isinstance(active_listener(), type(self.recorder)):
            return (
                f"take it out of {self.recorder.name} with its own stack, last or state; "
                f"set a state of the outer loop after the inner `with` block"
            )
        return f"inside the loop: out = loop.stack({self.name}), or loop.last({self.name}); after it: loop.state"

    @property  # type: ignore[misc]
    def raw_tensor(self) -> RawTensor:
        """Raises TraceError: the numbers differ at every step."""
        return self._raw


class Pending(Tensor):
    """The result of `stack` and `last` inside the loop: a Tensor whose numbers are available when the block ends."""

    __slots__ = ()

    @property
    def _raw(self) -> RawTensor:
        raise LoopError(
            f"`{self.name}` is not available before the `with` block of the loop ends",
            hint="use it after the block; inside, use the value passed to stack or last",
        )

    @property
    def dtype(self) -> str:
        """Raises LoopError: the dtype is known when the block ends."""
        return str(self._raw)

    def settle(self, result: Tensor) -> None:
        """Turns this into an ordinary Tensor with the result; inside an outer loop, into a value of its body."""
        if isinstance(result, Traced):
            self.__class__ = Traced  # type: ignore[assignment]
            self._trace = result._trace
        else:
            self.__class__ = Tensor  # type: ignore[assignment]
            self._raw = result._raw  # type: ignore[misc]
        self.sig, self.lengths = result.sig, result.lengths

    def __repr__(self) -> str:
        names = ", ".join(printable_name(dim.name) for dim in self.dims)
        return encodable(f"Tensor {{{names}}}, available after the loop")

    def _repr_mimebundle_(self, include: object = None, exclude: object = None) -> dict[str, str]:
        return {"text/plain": repr(self)}

"""twod_lstm: an LSTM over the frames of two sequences."""

from __future__ import annotations

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import NetworkError
from rfnb.loop.loop import Loop
from rfnb.netdict.axes import time_of, without
from rfnb.netdict.layer import SteppingLayer
from rfnb.netdict.layers.activations import initial_values
from rfnb.netdict.options import value
from rfnb.netdict.resolve import required
from rfnb.ops.concat import split
from rfnb.ops.create import range_over_dim, zeros
from rfnb.ops.dims import last_frame_position_of_dim
from rfnb.ops.index import gather
from rfnb.ops.mask import get_size_tensor
from rfnb.ops.math import cast, combine_bc, greater_equal, less, logical_and, sigmoid, tanh, where
from rfnb.ops.matmul import matmul
from rfnb.ops.reduce import reduce_max, reduce_mean, softmax
from rfnb.ops.shape import replace_dim, set_feature_dim, set_sparse_dim
from rfnb.ops.slice import shift_right


class TwoDLstm(SteppingLayer, layer_class="twod_lstm", cell_scope="rec-twod/", joins=False, can_leave=False):
    """An LSTM whose state at two positions comes from the one before in both. {…, s, in}, {…, t, in} → {…, t, n_out}

    The outputs of all positions in the first sequence are pooled. In a loop, the second source is a frame, and what is
    carried are the states at all positions of the first sequence. https://arxiv.org/abs/1810.03975
    """

    pooling: str = value("last", str)
    unit_opts: dict | None = value(None, dict)
    forward_weights_init: str = value("glorot_uniform")
    recurrent_weights_init: str = value("glorot_uniform")
    bias_init: float = value(0.0)

    def setup(self, x: Tensor, y: Tensor) -> None:
        """W_re {in + in', 5n}, Vh_re and Vv_re {n, 5n}; with weighted pooling W_att {in', n}. Parts i, f, λ, o, g."""
        fault = "twod_lstm needs two sources with features, the first with frames"
        got = f"{x.describe_dims()}, {y.describe_dims()}"
        self.s, self.t = required(time_of(x), fault, got), time_of(y)
        n = self.result_feature = required(self.out_dim, fault, got)
        if self.t is None and self.loop is None:
            raise NetworkError("twod_lstm: the second source has no frames", got=y.describe_dims())
        forward, recurrent = map(initial_values, (self.forward_weights_init, self.recurrent_weights_init))
        features = (required(source.feature_dim, fault, got) for source in (x, y))
        self.in_x, self.in_y = (Dim(feature.dimension, name="in") for feature in features)
        self.parts_dim = 5 * n
        self.parameter("W_re", [self.in_x + self.in_y, self.parts_dim], forward)
        self.parameter("Vh_re", [n, self.parts_dim], recurrent)
        self.parameter("Vv_re", [n, self.parts_dim], recurrent)
        if self.pooling == "weighted":
            self.parameter("W_att", [self.in_y, n], forward)

    @property
    def stepwise(self) -> bool:
        """Whether the second source is a frame of the loop."""
        return self.loop is not None and self.t is None

    def _inputs(self, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """What both sources add to the parts, and the second source with another dim for its features."""
        weight = self.params["W_re"]
        of_x, of_y = split(weight, axis=weight.dims[0], out_dims=[self.in_x, self.in_y])
        assert x.feature_dim is not None and y.feature_dim is not None
        x, _ = replace_dim(x, in_dim=x.feature_dim, out_dim=self.in_x)
        y, _ = replace_dim(y, in_dim=y.feature_dim, out_dim=self.in_y)
        return matmul(x, of_x, reduce=self.in_x), matmul(y, of_y, reduce=self.in_y), y

    def _cell(self, z: Tensor, left: State, above: State) -> State:
        """The state at two positions, from those before in the first and in the second sequence."""
        z = z + matmul(left.h, self.params["Vh_re"], reduce=self.out_dim)
        z = z + matmul(above.h, self.params["Vv_re"], reduce=self.out_dim)
        i, f, share, o, g = split(z, axis=self.parts_dim, out_dims=[self.out_dim] * 5)
        share = sigmoid(share)
        c = sigmoid(i) * tanh(g) + sigmoid(f) * (share * above.c + (1 - share) * left.c)
        return State(c=c, h=sigmoid(o) * tanh(c))

    def compute(self, x: Tensor, y: Tensor) -> Tensor:
        """{…, s, in}, {…, t, in} → {…, t, n_out}. The states on a diagonal, t + s = d, are computed together."""
        assert self.t is not None
        s, t, from_x, from_y, y = self.s, self.t, *self._inputs(x, y)
        dims = [*without(x, s, x.feature_dim), t, self.out_dim]
        count = x.size_of(s).max + y.size_of(t).max - 1
        if x.device == "meta" or not x.size_of(s).max or count < x.size_of(s).max:
            return set_feature_dim(zeros(dims, dtype=x.dtype), self.out_dim)
        lengths = cast(get_size_tensor(s, device=x.device), "int32")
        loop = Loop(axis=Dim(count, name="diagonal"), name=f"{self.name}: diagonals")
        loop.state.left = State(c=zeros(dims, dtype=x.dtype), h=zeros(dims, dtype=x.dtype))
        with loop:
            left = State(loop.state.left)
            at = cast(loop.iter_idx, "int32") - _range(t)
            valid = logical_and(greater_equal(at, 0), less(at, lengths))
            z = gather(from_x, indices=at, axis=s, clip_to_valid=True) + from_y
            above = State({name: shift_right(part, axis=t, pad_value=0.0) for name, part in left.items()})
            new = self._cell(z, left, above)
            for name, part in new.items():
                new[name] = where(valid, part, 0.0).copy_transpose(left[name].dims)
            loop.state.left = new
            h = loop.stack(new.h)
        h = gather(h, indices=combine_bc(_range(s), "+", _range(t)), axis=loop.axis)
        return self._pooled(h, y)

    def first_state(self, x: Tensor, y: Tensor) -> State:
        """Zeros at all positions."""
        dims = [*without(x, x.feature_dim), self.out_dim]
        return State(c=zeros(dims, dtype=x.dtype), h=zeros(dims, dtype=x.dtype))

    def step(self, state: State, x: Tensor, y: Tensor) -> tuple[Tensor, State]:
        """{…, s, in}, {…, in} → {…, n_out}"""
        from_x, from_y, y = self._inputs(x, y)
        z = from_x + from_y
        batch = without(z, self.s, self.parts_dim)
        if x.device == "meta":
            templates = [zeros([*batch, *dims, self.out_dim], dtype=x.dtype) for dims in ([], [self.s], [self.s])]
            return set_feature_dim(templates[0], self.out_dim), State(c=templates[1], h=templates[2])
        loop = Loop(axis=self.s, name=f"{self.name}: positions")
        loop.state.left = State({name: zeros([*batch, self.out_dim], dtype=x.dtype) for name in state})
        with loop:
            above = State({name: loop.unstack(part) for name, part in state.items()})
            loop.state.left = self._cell(loop.unstack(z), loop.state.left, above)
            new = State({name: loop.stack(part) for name, part in loop.state.left.items()})
        new = State({name: part.copy_masked(0).copy_transpose(state[name].dims) for name, part in new.items()})
        return self._pooled(new.h, y), new

    def _pooled(self, h: Tensor, y: Tensor) -> Tensor:
        """{…, s, n_out} → {…, n_out}"""
        if self.pooling == "max":  # the frames after the end of a sequence are zeros, and count
            out = reduce_max(h.copy_masked(0), axis=self.s, use_mask=False)
        elif self.pooling == "average":
            out = reduce_mean(h, axis=self.s)
        elif self.pooling == "weighted":
            energy = matmul(matmul(y, self.params["W_att"], reduce=self.in_y), h.copy_masked(0), reduce=self.out_dim)
            out = matmul(softmax(energy, axis=self.s, use_mask=False), h.copy_masked(0), reduce=self.s, use_mask=False)
        else:
            out = gather(h, indices=last_frame_position_of_dim(self.s), axis=self.s)
        return set_feature_dim(out, self.out_dim)


def _range(dim: Dim) -> Tensor:
    return set_sparse_dim(range_over_dim(dim, dtype="int32"), None)

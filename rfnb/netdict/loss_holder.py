"""A loss of a network, after a call: its sums over the batch, and what enters the objective."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import DataNotFound, DimError
from rfnb.netdict.axes import time_of
from rfnb.netdict.layer import Layer, LayerOfNets
from rfnb.netdict.layer_call import ErrorsOf, errors_explained, named_after
from rfnb.netdict.losses import LayerLoss, loss_by_name, on_frames_of
from rfnb.ops.create import range_over_dim
from rfnb.ops.index import gather
from rfnb.ops.math import abs as abs_, cast, mod, square
from rfnb.ops.reduce import reduce_max, reduce_mean, reduce_sum
from rfnb.ops.shape import split_dims
from rfnb.printable import encodable

if TYPE_CHECKING:
    from rfnb.netdict.build import NetNode


class LossHolder:
    """The loss of a layer in one batch. All values are sums over the frames that count, or over the sequences.

    >>> extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 3, "sparse": True}})
    >>> net = rf.Network(extern_data=extern, eval_flag=True)
    >>> _ = net.construct_from_dict({"output": {"class": "softmax", "loss": "ce", "target": "classes", "from": "data"}})
    >>> batch = {"data": (np.zeros((1, 4, 2)), [4]), "classes": (np.zeros((1, 4)), [4])}
    >>> _ = net.forward(batch)
    >>> holder = net.get_losses_initialized()[0]["output"]
    >>> round(holder.get_loss_value().item() / float(np.log(3)), 3), holder.get_norm_factor().item()  # of 4 frames
    (4.0, 0.25)

    Attributes: name, layer, loss, output, target.
    """

    def __init__(
        self, name: str, layer: Layer, loss: LayerLoss, output: Tensor, target: Tensor | None, *,
        train: bool | None = None, custom_inv_norm_factor: Tensor | None = None,
        reduce_func: Callable[[Tensor], object] | None = None, inputs: Mapping[str, Tensor] | None = None,
    ):  # fmt: skip
        self.name, self.layer, self.loss, self.output = name, layer, loss, output
        self.target = on_frames_of(target, output) if loss.by_frame and target is not None else target
        self.scale: float = loss.opts["scale"] * layer.spec.common.loss_scale
        self.train = bool(get_run_ctx().train_flag) if train is None else train
        self.custom_inv_norm_factor = custom_inv_norm_factor
        self.reduce_func: Callable[[Tensor], Any] = reduce_func or reduced
        self.logits = layer.last.logits
        loss.layer, loss.inputs = layer, {name: on_frames_of(x, output) for name, x in (inputs or {}).items()}

    def init(self, layer: Layer) -> LossHolder:
        """Sets the layer, and returns the holder."""
        self.layer = layer
        return self

    def copy_new_base(
        self,
        name: str | None = None,
        layer: Layer | None = None,
        network: object = None,
        reduce_func: Callable[[Tensor], object] | None = None,
    ) -> LossHolder:
        """The same loss with another name, layer, or way to make a value of the losses of all frames."""
        holder = copy(self)
        holder.name, holder.layer = name or self.name, layer or self.layer
        holder.reduce_func = reduce_func or self.reduce_func
        return holder

    def get_layer(self) -> Layer:
        """The layer whose output this is a loss of."""
        return self.layer

    def get_tf_name(self) -> str:
        """The name without characters that TensorFlow does not allow in names."""
        return re.sub(r"[^A-Za-z0-9_.]", "_", self.name)

    def get_only_on_eval(self) -> bool:
        """Whether the loss counts only where the network is not trained."""
        return self.layer.spec.common.only_on_eval

    @cached_property
    def _value(self) -> Tensor | None:
        return self._computed(self.loss.value)

    @cached_property
    def _error(self) -> Tensor | None:
        return self._computed(self.loss.error)

    def _computed(self, function: Callable[..., Tensor | None]) -> Tensor | None:
        """The loss, or the error, of each frame or sequence; 0 in training if it is for evaluation alone."""
        if self.get_only_on_eval() and self.train:
            return reduced(self.output) * 0.0
        with ErrorsOf(self.layer):
            return function(self.output, self.logits, self.target, train=self.train)

    def get_loss_value(self) -> Tensor | None:
        """The sum of the loss, without `scale`. → {}"""
        return None if self._value is None else self.reduce_func(self._value)

    get_loss_value_for_fetch = get_loss_value

    def get_error_value(self) -> Tensor | None:
        """The sum of the error; None if the loss has none. → {}"""
        return None if self._error is None else self.reduce_func(self._error)

    def mark(self) -> None:
        """Marks the loss in the run context, which then knows its mean as well, unless it is not in the objective."""
        value = None if self._value is None else reduced(self._value)
        if value is not None and self.scale:
            get_run_ctx().mark_as_loss(
                value,
                self.name,
                scale=self.scale,
                use_normalized_loss=bool(self.loss.opts["use_normalized_loss"]),
                custom_inv_norm_factor=1.0 / self.get_norm_factor(),
            )

    def get_loss_value_per_pos(self) -> Tensor | None:
        """The loss of each frame or sequence."""
        return self._value

    def get_error_value_per_pos(self) -> Tensor | None:
        """The error of each frame or sequence."""
        return self._error

    def get_norm_factor(self) -> Tensor:
        """What makes a mean of the sums: 1 / the number of frames of the target, or else of the output. → {}"""
        if self.loss.opts["custom_norm_factor"] is not None:
            return reduced(self.output) * 0.0 + self.loss.opts["custom_norm_factor"]
        if self.custom_inv_norm_factor is not None:
            return 1.0 / cast(reduced(self.custom_inv_norm_factor), "float32")
        counted = self.target if self.target is not None else self.output
        frames = time_of(counted) or time_of(self.output)
        dims = [dim for dim in (batch_dim, frames) if dim is not None and dim in (*counted.dims, *self.output.dims)]
        where = counted if all(dim in counted.dims for dim in dims) else self.output
        count = 1
        if frames is not None:
            sizes = where.size_of(frames)
            beams = [dim for dim in self.output.dims if is_beam(dim) and dim not in sizes.dims]
            count = int(sizes.values.sum()) * math.prod(dim.get_dim_value() for dim in beams)
        elif batch_dim in where.dims:
            count = where.size_of(batch_dim).max
        return reduced(self.output) * 0.0 + 1.0 / max(count, 1)

    def get_normalized_loss_value_per_seq(self) -> Tensor | None:
        """The loss of each sequence, divided by its number of frames. → {batch}"""
        return _by_sequence(self._value)

    def get_normalized_error_value_per_seq(self) -> Tensor | None:
        """The error of each sequence, divided by its number of frames. → {batch}"""
        return _by_sequence(self._error)

    def get_loss_value_for_objective(self) -> Tensor | None:
        """What enters the objective: the sum, or the mean if `use_normalized_loss`, times `scale`; None for 0. → {}"""
        if self._value is None or not self.scale:
            return None
        value = reduced(self._value) * self.scale
        return value * self.get_norm_factor() if self.loss.opts["use_normalized_loss"] else value

    def __repr__(self) -> str:
        return encodable(f"LossHolder({self.name!r}, {type(self.loss).__name__})")


def holder_of(node: NetNode, values: Mapping[str, Tensor]) -> LossHolder:
    """The loss of a layer, from the values of a batch. Raises DataNotFound if the batch has no target."""
    layer = node.layer
    assert layer is not None and node.loss is not None
    if node.target is not None and node.target not in values:
        key = node.target.removeprefix("data:")
        fault = f"the loss of {node.path!r}: the batch has no target {key!r}"
        raise DataNotFound(fault, hint=f'net.forward({{"{key}": …}})')
    target = None if node.target is None or not node.loss.needs_target else values[node.target]
    factor = None if node.inv_norm_factor is None else values[node.inv_norm_factor]
    common = layer.spec.common
    loss = loss_by_name(common.loss or "", common.loss_opts)
    try:
        with errors_explained(layer.spec.described, layer.options):
            inputs = {option: values[path] for option, path in node.loss_inputs.items()}
            return LossHolder(
                node.path, layer, loss, values[node.path], target, custom_inv_norm_factor=factor, inputs=inputs
            )
    except DimError as error:
        if layer.loop is not None and node.target is not None and error.hint is None:
            key = node.target.removeprefix("data:")
            error.hint = f'"size_target": "{key}" in {layer.loop.path!r}, if its length is that of the loop'
        named_after(layer, error)
        raise


def holders_of(
    nodes: Iterable[NetNode], values: Mapping[str, Tensor], counts: Callable[[NetNode], bool]
) -> dict[str, LossHolder]:
    """The losses of layers, and of those inside of them, by path. counts: whether that of a layer counts."""
    holders = {}
    for node in nodes:
        if counts(node):
            holders[node.path] = holder_of(node, values)
        for end in node.layer.losses_inside(node) if isinstance(node.layer, LayerOfNets) else ():
            if counts(end):
                assert isinstance(node.layer, LayerOfNets)
                holders[end.path] = holder_of(end, node.layer.values_of_loss(node, end, values))
    return holders


def constraints_of(layers: Iterable[Layer]) -> object:
    """The sum of L2 · Σ p² over the trained parameters of the layers, and of penalties of outputs; 0 if there are none.

    → {}
    """
    total: Any = 0
    for layer in layers:
        with ErrorsOf(layer):
            for term in _constraints(layer):
                total = total + term
    return total


def _constraints(layer: Layer) -> Iterator[Tensor]:
    yield from penalties_of(layer)
    for parameter in layer.params.values() if layer.spec.common.L2 else ():
        if parameter.trainable:
            yield reduce_sum(square(parameter), axis=list(parameter.dims)) * layer.spec.common.L2


def penalties_of(layer: Layer) -> Iterator[Tensor]:
    """The constraints of a layer on its output."""
    common, feature = layer.spec.common, layer.spec.feature_dim
    if layer.last.for_penalties is not None and feature is not None:
        source, out = layer.last.for_penalties
        if common.darc1:
            yield darc1(source, feature) * common.darc1
        if common.spatial_smoothing:
            yield spatial_smoothing(out, feature) * common.spatial_smoothing


def darc1(x: Tensor, feature: Dim) -> Tensor:
    """The largest sum of |x| over all frames, of all features (Kawaguchi et al. 2017). {…, feature} → {}

    >>> from rfnb.netdict.loss_holder import darc1
    >>> time, two = rf.Dim(3, name="time"), rf.Dim(2, name="two")
    >>> darc1(rf.convert_to_tensor([[1.0, -2.0], [0.5, 1.0], [0.0, 1.0]], dims=[time, two]), two).item()
    4.0
    """
    return reduce_max(reduce_sum(abs_(x), axis=[dim for dim in x.dims if dim is not feature]), axis=feature)


def spatial_smoothing(x: Tensor, feature: Dim) -> Tensor:
    """The squared differences of each feature from the mean of its eight neighbours. {…, feature} → {}

    The features stand in a grid that is as square as possible, with at least as many rows as columns, and whose borders
    meet (Wu et al. 2016, "Stimulated deep neural network for speech recognition").
    """
    size = feature.get_dim_value()
    columns = next(n for n in range(math.isqrt(size), 0, -1) if size % n == 0)
    grid = [Dim(size // columns, name="rows"), Dim(columns, name="columns")]
    x = split_dims(x, axis=feature, dims=grid)
    box = x
    for dim in grid:
        places = range_over_dim(dim, device=x.device) + dim.get_dim_value()
        before, after = (gather(box, indices=mod(places + by, dim.get_dim_value()), axis=dim) for by in (-1, 1))
        box = before + box + after
    energy = square(x - (box - x) * (1 / 8))
    return reduce_sum(energy, axis=list(energy.dims))


def _by_sequence(x: Tensor | None) -> Tensor | None:
    frames = [] if x is None else [dim for dim in x.dims if dim is not batch_dim]
    return reduce_mean(x, axis=frames) if x is not None and frames else x


def reduced(x: Tensor) -> Tensor:
    """The sum over all entries that count."""
    return reduce_sum(x, axis=list(x.dims)) if x.dims else x

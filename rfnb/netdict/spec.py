"""What is known of a layer before there is a batch: the traits of its class, its common options, its `LayerSpec`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from functools import cached_property
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Count, Positive, Probability
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.axes import NetworkDims
from rfnb.netdict.layer_call import BatchNormCall, Changes
from rfnb.netdict.options import Option, value

if TYPE_CHECKING:
    from rfnb.netdict.loops.net import RecNet


@dataclass(frozen=True)
class Traits:
    """What is true of all layers of a class; the class statement says where that differs.

    Attributes:
        joins: whether several sources are joined in their features; otherwise `compute` gets each of them.
        keeps_features: whether as many features as those of the source are the same dim, if the user made it.
        broadcasts: whether axes of size 1 of a source stand for axes that only others have.
        sourceless: whether the layer has no sources unless `from` is given.
        cell_scope: stands before the names of the variables of a cell.
        recurrent: whether the layer has a net of its own that is one step of a loop.
        by_place: whether the values that leave a search are those by place in the beam, not those of hypotheses.
        can_leave: whether a loop may compute the layer for all frames together, outside of it.
        state_has_output: whether the state contains the output, so that the one before the first step is known.
        units: options with the description of a layer that this one computes, which may be a whole net.
    """

    joins: bool = True
    keeps_features: bool = False
    broadcasts: bool = False
    sourceless: bool = False
    cell_scope: str = ""
    recurrent: bool = False
    by_place: bool = False
    can_leave: bool = True
    state_has_output: bool = False
    units: tuple[str, ...] = ()


@dataclass(frozen=True)
class CommonOptions:
    """The options that layers of all classes have."""

    n_out: int | None = value(None, Positive)
    out_dim: Dim | None = value(None, Dim)
    out_type: Any = value(None)
    target: Any = value(None, str, list, tuple)
    size_target: object = value(None, str)
    loss: str | None = value(None, str)
    loss_opts: dict[str, Any] | None = value(None, dict)
    loss_scale: float = value(1.0, float)
    loss_only_on_non_search: bool = value(False, bool)
    is_output_layer: bool = value(False, bool)
    only_on_eval: bool = value(False, bool)
    only_on_search: bool = value(False, bool)
    need_last: bool = value(False, bool)
    initial_output: Any = value(None)
    reuse_params: Any = value(None, str, dict)
    name_scope: str | None = value(None, str)
    trainable: bool = value(True, bool)
    L2: float | None = value(None, float)
    darc1: float | None = value(None, float)
    spatial_smoothing: float | None = value(None, float)
    param_dropout: float | None = value(None, Probability)
    param_dropout_min_ndim: int | None = value(None, Count)
    param_variational_noise: float | None = value(None, float)
    dropout: float = value(0.0, Probability)
    dropout_axis: object = value(None)
    dropout_noise_shape: object = value(None, dict, list, tuple)
    dropout_on_forward: bool = value(False, bool)
    allow_broadcast_all_sources: bool | None = value(None, bool)
    batch_norm: bool | dict[str, object] | None = value(None, bool, dict)
    register_as_extern_data: str | None = value(None, str)


COMMON: dict[str, Option] = {declared.name: declared.default for declared in fields(CommonOptions)}  # type: ignore[misc]
"""The common options by name."""
IGNORED = frozenset(
    "collocate_with param_device control_dependencies_on_output debug_print_layer_output updater_opts "
    "custom_param_importer encapsulate out_shape state in_dim extra_deps mask copy_output_loss_from_source_idx "
    "axis_split_info ce_smoothing sampling shape_deps sprint_opts".split()
)
"""Options without effect here."""
_DEFAULTS = CommonOptions(**{name: option.default for name, option in COMMON.items()})


@dataclass(frozen=True, eq=False)
class LayerSpec:
    """What the construction of a layer decides: Dims and options, which no batch changes.

    Attributes:
        name: the path of the layer. described: what the net dict gives.
        pool: the dims of the network. config: the further options of the network.
        loop: the recurrent net that the layer stands in. nets: all recurrent nets of the network, by path.
        batch_independent: whether each sequence is computed as if it was the only one of its batch, wherever the
            reference lets frames after the end of a sequence into it.
        by_mask: whether a mask of each step decides if the layer is computed, so that its frames count by sequence.
        keeps_log: whether another layer of the net takes logarithms, so that a softmax keeps what went into it.
        used_parts: the further outputs that another layer, or somebody outside of a loop, takes; None: all.
        common: the options that all classes have.
        renamed: for each source the dims that others stand for; None removes one. joined_dim: that of all features.
        dropped_dims: the dims along which dropout draws numbers. target_dim: that of the labels of the target.
        feature_dim: that of the result.
        changes: what a call does to the parameters; None: nothing. normalized: the batch normalization of the result.
    """

    name: str
    version: int
    described: Mapping[str, Any] = field(default_factory=dict)
    pool: NetworkDims = field(default_factory=NetworkDims)
    config: Mapping[str, Any] = field(default_factory=dict)
    loop: RecNet | None = None
    nets: Mapping[str, RecNet] = field(default_factory=dict)
    batch_independent: bool = False
    by_mask: bool = False
    keeps_log: bool = False
    used_parts: frozenset[str] | None = None
    common: CommonOptions = _DEFAULTS
    renamed: tuple[tuple[tuple[Dim, Dim | None], ...], ...] = ()
    joined_dim: Dim | None = None
    dropped_dims: tuple[Dim, ...] = ()
    target_dim: Dim | None = None
    feature_dim: Dim | None = None
    changes: Changes | None = None
    normalized: BatchNormCall | None = None

    @cached_property
    def prepares(self) -> bool:
        """Whether a call does something with the sources before `compute`."""
        return any(self.renamed) or self.joined_dim is not None or bool(self.common.dropout)

    @cached_property
    def finishes(self) -> bool:
        """Whether a call does something with each result of `compute`."""
        return self.normalized is not None or bool(self.common.darc1 or self.common.spatial_smoothing)

    @property
    def line(self) -> int | None:
        """The line of the config where the description stands, if it does."""
        return getattr(self.described, "line", None)


@dataclass(eq=False)
class LastCall:
    """What the last call of a layer leaves for others.

    Attributes:
        parts: further outputs, such as "indices"; references name them "layer/indices". logits: what went into the
            softmax of a loss. before: what went into the activation, if a penalty is about it.
        for_penalties: that, or else the output, and the output.
    """

    parts: dict[str, Tensor] = field(default_factory=dict)
    logits: Tensor | None = None
    before: Tensor | None = None
    for_penalties: tuple[Tensor, Tensor] | None = None

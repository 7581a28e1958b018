"""The base of layers: what was decided at construction, parameters, and one `compute`. A layer knows no network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from rfnb.core.advice.similar_dims import is_beam
from rfnb.core.dims.align import show_dims
from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError, NetworkError
from rfnb.netdict.axes import NetworkDims, broadcast, renamed
from rfnb.netdict.layer_call import changed_parameters
from rfnb.netdict.options import REQUIRED, Option
from rfnb.netdict.spec import COMMON, LastCall, LayerSpec, Traits
from rfnb.netdict.versions import holds
from rfnb.nn.module.module import Module
from rfnb.ops.concat import concat
from rfnb.ops.index import one_hot
from rfnb.ops.random import dropout
from rfnb.ops.shape import set_feature_dim

if TYPE_CHECKING:
    from rfnb.netdict.build import NetNode
    from rfnb.netdict.builder import Builder
    from rfnb.netdict.inner_net import InnerNet
    from rfnb.netdict.layers.nested import Branches
    from rfnb.netdict.loops.net import RecNet
    from rfnb.netdict.loops.search import StepsOfSearch
    from rfnb.netdict.resolve import Scope


CLASSES = {
    "basic": "linear hidden forward softmax copy dropout identity activation cast scaled_grad",
    "conv": "conv transposed_conv pool",
    "create": "constant variable range range_in_axis range_from_length seq_len_mask random rand_int random_state_init",
    "eval": "combine eval compare switch dot",
    "norm": "layer_norm norm batch_norm gating softmax_over_spatial",
    "rec.cell": "rec rnn_cell get_last_hidden_state",
    "rec.choice": "choice choice_get_beam_scores choice_get_src_beams decide decide_keep_beam split_batch_beam",
    "rec.attention": "generic_attention dot_attention concat_attention gauss_window_attention self_attention "
    "cum_concat positional_encoding relative_positional_encoding",
    "rec.kenlm": "kenlm",
    "rec.twod": "twod_lstm",
    "rec.masked": "masked_computation unmask",
    "reduce": "reduce reduce_out math_norm cumsum elemwise_prod weighted_sum accumulate_mean",
    "shape": "split_dims merge_dims squeeze expand_dims swap_axes reinterpret_data length reshape transpose tile "
    "flatten_batch unflatten_batch split_batch_time",
    "slice": "slice slice_nd gather gather_nd scatter_nd",
    "loss": "loss sparse_softmax_cross_entropy_with_logits edit_distance edit_distance_table optimal_completions "
    "fast_bw forced_align",
    "signal": "stft istft mel_filterbank",
    "run": "train_flag print hdf_dump",
    "time": "window prefix_in_time postfix_in_time pad repeat shift_axis resize time_chunking time_unchunking",
    "concat": "concat split stack top_k",
    "nested": "subnetwork cond rec:unit get_rec_accumulated rec_last_output rec_unstack",
}
"""The names of the classes in net dicts, by file."""

MODULES = {name: f"rfnb.netdict.layers.{file}" for file, names in CLASSES.items() for name in names.split()}
"""The full name of the module that defines the layers of a class, by class name."""


UNDECIDED = Dim(0, name="undecided")
"""Stands for the feature dim of a result that its dims decide."""
LAYERS: dict[str, type[Layer]] = {}
"""The classes that were imported, by their names in net dicts."""


@dataclass(frozen=True)
class Site:
    """What the construction of a layer offers to its `setup`.

    Attributes:
        new_parameter: a parameter by its name, dims and initial values, new or shared with another layer.
        value_of: the output, with numbers, of the layer that an option names, which must not depend on data.
        origin_of: the path of the layer that made a dim of a source, as dims of one size may be one Dim.
    """

    new_parameter: Callable[[str, Sequence[Dim], object], Any]
    value_of: Callable[[str], Tensor]
    origin_of: Callable[[int, Dim], str]


class Layer(Module):
    """Base of the layers of net dicts. A subclass names its class, declares its options, and computes its output.

    >>> from rfnb.netdict import layer, options
    >>> class Double(layer.Layer, layer_class="double"):
    ...     factor: float = options.value(2.0, float)
    ...
    ...     def compute(self, x):
    ...         return x * self.factor
    >>> sorted(name for name in Double.options if name == "factor")
    ['factor']
    >>> _ = layer.LAYERS.pop("double")

    Attributes:
        options: all that are declared, `further` ones, and those `without_effect`. traits: what is true of the class.
        spec: what the construction has decided. site: what it offers; None when it is done.
        out_dim: the option, or the dim for its `n_out` or its target.
        last: what the last call leaves for others.
        result_feature: the feature dim of the result, if the class or `setup` decides it; None: there is none.
        result_order: the declared order of the result, if `setup` decides it.
    """

    layer_class: ClassVar[str | None] = None
    options: ClassVar[dict[str, Option]] = COMMON
    traits: ClassVar[Traits] = Traits()
    out_dim: Dim = None  # type: ignore[assignment] # if neither `n_out` nor a target says it
    site: Site = None  # type: ignore[assignment]
    result_feature: Dim | None = UNDECIDED
    result_order: Sequence[Dim] | None = None
    _made: tuple[str, ...] = ()  # the names of the parameters

    def __init_subclass__(
        cls, *, layer_class: str | Sequence[str] = (), further: Mapping[str, Option] | None = None,
        without_effect: str = "", **traits: Any,
    ) -> None:  # fmt: skip
        super().__init_subclass__()
        declared = {name: option for name, option in vars(cls).items() if isinstance(option, Option)}
        ignored = dict.fromkeys(without_effect.split(), Option("value", None))
        cls.options = {**cls.options, **(further or {}), **declared, **ignored}
        cls.traits = replace(cls.traits, **traits)
        names = [layer_class] if isinstance(layer_class, str) else list(layer_class)
        if names:
            cls.layer_class = names[0]
            LAYERS.update(dict.fromkeys(names, cls))

    def __init__(self, spec: LayerSpec):
        self.spec, self.last = spec, LastCall()
        own = {name: option.default for name, option in self.options.items() if option is not COMMON.get(name)}
        vars(self).update({name: None if default is REQUIRED else default for name, default in own.items()})

    def __getstate__(self) -> dict[str, object]:
        """A copy has nothing of the last call."""
        return {**vars(self), "last": LastCall()}

    def decide(self, **decided: Any) -> None:
        """Sets fields of the spec, while the layer is constructed."""
        self.spec = replace(self.spec, **decided)

    @property
    def name(self) -> str:
        """The path of the layer in the net."""
        return self.spec.name

    @property
    def loop(self) -> RecNet | None:
        """The recurrent net that the layer stands in."""
        return self.spec.loop

    @property
    def name_in_loop(self) -> str:
        """The path of the layer in the recurrent net that it stands in; without one, in the whole net."""
        return self.name if self.loop is None else self.loop.name_of(self.name)

    @property
    def pool(self) -> NetworkDims:
        """The dims of the network."""
        return self.spec.pool

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """What a net dict gives, with the references to other layers where all classes have them."""
        return described

    def __call__(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """The output for these sources, and for further inputs by the names of their options."""
        spec = self.spec
        if spec.prepares:
            sources = self.prepared(*sources)
        if spec.changes is None:
            out = self.compute(*sources, **inputs)
        else:
            with changed_parameters(self, inputs) as plain_inputs:
                out = self.compute(*sources, **plain_inputs)
        return self.finished(out) if spec.finishes or out.sig.feature_dim is not spec.feature_dim else out

    def prepared(self, *sources: Tensor) -> tuple[Tensor, ...]:
        """The sources as `compute` gets them: with equal dims, joined, with dropout."""
        spec, common = self.spec, self.spec.common
        prepared = [renamed(x, pairs) if pairs else x for x, pairs in zip(sources, spec.renamed, strict=True)]
        if self.traits.joins and len(prepared) > 1:
            prepared = [joined(prepared, spec.joined_dim)]
        if common.dropout and prepared:
            if prepared[0].sparse_dim is not None and get_run_ctx().train_flag:
                got, hint = prepared[0].describe_dims(), "dropout in the layers after it"
                raise NetworkError("dropout in training needs numbers, and the source has labels", got=got, hint=hint)
            of_forward = common.dropout_on_forward
            prepared[0] = dropout(prepared[0], common.dropout, axis=spec.dropped_dims, on_forward=of_forward)
        return tuple(prepared)

    def finished(self, out: Tensor) -> Tensor:
        """The result of `compute` with its features, normalized; the layer keeps what penalties need."""
        feature, common = self.spec.feature_dim, self.spec.common
        if out.feature_dim is not feature and (feature is None or feature in out.sig.index):
            out = set_feature_dim(out, feature)
        if self.spec.normalized is not None:
            out = set_feature_dim(self.spec.normalized(out), feature)
        if common.darc1 or common.spatial_smoothing:
            self.last.for_penalties = out if self.last.before is None else self.last.before, out
            self.last.before = None
        return out

    def activated(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The function of `x`, for `compute`; the layer keeps `x` if an option is about it. {…} → the same"""
        if self.spec.common.darc1:
            self.last.before = x
        return function(x)

    def matching(self, axes: NetworkDims, source: Tensor, first: Tensor) -> Sequence[tuple[Dim, Dim]]:
        """Which dims of a source stand for dims of the first one."""
        return axes.matching(source, first, self.spec.version)

    def check_broadcast(self, sources: Sequence[tuple[Sequence[Dim], Dim | None]]) -> None:
        """Raises NetworkError if each source lacks an axis of another one, and the net dict does not allow that.

        sources: the dims of each, with the same ones for what matches, and its feature dim.
        """
        described = self.spec.described
        allowed = described.get("allow_broadcast_all_sources")
        if allowed is None:
            allowed = "out_shape" in described or not holds("sources share dims", self.spec.version)
        if allowed or not sources:
            return
        skipped = [feature for _, feature in sources] if self.traits.joins else []
        axes = [[dim for dim in dims if not is_beam(dim) and dim not in skipped] for dims, _ in sources]
        units = broadcast(sources)
        every = {dim for dims, unit in zip(axes, units, strict=True) for dim in dims if dim not in unit}
        if all(len(every.difference(dims)) > len(unit) for dims, unit in zip(axes, units, strict=True)):
            raise NetworkError(
                "all sources need broadcasting, as each lacks an axis of another one",
                got="; ".join(show_dims(dims) for dims, _ in sources),
                expected='"allow_broadcast_all_sources": True, or "out_shape": {…}, since behavior version 4',
            )

    def setup(self, *sources: Any, **inputs: Any) -> None:
        """Makes the parameters and the dims that the result has, from templates of what `compute` gets."""

    def compute(self, *sources: Any, **inputs: Any) -> Tensor:
        """The output."""
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    def inputs_of(self, inputs: Mapping[str, Tensor]) -> dict[str, Any]:
        """What the options give that name layers: the outputs of these, or else numbers. inputs: those of a call."""
        names = [name for name, option in self.options.items() if option.kind == "layer"]
        return {name: inputs.get(name, getattr(self, name)) for name in names}

    @property
    def takes_target(self) -> bool:
        """Whether `compute` gets the target as the input `target`; if there are several, `target1` and so on too."""
        return False

    @property
    def takes_sources(self) -> bool:
        """Whether the output depends on the sources at all."""
        return True

    @property
    def what_keeps(self) -> str:
        """What keeps the layer in the steps of a loop, whatever it needs; "" if nothing does."""
        return "" if self.traits.can_leave else "has no form for all steps together"

    @property
    def stepwise(self) -> bool:
        """Whether the layer carries a state from step to step of the loop that it stands in."""
        return False

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The feature dim of the result: as decided, or that of `compute`, the `out_dim`, that of the first source."""
        if self.result_feature is not UNDECIDED:
            return self.result_feature
        candidates = [out.feature_dim, self.out_dim, *(x.feature_dim for x in sources)]
        return next((dim for dim in candidates if isinstance(dim, Dim) and dim in out.sig.index), None)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> Sequence[Dim]:
        """The declared order of the result, by default the usual one."""
        return order if self.result_order is None else self.result_order

    def names_of_dims(self) -> dict[Dim, str]:
        """Names that the layer gives to dims of its result, for axis descriptions such as `stag:name`."""
        return {}

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters by their names, "W" and "b" for example; inside of a call, those of this call."""
        attributes, changes = vars(self), self.spec.changes
        params = {name: attributes[name] for name in self._made if isinstance(attributes.get(name), Parameter)}
        return params if changes is None else {**params, **changes.now}  # type: ignore[dict-item]

    def parameter(self, name: str, dims: Sequence[Dim], initial: object) -> Parameter:
        """A parameter with this name, new or shared with another layer."""
        parameter: Parameter = self.site.new_parameter(name, dims, initial)
        self.own_parameter(name, parameter)
        return parameter

    def own_parameter(self, name: str, made: object) -> None:
        """Makes a parameter one of this layer."""
        setattr(self, name, made)
        self._made = (*self._made, name)

    def extra_repr(self) -> str:
        """The class in the net dict and the name."""
        return f"{self.layer_class} {self.name}"


class SteppingLayer(Layer):
    """A layer that may carry a state from step to step of a loop that it stands in, instead of an axis.

    so_far: an axis of the output that grows from step to step.
    """

    so_far: Dim | None = None

    @property
    def stepwise(self) -> bool:
        """Whether the layer stands in a loop, and has no axis of its own."""
        return self.loop is not None and getattr(self, "axis", None) is None

    @property
    def needs_all_frames(self) -> bool:
        """Whether the layer cannot be computed step by step."""
        return False

    def first_state(self, *sources: Any, **inputs: Any) -> State:
        """The state before the first step. sources: templates of what `step` gets; their numbers do not count."""
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def step(self, state: State, *sources: Any, **inputs: Any) -> tuple[Tensor, State]:
        """The output of one step, and the state after it."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def one_step(self, state: State, *sources: Tensor, **inputs: Tensor) -> tuple[Tensor, State]:
        """The output of a step of a loop, and the state after it, from sources as they are."""
        changes = self.spec.changes
        with nullcontext(inputs) if changes is None else changed_parameters(self, inputs) as plain_inputs:
            out, state = self.step(state, *self.prepared(*sources), **plain_inputs)
            return self.finished(out), state

    def begin_steps(self) -> None:
        """Computes what is the same in each step, before the steps of a loop."""

    def end_steps(self) -> None:
        """After the steps."""

    def leave_loop(self, axis: Dim) -> None:
        """The layer is computed for all frames of a loop together from now on: `compute` along the axis of the loop."""
        vars(self)["axis"] = axis

    def output_of(self, state: State) -> Tensor:
        """The output that belongs to a state: the one before the first step, for example."""
        raise NetworkError(f"{self.name}: the output before a step is not part of its state")

    def parts_of(self, state: State) -> dict[str, Tensor]:
        """The further outputs that belong to a state."""
        return {}

    def axis_in_loop(self, given: object, axes: NetworkDims, source: Tensor | None, *, numbers: bool) -> object:
        """The option `axis` in a loop: None if it means the axis of the loop, which the source of a step lacks."""
        if self.loop is None:
            return given
        if source is None or given is single_step_dim or given is self.loop.axis:
            return None
        try:
            return axes.one(given, source, numbers=numbers)
        except DimError:
            return None


class ChoosingLayer(Layer):
    """A layer that has another output in a step of a search."""

    def choose(self, steps: StepsOfSearch, *sources: Any, **inputs: Any) -> Tensor:
        """The output in a step of a search."""
        raise NotImplementedError(f"{type(self).__name__} has no choose")

    def choose_step(self, steps: StepsOfSearch, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """The output in a step of a search, from sources as they are."""
        return self.finished(self.choose(steps, *self.prepared(*sources), **inputs))


class LayerOfNets(Layer):
    """A layer that computes nets itself, one for each of the `units` that the net dict describes."""

    @classmethod
    def net_inside(
        cls, builder: Builder, scope: Scope, path: str, described: Mapping[str, object]
    ) -> tuple[InnerNet | Branches | None, dict[str, str]]:
        """The nets, or None; and the values that they need, by names of inputs."""
        return None, {}

    @property
    def nets_inside(self) -> list[InnerNet]:
        """The nets."""
        return []

    def ends_inside(self, node: NetNode) -> list[str]:
        """The paths of what outputs and losses inside of the layer, whose node this is, need after the steps."""
        return []

    def mask_of_frames(self, node: NetNode, values: Mapping[str, Tensor]) -> tuple[Tensor, Dim] | None:
        """The mask of the frames in the last batch that the layer takes, and their axis; None if it takes all."""
        return None

    def losses_inside(self, node: NetNode) -> list[NetNode]:
        """The layers with a loss inside of this one, whose node is given, with the paths that they have outside."""
        return []

    def values_of_loss(self, node: NetNode, end: NetNode, values: Mapping[str, Tensor]) -> Mapping[str, Tensor]:
        """The output and the target, by path, of a loss inside of the layer. values: those of the network."""
        raise NotImplementedError(f"{type(self).__name__} has no losses inside")


def nets_inside(layer: Layer | None) -> list[InnerNet]:
    """The nets that a layer computes itself."""
    return layer.nets_inside if isinstance(layer, LayerOfNets) else []


def joined(sources: Sequence[Tensor], out_dim: Dim | None) -> Tensor:
    """The sources one after the other in their features."""
    dense = [one_hot(x) if x.sparse_dim is not None else x for x in sources]
    parts = [(x, x.feature_dim if x.feature_dim is not None else x.dims[-1]) for x in dense]
    x, dim = concat(*parts, allow_broadcast=True, out_dim=out_dim)
    return set_feature_dim(x, dim)


def layer_by_class(name: object) -> type[Layer]:
    """The class of layers with this name in net dicts. Raises NetworkError if there is none."""
    if isinstance(name, str) and name in MODULES and name not in LAYERS:
        importlib.import_module(MODULES[name])
    if not isinstance(name, str) or name not in LAYERS:
        names = sorted({*MODULES, *LAYERS})
        near, own = did_you_mean(name, names), f"@rf.layer({name!r:.60}) makes a function or an rf.Module this class"
        hint = f"{near} Otherwise, {own}" if near else own
        fault, expected = f"there is no layer class {name!r:.60}", '"class": one of the known classes'
        raise NetworkError(fault, expected=expected, hint=hint if isinstance(name, str) else None)
    return LAYERS[name]

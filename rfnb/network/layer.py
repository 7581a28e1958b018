"""The base of layers: their options as fields, parameters, and one `compute`. A layer knows no network."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, ClassVar

from rfnb.core.dims.dim import Dim, single_step_dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.arguments import Count, Positive, Probability
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import State
from rfnb.errors import DimError, NetworkError
from rfnb.network.axes import NetworkDims, renamed
from rfnb.network.layer_call.batch_norm import BatchNormCall
from rfnb.network.layer_call.param_changes import Changes, changed_parameters
from rfnb.network.options import REQUIRED, Option, value
from rfnb.network.resolve import MODULES
from rfnb.nn.module.module import Module
from rfnb.ops.concat import concat
from rfnb.ops.index import one_hot
from rfnb.ops.random import dropout
from rfnb.ops.shape import set_feature_dim

if TYPE_CHECKING:
    from rfnb.network.build.node import NetNode
    from rfnb.network.rec.net import RecNet

LAYERS: dict[str, type[Layer]] = {}
"""The classes that were imported, by their names in net dicts."""

NewParameter = Callable[[str, Sequence[Dim], Any], Any]

IGNORED = frozenset(
    "collocate_with param_device control_dependencies_on_output debug_print_layer_output updater_opts "
    "custom_param_importer encapsulate out_shape state in_dim extra_deps mask copy_output_loss_from_source_idx".split()
)
"""Options without effect here."""


class Layer(Module):
    """Base of the layers of net dicts. A subclass names its class, declares its options, and computes its output.

    >>> from rfnb.network import layer, options
    >>> class Double(layer.Layer, layer_class="double"):
    ...     factor: float = options.value(2.0, float)
    ...
    ...     def compute(self, x):
    ...         return x * self.factor
    >>> sorted(name for name in Double.options if name == "factor")
    ['factor']
    >>> _ = layer.LAYERS.pop("double")

    Attributes:
        joins: whether several sources are joined in their features; otherwise `compute` gets each of them.
        keeps_features: whether as many features as those of the source are the same dim, if the user made it.
        broadcasts: whether axes of size 1 of a source stand for axes that only others have.
        sourceless: whether the layer has no sources unless `from` is given.
        recurrent: whether the layer has a net of its own that is one step of a loop.
        can_step: whether the layer may carry a state from step to step of a loop that it stands in, instead of an axis.
        in_search: whether a step of a search calls `choose` instead of `compute`.
        state_has_output: whether the state contains the output, so that the one before the first step is known.
        can_leave: whether a loop may compute the layer for all frames together, outside of it.
        batch_independent: whether each sequence is computed as if it was the only one of its batch, wherever the
            reference lets frames after the end of a sequence into it.
        units: options with the description of a layer that this one computes, which may be a whole net.
        by_place: whether the values that leave a search are those by place in the beam, not those of hypotheses.
        by_mask: whether a mask of each step decides if the layer is computed, so that its frames count by sequence.
        keeps_log: whether another layer of the net takes logarithms, so that a softmax keeps what went into it.
        described: what the net dict gives. line: of the config, where that stands.
        so_far: an axis of the output that grows from step to step.
        loop: the recurrent net that the layer stands in. nets: all recurrent nets of the network, by path.
        parts: further outputs of the last call, such as "indices"; references name them "layer/indices".
        gives_parts: whether another layer, or somebody outside of a loop, takes one of them.
    """

    layer_class: ClassVar[str | None] = None
    options: ClassVar[dict[str, Option]] = {}
    joins: ClassVar[bool] = True
    keeps_features: ClassVar[bool] = False
    broadcasts: ClassVar[bool] = False
    sourceless: ClassVar[bool] = False
    cell_scope: ClassVar[str] = ""  # before the names of the variables of a cell
    recurrent: ClassVar[bool] = False
    can_step: ClassVar[bool] = False
    in_search: ClassVar[bool] = False
    by_place: ClassVar[bool] = False
    can_leave: ClassVar[bool] = True
    state_has_output: ClassVar[bool] = False
    units: ClassVar[tuple[str, ...]] = ()

    n_out: int | None = value(None, Positive)
    out_dim: Dim | None = value(None, Dim)
    out_type: Any = value(None)
    target: Any = value(None, str, list, tuple)
    size_target: Any = value(None, str)
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
    dropout_axis: Any = value(None)
    dropout_noise_shape: Any = value(None, dict, list, tuple)
    dropout_on_forward: bool = value(False, bool)
    allow_broadcast_all_sources: bool = value(True, bool)
    batch_norm: bool | dict[str, Any] | None = value(None, bool, dict)
    register_as_extern_data: str | None = value(None, str)

    def __init_subclass__(cls, *, layer_class: str | Sequence[str] = (), **options: Any) -> None:
        super().__init_subclass__(**options)
        declared = {name: option for name, option in vars(cls).items() if isinstance(option, Option)}
        cls.options = {**cls.options, **declared}
        names = [layer_class] if isinstance(layer_class, str) else list(layer_class)
        if names:
            cls.layer_class = names[0]
            LAYERS.update(dict.fromkeys(names, cls))

    def __init__(self, name: str, version: int):
        self.name, self.version = name, version
        values = ((name, option.default) for name, option in self.options.items())
        vars(self).update({name: None if value is REQUIRED else value for name, value in values})
        self.batch_independent = self.by_mask = self.keeps_log = False
        self.line: int | None = None
        self.loop: RecNet | None = None
        self.nets: Mapping[str, RecNet] = {}
        self.so_far: Dim | None = None
        self.joined_dim: Dim | None = None
        self.target_dim: Dim | None = None
        self.renamed: tuple[tuple[tuple[Dim, Dim | None], ...], ...] = ()
        self.feature_dim: Dim | None = None
        self.logits: Tensor | None = None
        self.dropped_dims: tuple[Dim, ...] = ()
        self.parts: dict[str, Tensor] = {}
        self.gives_parts = True
        self.normalized: BatchNormCall | None = None
        self.changes = Changes()
        self.prepares = self.finishes = True
        self.before: Tensor | None = None  # the activation
        self.for_penalties: tuple[Tensor, Tensor] | None = None

    @classmethod
    def rewritten(cls, described: Mapping[str, Any]) -> Mapping[str, Any]:
        """What a net dict gives, with the references to other layers where all classes have them."""
        return described

    @classmethod
    def net_inside(
        cls, builder: Any, scope: Any, path: str, described: Mapping[str, Any]
    ) -> tuple[Any, dict[str, str]]:
        """A net that the layer computes itself, or None; and the values that it needs, by names of inputs."""
        return None, {}

    def __call__(self, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """The output for these sources, and for further inputs by the names of their options."""
        if self.prepares:
            sources = self.prepared(*sources)
        if not self.changes:
            out = self.compute(*sources, **inputs)
        else:
            with changed_parameters(self, inputs) as plain_inputs:
                out = self.compute(*sources, **plain_inputs)
        return self._finished(out) if self.finishes or out.feature_dim is not self.feature_dim else out

    def one_step(self, state: State, *sources: Tensor, **inputs: Tensor) -> tuple[Tensor, State]:
        """The output of a step of a loop, and the state after it."""
        with changed_parameters(self, inputs) if self.changes else nullcontext(inputs) as plain_inputs:
            out, state = self.step(state, *self.prepared(*sources), **plain_inputs)
            return self._finished(out), state

    def _finished(self, out: Tensor) -> Tensor:
        if out.feature_dim is not self.feature_dim and (self.feature_dim is None or self.feature_dim in out.sig.index):
            out = set_feature_dim(out, self.feature_dim)
        if self.normalized is not None:
            out = set_feature_dim(self.normalized(out), self.feature_dim)
        if self.darc1 or self.spatial_smoothing:
            self.for_penalties = out if self.before is None else self.before, out
            self.before = None
        return out

    def activated(self, function: Callable[[Tensor], Tensor], x: Tensor) -> Tensor:
        """The function of `x`, for `compute`; the layer keeps `x` if an option is about it. {…} → the same"""
        if self.darc1:
            self.before = x
        return function(x)

    def prepared(self, *sources: Tensor) -> tuple[Tensor, ...]:
        """The sources as `compute` gets them: with equal dims, joined, with dropout."""
        prepared = [renamed(x, pairs) for x, pairs in zip(sources, self.renamed, strict=True)]
        if self.joins and len(prepared) > 1:
            prepared = [joined(prepared, self.joined_dim)]
        if self.dropout and prepared:
            if prepared[0].sparse_dim is not None and get_run_ctx().train_flag:
                got, hint = prepared[0].describe_dims(), "dropout in the layers after it"
                raise NetworkError("dropout in training needs numbers, and the source has labels", got=got, hint=hint)
            prepared[0] = dropout(prepared[0], self.dropout, axis=self.dropped_dims, on_forward=self.dropout_on_forward)
        return tuple(prepared)

    def matching(self, axes: NetworkDims, source: Tensor, first: Tensor) -> Sequence[tuple[Dim, Dim]]:
        """Which dims of a source stand for dims of the first one."""
        return axes.matching(source, first, self.version)

    def setup(self, *sources: Tensor, **inputs: Tensor) -> None:
        """Makes the parameters and the dims that the result has, from templates of what `compute` gets."""

    def compute(self, *sources: Any, **inputs: Any) -> Tensor:
        """The output."""
        raise NotImplementedError(f"{type(self).__name__} has no compute")

    @property
    def nets_inside(self) -> list[Any]:
        """The nets that the layer computes itself, one for each of the `units` that the net dict describes."""
        return []

    @property
    def takes_target(self) -> bool:
        """Whether `compute` gets the target as the input `target`; if there are several, `target1` and so on too."""
        return False

    @property
    def needs_all_frames(self) -> bool:
        """Whether the layer cannot be computed step by step."""
        return False

    @property
    def what_keeps(self) -> str:
        """What keeps the layer in the steps of a loop, whatever it needs; "" if nothing does."""
        return "" if self.can_leave else "has no form for all steps together"

    @property
    def takes_sources(self) -> bool:
        """Whether the output depends on the sources at all."""
        return True

    @property
    def stepwise(self) -> bool:
        """Whether the layer carries a state from step to step of the loop that it stands in."""
        return self.can_step and self.loop is not None and getattr(self, "axis", None) is None

    def first_state(self, *sources: Any, **inputs: Any) -> State:
        """The state before the first step. sources: templates of what `step` gets; their numbers do not count."""
        raise NotImplementedError(f"{type(self).__name__} has no state")

    def step(self, state: State, *sources: Any, **inputs: Any) -> tuple[Tensor, State]:
        """The output of one step, and the state after it."""
        raise NotImplementedError(f"{type(self).__name__} has no step")

    def begin_steps(self) -> None:
        """Computes what is the same in each step, before the steps of a loop."""

    def begun_tensors(self) -> list[Tensor]:
        """What `begin_steps` has computed."""
        return []

    def end_steps(self) -> None:
        """After the steps."""

    def leave_loop(self, axis: Dim) -> None:
        """The layer is computed for all frames of a loop together from now on: `compute` along the axis of the loop."""
        vars(self)["axis"] = axis

    def output_of(self, state: State) -> Tensor:
        """The output that belongs to a state: the one before the first step, for example."""
        raise NetworkError(f"{self.name}: the output before a step is not part of its state")

    def choose(self, steps: Any, *sources: Any, **inputs: Any) -> Tensor:
        """The output in a step of a search."""
        raise NotImplementedError(f"{type(self).__name__} has no choose")

    def choose_step(self, steps: Any, *sources: Tensor, **inputs: Tensor) -> Tensor:
        """The output in a step of a search, from sources as they are."""
        return self._finished(self.choose(steps, *self.prepared(*sources), **inputs))

    def search_of(self, x: Tensor) -> RecNet | None:
        """The recurrent net whose search a value is of: that with a beam of its dims."""
        return next((rec for rec in self.nets.values() if rec.beam is not None and rec.beam in x.dims), None)

    def parts_of(self, state: State) -> dict[str, Tensor]:
        """The further outputs that belong to a state."""
        return {}

    def axis_in_loop(self, given: Any, axes: NetworkDims, source: Tensor | None, *, numbers: bool) -> Any:
        """The option `axis` in a loop: None if it means the axis of the loop, which the source of a step lacks."""
        if source is None or given is single_step_dim or given is (None if self.loop is None else self.loop.axis):
            return None
        try:
            return axes.one(given, source, numbers=numbers)
        except DimError:
            return None

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """The feature dim of the result: that of `compute`, else the `out_dim`, else that of the first source."""
        candidates = [out.feature_dim, self.out_dim, *(x.feature_dim for x in sources)]
        return next((dim for dim in candidates if isinstance(dim, Dim) and dim in out.sig.index), None)

    def order_of(self, order: list[Dim], sources: Sequence[Tensor]) -> list[Dim]:
        """The declared order of the result, by default the usual one."""
        return order

    def names_of_dims(self) -> dict[Dim, str]:
        """Names that the layer gives to dims of its result, for axis descriptions such as `stag:name`."""
        return {}

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

    @property
    def params(self) -> dict[str, Parameter]:
        """The parameters by their names, "W" and "b" for example; inside of a call, those of this call."""
        attributes = vars(self)
        params = {name: attributes[name] for name in self._made if isinstance(attributes.get(name), Parameter)}
        return {**params, **self.changes.now} if self.changes else params  # type: ignore[dict-item]

    pool: NetworkDims
    config: Mapping[str, Any] = MappingProxyType({})
    described: Mapping[str, Any] = MappingProxyType({})
    _made: tuple[str, ...] = ()  # the names of the parameters
    _new_parameter: NewParameter | None = None
    _value_of: Callable[[str], Tensor] | None = None
    _origin_of: Callable[[int, Dim], str] | None = None

    def parameter(self, name: str, dims: Sequence[Dim], initial: Any) -> Parameter:
        """A parameter with this name, new or shared with another layer."""
        assert self._new_parameter is not None
        parameter = self._new_parameter(name, dims, initial)
        self.own_parameter(name, parameter)
        return parameter

    def own_parameter(self, name: str, made: Any) -> None:
        """Makes a parameter one of this layer."""
        setattr(self, name, made)
        self._made = (*self._made, name)

    def value_of(self, option: str) -> Tensor:
        """In `setup`: the output, with numbers, of the layer that an option names, which must not depend on data."""
        assert self._value_of is not None
        return self._value_of(option)

    def origin_of(self, source: int, dim: Dim) -> str:
        """In `setup`: the path of the layer that made a dim of a source, as dims of one size may be one Dim."""
        assert self._origin_of is not None
        return self._origin_of(source, dim)

    @property
    def name_in_loop(self) -> str:
        """The path of the layer in the recurrent net that it stands in; without one, in the whole net."""
        return self.name if self.loop is None else self.loop.name_of(self.name)

    def extra_repr(self) -> str:
        """The class in the net dict and the name."""
        return f"{self.layer_class} {self.name}"


Layer.options = {name: option for name, option in vars(Layer).items() if isinstance(option, Option)}


def joined(sources: Sequence[Tensor], out_dim: Dim | None) -> Tensor:
    """The sources one after the other in their features."""
    dense = [one_hot(x) if x.sparse_dim is not None else x for x in sources]
    parts = [(x, x.feature_dim if x.feature_dim is not None else x.dims[-1]) for x in dense]
    x, dim = concat(*parts, allow_broadcast=True, out_dim=out_dim)
    return set_feature_dim(x, dim)


def layer_by_class(name: Any) -> type[Layer]:
    """The class of layers with this name in net dicts. Raises NetworkError if there is none."""
    if isinstance(name, str) and name in MODULES and name not in LAYERS:
        importlib.import_module(MODULES[name])
    if not isinstance(name, str) or name not in LAYERS:
        names = sorted({*MODULES, *LAYERS})
        raise NetworkError(
            f"there is no layer class {name!r:.60}",
            expected='"class": one of the known classes',
            hint=did_you_mean(name, names) or f"known: {', '.join(names)}",
        )
    return LAYERS[name]

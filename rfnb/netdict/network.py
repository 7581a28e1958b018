"""`rf.Network`: a net dict as a module."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from rfnb.checkpoint.load import load
from rfnb.checkpoint.report import LoadReport
from rfnb.checkpoint.save import save
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.op import guard_methods
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.tensor.tensor_dict import TensorDict
from rfnb.errors import DataNotFound, LayerNotFound, NetworkError, RfError
from rfnb.netdict.build import NetNode, check_net, ends_of, every_node, run_node, set_values, values_of
from rfnb.netdict.builder import Builder
from rfnb.netdict.config.compute import Own, with_own
from rfnb.netdict.config.read import Config, read_config
from rfnb.netdict.extern_data import DataKey, ExternData
from rfnb.netdict.layer import Layer, LayerOfNets
from rfnb.netdict.layer_call import error_of
from rfnb.netdict.loops.explain import NetExplanation, explanation_of
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.loops.order import decide_parts, order_of, outside_needs
from rfnb.netdict.loops.run import RecRun
from rfnb.netdict.loops.search import SearchChoices, searched_net, searching
from rfnb.netdict.loss_holder import LossHolder, constraints_of, holders_of
from rfnb.netdict.report.findings import NetworkReport, report_of
from rfnb.netdict.report.outline import OutlineEntry, outline
from rfnb.netdict.report.rehearsal import construct_what_can, further_faults, rehearse
from rfnb.netdict.versions import default_behavior_version
from rfnb.nn.module.module import Module
from rfnb.ops.concat import concat_features
from rfnb.ops.grad import stop_gradient_scope
from rfnb.printable import encodable
from rfnb.search.result import Found

if TYPE_CHECKING:
    from rfnb.netdict.builder import Builder

T = TypeVar("T")

ONLY_TENSORFLOW = {
    "add_layer": 'net.construct_layer({"name": {"class": …}}, "name")',
    "make_subnet": '{"class": "subnetwork", "subnetwork": {…}}',
    **dict.fromkeys(["make_extra_net", "construct_extra_net"], '"from": "extra.search:layer" in the net dict'),
    "get_fetches_dict": "net(batch), net.get_losses_initialized(with_total=True)",
    "get_seq_tags": "the tags of rf.hdf(path)",
    "get_saveable_param_replace_dict": "rf.load(path, net, rename={…})",
    "get_var_assigner": 'net.get_layer("name").params["W"].assign(array)',
    "reset_saver": "rf.save(net, path), as often as you like",
    "get_global_batch_info": "out[name].dims",
    "debug_search_choices": "rf.show(net.search(batch))",
    "get_control_flow_ctx": 'net.get_layer("name").loop',
    **{name: way for way, names in {
        '":i" in the unit of a rec layer': "set_rec_step_info get_rec_step_info get_rec_step_index",
        "plain Python, in the order that you need": "register_post_control_dependencies get_post_control_dependencies",
        "there is no graph to reset": "register_graph_reset_callback get_graph_reset_callbacks "
        "call_graph_reset_callbacks",
        "a line after net(batch)": "register_run_finished_callback set_run_finished",
        "the variable that you gave the network to": "get_network_stack get_current_network register_network_scope",
        'net.get_layer("output").get_search_choices()': "get_search_choices_from_beam register_search_choices_for_beam",
    }.items() for name in names.split()},
}  # fmt: skip
"""Methods of the reference that TensorFlow alone gives a meaning, and what to write instead."""


@dataclass
class ParamsSerialized:
    """All parameters as arrays, {path of the layer: {name: array}}, and the number of the training step."""

    values_dict: dict[str, dict[str, np.ndarray]] = field(repr=False)
    global_train_step: int = 0


class Interface(Module):
    """What `rf.Network` has of the reference's class beside construction, calls and losses.

    A `session`, which the reference needs, is accepted and not used.
    """

    config: dict[str, Any]
    extern_data: ExternData
    train_flag: bool | None
    _builder: Builder
    _run_opts: dict[str, object] | None = None
    _trained: dict[int, bool] | None = None  # by the id of parameters, what the net dict says

    @property
    def layers(self) -> dict[str, Layer]:
        """The constructed layers by path, each after those that it needs."""
        return {path: node.layer for path, node in self._builder.nodes.items() if node.layer is not None}

    def get_layer(self, layer_name: str) -> Layer:
        """A constructed layer: "encoder", or "subnet/layer". Raises LayerNotFound."""
        layers = self.layers
        if layer_name not in layers:
            hint = did_you_mean(layer_name, layers)
            if hint is None and layer_name in self._builder.scope.layers:
                hint = f'nothing needs it: "{layer_name}": {{…, "is_output_layer": True}}'
            raise LayerNotFound(f"get_layer: there is no layer {layer_name!r}", expected=", ".join(layers), hint=hint)
        return layers[layer_name]

    # -- layers

    def get_all_layers_shallow(self) -> list[Layer]:
        """The layers of the net dict itself and of additional nets, without those inside of others.

        >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
        >>> inner = {"class": "subnetwork", "from": "data", "subnetwork": {"output": {"class": "copy", "from": "data"}}}
        >>> _ = net.construct_from_dict({"output": inner})
        >>> [layer.name for layer in net.get_all_layers_shallow()], [each.name for each in net.get_all_layers_deep()]
        (['output'], ['output/output', 'output'])
        """
        return [layer for path, layer in self.layers.items() if "/" not in path]

    def get_all_layers_deep(self) -> list[Layer]:
        """All constructed layers, with those inside of others."""
        return [node.layer for node in every_node(self._builder.nodes).values() if node.layer is not None]

    def get_output_layers(self) -> list[Layer]:
        """The layers that are outputs or have a loss, sorted by name."""
        return [self.get_layer(name) for name in ends_of(self._builder.scope.layers) if name in self._builder.nodes]

    def get_default_output_layer_name(self) -> str | None:
        """The name "output", or that of the only output layer; None if there are several."""
        names = [layer.name for layer in self.get_output_layers()]
        return "output" if "output" in names else names[0] if len(names) == 1 else None

    def get_default_output_layer(self, must_exist: bool = True) -> Layer | None:
        """The layer "output", or the only output layer. Raises LayerNotFound if there are several."""
        name = self.get_default_output_layer_name()
        if name is None and must_exist:
            raise LayerNotFound("there is no default output layer", hint='"output": {…}')
        return None if name is None else self.get_layer(name)

    def get_search_choices(
        self, sources: Iterable[Layer] | None = None, src: Layer | None = None, base_search_choice: object = None
    ) -> SearchChoices | None:
        """The choices that a layer, `src`, comes from; None if it comes from no search.

        sources: several layers, of which the last one that comes from a search counts.
        """
        layers = [src] if src is not None else list(sources or ())
        choices = [layer.get_search_choices() for layer in layers if hasattr(layer, "get_search_choices")]
        return next((layer_choices for layer_choices in reversed(choices) if layer_choices is not None), None)

    def print_network_info(self, name: str = "Network") -> None:
        """Prints the layers with their classes and dims, and the number of parameters."""
        print(encodable(f"{name}: {len(self.layers)} layers, {self.get_num_params()} parameters"))
        for path, layer in self.layers.items():
            dims = self._builder.nodes[path].template.describe_dims()
            print(encodable(f"  {path} ({layer.layer_class}) {dims}"))

    # -- data

    def get_extern_data(self, key: str, mark_data_key_as_used: bool = True) -> DataKey:
        """The description of a data key. Raises DataNotFound."""
        return self.extern_data.get_data(self.extern_data.default_input if key == "data" else key)

    def get_used_data_keys(self, exclude_extra_added: bool = True) -> set[str]:
        """The data keys that layers or losses use.

        >>> extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 3, "sparse": True}, "more": {"dim": 3}})
        >>> net = rf.Network(extern_data=extern, eval_flag=True)
        >>> _ = net.construct_from_dict({"output": {"class": "softmax", "loss": "ce", "from": "data"}})
        >>> sorted(net.get_used_data_keys()), net.get_used_targets(), net.get_default_target()
        (['classes', 'data'], ['classes'], 'classes')
        """
        nodes = self._builder.nodes
        return {path.removeprefix("data:") for path in nodes if path.startswith("data:")}

    def get_used_targets(self) -> list[str]:
        """The data keys that are targets of layers, sorted."""
        targets = {node.target for node in every_node(self._builder.nodes).values() if node.target is not None}
        return sorted(target.removeprefix("data:") for target in targets if target.startswith("data:"))

    def get_default_target(self) -> str:
        """The target of losses that name none."""
        return self.extern_data.default_target

    def get_data_batch_dim(self) -> Dim:
        """The dim that counts the sequences of a batch."""
        return batch_dim

    # -- parameters

    def get_params_list(self) -> list[Parameter]:
        """All parameters, a shared one once."""
        return list(self.parameters())

    def get_saveable_params_list(self) -> list[Parameter]:
        """The parameters that a checkpoint has: all of them."""
        return self.get_params_list()

    def get_trainable_params(self) -> list[Parameter]:
        """The parameters that training changes."""
        return [parameter for parameter in self.parameters() if parameter.trainable]

    def get_auxiliary_params(self) -> list[Parameter]:
        """Parameters that are not the model's: none, as the training step is that of the run context."""
        return []

    def get_num_params(self) -> int:
        """The number of values in all parameters."""
        return sum(parameter.num_elements() for parameter in self.parameters())

    def declare_train_params(
        self,
        hidden_layer_selection: list[str] | None = None,
        with_output: bool | None = None,
        global_trainable: bool | None = None,
    ) -> None:
        """Says which layers are trained: these hidden layers, and the output layers if `with_output`.

        None: all that the net dict trains. global_trainable: False: none at all.

        >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
        >>> a = {"class": "linear", "n_out": 3, "from": "data"}
        >>> _ = net.construct_from_dict({"a": a, "output": {"class": "softmax", "n_out": 3, "from": "a"}})
        >>> net.declare_train_params(hidden_layer_selection=[], with_output=True)
        >>> [name for name, parameter in net.named_parameters() if parameter.trainable]
        ['output.W', 'output.b']
        """
        ends = {layer.name for layer in self.get_output_layers()}
        hidden = None if hidden_layer_selection is None else set(hidden_layer_selection)
        if unknown := sorted((hidden or set()) - set(self.layers)):
            raise LayerNotFound(f"declare_train_params: there is no layer {unknown[0]!r}", got=unknown)
        if self._trained is None:
            self._trained = {id(parameter): parameter.trainable for parameter in self.parameters()}
        for path, layer in self.layers.items():
            head = path if hidden is not None and path in hidden else path.partition("/")[0]
            selected = with_output is not False if head in ends else hidden is None or head in hidden
            for parameter in layer.params.values():
                trained = self._trained.get(id(parameter), parameter.trainable)
                parameter.trainable = trained and selected and global_trainable is not False

    def get_param_values_dict(self, session: object = None) -> dict[str, dict[str, Any]]:
        """The values of the parameters: {path of the layer: {name: array}}."""
        return values_of(self.layers)

    def set_param_values_by_dict(
        self,
        values_dict: Mapping[str, Mapping[str, object]],
        ignore_non_existing: bool = False,
        ignore_wrong_shape: bool = False,
        session: object = None,
    ) -> None:
        """Sets parameters: {path of the layer: {name: array}}. Raises ParameterError, and sets none, if one is bad."""
        set_values(
            self.layers,
            values_dict,
            variables=self._builder.variables.found,
            ignore_non_existing=ignore_non_existing,
            ignore_wrong_shape=ignore_wrong_shape,
        )

    def get_params_serialized(self, session: object = None) -> ParamsSerialized:
        """All parameters as arrays, with the number of the training step."""
        return ParamsSerialized(self.get_param_values_dict(), self.get_global_train_step())

    def set_params_by_serialized(self, serialized: ParamsSerialized, session: object = None, **options: Any) -> None:
        """Sets all that `get_params_serialized` gave. options: those of `set_param_values_by_dict`."""
        self.set_param_values_by_dict(serialized.values_dict, **options)
        self.set_global_train_step(serialized.global_train_step)

    def save_params_to_file(self, filename: str | Path, session: object = None) -> None:
        """Writes all parameters to a file, with `rf.save`."""
        save(self, filename)

    def load_params_from_file(self, filename: str | Path, session: object = None) -> LoadReport:
        """Sets all parameters to those in a file or in a checkpoint of TensorFlow, with `rf.load`."""
        return load(filename, self)

    # -- the run

    def set_global_train_step(self, step: int, session: object = None) -> None:
        """Sets the number of the training step of the run context."""
        get_run_ctx().step = int(step)

    def get_global_train_step(self, session: object = None) -> int:
        """The number of the training step of the run context."""
        return int(get_run_ctx().step)

    def get_epoch_step(self) -> int:
        """The number of the training step of the run context, which counts as you do."""
        return self.get_global_train_step()

    def set_run_opts(self, epoch: int, dataset_name: str | None = None) -> None:
        """Keeps options of a run for `get_run_opts`."""
        self._run_opts = {"epoch": epoch, "dataset_name": dataset_name}

    def get_run_opts(self) -> dict[str, object]:
        """What `set_run_opts` kept. Raises NetworkError if there is nothing."""
        if self._run_opts is None:
            raise NetworkError("get_run_opts: there are none", hint='net.set_run_opts(epoch=1, dataset_name="train")')
        return self._run_opts

    def cond_on_train(self, fn_train: Callable[[], T], fn_eval: Callable[[], T]) -> T:
        """`fn_train()` in training, else `fn_eval()`."""
        train = get_run_ctx().train_flag if self.train_flag is None else self.train_flag
        return fn_train() if train else fn_eval()

    def get_config(self, consider_global_config: bool = True, fallback_dummy_config: bool = True) -> Mapping[str, Any]:
        """The entries of the config."""
        return self.config

    # -- where the network is: it is nobody's subnetwork

    def get_root_network(self) -> Interface:
        """The network itself."""
        return self

    def get_absolute_name_prefix(self) -> str:
        """Nothing: the names of layers begin here."""
        return ""

    get_absolute_name_scope_prefix = get_absolute_name_prefix

    def is_inside_rec_layer(self, inside_loop: bool = True) -> bool:
        """False: a layer knows the loop that it stands in, as `layer.loop`."""
        return False

    def have_rec_step_info(self) -> bool:
        """False: steps are those of loops inside of the network."""
        return False

    def get_inside_rec_time_dim(self, inside_loop: bool = True) -> None:
        """None: the network is in no loop."""

    get_rec_parent_layer = get_inside_rec_time_dim

    def get_all_rec_time_dims(self) -> set[Dim]:
        """None of them: the network is in no loop."""
        return set()


def _absent(name: str, way: str) -> Callable[..., object]:
    def method(self: Interface, *_: object, **__: object) -> object:
        raise NetworkError(f"{name} has a meaning for TensorFlow only", expected="Torch", hint=way)

    method.__name__, method.__qualname__ = name, f"Interface.{name}"
    method.__doc__ = f"Only for TensorFlow. Here: {way}."
    return method


for _name, _way in ONLY_TENSORFLOW.items():
    setattr(Interface, _name, _absent(_name, _way))


class NetworkOutputs(Mapping[str, Tensor]):
    """The outputs of a call by the paths of the layers: "encoder", "subnet/layer"; and "data:key"."""

    def __init__(self, values: dict[str, Tensor]):
        self._values = values

    def __getitem__(self, path: str) -> Tensor:
        if path.endswith("/state:*") and path not in self._values and f"{path[:-1]}h" in self._values:
            return concat_features(self._values[f"{path[:-1]}c"], self._values[f"{path[:-1]}h"])
        if path not in self._values:
            hint = did_you_mean(path, self._values) or "a layer is constructed if an output or a loss needs it"
            raise LayerNotFound(f"there is no output of a layer {path!r}", expected=", ".join(self._values), hint=hint)
        return self._values[path]

    def __contains__(self, path: object) -> bool:
        return path in self._values

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Network(Interface):
    """A network that a net dict describes. Its layers are its submodules, with the names that they have there.

    >>> extern = rf.ExternData({"data": {"dim": 5}})
    >>> net = rf.Network(extern_data=extern)
    >>> _ = net.construct_from_dict({
    ...     "encoder": {"class": "linear", "n_out": 4, "activation": "tanh", "from": "data"},
    ...     "output": {"class": "softmax", "n_out": 3, "from": "encoder"},
    ... })
    >>> out = net(extern.example(batch=3))
    >>> out["output"].describe_dims(), net.get_layer("encoder").params["W"].describe_dims()
    ('{batch:3, data:5–7, feature:3}', '{feature:5, feature:4}')

    Args:
        config: further options: `behavior_version`, for example.
        extern_data: the data keys.
        train_flag: whether this is training: dropout, label smoothing; None: as in the run context of each call, in
            which losses are marked too. eval_flag: whether there are losses; training has them anyway.
        search_flag: whether layers that are only for search are constructed.
        device: where the parameters are.
        batch_independent: whether each sequence gets the values that the reference computes for it alone. Otherwise,
            as in the reference, some layers let frames after the end of a sequence into it.
    """

    def __init__(
        self,
        config: Mapping[str, object] | None = None,
        extern_data: ExternData | None = None,
        rnd_seed: int | None = None,
        train_flag: bool | None = False,
        eval_flag: bool = False,
        search_flag: bool = False,
        name: str = "network",
        device: str | None = None,
        batch_independent: bool = False,
    ):
        self.config = dict(config or {})
        self.extern_data = ExternData(self.config.get("extern_data") or {}) if extern_data is None else extern_data
        self.train_flag, self.search_flag = train_flag, search_flag
        self.batch_independent = batch_independent
        self.eval_flag = bool(eval_flag or train_flag is not False)
        self.name = name
        version = self.config.get("behavior_version")
        self.behavior_version: int = default_behavior_version() if version is None else version
        self._builder = Builder(self, self.extern_data, self.behavior_version, device, search=search_flag)
        self._order: list[NetNode | RecNet] = []
        self._values: dict[str, Tensor] = {}
        self._holders: dict[str, LossHolder] | None = None
        self.failures: dict[str, Exception] = {}
        self.notes: dict[int, str] = {}  # by line of the config, what depends on its machine
        self._searches: dict[int | None, Network] = {}  # by beam size

    def __getstate__(self) -> dict[str, object]:
        """A copy has no values of the last batch."""
        return {**vars(self), "_values": {}, "_holders": None, "_searches": {}}

    @classmethod
    def from_config(
        cls,
        path: str | Path,
        *,
        options: dict[str, object] | None = None,
        epoch: int | None = None,
        device: str | None = None,
        train_flag: bool | None = None,
        search_flag: bool = False,
        functions: Mapping[str, Callable[..., object]] | None = None,
        strict: bool = True,
        batch_independent: bool = False,
    ) -> Network:
        """The network of a config file, which is read by `rf.read_config` and not run.

        Args:
            options: values that the config gets when it asks for them. epoch: of the training; default: the last one.
            functions: stand for functions of the config with these names; they get Tensors and give one.
            strict: whether a layer that cannot be constructed is an error. Otherwise such layers are left out:
                `net.report()` lists them, `rf.show(net)` draws them in red, and a call of the network raises.
            batch_independent: whether values do not depend on the other sequences of the batch.

        >>> import tempfile, pathlib
        >>> path = pathlib.Path(tempfile.mkdtemp()) / "net.config"
        >>> text = "extern_data = {'data': {'dim': 3}}\\nnetwork = {'output': {'class': 'copy', 'from': 'data'}}"
        >>> _ = path.write_text(text)
        >>> list(rf.Network.from_config(path).layers)
        ['output']
        """
        config = read_config(path, options=options)
        return network_of(
            config, config.network(epoch), cls=cls, device=device, train_flag=train_flag, search_flag=search_flag,
            functions=functions, strict=strict, batch_independent=batch_independent,
        )  # fmt: skip

    # -- construction

    def construct_layer(
        self, net_dict: Mapping[str, object], name: str, get_layer: object = None, add_layer: object = None,
        check_existing: bool = True,
    ) -> Layer:  # fmt: skip
        """Constructs one layer of a net dict, with all that it needs, unless it is there. Returns it.

        >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
        >>> a = {"class": "linear", "n_out": 3, "from": "data"}
        >>> net.construct_layer({"a": a, "b": {"class": "copy", "from": "a"}, "c": {}}, "b").name, list(net.layers)
        ('b', ['a', 'b'])
        """
        if get_layer is not None or add_layer is not None:
            raise _of_graphs("construct_layer: get_layer and add_layer are")
        check_net(net_dict)
        path = self._builder.construct_one(net_dict, name)
        self._put_in_order()
        return self.get_layer(path)

    def construct_from_dict(
        self, net_dict: Mapping[str, object], get_layer: object = None, *, strict: bool = True
    ) -> Network:
        """Constructs the outputs and losses of a net dict, and all layers that they need. Returns the network.

        strict: whether a layer that cannot be constructed is an error; otherwise it is in `failures`.

        Raises LayerNotFound, DataNotFound, NetworkConstructionDependencyLoopException, or another NetworkError.
        """
        if get_layer is not None:
            raise _of_graphs("construct_from_dict: get_layer is")
        if not isinstance(net_dict, Mapping):
            fault = "construct_from_dict: this is not a net dict"
            raise NetworkError(fault, got=type(net_dict).__name__, expected='{"output": {"class": …}}')
        check_net(net_dict)
        ends = ends_of(net_dict, search=self.search_flag, evaluate=self.eval_flag)
        if not ends and strict:
            raise NetworkError("construct_from_dict: there is no layer to construct", expected='"output": {…}')
        if strict:
            self._builder.construct(net_dict, ends)
        else:
            entries = self.outline(net_dict)
            self.failures = construct_what_can(self._builder, net_dict, entries)
            if self.failures:
                self.failures |= further_faults(self._builder, net_dict, entries, self.failures)
        self._put_in_order()
        return self

    def outline(self, net_dict: Mapping[str, object] | None = None) -> dict[str, OutlineEntry]:
        """The layers of the net dict by path, with what each refers to, whether they are constructed or not."""
        layers = self._builder.scope.layers if net_dict is None else net_dict
        ends = ends_of(layers, search=self.search_flag, evaluate=self.eval_flag)
        return outline(layers, ends, self.extern_data, version=self.behavior_version)

    def report(self) -> NetworkReport:
        """What stops the network, what it ignores, and what differs from the reference, the worst first."""
        return report_of(self, self._nodes, self._order)

    def search_faults(self) -> Iterator[tuple[str, Exception]]:
        """What would fail in `search`, by path, if there is a choice to search with."""
        if self.search_flag or all(layer.layer_class != "choice" for layer in self.every_layer().values()):
            return
        try:
            net = searching(self, None)
        except RfError as error:
            yield getattr(error, "at_layer", ""), error
            return
        for path, _, fault in rehearse(net, net._nodes, net._order, train=False, losses=False):
            yield path, fault
        choices = {path: layer for path, layer in net.every_layer().items() if layer.layer_class == "choice"}
        if all(getattr(layer, "input_type", None) == "regression" for layer in choices.values()):
            yield next(iter(choices)), _nothing_to_search()

    def every_layer(self) -> dict[str, Layer]:
        """`layers`, and those inside of others: units of masked_computation, "m/unit/a", and sides of cond."""
        return {path: node.layer for path, node in every_node(self._nodes).items() if node.layer is not None}

    @property
    def _nodes(self) -> dict[str, NetNode]:
        return self._builder.nodes

    def template(self, path: str) -> Tensor:
        """The template of a layer's output: its dims in the declared order, and its dtype, without numbers."""
        self.get_layer(path)
        return self._builder.seen(path, self._builder.scope)

    def templates(self) -> dict[str, Tensor]:
        """The templates of all constructed layers by path, and those of the data that they read, as "data:key"."""
        return {path: node.template for path, node in every_node(self._nodes).items()}

    def variables(self) -> dict[str, Parameter]:
        """The parameters by the names that they have in checkpoints of the reference: "output/rec/s/W"."""
        return dict(self._builder.variables.found)

    # -- a batch

    def forward(self, data: Mapping[str, object] | TensorDict) -> NetworkOutputs:
        """The outputs of all layers: the same as calling the network."""
        outputs: NetworkOutputs = self(data)
        return outputs

    def __call__(self, data: Mapping[str, object] | TensorDict) -> NetworkOutputs:
        """The outputs of all layers for a batch.

        data: by key a Tensor, or an array, or the pair of an array and lengths: one number for each sequence, or
            {axis: numbers} if several axes have lengths.
        """
        if self.failures:
            raise next(iter(self.failures.values()))
        tensors = self.extern_data.tensors(data)
        values = {f"data:{key}": x for key, x in tensors.items()}
        with self._flags():
            for node in self._order:
                if node.layer is not None:
                    self._run(node, node.layer, values)
            vars(self).update(_values=values, _holders=None)  # without a look at each value
            if self.train_flag is None and get_run_ctx().stage == "train_step":
                for holder in self.get_losses_initialized()[0].values():
                    holder.mark()
        return NetworkOutputs(values)

    def _put_in_order(self) -> None:
        self._order = order_of(self._nodes, None)
        decide_parts(self._order, self._nodes)

    def _flags(self) -> AbstractContextManager[None]:
        return nullcontext() if self.train_flag is None else get_run_ctx().train_flag_ctx(self.train_flag)

    def _run(self, node: NetNode | RecNet, layer: Layer, values: dict[str, Tensor]) -> None:
        """Computes a layer, or a recurrent net with all its steps."""
        try:
            if isinstance(node, NetNode):
                run_node(node, values)
            else:
                _check_values(node, values)
                RecRun(node, values, self._nodes).run()
        except Exception as error:
            _check_values(node, values, *(error.args if isinstance(error, KeyError) else ()))
            explained = error_of(layer, error)
            if explained is error:
                raise
            raise explained from error

    def search(
        self, data: Mapping[str, object] | TensorDict, *, beam_size: int | None = None, layer: str | None = None
    ) -> Found:
        """The search of a recurrent layer with a choice: n-best lists, scores, the tree. No gradients are recorded.

        The same net is constructed once more, with the same parameters, so flags and results of this one stay.

        Args:
            beam_size: of the choices; default: as the net dict says. layer: the recurrent layer, if several search.

        >>> unit = {
        ...     "scores": {"class": "softmax", "from": "prev:output", "target": "classes"},
        ...     "output": {"class": "choice", "from": "scores", "target": "classes", "initial_output": 0},
        ...     "end": {"class": "compare", "from": "output", "value": 0},
        ... }
        >>> extern = rf.ExternData({"data": {"dim": 2}, "classes": {"dim": 3, "sparse": True}})
        >>> net = rf.Network(extern_data=extern)
        >>> rec = {"class": "rec", "unit": unit, "from": [], "target": "classes", "max_seq_len": 4}
        >>> found = net.construct_from_dict({"output": rec}).search(extern.example(), beam_size=3)
        >>> found.scores.dims[-1]
        Dim{beam:3}

        Raises LayerNotFound if no layer searches.
        """
        if beam_size not in self._searches:
            self._searches[beam_size] = searching(self, beam_size)
        net = self._searches[beam_size]
        rec = searched_net(net, layer)
        with stop_gradient_scope():
            net(data)
        if rec.found is None:
            raise _nothing_to_search()
        return rec.found

    def explain(self, layer: str = "output", batch: object = None) -> NetExplanation:
        """Where the layers of a loop are computed, and what keeps them in its steps; for a batch, how long they take.

        >>> unit = {
        ...     "x": {"class": "linear", "n_out": 3, "from": "data:source"},
        ...     "output": {"class": "combine", "kind": "add", "from": ["x", "prev:output"]},
        ... }
        >>> net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
        >>> _ = net.construct_from_dict({"output": {"class": "rec", "unit": unit, "from": "data"}})
        >>> net.explain("output")["x"].place, net.explain("output")["output"].path
        ('before the loop', ('output', 'prev:output', 'output'))

        Raises LayerNotFound if there is no loop with this name.
        """
        nets = self._builder.loops.nets
        if layer not in nets:
            hint = did_you_mean(layer, nets) or '"class": "rec", "unit": {…}'
            raise LayerNotFound(f"explain: {layer!r} has no loop", expected=", ".join(nets) or None, hint=hint)
        explanation = explanation_of(nets[layer], self._nodes, trains=self.train_flag is not False)
        return explanation if batch is None else explanation.timed(self, self.layers, batch)

    def masks_of_frames(self) -> dict[str, tuple[Tensor, Dim]]:
        """By path of a masked_computation, the mask of all frames of the last batch, and their axis."""
        layers = {node: node.layer for node in self._nodes.values() if isinstance(node.layer, LayerOfNets)}
        masks = {node.path: layer.mask_of_frames(node, self._values) for node, layer in layers.items()}
        return {path: mask for path, mask in masks.items() if mask is not None}

    # -- losses

    def get_losses_initialized(
        self, reduce_func: Callable[[Tensor], object] | None = None, with_total: bool = False
    ) -> tuple[dict[str, LossHolder], Any, Any]:
        """The losses of the last batch by the paths of their layers; the total loss and the constraints, or None.

        Args:
            reduce_func: what makes a value of the losses of all frames, instead of their sum; `lambda x: x` keeps them.
            with_total: whether to compute those two, which are 0 if there is nothing to sum.
        """
        if self._holders is None:
            if not self._values:
                raise NetworkError("get_losses_initialized: there was no batch yet", hint="net.forward(…) first")
            with self._flags():
                nodes = self._nodes.values() if self.eval_flag else ()
                self._holders = holders_of(nodes, self._values, self._has_loss)
        holders = self._holders
        if reduce_func is not None:
            holders = {name: holder.copy_new_base(reduce_func=reduce_func) for name, holder in holders.items()}
        if not with_total:
            return holders, None, None
        total: Any = 0
        for value in map(LossHolder.get_loss_value_for_objective, self._holders.values()):
            total = total if value is None else value + total
        return holders, total, self.get_total_constraints()

    def _has_loss(self, node: NetNode) -> bool:
        """Whether the loss of a layer counts: those in loops are for training."""
        if node.loss is None or node.layer is None:
            return False
        skipped = self.search_flag and node.layer.spec.common.loss_only_on_non_search
        return not skipped and (node.loop is None or self.train_flag is not False)

    def maybe_construct_objective(self) -> None:
        """Nothing: `get_objective` computes it."""

    def get_objective(self) -> Any:
        """The total loss and the constraints of the last batch: what training minimizes. → {}"""
        total, constraints = self._sums()
        return total + constraints

    def get_total_loss(self) -> Any:
        """The sum of the losses of the last batch, with their scales. → {}"""
        return self._sums()[0]

    def _sums(self) -> tuple[Any, Any]:
        """The total loss and the constraints. Raises NetworkError if the net was made without its losses."""
        _, total, constraints = self.get_losses_initialized(with_total=True)
        if not self.eval_flag and any(node.loss is not None for node in self._nodes.values()):
            got, hint = "train_flag=False, eval_flag=False", "rf.Network(…, train_flag=None) has losses in each call"
            raise NetworkError("the net was made without its losses", got=got, hint=hint)
        return total, constraints

    def get_total_constraints(self) -> Any:
        """The sum of the constraints on parameters, such as L2. → {}"""
        if self._builder.every_layer is None:
            self._builder.every_layer = [module for module in self.modules() if isinstance(module, Layer)]
        return constraints_of(self._builder.every_layer)

    def extra_repr(self) -> str:
        """The number of layers."""
        return f"{len(self.layers)} layers"


def network_of(
    config: Config,
    net_dict: Mapping[str, object],
    *,
    cls: type[Network] = Network,
    extern: ExternData | None = None,
    values: Mapping[str, object] | None = None,
    functions: Mapping[str, Callable[..., object]] | None = None,
    strict: bool = True,
    train_flag: bool | None = None,
    **flags: Any,
) -> Network:
    """The network of a config with one of its net dicts.

    extern: the data keys; default: those of the config. values: entries that stand for its own. functions, strict,
    flags: as of `Network.from_config`.
    """
    wrapped = {name: Own(function) for name, function in (functions or {}).items()}
    unclear = dict[str, Exception]()
    if extern is None:
        extern = ExternData()
        for key, described in config.extern_data().items():
            try:
                extern.register_data_from_dict({key: described})
            except RfError as error:
                if strict:
                    raise
                unclear[f"data:{key}"] = error
    entries, name = {**config.values, **(values or {}), **wrapped}, Path(config.path).stem
    net = cls(config=entries, extern_data=extern, train_flag=train_flag, name=name, **flags)
    net.notes = config.notes
    net.construct_from_dict(with_own(net_dict, wrapped), strict=strict)
    net.failures = {**unclear, **net.failures}
    return net


def _check_values(node: NetNode | RecNet, values: Mapping[str, Tensor], *keys: object) -> None:
    """Raises DataNotFound if the batch lacks data that a layer or a recurrent net needs, or one of the `keys`."""
    for name in (*outside_needs(node), *map(str, keys)):
        if name not in values and name.startswith("data:"):
            key = name.removeprefix("data:")
            hint = f'net.forward({{"{key}": (array, lengths), …}})'
            raise DataNotFound(f"layer {node.path!r}: the batch has no {key!r}", hint=hint) from None


def _of_graphs(given: str) -> NetworkError:
    hint = '"from" in the net dict says which layer is meant'
    return NetworkError(f"{given} for the graphs of TensorFlow", hint=hint)


def _nothing_to_search() -> NetworkError:
    fault, hint = "the choice takes values as they are, and searches nothing", "rf.Network(…, search_flag=True)"
    return NetworkError(f"search: {fault}", expected='"input_type": "prob"', hint=hint)


guard_methods(Network, "from_config")

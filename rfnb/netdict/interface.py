"""What `rf.Network` has of the reference's class beside construction, calls and losses, under the same names."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.checkpoint.load import load
from rfnb.checkpoint.save import save
from rfnb.core.dims.dim import Dim, batch_dim
from rfnb.core.ground.text import did_you_mean
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.parameter import Parameter
from rfnb.errors import LayerNotFound, NetworkError
from rfnb.netdict import params
from rfnb.netdict.build.naming import ends_of
from rfnb.netdict.build.node import every_node
from rfnb.netdict.extern_data import DataKey, ExternData
from rfnb.netdict.layer import Layer
from rfnb.nn.module.module import Module
from rfnb.printable import encodable

if TYPE_CHECKING:
    from rfnb.netdict.builder import Builder

ONLY_TENSORFLOW = {
    "add_layer": 'net.construct_layer({"name": {"class": …}}, "name")',
    "make_subnet": '{"class": "subnetwork", "subnetwork": {…}}',
    "make_extra_net": '"from": "extra.search:layer" in the net dict',
    "construct_extra_net": '"from": "extra.search:layer" in the net dict',
    "get_fetches_dict": "net(batch), net.get_losses_initialized(with_total=True)",
    "get_seq_tags": "the tags of rf.hdf(path)",
    "get_saveable_param_replace_dict": "rf.load(path, net, rename={…})",
    "get_var_assigner": 'net.get_layer("name").params["W"].assign(array)',
    "reset_saver": "rf.save(net, path), as often as you like",
    "get_global_batch_info": "out[name].dims",
    "set_rec_step_info": '":i" in the unit of a rec layer',
    "get_rec_step_info": '":i" in the unit of a rec layer',
    "get_rec_step_index": '":i" in the unit of a rec layer',
    "register_post_control_dependencies": "plain Python, in the order that you need",
    "get_post_control_dependencies": "plain Python, in the order that you need",
    "register_graph_reset_callback": "there is no graph to reset",
    "get_graph_reset_callbacks": "there is no graph to reset",
    "call_graph_reset_callbacks": "there is no graph to reset",
    "register_run_finished_callback": "a line after net(batch)",
    "set_run_finished": "a line after net(batch)",
    "get_network_stack": "the variable that you gave the network to",
    "get_current_network": "the variable that you gave the network to",
    "register_network_scope": "the variable that you gave the network to",
    "get_search_choices_from_beam": 'net.get_layer("output").get_search_choices()',
    "register_search_choices_for_beam": 'net.get_layer("output").get_search_choices()',
    "debug_search_choices": "rf.show(net.search(batch))",
    "get_control_flow_ctx": 'net.get_layer("name").loop',
}
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
    _run_opts: dict[str, Any] | None = None
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

    def get_search_choices(self, sources: Any = None, src: Layer | None = None, base_search_choice: Any = None) -> Any:
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

    def get_param_values_dict(self, session: Any = None) -> dict[str, dict[str, Any]]:
        """The values of the parameters: {path of the layer: {name: array}}."""
        return params.values_of(self.layers)

    def set_param_values_by_dict(
        self,
        values_dict: Mapping[str, Mapping[str, Any]],
        ignore_non_existing: bool = False,
        ignore_wrong_shape: bool = False,
        session: Any = None,
    ) -> None:
        """Sets parameters: {path of the layer: {name: array}}. Raises ParameterError, and sets none, if one is bad."""
        params.set_values(
            self.layers,
            values_dict,
            variables=self._builder.variables.found,
            ignore_non_existing=ignore_non_existing,
            ignore_wrong_shape=ignore_wrong_shape,
        )

    def get_params_serialized(self, session: Any = None) -> ParamsSerialized:
        """All parameters as arrays, with the number of the training step."""
        return ParamsSerialized(self.get_param_values_dict(), self.get_global_train_step())

    def set_params_by_serialized(self, serialized: ParamsSerialized, session: Any = None, **options: Any) -> None:
        """Sets all that `get_params_serialized` gave. options: those of `set_param_values_by_dict`."""
        self.set_param_values_by_dict(serialized.values_dict, **options)
        self.set_global_train_step(serialized.global_train_step)

    def save_params_to_file(self, filename: str | Path, session: Any = None) -> None:
        """Writes all parameters to a file, with `rf.save`."""
        save(self, filename)

    def load_params_from_file(self, filename: str | Path, session: Any = None) -> Any:
        """Sets all parameters to those in a file or in a checkpoint of TensorFlow, with `rf.load`."""
        return load(filename, self)

    # -- the run

    def set_global_train_step(self, step: int, session: Any = None) -> None:
        """Sets the number of the training step of the run context."""
        get_run_ctx().step = int(step)

    def get_global_train_step(self, session: Any = None) -> int:
        """The number of the training step of the run context."""
        return int(get_run_ctx().step)

    def get_epoch_step(self) -> int:
        """The number of the training step of the run context, which counts as you do."""
        return self.get_global_train_step()

    def set_run_opts(self, epoch: int, dataset_name: str | None = None) -> None:
        """Keeps options of a run for `get_run_opts`."""
        self._run_opts = {"epoch": epoch, "dataset_name": dataset_name}

    def get_run_opts(self) -> dict[str, Any]:
        """What `set_run_opts` kept. Raises NetworkError if there is nothing."""
        if self._run_opts is None:
            raise NetworkError("get_run_opts: there are none", hint='net.set_run_opts(epoch=1, dataset_name="train")')
        return self._run_opts

    def cond_on_train(self, fn_train: Callable[[], Any], fn_eval: Callable[[], Any]) -> Any:
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


def _absent(name: str, way: str) -> Callable[..., Any]:
    def method(self: Interface, *_: Any, **__: Any) -> Any:
        raise NetworkError(f"{name} has a meaning for TensorFlow only", expected="Torch", hint=way)

    method.__name__, method.__qualname__ = name, f"Interface.{name}"
    method.__doc__ = f"Only for TensorFlow. Here: {way}."
    return method


for _name, _way in ONLY_TENSORFLOW.items():
    setattr(Interface, _name, _absent(_name, _way))

"""Recorded cases of net dicts: outputs, losses and gradients that the reference implementation computed."""

from __future__ import annotations

import json
import shutil
import weakref
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import numpy as np

import rfnb as rf
from rfnb.core.advice.similar_dims import is_beam
from rfnb.netdict.axes import time_of

FOLDER = Path(__file__).parents[1] / "golden" / "network"


COMBINE = {
    "csc_scaled": lambda scores_in, scores_base, **_: 0.5 * scores_in + 2.0 * scores_base,
    "csc_len_penalty": lambda scores_in, scores_base, **_: (
        scores_base + scores_in - 0.1 * rf.cast(rf.range_over_dim(scores_in.feature_dim), "float32")
    ),
}
"""Functions of a config."""


DEAD = -1e29
"""Scores of hypotheses that do not count."""


class Case:
    """A case: a net dict, data and parameters, and what comes of them."""

    def __init__(self, name: str, folder: Path = FOLDER):
        self.case = json.loads((folder / f"{name}.json").read_text())
        with np.load(folder / f"{name}.npz") as file:
            self.numbers = dict(file)
        self.dims: dict[str, Any] = {}

    def build(self) -> tuple[Any, Any]:
        """The network with the parameters of the case, and the outputs of a call."""
        net = self.network()
        return net, net.forward(self.batch())

    def network(self) -> Any:
        """The network with the parameters of the case."""
        case, flags = self.case, self.case["flags"]
        extern = rf.ExternData(self.read(case["extern_data"]))
        config = {"behavior_version": case["behavior_version"], **(case.get("config") or {})}
        net = rf.Network(
            config, extern, train_flag=flags["train"], eval_flag=flags["eval"], search_flag=flags["search"]
        )
        net.construct_from_dict(self.read(case["net_dict"]))
        values: dict[str, dict[str, np.ndarray]] = {}
        for param in case["params"]:
            values.setdefault(param["layer"], {})[param["param"]] = self.numbers[param["key"]]
        net.set_param_values_by_dict(values)
        return net

    def batch(self) -> dict[str, Any]:
        """The data of the case with lengths, by key."""
        batch = {}
        for key, given in self.case["inputs"].items():
            lengths = {int(axis): self.numbers[size] for axis, size in given["size_keys"].items()}
            batch[key] = (self.numbers[given["key"]], lengths or None)
        return batch

    def read(self, given: Any) -> Any:
        """Data of the JSON, with the markers for what JSON does not have."""
        if isinstance(given, list):
            return [self.read(entry) for entry in given]
        if not isinstance(given, dict):
            return given
        if "__dim__" in given:
            return self.dim(given["__dim__"])
        if "__tuple__" in given:
            return tuple(self.read(entry) for entry in given["__tuple__"])
        if "__fn__" in given:
            return COMBINE[given["__fn__"]]
        if "__file__" in given:
            folder = mkdtemp()
            weakref.finalize(self, shutil.rmtree, folder)
            path = Path(folder) / given["__file__"]
            path.write_text(self.case["files"][given["__file__"]])
            return str(path)
        if "__set__" in given:
            return {self.read(entry) for entry in given["__set__"]}
        return {key: self.read(value) for key, value in given.items()}

    def dim(self, described: dict[str, Any]) -> rf.Dim:
        """A dim tag; the same name is the same dim."""
        if described["kind"] == "batch":
            return rf.batch_dim
        if described["kind"] == "single_step":
            return rf.single_step_dim
        make = rf.FeatureDim if described["kind"] == "feature" else rf.SpatialDim
        return self.dims.setdefault(described["name"], make(described["name"], described["dim"]))

    def check_outputs(self, net: Any, outputs: Any) -> None:
        """Compares all outputs, behind the end of a sequence too, where both are 0."""
        for path, expected in self.case["outputs"].items():
            template = net.template(path)
            found = in_stored_order(outputs[path], template, expected["axes"])
            want = self.without_padding(self.numbers[expected["key"]], expected["axes"])
            assert found.shape == want.shape, (path, template.describe_dims(), found.shape, want.shape)
            if path in self.case.get("search", {}):
                alive = self.numbers[self.case["search"][path]["beam_scores"]] > DEAD
                found, want = found[alive], want[alive]
            if want.dtype.kind == "f":
                tolerances = {"rtol": self.case.get("rtol") or 1e-4, "atol": self.case.get("atol") or 1e-5}
                np.testing.assert_allclose(found, want, **tolerances, err_msg=path)
            else:
                np.testing.assert_array_equal(found, want, err_msg=path)

    def without_padding(self, array: np.ndarray, axes: list[dict[str, Any]]) -> np.ndarray:
        """The stored array is cut to the longest sequence."""
        for i, axis in enumerate(axes):
            if axis.get("size_key"):
                array = array.take(range(int(self.numbers[axis["size_key"]].max(initial=0))), axis=i)
        return array

    def check_variables(self, net: Any) -> None:
        """Loads the parameters once more, by the names that the variables have in checkpoints of the reference."""
        values = {param["tf_name"]: self.numbers[param["key"]] for param in self.case["params"]}
        if values:
            report = rf.load(values, net, ignore_missing=True)
            assert set(report.loaded) == set(values) and not report.unexpected
            assert not any(origin.conversion for origin in report.origins)
            for name, parameter in net.variables().items():
                np.testing.assert_array_equal(parameter.numpy(), values.get(name, parameter.numpy()), err_msg=name)

    def check_saved(self, net: Any, file: Path) -> None:
        """Saves the network, forgets its parameters, and loads them."""
        before = {name: parameter.numpy().copy() for name, parameter in net.named_parameters()}
        if before:
            rf.save(net, file)
            for parameter in net.parameters():
                parameter.assign(np.zeros_like(parameter.numpy()))
            assert rf.load(file, net).complete
            for name, parameter in net.named_parameters():
                np.testing.assert_array_equal(parameter.numpy(), before[name], err_msg=name)

    def check_losses(self, net: Any) -> None:
        """Compares values, errors, norm factors and the totals."""
        holders, total, constraints = net.get_losses_initialized(with_total=True)
        assert set(holders) == set(self.case["losses"])
        for name, keys in self.case["losses"].items():
            holder = holders[name]
            found = {
                "loss": holder.get_loss_value(),
                "error": holder.get_error_value(),
                "norm_factor": holder.get_norm_factor(),
            }
            for what, key in keys.items():
                assert found[what] is not None, (name, what)
                value = float(self.numbers[key])
                np.testing.assert_allclose(found[what].item(), value, rtol=1e-4, atol=1e-4, err_msg=f"{name} {what}")
        for key, value in (("total_loss", total), ("total_constraints", constraints)):
            if self.case.get(key):
                found = value.item() if isinstance(value, rf.Tensor) else value
                np.testing.assert_allclose(found, float(self.numbers[self.case[key]]), rtol=1e-4, atol=1e-4)

    def check_gradients(self, net: Any) -> None:
        """Compares the gradients of the total loss."""
        net.get_losses_initialized(with_total=True)[1].backward()
        for grad in self.case["grads"]:
            parameter = net.get_layer(grad["layer"]).params[grad["param"]]
            where = f"{grad['layer']}/{grad['param']}"
            found = parameter.raw_tensor.grad
            assert found is not None, where
            np.testing.assert_allclose(found.numpy(), self.numbers[grad["key"]], rtol=1e-3, atol=1e-4, err_msg=where)


def in_stored_order(x: Any, template: Any, axes: list[dict[str, Any]]) -> np.ndarray:
    """The values with the axes batch, time, others in the declared order, features; 0 behind the ends."""
    dims = [dim for dim in template.dims if dim.is_batch_dim()]
    kinds = [axis["kind"] for axis in axes]
    if "beam" in kinds:
        dims += [dim for dim in template.dims if is_beam(dim)]
    feature = [template.feature_dim] if "feature" in kinds and template.feature_dim is not None else []
    time = time_of(template)
    if "time" in kinds and time is not None and time not in feature:
        dims.append(time)
    dims += [dim for dim in template.dims if dim not in dims and dim not in feature] + feature
    masked = x.copy_masked(0) if any(dim.need_masking() for dim in x.dims) else x
    array: np.ndarray = masked.copy_transpose(dims).raw_tensor.detach().numpy()
    return array

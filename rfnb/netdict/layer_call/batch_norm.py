"""Batch normalization of a layer's output: the class `batch_norm`, and the option of all layers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.versions import holds
from rfnb.ops.grad import stop_gradient
from rfnb.ops.math import rsqrt
from rfnb.ops.norm import moments
from rfnb.ops.shape import squeeze

if TYPE_CHECKING:
    from rfnb.netdict.layer import Layer

OPTIONS: dict[str, Any] = {
    "momentum": None,
    "epsilon": 1e-3,
    "use_sample": 0.0,
    "force_sample": False,
    "use_std": True,
    "use_shift": True,
    "gamma_init": 1.0,
    "beta_init": 0.0,
    "masked_time": None,
    "param_version": None,
    "update_sample_only_in_training": None,
    "delay_sample_update": None,
    "update_sample_masked_time": None,
    "fused": None,
    "fused_bn": None,
}
"""The options with their defaults; None depends on the version. fused, fused_bn: of no effect on the values."""


@dataclass
class BatchNormCall:
    """(x − mean) / √(variance + ε) · gamma + beta (Ioffe & Szegedy 2015), in training by statistics of the batch."""

    layer: Layer
    opts: dict[str, Any]
    in_dim: Dim
    names: dict[str, str]
    ones: tuple[Dim, ...]

    @classmethod
    def of(cls, layer: Layer, x: Tensor, given: dict[str, Any]) -> BatchNormCall:
        """Makes the parameters of the layer. x: a template. Raises NetworkError for an unknown option."""
        unknown = [name for name in given if name not in OPTIONS]
        if unknown or x.feature_dim is None:
            fault = f"batch_norm: unknown option {unknown[0]!r}" if unknown else "batch_norm needs features"
            raise NetworkError(fault, got=x.describe_dims(), expected=", ".join(OPTIONS))
        opts = {**OPTIONS, **{name: value for name, value in given.items() if value is not None}}
        newer = holds("batch_norm is of version 2", layer.spec.version)
        if opts["masked_time"] is None and newer:
            raise NetworkError("batch_norm: masked_time is missing", expected='"masked_time": True')
        defaults = {"momentum": 0.1 if newer else 0.99, "masked_time": True, "param_version": 2 if newer else 0}
        defaults |= {"update_sample_only_in_training": newer, "delay_sample_update": newer}
        opts.update({name: value for name, value in defaults.items() if opts[name] is None})
        short = layer.name.rpartition("/")[2]
        prefix = ("", "", "v2_")[opts["param_version"]] or (
            f"{short}_{short}_output_" if not opts["param_version"] else ""
        )
        names = {part: f"batch_norm/{prefix}{part}" for part in ("mean", "variance", "beta", "gamma")}
        unit_dims: list[Dim] = []
        for _ in x.dims[1:] if opts["param_version"] < 2 else ():
            unit_dims.append(layer.pool.static(1, unit_dims))
        dims = [*unit_dims, x.feature_dim]
        for part, initial in (("mean", 0.0), ("variance", 1.0)):
            layer.parameter(names[part], dims, initial).trainable = False
        for part, enabled in (("beta", opts["use_shift"]), ("gamma", opts["use_std"])):
            if enabled:
                layer.parameter(names[part], dims, opts[f"{part}_init"])
        return cls(layer, opts, x.feature_dim, names, tuple(unit_dims))

    def __call__(self, x: Tensor) -> Tensor:
        """{…, F} → the same"""
        parts = {part: self._part(part) for part in self.names}
        mean, variance = parts["mean"], parts["variance"]
        train, opts = get_run_ctx().is_train_flag_enabled(), self.opts
        updated = (train or not opts["update_sample_only_in_training"]) and not opts["delay_sample_update"]
        if train or opts["force_sample"] or updated:
            independent = self.layer.spec.batch_independent and not train
            over = [dim for dim in x.dims if dim is not self.in_dim and not (independent and dim.is_batch_dim())]
            stats = moments(x, over, use_mask=opts["masked_time"] or self.layer.spec.batch_independent)
            changes = [
                (stop_gradient(new) - old) * opts["momentum"] for new, old in zip(stats, (mean, variance), strict=True)
            ]
            if updated:
                mean, variance = mean + changes[0], variance + changes[1]
            if train or opts["force_sample"]:
                share = opts["use_sample"]
                mean, variance = (
                    a * (1.0 - share) + b * share if share else a for a, b in zip(stats, (mean, variance), strict=True)
                )
            for part, change in zip(("mean", "variance"), changes, strict=True) if train else ():
                self.layer.params[self.names[part]].assign_add(change)
        y = (x - mean) * rsqrt(variance + self.opts["epsilon"])
        y = y * parts["gamma"] if parts["gamma"] is not None else y
        return y + parts["beta"] if parts["beta"] is not None else y

    def _part(self, part: str) -> Any:
        x: Any = self.layer.params.get(self.names[part])
        for dim in self.ones if x is not None else ():
            x = squeeze(x, dim)
        return x

"""The Conformer in plain torch, as one would write it: to compare with.

Weights by the names that `rf.ConformerEncoder` gives them; those of linear maps are [out, in].
"""

from __future__ import annotations

import functools
import math

import torch
from torch import Tensor
from torch.nn import functional

Weights = dict[str, Tensor]


def weights_of(module) -> Weights:
    """Leaves of their own, with the values of the module."""
    found = {}
    for name, parameter in module.named_parameters():
        raw = parameter.raw_tensor.detach().clone()
        linear = name.endswith(".weight")
        found[name] = (raw.t().contiguous() if linear else raw).requires_grad_(not parameter.auxiliary)
    return found


def encoder(w: Weights, x: Tensor, lengths: Tensor, *, layers: int, heads: int, train: bool) -> Tensor:
    """[batch, time, in] → [batch, time, model], without a frontend and without dropout."""
    mask = torch.arange(x.shape[1]) < lengths[:, None]
    x = linear(w, "input_projection", x)
    for i in range(layers):
        x = layer(w, f"layers.{i}.", x, None if bool(mask.all()) else mask, heads, train)
    return x


def layer(w: Weights, p: str, x: Tensor, mask: Tensor | None, heads: int, train: bool) -> Tensor:
    """`mask` [batch, time] has the valid frames, None if all are."""
    x = x + 0.5 * feed_forward(w, p + "ffn1", norm(w, p + "ffn1_layer_norm", x))
    x = x + self_attention(w, p + "self_att", norm(w, p + "self_att_layer_norm", x), mask, heads)
    x = x + convolution(w, p + "conv_block", norm(w, p + "conv_layer_norm", x), mask, train)
    x = x + 0.5 * feed_forward(w, p + "ffn2", norm(w, p + "ffn2_layer_norm", x))
    return norm(w, p + "final_layer_norm", x)


def linear(w: Weights, p: str, x: Tensor) -> Tensor:
    return functional.linear(x, w[p + ".weight"], w.get(p + ".bias"))


def norm(w: Weights, p: str, x: Tensor) -> Tensor:
    return functional.layer_norm(x, x.shape[-1:], w[p + ".scale"], w[p + ".bias"], 1e-6)


def feed_forward(w: Weights, p: str, x: Tensor) -> Tensor:
    return linear(w, p + ".linear_out", functional.silu(linear(w, p + ".linear_ff", x)))


def self_attention(w: Weights, p: str, x: Tensor, mask: Tensor | None, heads: int) -> Tensor:
    """With relative positions as of Dai et al. (2019)."""
    batch, time, features = x.shape
    size = features // heads
    qkv = linear(w, p + ".qkv", x).view(batch, time, heads, 3 * size).transpose(1, 2)
    query, keys, values = qkv.split(size, -1)
    u, v = (w[f"{p}.pos_bias_{name}"].unsqueeze(1) for name in "uv")
    distances = linear(w, p + ".linear_pos", sinusoids(time, features)).view(-1, heads, size).transpose(0, 1)
    by_content = (query + u) @ keys.transpose(-1, -2)
    by_distance = shifted((query + v) @ distances.transpose(-1, -2))
    energy = (by_content + by_distance) * (1 / math.sqrt(size))
    if mask is not None:
        energy = energy.masked_fill(~mask[:, None, None], float("-inf"))
    found = torch.softmax(energy, -1) @ values
    return linear(w, p + ".proj", found.transpose(1, 2).reshape(batch, time, features))


@functools.cache
def sinusoids(time: int, features: int) -> Tensor:
    """Of the distances 1 - time, …, time - 1. → [2 · time - 1, features]"""
    frequencies = torch.exp(torch.arange(features // 2) * (-2 * math.log(10_000.0) / features))
    angles = torch.arange(1 - time, time)[:, None] * frequencies
    return torch.cat([angles.sin(), angles.cos()], -1)


def shifted(scores: Tensor) -> Tensor:
    """[…, query, distance] → […, query, key]: row i begins at the distance of the first key to query i."""
    *rest, time, distances = scores.shape
    padded = functional.pad(scores, (1, 0)).view(*rest, distances + 1, time)
    return padded[..., 1:, :].reshape(*rest, time, distances)[..., :time]


def convolution(w: Weights, p: str, x: Tensor, mask: Tensor | None, train: bool) -> Tensor:
    x = functional.glu(linear(w, p + ".positionwise_conv1", x))
    if mask is not None:
        x = x.masked_fill(~mask.unsqueeze(-1), 0.0)
    kernel = w[p + ".depthwise_conv.filter"]
    size = kernel.shape[-1]
    x = functional.pad(x.transpose(1, 2), ((size - 1) // 2, size // 2))
    x = functional.conv1d(x, kernel, w[p + ".depthwise_conv.bias"], groups=kernel.shape[0])
    x = functional.silu(batch_norm(w, p + ".norm", x, mask, train)).transpose(1, 2)
    return linear(w, p + ".positionwise_conv2", x)


def batch_norm(w: Weights, p: str, x: Tensor, mask: Tensor | None, train: bool) -> Tensor:
    """[batch, features, time] → the same. Padding does not count."""
    names = ("running_mean", "running_variance", "gamma", "beta")
    options = [*(w[f"{p}.{name}"] for name in names), train, 0.1, 1e-3]
    if mask is None:
        return functional.batch_norm(x, *options)
    frames = functional.batch_norm(x.transpose(1, 2)[mask], *options)
    return torch.zeros_like(x).transpose(1, 2).masked_scatter(mask.unsqueeze(-1), frames).transpose(1, 2)

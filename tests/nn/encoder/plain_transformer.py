"""The Transformer decoder in plain torch, as one would write it by hand, on the weights of ours by name."""

from __future__ import annotations

import torch
from torch.nn import functional as F

Weights = dict[str, torch.Tensor]


def weights_of(decoder) -> Weights:
    """In the order of torch's linear: {out, in}; the same storage, but leaves of their own."""
    found = {}
    for name, parameter in decoder.named_parameters():
        raw = parameter.raw_tensor.detach()
        flip = raw.dim() == 2 and "embedding" not in name
        found[name] = (raw.t().contiguous() if flip else raw.clone()).requires_grad_()
    return found


def sines(frames: int, features: int) -> torch.Tensor:
    """As in tensor2tensor."""
    half = features // 2
    waves = torch.exp(-torch.arange(half) * (torch.log(torch.tensor(10_000.0)) / (half - 1)))
    angles = torch.arange(frames)[:, None] * waves
    return torch.cat([angles.sin(), angles.cos()], -1)


def heads_of(x: torch.Tensor, heads: int, parts: int) -> list[torch.Tensor]:
    """{batch, time, heads * parts * n} → {batch, heads, time, n} of each part"""
    return list(x.unflatten(-1, (heads, parts, -1)).permute(3, 0, 2, 1, 4))


def attended(w: Weights, name: str, q, k, v, **options) -> torch.Tensor:
    """The heads as one, projected."""
    found = F.scaled_dot_product_attention(q, k, v, **options).transpose(1, 2).flatten(2)
    return F.linear(found, w[f"{name}.proj.weight"], w[f"{name}.proj.bias"])


def decoder(w: Weights, labels, encoder, mask, positions, *, layers: int, heads: int) -> torch.Tensor:
    """Logits {batch, time, vocab}. mask: {batch, 1, 1, letters}, or None if all are of one length."""

    def linear(x, name):
        return F.linear(x, w[f"{name}.weight"], w.get(f"{name}.bias"))

    def norm(x, name):
        return F.layer_norm(x, x.shape[-1:], w[f"{name}.scale"], w[f"{name}.bias"], 1e-6)

    x = F.embedding(labels, w["input_embedding.weight"]) * w["input_embedding.weight"].shape[1] ** 0.5 + positions
    for i in range(layers):
        at = f"layers.{i}"
        q, k, v = heads_of(linear(norm(x, f"{at}.self_att_layer_norm"), f"{at}.self_att.qkv"), heads, 3)
        x = x + attended(w, f"{at}.self_att", q, k, v, is_causal=True)
        k, v = heads_of(linear(encoder, f"{at}.cross_att.kv"), heads, 2)
        (q,) = heads_of(linear(norm(x, f"{at}.cross_att_layer_norm"), f"{at}.cross_att.q"), heads, 1)
        x = x + attended(w, f"{at}.cross_att", q, k, v, attn_mask=mask)
        x = x + linear(F.relu(linear(norm(x, f"{at}.ff_layer_norm"), f"{at}.ff.linear_ff")), f"{at}.ff.linear_out")
    return linear(norm(x, "final_layer_norm"), "logits")

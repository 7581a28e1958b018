"""The Llama architecture in plain torch, with the names of Hugging Face: the truth for imported weights."""

from __future__ import annotations

import torch
from torch import nn
from torch.nn import functional


class Attention(nn.Module):
    """Causal, with rotary positions: the first half of each head is turned against the second."""

    def __init__(self, dim, heads, kv_heads, base):
        super().__init__()
        self.heads, self.kv_heads, self.per_head, self.base = heads, kv_heads, dim // heads, base
        self.q_proj = nn.Linear(dim, dim, bias=False)
        self.k_proj = nn.Linear(dim, kv_heads * self.per_head, bias=False)
        self.v_proj = nn.Linear(dim, kv_heads * self.per_head, bias=False)
        self.o_proj = nn.Linear(dim, dim, bias=False)

    def forward(self, x):
        q, k, v = (
            proj(x).unflatten(-1, (heads, self.per_head)).transpose(0, 1)
            for proj, heads in [(self.q_proj, self.heads), (self.k_proj, self.kv_heads), (self.v_proj, self.kv_heads)]
        )
        q, k = self.turned(q), self.turned(k)
        k, v = (part.repeat_interleave(self.heads // self.kv_heads, dim=0) for part in (k, v))
        energy = (q @ k.transpose(1, 2)) / self.per_head**0.5
        energy += torch.full(energy.shape[1:], float("-inf")).triu(1)
        return self.o_proj((energy.softmax(-1) @ v).transpose(0, 1).flatten(1))

    def turned(self, x):
        half = self.per_head // 2
        angles = torch.arange(x.shape[1])[:, None] / self.base ** (torch.arange(half) / half)
        first, second = x[..., :half], x[..., half:]
        return torch.cat(
            [first * angles.cos() - second * angles.sin(), second * angles.cos() + first * angles.sin()], -1
        )


class FeedForward(nn.Module):
    """SwiGLU."""

    def __init__(self, dim, ff_dim):
        super().__init__()
        self.gate_proj, self.up_proj = nn.Linear(dim, ff_dim, bias=False), nn.Linear(dim, ff_dim, bias=False)
        self.down_proj = nn.Linear(ff_dim, dim, bias=False)

    def forward(self, x):
        return self.down_proj(functional.silu(self.gate_proj(x)) * self.up_proj(x))


class Layer(nn.Module):
    """Both, each behind its norm."""

    def __init__(self, dim, ff_dim, heads, kv_heads, eps, base):
        super().__init__()
        self.self_attn, self.mlp = Attention(dim, heads, kv_heads, base), FeedForward(dim, ff_dim)
        self.input_layernorm, self.post_attention_layernorm = nn.RMSNorm(dim, eps=eps), nn.RMSNorm(dim, eps=eps)

    def forward(self, x):
        x = x + self.self_attn(self.input_layernorm(x))
        return x + self.mlp(self.post_attention_layernorm(x))


class Llama(nn.Module):
    """Labels of one sequence → logits."""

    def __init__(self, vocab=11, dim=16, ff_dim=24, layers=2, heads=4, kv_heads=4, tied=False, eps=1e-3, base=10_000):
        super().__init__()
        self.model = nn.Module()
        self.model.embed_tokens = nn.Embedding(vocab, dim)
        self.model.layers = nn.ModuleList(Layer(dim, ff_dim, heads, kv_heads, eps, base) for _ in range(layers))
        self.model.norm = nn.RMSNorm(dim, eps=eps)
        self.lm_head = nn.Linear(dim, vocab, bias=False)
        if tied:
            self.lm_head.weight = self.model.embed_tokens.weight

    def forward(self, labels):
        x = self.model.embed_tokens(labels)
        for layer in self.model.layers:
            x = layer(x)
        return self.lm_head(self.model.norm(x))

"""Attention that is seen while a model runs: the weights are those of the formula, and the model does not change."""

from __future__ import annotations

import contextlib
import math
import subprocess

import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

import rfnb as rf
from rfnb.errors import LoopError, ViewError
from rfnb.trace.capture import capture as module

B = rf.batch_dim
pytestmark = pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors", "ignore:enable_nested_tensor")


def softmax(x: np.ndarray) -> np.ndarray:
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def random(*dims: rf.Dim, lens: list[int] | None = None, seed: int = 0) -> rf.Tensor:
    """{batch, second, …}; the second dim has these lengths."""
    numbers = np.random.default_rng(seed)
    if lens is None:
        return rf.convert_to_tensor(numbers.standard_normal([d.dimension for d in dims]).astype("float32"), dims=dims)
    rows = [numbers.standard_normal([n, *(d.dimension for d in dims[2:])]).astype("float32") for n in lens]
    return rf.convert_to_tensor(rows, dims=dims)


class MlpAttention(rf.Module):
    """Bahdanau et al. 2015."""

    def __init__(self, feat: rf.Dim):
        self.one = rf.Dim(1, name="one")
        self.query, self.energy = rf.Linear(feat, feat), rf.Linear(feat, self.one)

    def __call__(self, query, keys, axis):
        scores = rf.squeeze(self.energy(rf.tanh(self.query(query) + keys)), axis=self.one)
        weights = rf.softmax(scores, axis=axis)
        return rf.matmul(weights, keys, reduce=axis)


class Decoder(rf.Module):
    """A loop with attention, whose state needs it."""

    def __init__(self, feat: rf.Dim, hoist: bool | None = None):
        self.feat, self.hoist = feat, hoist
        self.att, self.out = MlpAttention(feat), rf.Linear(feat, feat)

    def __call__(self, keys, labels, enc, dec):
        loop = rf.Loop(axis=dec, optimize_move_layers_out=self.hoist)
        loop.state.context = rf.zeros([B, self.feat])
        with loop:
            context = self.att(loop.state.context + loop.unstack(labels), keys, enc)
            loop.state.context = self.out(context)
            contexts = loop.stack(context)
        return contexts


def decoder(hoist: bool | None = None):
    rf.set_random_seed(1)
    feat, enc, dec = rf.Dim(4, name="feat"), rf.Dim(None, name="enc"), rf.Dim(None, name="dec")
    keys, labels = random(B, enc, feat, lens=[5, 3]), random(B, dec, feat, lens=[2, 3], seed=1)
    model = Decoder(feat, hoist)
    for number, parameter in enumerate(model.parameters()):
        torch.nn.init.normal_(parameter.raw_tensor, generator=torch.Generator().manual_seed(number))
    return model, (keys, labels, enc, dec)


def by_hand(model: Decoder, keys: np.ndarray, labels: np.ndarray, lens: list[int]) -> np.ndarray:
    """[batch, dec, enc]"""
    given = {name: p.raw_tensor.detach().numpy() for name, p in model.named_parameters()}
    context, weights = np.zeros((2, 4)), []
    for step in range(labels.shape[1]):
        query = (context + labels[:, step]) @ given["att.query.weight"] + given["att.query.bias"]
        scores = np.tanh(query[:, None] + keys) @ given["att.energy.weight"] + given["att.energy.bias"]
        scores = np.where(np.arange(keys.shape[1]) < np.array(lens)[:, None], scores[..., 0], -np.inf)
        weights.append(softmax(scores))
        context = np.einsum("be,bef->bf", weights[-1], keys) @ given["out.weight"] + given["out.bias"]
    return np.stack(weights, 1)


@pytest.mark.parametrize("hoist", [None, False])
@pytest.mark.parametrize("record", [False, "last"])
def test_a_loop_with_mlp_attention_against_numpy(hoist, record, monkeypatch):
    model, (keys, labels, enc, dec) = decoder(hoist)
    with rf.recording(record):
        plain = model(keys, labels, enc, dec)
        with rf.capture(model) as seen:
            same = model(keys, labels, enc, dec)
    assert torch.equal(plain.copy_masked(0.0).raw_tensor, same.copy_masked(0.0).raw_tensor)
    assert seen.names() == ["att"]
    item = seen["att"]
    assert (item.rows, item.cols) == (dec, enc)
    found = item.weights.copy_compatible_to_dims_raw([B, dec, enc]).numpy()
    expected = by_hand(model, keys.raw_tensor.numpy(), labels.raw_tensor.numpy(), [5, 3])
    np.testing.assert_allclose(found[0, :2], expected[0, :2], rtol=1e-4)
    np.testing.assert_allclose(found[1], expected[1], rtol=1e-4)
    assert (found[1, :, 3:] == 0).all()
    view = rf.show_attention(seen, batch=0)
    assert view.data["shape"] == [2, 5]
    np.testing.assert_allclose(view.data["weights"], expected[0, :2], atol=1e-4)


def test_the_list_of_runs_stays_as_it_would_be():
    model, given = decoder()
    rf.runs.clear()
    with rf.recording(False), rf.capture(model):
        model(*given)
    assert len(rf.runs) == 0
    with rf.recording("last"), rf.capture(model):
        model(*given)
    assert len(rf.runs) == 1


def test_gradients_are_the_same():
    model, given = decoder()
    found = []
    for watched in (False, True):
        for parameter in model.parameters():
            parameter.raw_tensor.grad = None
        if watched:
            with rf.capture(model):
                out = model(*given)
                out.copy_masked(0.0).raw_tensor.square().sum().backward()
        else:
            model(*given).copy_masked(0.0).raw_tensor.square().sum().backward()
        found.append([p.raw_tensor.grad.clone() for p in model.parameters()])
    torch.testing.assert_close(*found)


# -- products


def heads_of_attention(*, causal: bool, train: bool = False):
    """(fused attention, [batch, heads, time, time] by numpy, the call)"""
    heads, key = rf.Dim(2, name="heads"), rf.Dim(3, name="key")
    time = rf.Dim(None, name="time")
    q, k, v = (random(B, time, heads, key, lens=[4, 2], seed=i) for i in range(3))
    keys, axis = rf.replace_dim(k, in_dim=time)
    values, _ = rf.replace_dim(v, in_dim=time, out_dim=axis)

    def call():
        att = rf.dot_attention(
            q, keys, values, key_dim=key, axis=axis, causal_query_spatial_dim=time if causal else None
        )
        return att

    queries, raw = (x.raw_tensor.numpy().transpose(0, 2, 1, 3) for x in (q, k))
    scores = queries @ raw.transpose(0, 1, 3, 2) / math.sqrt(3)
    places = np.arange(4)
    scores = np.where(places < np.array([4, 2])[:, None, None, None], scores, -np.inf)
    if causal:
        scores = np.where(places <= places[:, None], scores, -np.inf)
    return call, softmax(scores), (time, axis, heads)


@pytest.mark.parametrize("causal", [False, True])
def test_what_a_kernel_does_is_computed_again(causal):
    call, expected, (time, axis, heads) = heads_of_attention(causal=causal)
    plain = call()
    with rf.capture() as seen:
        same = call()
    assert torch.equal(plain.copy_masked(0.0).raw_tensor, same.copy_masked(0.0).raw_tensor)
    assert seen.names() == ["att"]
    assert (seen[0].rows, seen[0].cols) == (time, axis)
    found = seen[0].weights.copy_compatible_to_dims_raw([B, heads, time, axis]).numpy()
    np.testing.assert_allclose(found[0], expected[0], atol=1e-6)
    np.testing.assert_allclose(found[1, :, :2], expected[1, :, :2], atol=1e-6)
    view = rf.show_attention(seen, batch=1)
    assert view.data["shape"] == [2, 2]
    assert view.data["causal"] is causal
    assert len(view.data["heads"]) == 2


@pytest.mark.parametrize("causal", [False, True])
def test_written_out_it_is_the_same(causal, monkeypatch):
    call, expected, (time, axis, heads) = heads_of_attention(causal=causal)
    with rf.capture() as fused:
        call()
    monkeypatch.setattr("rfnb.backend.torch.backend.TorchBackend.attention_raw", None)
    with rf.capture() as written:
        call()
    order = [B, heads, time, axis]
    one, other = (s[0].weights.copy_compatible_to_dims_raw(order).numpy() for s in (fused, written))
    np.testing.assert_allclose(one, other, atol=1e-6)
    np.testing.assert_allclose(other[0], expected[0], atol=1e-6)


def test_a_kernel_is_used_while_somebody_looks():
    """Otherwise the results would differ in the last bits."""
    call, *_ = heads_of_attention(causal=False)
    used = []
    original = F.scaled_dot_product_attention
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(
            "rfnb.backend.torch.attention.scaled_dot_product_attention",
            lambda *args, **kwargs: used.append(1) or original(*args, **kwargs),
        )
        with rf.capture() as seen:
            call()
    assert used == [1]
    assert seen["att"].bytes


def test_products_and_sums_count_others_do_not():
    enc, feat = rf.Dim(None, name="enc"), rf.Dim(4, name="feat")
    keys = random(B, enc, feat, lens=[3, 2])
    energy = rf.reduce_sum(keys, axis=feat)
    with rf.capture() as seen:
        weights = rf.softmax(energy, axis=enc)
        rf.reduce_sum(rf.dropout(weights, 0.5) * keys, axis=enc)  # attention
        entropy = rf.softmax(energy, axis=enc)
        rf.reduce_sum(entropy * rf.log(entropy + 1e-9), axis=enc)  # no values
        rf.softmax(keys, axis=feat)  # goes nowhere
    assert seen.names() == ["weights"]
    assert torch.equal(seen[0].weights.raw_tensor[0], weights.raw_tensor)


def test_weights_may_lose_an_axis_of_size_1_before_the_sum():
    enc, feat, one = rf.Dim(None, name="enc"), rf.Dim(4, name="feat"), rf.Dim(1, name="one")
    keys = random(B, enc, feat, lens=[3, 2])
    with rf.capture() as seen:
        weights = rf.softmax(rf.expand_dim(rf.reduce_sum(keys, axis=feat), one), axis=enc)
        rf.matmul(rf.squeeze(weights, one), keys, reduce=enc)  # attention
        alone = rf.softmax(keys, axis=feat)
        rf.matmul(rf.squeeze(rf.expand_dim(alone, one), one), keys, reduce=enc)  # sums over another axis
    assert seen.names() == ["weights"]
    found, expected = (x.copy_masked(0.0).raw_tensor.flatten() for x in (seen[0].weights, weights))
    assert torch.equal(found, expected)


def test_weights_that_are_used_twice_count_once():
    enc, feat = rf.Dim(None, name="enc"), rf.Dim(4, name="feat")
    keys = random(B, enc, feat, lens=[3, 2])
    with rf.capture() as seen:
        weights = rf.softmax(rf.reduce_sum(keys, axis=feat), axis=enc)
        dropped = rf.where(rf.cast(weights, "bool"), weights, 0.0)
        for each in (weights, dropped, dropped, weights):
            rf.matmul(each, keys, reduce=enc)
    assert [item.shape for item in seen] == [(1, 3, 1)]


def test_steps_of_a_python_loop_become_one():
    enc, feat = rf.Dim(None, name="enc"), rf.Dim(4, name="feat")
    keys = random(B, enc, feat, lens=[3, 2])
    rows = []
    with rf.capture() as seen:
        for step in range(5):
            weights = rf.softmax(rf.reduce_sum(keys * float(step), axis=feat), axis=enc)
            rows.append(weights.raw_tensor)
            rf.matmul(weights, keys, reduce=enc)
    assert seen.names() == ["weights"]
    assert seen[0].rows.dimension == 5
    assert torch.equal(seen[0].weights.raw_tensor, torch.stack(rows))


class Layer(rf.Module):
    """Self-attention of one head."""

    def __init__(self, feat: rf.Dim):
        self.query, self.key = rf.Linear(feat, feat), rf.Linear(feat, feat)
        self.feat = feat

    def __call__(self, x, time):
        keys, axis = rf.replace_dim(self.key(x), in_dim=time)
        values, _ = rf.replace_dim(x, in_dim=time, out_dim=axis)
        return rf.dot_attention(self.query(x), keys, values, key_dim=self.feat, axis=axis)


class Encoder(rf.Module):
    """A stack of them."""

    def __init__(self, feat: rf.Dim, count: int):
        self.layers = rf.ModuleList([Layer(feat) for _ in range(count)])

    def __call__(self, x, time):
        for layer in self.layers:
            x = layer(x, time) + x
        return x


def test_modules_give_the_names():
    feat, time = rf.Dim(4, name="feat"), rf.Dim(None, name="time")
    x = random(B, time, feat, lens=[4, 3])
    model = Encoder(feat, 3)
    with rf.capture(model) as seen:
        model(x, time)
        model(x, time)
    first = [f"layers.{i}" for i in range(3)]
    assert seen.names() == first + [f"{name}#2" for name in first]
    assert seen["layers.1"] is seen[1]
    assert seen["layers.*#2"].names() == seen.names()[3:]
    assert seen[np.int64(-1)] is seen[5]
    assert seen[3:].names() == seen.names()[3:]
    view = rf.show_attention(seen["layers.?"], layer="layers.2", batch=1)
    assert view.data["shape"] == [3, 3]
    assert view.data["name"] == "layers.2"
    with rf.capture() as nameless:
        model(x, time)
    assert nameless.names() == [f"Encoder.{name}" for name in first]
    with rf.capture(model) as nothing:
        rf.matmul(rf.softmax(rf.reduce_sum(x, axis=feat), axis=time), x, reduce=time)
    assert len(nothing) == 0


def test_layers_of_another_size_are_named():
    feat, time, short = rf.Dim(4, name="feat"), rf.Dim(None, name="time"), rf.Dim(None, name="short")
    model = Encoder(feat, 2)
    with rf.capture() as seen:
        model(random(B, time, feat, lens=[4, 3]), time)
        small = rf.dot_attention(
            rf.zeros([short_queries := rf.Dim(2, name="q"), feat]),
            random(B, short, feat, lens=[2, 1]), random(B, short, feat, lens=[2, 1]), key_dim=feat, axis=short,
        )  # fmt: skip
    assert small.dims_set >= {short_queries}
    view = rf.show_attention(seen)
    assert "of other dims or sizes: small" in view.data["note"]
    assert len(view.data["heads"]) == 2


def test_what_attends_between_other_dims_is_named():
    feat, time, text = rf.Dim(4, name="feat"), rf.Dim(3, name="time"), rf.Dim(3, name="text")
    x, y = random(time, feat), random(text, feat, seed=1)
    with rf.capture() as seen:
        first = rf.dot_attention(x, y, y, key_dim=feat, axis=text)
        again = rf.dot_attention(first, y, y, key_dim=feat, axis=text)
        back = rf.dot_attention(y, again, again, key_dim=feat, axis=time)
    assert back.dims_set == {text, feat}
    view = rf.show_attention(seen).data
    assert {head["name"] for head in view["heads"]} == {"first", "again"}
    assert "of other dims or sizes: back" in view["note"]
    assert view["name"] == "attention"  # not that of the first
    assert all(f">{name}</th>" in rf.show_attention(seen).html for name in ("first", "again")) or not view["grid"]


# -- plain torch


TOKENS = torch.randn(2, 5, 16, generator=torch.Generator().manual_seed(0))
PADDING = torch.tensor([[False] * 5, [False, False, False, True, True]])
CAUSAL = torch.ones(5, 5).triu(1).bool()


@pytest.mark.parametrize("need_weights", [False, True])
@pytest.mark.parametrize("mode", ["train", "eval", "inference"])
@pytest.mark.parametrize("padding", [None, PADDING])
@pytest.mark.parametrize("causal", [None, CAUSAL])
def test_multihead_attention_of_torch(need_weights, mode, padding, causal):
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=True).train(mode == "train")
    grad = torch.inference_mode() if mode == "inference" else torch.set_grad_enabled(mode == "train")
    given = {"key_padding_mask": padding, "attn_mask": causal}
    with grad:
        _, expected = model(TOKENS, TOKENS, TOKENS, average_attn_weights=False, **given)
        plain, _ = model(TOKENS, TOKENS, TOKENS, need_weights=need_weights, **given)
        with rf.capture(model) as seen:
            same, _ = model(TOKENS, TOKENS, TOKENS, need_weights=need_weights, **given)
    assert torch.equal(plain, same)
    assert [item.shape for item in seen] == [(5, 5, 4)]
    found = seen[0].weights.raw_tensor
    np.testing.assert_allclose(found.detach().numpy(), expected.detach().numpy(), atol=1e-5)


@pytest.mark.parametrize("norm_first", [False, True])
@pytest.mark.parametrize("padding", [None, PADDING])
def test_the_kernel_of_a_whole_layer_of_torch(norm_first, padding):
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(16, 4, batch_first=True, norm_first=norm_first)
    model = nn.TransformerEncoder(layer, 2).eval()
    with rf.capture(model) as written:
        model(TOKENS, src_key_padding_mask=padding)
    with torch.no_grad():
        plain = model(TOKENS, src_key_padding_mask=padding)
        with rf.capture(model) as fused:
            same = model(TOKENS, src_key_padding_mask=padding)
    assert torch.equal(plain, same)
    assert fused.names() == written.names() == ["layers.0.self_attn", "layers.1.self_attn"]
    for one, other in zip(fused, written, strict=True):
        mine, theirs = (item.weights.raw_tensor.detach().numpy() for item in (one, other))
        np.testing.assert_allclose(mine[0], theirs[0], atol=1e-5)
        rows = 5 if padding is None else 3  # what the others are in padding is nobody's concern
        np.testing.assert_allclose(mine[1, :, :rows], theirs[1, :, :rows], atol=1e-5)


@pytest.mark.parametrize("inference", [False, True])
def test_functions_of_torch(inference):
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    with torch.inference_mode(inference), rf.capture() as seen:
        att = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        groups = F.scaled_dot_product_attention(q, k[:, :2], v[:, :2], enable_gqa=True)
        weights = (q @ k.transpose(-1, -2)).softmax(-1)
        out = F.dropout(weights, 0.0) @ v
        torch.softmax(q, dim=-1)
        other = torch.einsum("bhij,bhjd->bhid", torch.softmax(torch.einsum("bhid,bhjd->bhij", q, k), -1), v)
    assert seen.names() == ["att", "groups", "out", "other"]
    wide = v[:, :2].repeat_interleave(2, 1)
    for item, values, expected in zip(seen, (v, wide, v, v), (att, groups, out, other), strict=True):
        torch.testing.assert_close(item.weights.raw_tensor @ values, expected)


@pytest.mark.parametrize("columns", [slice(None, -1), slice(1, None)])
@pytest.mark.parametrize("dropout", [None, 0.0, 0.5])
def test_a_sink_takes_part_in_the_softmax_only(columns, dropout):
    q, k, v = torch.randn(3, 2, 4, 5, 8, generator=torch.Generator().manual_seed(0))
    scores = torch.cat([q.new_zeros(2, 4, 5, 1), q @ k.mT, q.new_zeros(2, 4, 5, 1)], -1)[..., columns]
    with rf.capture() as seen:
        weights = scores.softmax(-1)
        if dropout is not None:
            weights = F.dropout(weights, dropout)
        weights = weights[..., 1:] if columns.stop else weights[..., :-1]
        weights @ v
    expected = scores.softmax(-1)[..., 1:] if columns.stop else scores.softmax(-1)[..., :-1]
    assert len(seen) == 1
    torch.testing.assert_close(seen[0].weights.raw_tensor, expected)


class MixedHeads(torch.nn.Module):
    """Talking-heads attention (Shazeer et al. 2020): the heads are mixed between the softmax and the values."""

    num_heads = 4

    def __init__(self, how):
        super().__init__()
        self.how, self.softmax = how, torch.nn.Softmax(-1)
        self.linear, self.conv = torch.nn.Linear(4, 4), torch.nn.Conv2d(4, 4, 1, bias=False)

    def forward(self, scores, values):
        weights, matrix = self.softmax(scores), self.linear.weight
        if self.how == "linear":
            mixed = self.linear(weights.permute(0, 2, 3, 1)).permute(0, 3, 1, 2)
        elif self.how == "convolution":
            mixed = self.conv(weights)
        elif self.how == "matrix first":
            mixed = torch.einsum("hg,bgij->bhij", matrix, weights)
        else:
            mixed = torch.einsum("bhij,hg->bgij", weights, matrix)
        return mixed @ values if self.how != "maximum" else mixed.amax(-1)


@pytest.mark.parametrize("inference", [False, True])
@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("how", ["linear", "convolution", "matrix first", "matrix last"])
def test_heads_may_be_mixed_before_the_product(how, batch, inference):
    model, scores, values = MixedHeads(how), torch.randn(batch, 4, 4, 6), torch.randn(batch, 4, 6, 8)
    with torch.inference_mode(inference), rf.capture(model) as seen:
        model(scores, values)
    assert seen.names() == ["attention"] and seen.left_out == []
    torch.testing.assert_close(seen[0].weights.raw_tensor, scores.softmax(-1))


@pytest.mark.parametrize("batch", [(), (2,), (4,), (2, 4), (4, 4), (1, 4)])
def test_queries_that_are_mixed_are_not_taken_for_heads(batch):
    def model(mix, scores, values):
        return (mix @ scores.softmax(-1)) @ values

    with rf.capture() as seen:
        model(*(torch.randn(*batch, *sizes) for sizes in [(4, 4), (4, 6), (6, 8)]))
    assert seen.names() == []


def test_a_layer_called_flatten_is_not_attention():
    model = torch.nn.Flatten()
    model.forward = lambda x: x.softmax(-1).amax(-1)
    with rf.capture(model) as seen:
        model(torch.randn(2, 3))
    assert seen.left_out == []


def test_a_softmax_module_belongs_to_the_attention_around_it():
    model = MixedHeads("maximum")
    with rf.capture(model) as seen:
        model(torch.randn(2, 4, 4, 6), torch.randn(2, 4, 6, 8))
    assert seen.names() == [] and seen.left_out == ["attention: its softmax was not seen to weight values"]


def test_a_sum_of_two_softmaxes_is_not_taken_for_one():
    model = torch.nn.Module()
    model.forward = lambda x: (0.3 * x.softmax(-1) + 0.7 * (-x).softmax(-1)) @ x
    with rf.capture(model) as seen:
        model(torch.randn(2, 4, 4))
    assert seen.names() == []


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors")
@pytest.mark.parametrize("layout", [torch.jagged, torch.strided])
def test_a_model_of_nested_tensors_goes_on(layout):
    model = torch.nn.Sequential(torch.nn.Linear(8, 8), torch.nn.Softmax(-1))
    x = torch.nested.nested_tensor([torch.randn(3, 8), torch.randn(5, 8)], layout=layout)
    expected = model(x)
    with rf.capture(model) as seen:
        result = model(x)
    assert all(map(torch.equal, result.unbind(), expected.unbind())) and len(seen) == 0


def test_gradients_of_torch_are_the_same_and_count_once():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=True)
    found = []
    for watched in (False, True):
        model.zero_grad()
        if watched:
            with rf.capture(model) as seen:
                model(TOKENS, TOKENS, TOKENS)[0].square().sum().backward()
            assert len(seen) == 1
        else:
            model(TOKENS, TOKENS, TOKENS)[0].square().sum().backward()
        found.append([p.grad.clone() for p in model.parameters()])
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))


def test_what_a_backward_pass_computes_again_does_not_count():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=True)
    with rf.capture(model) as seen, rf.capture() as every:
        given = TOKENS.clone().requires_grad_()
        checkpoint(lambda x: model(x, x, x)[0], given, use_reentrant=False).sum().backward()
    assert (len(seen), len(every)) == (1, 1)


def test_weights_that_training_changed_are_refused():
    torch.manual_seed(0)
    model = nn.MultiheadAttention(16, 4, batch_first=True).eval()
    with torch.no_grad(), rf.capture(model) as seen:
        model(TOKENS, TOKENS, TOKENS, need_weights=False)
        model.in_proj_weight.mul_(2)
    with pytest.raises(ViewError, match="in place"):
        _ = seen[0].weights


# -- limits and errors


def test_beyond_the_budget_it_says_what_was_left_out(monkeypatch):
    monkeypatch.setattr(module, "BUDGET", 700)
    call, *_ = heads_of_attention(causal=False)
    with rf.capture() as seen:
        call()
        call()
    assert len(seen) == 1
    assert seen.left_out == ["att"]
    assert "left out: att" in repr(seen)
    model, given = decoder()
    monkeypatch.setattr(module, "BUDGET", 10)
    with rf.capture(model) as seen:
        model(*given)
    assert len(seen) == 0
    assert seen.left_out == ["att"]


def test_shown_as_a_list():
    model, given = decoder()
    with rf.capture(model) as seen:
        model(*given)
    lines = repr(seen).splitlines()
    assert lines[0] == "attention: 1 seen"
    assert lines[1].split()[0] == "att"
    assert rf.show(seen).table().columns[0] == "name"
    assert "data-rfnb-head" not in rf.show(seen).text
    assert repr(seen[0]).startswith("att of 'batch 0': {dec:2} attends to {enc:5}")


def test_nothing_seen_says_why():
    with rf.capture() as seen:
        pass
    assert "no attention was computed" in repr(seen)
    with pytest.raises(ViewError, match="no attention"):
        rf.show_attention(seen)


def test_attention_outside_of_the_models_calls_is_told_of():
    """As with a loop that calls methods of the model, not the model."""
    model, (keys, labels, enc, dec) = decoder()
    with rf.recording("last"), rf.capture(model.out) as seen:
        model(keys, labels, enc, dec)
    assert len(seen) == 0
    assert "outside of calls of the model" in repr(seen)
    assert "rf.capture() without" in repr(seen)
    with rf.capture(model.out) as seen:
        model.att(rf.zeros([B, model.feat]), keys, enc)
        rf.dot_attention(rf.zeros([model.feat]), keys, keys, key_dim=model.feat, axis=enc)
    assert len(seen) == 0
    assert "outside of calls of the model" in repr(seen)
    with rf.capture(model) as seen:
        model.att(rf.zeros([B, model.feat]), keys, enc)
    assert seen.names() == ["att"]


def test_modules_count_in_a_loop_of_another_method():
    """As in `model.decode`; modules of others do not count."""
    model, (keys, labels, enc, dec) = decoder()
    other = MlpAttention(model.feat)

    def decode():
        """Not a call of the model."""
        loop = rf.Loop(axis=dec)
        loop.state.context = rf.zeros([B, model.feat])
        with loop:
            other(loop.state.context, keys, enc)
            context = model.att(loop.state.context + loop.unstack(labels), keys, enc)
            rf.matmul(rf.softmax(rf.reduce_sum(keys, axis=model.feat), axis=enc), keys, reduce=enc)
            loop.state.context = model.out(context)
            loop.stack(context)

    with rf.capture(model) as called:
        model(keys, labels, enc, dec)
    with rf.capture(model) as seen:
        decode()
    assert seen.names() == called.names() == ["att"]
    assert torch.equal(seen[0].weights.raw_tensor, called[0].weights.raw_tensor)
    with rf.capture(model.att) as alone:  # the module itself, whose path is empty
        decode()
    assert [item.shape for item in alone] == [(3, 5, 1)]


def test_a_decoder_that_attends_to_all_it_has_said():
    """At each step there is one more to attend to; the whole sequence at once says the same."""
    rf.set_random_seed(3)
    enc, dec = rf.Dim(None, name="enc"), rf.Dim(None, name="dec")
    feat, label = rf.Dim(8, name="feat"), rf.Dim(5, name="label")
    model = rf.TransformerDecoder(feat, label, rf.Dim(8, name="model"), num_layers=2, num_heads=2)
    labels = rf.convert_to_tensor([[1, 2, 3], [4, 0, 2]], dims=[B, dec], sparse_dim=label)
    encoder = model.transform_encoder(random(B, enc, feat, lens=[4, 2]), axis=enc)
    start = model.default_initial_state(batch_dims=[B])
    with rf.capture(model) as whole:
        model(labels, spatial_dim=dec, state=start, encoder=encoder)
    loop = rf.Loop(axis=dec)
    with rf.capture(model) as seen:
        loop.state.decoder = start
        with loop:
            step = loop.unstack(labels)
            scores, loop.state.decoder = model(
                step, spatial_dim=rf.single_step_dim, state=loop.state.decoder, encoder=encoder
            )
            loop.stack(scores)
    assert sorted(seen.names()) == sorted(whole.names()) and len(seen) == 4
    heads = model.layers[0].self_att.num_heads
    for name in seen.names():
        one, other = (s[name].weights.copy_transpose([B, heads, s[name].rows, s[name].cols]) for s in (seen, whole))
        np.testing.assert_allclose(one.raw_tensor.numpy(), other.raw_tensor.detach().numpy(), atol=1e-6)


class Weights(rf.Module):
    """Attention weights alone."""

    def __call__(self, keys, feat, axis):
        return rf.softmax(rf.reduce_sum(keys, axis=feat), axis=axis)


def test_the_sum_may_be_behind_the_module():
    enc, feat = rf.Dim(None, name="enc"), rf.Dim(4, name="feat")
    keys = random(B, enc, feat, lens=[3, 2])
    model = rf.ModuleList([Weights()])
    with rf.capture(model) as seen:
        rf.matmul(model[0](keys, feat, enc), keys, reduce=enc)
    assert seen.names() == ["0"]


def test_a_module_of_a_torch_model_counts_where_the_model_is_not_called():
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 4, 8, batch_first=True), 2)
    with rf.capture(model) as seen:
        nn.MultiheadAttention(16, 4, batch_first=True)(TOKENS, TOKENS, TOKENS)
        model.layers[1](TOKENS)
    assert seen.names() == ["layers.1.self_attn"]


def attention_of(query, keys, feat, enc):
    return rf.softmax(rf.matmul(query, keys, reduce=feat), axis=enc)


def test_where_the_end_is_not_included_its_step_has_no_row():
    """And weights that a function gives are called what the body calls them."""
    enc, feat, dec = rf.Dim(None, name="enc"), rf.Dim(4, name="feat"), rf.Dim(None, name="dec")
    keys = random(B, enc, feat, lens=[3, 2])
    loop = rf.Loop(axis=dec, max_seq_len=5)
    loop.state.query, loop.state.n = rf.zeros([B, feat]), rf.zeros([B])
    with rf.recording("last"), rf.capture() as seen, loop:
        att = attention_of(loop.state.query, keys, feat, enc)
        loop.state.query = rf.matmul(att, keys, reduce=enc)
        loop.state.n = loop.state.n + 1
        loop.end(loop.state.n >= rf.convert_to_tensor([2.0, 4.0], dims=[B]), include_eos=False)
        loop.stack(loop.state.n)
    weights = seen["att"].weights
    assert weights.size_of(dec).values.tolist() == [1, 3]
    assert weights.raw_tensor.shape[weights.dims.index(dec)] == 3
    assert torch.equal(weights.raw_tensor, loop.run.stack("att").raw_tensor)
    assert rf.show_attention(seen, batch=0).data["note"] is None


def test_typed_errors():
    with pytest.raises(ViewError, match="is not a module"), rf.capture(print):
        pass
    with pytest.raises(ViewError, match="nothing is to be captured"), rf.capture(attention=False):
        pass
    loop = rf.Loop(max_seq_len=2)
    loop.state.n = rf.convert_to_tensor(0)
    with pytest.raises(LoopError, match="capture"), loop, rf.capture():
        pass
    with rf.capture() as seen:
        pass
    with pytest.raises(ViewError, match="is not a module"), rf.capture(nn.Linear):
        pass
    for wrong in (0, "att", "a*", "", None, 1.5, b"att"):
        with pytest.raises(ViewError, match="capture"):
            seen[wrong]


def test_an_error_in_the_model_comes_through_and_leaves_nothing_behind():
    enc = rf.Dim(3, name="enc")
    with pytest.raises(ZeroDivisionError), rf.capture():
        rf.softmax(rf.zeros([enc]), axis=enc)
        _ = 1 / 0
    from rfnb.core.tensor.listener import active_listener

    assert active_listener() is None
    assert not torch.nn.modules.module._global_forward_hooks
    assert not torch.nn.modules.module._global_forward_pre_hooks


@pytest.mark.slow
def test_looking_does_not_import_a_compiler(python):
    code = (
        "import sys, torch, rfnb as rf\n"
        "with rf.capture(): torch.ones(2).softmax(0)\n"
        "print('torch._dynamo' in sys.modules)"
    )
    made = subprocess.run([python, "-c", code], capture_output=True, text=True, check=True)
    assert made.stdout.strip() == "False"


def test_with_no_model_given_a_loop_is_the_same_too():
    """The watcher of plain torch is on then, and must see nothing of what rfnb does itself."""
    model, given = decoder()
    found = []
    for watched in (False, True):
        for parameter in model.parameters():
            parameter.raw_tensor.grad = None
        with rf.capture() if watched else contextlib.nullcontext() as seen:
            out = model(*given).copy_masked(0.0)
            out.raw_tensor.square().sum().backward()
        found.append([out.raw_tensor, *(p.raw_tensor.grad.clone() for p in model.parameters())])
    assert seen.names() == ["Decoder.att"]
    torch.testing.assert_close(*found)


def test_a_loop_in_a_loop_is_said_not_to_be_seen():
    enc, feat = rf.Dim(None, name="enc"), rf.Dim(4, name="feat")
    keys = random(B, enc, feat, lens=[3, 2])
    outer = rf.Loop(max_seq_len=2, name="outer")
    outer.state.query = rf.zeros([B, feat])
    with rf.capture() as seen, outer:
        inner = rf.Loop(max_seq_len=2, name="inner")
        inner.state.query = outer.state.query
        with inner:
            weights = rf.softmax(rf.matmul(inner.state.query, keys, reduce=feat), axis=enc)
            inner.state.query = rf.matmul(weights, keys, reduce=enc)
        outer.state.query = inner.state.query
    assert len(seen) == 0
    assert "a loop inside outer" in repr(seen)

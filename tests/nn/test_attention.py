"""Attention, feed-forward parts and Transformers: by explicit loops, by torch, and by values known from before."""

from __future__ import annotations

import json
import math
from pathlib import Path

import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimRebound
from tests.examples import examples
from tests.nn.encoder.plain_transformer import decoder as plain_decoder, sines, weights_of

pytestmark = pytest.mark.usefixtures("inference")

KNOWN = json.loads(Path(__file__).parents[1].joinpath("golden/attention_values.json").read_text(encoding="utf-8"))
IN, OUT, KEY, VALUE = (rf.Dim(n, name=name) for n, name in [(4, "in"), (6, "out"), (8, "key"), (12, "value")])
ENC, WORD, MODEL, EMB = (rf.Dim(n, name=name) for n, name in [(3, "enc"), (7, "word"), (8, "model"), (6, "emb")])
LENGTHS, LETTERS = [5, 3], [2, 4]
HEADS = {"key_dim_total": KEY, "value_dim_total": VALUE, "num_heads": 2}


def waves(*shape):
    return (torch.arange(math.prod(shape), dtype=torch.float64) * 1.3).sin().float().reshape(shape)


def filled(module):
    """The module with weights that are the same everywhere."""
    for name, parameter in module.named_parameters():
        raw, start = parameter.raw_tensor, sum(map(ord, name))
        values = (torch.arange(raw.numel(), dtype=torch.float64) * 0.7 + start).sin() * 0.5
        raw.data.copy_((values + name.endswith("scale")).reshape(raw.shape))
    return module


def sequences(dim=None, *, lengths=LENGTHS, raw=None, name="time"):
    """{batch, time, dim}, or labels without one, and their time."""
    time, frames = rf.Dim(None, name=name), max(lengths, default=0)
    if dim is None:
        raw = (torch.arange(len(lengths) * frames) * 3 % 7).reshape(len(lengths), frames) if raw is None else raw
        return rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=WORD, lengths=lengths), time
    raw = waves(len(lengths), frames, dim.dimension) if raw is None else raw
    return rf.convert_to_tensor(raw, dims=[batch_dim, time, dim], lengths=lengths), time


def attend(kind, **options):
    return lambda: filled(getattr(rf, kind)(IN, OUT, **HEADS, **options)), IN, OUT


def decode(encoder=True, **options):
    options = {"share_embedding": False, **options}
    make = lambda: rf.TransformerDecoder(ENC if encoder else None, WORD, MODEL, num_layers=2, num_heads=2, **options)  # noqa: E731
    return lambda: filled(make()), None, WORD


def encode(dim=None, **options):
    return lambda: filled(rf.TransformerEncoder(WORD, MODEL, num_layers=2, num_heads=2, **options)), dim, MODEL


def relative(linear, bias, per_head, learned):
    return {
        "with_linear_pos": bool(linear), "with_pos_bias": bool(bias), "separate_pos_emb_per_head": bool(per_head),
        "learnable_pos_emb": bool(learned), "learnable_pos_emb_clipping": 2,
    }  # fmt: skip


CASES = {
    "SelfAttention": attend("SelfAttention"),
    "CausalSelfAttention nobias": attend("CausalSelfAttention", with_bias=False),
    "RelPosSelfAttention": attend("RelPosSelfAttention"),
    "RelPosSelfAttention 1101": attend("RelPosSelfAttention", **relative(1, 1, 0, 1)),
    "RelPosSelfAttention 0010": attend("RelPosSelfAttention", **relative(0, 0, 1, 0)),
    "RelPosCausalSelfAttention": attend("RelPosCausalSelfAttention"),
    "RelPosCausalSelfAttention 1001": attend("RelPosCausalSelfAttention", **relative(1, 0, 0, 1)),
    "RotaryPosSelfAttention": attend("RotaryPosSelfAttention"),
    "RotaryPosCausalSelfAttention": attend("RotaryPosCausalSelfAttention"),
    "CrossAttention": (lambda: filled(rf.CrossAttention(ENC, IN, OUT, **HEADS)), IN, OUT),
    "dec base": decode(),
    "dec relpos": decode(pos_enc=None, layer_opts={"self_att": rf.RelPosCausalSelfAttention}),
    "dec llama": decode(
        False,
        pos_enc=None,
        norm=rf.RMSNorm,
        ff=rf.FeedForwardGated,
        layer_opts={"self_att": rf.RotaryPosCausalSelfAttention, "self_att_opts": {"with_bias": False}},
    ),
    "dec embed": decode(embed_dim=EMB),
    "dec share": decode(share_embedding=True),
    "dec ff": decode(ff_dim=rf.Dim(12, name="ff"), ff_activation=rf.gelu),
    "enc base": encode(),
    "enc embed": encode(embed_dim=EMB),
    "enc relpos": encode(layer_opts={"self_att": rf.RelPosSelfAttention}),
    "enc noinput": encode(MODEL, input_embedding=None),
}
every_case = pytest.mark.parametrize("case", CASES)


def call(module, x, time, letters):
    """What the module gives for `x`, and for the letters where it looks at them."""
    batch = [dim for dim in x.dims if dim is batch_dim]
    if isinstance(module, rf.CrossAttention):
        return module(x, module.transform_encoder(letters[0], axis=letters[1]))
    if isinstance(module, rf.TransformerEncoder):
        return module(x, spatial_dim=time)
    if isinstance(module, rf.TransformerDecoder):
        encoder = module.transform_encoder(letters[0], axis=letters[1]) if module.encoder_dim else None
        state = module.default_initial_state(batch_dims=batch)
        return module(x, spatial_dim=time, state=state, encoder=encoder)[0]
    y = module(x, axis=time)
    return y[0] if isinstance(y, tuple) else y


def frames(y, time, out):
    return y.copy_masked(0.0).copy_transpose([batch_dim, time, out]).raw_tensor


@every_case
def test_known_values(case):
    """Computed once by another implementation of the same formulas, with the same weights."""
    make, dim, out = CASES[case]
    x, time = sequences(dim)
    found = frames(call(make(), x, time, sequences(ENC, lengths=LETTERS, name="letters")), time, out)
    torch.testing.assert_close(found, torch.tensor(KNOWN[case]), atol=2e-5, rtol=1e-4)


@every_case
@examples(2)
@given(
    st.lists(st.integers(0, 4), min_size=1, max_size=3).flatmap(
        lambda n: st.tuples(st.just(n), st.lists(st.integers(1, 3), min_size=len(n), max_size=len(n)))
    )
)
def test_each_sequence_alone_is_as_in_a_batch(case, lengths):
    make, dim, out = CASES[case]
    module = make()
    (x, time), (enc, letters) = (
        sequences(d, lengths=n, name=name) for d, n, name in zip((dim, ENC), lengths, ("time", "letters"), strict=True)
    )
    y = frames(call(module, x, time, (enc, letters)), time, out)
    for b, (n, m) in enumerate(zip(*lengths, strict=True)):
        time1, letters1 = rf.Dim(n, name="time"), rf.Dim(m, name="letters")
        dims, sparse = ([time1], WORD) if dim is None else ([time1, dim], None)
        x1 = rf.convert_to_tensor(x.raw_tensor[b, :n], dims=dims, sparse_dim=sparse)
        enc1 = rf.convert_to_tensor(enc.raw_tensor[b, :m], dims=[letters1, ENC])
        y1 = call(module, x1, time1, (enc1, letters1)).copy_transpose([time1, out]).raw_tensor
        torch.testing.assert_close(y[b, :n], y1, atol=1e-5, rtol=1e-4)


@every_case
def test_nan_in_padding_gets_nowhere(case):
    make, dim, out = CASES[case]
    if dim is None:
        pytest.skip("labels are never NaN")
    module, (x, time) = make(), sequences(dim)
    letters = sequences(ENC, lengths=LETTERS, name="letters")
    results = []
    for bad in (0.0, math.nan):
        y = call(module, x.copy_masked(bad), time, (letters[0].copy_masked(bad), letters[1]))
        total = rf.reduce_sum(rf.square(y), axis=y.dims).raw_tensor
        results.append([frames(y, time, out), *torch.autograd.grad(total, rf.torch_parameters(module))])
    for clean, dirty in zip(*results, strict=True):
        torch.testing.assert_close(dirty, clean, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("kind", [name for name in CASES if name.endswith("Attention")])
def test_a_bias_is_everywhere_or_nowhere(kind):
    dims = [ENC, IN, OUT] if kind == "CrossAttention" else [IN, OUT]
    for with_bias in True, False:
        module = getattr(rf, kind)(*dims, **HEADS, with_bias=with_bias)
        linears = [part for name, part in module.named_modules() if name and name != "linear_pos"]
        assert {part.bias is not None for part in linears} == {with_bias}


@pytest.mark.parametrize("kind", ["SelfAttention", "CrossAttention"])
def test_without_a_projection_the_heads_are_one_after_the_other(kind):
    (x, time), (encoded, letters) = sequences(IN), sequences(ENC, lengths=LETTERS, name="letters")
    dims = [IN] if kind == "SelfAttention" else [ENC, IN]
    whole, plain = (filled(getattr(rf, kind)(*dims, out, **HEADS)) for out in (OUT, None))
    assert (whole.out_dim, plain.out_dim, plain.proj) == (OUT, VALUE, None)
    assert whole.num_heads is plain.num_heads  # a number is the same dim everywhere
    found, expected = (call(module, x, time, (encoded, letters)) for module in (plain, whole))
    torch.testing.assert_close(frames(whole.proj(found), time, OUT), frames(expected, time, OUT))


def heads_of(module, x, *names):
    """Queries, keys and values of one sequence, by hand: [heads, frames, …] each."""
    weights = {name: p.raw_tensor for name, p in module.named_parameters()}
    parts = (x @ weights["qkv.weight"] + weights["qkv.bias"]).unflatten(-1, (2, -1)).transpose(0, 1)
    return weights, parts[..., :4], parts[..., 4:8], parts[..., 8:]


def projected(weights, energy, values):
    found = (energy.softmax(-1) @ values).transpose(0, 1).flatten(1)
    return found @ weights["proj.weight"] + weights["proj.bias"]


def test_relative_positions_by_a_loop():
    time, raw = rf.Dim(5, name="time"), waves(5, 4)
    module = filled(rf.RelPosSelfAttention(IN, OUT, **HEADS))
    w, query, keys, values = heads_of(module, raw)
    energy = torch.zeros(2, 5, 5)
    for i in range(5):
        for j in range(5):
            angle = (j - i) * torch.tensor([1.0, 0.01])
            position = (torch.cat([angle.sin(), angle.cos()]) @ w["linear_pos.weight"]).unflatten(-1, (2, 4))
            for h in range(2):
                by_key = (query[h, i] + w["pos_bias_u"][h]) @ keys[h, j]
                energy[h, i, j] = (by_key + (query[h, i] + w["pos_bias_v"][h]) @ position[h]) / 2
    found = module(rf.convert_to_tensor(raw, dims=[time, IN]), axis=time).raw_tensor
    torch.testing.assert_close(found, projected(w, energy, values))


class ByHand(rf.RelPosSelfAttention):
    """Relative positions as derived classes write them."""

    def __call__(self, source, *, axis, **_kwargs):
        query, keys, values = self.forward_qkv(source)
        keys, hist = rf.replace_dim(keys, in_dim=axis)
        values, _ = rf.replace_dim(values, in_dim=axis, out_dim=hist)
        positions, positions_dim = self.positions(axis, hist)
        by_position = rf.matmul(query + self.pos_bias_v, positions, reduce=self.key_dim_per_head)
        energy = rf.matmul(query + self.pos_bias_u, keys, reduce=self.key_dim_per_head)
        energy = (energy + self._rel_shift(by_position, axis, positions_dim, hist)) * self.scale
        found = rf.matmul(rf.softmax(energy, axis=hist), values, reduce=hist)
        return self.project(found)


@pytest.mark.parametrize("lengths", [[5, 3], [3, 0, 4], [1, 1]])
def test_a_derived_class_shifts_scores_of_positions(lengths):
    x, time = sequences(IN, lengths=lengths)
    ours, by_hand = (filled(kind(IN, OUT, **HEADS)) for kind in (rf.RelPosSelfAttention, ByHand))
    found, expected = (frames(module(x, axis=time), time, OUT) for module in (by_hand, ours))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


class Doubled(rf.CrossAttention):
    """The parts of the attention, replaced one by one."""

    def forward_query(self, source):
        return super().forward_query(source) * 2.0

    def forward_kv(self, source):
        keys, values = super().forward_kv(source)
        return keys * 0.5, values

    def attention(self, query, keys, values, *, kv_axis):
        assert kv_axis in keys.dims
        return super().attention(query, keys, values, kv_axis=kv_axis) * 3.0


def test_parts_of_cross_attention_are_methods_to_derive_from():
    (x, time), letters = sequences(IN), sequences(ENC, lengths=LETTERS, name="letters")
    plain, doubled = (filled(kind(ENC, IN, OUT, **HEADS)) for kind in (rf.CrossAttention, Doubled))
    found, expected = (frames(call(module, x, time, letters), time, OUT) for module in (doubled, plain))
    torch.testing.assert_close(found, 3.0 * expected, atol=1e-5, rtol=1e-4)


def test_rotary_positions_by_a_loop():
    time, raw = rf.Dim(5, name="time"), waves(5, 4)
    module = filled(rf.RotaryPosSelfAttention(IN, OUT, **HEADS))
    w, query, keys, values = heads_of(module, raw)

    def turn(x, position):
        out = x.clone()
        for k in range(2):
            angle = torch.tensor(position * 10_000 ** (-k / 2))
            a, b = x[2 * k], x[2 * k + 1]
            out[2 * k], out[2 * k + 1] = a * angle.cos() - b * angle.sin(), a * angle.sin() + b * angle.cos()
        return out

    energy = torch.stack(
        [
            torch.stack([turn(query[h, i], i) @ turn(keys[h, j], j) for j in range(5)]) / 2
            for h in (0, 1)
            for i in range(5)
        ]
    ).reshape(2, 5, 5)
    found = module(rf.convert_to_tensor(raw, dims=[time, IN]), axis=time).raw_tensor
    torch.testing.assert_close(found, projected(w, energy, values))


def test_an_encoder_layer_as_torchs():
    time, x = rf.Dim(5, name="time"), torch.randn(5, 8)
    ours = rf.TransformerEncoderLayer(MODEL, num_heads=2, ff_dim=16)
    twin = torch.nn.TransformerEncoderLayer(8, 2, 16, dropout=0.0, norm_first=True, layer_norm_eps=1e-6)
    w = {name: p.raw_tensor.detach() for name, p in ours.named_parameters()}
    for part in (*twin.linear1.parameters(), *twin.linear2.parameters(), twin.norm1.bias, twin.norm2.bias):
        torch.nn.init.normal_(part)
    with torch.no_grad():
        by_head = lambda x: x.unflatten(-1, (2, 3, 4)).transpose(-2, -3).flatten(-3)  # noqa: E731
        twin.self_attn.in_proj_weight.copy_(by_head(w["self_att.qkv.weight"]).t())
        twin.self_attn.in_proj_bias.copy_(by_head(w["self_att.qkv.bias"]))
        twin.self_attn.out_proj.weight.copy_(w["self_att.proj.weight"].t())
        twin.self_attn.out_proj.bias.copy_(w["self_att.proj.bias"])
        for name, linear in (("ff.linear_ff", twin.linear1), ("ff.linear_out", twin.linear2)):
            w[f"{name}.weight"].copy_(linear.weight.t())
            w[f"{name}.bias"].copy_(linear.bias)
        w["self_att_layer_norm.bias"].copy_(twin.norm1.bias)
        w["ff_layer_norm.bias"].copy_(twin.norm2.bias)
    found = ours(rf.convert_to_tensor(x, dims=[time, MODEL]), spatial_dim=time)
    torch.testing.assert_close(found.copy_transpose([time, MODEL]).raw_tensor, twin(x[:, None])[:, 0])


@pytest.mark.parametrize("padded", [False, True])
def test_a_decoder_in_plain_torch(padded):
    lengths, letters_of = (LENGTHS, LETTERS) if padded else ([5, 5], [4, 4])
    (x, time), (encoded, letters) = sequences(lengths=lengths), sequences(ENC, lengths=letters_of, name="letters")
    module = filled(rf.TransformerDecoder(ENC, WORD, MODEL, num_layers=2, num_heads=2, share_embedding=False))
    weights = weights_of(module)
    mask = (torch.arange(4) < torch.tensor(letters_of)[:, None])[:, None, None]
    expected = plain_decoder(weights, x.raw_tensor, encoded.raw_tensor, mask, sines(5, 8), layers=2, heads=2)
    expected = expected * (torch.arange(5) < torch.tensor(lengths)[:, None])[..., None]
    found = frames(call(module, x, time, (encoded, letters)), time, WORD)
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)
    for y in (found, expected):
        y.square().sum().backward()
    for name, parameter in module.named_parameters():
        twin = weights[name].grad
        twin = twin.t() if twin.dim() == 2 and "embedding" not in name else twin
        torch.testing.assert_close(parameter.raw_tensor.grad, twin, atol=1e-3, rtol=1e-3)


def test_the_last_frame_alone_and_what_the_layers_give():
    (x, time), (encoded, letters) = sequences(), sequences(ENC, lengths=LETTERS, name="letters")
    module = filled(rf.TransformerDecoder(ENC, WORD, MODEL, num_layers=2, num_heads=2))
    options = {"spatial_dim": time, "encoder": module.transform_encoder(encoded, axis=letters)}
    state, layers = module.default_initial_state(batch_dims=[batch_dim]), {}
    y, after = module(x, state=state, collected_outputs=layers, **options)
    last, _ = module(x, state=state, output_only_last_frame=True, **options)
    whole = y.copy_transpose([batch_dim, time, WORD]).raw_tensor
    expected = torch.stack([whole[0, 4], whole[1, 2]])
    torch.testing.assert_close(last.copy_transpose([batch_dim, WORD]).raw_tensor, expected)
    assert list(layers) == ["0", "1"] and layers["1"].dims_set == {batch_dim, time, MODEL}
    assert after.pos.raw_tensor.tolist() == LENGTHS


def test_attention_is_seen():
    (x, time), (encoded, letters) = sequences(), sequences(ENC, lengths=LETTERS, name="letters")
    module = filled(rf.TransformerDecoder(ENC, WORD, MODEL, num_layers=2, num_heads=2))
    with rf.capture(module) as seen:
        call(module, x, time, (encoded, letters))
    assert seen.names() == [f"layers.{i}.{part}" for i in (0, 1) for part in ("self_att", "cross_att")]
    assert seen["layers.1.cross_att"].shape == (5, 4, 2)
    weights = seen["layers.0.self_att"].weights
    rows, cols = seen["layers.0.self_att"].rows, seen["layers.0.self_att"].cols
    one = rf.gather(weights, indices=0, axis=batch_dim).copy_transpose(
        [module.layers[0].self_att.num_heads, rows, cols]
    )
    assert (one.raw_tensor.triu(1) == 0).all()
    torch.testing.assert_close(one.raw_tensor.sum(-1), torch.ones(2, 5))


def test_greedy_decoding_in_a_loop():
    encoded, letters = sequences(ENC, lengths=LETTERS, name="letters")
    module = filled(rf.TransformerDecoder(ENC, WORD, MODEL, num_layers=2, num_heads=2))
    encoder = module.transform_encoder(encoded, axis=letters)
    loop = rf.Loop(max_seq_len=4)
    loop.state.decoder = module.default_initial_state(batch_dims=[batch_dim])
    loop.state.label = rf.zeros([batch_dim], dtype="int64", sparse_dim=WORD)
    with loop:
        logits, loop.state.decoder = module(
            loop.state.label, spatial_dim=rf.single_step_dim, state=loop.state.decoder, encoder=encoder
        )
        loop.state.label = rf.reduce_argmax(logits, axis=WORD)
        found = loop.stack(loop.state.label)
    labels = torch.zeros(2, 1, dtype=torch.int64)
    for _ in range(4):
        x, time = sequences(lengths=[labels.shape[1]] * 2, raw=labels)
        logits = frames(call(module, x, time, (encoded, letters)), time, WORD)
        labels = torch.cat([labels, logits[:, -1:].argmax(-1)], 1)
    axis = next(dim for dim in found.dims if dim is not batch_dim)
    assert found.copy_transpose([batch_dim, axis]).raw_tensor.tolist() == labels[:, 1:].tolist()


def test_what_cannot_be():
    with pytest.raises(rf.errors.DimError, match="cannot be divided evenly"):
        rf.SelfAttention(IN, OUT, key_dim_total=KEY, value_dim_total=VALUE, num_heads=3)
    with pytest.raises(rf.errors.ParameterError, match="share_embedding"):
        rf.TransformerDecoder(None, WORD, MODEL, num_layers=1, num_heads=2, share_embedding=True, embed_dim=EMB)
    module = rf.TransformerDecoder(ENC, WORD, MODEL, num_layers=1, num_heads=2)
    x, time = sequences()
    with pytest.raises(rf.errors.ParameterError, match="called without `encoder`"):
        module(x, spatial_dim=time, state=module.default_initial_state(batch_dims=[batch_dim]))
    alone = rf.TransformerDecoder(None, WORD, MODEL, num_layers=1, num_heads=2)
    with pytest.raises(rf.errors.ParameterError, match="has no attention to an encoder"):
        alone.transform_encoder(sequences(ENC)[0], axis=time)


def test_vectors_of_all_pairs():
    two, three = rf.Dim(2, name="two"), rf.Dim(3, name="three")
    module = filled(rf.LearnedRelativePositionalEncoding(IN, clipping=1))
    vectors = module.full_matrix(query_spatial_dim=two, key_value_spatial_dim=three, query_offset=1)
    found = vectors.copy_transpose([two, three, IN]).raw_tensor
    table = module.pos_emb.raw_tensor
    torch.testing.assert_close(found, table[torch.tensor([[0, 1, 2], [0, 0, 1]])])


@pytest.mark.parametrize("heads", [0, rf.Dim(0, name="none"), None, 2.0, "2"], ids=str)
def test_heads_are_one_or_more(heads):
    options = {"key_dim_total": KEY, "value_dim_total": VALUE, "num_heads": heads}
    for make in (lambda: rf.SelfAttention(IN, OUT, **options), lambda: rf.CrossAttention(ENC, IN, OUT, **options)):
        with pytest.raises(rf.errors.DimError, match="`num_heads` must be 1 or more"):
            make()


def test_states_of_other_modules():
    (x, time), (labels, frames_) = sequences(IN), sequences()
    lstm = rf.LSTM(IN, OUT).default_initial_state(batch_dims=[batch_dim])
    decoder = rf.TransformerDecoder(None, WORD, MODEL, num_layers=1, num_heads=2)
    cross = rf.CrossAttention(ENC, IN, OUT, **HEADS)
    for call_it, words in [
        (lambda: rf.CausalSelfAttention(IN, OUT, **HEADS)(x, axis=time, state=lstm), "it has no 'k_accum'"),
        (
            lambda: decoder(labels, spatial_dim=frames_, state=lstm),
            r"(?s)`state` is not a state.*it has no '0'.*c, h|h, c",
        ),
        (lambda: decoder(labels, spatial_dim=frames_, state=None), "`state` is not an rf.State"),
        (lambda: cross(x, lstm), r"(?s)`encoder` is not a state.*it has no 'k'.*transform_encoder"),
        (lambda: cross(x, x), r"(?s)`encoder` is not an rf.State.*transform_encoder"),
    ]:
        with pytest.raises(rf.errors.ParameterError, match=words):
            call_it()


@pytest.mark.parametrize("kind", [rf.RelPosSelfAttention, rf.RelPosCausalSelfAttention])
@pytest.mark.parametrize("later", [(2, 2), (7, 4), (3,)])
def test_relative_positions_of_another_batch_are_an_error(kind, later):
    time, model = rf.Dim(None, name="time"), rf.Dim(8, name="model")
    attention = kind(model, model, key_dim_total=model, value_dim_total=model, num_heads=2)

    def batch(*lengths):
        return rf.convert_to_tensor([torch.ones(n, 8) for n in lengths], dims=[batch_dim, time, model])

    first = batch(5, 3)
    attention(first, axis=time)
    batch(*later)
    with pytest.raises(DimRebound, match="time has the lengths of a later batch"):
        attention(first, axis=time)
    attention(batch(5, 3), axis=time)
    batch(5, 4)  # as many distances
    attention(batch(5, 3), axis=time)

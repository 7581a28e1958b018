"""Attention, Transformer layers and Llama give the same with weights imported: padded batches, against plain torch."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch
from torch import nn

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import CheckpointError
from tests.checkpoint.llama import Llama

MODEL, ENC, VOCAB = rf.Dim(16, name="model"), rf.Dim(6, name="enc"), rf.Dim(11, name="vocab")
LENGTHS, ENC_LENGTHS = [5, 1, 3], [2, 4, 1]


@pytest.fixture
def time():
    return rf.Dim(None, name="time")


@pytest.fixture
def x(time):
    return rf.convert_to_tensor(torch.randn(3, 5, 16), dims=[batch_dim, time, MODEL], lengths=LENGTHS)


def encoded(feat):
    enc_time = rf.Dim(None, name="enc_time")
    raw = torch.randn(3, 4, feat.dimension)
    return rf.convert_to_tensor(raw, dims=[batch_dim, enc_time, feat], lengths=ENC_LENGTHS), enc_time


def alone(x, lengths=LENGTHS):
    """Each sequence without its padding."""
    return [x.raw_tensor[i, :length] for i, length in enumerate(lengths)]


def agrees(y, wanted, time, feat=MODEL):
    raw = y.copy_transpose([batch_dim, time, feat]).raw_tensor
    return all(torch.allclose(raw[i, : len(w)], w, atol=1e-4) for i, w in enumerate(wanted))


def trained(theirs):
    for tensor in theirs.state_dict().values():
        tensor.normal_(std=0.5)
    return theirs.eval()


ATTENTION = {"key_dim_total": MODEL, "value_dim_total": MODEL, "num_heads": 4}


@pytest.mark.parametrize("bias", [True, False])
def test_self_attention(bias, x, time):
    theirs = trained(nn.MultiheadAttention(16, 4, bias=bias))
    ours = rf.SelfAttention(MODEL, MODEL, **ATTENTION, with_bias=bias)
    assert rf.import_weights(theirs, ours).complete
    assert agrees(ours(x, axis=time), [theirs(one, one, one)[0] for one in alone(x)], time)


def test_causal_self_attention(x, time):
    theirs, ours = trained(nn.MultiheadAttention(16, 4)), rf.CausalSelfAttention(MODEL, MODEL, **ATTENTION)
    assert rf.import_weights(theirs, ours).complete
    y, _ = ours(x, axis=time)
    mask = nn.Transformer.generate_square_subsequent_mask
    wanted = [theirs(one, one, one, attn_mask=mask(len(one)), is_causal=True)[0] for one in alone(x)]
    assert agrees(y, wanted, time)


@pytest.mark.parametrize("feat", [MODEL, ENC], ids=["one matrix", "matrices of their own"])
@pytest.mark.parametrize("bias", [True, False])
def test_cross_attention(feat, bias, x, time):
    size = feat.dimension
    theirs = trained(nn.MultiheadAttention(16, 4, bias=bias, kdim=size, vdim=size))
    ours = rf.CrossAttention(feat, MODEL, MODEL, **ATTENTION, with_bias=bias)
    assert rf.import_weights(theirs, ours).complete
    enc, enc_time = encoded(feat)
    y = ours(x, ours.transform_encoder(enc, axis=enc_time))
    wanted = [theirs(q, e, e)[0] for q, e in zip(alone(x), alone(enc, ENC_LENGTHS), strict=True)]
    assert agrees(y, wanted, time)


def test_keys_and_values_of_another_size(x, time):
    key, value = rf.Dim(8, name="key"), rf.Dim(12, name="value")
    options = {"key_dim_total": key, "value_dim_total": value, "num_heads": 4, "with_bias": False}
    parts = [torch.randn(size, 16) for size in (8, 8, 12)]
    apart = {f"{name}_proj.weight": weight for name, weight in zip("qkv", parts, strict=True)}
    for weights in {"in_proj_weight": torch.cat(parts)}, apart:
        ours, cross = rf.SelfAttention(MODEL, None, **options), rf.CrossAttention(MODEL, MODEL, None, **options)
        assert rf.import_weights(weights, ours).complete and rf.import_weights(weights, cross).complete
        encoder = cross.transform_encoder(x, axis=time)
        for found, weight in zip((*ours.forward_qkv(x), encoder.k, encoder.v), parts + parts[1:], strict=True):
            found, feat = rf.merge_dims(found, dims=found.dims[-2:])
            assert agrees(found, [one @ weight.T for one in alone(x)], time, feat)


def test_another_number_of_heads():
    ours = rf.SelfAttention(MODEL, MODEL, **{**ATTENTION, "num_heads": 2})
    with pytest.raises(CheckpointError, match=r"(?s)different number of heads.*4 in in_proj.*2"):
        rf.import_weights(nn.MultiheadAttention(16, 4), ours)


@pytest.mark.parametrize("size", [12, 20])
def test_another_size(size):
    ours = rf.SelfAttention(MODEL, MODEL, **ATTENTION)
    with pytest.raises(CheckpointError, match=rf"(?s)weights for qkv\.weight do not fit.*\({3 * size}, {size}\)"):
        rf.import_weights(nn.MultiheadAttention(size, 4), ours)


@pytest.mark.parametrize("bias", [True, False])
def test_weights_that_torch_adds_to_keys_are_not_known(bias):
    ours = rf.SelfAttention(MODEL, MODEL, **ATTENTION, with_bias=bias)
    with pytest.raises(CheckpointError, match="bias_k"):
        rf.import_weights(nn.MultiheadAttention(16, 4, bias=bias, add_bias_kv=True), ours)


def encoder_layer(activation="relu", **options):
    return trained(nn.TransformerEncoderLayer(16, 4, 24, activation=activation, norm_first=True, **options))


@pytest.mark.parametrize("activation", ["relu", "gelu"])
def test_an_encoder_layer(activation, x, time):
    theirs = encoder_layer(activation)
    ours = rf.TransformerEncoderLayer(
        MODEL, ff_dim=rf.Dim(24, name="ff"), ff_activation=getattr(rf, activation), num_heads=4
    )
    report = rf.import_weights(theirs, ours)
    assert report.complete
    assert set(report.settings) == {"ff_layer_norm.eps = 1e-05", "self_att_layer_norm.eps = 1e-05"}
    assert agrees(ours(x, spatial_dim=time), [theirs(one) for one in alone(x)], time)


def test_an_activation_may_be_called_so():
    theirs = trained(Llama())
    theirs.model.layers[0].mlp.act_fn = type("SiLUActivation", (nn.SiLU,), {})()
    assert rf.import_weights(theirs, our_llama()).complete


def test_an_activation_without_a_name_is_not_compared():
    ours = rf.TransformerEncoderLayer(MODEL, ff_dim=rf.Dim(24, name="ff"), num_heads=4)
    assert rf.import_weights(encoder_layer(lambda x: x.relu()), ours).complete


@pytest.mark.parametrize("activation", ["gelu", nn.GELU()])
def test_another_activation(activation):
    ours = rf.TransformerEncoderLayer(MODEL, ff_dim=rf.Dim(24, name="ff"), num_heads=4)
    with pytest.raises(CheckpointError, match=r"(?s)different activation.*gelu.*relu"):
        rf.import_weights(encoder_layer(activation), ours)


def test_a_stack_of_encoder_layers(x, time):
    theirs = trained(nn.TransformerEncoder(encoder_layer(), 3, enable_nested_tensor=False))
    ours = rf.Module()
    ours.layers = rf.Sequential(
        rf.TransformerEncoderLayer(MODEL, ff_dim=rf.Dim(24, name="ff"), num_heads=4) for _ in range(3)
    )
    assert rf.import_weights(theirs, ours).complete
    assert agrees(ours.layers(x, spatial_dim=time), [theirs(one) for one in alone(x)], time)


@pytest.mark.parametrize("here", [True, False])
def test_norms_at_another_place(here):
    theirs = nn.TransformerEncoderLayer(16, 4, 64, norm_first=not here)
    ours = rf.TransformerEncoderLayer(MODEL, num_heads=4, norm_first=here)
    before = ours.ff_layer_norm.eps
    with pytest.raises(CheckpointError, match=rf"(?s)norms.*norm_first={not here}.*norm_first={here}"):
        rf.import_weights(theirs, ours)
    assert ours.ff_layer_norm.eps == before


def test_an_encoder_layer_with_norms_behind_its_parts(x, time):
    theirs = trained(nn.TransformerEncoderLayer(16, 4, 24))
    ours = rf.TransformerEncoderLayer(MODEL, ff_dim=rf.Dim(24, name="ff"), num_heads=4, norm_first=False)
    assert rf.import_weights(theirs, ours).complete
    assert agrees(ours(x, spatial_dim=time), [theirs(one) for one in alone(x)], time)


@pytest.mark.parametrize("norm_first", [True, False])
def test_a_decoder_layer(norm_first, x, time):
    theirs = trained(nn.TransformerDecoderLayer(16, 4, 24, norm_first=norm_first))
    ours = rf.TransformerDecoderLayer(MODEL, MODEL, ff_dim=rf.Dim(24, name="ff"), num_heads=4, norm_first=norm_first)
    assert rf.import_weights(theirs, ours).complete
    enc, enc_time = encoded(MODEL)
    y, _ = ours(
        x,
        spatial_dim=time,
        state=ours.default_initial_state(batch_dims=[batch_dim]),
        encoder=ours.transform_encoder(enc, axis=enc_time),
    )
    mask = nn.Transformer.generate_square_subsequent_mask
    wanted = [
        theirs(one, e, tgt_mask=mask(len(one)), tgt_is_causal=True)
        for one, e in zip(alone(x), alone(enc, ENC_LENGTHS), strict=True)
    ]
    assert agrees(y, wanted, time)


def our_llama(**options):
    return rf.TransformerDecoder(
        None,
        VOCAB,
        MODEL,
        num_layers=2,
        num_heads=4,
        ff=rf.FeedForwardGated,
        ff_dim=rf.Dim(24, name="ff"),
        pos_enc=None,
        norm=rf.RMSNorm,
        input_embedding_scale=1.0,
        **{
            "share_embedding": False,
            "layer_opts": {"self_att": rf.RotaryPosCausalSelfAttention, "self_att_opts": {"with_bias": False}},
            **options,
        },
    )


@pytest.fixture
def labels(time):
    raw = torch.randint(11, (3, 5))
    return rf.convert_to_tensor(raw, dims=[batch_dim, time], sparse_dim=VOCAB, lengths=LENGTHS)


def logits(ours, labels, time):
    y, _ = ours(labels, spatial_dim=time, state=ours.default_initial_state(batch_dims=[batch_dim]))
    return y


@pytest.mark.parametrize(
    ("there", "here"),
    [
        ({}, {}),
        ({"kv_heads": 2}, {}),
        ({"kv_heads": 1}, {}),
        ({"tied": True}, {}),
        ({"tied": True}, {"share_embedding": None}),
    ],
    ids=str,
)
def test_llama(there, here, labels, time):
    theirs, ours = trained(Llama(**there)), our_llama(**here)
    report = rf.import_weights(theirs, ours)
    assert report.complete
    assert len(report.settings) == 5
    assert agrees(logits(ours, labels, time), [theirs(one) for one in alone(labels)], time, VOCAB)


def test_a_llama_whose_weights_are_not_tied_names_the_option():
    with pytest.raises(CheckpointError, match=r"(?s)logits\.weight are the same.*share_embedding=False"):
        rf.import_weights(trained(Llama()), our_llama(share_embedding=None))


@pytest.mark.parametrize("share", [True, False])
def test_llama_from_a_file_in_which_tied_weights_are_once(share, labels, time, tmp_path):
    theirs, ours = trained(Llama(tied=True, eps=1e-6)), our_llama(share_embedding=share)
    torch.save({k: v for k, v in theirs.state_dict().items() if k != "lm_head.weight"}, tmp_path / "llama.pt")
    assert rf.import_weights(tmp_path / "llama.pt", ours).complete
    assert agrees(logits(ours, labels, time), [theirs(one) for one in alone(labels)], time, VOCAB)


def test_llama_step_by_step(labels, time):
    theirs, ours = trained(Llama()), our_llama()
    rf.import_weights(theirs, ours)
    state = ours.default_initial_state(batch_dims=[batch_dim])
    for step in range(5):
        label = rf.gather(labels, indices=step, axis=time)
        y, state = ours(label, spatial_dim=rf.single_step_dim, state=state)
    wanted = theirs(labels.raw_tensor[0])[-1]
    assert torch.allclose(y.copy_transpose([batch_dim, VOCAB]).raw_tensor[0], wanted, atol=1e-4)


META = {
    "model.embed_tokens": "tok_embeddings",
    "model.norm": "norm",
    "lm_head": "output",
    "model.layers": "layers",
    "self_attn": "attention",
    "mlp": "feed_forward",
    "input_layernorm": "attention_norm",
    "post_attention_layernorm": "ffn_norm",
    "q_proj": "wq",
    "k_proj": "wk",
    "v_proj": "wv",
    "o_proj": "wo",
    "gate_proj": "w1",
    "down_proj": "w2",
    "up_proj": "w3",
}


def as_meta_has_it(name, weight):
    """Neighbours in a head are turned, not halves."""
    if "q_proj" in name or "k_proj" in name:
        weight = weight.unflatten(0, (-1, 2, 2)).transpose(1, 2).flatten(0, 2)
    for theirs, meta in META.items():
        name = name.replace(theirs, meta)
    return name, weight


def test_llama_of_meta(labels, time):
    theirs, ours = trained(Llama(eps=1e-6)), our_llama()
    state = dict(as_meta_has_it(name, weight) for name, weight in theirs.state_dict().items())
    assert rf.import_weights(state, ours).complete
    assert agrees(logits(ours, labels, time), [theirs(one) for one in alone(labels)], time, VOCAB)


@pytest.mark.parametrize(
    ("part", "attribute", "value", "words"),
    [
        ("mlp", "act_fn", nn.GELU(), r"(?s)different activation.*gelu.*silu"),
        ("self_attn", "config", SimpleNamespace(num_attention_heads=8), r"(?s)different number of heads.*8.*4"),
    ],
)
def test_another_llama_is_noticed(part, attribute, value, words):
    theirs, ours = trained(Llama()), our_llama()
    setattr(theirs.get_submodule(f"model.layers.1.{part}"), attribute, value)
    before = ours.logits.weight.raw_tensor.clone()
    with pytest.raises(CheckpointError, match=words):
        rf.import_weights(theirs, ours)
    assert torch.equal(ours.logits.weight.raw_tensor, before)


def angles(base):
    """What a model of Hugging Face with heads of 4 features keeps of its rotary positions."""
    return base ** -(torch.arange(2) / 2)


def test_the_base_of_rotary_positions_is_taken_over(labels, time):
    theirs, ours = trained(Llama(base=500_000)), our_llama()
    theirs.model.register_buffer("inv_freq", angles(500_000), persistent=False)
    report = rf.import_weights(theirs, ours)
    assert {"layers.0.self_att.base = 500000", "layers.1.self_att.base = 500000"} <= set(report.settings)
    assert agrees(logits(ours, labels, time), [theirs(one) for one in alone(labels)], time, VOCAB)


def test_the_base_as_an_option(labels, time):
    theirs = trained(Llama(base=500_000, eps=1e-6))
    att = {"self_att": rf.RotaryPosCausalSelfAttention, "self_att_opts": {"with_bias": False, "base": 500_000}}
    ours = our_llama(layer_opts=att)
    assert not rf.import_weights(theirs.state_dict(), ours).settings
    assert agrees(logits(ours, labels, time), [theirs(one) for one in alone(labels)], time, VOCAB)


def test_angles_that_follow_from_no_base():
    theirs = trained(Llama())
    theirs.model.register_buffer("inv_freq", torch.tensor([0.5, 0.01]), persistent=False)
    with pytest.raises(CheckpointError, match="has other angles"):
        rf.import_weights(theirs, our_llama())
    theirs.model.inv_freq = angles(10_000)
    assert not any("base" in line for line in rf.import_weights(theirs, our_llama()).settings)

"""The decoder: which parameters it has, and the names of its options."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch
from safetensors.torch import load_file

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import CheckpointError, ParameterError

pytestmark = pytest.mark.usefixtures("inference")

WORD, MODEL, EMB = (rf.Dim(n, name=name) for n, name in [(7, "word"), (8, "model"), (6, "emb")])


def decoder(**options):
    return rf.TransformerDecoder(None, WORD, MODEL, num_layers=1, num_heads=2, **options)


def names(module):
    return [name for name, _ in module.named_parameters()]


def logits_of(module):
    time = rf.Dim(3, name="time")
    labels = rf.convert_to_tensor([[1, 2, 3], [4, 0, 6]], dims=[batch_dim, time], sparse_dim=WORD)
    y, _ = module(labels, spatial_dim=time, state=module.default_initial_state(batch_dims=[batch_dim]))
    return y.copy_transpose([batch_dim, time, WORD]).raw_tensor


@pytest.mark.parametrize("options", [{}, {"embed_dim": MODEL}, {"share_embedding": True}], ids=str)
def test_logits_and_embedding_share_a_weight(options):
    module = decoder(**options)
    assert "input_embedding.weight" in names(module) and "logits.weight" not in names(module)
    assert type(module.logits) is rf.Linear and module.logits.weight is module.input_embedding.weight
    assert (module.logits.in_dim, module.logits.out_dim, module.logits.bias) == (MODEL, WORD, None)
    x = rf.random_normal([MODEL])
    expected = x.raw_tensor @ module.input_embedding.weight.raw_tensor.T
    torch.testing.assert_close(module.logits(x).raw_tensor, expected)


@pytest.mark.parametrize(
    "options", [{"embed_dim": EMB}, {"logits_with_bias": True}, {"share_embedding": False}, {"input_embedding": False}]
)
def test_logits_have_their_own_weight(options):
    assert decoder(**options).logits.weight.dims == (MODEL, WORD)
    assert "logits.weight" in names(decoder(**options))


@pytest.mark.parametrize(
    ("options", "scale"),
    [
        ({}, 8**0.5),
        ({"pos_enc": None}, 8**0.5),
        ({"input_embedding": False}, 8**0.5),
        ({"input_embedding": False, "pos_enc": None}, 1.0),
        ({"input_embedding": False, "pos_enc": None, "input_embedding_scale": 2.0}, 2.0),
    ],
)
def test_the_scale_of_the_input(options, scale):
    assert decoder(**options).input_embedding_scale == scale


def test_copies_stay_tied_and_a_copy_of_the_logits_is_a_linear():
    module = decoder()
    for other in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert other.logits.weight is other.input_embedding.weight is not module.logits.weight
        torch.testing.assert_close(logits_of(other), logits_of(module))
    alone = copy.deepcopy(module.logits)
    x = rf.ones([MODEL])
    torch.testing.assert_close(alone(x).raw_tensor, module.logits(x).raw_tensor)
    assert names(alone) == ["weight"]


def test_the_gradient_of_the_weight_is_that_of_both_uses():
    tied, loose = decoder(dropout=0.0), decoder(dropout=0.0, share_embedding=False)
    rf.load({name: p.raw_tensor for name, p in tied.named_parameters()} | own_logits(tied), loose)
    for module in (tied, loose):
        logits_of(module).square().sum().backward()
    both = loose.input_embedding.weight.raw_tensor.grad + loose.logits.weight.raw_tensor.grad.T
    torch.testing.assert_close(tied.input_embedding.weight.raw_tensor.grad, both)


def own_logits(module):
    return {"logits.weight": module.input_embedding.weight.raw_tensor.detach().T.contiguous()}


def test_torch_sees_the_parameter_once_and_both_names_in_a_state_dict():
    module, other = decoder(), decoder()
    net = rf.to_torch(module)
    assert [name for name, _ in net.named_parameters()] == names(module)
    assert len(rf.torch_parameters(module)) == len(names(module))
    assert {"input_embedding.weight", "logits.weight"} <= set(net.state_dict())
    assert rf.load(net.state_dict(), other).complete
    torch.testing.assert_close(logits_of(other), logits_of(module))


def test_a_view_counts_the_shared_weight_once():
    module = decoder()
    total = sum(p.num_elements() for p in module.parameters())
    text = rf.show(module).text
    assert f"{total} parameters" in text and "weight {word:7, model:8}  the same as input_embedding.weight" in text


def test_files_have_the_shared_weight_once(tmp_path):
    module, other, loose = decoder(), decoder(), decoder(share_embedding=False)
    path = rf.save(module, tmp_path / "tied.safetensors")
    assert "input_embedding.weight" in load_file(path) and "logits.weight" not in load_file(path)
    assert rf.load(path, other).complete and rf.load(path, loose).complete
    for loaded in (other, loose):
        torch.testing.assert_close(logits_of(loaded), logits_of(module))


@pytest.mark.parametrize("with_dims", [True, False])
@pytest.mark.parametrize("strict", [True, False])
def test_logits_of_a_file_with_their_own_weight_name_the_option(tmp_path, with_dims, strict):
    loose, module = decoder(share_embedding=False), decoder()
    path = rf.save(loose, tmp_path / "loose.safetensors")
    source = path if with_dims else rf.to_torch(loose).state_dict()
    before = [p.raw_tensor.clone() for p in module.parameters()]
    with pytest.raises(CheckpointError, match=r"(?s)logits\.weight.*share_embedding=False"):
        rf.load(source, module, strict=strict)
    assert all(torch.equal(a, b.raw_tensor) for a, b in zip(before, module.parameters(), strict=True))
    assert rf.load(source, decoder(share_embedding=False)).complete


def test_missing_logits_of_a_tied_file_name_the_option():
    state = {name: p.raw_tensor for name, p in decoder().named_parameters()}
    model = rf.ModuleList({"decoder": decoder(share_embedding=False)})
    state = {f"decoder.{name}": raw for name, raw in state.items()}
    with pytest.raises(CheckpointError, match=r"(?s)missing decoder\.logits\.weight.*share_embedding=True"):
        rf.load(state, model)


def test_a_bias_of_the_logits_and_a_shared_weight_exclude_each_other():
    with pytest.raises(ParameterError, match="share_embedding=False"):
        decoder(share_embedding=True, logits_with_bias=True)


class Layer(rf.TransformerDecoderLayer):
    """A layer of a user."""


def test_older_names_of_options():
    opts = {"self_att": rf.RotaryPosCausalSelfAttention}
    module = decoder(decoder_layer_opts=opts, decoder_layer=Layer)
    assert type(module.layers[0]) is Layer
    assert type(module.layers[0].self_att) is rf.RotaryPosCausalSelfAttention
    assert type(decoder(layer_opts=opts, layer=Layer).layers[0]) is Layer


@pytest.mark.parametrize("both", ["decoder_layer", "decoder_layer_opts"])
def test_an_option_under_both_names_is_an_error(both):
    new = both.removeprefix("decoder_")
    given = Layer if new == "layer" else {}
    with pytest.raises(ParameterError, match=f"`{new}` is given twice"):
        decoder(**{both: given, new: given})


def test_an_unknown_option_is_named():
    with pytest.raises(ParameterError, match=r"(?s)TransformerDecoder.*num_layer_opts.*layer_opts"):
        decoder(num_layer_opts={})

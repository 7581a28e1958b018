"""Folders as Hugging Face has them: weights in one file or several, and a config beside them."""

from __future__ import annotations

import json

import pytest
import torch
from safetensors.torch import save_file

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import CheckpointError
from tests.checkpoint.llama import Llama

MODEL, VOCAB, FF = rf.Dim(16, name="model"), rf.Dim(11, name="vocab"), rf.Dim(24, name="ff")
CONFIG = {
    "model_type": "llama", "num_attention_heads": 4, "hidden_act": "silu", "rms_norm_eps": 1e-2,
    "rope_parameters": {"rope_type": "default", "rope_theta": 500_000.0},
}  # fmt: skip


def our_llama():
    att = {"self_att": rf.RotaryPosCausalSelfAttention, "self_att_opts": {"with_bias": False}}
    return rf.TransformerDecoder(
        None, VOCAB, MODEL, num_layers=2, num_heads=4, ff=rf.FeedForwardGated, ff_dim=FF, pos_enc=None,
        norm=rf.RMSNorm, input_embedding_scale=1.0, layer_opts=att, share_embedding=False,
    )  # fmt: skip


@pytest.fixture
def theirs():
    found = Llama(kv_heads=2, eps=1e-2, base=500_000)
    for tensor in found.state_dict().values():
        tensor.normal_(std=0.5)
    return found


def whole(folder, state):
    save_file(state, folder / "model.safetensors")
    return folder


def in_shards(folder, state, ending="safetensors", save=save_file, stem="model"):
    """A third of the weights in each file."""
    names, table = list(state), {}
    for i in range(3):
        file = f"{stem}-{i}.{ending}"
        save({name: state[name] for name in names[i::3]}, folder / file)
        table |= dict.fromkeys(names[i::3], file)
    (folder / f"{stem}.{ending}.index.json").write_text(json.dumps({"metadata": {}, "weight_map": table}))
    return folder


def in_shards_of_torch(folder, state):
    return in_shards(folder, state, "bin", torch.save, "pytorch_model")


def of_hugging_face(folder, state):
    return in_shards(folder, state) / "model.safetensors.index.json"


@pytest.mark.parametrize("write", [whole, in_shards, in_shards_of_torch, of_hugging_face])
@pytest.mark.parametrize("older", [True, False], ids=["config as it was", "config"])
@pytest.mark.parametrize("load", [rf.load, rf.import_weights])
def test_weights_and_what_the_config_says(load, write, older, theirs, tmp_path):
    config = dict(CONFIG)
    if older:
        config |= {"rope_theta": config.pop("rope_parameters")["rope_theta"], "rope_scaling": None}
    (tmp_path / "config.json").write_text(json.dumps(config))
    ours = our_llama()
    report = load(write(tmp_path, theirs.state_dict()), ours)
    assert report.complete and len(report.settings) == 7
    time = rf.Dim(4, name="time")
    labels = torch.randint(11, (2, 4))
    x = rf.convert_to_tensor(labels, dims=[batch_dim, time], sparse_dim=VOCAB)
    y, _ = ours(x, spatial_dim=time, state=ours.default_initial_state(batch_dims=[batch_dim]))
    wanted = torch.stack([theirs(one) for one in labels])
    assert torch.allclose(y.copy_transpose([batch_dim, time, VOCAB]).raw_tensor, wanted, atol=1e-4)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"model_type": "gemma"}, "different model"),
        ({"num_attention_heads": 8}, "different number of heads"),
        ({"hidden_act": "gelu"}, "different activation"),
        ({"rope_parameters": {"rope_type": "llama3", "rope_theta": 5e5}}, "different kind of rotary positions"),
        ({"rope_parameters": None, "rope_scaling": {"type": "linear"}}, "different kind of rotary positions"),
    ],
    ids=str,
)
@pytest.mark.parametrize("load", [rf.load, rf.import_weights])
def test_a_config_of_something_else_changes_nothing(load, change, words, theirs, tmp_path):
    (tmp_path / "config.json").write_text(json.dumps(CONFIG | change))
    ours = our_llama()
    before = [p.raw_tensor.clone() for p in ours.parameters()]
    with pytest.raises(CheckpointError, match=words):
        load(whole(tmp_path, theirs.state_dict()), ours)
    assert all(torch.equal(a, p.raw_tensor) for a, p in zip(before, ours.parameters(), strict=True))
    assert ours.final_layer_norm.eps == 1e-6


@pytest.mark.parametrize("name", ["GPT2LMHeadModel", "BartForConditionalGeneration"])
def test_a_folder_with_several_files_of_transformers(name, tmp_path):
    """Shared weights are stored once, and the model is wrapped as it is."""
    transformers = pytest.importorskip("transformers")
    small = {"vocab_size": 40, "bos_token_id": 0, "eos_token_id": 1, "pad_token_id": 2}
    gpt = {"n_embd": 16, "n_layer": 1, "n_head": 2}
    bart = {"d_model": 16, "encoder_layers": 1, "decoder_layers": 1, "encoder_ffn_dim": 8, "decoder_ffn_dim": 8}
    kind = getattr(transformers, name)
    config = kind.config_class(**small, **(gpt if name.startswith("GPT2") else bart))
    theirs, again = kind(config), kind(config)
    theirs.save_pretrained(tmp_path, max_shard_size="4KB")
    assert len(list(tmp_path.glob("*.safetensors"))) > 2
    time = rf.Dim(None, name="time")
    wrapped = rf.from_torch(again, [batch_dim, time], [batch_dim, time, VOCAB])
    assert rf.load(tmp_path, wrapped).complete
    assert all(torch.equal(raw, again.state_dict()[key]) for key, raw in theirs.state_dict().items())


def test_a_config_of_another_program_says_nothing(theirs, tmp_path):
    (tmp_path / "config.json").write_text('\ufeff{"rms_norm_eps": 1}', encoding="utf-8")
    assert not rf.import_weights(whole(tmp_path, theirs.state_dict()), our_llama()).settings


@pytest.fixture
def model():
    found = rf.Module()
    found.a, found.b = rf.Linear(MODEL, FF), rf.Linear(FF, MODEL)
    return found


@pytest.fixture
def sharded(model, tmp_path):
    return in_shards(tmp_path, {name: p.raw_tensor.detach() for name, p in model.named_parameters()})


def test_a_folder_is_loaded(model, sharded):
    expected = [p.raw_tensor.clone() for p in model.parameters()]
    for p in model.parameters():
        p.assign(0.0)
    assert rf.load(sharded, model).complete
    assert all(torch.equal(a, p.raw_tensor) for a, p in zip(expected, model.parameters(), strict=True))


def _index(folder):
    return folder / "model.safetensors.index.json"


@pytest.mark.parametrize(
    ("break_it", "words"),
    [
        (lambda folder: (folder / "model-1.safetensors").unlink(), "are missing.*\n.*model-1.safetensors"),
        (lambda folder: (folder / "model-1.safetensors").write_bytes(b"x" * 9), "model-1.safetensors cannot be read"),
        (lambda folder: _index(folder).write_text("{"), "cannot be read"),
        (lambda folder: _index(folder).write_text("[]"), "cannot be read"),
        (lambda folder: _index(folder).write_text("{}"), "is not an index"),
        (
            lambda folder: _index(folder).write_text('{"weight_map": {"a.bias": "../model-0.safetensors"}}'),
            "is not an index",
        ),
        (
            lambda folder: _index(folder).write_text('{"weight_map": {"a.bias": "model-0.safetensors"}}'),
            "lists a.bias, which is not in model-0.safetensors",
        ),
    ],
    ids=["missing", "broken", "half", "list", "empty", "elsewhere", "not in the file"],
)
def test_a_folder_that_is_not_complete(break_it, words, model, sharded):
    break_it(sharded)
    before = [p.raw_tensor.clone() for p in model.parameters()]
    with pytest.raises(CheckpointError, match=words):
        rf.load(sharded, model)
    assert all(torch.equal(a, p.raw_tensor) for a, p in zip(before, model.parameters(), strict=True))


def test_a_folder_without_a_checkpoint(model, tmp_path):
    (tmp_path / "epoch3.safetensors").touch()
    with pytest.raises(CheckpointError, match=r"(?s)is a folder.*epoch3\.safetensors"):
        rf.load(tmp_path, model)

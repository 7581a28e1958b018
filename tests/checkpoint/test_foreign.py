"""Square weights of torch and of rfnb are told from each other: results agree with those of the original."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from torch import nn

import rfnb as rf
from rfnb.errors import CheckpointError

A, B, OUT, ROWS = (rf.Dim(size, name=name) for size, name in ((4, "a"), (4, "b"), (3, "out"), (5, "rows")))


def plain(state):
    return {name: tensor.detach().clone() for name, tensor in state.items()}


def raws(module):
    return plain({name: parameter.raw_tensor for name, parameter in module.named_parameters()})


def result(module, x):
    return module(rf.convert_to_tensor(x, dims=[ROWS, A])).raw_tensor


def trained():
    """A Linear of rfnb with weights that differ when they are turned, and the same of torch."""
    theirs, ours = nn.Linear(4, 4), rf.Linear(A, B)
    ours.weight.assign(rf.convert_to_tensor(theirs.weight.detach().T.contiguous(), dims=[A, B]))
    ours.bias.assign(rf.convert_to_tensor(theirs.bias.detach(), dims=[B]))
    return theirs, ours


def agree(theirs, ours):
    x = torch.randn(5, 4)
    return torch.allclose(result(ours, x), theirs(x), atol=1e-6)


def in_torch_file(content, folder):
    torch.save(content, folder / "model.pt")
    return folder / "model.pt"


def in_safetensors(state, folder, metadata=None):
    save_file(plain(state), folder / "model.safetensors", metadata)
    return folder / "model.safetensors"


def in_npz(state, folder):
    np.savez(folder / "model.npz", **{name: tensor.numpy() for name, tensor in plain(state).items()})
    return folder / "model.npz"


def in_shards(state, folder):
    save_file(plain(state), folder / "part.safetensors", {"format": "pt"})
    table = ", ".join(f'"{name}": "part.safetensors"' for name in state)
    (folder / "model.safetensors.index.json").write_text(f'{{"weight_map": {{{table}}}}}', encoding="utf-8")
    return folder


def unmarked(state):
    for facts in state._metadata.values():
        facts.pop("rfnb_version", None)
    return state


OF_TORCH = {
    "state dict": lambda module, folder: module.state_dict(),
    "file": lambda module, folder: in_torch_file(module.state_dict(), folder),
    "checkpoint": lambda module, folder: in_torch_file({"model": module.state_dict(), "epoch": 3}, folder),
    "lightning": lambda module, folder: in_torch_file({"state_dict": module.state_dict(), "loops": {}}, folder),
    "safetensors": lambda module, folder: in_safetensors(module.state_dict(), folder),
    "Hugging Face": lambda module, folder: in_safetensors(module.state_dict(), folder, {"format": "pt"}),
    "shards": lambda module, folder: in_shards(module.state_dict(), folder),
}
OF_RFNB = {
    "state dict": lambda module, folder: rf.to_torch(module).state_dict(),
    "file": lambda module, folder: in_torch_file(rf.to_torch(module).state_dict(), folder),
    "checkpoint": lambda module, folder: in_torch_file({"model": rf.to_torch(module).state_dict(), "step": 1}, folder),
    "save": lambda module, folder: rf.save(module, folder / "model.safetensors"),
    "training": lambda module, folder: rf.save(module, folder / "model.safetensors", training={"step": 1}),
    "parameters": lambda module, folder: dict(module.named_parameters()),
    "tensors": lambda module, folder: {name: rf.copy(p) for name, p in module.named_parameters()},
    "RETURNN": lambda module, folder: in_torch_file(
        {"model": unmarked(rf.to_torch(module).state_dict()), "returnn_version": "1.0"}, folder
    ),
}
UNKNOWN = {
    "dict": lambda state, folder: plain(state),
    "numpy": lambda state, folder: {name: tensor.numpy() for name, tensor in plain(state).items()},
    "dict in a file": lambda state, folder: in_torch_file(plain(state), folder),
    "npz": in_npz,
    "of jax": lambda state, folder: in_safetensors(state, folder, {"format": "flax"}),
}
LOADS = {"load": rf.load, "import_weights": rf.import_weights}


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("source", OF_TORCH)
def test_square_weights_of_torch_are_turned(source, load, tmp_path):
    theirs, ours = nn.Linear(4, 4), rf.Linear(A, B)
    report = LOADS[load](OF_TORCH[source](theirs, tmp_path), ours)
    assert agree(theirs, ours) and report.complete and not report.renamed
    assert report.origins == (("weight", ("weight",), "transposed", None, None),)
    assert "weight → weight: transposed" in str(report)


@pytest.mark.parametrize("load", LOADS)
@pytest.mark.parametrize("source", OF_RFNB)
def test_square_weights_of_rfnb_stay_as_they_are(source, load, tmp_path):
    theirs, ours = trained()
    other = rf.Linear(A, B)
    report = LOADS[load](OF_RFNB[source](ours, tmp_path), other)
    assert agree(theirs, other) and report.complete and not report.origins and not report.renamed


def test_a_mirror_is_imported_as_it_is():
    theirs, ours = trained()
    for source, rename in ((rf.to_torch(ours), None), (nn.Sequential(rf.to_torch(ours)), {"0": ""})):
        other = rf.Linear(A, B)
        assert rf.import_weights(source, other, rename=rename).complete
        assert agree(theirs, other)


@pytest.mark.parametrize("source", UNKNOWN)
def test_square_weights_without_an_origin_are_refused(source, tmp_path):
    theirs, ours = trained()
    for module, layout in ((theirs, "torch"), (rf.to_torch(ours), "rfnb")):
        stored, other = UNKNOWN[source](module.state_dict(), tmp_path), rf.Linear(A, B)
        before = raws(other)
        with pytest.raises(CheckpointError, match=r"^load: the layout of weight is not known") as error:
            rf.load(stored, other)
        assert 'layout="rfnb"' in error.value.hint and 'layout="torch"' in error.value.hint
        assert all(torch.equal(before[name], raw) for name, raw in raws(other).items())
        rf.load(stored, other, layout=layout)
        assert agree(theirs, other)
        assert rf.load(stored, rf.Linear(A, B), skip="weight").loaded == ("bias",)
    other = rf.Linear(A, B)
    rf.import_weights(UNKNOWN[source](theirs.state_dict(), tmp_path), other)
    assert agree(theirs, other)


def models():
    theirs = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4), nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 3)))
    ours = rf.Sequential(rf.Linear(A, B), rf.LayerNorm(B, eps=1e-5), rf.Sequential(rf.Linear(B, A), rf.Linear(A, OUT)))
    return theirs, ours


@pytest.mark.parametrize("source", [*UNKNOWN, "state dict"])
@pytest.mark.parametrize("prefix", ["", "module"])
def test_the_shapes_of_others_tell_the_layout_of_square_weights(source, prefix, tmp_path):
    theirs, ours = models()
    state = {**OF_TORCH, **UNKNOWN}[source](theirs if source == "state dict" else theirs.state_dict(), tmp_path)
    options = {}
    if prefix and isinstance(state, dict):
        state = {f"module.{name}": value for name, value in state.items()}
        options = {"rename": lambda name: name.removeprefix("module.")}
    assert rf.load(state, ours, **options).complete
    assert agree(theirs, ours)
    again = models()[1]
    assert not rf.load(UNKNOWN["dict"](raws(ours), tmp_path), again).origins
    assert agree(theirs, again)
    part = models()[1]
    rf.load(state, part, only="2.0", **options)
    assert torch.equal(part[2][0].weight.raw_tensor, theirs[2][0].weight.T)


def test_names_tell_the_layout_of_square_weights():
    theirs, ours = nn.Sequential(nn.Linear(4, 4), nn.LayerNorm(4)), rf.Sequential(rf.Linear(A, B), rf.LayerNorm(B))
    rf.load(plain(theirs.state_dict()), ours)
    assert torch.equal(ours[0].weight.raw_tensor, theirs[0].weight.T)
    rf.load(raws(ours), again := rf.Sequential(rf.Linear(A, B), rf.LayerNorm(B)))
    assert torch.equal(again[0].weight.raw_tensor, theirs[0].weight.T)


def test_state_dicts_of_earlier_versions_have_no_mark():
    _, ours = models()
    other = models()[1]
    assert not rf.load(unmarked(rf.to_torch(ours).state_dict()), other).origins
    assert all(torch.equal(a, b) for a, b in zip(raws(ours).values(), raws(other).values(), strict=True))
    square = rf.Sequential(rf.Linear(A, B), rf.LayerNorm(B))
    with pytest.raises(CheckpointError, match=r"the layout of 0\.weight is not known"):
        rf.load(unmarked(rf.to_torch(square).state_dict()), square)
    assert rf.load(unmarked(rf.to_torch(square).state_dict()), square, layout="rfnb").complete


def test_layouts_that_contradict_each_other_are_refused():
    state = {"0.weight": torch.ones(3, 4), "1.weight": torch.ones(4, 3), "2.weight": torch.ones(4, 4)}
    dims = ((A, OUT), (A, OUT), (A, B))
    ours = rf.ModuleList(rf.Linear(*pair, with_bias=False) for pair in dims)
    for load in LOADS.values():
        with pytest.raises(CheckpointError, match=r"the layout of 2\.weight is not known"):
            load(state, ours)
    assert rf.import_weights(state, ours, table=[("2.weight", ("2.weight",), "same")]).complete
    assert rf.load(state, ours, layout="torch").complete


def test_weights_of_torch_that_are_stored_as_in_rfnb():
    class Conv1D(nn.Module):
        """As in GPT-2: {in, out}."""

        def __init__(self, size):
            super().__init__()
            self.weight, self.bias = nn.Parameter(torch.randn(4, size)), nn.Parameter(torch.randn(size))

    theirs = nn.Sequential(Conv1D(4), Conv1D(3))
    ours = rf.Sequential(rf.Linear(A, B), rf.Linear(B, OUT))
    for source, load in ((theirs.state_dict(), rf.load), (theirs, rf.import_weights)):
        assert not load(source, ours).origins
        assert torch.equal(ours[0].weight.raw_tensor, theirs[0].weight)


def test_parts_of_torch_and_of_rfnb_in_one_state_dict():
    theirs, ours = trained()
    state = nn.ModuleDict({"ours": rf.to_torch(ours), "theirs": theirs}).state_dict()
    other = rf.Module()
    other.ours, other.theirs = rf.Linear(A, B), rf.Linear(A, B)
    for load in LOADS.values():
        assert [origin.name for origin in load(state, other).origins] == ["theirs.weight"]
        assert agree(theirs, other.ours) and agree(theirs, other.theirs)


def test_a_torch_module_inside_of_rfnb_has_weights_of_torch(tmp_path):
    theirs, ours = trained()
    wrapped = rf.from_torch(nn.Linear(4, 4), in_dims=[..., A], out_dims=[..., B])
    for source in (*OF_TORCH.values(), *UNKNOWN.values()):
        wrapped.weight.assign(0)
        rf.load(source(theirs if source in OF_TORCH.values() else theirs.state_dict(), tmp_path), wrapped)
        assert torch.equal(wrapped.weight.raw_tensor, theirs.weight)
    for name, source in OF_RFNB.items():
        if name != "RETURNN":
            wrapped.weight.assign(0)
            rf.load(source(ours, tmp_path), wrapped)
            assert torch.equal(wrapped.weight.raw_tensor, theirs.weight)
            other = rf.Linear(A, B)
            rf.load(source(wrapped, tmp_path), other)
            assert agree(theirs, other)


def test_the_whole_of_what_import_weights_knows(tmp_path):
    size = rf.Dim(8, name="size")
    dims = {name: rf.Dim(8, name=name) for name in ("key_dim_total", "value_dim_total")}
    kinds = [
        (nn.LSTM(4, 4), lambda: rf.LSTM(A, B)),
        (nn.LSTM(4, 4, num_layers=2), lambda: rf.ModuleList([rf.LSTM(A, B), rf.LSTM(B, B)])),
        (nn.GRU(4, 4), lambda: rf.GRU(A, B, reset_after=True)),
        (nn.Embedding(4, 4), lambda: rf.Embedding(A, B)),
        (nn.Conv1d(4, 4, 3), lambda: rf.Conv1d(A, B, 3, padding="same")),
        (nn.ConvTranspose1d(4, 4, 3), lambda: rf.TransposedConv1d(A, B, 3, padding="same")),
        (nn.BatchNorm1d(4), lambda: rf.BatchNorm(A)),
        (nn.MultiheadAttention(8, 2), lambda: rf.SelfAttention(size, proj_dim=size, num_heads=2, **dims)),
        (
            nn.TransformerEncoderLayer(8, 2, dim_feedforward=8),
            lambda: rf.TransformerEncoderLayer(
                size, ff=rf.build_dict(rf.FeedForward, ff_dim=8), num_heads=2, norm_first=False
            ),
        ),
    ]
    for theirs, make in kinds:
        imported = make()
        rf.import_weights(theirs, imported)
        for source in (
            theirs.state_dict(),
            OF_TORCH["file"](theirs, tmp_path),
            in_safetensors(theirs.state_dict(), tmp_path),
        ):
            loaded = make()
            assert rf.load(source, loaded).complete
            assert all(torch.equal(a, b) for a, b in zip(raws(imported).values(), raws(loaded).values(), strict=True))
        again = make()
        assert not rf.load(rf.to_torch(imported).state_dict(), again).origins
        assert not rf.import_weights(rf.to_torch(imported), again).origins
        assert all(torch.equal(a, b) for a, b in zip(raws(imported).values(), raws(again).values(), strict=True))


@pytest.mark.parametrize("load", LOADS)
def test_queries_keys_and_values_in_one_weight_have_no_known_order(load):
    class Attention(nn.Module):
        """As many write it: all queries, then all keys, then all values; others write it head by head."""

        def __init__(self):
            super().__init__()
            self.qkv, self.proj = nn.Linear(8, 24), nn.Linear(8, 8)

    size = rf.Dim(8, name="size")
    dims = {name: rf.Dim(8, name=name) for name in ("key_dim_total", "value_dim_total")}
    theirs, ours = Attention(), rf.SelfAttention(size, proj_dim=size, num_heads=2, **dims)
    with pytest.raises(CheckpointError, match=r"order of the features of qkv\.weight is not known") as error:
        LOADS[load](theirs.state_dict(), ours)
    assert '"heads"' in error.value.hint and '"transposed"' in error.value.hint
    table = [(f"qkv.{name}", (f"qkv.{name}",), "heads") for name in ("weight", "bias")]
    rf.import_weights(theirs, ours, table=table)
    x = torch.randn(5, 8)
    q, k, v = theirs.qkv(x).unflatten(-1, (3, 2, 4)).unbind(-3)
    scores = torch.einsum("qhd,khd->hqk", q, k) / 2.0
    wanted = theirs.proj(torch.einsum("hqk,khd->qhd", scores.softmax(-1), v).flatten(1))
    y = ours(rf.convert_to_tensor(x, dims=[ROWS, size]), axis=ROWS)
    assert torch.allclose(y.copy_transpose([ROWS, size]).raw_tensor, wanted, atol=1e-5)
    one = rf.SelfAttention(size, proj_dim=size, num_heads=1, **dims)
    assert LOADS[load](theirs.state_dict(), one).complete
    assert not rf.load(raws(ours), rf.SelfAttention(size, proj_dim=size, num_heads=2, **dims)).origins


def test_a_layout_that_does_not_exist():
    with pytest.raises(CheckpointError, match="unknown `layout`"):
        rf.load(nn.Linear(4, 4).state_dict(), rf.Linear(A, B), layout="tf")


def test_a_module_is_not_a_checkpoint():
    with pytest.raises(CheckpointError) as error:
        rf.load(nn.Linear(4, 4), rf.Linear(A, B))
    assert error.value.hint == "rf.import_weights(model, module)"


def test_settings_of_a_mirror():
    ours, other = rf.LayerNorm(A, eps=0.1), rf.LayerNorm(A)
    assert rf.import_weights(rf.to_torch(ours), other).settings == ("eps = 0.1",)
    size = rf.Dim(8, name="size")
    dims = {name: rf.Dim(8, name=name) for name in ("key_dim_total", "value_dim_total")}
    two, four = (rf.SelfAttention(size, proj_dim=size, num_heads=heads, **dims) for heads in (2, 4))
    with pytest.raises(CheckpointError, match="number of heads"):
        rf.import_weights(rf.to_torch(two), four)


def test_the_mark_survives_files_and_torch_reads_it(tmp_path):
    ours = rf.Sequential(rf.Linear(A, B))
    state = torch.load(in_torch_file(rf.to_torch(ours).state_dict(), tmp_path), weights_only=True)
    assert all(facts["rfnb_version"] == rf.__version__ for facts in state._metadata.values())
    assert rf.to_torch(rf.Sequential(rf.Linear(A, B))).load_state_dict(state)
    assert load_file(rf.save(ours, tmp_path / "x.safetensors")).keys() == state.keys()


def test_a_mirror_warns_of_weights_of_torch():
    ours, (_, mixed) = rf.to_torch(rf.Linear(A, B)), models()
    with pytest.warns(UserWarning, match="turns weights of torch"):
        ours.load_state_dict(nn.Linear(4, 4).state_dict())
    ours.load_state_dict(rf.to_torch(rf.Linear(A, B)).state_dict())
    ours.load_state_dict(dict(nn.Linear(4, 4).state_dict()))
    rf.to_torch(mixed).load_state_dict(unmarked(rf.to_torch(models()[1]).state_dict()))


def test_a_tied_weight_of_torch_is_turned_for_the_linear_only():
    theirs = nn.ModuleDict({"embed": nn.Embedding(4, 4), "head": nn.Linear(4, 4, bias=False)})
    theirs["head"].weight = theirs["embed"].weight
    ours = rf.ModuleList({"embed": rf.Embedding(A, B), "head": rf.Linear(B, A, with_bias=False)})
    for source, load in ((theirs.state_dict(), rf.load), (theirs, rf.import_weights)):
        assert load(source, ours).complete
        assert torch.equal(ours.embed.weight.raw_tensor, theirs["embed"].weight)
        assert torch.equal(ours.head.weight.raw_tensor, theirs["head"].weight.T)

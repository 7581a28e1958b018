"""`rf.save_pretrained` and `rf.load_pretrained`: a folder is data, from which the same model is made again."""

from __future__ import annotations

import copy
import importlib
import json
import pickle
import sys

import pytest
import torch

import rfnb as rf
from rfnb.errors import CheckpointError

feat, hidden = rf.Dim(4, name="feat"), rf.Dim(8, name="hidden")


class Encoder(rf.Module):
    """Layers with options."""

    def __init__(self, in_dim, sizes=(), *, norm=rf.LayerNorm, activation=rf.relu, settings=None, eps=1e-6, **more):
        self.in_dim, self.sizes, self.activation, self.settings, self.more = in_dim, sizes, activation, settings, more
        self.layers = rf.Sequential(rf.Linear(in_dim, hidden) for hidden in sizes[:1])
        self.norm = norm(sizes[0], eps=eps)

    def __call__(self, x):
        return self.activation(self.norm(self.layers(x)))


class Wrapped(rf.Module):
    """Made with a module, which is not data."""

    def __init__(self, part, scale=1.0):
        self.part, self.scale = part, scale


def make():
    return Encoder(
        feat, [hidden, feat], norm=rf.RMSNorm, activation=rf.tanh, settings={"a": (1, None)}, eps=0.5, more=2
    )


def same(a, b):
    state, other = rf.to_torch(a).state_dict(), rf.to_torch(b).state_dict()
    return list(state) == list(other) and all(torch.equal(raw, other[name]) for name, raw in state.items())


@pytest.mark.parametrize("change", [lambda m: m, copy.deepcopy, lambda m: pickle.loads(pickle.dumps(m))])
def test_a_model_is_made_again_with_its_options(tmp_path, change):
    model = change(make())
    again = rf.load_pretrained(rf.save_pretrained(model, tmp_path / "new" / "model"))
    assert type(again) is Encoder
    assert same(again, model)
    assert (again.activation, type(again.norm), again.norm.eps) == (rf.tanh, rf.RMSNorm, 0.5)
    assert again.settings == {"a": (1, None)}
    assert again.more == {"more": 2}
    assert [dim.name for dim in again.sizes] == ["hidden", "feat"]
    assert again.sizes[1] is again.in_dim  # a dim that occurs twice is one dim


@pytest.mark.parametrize(
    "make_layer",
    [
        lambda: rf.Linear(feat, hidden, with_bias=False),
        lambda: rf.LSTM(feat, hidden),
        lambda: rf.TransformerDecoder(
            None, rf.Dim(9, name="vocab"), hidden, num_layers=1, num_heads=2, norm=rf.RMSNorm
        ),
        lambda: rf.ConformerEncoder(feat, hidden, num_layers=1, num_heads=2, input_layer=None),
    ],
)
def test_models_of_rfnb_need_no_config(tmp_path, make_layer):
    model = make_layer()
    assert same(rf.load_pretrained(rf.save_pretrained(model, tmp_path)), model)
    assert json.loads((tmp_path / "config.json").read_text())["class"] == f"rf.{type(model).__name__}"
    assert rf.load(tmp_path, make_layer()).complete


def test_arguments_that_are_no_data_are_given_as_config(tmp_path):
    model = Wrapped(rf.Linear(feat, hidden))
    with pytest.raises(CheckpointError, match="not all plain data") as raised:
        rf.save_pretrained(model, tmp_path)
    assert "config={…}" in raised.value.hint
    assert not list(tmp_path.iterdir())
    rf.save_pretrained(model.part, tmp_path, config={"in_dim": feat, "out_dim": hidden})
    assert same(rf.load_pretrained(tmp_path), model.part)


def test_a_function_without_a_name_is_refused(tmp_path):
    with pytest.raises(CheckpointError, match="cannot be found by a name"):
        rf.save_pretrained(make(), tmp_path, config={"in_dim": feat, "activation": lambda x: x})
    assert not list(tmp_path.iterdir())


def test_a_class_that_is_not_imported_is_refused_and_not_imported(tmp_path, monkeypatch):
    text = "import rfnb as rf\n\n\nclass Net(rf.Linear):\n    pass\n"
    (tmp_path / "my_net_of_a_test.py").write_text(text)
    monkeypatch.syspath_prepend(tmp_path)
    net = importlib.import_module("my_net_of_a_test").Net(feat, hidden)
    rf.save_pretrained(net, tmp_path / "model")
    assert same(rf.load_pretrained(tmp_path / "model"), net)
    monkeypatch.delitem(sys.modules, "my_net_of_a_test")
    with pytest.raises(CheckpointError, match=r"my_net_of_a_test\.Net is not imported") as raised:
        rf.load_pretrained(tmp_path / "model")
    assert raised.value.hint == "import my_net_of_a_test"
    assert "my_net_of_a_test" not in sys.modules


@pytest.mark.parametrize("name", ["os.system", "subprocess.Popen", "rf.load", "rf.relu", "rf.Tensor", 7])
def test_a_config_cannot_name_anything_but_a_model(tmp_path, name):
    rf.save_pretrained(make(), tmp_path)
    config = json.loads((tmp_path / "config.json").read_text())
    (tmp_path / "config.json").write_text(json.dumps({**config, "class": name}))
    with pytest.raises(CheckpointError, match="load_pretrained"):
        rf.load_pretrained(tmp_path)


def test_a_save_that_fails_leaves_the_model_before(tmp_path, monkeypatch):
    before = make()
    rf.save_pretrained(before, tmp_path)
    files = {file.name: file.read_bytes() for file in tmp_path.iterdir()}

    def fail(tensors, path, metadata):
        path.write_bytes(b"half")
        raise OSError("no space left")

    monkeypatch.setattr("rfnb.checkpoint.save.save_file", fail)
    with pytest.raises(CheckpointError, match="no space left"):
        rf.save_pretrained(make(), tmp_path)
    assert {file.name: file.read_bytes() for file in tmp_path.iterdir()} == files
    assert same(rf.load_pretrained(tmp_path), before)


def test_files_of_two_saves_are_not_mixed(tmp_path):
    rf.save_pretrained(make(), tmp_path / "a")
    rf.save_pretrained(Encoder(feat, [hidden]), tmp_path / "b")
    (tmp_path / "a" / "config.json").write_bytes((tmp_path / "b" / "config.json").read_bytes())
    with pytest.raises(CheckpointError, match="of two saves"):
        rf.load_pretrained(tmp_path / "a")


def test_a_folder_of_hugging_face_is_not_a_model_of_rfnb(tmp_path):
    (tmp_path / "config.json").write_text('{"model_type": "gpt2"}')
    with pytest.raises(CheckpointError, match=r"not written by rf\.save_pretrained") as raised:
        rf.load_pretrained(tmp_path)
    assert "gpt2" in str(raised.value)

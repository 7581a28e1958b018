"""Stages of a training: which networks for which epochs, as the reference has them, and what is carried over."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import ConfigError

EXTERN = {"data": {"dim": 5}, "classes": {"dim": 3, "sparse": True}}


def lstm(source, size=4, **options):
    return {"class": "rec", "unit": "nativelstm2", "n_out": size, "from": source, **options}


BLSTM = {
    "fw0": lstm("data"), "bw0": lstm("data", direction=-1),
    "fw1": lstm(["fw0", "bw0"]), "bw1": lstm(["fw0", "bw0"], direction=-1),
    "fw2": lstm(["fw1", "bw1"]), "bw2": lstm(["fw1", "bw1"], direction=-1),
    "output": {"class": "softmax", "loss": "ce", "from": ["fw2", "bw2"]},
}  # fmt: skip


def stages(net=BLSTM, **values):
    return rf.Config("net.config", {"extern_data": EXTERN, "network": net, **values}).stages()


def sources(stage):
    return {name: layer["from"] for name, layer in stage.net_dict.items()}


def test_layer_by_layer_is_the_default():
    found = stages(pretrain="default", pretrain_repetitions=2)
    assert [(stage.first, stage.last) for stage in found] == [(1, 2), (3, 4), (5, None)]
    assert [sources(stage)["output"] for stage in found] == [["bw0", "fw0"], ["bw1", "fw1"], ["fw2", "bw2"]]
    assert [len(stage.net_dict) for stage in found] == [3, 5, 7]


def test_a_shortcut_makes_no_stage_of_its_own():
    hidden = {"class": "linear", "n_out": 4}
    net = {
        "h0": {**hidden, "from": ["data"]},
        "h1": {**hidden, "from": ["h0"]},
        "s": {"class": "combine", "kind": "add", "from": ["h0", "h1"]},
        "h2": {**hidden, "from": ["s"]},
        "output": {"class": "softmax", "loss": "ce", "from": ["h2"]},
    }
    found = stages(net, pretrain={"construction_algo": "from_input"})
    assert [sorted(stage.net_dict) for stage in found] == [
        ["h0", "output"], ["h0", "h1", "output", "s"], ["h0", "h1", "h2", "output", "s"]
    ]  # fmt: skip


def test_layers_without_parameters_make_a_stage_too():
    net = {
        "split": {"class": "split_dims", "axis": "F", "dims": (-1, 1), "from": "data"},
        "conv": {"class": "conv", "n_out": 4, "filter_size": (3, 3), "padding": "same", "from": "split"},
        "output": {"class": "softmax", "loss": "ce", "from": "conv"},
    }
    assert [list(stage.net_dict) for stage in stages(net, pretrain="default")] == [["split", "output"], list(net)]


FEED_FORWARD = {
    **{f"h{i}": {"class": "linear", "n_out": 4, "from": f"h{i - 1}" if i else "data"} for i in range(3)},
    "output": {"class": "softmax", "loss": "ce", "from": "h2"},
}


def construction(idx, net_dict):
    """Widens h0 in each step; it changes what it gets."""
    if idx >= 4:
        return None
    if idx < 2:
        del net_dict["h2"]
        net_dict["output"]["from"] = "h1"
    net_dict["h0"]["n_out"] = 2 + idx
    extra = {1: {"#config": {"batch_size": 100}}, 2: {"#repetition": 3}, 3: {"#copy_param_mode": "subset"}}
    return {**net_dict, **extra.get(idx, {})}


@pytest.mark.parametrize(
    ("repetitions", "epochs"),
    [
        (None, [1, 2, 3, 6, 7]),
        (2, [1, 3, 5, 8, 10]),
        ([1, 2, 1, 1], [1, 2, 4, 7, 8]),
        ({"default": 2, "final": 4}, [1, 3, 5, 8, 10]),
        ({0: 5, "default": 2}, [1, 6, 8, 11, 13]),
    ],
    ids=str,
)
def test_an_algorithm_gives_the_stages_of_the_reference(repetitions, epochs):
    pretrain = {"construction_algo": construction, "copy_param_mode": "ifpossible", "repetitions": repetitions}
    found = stages(FEED_FORWARD, pretrain=pretrain)
    assert [stage.first for stage in found] == epochs
    assert [stage.net_dict["h0"]["n_out"] for stage in found] == [2, 3, 4, 5, 4]
    assert [stage.copy_param_mode for stage in found] == ["ifpossible"] * 3 + ["subset", "ifpossible"]
    assert [dict(stage.settings) for stage in found] == [{}, {"batch_size": 100}, {}, {}, {}]
    assert found[1].network().config["batch_size"] == 100


def test_networks_of_epochs_and_values_of_them(tmp_path):
    config = tmp_path / "net.config"
    config.write_text(f"""
from Pretrain import WrapEpochValue
extern_data = {EXTERN!r}
num_epochs = 8
def get_network(epoch, **kwargs):
    net = {{"output": {{"class": "softmax", "loss": "ce", "from": "data", "dropout": 0.1 if epoch > 5 else 0}}}}
    if epoch >= 3:
        net["#copy_param_mode"] = "subset"
    if epoch >= 3:
        net["h"] = {{"class": "linear", "n_out": 4, "from": "data"}}
        net["output"]["from"] = "h"
    return net
""")
    found = rf.read_config(config).stages()
    assert [(stage.first, stage.last, stage.copy_param_mode) for stage in found] == [
        (1, 2, None), (3, 5, "subset"), (6, None, "subset")
    ]  # fmt: skip
    assert found.changes()[1].added == ["h"] and found.changes()[2].changed == ["output"]
    config.write_text(f"""
from Pretrain import WrapEpochValue
extern_data = {EXTERN!r}
num_epochs = 8
trained = WrapEpochValue(lambda epoch: epoch > 4)
network = {{"output": {{"class": "softmax", "loss": "ce", "from": "data", "trainable": trained}}}}
""")
    found = rf.read_config(config).stages()
    assert [(stage.first, stage.net_dict["output"]["trainable"]) for stage in found] == [(1, False), (5, True)]
    assert found.changes()[1].freed == ["output"]
    assert len(stages()) == 1 and stages()[0].epochs == "from epoch 1 on"


def test_parameters_are_carried_over_by_layer_and_name():
    """Those of another shape stay as they are drawn."""
    small, large = stages(pretrain="default")[:2]
    old = small.network()
    new = large.network(previous=old)
    for name in ("fw0", "bw0", "output"):
        for key, parameter in old.get_layer(name).params.items():
            np.testing.assert_array_equal(new.get_layer(name).params[key].numpy(), parameter.numpy())
    wide = stages({**small.net_dict, "fw0": lstm("data", 6)})[0]
    values = wide.network(previous=old).get_layer("fw0").params
    assert values["W"].numpy().shape == (5, 24)
    assert not np.isin(old.get_layer("fw0").params["W"].numpy(), values["W"].numpy()).any()


def test_a_subset_is_taken_gate_by_gate_and_source_by_source():
    def net(size):
        pair = {"fw": lstm("data", size), "bw": lstm("data", size, direction=-1)}
        return {**pair, "top": lstm(["fw", "bw"], size), "output": {"class": "softmax", "loss": "ce", "from": "top"}}

    def algorithm(idx, net_dict):
        return {**net(2), "#copy_param_mode": "subset"} if idx == 0 else None

    found = stages(net(3), pretrain={"construction_algo": algorithm, "copy_param_mode": "subset"})
    old = found[0].network()
    new = found[1].network(previous=old)
    before, after = old.get_layer("top").params, new.get_layer("top").params
    for gate in range(4):
        columns, wide = slice(2 * gate, 2 * gate + 2), slice(3 * gate, 3 * gate + 2)
        for key in ("W", "W_re", "b"):
            a, b = before[key].numpy()[..., columns], after[key].numpy()[..., wide]
            rows = [0, 1, 3, 4] if key == "W" else [0, 1]
            np.testing.assert_array_equal(b if key == "b" else b[rows], a)
    np.testing.assert_array_equal(
        new.get_layer("output").params["W"].numpy()[:2], old.get_layer("output").params["W"].numpy()
    )
    narrow = stages(net(2), pretrain={"construction_algo": lambda idx, net_dict: None, "copy_param_mode": "subset"})[0]
    back = narrow.network(previous=new).get_layer("top").params
    for key, parameter in before.items():
        np.testing.assert_array_equal(back[key].numpy(), parameter.numpy())


def test_stages_train_one_after_the_other():
    """With the same batches."""
    net, batch = None, None
    for stage in stages(pretrain="default"):
        net = stage.network(previous=net)
        batch = batch or net.extern_data.example(batch=2)
        rf.init_train_step_run_ctx(train_flag=True)
        net(batch)
        net.get_objective().backward()
        assert all(x.raw_tensor.grad.isfinite().all() for x in net.parameters() if x.raw_tensor.grad is not None)


def test_the_strip_says_what_each_stage_changes():
    def algorithm(idx, net_dict):
        if idx == 0:
            return {"output": {"class": "softmax", "loss": "ce", "from": "data"}}
        if idx == 1:
            net_dict["h0"] = {**net_dict["h0"], "n_out": 2, "trainable": False}
            return net_dict
        return None

    view = rf.show(stages(FEED_FORWARD, pretrain={"construction_algo": algorithm}))
    assert [row[-1] for row in view.table().rows] == [
        "begins with 1 layer",
        "adds h0, h1, h2; changes output",
        "widens h0 (2 → 4); frees h0",
    ]
    assert view.html.count("<img") == 3
    assert "3 stages" in view.text


def test_wrong_pretraining_is_named():
    for pretrain, words in (
        ({"construction_algo": "upwards"}, "unknown construction_algo"),
        ({"construction_algo": lambda idx, net_dict: 3}, "gives no network"),
        ({"construction_algo": "from_input", "copy_param_mode": "all"}, "unknown copy_param_mode"),
    ):
        with pytest.raises(ConfigError, match=words):
            stages(pretrain=pretrain)


TRAINING = {
    "nadam": True, "learning_rate": 0.01, "optimizer_epsilon": 1e-8, "gradient_clip_global_norm": 5.0,
    "gradient_noise": 0.3, "accum_grad_multiple_step": 3, "batch_size": 4000, "max_seqs": 40, "num_epochs": 30,
    "learning_rate_control": "newbob_multi_epoch", "newbob_learning_rate_decay": 0.9, "newbob_multi_num_epochs": 6,
    "pretrain": "default", "train": {"class": "HDFDataset"},
}  # fmt: skip


def test_a_training_is_a_table_of_what_to_write():
    rows = {(row.topic, row.write) for row in rf.Config("net.config", TRAINING).training().rows}
    for topic, words in {
        "optimizer": "torch.optim.NAdam(rf.torch_parameters(net), lr=0.01, eps=1e-08)",
        "schedule": "ReduceLROnPlateau(optimizer, factor=0.9, patience=5, threshold=0.01, min_lr=0)",
        "clipping": "clip_grad_norm_(parameters, 5.0)",
        "noise": "torch.randn_like(p) * 0.3",
        "accumulation": "every 3 batches",
        "batches": "rf.FrameBatches(data.lengths(), max_frames=4000, max_seqs=40)",
        "epochs": "range(30)",
        "pretraining": "config.stages()",
        "data sets": "rf.hdf",
    }.items():
        assert any(topic == found and words in write for found, write in rows), topic
    view = rf.show(rf.Config("net.config", TRAINING).training())
    assert "NAdam" in view.text and "NAdam" in view.html


@pytest.mark.parametrize(
    ("values", "call"),
    [
        (
            {"optimizer": {"class": "adam", "epsilon": 1e-6, "beta1": 0.5}},
            "Adam(…, lr=0.001, eps=1e-06, betas=(0.5, 0.999))",
        ),
        ({"adam": True, "learning_rate": 0.1}, "Adam(…, lr=0.1)"),
        ({"momentum": 0.9}, "SGD(…, lr=0.001, momentum=0.9)"),
        ({}, "SGD(…, lr=0.001)"),
    ],
    ids=["options", "flag", "momentum", "nothing"],
)
def test_the_optimizer_has_the_options_of_the_config(values, call):
    import torch

    write = rf.Config("net.config", values).training().rows[0].write
    assert write == f"torch.optim.{call}".replace("…", "rf.torch_parameters(net)")
    net = stages()[0].network()
    optimizer = eval(write, {"torch": torch, "rf": rf, "net": net})
    assert optimizer.param_groups[0]["lr"] == values.get("learning_rate", 1e-3)

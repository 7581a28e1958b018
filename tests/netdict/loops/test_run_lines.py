"""Recorded loops of nets: values have the names of layers, at the lines of the config or of the net dict."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError

CONFIG = """\
extern_data = {"data": {"dim": 5}, "classes": {"dim": 7, "sparse": True}}
size = 6
network = {
  "enc": {"class": "linear", "activation": "tanh", "n_out": size, "from": "data"},
  "output": {"class": "rec", "from": [], "target": "classes", "max_seq_len": 5, "unit": {
    "embed": {"class": "linear", "activation": None, "n_out": 4, "from": "output", "initial_output": 0},
    "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": size,
          "from": ["prev:embed", "prev:att"]},
    "sub": {"class": "subnetwork", "from": "s", "subnetwork": {
      "tr": {"class": "linear", "activation": None, "n_out": size, "from": "data"},
      "output": {"class": "copy", "from": "tr"},
    }},
    "e_in": {"class": "combine", "kind": "add", "from": ["base:enc", "sub"], "n_out": size},
    "energy": {"class": "linear", "activation": None, "with_bias": False, "n_out": 1, "from": "e_in"},
    "att_weights": {"class": "softmax_over_spatial", "from": "energy"},
    "att": {"class": "generic_attention", "weights": "att_weights", "base": "base:enc"},
    "prob": {"class": "softmax", "from": ["s", "att"], "target": "classes", "loss": "ce"},
    "output": {"class": "choice", "from": "prob", "target": "classes", "beam_size": 3, "initial_output": 0},
    "end": {"class": "compare", "from": "output", "value": 0},
  }},
}
"""
LINES = {
    "prev:embed": 6, "embed": 6, "s": 7, "sub/tr": 10, "sub/output": 11, "sub": 9, "e_in": 13, "energy": 14,
    "att_weights": 15, "prev:att": 16, "att": 16, "prob": 17, "output": 18,
}  # fmt: skip


@pytest.fixture(autouse=True)
def recorded(monkeypatch):
    monkeypatch.setattr(rf.options, "record", "all")
    rf.runs.clear()


def batch():
    draw = np.random.default_rng(0)
    labels = np.array([[3, 2, 1, 0], [4, 0, 0, 0]], dtype="int32")
    return {"data": (draw.normal(size=(2, 6, 5)).astype("float32"), [6, 4]), "classes": (labels, [4, 2])}


def last_run():
    return next(iter(rf.runs))


def of_config(tmp_path, **options):
    path = tmp_path / "attention.config"
    path.write_text(CONFIG)
    net = rf.Network.from_config(path, **options)
    draw = np.random.default_rng(1)
    values = {
        path: {name: draw.normal(size=[dim.dimension for dim in p.dims]) for name, p in layer.params.items()}
        for path, layer in net.layers.items()
        if layer.params
    }
    net.set_param_values_by_dict({path: each for path, each in values.items() if path != "output"})
    return net


def of_dict(unit, *, extern=None, **options):
    net = rf.Network(extern_data=rf.ExternData(extern or {"data": {"dim": 5}}), train_flag=False)
    return net.construct_from_dict({"output": {"class": "rec", "from": "data", "unit": unit, **options}})


def lines_of(run, step=1):
    return {value.name: value.line for value in run[step].values()}


def test_the_lines_of_a_config(tmp_path):
    net = of_config(tmp_path, train_flag=False)
    outputs = net(batch())
    run = last_run()
    assert (run.name, run.place) == ("output", "attention.config:5")
    assert (run.source.first_line, run.source.lines[-1].strip()) == (5, "}},")
    assert run.states == ["prev:att", "s.c", "s.h"]
    found = lines_of(run)
    left = {"embed", "output"}  # the labels are the targets, so all frames of these are known before the loop
    assert found == {name: line for name, line in LINES.items() if name not in left}
    steps = run.stack("prob").copy_transpose(outputs["output/prob"].dims)
    np.testing.assert_allclose(steps.copy_masked(0).numpy(), outputs["output/prob"].copy_masked(0).numpy(), atol=1e-6)


def test_values_are_those_of_the_layers(tmp_path):
    net = of_config(tmp_path, train_flag=False)
    net(batch())
    run = last_run()
    assert run[3]["att_weights"].dims_set >= {rf.batch_dim}
    for step in (1, 2, 3):
        assert run[step].check == "replay agrees"  # the first sequence has not ended
        np.testing.assert_array_equal(run[step]["prev:att"].numpy()[0], run[step - 1]["att"].numpy()[0])
        np.testing.assert_array_equal(run[step].before["prev:att"].numpy(), run[step]["prev:att"].numpy())
        np.testing.assert_array_equal(run[step].after["s.h"].numpy()[0], run[step]["s"].numpy()[0])
        np.testing.assert_array_equal(run[step]["sub"].numpy(), run[step]["sub/tr"].numpy())
        equal = run[step].eval('rf.reduce_all(values["sub"] == values["sub/tr"], axis=values["sub"].dims)')
        assert equal.raw_tensor
        assert run[step].eval('before["prev:att"]').dims_set == run[step]["att"].dims_set


def test_conditions_and_edits_by_layer(tmp_path):
    net = of_config(tmp_path, train_flag=False)
    net(batch())
    run = last_run()
    largest = [float(np.abs(run[step].after["prev:att"].numpy()).max()) for step in range(run.steps)]
    limit = sorted(largest)[1]
    assert run.find(rf.when.over(limit, "prev:att", batch=0)) == [
        step for step in range(run.steps) if np.abs(run[step].after["prev:att"].numpy()[0]).max() > limit
    ]
    assert run.find("rf.reduce_max(att_weights, axis=att_weights.dims) > 0") == list(range(run.steps))
    fork = run.fork(2, **{"prev:att": 0.0})
    assert not fork[2]["prev:att"].numpy().any()
    assert (fork[2]["s"].numpy() != run[2]["s"].numpy()).any()


def test_a_search_keeps_the_lines(tmp_path):
    net = of_config(tmp_path, train_flag=False)
    net.search(batch(), beam_size=2)
    run = last_run()
    found = lines_of(run)
    assert run.place == "attention.config:5"
    assert {name: found[name] for name in LINES} == LINES
    assert found["end"] == 19


def test_a_net_dict_without_a_file_is_written_down():
    unit = {
        "h": {"class": "linear", "n_out": 3, "activation": "tanh", "from": ["data:source", "prev:h"]},
        "same": {"class": "copy", "from": "h"},
        "output": {"class": "linear", "n_out": 3, "activation": None, "from": "same"},
    }
    of_dict(unit)({"data": batch()["data"]})
    run = last_run()
    assert run.place == "net dict, line 1"
    assert lines_of(run) == {"data:source": 1, "prev:h": 2, "h": 2, "same": 3, "output": 4}
    assert (
        run.source.lines[1]
        == '    "h": {"class": "linear", "n_out": 3, "activation": "tanh", "from": ["data:source", "prev:h"]},'
    )
    np.testing.assert_array_equal(run[1]["same"].numpy(), run[1]["h"].numpy())
    assert [row.node.line for row in run.replay.explain().rows if row.node.op == "tanh"] == [2]


def test_a_state_is_not_named_after_a_variable_of_the_user():
    unit = {"output": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3, "from": ["data:source", "prev:output"]}}
    net = of_dict(unit)
    mine = net({"data": batch()["data"]})
    assert "mine" not in lines_of(last_run()) and "output" in lines_of(last_run())
    assert mine["output"].dims


def test_a_config_that_has_changed_is_written_down(tmp_path):
    net = of_config(tmp_path, train_flag=False)
    (tmp_path / "attention.config").write_text("network = {}\n")
    net(batch())
    assert last_run().place == "net dict, line 1"
    assert lines_of(last_run())["prob"] > 1


def test_errors_in_a_step_name_the_layer():
    unit = {
        "wrong": {"class": "eval", "from": "data:source", "eval": "source(0) + tf.zeros([7])"},
        "output": {"class": "linear", "n_out": 3, "from": ["wrong", "prev:output"]},
    }
    with pytest.raises(rf.errors.RfError, match="output/wrong"):
        of_dict(unit)({"data": batch()["data"]})


def test_inner_loops_have_lines_too():
    inner = {"output": {"class": "linear", "n_out": 3, "activation": "tanh", "from": ["data:source", "prev:output"]}}
    unit = {
        "inner": {"class": "rec", "from": "base:ctx", "unit": inner},
        "m": {"class": "reduce", "mode": "mean", "axes": "stag:enc", "from": "inner"},
        "output": {"class": "linear", "n_out": 3, "from": ["m", "prev:output"]},
    }
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 5}, "enc": {"dim": 3}}), train_flag=False)
    ctx = {"class": "linear", "n_out": 4, "from": "data:enc"}
    net.construct_from_dict({"ctx": ctx, "output": {"class": "rec", "from": "data", "unit": unit}})
    net({"data": batch()["data"], "enc": (np.ones((2, 3, 3), "float32"), [3, 2])})
    run = last_run()
    assert {"m", "output", "prev:output"} <= lines_of(run).keys()
    (nested,) = run[0].loops()
    assert nested.name == "output/inner"
    assert lines_of(nested)["output"] == 2


def test_attention_of_training_and_search(tmp_path):
    net = of_config(tmp_path, train_flag=False)
    with rf.capture(net) as seen:
        net(batch())
    run = last_run()
    assert seen.names() == ["output.att_weights"]
    weights = seen[0].weights
    expected = run.stack("att_weights").copy_transpose(weights.dims)
    np.testing.assert_array_equal(weights.copy_masked(0).numpy(), expected.copy_masked(0).numpy())
    with rf.capture(net) as seen:
        net.search(batch(), beam_size=2)
    run = last_run()
    assert seen.names() == ["output.att_weights"]
    weights = seen[0].weights
    expected = run.stack("att_weights").copy_transpose(weights.dims)  # by final hypothesis
    np.testing.assert_array_equal(weights.copy_masked(0).numpy(), expected.copy_masked(0).numpy())
    assert "2 hypotheses" in rf.show(seen[0]).text


def test_self_attention_in_and_out_of_the_loop():
    attention = {"class": "self_attention", "num_heads": 2, "total_key_dim": 4, "n_out": 4, "attention_left_only": True}
    dot = {"class": "dot", "var1": "auto", "var2": "auto"}
    unit = {
        "first": {**attention, "from": "data:source"},
        "second": {**attention, "from": ["first", "prev:second"]},
        "energy": {**dot, "from": ["base:ctx", "second"], "red1": "F", "red2": "F"},
        "w": {"class": "softmax_over_spatial", "from": "energy"},
        "output": {**dot, "from": ["base:ctx", "w"], "red1": "T", "red2": "T"},
    }  # fmt: skip
    found = {}
    values = None
    for moved in (True, False):
        rec = {"class": "rec", "from": "data", "unit": unit, "optimize_move_layers_out": moved}
        extern = rf.ExternData({"data": {"dim": 5}, "enc": {"dim": 3}})
        net = rf.Network(extern_data=extern, train_flag=False)
        net.construct_from_dict({"ctx": {"class": "linear", "n_out": 4, "from": "data:enc"}, "output": rec})
        values = values or net.get_param_values_dict()
        net.set_param_values_by_dict(values)
        enc = (np.random.default_rng(2).normal(size=(2, 3, 3)).astype("float32"), [3, 2])
        with rf.capture(net) as seen:
            net({"data": batch()["data"], "enc": enc})
        assert sorted(seen.names()) == ["output.first", "output.second", "output.w"]
        assert any(dim.name == "heads" for dim in seen["output.second"].weights.dims)
        time = next(dim for dim in net.template("output").dims if dim.is_dynamic() and not dim.is_batch_dim())
        found[moved] = [_rows(seen[name].weights, time) for name in ("output.first", "output.second", "output.w")]
    for a, b in zip(found[True], found[False], strict=True):
        np.testing.assert_allclose(a, b, atol=1e-6)


def _rows(weights, time):
    """{time, batch, …}, with the keys last, for the first sequence, which is the longest."""
    rest = [dim for dim in weights.dims if dim not in (time, rf.batch_dim)]
    return weights.copy_transpose([time, rf.batch_dim, *rest]).numpy()[:, 0]


def test_training_and_search_are_compared_by_layer(tmp_path):
    net = of_config(tmp_path, train_flag=False)
    net(batch())
    trained = last_run()
    net.search(batch(), beam_size=2)
    compared = rf.compare(trained, last_run(), select={"beam": 0})
    names = {each.name for each in compared.values if not each.note}
    assert names >= {"att_weights", "prob", "sub/tr", "prev:att", "s"}


def test_with_and_without_moving_are_compared_by_layer():
    unit = {
        "c": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3, "from": "data:source"},
        "x": {"class": "linear", "n_out": 3, "activation": "tanh", "from": ["c", "prev:x"]},
        "output": {"class": "linear", "n_out": 3, "activation": None, "from": "x"},
    }
    nets = [of_dict(unit, optimize_move_layers_out=moved) for moved in (True, False)]
    nets[1].set_param_values_by_dict(nets[0].get_param_values_dict())
    runs = []
    for net in nets:
        net({"data": batch()["data"]})
        runs.append(last_run())
    assert rf.compare(*runs)
    assert lines_of(runs[0]) == {"c": 2, "prev:x": 3, "x": 3, "output": 4}


@pytest.mark.parametrize("error", [ValueError("bad number"), DimError("bad number")], ids=["of Python", "of rfnb"])
def test_an_error_of_a_later_step_names_the_layer_and_its_line(error):
    steps = []

    def fails_later(raw):
        steps.append(raw)
        if len(steps) > 4:
            raise error
        return raw

    def given(source, **options):
        x = source(0).whole()
        return x if x.device == "meta" else rf.raw_call(fails_later, x, out_dims=x.dims)

    unit = {
        "s": {"class": "linear", "activation": None, "n_out": 2, "from": ["prev:s", "data:source"]},
        "odd": {"class": "eval", "eval": given, "from": "s"},
        "output": {"class": "combine", "kind": "add", "from": ["odd", "prev:output"]},
    }
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 2}}))
    net.construct_from_dict({"output": {"class": "rec", "from": "data", "unit": unit}})
    with pytest.raises(type(error)) as found:
        net.forward({"data": (np.ones((2, 5, 2), "float32"), [5, 4])})
    [note] = found.value.__notes__
    assert note.startswith("in step 3 of output, layer 'odd', net dict, line 3")
    if isinstance(error, DimError):
        assert str(found.value).startswith("layer 'output/odd' (eval): bad number")

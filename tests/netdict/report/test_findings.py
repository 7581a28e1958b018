"""What `net.report()` lists; and that a batch fails only where it lists a reason."""

from __future__ import annotations

import pytest

import rfnb as rf

EXTERN = {"data": {"dim": 4}, "classes": {"dim": 5, "sparse": True}}


def network(net, *, strict=False, extern=EXTERN, **options):
    made = rf.Network(extern_data=rf.ExternData(extern), train_flag=True, **options)
    return made.construct_from_dict(net, strict=strict)


def softmax(source, **options):
    return {"class": "softmax", "from": source, "loss": "ce", "target": "classes", **options}


FINE = {"h": {"class": "linear", "n_out": 3, "activation": "relu", "from": "data"}, "output": softmax("h")}


def stops(net, **options):
    return [(found.what, found.layers) for found in network(net, **options).report().of("stops")]


def test_a_net_that_runs():
    report = network(FINE).report()
    assert report and report.findings == ()
    assert (report.layers, report.params) == (2, 4 * 3 + 3 + 3 * 5 + 5)


STOPPED = {
    "class": ({"h": {"class": "line", "from": "data"}}, "there is no layer class 'line'"),
    "known elsewhere": (
        {"h": {"class": "tikhonov_regularization", "from": "data"}},
        "tikhonov_regularization has an effect on gradients alone",
    ),
    "option": ({"h": {"class": "copy", "from": "data", "sise": 3}}, "unknown option 'sise'"),
    "no n_out": ({"h": {"class": "linear", "from": "data"}}, "the number of outputs is missing"),
    "activation": ({"h": {"class": "activation", "activation": "sigmod", "from": "data"}}, "no activation 'sigmod'"),
    "layer": ({"h": {"class": "copy", "from": "j"}}, "has no layer 'j'"),
    "data": ({"h": {"class": "copy", "from": "data:else"}}, "there is no data key 'else'"),
    "axis": ({"h": {"class": "reduce", "mode": "sum", "axes": "stag:nothing", "from": "data"}}, "stag:nothing"),
    "no dict": ({"h": 3}, "not described by a dict"),
    "function": ({"h": {"class": "eval", "eval": "open('f')", "from": "data"}}, "open"),
}


@pytest.mark.parametrize("what", STOPPED)
def test_what_stops(what):
    layers, said = STOPPED[what]
    [(words, paths)] = stops({**layers, "output": softmax("h")})
    assert said in words and paths == ("h",)


@pytest.mark.parametrize("what", STOPPED)
def test_a_call_of_a_net_that_stops_raises(what):
    net = network({**STOPPED[what][0], "output": softmax("h")})
    with pytest.raises(rf.errors.RfError):
        net(net.extern_data.example())


def test_all_that_stops_is_listed_also_behind_what_stops():
    net = {
        "a": {"class": "tikhonov_regularization", "from": "data"},
        "b": {"class": "tikhonov_regularization", "from": "a"},
        "c": {"class": "copy", "from": "b", "sise": 3},
        "output": softmax("c", loss="mce"),
    }
    found = stops(net)
    assert ("tikhonov_regularization has an effect on gradients alone", ("a", "b")) in found
    assert ("unknown option 'sise'", ("c",)) in found


def test_inner_nets_and_loops_are_looked_at_behind_what_stops():
    inner = {
        "a": {"class": "ours", "from": "data"},
        "b": {"class": "linear", "n_out": 3, "activation": "relux", "from": "a"},
        "t": {"class": "reduce", "mode": "mean", "axis": "T", "from": "a"},
        "output": {"class": "combine", "kind": "add", "from": ["b", "t"]},
    }
    unit = {
        "s": {"class": "rnn_cell", "unit": "LSTMBlock", "n_out": 3, "from": ["data:source", "prev:e"], "odd": 1},
        "e": {"class": "theirs", "from": "s", "n_out": 3},
        "output": {"class": "softmax", "from": "e", "target": "classes", "loss": "mce"},
    }
    net = {
        "sub": {"class": "subnetwork", "from": "data", "subnetwork": inner},
        "output": {"class": "rec", "from": "sub", "unit": unit, "target": "classes"},
    }
    assert {(what, layers) for what, layers in stops(net)} == {
        ("there is no layer class 'ours'", ("sub/a",)),
        ("there is no activation 'relux'", ("sub/b",)),
        ("unknown option 'odd'", ("output/s",)),
        ("there is no layer class 'theirs'", ("output/e",)),
        ("there is no loss 'mce'", ("output/output",)),
    }
    findings = network(net).report().of("stops")
    assert {found.layers[0]: found.behind for found in findings}["sub/a"] == 8
    assert {found.layers[0]: found.behind for found in findings}["output/output"] == 1


def test_what_follows_from_the_dims_of_a_grey_box_is_no_stop():
    net = {
        "a": {"class": "ours", "from": "data"},
        "r": {"class": "reduce", "mode": "sum", "axis": "stag:made-by-ours", "from": "a"},
        "output": softmax("r"),
    }
    assert stops(net) == [("there is no layer class 'ours'", ("a",))]


LIMITS = {
    "initial_state is kept from epoch to epoch": {
        "class": "rec", "unit": "lstm", "n_out": 3, "initial_state": "keep_over_epoch", "from": "data",
    },
    "a placeholder of a TensorFlow session has no value": {
        "class": "eval", "eval": "source(0) * tf.placeholder_with_default(1.0, ())", "from": "data",
    },
    "tf.gradients works on a graph of TensorFlow": {
        "class": "eval", "eval": "tf.gradients(source(0), source(0))[0]", "from": "data",
    },
    "a function makes variables of TensorFlow": {
        "class": "eval", "eval": "source(0) * tf.get_variable('x', shape=(4,))", "from": "data",
    },
    "synthetic_gradient has an effect on gradients alone": {
        "class": "synthetic_gradient", "gradient": "data", "from": "data",
    },
    "an external program (sprint) computes it": {
        "class": "softmax", "loss": "sprint", "loss_opts": {"sprint_opts": {"sprintExecPath": "rasr"}}, "from": "data",
    },
}  # fmt: skip


@pytest.mark.parametrize("said", LIMITS)
def test_what_is_not_to_be_had_is_said_with_a_way_out(said):
    [found] = network({"h": LIMITS[said], "output": softmax("h")}).report().of("stops")
    assert (found.what, found.layers, found.behind) == (said, ("h",), 1) and found.way


def test_a_search_that_reads_the_best_of_another_has_no_fault():
    """What the first one finds is only known with a batch."""

    def decoder(memory):
        unit = {
            "w": {"class": "reduce", "mode": "mean", "axis": "T", "from": f"base:{memory}"},
            "p": softmax(["w", "prev:output"]),
            "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "initial_output": 0},
            "end": {"class": "compare", "from": "output", "value": 0},
        }
        return {"class": "rec", "from": [], "target": "classes", "unit": unit, "max_seq_len": 5}

    net = {
        "first": decoder("data:data"),
        "best": {"class": "decide", "from": "first"},
        "memory": {"class": "linear", "n_out": 3, "from": "best"},
        "output": decoder("memory"),
    }
    assert not network(net).report().of("search")


def test_a_slice_whose_size_differs_by_step_stops_a_search_alone():
    """In training, the labels before are known, and it runs once for all steps."""
    unit = {
        "part": {"class": "slice_nd", "from": "base:data:data", "start": "prev:output", "size": None},
        "mean": {"class": "reduce", "mode": "mean", "axis": "stag:sliced-time", "from": "part"},
        "p": softmax("mean"),
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 2, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    net = {"output": {"class": "rec", "from": [], "target": "classes", "unit": unit, "max_seq_len": 9}}
    report = network(net).report()
    [found] = report.of("search")
    assert report and "the number of frames differs at each step" in found.what and found.layers == ("output/part",)
    unit["part"]["size"], unit["mean"]["axis"] = 2, "dim:2"
    assert not network(net).report().of("search")


STUBBED = """
import tensorflow as tf
from elsewhere import transform
extern_data = {"data": {"dim": 4}, "classes": {"dim": 5, "sparse": True, "same_dim_tags_as": "data"}}
def warp(data, network, factor=2):
    return tf.contrib.image.sparse_image_warp(data.placeholder, factor)
network = {
  "a": {"class": "eval", "eval": transform, "from": "data"},
  "b": {"class": "eval", "from": "a",
        "eval": "self.network.get_config().typed_value('warp')(source(0, as_data=True), network=self.network)"},
  "output": {"class": "softmax", "loss": "ce", "from": "b"},
}
"""


def test_functions_that_are_not_known_get_a_stub_that_runs(tmp_path):
    path = tmp_path / "warped.config"
    path.write_text(STUBBED)
    report = rf.Network.from_config(path, strict=False).report()
    assert [found.layers for found in report.of("stops")] == [("a",), ("b",)]
    names: dict = {}
    exec("\n".join(found.stub for found in report.of("stops")), names)
    functions = {name: names[name] for name in ("transform", "warp")}
    net = rf.Network.from_config(path, functions=functions)
    assert net.report() and net(net.extern_data.example())
    assert "functions to fill in\n  def transform(source, **options):  # layer 'a'" in str(report)


def test_a_search_that_does_not_run_is_said_beside_a_training_that_does():
    unit = {
        "p": {"class": "softmax", "from": "prev:output", "target": "classes", "loss": "ce"},
        "output": {"class": "choice", "from": "p", "target": "classes", "initial_output": 0},
    }
    rec = {"class": "rec", "from": [], "target": "classes", "unit": unit}
    report = network({"output": rec}).report()
    [found] = report.of("search")
    assert report and found.what.startswith("in a search: the loop has no length")
    with pytest.raises(rf.errors.NetworkError, match="the loop has no length"):
        net = network({"output": rec})
        net.search(net.extern_data.example())
    ending = {**unit, "end": {"class": "compare", "from": "output", "value": 0}}
    assert not network({"output": {**rec, "unit": ending, "max_seq_len": 9}}).report().of("search")


def test_a_circle_and_a_net_without_an_end():
    [(words, _)] = stops({"a": {"class": "copy", "from": "output"}, "output": {"class": "copy", "from": "a"}})
    assert "needs itself" in words
    assert stops({"a": {"class": "copy", "from": "data"}})[0][0] == "there is no layer to construct"


def test_a_loss_that_fails_with_every_batch():
    dense = {"data": {"dim": 4}, "classes": {"dim": 5}}
    [(words, paths)] = stops({"output": {"class": "linear", "n_out": 3, "from": "data", "loss": "mse"}}, extern=dense)
    assert words.startswith("the loss: ") and paths == ("output",)


def test_lengths_that_are_made_up_do_not_stop_a_loss_behind_subsampling():
    pool = {"class": "pool", "mode": "max", "pool_size": (2,), "padding": "same", "from": "data"}
    assert stops({"pool": pool, "output": softmax("pool")}) == []


def test_the_report_changes_nothing():
    norm = {"class": "batch_norm", "from": "data"}
    net = network({"n": norm, "output": softmax("n", dropout=0.5)}, strict=True)
    before = {path: {name: x.copy() for name, x in each.items()} for path, each in net.get_param_values_dict().items()}
    ctx = rf.init_train_step_run_ctx()
    assert net.report()
    assert ctx.losses == {} and rf.get_run_ctx() is ctx
    after = net.get_param_values_dict()
    assert all((after[path][name] == x).all() for path, each in before.items() for name, x in each.items())
    assert all(x.device == "cpu" for x in net.get_params_list())


def test_what_is_ignored_and_what_differs():
    net = {
        "conv": {"class": "conv", "n_out": 3, "filter_size": (3,), "padding": "same", "from": "data"},
        "narrow": {"class": "conv", "n_out": 3, "filter_size": (1,), "padding": "same", "from": "data"},
        "lstm": {"class": "rec", "unit": "nativelstm2", "n_out": 3, "from": ["conv", "narrow"], "max_seq_len": 7,
                 "unit_opts": {"forget_bias": 1.0}},
        "output": softmax("lstm", loss="ctc", loss_opts={"use_native": True}, param_device="GPU"),
    }  # fmt: skip
    report = network(net).report()
    assert report
    assert [(x.what, x.layers) for x in report.of("ignored")] == [
        ("rec: max_seq_len has no effect", ("lstm",)),
        ("softmax: param_device has no effect", ("output",)),
        ("softmax: loss_opts['use_native'] has no effect", ("output",)),
    ]
    assert [x.layers for x in report.of("differs")] == [("conv",), ("lstm",), ("output",)]
    assert [x.level for x in report.findings] == ["ignored"] * 3 + ["differs"] * 3


def test_a_padding_that_is_listed_depends_on_the_batch():
    conv = {"class": "conv", "n_out": 3, "filter_size": (3,), "padding": "same", "from": "data"}
    for padding, listed in (("same", True), ("valid", False)):
        net = network({"output": {**conv, "padding": padding}})
        batch = net.extern_data.example(batch=2, frames=9)
        check = rf.check.batch_invariance(lambda x, net=net: net({"data": x})["output"], batch["data"] + 1.0)
        assert bool(net.report().of("differs")) is listed is not bool(check)


def test_keys_for_the_training_of_a_config(tmp_path):
    path = tmp_path / "net.config"
    path.write_text(
        "learning_rate = 0.01\nmax_seqs = 3\ntrain = {'class': 'HDFDataset'}\nnum_inputs, num_outputs = 4, 5\n"
        f"network = {FINE!r}\nlog = 'crnn.log'\nlogits = 'a name of its own'\n"
    )
    report = rf.Network.from_config(path).report()
    assert [found.what for found in report.of("training")] == [
        "optimizer: learning_rate = 0.01",
        "batches: max_seqs = 3",
        "data sets: train",
        "devices and logs: log = 'crnn.log'",
    ]
    assert "lr=0.01" in report.of("training")[0].way


def test_lines_of_the_config(tmp_path):
    path = tmp_path / "net.config"
    path.write_text("num_inputs, num_outputs = 4, 5\nnetwork = {\n  'output': {'class': 'softmx', 'from': 'data'}}\n")
    [found] = rf.Network.from_config(path, strict=False).report().findings
    assert (found.layers, found.lines) == (("output",), (3,))
    assert found.way.startswith("did you mean 'softmax'? Otherwise, @rf.layer('softmx') makes")


def test_recurrent_nets_are_rehearsed():
    unit = {
        "output": {"class": "linear", "n_out": 5, "activation": "softmax", "from": ["data:source", "prev:output"],
                   "loss": "ce", "target": "classes"},
    }  # fmt: skip
    assert stops({"output": {"class": "rec", "from": "data", "unit": unit}}) == []
    unit["output"]["from"] = ["data:source", "prev:outputs"]
    [(words, paths)] = stops({"output": {"class": "rec", "from": "data", "unit": unit}})
    assert "no layer" in words and paths == ("output/output",)


def test_a_search_is_no_reason_to_stop_though_its_end_needs_numbers():
    unit = {
        "p": {"class": "softmax", "from": "prev:output", "target": "classes"},
        "output": {"class": "choice", "from": "p", "target": "classes", "beam_size": 3, "initial_output": 0},
        "end": {"class": "compare", "from": "output", "value": 0},
    }
    rec = {"class": "rec", "from": [], "unit": unit, "max_seq_len": 4}
    net = rf.Network(extern_data=rf.ExternData(EXTERN), search_flag=True)
    net.construct_from_dict({"output": rec}, strict=False)
    assert net.report() and net(net.extern_data.example())["output"].dims


@pytest.mark.parametrize(
    "layer",
    [
        {"class": "rec", "unit": "lstm", "n_out": 3},
        {"class": "seq_len_mask", "mask_value": 0, "axis": "T"},
        {"class": "shift_axis", "axis": "T", "amount": 1},
        {"class": "resize", "axis": "T", "factor": 2, "kind": "fill"},
    ],
    ids=lambda layer: layer["class"],
)
def test_the_report_after_a_batch_is_that_before_it(layer):
    net = network({"h": {**layer, "from": "data"}, "output": softmax("h")}, strict=True)
    before = net.report()
    out = net(net.extern_data.example(batch=2))["h"]
    sizes = [out.size_of(dim).max for dim in out.dims]
    assert net.report() == before and before
    assert [dim.get_dim_value() for dim in out.dims] == sizes


POSITIVE = {
    "sum": {"class": "reduce", "mode": "sum", "axes": "F", "from": "data"},
    "mask": {"class": "compare", "kind": "greater", "value": 0, "from": "sum"},
}


def masked(inner, **options):
    unit = {"class": "subnetwork", "from": "data", "subnetwork": {"output": {"class": "copy", "from": "a"}, **inner}}
    m = {"class": "masked_computation", "mask": "mask", "from": "data", "unit": unit, **options}
    return {**POSITIVE, "m": m, "u": {"class": "unmask", "mask": "mask", "from": "m"}, "output": softmax("u")}


def branched(inner, other):
    side = {"class": "subnetwork", "from": "data", "subnetwork": {"output": {"class": "copy", "from": "a"}, **inner}}
    c = {"class": "cond", "condition": "flag", "true_layer": side, "false_layer": other}
    return {"flag": {"class": "train_flag"}, "c": c, "output": softmax("c")}


def test_nets_inside_of_layers_are_part_of_the_report():
    conv = {"class": "conv", "n_out": 4, "filter_size": (3,), "padding": "same", "from": "data", "param_device": "GPU"}
    for net, path in (
        (masked({"a": conv}), "m/unit/a"),
        (branched({"a": conv}, {"class": "copy", "from": "data"}), "c/true_layer/a"),
        (branched({"a": {"class": "copy", "from": "data"}}, conv), "c/false_layer"),
    ):
        report = network(net).report()
        assert report
        assert [x.layers for x in report.of("ignored")] == [(path,)]
        assert [x.layers for x in report.of("differs")] == [(path,)]
        assert (network(net).report().layers, path in network(net).every_layer()) == (report.layers, True)


def test_all_that_stops_in_nets_inside_of_layers_is_listed():
    wrong = {"class": "linear", "n_out": 3, "from": "b", "sise": 3}
    lost = {"class": "copy", "from": "data:nothing"}
    found = stops(masked({"a": wrong, "b": {"class": "no such", "from": "data"}}))
    assert found == [("unknown option 'sise'", ("m/unit/a",)), ("there is no layer class 'no such'", ("m/unit/b",))]
    found = dict(stops(branched({"a": wrong, "b": {"class": "copy", "from": "data"}}, lost)))
    assert found == {
        "unknown option 'sise'": ("c/true_layer/a",),
        "there is no data key 'nothing'": ("c/false_layer",),
    }


def test_a_report_between_a_call_and_its_losses_changes_nothing():
    extern = rf.ExternData({"data": {"dim": 3}, "classes": {"dim": 4, "sparse": True, "same_dim_tags_as": "data"}})
    net = rf.Network(extern_data=extern, train_flag=True)
    net.construct_from_dict({"output": {"class": "softmax", "loss": "ce", "L2": 0.1, "darc1": 0.2, "from": "data"}})
    batch = extern.example()
    net(batch)
    expected = net.get_objective().item()
    net(batch)
    net.report()
    assert net.get_objective().item() == expected


def test_frames_that_set_axes_does_not_move_are_reported():
    extern = rf.ExternData({"data": {"dim": 6}})
    split = {"class": "split_dims", "axis": "F", "dims": (2, 3), "from": "data"}
    for axis, count in (("static:0", 1), ("time", 0)):
        net = rf.Network(extern_data=extern).construct_from_dict({
            "split": split, "output": {"class": "reinterpret_data", "from": "split", "set_axes": {"T": axis}},
        })  # fmt: skip
        assert sum("set_axes" in found.what for found in net.report().of("differs")) == count

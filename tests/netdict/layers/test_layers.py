"""Each class of layers computes what numpy computes; what recorded cases cover has no row here."""

import json
import re
from pathlib import Path

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError, RfError
from rfnb.netdict.layer import CLASSES
from tests.netdict.goldens import FOLDER

LENGTHS = [5, 3]
DRAW = np.random.default_rng(3)
X = DRAW.normal(size=(2, 5, 4)).astype("float32")
LABELS = DRAW.integers(0, 4, (2, 5)).astype("int32")
WAVE = DRAW.normal(size=(2, 40, 1)).astype("float32")
EXTERN = {
    "data": {"dim": 4},
    "classes": {"dim": 4, "sparse": True, "same_dim_tags_as": "data"},
    "wave": {"shape": (None, 1), "dim": 1},
}
BATCH = {"data": (X, LENGTHS), "classes": (LABELS, LENGTHS), "wave": (WAVE, [40, 40])}


def built(net_dict, **options):
    net = rf.Network(extern_data=rf.ExternData(EXTERN), **options)
    return net.construct_from_dict(net_dict)


def computed(net_dict, name="output", **options):
    """The output in its declared order, with 0 behind the ends."""
    net = built(net_dict, **options)
    out = net.forward(BATCH)[name]
    masked = out.copy_masked(0) if any(dim.need_masking() for dim in out.dims) else out
    return masked.copy_transpose(net.template(name).dims).raw_tensor.detach().numpy()


def valid(x, axis=1):
    """0 behind the end of each sequence."""
    x = np.moveaxis(x.copy(), axis, 1)
    for row, length in zip(x, LENGTHS, strict=True):
        row[length:] = 0
    return np.moveaxis(x, 1, axis)


FRAMES = np.concatenate([X[0], X[1, :3]])


def softmax(x):
    e = np.exp(x - x.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)


def cross_entropy():
    return -np.log(np.take_along_axis(softmax(X), LABELS[..., None], -1))[..., 0]


def spectrum():
    window = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(8) / 8)
    frames = [np.fft.rfft(WAVE[:, i : i + 8, 0] * window, n=16) for i in range(0, 33, 4)]
    return np.stack(frames, 1)


def bands(spectra, count=3, rate=16000, n=16):
    """Triangles between corners that are equally far apart in mel = 1127 ln(1 + f / 700)."""
    corners = np.linspace(0, 1127 * np.log(1 + rate / 2 / 700), count + 2)
    corners = 700 * (np.exp(corners / 1127) - 1)
    result = np.zeros((*spectra.shape[:-1], count), "float32")
    for band in range(count):
        low, middle, high = corners[band : band + 3]
        for k in range(n // 2 + 1):
            f = k * rate / n
            weight = max(min((f - low) / (middle - low), (high - f) / (high - middle)), 0)
            result[..., band] += weight * np.abs(spectra[..., k])
    return result


ROWS = {
    "identity": ({"class": "identity", "from": "data"}, lambda: valid(X)),
    "flatten_batch": ({"class": "flatten_batch", "from": "data"}, lambda: FRAMES),
    "flatten_batch, time first": (
        {"class": "flatten_batch", "batch_major": False, "from": "data"},
        lambda: np.array([X[b, t] for t in range(5) for b in range(2) if t < LENGTHS[b]]),
    ),
    "reshape": (
        {"class": "reshape", "in_dims": ["F"], "out_dims": [2, 2], "from": "data"},
        lambda: valid(X).reshape(2, 5, 2, 2),
    ),
    "transpose": ({"class": "transpose", "perm": ["T", "B", "F"], "from": "data"}, lambda: valid(X).swapaxes(0, 1)),
    "transpose by a dict": (
        {"class": "transpose", "perm": {"B": "T", "T": "B"}, "from": "data"},
        lambda: valid(X).swapaxes(0, 1),
    ),
    "swap_axes": ({"class": "swap_axes", "axis1": "T", "axis2": "F", "from": "data"}, lambda: valid(X).swapaxes(1, 2)),
    "tile": ({"class": "tile", "multiples": {"F": 3}, "from": "data"}, lambda: np.tile(valid(X), (1, 1, 3))),
    "print": ({"class": "print", "from": "data"}, lambda: valid(X)),
    "scaled_grad": ({"class": "scaled_grad", "scale": -1.0, "from": "data"}, lambda: valid(X)),
    "train_flag": ({"class": "train_flag"}, lambda: np.array(False)),
    "loss": (
        {"class": "loss", "loss_": "ce", "target_": "classes", "from": "probs"},
        lambda: valid(cross_entropy()),
    ),
    "loss, its error": (
        {"class": "loss", "loss_": "ce", "target_": "classes", "use_error": True, "from": "probs"},
        lambda: valid((X.argmax(-1) != LABELS).astype("float32")),
    ),
    "sparse_softmax_cross_entropy_with_logits": (
        {"class": "sparse_softmax_cross_entropy_with_logits", "logits": "data", "targets": "data:classes"},
        lambda: valid(cross_entropy()),
    ),
    "stft": ({"class": "stft", "frame_shift": 4, "frame_size": 8, "fft_size": 16, "from": "data:wave"}, spectrum),
    "mel_filterbank": (
        {"class": "mel_filterbank", "fft_size": 16, "nr_of_filters": 3, "n_out": 3, "from": "magnitudes"},
        lambda: bands(spectrum()),
    ),
    "variable": ({"class": "variable", "shape": [3], "init": 2.0}, lambda: np.full(3, 2.0)),
    "variable, batch and time": (
        {"class": "variable", "shape": [3], "init": 2.0, "add_batch_axis": True, "add_time_axis": True},
        lambda: np.full((2, 1, 3), 2.0),
    ),
}
"""The layer `output` by what is tested, and what it gives. Others that it may use are in `HELPERS`."""

HELPERS = {
    "probs": {"class": "activation", "activation": "softmax", "from": "data"},
    "spectrum": {"class": "stft", "frame_shift": 4, "frame_size": 8, "fft_size": 16, "from": "data:wave"},
    "magnitudes": {"class": "activation", "activation": "abs", "from": "spectrum"},
}


@pytest.mark.parametrize("row", ROWS)
def test_a_layer_computes_what_numpy_computes(row, capsys):
    described, expected = ROWS[row]
    np.testing.assert_allclose(computed({**HELPERS, "output": described}), expected(), rtol=1e-4, atol=1e-5)
    assert ("output" in capsys.readouterr().out) == (row == "print")


APART = {"forward", "hidden", "rand_int", "random", "random_state_init", "istft", "unflatten_batch", "split_batch_time"}
APART |= {"hdf_dump", "rec:unit"}
"""Classes with a test of their own below, and other names of linear."""

ALIGNED = set(re.findall(r'"class": "(\w+)"', Path(__file__).with_name("test_loss_alignments.py").read_text()))
"""Classes of which the tests of alignments have a layer."""


def test_each_class_is_tested():
    files = [*FOLDER.glob("*.json"), *(FOLDER.parent / "search").glob("*.json")]
    recorded = {kind for file in files for kind in json.loads(file.read_text())["classes"]}
    rows = {described["class"] for described, _ in ROWS.values()}
    assert {name for names in CLASSES.values() for name in names.split()} <= recorded | rows | APART | ALIGNED


@pytest.mark.parametrize("batch_major", [True, False])
def test_frames_as_a_batch_and_back(batch_major):
    flat = {"class": "flatten_batch", "batch_major": batch_major, "from": "data"}
    net = {"flat": flat, "twice": {"class": "eval", "eval": "source(0) * 2.0", "from": "flat"}}
    out = computed({**net, "output": {"class": "unflatten_batch", "from": "twice"}})
    np.testing.assert_allclose(out if batch_major else out.swapaxes(0, 1), valid(X) * 2)


def test_batch_and_time_merged_with_padding_and_split():
    net = {"flat": {"class": "merge_dims", "axes": ["B", "T"], "from": "data"}}
    net["output"] = {"class": "split_batch_time", "from": "flat", "base": "data"}
    built_net = built(net)
    assert built_net.forward(BATCH)["flat"].raw_tensor.shape == (10, 4)
    np.testing.assert_allclose(computed(net), valid(X))


@pytest.mark.parametrize(("size", "fft"), [(8, None), (8, 16), (9, None)])
def test_istft_is_the_inverse_of_stft(size, fft):
    options = {"frame_shift": 4, "frame_size": size, "fft_size": fft}
    net = {"spectrum": {"class": "stft", **options, "from": "data:wave"}}
    out = computed({**net, "output": {"class": "istft", **options, "from": "spectrum"}})
    inside = slice(4, out.shape[1] - 5)  # at the ends there is only one window
    np.testing.assert_allclose(out[:, inside], WAVE[:, : out.shape[1], 0][:, inside], atol=1e-4)


def test_random_numbers_are_of_their_distribution_and_the_same_for_a_seed():
    drawn = {"class": "random", "shape": [rf.batch_dim, 5000], "distribution": "normal", "mean": 2.0, "stddev": 3.0}
    x = computed({"output": drawn})
    assert x.shape == (2, 5000)
    assert abs(x.mean() - 2) < 0.2
    assert abs(x.std() - 3) < 0.2
    same = [computed({"output": {**drawn, "seed": 4}}) for _ in range(2)]
    np.testing.assert_array_equal(*same)
    uniform = computed({"output": {"class": "random", "shape": [9], "distribution": "uniform", "bound": 0.5}})
    assert np.abs(uniform).max() <= 0.5


def test_random_whole_numbers():
    x = computed({"output": {"class": "rand_int", "shape": [1000], "minval": 2, "maxval": 5}})
    assert set(x) == {2, 3, 4}
    assert x.dtype == np.int32


def test_a_state_for_random_numbers():
    net = {"state": {"class": "random_state_init", "seed": 5}}
    net["output"] = {"class": "random", "shape": [4], "distribution": "uniform", "explicit_state": "state"}
    np.testing.assert_array_equal(computed(net), computed(net))


def test_the_gradient_is_scaled():
    net = {"hidden": {"class": "linear", "n_out": 2, "from": "data", "forward_weights_init": 1.0}}
    net["output"] = {"class": "scaled_grad", "scale": -2.0, "from": "hidden", "loss": "as_is"}
    grads = []
    for scale in (1.0, -2.0):
        net["output"]["scale"] = scale
        made = built(net, train_flag=True)
        made.forward(BATCH)
        made.get_objective().backward()
        grads.append(made.get_layer("hidden").params["W"].raw_tensor.grad.numpy())
    np.testing.assert_allclose(grads[1], -2 * grads[0])
    np.testing.assert_allclose(grads[0][:, 0], FRAMES.sum(0), rtol=1e-5)


@pytest.mark.parametrize("name", ["shape", "distribution"])
def test_an_option_that_is_missing_is_named(name):
    layer = {"class": "random", "shape": [3], "distribution": "uniform"}
    del layer[name]
    with pytest.raises(NetworkError, match=f"the option {name} is missing"):
        built({"output": layer})


def test_hdf_dump_writes_the_sequences(tmp_path):
    file = tmp_path / "out.hdf"
    layer = {"class": "hdf_dump", "filename": str(file), "extra": {"labels": "data:classes"}, "from": "data"}
    try:
        import h5py
    except ModuleNotFoundError:
        with pytest.raises(NetworkError, match="h5py"):
            built({"output": layer})
        return
    net = built({"output": layer})
    for _ in range(2):
        net.forward(BATCH)
    with h5py.File(file) as found:
        np.testing.assert_array_equal(found["inputs"][:], np.concatenate([FRAMES, FRAMES]))
        np.testing.assert_array_equal(found["seqLengths"][:], [[5, 5], [3, 3]] * 2)
        np.testing.assert_array_equal(found["targets/data/labels"][:8], [*LABELS[0], *LABELS[1, :3]])
        assert len(set(found["seqTags"][:])) == 4


@pytest.mark.parametrize(
    "layer",
    [
        {"class": "unflatten_batch", "from": "data"},
        {"class": "transpose", "perm": ["T", "F"], "from": "data"},
        {"class": "stft", "frame_shift": 4, "frame_size": 8, "from": "mean"},
        {"class": "loss", "loss_": "edit_distance", "target_": "classes", "from": "data:classes"},
        {"class": "get_last_hidden_state", "from": "data"},
        {"class": "concat", "from": ["data", "data"]},
        {"class": "resize", "factor": 2, "axis": "F", "kind": "fill", "fill_dropout": 0.5, "from": "data"},
        {"class": "weighted_sum", "axes": "T", "from": "data"},
        {"class": "reinterpret_data", "switch_axes": "TF", "from": "data"},
    ],
    ids=lambda layer: layer["class"],
)
def test_a_layer_that_cannot_be_says_which_layer_and_why(layer):
    mean = {"class": "reduce", "mode": "mean", "axes": "T", "from": "data"}
    with pytest.raises(RfError, match="output"):
        built({"mean": mean, "output": layer})


def convolved(x, w, axes):
    """A loop over the filter, with zeros around ("same"); x [B, spatial…, in], w [filter…, in, out]."""
    sizes = w.shape[:axes]
    padded = np.pad(x, [(0, 0), *(((k - 1) // 2, k // 2) for k in sizes), (0, 0)])
    total = 0
    for place in np.ndindex(*sizes):
        part = padded[(slice(None), *(slice(i, i + n) for i, n in zip(place, x.shape[1 : 1 + axes], strict=True)))]
        total = total + part @ w[place]
    return total


@pytest.mark.parametrize(
    ("options", "as_input"),
    [
        ({"input_add_feature_dim": True}, lambda x: x[..., None]),
        ({"input_split_feature_dim": 2}, lambda x: x.reshape(2, 5, 2, 2)),
        ({"input_expand_dims": 1}, lambda x: x[:, :, None]),
    ],
)
def test_conv_with_more_axes(options, as_input):
    layer = {"class": "conv", "filter_size": (3, 3), "n_out": 2, "padding": "same", "from": "data", **options}
    net = built({"output": layer})
    x = np.concatenate([X, X])[:2]
    out = net.forward({"data": (x, [5, 5])})["output"].copy_transpose(net.template("output").dims).raw_tensor
    w = net.get_layer("output").params["W"].numpy()
    np.testing.assert_allclose(out.detach().numpy(), convolved(as_input(x), w, 2), rtol=1e-4, atol=1e-5)


def test_range_in_axis_with_all_axes():
    layer = {"class": "range_in_axis", "axis": "F", "unbroadcast": True, "from": "data"}
    np.testing.assert_array_equal(computed({"output": layer}), valid(np.broadcast_to(np.arange(4), X.shape)))


def test_options_of_an_activation():
    layer = {"class": "activation", "activation": "safe_log", "opts": {"eps": 0.1}, "from": "data"}
    np.testing.assert_allclose(computed({"output": layer}), valid(np.log(np.maximum(X, 0.1))), rtol=1e-5)
    with pytest.raises(NetworkError, match="opts"):
        built({"output": {**layer, "opts": {"epsilon": 0.1}}})


@pytest.mark.parametrize("count", [2, 4])
def test_the_filter_of_conv_may_be_a_layer(count):
    """With 4 filters, input and output have the same size."""
    net = {
        "filter": {"class": "variable", "shape": (3, 4, count), "init": "glorot_uniform"},
        "bias": {"class": "variable", "shape": (count,), "init": 2.0},
    }
    conv = {"class": "conv", "filter_size": (3,), "n_out": count, "padding": "same", "filter": "filter", "bias": "bias"}
    made = built({**net, "output": {**conv, "from": "data"}})
    assert not made.get_layer("output").params
    out = made.forward({"data": (X, [5, 5])})["output"].copy_transpose(made.template("output").dims)
    w = made.get_layer("filter").params["filter"]
    np.testing.assert_allclose(out.raw_tensor.detach(), convolved(X, w.numpy(), 1) + 2, rtol=1e-4, atol=1e-5)
    rf.reduce_sum(out, axis=list(out.dims)).raw_tensor.backward()
    assert w.raw_tensor.grad is not None
    with pytest.raises(NetworkError, match="other dims"):
        built({**net, "output": {**conv, "filter_size": (5,), "from": "data"}})

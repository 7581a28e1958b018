"""Alignments of frames to labels, against all alignments one by one; and numbers that the reference gives."""

import itertools

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError

CLASSES = 4
BLANK = 3


def drawn(lengths, seed=0):
    logits = np.random.default_rng(seed).normal(size=(len(lengths), max(lengths), CLASSES))
    return (logits - np.log(np.exp(logits).sum(-1, keepdims=True))).astype("float32")


def alignments(labels, frames, blank, loop):
    """All sequences of `frames` classes that stand for the labels."""
    for path in itertools.product(sorted({blank, *labels}), repeat=frames):
        spoken = [label for label, _ in itertools.groupby(path)] if loop else path
        if [label for label in spoken if label != blank] == list(labels):
            yield path


def score(frames, path):
    return sum(frames[t, label] for t, label in enumerate(path))


def computed(layer, x, lengths, labels, counts, **data):
    extern = {"data": {"dim": CLASSES}, "classes": {"dim": CLASSES - 1, "sparse": True, **data}}
    more = {"score": {"class": "copy", "from": "output/scores", "is_output_layer": True}}
    net_dict = {"output": {"from": "data", **layer}, **(more if layer["class"] == "forced_align" else {})}
    net = rf.Network(extern_data=rf.ExternData(extern)).construct_from_dict(net_dict)
    assert net.report()
    rf.init_forward_step_run_ctx()
    out = net({"data": (x, lengths), "classes": (labels, counts)})
    return [out[name].copy_transpose(net.template(name).dims).numpy() for name in net_dict]


LENGTHS, LABELS, COUNTS = [5, 3, 4], np.array([[1, 1], [2, 0], [0, 0]]), [2, 2, 0]


@pytest.mark.parametrize("scale", [1.0, 0.5])
@pytest.mark.parametrize("loop", [True, False])
def test_fast_bw_has_the_share_of_all_alignments(scale, loop):
    x = drawn(LENGTHS)
    layer = {"class": "fast_bw", "align_target": "ctc", "am_scale": scale, "ctc_opts": {"label_loop": loop}}
    (found,) = computed(layer, x, LENGTHS, LABELS, COUNTS)
    for frames, n, labels, count, y in zip(x, LENGTHS, LABELS, COUNTS, found, strict=True):
        expected = np.zeros_like(y)
        for path in alignments(labels[:count], n, BLANK, loop):
            expected[range(n), path] += np.exp(scale * score(frames, path))
        np.testing.assert_allclose(y, expected / expected[:1].sum(), atol=1e-5)


@pytest.mark.parametrize("scale", [1.0, 0.5])
def test_a_staircase_has_the_share_of_all_rising_sequences(scale):
    """The last sequence has more frames than classes."""
    x, counts = drawn([3, 2, 4, 3]), [4, 3, 4, 2]
    extern = rf.ExternData({"data": {"dim": CLASSES}, "steps": {"dim": 1}})
    layer = {"class": "fast_bw", "align_target": "staircase", "staircase_seq_len_source": "data:steps"}
    net = rf.Network(extern_data=extern).construct_from_dict({"output": {**layer, "from": "data", "am_scale": scale}})
    found = net({"data": (x, [3, 2, 4, 3]), "steps": (np.zeros([4, 4, 1], "float32"), counts)})["output"]
    found = found.copy_transpose(net.template("output").dims).numpy()
    for frames, n, count, y in zip(x, [3, 2, 4, 3], counts, found, strict=True):
        expected = np.zeros_like(y)
        for path in itertools.combinations(range(count), n):
            expected[range(n), path] += np.exp(scale * score(frames, path))
        np.testing.assert_allclose(y, expected / (expected[:1].sum() or 1.0), atol=1e-5)
    with pytest.raises(NetworkError, match="staircase_seq_len_source is missing"):
        rf.Network(extern_data=extern).construct_from_dict(
            {"output": {"class": "fast_bw", "align_target": "staircase", "from": "data"}}
        )


def test_fast_bw_has_no_share_where_labels_do_not_fit():
    x = drawn([2])
    layer = {"class": "fast_bw", "align_target": "ctc"}
    assert not computed(layer, x, [2], np.array([[1, 1]]), [2])[0].any()
    clipped = np.log(np.maximum(np.exp(x), 0.3))
    found = computed({**layer, "min_prob": 0.3}, x, [2], np.array([[1, 2]]), [2])
    np.testing.assert_allclose(found, computed(layer, clipped, [2], np.array([[1, 2]]), [2]), atol=1e-6)
    with pytest.raises(NetworkError, match="external program"):
        computed({**layer, "align_target": "sprint"}, x, [2], np.array([[1, 2]]), [2])


@pytest.mark.parametrize("input_type", ["log_prob", "prob"])
@pytest.mark.parametrize("topology", ["ctc", "rna"])
def test_forced_align_is_the_best_of_all_alignments(topology, input_type):
    x = drawn(LENGTHS)
    layer = {"class": "forced_align", "align_target": "data:classes", "topology": topology, "input_type": input_type}
    source = x if input_type == "log_prob" else np.exp(x)
    found, scores = computed(layer, source, LENGTHS, LABELS, COUNTS)
    for frames, n, labels, count, y, s in zip(x, LENGTHS, LABELS, COUNTS, found, scores, strict=True):
        best = max(alignments(labels[:count], n, BLANK, topology == "ctc"), key=lambda path: score(frames, path))
        assert tuple(y[:n]) == best
        np.testing.assert_allclose(s, score(frames, best), rtol=1e-5)


def test_forced_align_with_the_blank_among_the_labels():
    """The numbers are those that it gives."""
    p = np.random.RandomState(3).dirichlet(np.ones(CLASSES), size=(1, 4)).astype("float32")
    layer = {"class": "forced_align", "align_target": "data:classes", "topology": "ctc", "input_type": "prob"}
    labels = np.array([[1, 2]])
    found, _ = computed({**layer, "blank_idx": 0, "blank_included": True}, p, [4], labels, [2], dim=CLASSES)
    best = max(alignments((1, 2), 4, 0, True), key=lambda path: score(np.log(p[0]), path))
    assert tuple(found[0]) == best
    for wrong in ({"blank_included": True}, {"blank_idx": 0}, {"topology": "hmm"}):
        with pytest.raises(NetworkError, match="forced_align"):
            computed({**layer, **wrong}, p, [4], labels, [2])


def test_accumulate_mean_moves_in_training_and_gives_the_mean_before():
    layer = {"class": "accumulate_mean", "exp_average": 0.25, "is_prob_distribution": True, "from": "data"}
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": CLASSES}}), train_flag=None)
    net.construct_from_dict({"output": layer})
    x, lengths = np.random.default_rng(0).uniform(size=(2, 4, CLASSES)).astype("float32"), [4, 2]
    mean = np.concatenate([x[0], x[1, :2]]).mean(0)
    expected = np.full(CLASSES, 1 / CLASSES)
    for _ in range(3):
        rf.init_train_step_run_ctx(train_flag=True)
        np.testing.assert_allclose(net({"data": (x, lengths)})["output"].numpy(), expected, rtol=1e-5)
        expected = expected + 0.25 * (mean - expected)
    for _ in range(2):
        rf.init_forward_step_run_ctx()
        np.testing.assert_allclose(net({"data": (x, lengths)})["output"].numpy(), expected, rtol=1e-5)
    assert not [parameter for parameter in net.parameters() if parameter.trainable]
    with pytest.raises(NetworkError, match="not fixed"):
        rf.Network(extern_data=net.extern_data).construct_from_dict({"output": {**layer, "axes": "B"}})

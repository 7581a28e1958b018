"""Which statistics batch_norm uses, by its options: what runs of the reference have shown."""

import numpy as np
import pytest

import rfnb as rf

LENGTHS = [5, 3]
X = np.random.default_rng(0).normal(size=(2, 5, 3)).astype("float32")
FRAMES = np.concatenate([X[0], X[1, :3]])
MEAN, VARIANCE = np.array([0.0, 0.1, 0.2], "float32"), np.array([0.5, 1.0, 1.5], "float32")


def network(**options):
    extern = rf.ExternData({"data": {"dim": 3}})
    net = rf.Network(extern_data=extern, **{"train_flag": False, **options.pop("net", {})})
    net.construct_from_dict({"output": {"class": "batch_norm", "from": "data", **options}})
    names = {name: name for name in net.get_layer("output").params}
    values = {name: MEAN if "mean" in name else VARIANCE for name in names if "mean" in name or "variance" in name}
    net.set_param_values_by_dict({"output": {name: x.reshape(1, 1, 3) for name, x in values.items()}})
    return net


def normalized(net, x=X, lengths=LENGTHS):
    return net.forward({"data": (x, lengths)})["output"].raw_tensor.detach().numpy()


def by(mean, variance):
    return (X - mean) / np.sqrt(variance + 1e-3)


def updated(momentum):
    return (
        MEAN + (FRAMES.mean(0) - MEAN) * momentum,
        VARIANCE + (FRAMES.var(0) - VARIANCE) * momentum,
    )


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({}, updated(0.99)),
        ({"momentum": 0.1}, updated(0.1)),
        ({"momentum": 0.1, "use_sample": 0.5}, updated(0.1)),
        ({"update_sample_only_in_training": True}, (MEAN, VARIANCE)),
        ({"delay_sample_update": True}, (MEAN, VARIANCE)),
    ],
    ids=str,
)
def test_in_evaluation(options, expected):
    net = network(**options)
    for _ in range(2):  # nothing is stored
        np.testing.assert_allclose(normalized(net)[0], by(*expected)[0], rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("share", [0.0, 0.5, 1.0])
def test_in_training_a_share_of_the_stored_statistics(share):
    net = network(momentum=0.1, use_sample=share, net={"train_flag": True})
    batch = FRAMES.mean(0), FRAMES.var(0)
    expected = [a * (1 - share) + b * share for a, b in zip(batch, updated(0.1), strict=True)]
    np.testing.assert_allclose(normalized(net)[0], by(*expected)[0], rtol=1e-4, atol=1e-5)
    stored = next(x for name, x in net.get_layer("output").params.items() if "mean" in name)
    np.testing.assert_allclose(stored.numpy().ravel(), updated(0.1)[0], rtol=1e-5)


def test_batch_independent_takes_each_sequence_alone():
    net = network(momentum=0.5, net={"batch_independent": True})
    whole = normalized(net)
    for x, length, found in zip(X, LENGTHS, whole, strict=True):
        alone = normalized(network(momentum=0.5), x[None, :length], [length])[0]
        np.testing.assert_allclose(found[:length], alone, rtol=1e-4, atol=1e-5)

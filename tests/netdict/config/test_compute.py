"""Expressions and functions of configs compute what numpy computes, with axes by number in the declared order."""

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError, RfError
from rfnb.netdict import axes

DRAW = np.random.default_rng(1)
X = DRAW.normal(size=(2, 3, 4)).astype("float32")
Y = DRAW.normal(size=(2, 3, 4)).astype("float32")
EXTERN = {"data": {"dim": 4}, "more": {"dim": 4, "same_dim_tags_as": "data"}}


def net_of(layer, tmp_path, more="", **options):
    """A network whose output is described by the text of a config."""
    file = tmp_path / "net.config"
    text = f"import tensorflow as tf\nextern_data = {EXTERN!r}\n{more}\nnetwork = {{'output': {layer}}}\n"
    file.write_text(text)
    return rf.Network.from_config(file, **{"train_flag": False, **options})


def computed(text, tmp_path, more="", **options):
    layer = f"{{'class': 'eval', 'eval': {text}, 'from': ['data', 'data:more']}}"
    net = net_of(layer, tmp_path, more, **options)
    out = net.forward({"data": X, "more": Y})["output"]
    return out.copy_transpose(net.template("output").dims).raw_tensor.numpy()


def log_softmax(x, axis):
    x = x - x.max(axis, keepdims=True)
    return x - np.log(np.exp(x).sum(axis, keepdims=True))


EXPRESSIONS = {
    "source(0) - tf.reduce_max(source(0), axis=-1, keepdims=True)": X - X.max(-1, keepdims=True),
    "source(0) / tf.reduce_sum(source(0), axis=[1, 2], keep_dims=True)": X / X.sum((1, 2), keepdims=True),
    "tf.reduce_mean(source(1), axis=1)": Y.mean(1),
    "tf.reduce_logsumexp(source(0), reduction_indices=2)": np.log(np.exp(X).sum(2)),
    "tf.argmax(source(0), axis=-1)": X.argmax(-1),
    "tf.argmax(source(0), dimension=2, name='best')": X.argmax(-1),
    "tf.add(source(0), source(1), name='sum')": X + Y,
    "tf.squeeze(tf.expand_dims(source(0), dim=1), squeeze_dims=[1], name=None)": X,
    "tf.reduce_sum(source(0), -1, True, 'sum')": X.sum(-1, keepdims=True),
    "tf.nn.log_softmax(source(0), axis=1)": log_softmax(X, 1),
    "tf.math.l2_normalize(source(0), axis=-1)": X / np.sqrt((X**2).sum(-1, keepdims=True)),
    "tf.squeeze(tf.expand_dims(source(0), axis=1), axis=1)": X,
    "tf.expand_dims(source(0), axis=-1) * tf.expand_dims(source(1), axis=2)": X[..., None] * Y[:, :, None],
    "source(0)[:, :, 1:3] + source(1)[..., ::2]": X[:, :, 1:3] + Y[..., ::2],
    "source(0)[:, :, 2]": X[:, :, 2],
    "source(0)[:, :, None] * source(1)[:, :, :, None]": X[:, :, None] * Y[..., None],
    "tf.concat([source(0), source(1)], axis=-1)": np.concatenate([X, Y], -1),
    "tf.split(source(0), 2, axis=-1)[1]": X[..., 2:],
    "tf.transpose(source(0), [0, 2, 1])": X.swapaxes(1, 2),
    "source(0)[:, 1:]": X[:, 1:],
    "source(0)[:, :-1] * tf.to_float(source(0)[:, 1:])": X[:, :-1] * X[:, 1:],
    "tf.reshape(source(0), [tf.shape(source(0))[0], -1, 2, 2])": X.reshape(2, 3, 2, 2),
    "tf.reshape(source(0), [-1, 4])": X.reshape(6, 4),
    "tf.reshape(tf.reshape(source(0), [-1, 4])[:, 1:] * 2, [tf.shape(source(0))[0], tf.shape(source(0))[1], 3])": X[
        ..., 1:
    ]
    * 2,
    "tf.pad(source(0), [[0, 0], [1, 2], [0, 1]], constant_values=3.0)": np.pad(
        X, [(0, 0), (1, 2), (0, 1)], constant_values=3.0
    ),
    "tf.pad(source(0), [[0, 0], [1, 0], [0, 0]])[:, :-1] * source(1)": np.pad(X, [(0, 0), (1, 0), (0, 0)])[:, :-1] * Y,
    "tf.gather(source(0), tf.argmax(source(1), axis=-1), axis=2, batch_dims=2)": np.take_along_axis(
        X, Y.argmax(-1)[..., None], -1
    )[..., 0],
    "tf.gather(source(0), [2, 0], axis=-1)": X[..., [2, 0]],
    "tf.gather(source(0), tf.range(3), axis=2)": X[..., :3],
    "tf.einsum('btf,btf->bt', source(0), source(1))": (X * Y).sum(-1),
    "tf.einsum('bti, btj -> bij', source(0), source(1))": np.einsum("bti,btj->bij", X, Y),
    "tf.einsum('btf,bsf->bts', source(0), source(1)[:, :2])": np.einsum("btf,bsf->bts", X, Y[:, :2]),
    "tf.matmul(source(0), source(1)[:, :2], transpose_b=True)": X @ Y[:, :2].swapaxes(1, 2),
    "tf.reverse(source(0), axis=[2]) * tf.roll(source(1), 1, axis=2)": X[..., ::-1] * np.roll(Y, 1, 2),
    "tf.cumsum(source(0), axis=1) + tf.cumsum(source(1), axis=-1, exclusive=True)": (X.cumsum(1) + Y.cumsum(-1) - Y),
    "tf.map_fn(lambda x: x - tf.reduce_mean(x, axis=0, keepdims=True), source(0))": X - X.mean(1, keepdims=True),
    "tf.map_fn(lambda xy: tf.reduce_sum(xy[0] * xy[1]), (source(0), source(1)), dtype=tf.float32)": (X * Y).sum((1, 2)),
    "tf.tile(source(0), [1, 1, 2])": np.tile(X, (1, 1, 2)),
    "tf.tile(source(0)[:, :1], [1, 3, 1])": np.tile(X[:, :1], (1, 3, 1)),
    "tf.stack([source(0), source(1)], axis=2)": np.stack([X, Y], 2),
    "tf.unstack(source(0), axis=-1)[1]": X[..., 1],
    "tf.nn.top_k(source(0), 2)[0]": -np.sort(-X, -1)[..., :2],
    "tf.cast(tf.nn.top_k(source(0), k=2)[1], tf.float32)": np.argsort(-X, -1)[..., :2],
    "tf.where(tf.sequence_mask(source(0, as_data=True).get_sequence_lengths(), 5)[:, :, None] "
    "& (source(0)[:, :1] > -9), 1.0, 0.0)": np.tile(np.float32([1, 1, 1, 0, 0])[:, None], (2, 1, 4)),
    "tf.broadcast_to(source(0)[:, :1], tf.shape(source(1)))": np.broadcast_to(X[:, :1], X.shape),
    "source(0) + tf.cast(tf.range(1, 9, 2), tf.float32)": X + np.arange(1, 9, 2),
    "tf.where(source(0)[:, 0, 0] > 0, source(0), source(1))": np.where(X[:, :1, :1] > 0, X, Y),
    "tf.cond(tf.reduce_sum(source(0)) > 1e9, lambda: source(0), lambda: source(1))": Y,
    "tf.while_loop(lambda i, x: i < 3, lambda i, x: (i + 1, x * 2.0), (0, source(0)))[1]": X * 8,
    "tf.zeros_like(source(0), dtype=tf.int32) + 1": np.ones_like(X, "int32"),
    "tf.where(source(0) > source(1), source(0), tf.zeros_like(source(0)))": np.where(X > Y, X, 0),
    "tf.cast(tf.logical_and(source(0) > 0, source(1) < 0.5), 'float32')": ((X > 0) & (Y < 0.5)).astype("float32"),
    "tf.cast((source(0) > 0) & ~(source(1) > 0), tf.float32)": ((X > 0) & ~(Y > 0)).astype("float32"),
    "source(0) * tf.to_float(tf.shape(source(0))[2])": X * 4,
    "source(0) + tf.ones([tf.shape(source(0))[0], 1, 4])": X + 1,
    "source(0) * tf.to_float(tf.range(tf.shape(source(0))[2]))": X * np.arange(4),
    "2.0 - source(0) ** 2 if self.network.train_flag else 1.0 / source(0)": 1 / X,
    "source(0, as_data=True).placeholder * source(0, as_data=True).dim": X * 4,
    "tf.clip_by_value(source(0), -0.5, 0.5) % 0.2 // 0.1": np.clip(X, -0.5, 0.5) % np.float32(0.2) // np.float32(0.1),
    "tf.maximum(1, 3) * source(0) + tf.where(tf.less(2, 1), 5.0, 6.0)": 3 * X + 6,
    "tf.add_n([source(0), source(1), source(1)])": X + 2 * Y,
    "source(0) * self.network.get_config().float('factor', 1.0)": X * 3,
    "source(0) * self.network.get_config().typed_value('scale')(2)": X * 6,
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression(text, tmp_path):
    more = "factor = 3.0\ndef scale(n):\n    return factor * n"
    found = computed(repr(text), tmp_path, more)
    assert found.shape == EXPRESSIONS[text].shape
    np.testing.assert_allclose(found, EXPRESSIONS[text], rtol=1e-4, atol=1e-5)


SIZES = {
    "source(0)[:, :4]": lambda x: x[:, :4],
    "source(0)[:, 1:4000]": lambda x: x[:, 1:],
    "source(0)[:, :tf.minimum(tf.shape(source(0))[1], 4)]": lambda x: x[:, :4],
    "source(0)[:, :tf.minimum(4, tf.shape(source(0))[1])]": lambda x: x[:, :4],
    "source(0)[:, :tf.shape(source(0))[1]]": lambda x: x,
    "tf.cond(tf.shape(source(0))[1] > 4, lambda: source(0) * 2, lambda: source(0))": lambda x: (
        x * (1 + (x.shape[1] > 4))
    ),
    "tf.cond(tf.equal(tf.shape(source(0))[1] // 2, 1), lambda: source(0) * 2, lambda: source(0))": lambda x: (
        x * (1 + (x.shape[1] // 2 == 1))
    ),
    "source(0) / tf.cast(tf.maximum(tf.shape(source(0))[1] - 1, 1), 'float32')": lambda x: x / max(x.shape[1] - 1, 1),
    "tf.reshape(source(0), [tf.shape(source(0))[0], -1, 2])": lambda x: x.reshape(2, -1, 2),
    "tf.reshape(source(0), [tf.shape(source(0))[0], tf.shape(source(0))[1] * 2, 2])": lambda x: x.reshape(2, -1, 2),
}


@pytest.mark.parametrize("text", SIZES)
def test_the_size_of_each_batch_decides(text, tmp_path):
    net = net_of(f"{{'class': 'eval', 'eval': {text!r}, 'from': 'data'}}", tmp_path)
    assert all(dim.size.unknown for dim in net.template("output").dims if dim.dimension is None)
    for frames in (3, 6, 1):
        x = DRAW.normal(size=(2, frames, 4)).astype("float32")
        out = net.forward({"data": x})["output"]
        assert out.dims == net.template("output").dims
        np.testing.assert_allclose(out.raw_tensor.numpy(), SIZES[text](x), rtol=1e-6)


@pytest.mark.parametrize(
    "condition", ["tf.shape(x)[1] > 1500", "1500 >= tf.shape(x)[1] // 2", "tf.equal(tf.shape(x)[1], 1000)"]
)
def test_what_stands_for_a_size_decides_no_condition(condition, tmp_path, monkeypatch):
    more = f"def f(x):\n    return tf.cond({condition}, lambda: x[:, :1], lambda: x)"
    layer = "{'class': 'eval', 'eval': \"self.network.get_config().typed_value('f')(source(0))\", 'from': 'data'}"
    sizes = []
    for size in (1000, 4000):
        monkeypatch.setattr(axes, "symbol", lambda dim, size=size: size)
        sizes.append([dim.dimension for dim in net_of(layer, tmp_path, more).template("output").dims])
    assert sizes[0] == sizes[1]


def test_frames_are_stacked_in_batches_that_fit(tmp_path):
    text = "tf.reshape(source(0), [tf.shape(source(0))[0], tf.shape(source(0))[1] // 2, 8])"
    net = net_of(f"{{'class': 'eval', 'eval': {text!r}, 'from': 'data'}}", tmp_path)
    for frames in (6, 2):
        x = DRAW.normal(size=(2, frames, 4)).astype("float32")
        np.testing.assert_array_equal(net.forward({"data": x})["output"].raw_tensor.numpy(), x.reshape(2, -1, 8))
    with pytest.raises(RfError, match="reshape"):
        net.forward({"data": X})
    text = text.replace("// 2", "// 3")
    net = net_of(f"{{'class': 'eval', 'eval': {text!r}, 'from': 'data'}}", tmp_path)
    with pytest.raises(RfError, match="no place"):
        net.forward({"data": x})


def test_a_slice_up_to_another_size_of_the_batch_is_refused(tmp_path):
    with pytest.raises(NetworkError, match="the end of a slice depends on the sizes of the batch"):
        net_of("{'class': 'eval', 'eval': 'source(0)[:, :tf.shape(source(0))[1] - 1]', 'from': 'data'}", tmp_path)


def test_the_axes_of_a_tensor_may_be_in_another_order(tmp_path):
    layer = "{'class': 'eval', 'eval': 'source(0)[:, :, 1] - tf.reduce_sum(source(0), axis=2)', 'from': 'data'}"
    net = net_of(layer, tmp_path)
    x = net.extern_data.get_data("data").tensor(X)
    moved = rf.TensorDict({"data": x.copy_transpose([*reversed(x.dims)])})
    out = net.forward(moved)["output"].copy_transpose(net.template("output").dims)
    np.testing.assert_allclose(out.raw_tensor.numpy(), X[:, :, 1] - X.sum(2), rtol=1e-5)


@pytest.mark.parametrize("signature", ["source, **kwargs", "self, source", "source", "source, network"])
def test_a_function_of_the_config(signature, tmp_path):
    more = (
        f"def f({signature}):\n    x, y = source(0), source(1)\n    for i in range(2):\n        x = x + y\n    return x"
    )
    np.testing.assert_allclose(computed("f", tmp_path, more), X + 2 * Y, rtol=1e-5)


def test_functions_that_are_given_stand_for_those_of_the_config(tmp_path):
    given = {"f": lambda x, factor: rf.relu(x) * factor, "g": lambda source: source(1) + 1.0}
    text = "\"self.network.get_config().typed_value('f')(source(0), factor=2.0, network=self.network)\""
    np.testing.assert_allclose(computed(text, tmp_path, functions=given), np.maximum(X, 0) * 2)
    np.testing.assert_allclose(computed("g", tmp_path, "from some.where import g", functions=given), Y + 1)


SPECAUGMENT = """
from TFUtil import where_bc
def one_mask(x, batch_axis, axis, begin, most):
    size, rank = tf.shape(x)[axis], x.get_shape().ndims
    end = begin + tf.random_uniform(shape=(tf.shape(x)[batch_axis],), minval=1, maxval=most + 1, dtype=tf.int32)
    at = tf.expand_dims(tf.range(0, size), 0)
    inside = tf.logical_and(at >= tf.expand_dims(begin, 1), at < tf.expand_dims(tf.minimum(end, size), 1))
    inside = tf.reshape(inside, [tf.shape(x)[i] if i in (batch_axis, axis) else 1 for i in range(rank)])
    return where_bc(inside, 0.0, x)
def random_mask(x, batch_axis, axis, min_num, max_num, max_dims):
    n_batch = tf.shape(x)[batch_axis]
    count = tf.random_uniform(shape=(n_batch,), minval=min_num, maxval=max_num + 1, dtype=tf.int32)
    draws = -tf.log(-tf.log(tf.random_uniform((n_batch, tf.shape(x)[axis]), 0, 1)))
    _, begins = tf.nn.top_k(draws, tf.reduce_max(count))
    return tf.while_loop(
        cond=lambda i, _: tf.less(i, tf.reduce_max(count)),
        body=lambda i, y: (i + 1, tf.where(
            tf.less(i, count), one_mask(y, batch_axis, axis, begins[:, i], max_dims), y)),
        loop_vars=(0, x))[1]
def transform(x, network):
    late = tf.where(tf.greater_equal(network.global_train_step, 100), 1, 0)
    def masked():
        y = random_mask(x, batch_axis=0, axis=1, min_num=late, max_num=tf.maximum(tf.shape(x)[1] // 100, 2) * late,
                        max_dims=20)
        y = random_mask(y, batch_axis=0, axis=2, min_num=late, max_num=late, max_dims=2)
        tf.summary.image("masked", tf.expand_dims(y, 3))
        return y
    return network.cond_on_train(masked, lambda: x)
"""


def test_specaugment_is_interpreted(tmp_path):
    text = "\"self.network.get_config().typed_value('transform')(source(0), network=self.network)\""
    layer = f"{{'class': 'eval', 'eval': {text}, 'from': 'data'}}"
    net = net_of(layer, tmp_path, SPECAUGMENT, train_flag=True)
    ones = np.ones((5, 90, 4), "float32")
    zeros = {}
    for step in (0, 100):
        rf.init_train_step_run_ctx(step=step)
        zeros[step] = net.forward({"data": ones})["output"].copy_transpose(net.template("output").dims).raw_tensor == 0
    assert not zeros[0].any()
    late = zeros[100].numpy()
    for sequence in late:  # 1 or 2 stretches of up to 20 frames, and 1 or 2 of the features
        frames, features = sequence.all(1), sequence.all(0)
        assert 1 <= frames.sum() <= 40
        assert 1 <= features.sum() <= 2
        assert (sequence == frames[:, None] | features).all()
    assert len({sequence.tobytes() for sequence in late}) > 1
    net = net_of(layer, tmp_path, SPECAUGMENT)
    assert (net.forward({"data": ones})["output"].raw_tensor == 1).all()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("tf.py_func(print, source(0))", "py_func"),
        ("self.network.get_config().typed_value('g')(source(0))", "g"),
        ("tf.image.resize(source(0), 3)", "resize"),
        ("source(0) if source(0) > 0 else source(1)", "neither true nor false"),
        ("tf.reshape(source(0), [7, -1])", "reshape"),
        ("tf.concat([source(0), source(1)], axis=1)", "layer of the class concat"),
        ("tf.reduce_sum(source(0), axis=3)", "axis 3"),
        ("tf.nn.relu('x')", "tensor"),
    ],
)
def test_what_is_not_known_is_named(text, words, tmp_path):
    with pytest.raises(NetworkError, match="output") as caught:
        computed(repr(text), tmp_path, "from some.where import g")
    assert words in str(caught.value)


HOSTILE = [
    "().__class__.__mro__",
    "source.__globals__['os']",
    "tf.__builtins__",
    "source(0).__class__",
    "self.network.__dict__",
    "'{0.__class__}'.format(source)",
    "[x for x in range(10**9)]",
    "10**10**10 * source(0)",
    "(lambda f: f(f))(lambda f: f(f))",
    "open('/etc/passwd').read()",
    "__import__('os').system('true')",
    "source(0).x",
    "eval('1 .__class__')",
    "eval('open')",
    "eval('source.__globals__')",
]


def test_a_function_without_an_end_is_stopped(tmp_path):
    more = "def f(x):\n    while True:\n        x = x\n    return x"
    with pytest.raises(RfError, match="too many steps"):
        computed("\"self.network.get_config().typed_value('f')(source(0))\"", tmp_path, more)


@pytest.mark.parametrize("text", HOSTILE)
def test_nothing_of_python_can_be_reached(text, tmp_path):
    with pytest.raises(RfError, match="output"):
        computed(repr(text), tmp_path)


def test_an_activation_may_be_a_function_of_the_config(tmp_path):
    layer = "{'class': 'activation', 'activation': f, 'from': 'data'}"
    net = net_of(
        layer, tmp_path, "def f(x):\n    return tf.nn.relu(x) * 2.0 - tf.reduce_max(x, axis=-1, keepdims=True)"
    )
    out = net.forward({"data": X})["output"].copy_transpose(net.template("output").dims).raw_tensor.numpy()
    np.testing.assert_allclose(out, np.maximum(X, 0) * 2 - X.max(-1, keepdims=True), rtol=1e-5)
    net = net_of("{'class': 'activation', 'activation': tf.nn.relu, 'from': 'data'}", tmp_path)
    np.testing.assert_array_equal(net.forward({"data": X})["output"].raw_tensor.numpy(), np.maximum(X, 0))


def test_what_is_not_an_expression_says_why():
    net = rf.Network(extern_data=rf.ExternData({"data": {"dim": 4}}))
    with pytest.raises(NetworkError, match=r"eval is not an expression: .* never closed"):
        net.construct_from_dict({"output": {"class": "eval", "eval": "source(0", "from": "data"}})

"""edit_distance_table and optimal_completions against the table of Wagner and Fischer, row by row."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

from rfnb.errors import NetworkError
from tests.examples import examples
from tests.netdict.layers.rec.nets import array, run

EXTERN = {"data": {"dim": 4, "sparse": True}, "classes": {"dim": 3, "sparse": True}}


def net_dict(blank=None):
    more = {} if blank is None else {"blank_idx": blank}
    target = {"target": "layer:base:data:classes", **more}
    return {
        "output": {
            "class": "rec",
            "from": "data",
            "unit": {
                "output": {"class": "edit_distance_table", "from": "data:source", **target},
                "next": {"class": "optimal_completions", "from": "prev:output", "is_output_layer": True, **target},
            },
        }
    }


def following(row, n, label, target):
    """The row after one more label."""
    new = [n + 1]
    for j, b in enumerate(target, 1):
        new.append(min(row[j] + 1, new[j - 1] + 1, row[j - 1] + (label != b)))
    return new


def batch(sequences, dim):
    rng = np.random.default_rng(sum(sequences) + dim)
    return rng.integers(0, dim, size=(len(sequences), max(sequences))).astype("int32"), sequences


@pytest.mark.parametrize("blank", [None, 3])
@examples(8)
@given(lengths=st.lists(st.tuples(st.integers(1, 5), st.integers(1, 5)), min_size=1, max_size=3))
def test_rows_and_completions(blank, lengths):
    data = {"data": batch([a for a, _ in lengths], 4), "classes": batch([b for _, b in lengths], 3)}
    _, out = run(net_dict(blank), EXTERN, data)
    rows, completions = array(out["output"]), array(out["output/next"])
    assert completions.shape[-1] == (3 if blank is None else 4)
    for b, (frames, length) in enumerate(lengths):
        target, row, n = data["classes"][0][b, :length].tolist(), list(range(length + 1)), 0
        for t, label in enumerate(data["data"][0][b, :frames].tolist()):
            expected = [min(following(row, n, a, target)) for a in range(completions.shape[-1])]
            if blank is not None:
                expected[blank] = min(row)
            assert completions[b, t].tolist() == expected
            if label != blank:
                row, n = following(row, n, label, target), n + 1
            assert rows[b, t, : length + 1].tolist() == row


def test_the_last_row_has_the_edit_distance():
    net = net_dict()
    net["distance"] = {"class": "edit_distance", "a": "data", "b": "data:classes", "is_output_layer": True}
    data = {"data": batch([4, 2], 4), "classes": batch([3, 5], 3)}
    _, out = run(net, EXTERN, data)
    rows = array(out["output"])
    assert [rows[0, 3, 3], rows[1, 1, 5]] == array(out["distance"]).tolist()


def test_without_a_target_or_a_loop_is_an_error():
    table = {"class": "edit_distance_table", "from": "data", "target": "layer:data:classes"}
    data = {"data": batch([2], 4), "classes": batch([2], 3)}
    with pytest.raises(NetworkError, match="layer of a loop"):
        run({"output": table}, EXTERN, data)
    with pytest.raises(NetworkError, match="target is missing"):
        run({"output": {**table, "target": None}}, EXTERN, data)

"""None in states: it is carried as None; what is None at some steps only is refused."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb.errors import LoopError

feat = rf.Dim(2, name="feat")


def run(initial, body, **options):
    loop = rf.Loop(max_seq_len=3, **options)
    loop.state.s = initial
    with loop:
        loop.state.s = body(loop.state.s)
    return loop


def test_none_stays_none():
    initial = rf.State(h=rf.zeros([feat]), cache=None, parts=[None, rf.ones([feat])])
    loop = run(initial, lambda s: rf.State(h=s.h + s.parts[1], cache=None, parts=[None, s.parts[1] * 2.0]), debug=True)
    s = loop.state.s
    assert s.cache is None and s.parts[0] is None
    assert s.h.raw_tensor.tolist() == [7.0, 7.0] and s.parts[1].raw_tensor.tolist() == [8.0, 8.0]
    assert [loop.run[i].check for i in range(3)] == ["replay agrees"] * 3
    with loop:  # goes on from there
        loop.state.s.h = loop.state.s.h + 1.0
    assert loop.state.s.h.raw_tensor.tolist() == [10.0, 10.0] and loop.state.s.cache is None


def test_a_loop_whose_only_state_is_none():
    loop = run(None, lambda s: s)
    assert loop.state.s is None


def test_in_functions():
    final = rf.while_loop(
        lambda s: s["n"] < 5, lambda s: {"n": s["n"] + 1, "x": None}, {"n": rf.convert_to_tensor(0), "x": None}
    )
    assert final["n"].item() == 5 and final["x"] is None
    time = rf.Dim(3, name="time")
    (sums, nothing), last, _ = rf.scan(
        spatial_dim=time,
        xs=rf.range_over_dim(time),
        initial=rf.State(a=rf.convert_to_tensor(0), b=None),
        body=lambda x, s: ((s.a, None), rf.State(a=s.a + x, b=None)),
    )
    assert sums.raw_tensor.tolist() == [0, 0, 1] and nothing is None and last.a.item() == 3 and last.b is None


def inside(s):
    s.cache = s.h * 2.0
    return s


def more(s):
    s.other = s.h * 2.0
    return s


REFUSED = {
    "later": (lambda s: rf.State(h=s.h, cache=s.h + 1.0), r"loop.state.s.cache = rf.zeros\(\[feat\], dtype="),
    "set inside": (inside, "'s.cache' is None at first"),
    "a new entry": (more, "different structure"),
    "gone": (lambda s: rf.State(h=None, cache=None), "'s.h' is a tensor at first, and None later"),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_none_at_some_steps(name):
    body, words = REFUSED[name]
    loop = rf.Loop(max_seq_len=3)
    initial = loop.state.s = rf.State(h=rf.zeros([feat]), cache=None)
    with pytest.raises(LoopError, match=words), loop:
        loop.state.s = body(loop.state.s)
    assert loop.state.s is initial and initial.cache is None and list(initial) == ["h", "cache"]

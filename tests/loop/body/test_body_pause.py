"""`rf.pause` at lines where a loop cannot be held."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb.errors import LoopError


def inner(n):
    """A loop inside of a loop that pauses."""
    loop = rf.Loop(max_seq_len=2, name="inner")
    loop.state.m = n
    with loop:
        rf.pause()
        loop.state.m = loop.state.m + 1
    return loop.state.m


def branch(n):
    """A branch that pauses."""

    def yes():
        rf.pause()
        return n

    return rf.cond(n > 1, yes, lambda: n)


@pytest.mark.parametrize("body", [branch, inner])
def test_pause_in_a_branch_or_an_inner_loop_is_refused(body):
    loop = rf.Loop(max_seq_len=2, name="outer", debug=True)
    loop.state.n = rf.convert_to_tensor(1)
    with pytest.raises(LoopError, match=r"rf\.pause\(\) in .*(branch|inner)"), loop:
        loop.state.n = body(loop.state.n)

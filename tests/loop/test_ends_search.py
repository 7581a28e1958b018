"""`run.lengths`, `run.begun` and `run.ends` of a search are those of its hypotheses."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.search.test_choice import Net, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


@examples(60)
@given(
    labels=st.integers(1, 4), batch=st.integers(1, 3), beam=st.integers(1, 5), limit=st.integers(0, 5),
    include=st.booleans(), apart=st.booleans(), seed=st.integers(0, 1000),
)  # fmt: skip
def test_the_longest_hypothesis_says_how_many_steps(labels, batch, beam, limit, include, apart, seed):
    options = {"ended": "apart", "patience": 1.0} if apart and beam > 1 and labels > 1 else {}
    loop, _ = search(Net(labels, batch, seed), batch, beam, limit, include_eos=include, debug=True, **options)
    run = loop.run
    if not limit:
        return
    expected = [max((len(one.labels) for one in tree.hypotheses), default=0) for tree in loop.found.tree]
    assert run.lengths == expected == loop.found.trace.lengths.max(axis=1).tolist()
    for tree, length, why, begun in zip(loop.found.tree, expected, run.ends, run.begun.values, strict=True):
        if all(one.complete for one in tree.hypotheses):
            last = max(one.taken for one in tree.hypotheses) - 1  # the step at which the longest one ended
            assert why == f"ended at {last}: end was true" and begun == last + 1
        else:
            assert why == f"max steps ({limit})" and length == begun == limit


def test_a_fork_and_a_file_have_their_own(tmp_path):
    loop, _ = search(Net(4, 3, 5), 3, 3, 5, debug=True)
    run = loop.run
    loaded = rf.load_run(run.save(tmp_path / "x.rfrun"))
    assert (loaded.lengths, loaded.ends) == (run.lengths, run.ends)
    tree = run.found.tree[0]
    kept = tree.keep(tree.pruned(0)[0])
    assert kept.run.lengths == np.where(kept.alive[-1].any(), kept.trace.lengths, 0).max(axis=1).tolist()
    assert kept.run.ends[1:] == run.ends[1:]

"""Length normalization with the offset of Wu et al. 2016 against a search over dicts."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import ParameterError
from tests.examples import examples
from tests.search.test_choice import STATE, Net, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def truth(net, sequence, beam_size, limit, exponent, offset):
    """The final hypotheses of one sequence, by score / ((offset + length) / (offset + 1)) ** exponent."""

    def compared(one):
        return one[1] / ((offset + len(one[0])) / (offset + 1)) ** exponent

    beam = [((), 0.0, False, np.zeros(STATE, "float32"))]
    for _ in range(limit):
        found = []
        for labels, score, ended, h in beam:
            if ended:
                found.append((labels, score, True, h))
                continue
            new, log_probs = net.step(h, labels[-1] if labels else 0, sequence)
            found += [((*labels, i), score + log_prob, i == 1, new) for i, log_prob in enumerate(log_probs)]
        beam = sorted(found, key=compared, reverse=True)[:beam_size]
        if all(ended for _, _, ended, _ in beam):
            break
    return [(labels, compared((labels, score))) for labels, score, *_ in beam]


@examples(40)
@given(
    batch=st.integers(1, 3), beam=st.integers(1, 6), limit=st.integers(1, 6), seed=st.integers(0, 1000),
    exponent=st.sampled_from([0.6, 1.0]), offset=st.sampled_from([0.0, 5.0]),
)  # fmt: skip
def test_an_offset_agrees_with_a_search_over_dicts(batch, beam, limit, seed, exponent, offset):
    net, options = Net(4, batch, seed), {"length_normalization_exponent": exponent}
    loop, _ = search(net, batch, beam, limit, include_eos=True, length_normalization_offset=offset, **options)
    for sequence, tree in enumerate(loop.found.tree):
        expected = truth(net, sequence, beam, limit, exponent, offset)
        assert [tuple(each.labels) for each in tree.hypotheses] == [labels for labels, _ in expected]
        assert [each.score for each in tree.hypotheses] == pytest.approx([score for _, score in expected], abs=1e-4)
        assert tree.compared[-1][: len(expected)] == pytest.approx([score for _, score in expected], abs=1e-4)


def test_a_saved_search_and_rerank_keep_the_offset(tmp_path):
    net = Net(4, 2, 3)
    found = search(net, 2, 4, 5, include_eos=True, length_normalization_offset=5.0)[0].found
    whole = rf.search.load(found.save(tmp_path / "x.rfbeam"))
    again = found.rerank(length_normalization_exponent=0.6)
    for tree, loaded, reranked in zip(found.tree, whole.tree, again.tree, strict=True):
        as_json = rf.search.Tree.from_json(tree.to_json())
        scores = [each.score for each in tree.hypotheses]
        assert [each.score for each in loaded.hypotheses] == scores
        assert as_json.compared[-1] == pytest.approx(tree.compared[-1], abs=0.01)
        sums = {tuple(each.labels): each.score * ((5 + len(each.labels)) / 6) for each in tree.hypotheses}
        for each in reranked.hypotheses:
            n = len(each.labels)
            assert each.score == pytest.approx(sums[tuple(each.labels)] / ((5 + n) / 6) ** 0.6, abs=1e-4)


def test_a_negative_offset_is_refused():
    with pytest.raises(ParameterError, match="length_normalization_offset"):
        search(Net(3, 1), 1, 2, 2, length_normalization_offset=-1.0)


@examples(25)
@given(
    limits=st.lists(st.integers(1, 6), min_size=1, max_size=3), beam=st.integers(1, 4), seed=st.integers(0, 1000),
    end=st.sampled_from([0, 1]), include_eos=st.booleans(),
)  # fmt: skip
def test_a_limit_of_each_sequence_gives_what_each_gives_alone(limits, beam, seed, end, include_eos):
    """Hypotheses that the limit cuts off have not ended, even where other sequences go on, and whatever label 0 is."""
    net = Net(3, len(limits), seed)
    given_limits = rf.convert_to_tensor(np.array(limits), dims=[rf.batch_dim])
    together = search(net, len(limits), beam, given_limits, end=end, include_eos=include_eos)[0].found
    for sequence, limit in enumerate(limits):
        one = Net(3, 1, seed)
        one.tensors[-1] = rf.convert_to_tensor(net.x[sequence : sequence + 1], dims=one.tensors[-1].dims)
        for i, x in enumerate((net.a, net.e, net.u)):
            one.tensors[i] = rf.convert_to_tensor(x, dims=one.tensors[i].dims)
        alone = search(one, 1, beam, limit, end=end, include_eos=include_eos)[0].found.tree[0]
        found = together.tree[sequence]
        assert [each.labels for each in found.hypotheses] == [each.labels for each in alone.hypotheses]
        scores = [[each.score for each in tree.hypotheses] for tree in (found, alone)]
        assert scores[0] == pytest.approx(scores[1], abs=1e-5)
        assert [each.complete for each in found.hypotheses] == [each.complete for each in alone.hypotheses]

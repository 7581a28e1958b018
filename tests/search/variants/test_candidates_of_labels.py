"""Several labels in a step: the tree shows all of them."""

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

PHONES, TONES = ["</s>", "a", "b"], ["low", "mid", "high"]


def searched(seed, batch, beam_size, limit, how, tones=TONES, between=None, **options):
    random = np.random.default_rng(seed)
    phone, tone = rf.Dim(3, name="phone", vocab=PHONES), rf.Dim(3, name="tone", vocab=tones)
    last, last_tone = rf.Dim(3, name="last"), rf.Dim(3, name="last tone")
    table = rf.convert_to_tensor(random.normal(size=(batch, 3, 3)).astype("float32"), dims=[rf.batch_dim, last, phone])
    tones = rf.convert_to_tensor(random.normal(size=(3, 3)).astype("float32"), dims=[last_tone, tone])
    beam = rf.Dim(beam_size, name="beam")
    loop = rf.Loop(max_seq_len=limit, name="search")
    loop.state.phone = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=phone)
    loop.state.tone = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=tone)
    with loop:
        of_phone = rf.log_softmax(rf.gather(table, indices=loop.state.phone, axis=last), axis=phone)
        of_tone = rf.log_softmax(rf.gather(tones, indices=loop.state.tone, axis=last_tone), axis=tone)
        if how == "choices":
            size = between or beam_size + 1
            first = loop.choice(of_phone, beam=beam, axis=phone, input_type="log_prob", beam_size=size, **options)
            second = loop.choice(first.follow(of_tone), beam=beam, axis=tone, input_type="log_prob", **options)
            phones, chosen_tones = second.follow(first.labels), second.labels
        else:
            both = loop.choice(
                [of_phone, of_tone], beam=beam, axis=[phone, tone], input_type="log_prob", **options,
                source_beam_sizes=between and [between - 1] * 2,
            )  # fmt: skip
            phones, chosen_tones = both.labels
        loop.state.phone, loop.state.tone = phones, chosen_tones
        loop.end(phones == 0, include_eos=True)
        stacked = loop.stack(phones), loop.stack(chosen_tones)
    return loop.found, [x.copy_transpose([rf.batch_dim, beam, loop.axis]).raw_tensor.tolist() for x in stacked]


@examples(25)
@given(
    seed=st.integers(0, 1000), batch=st.integers(1, 3), beam=st.integers(1, 4), limit=st.integers(1, 4),
    how=st.sampled_from(["choices", "sources"]),
)  # fmt: skip
def test_the_tree_has_the_labels_of_all_choices(seed, batch, beam, limit, how):
    found, (phones, tones) = searched(seed, batch, beam, limit, how)
    for tree in found.tree:
        for one in tree.hypotheses:
            at = tree.sequence, one.place
            pairs = zip(phones[at[0]][at[1]], tones[at[0]][at[1]], strict=True)
            expected = [f"{PHONES[a]}/{TONES[b]}" for a, b in pairs][: len(one.labels)]
            assert [tree.label(label) for label in one.labels] == expected
            life = [tree.node(step, place).text for step, place in enumerate(one.places)]
            assert life[: len(expected)] == expected


@pytest.mark.parametrize("how", ["choices", "sources"])
def test_references_files_and_the_same_alone(how, tmp_path):
    found, _ = searched(3, 2, 3, 3, how)
    tree = found.tree[1]
    text = [tree.label(label) for label in tree.best.labels]
    assert tree.where(text).verdict == "correct"
    again = rf.search.load(found.save(tmp_path / "x.rfbeam")).tree[1]
    assert again.best.text == tree.best.text and rf.search.Tree.from_json(tree.to_json()).best.text == tree.best.text


def test_labels_with_a_slash_are_told_apart():
    found, _ = searched(3, 1, 3, 3, "choices", tones=["low", "a/low", "mid"])
    assert all("/" in found.tree[0].label(label) for label in found.tree[0].best.labels)


def test_only_combinations_that_occur_have_a_number():
    found, _ = searched(3, 1, 1, 2, "choices")
    assert len(found.trace.vocab) == len(np.unique(found.trace.labels)) <= 2

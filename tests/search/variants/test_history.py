"""What a hypothesis has already: against `generate` of transformers, in loops, and against the words of the rule."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, ParameterError
from tests.examples import examples
from tests.search.test_choice import Net
from tests.search.test_decoding_variants import decoded
from tests.search.variants.test_constraints import search

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")

SIZE, LIMIT, WIDE = 6, 3, 128
LABEL = rf.Dim(SIZE, name="label", vocab=["<pad>", "</s>", "a", "b", "c", "d"])
PROMPTS = [[2, 3, 4], [5, 2, 5]]


def gpt2(seed):
    """A step of a tiny GPT-2, and what `generate` gets."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": SIZE, "n_positions": 32, "n_embd": 16, "n_layer": 1, "n_head": 2}
    config = transformers.GPT2Config(**sizes, bos_token_id=0, eos_token_id=1, pad_token_id=0)
    model, prompts = loud(transformers.GPT2LMHeadModel(config)), torch.tensor(PROMPTS)

    def step(prev, ids):
        ids = torch.cat([ids, prev[:, None]], 1)
        return model(ids).logits[:, -1], ids

    start = {"state": prompts[:, :-1], "start": prompts[:, -1].tolist()}
    return model, step, start, {"input_ids": prompts, "attention_mask": torch.ones_like(prompts)}, PROMPTS


def t5(seed):
    """A step of a tiny T5, and what `generate` gets."""
    torch.manual_seed(seed)
    sizes = {"vocab_size": SIZE, "d_model": 16, "d_kv": 8, "d_ff": 16, "num_layers": 1, "num_heads": 2}
    config = transformers.T5Config(**sizes, decoder_start_token_id=0, eos_token_id=1, pad_token_id=0)
    model, source = loud(transformers.T5ForConditionalGeneration(config)), torch.tensor(PROMPTS)

    def step(prev, state):
        encoded, ids = state
        ids = torch.cat([ids, prev[:, None]], 1)
        return model(encoder_outputs=(encoded,), decoder_input_ids=ids).logits[:, -1], (encoded, ids)

    with torch.no_grad():
        encoded = model.encoder(source).last_hidden_state
    start = {"state": (encoded, torch.zeros(2, 0, dtype=torch.int64)), "start": 0}
    return model, step, start, {"input_ids": source, "attention_mask": torch.ones_like(source)}, [[0], [0]]


def loud(model):
    """The model with weights by which its outputs differ."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() > 1:
                parameter.mul_(8)
    return model.eval()


BAD = [[2, 3], [4], [5, 5, 2], [3, 1]]
OPTIONS = {
    "repetition": {"repetition_penalty": 1.7},
    "a reward": {"repetition_penalty": 0.6},
    "no repeat": {"no_repeat_ngram_size": 2},
    "bad words": {"bad_words_ids": BAD},
    "minimum": {"min_new_tokens": 2},
    "ends": {"eos_token_id": [1, 4]},
    "all": {
        "repetition_penalty": 1.3, "no_repeat_ngram_size": 2, "bad_words_ids": [[2, 3], [5]], "min_new_tokens": 1,
        "eos_token_id": [1, 4],
    },
}  # fmt: skip


def of_ours(given, before):
    """Options of `generate` as ours."""
    end = given.get("eos_token_id", 1)
    constraints = [rf.search.lengths(end=end, minimum=given.get("min_new_tokens", 0))]
    if "no_repeat_ngram_size" in given:
        constraints.append(rf.search.no_repeat(given["no_repeat_ngram_size"], before=before))
    if "bad_words_ids" in given:
        constraints.append(rf.search.bad_words(given["bad_words_ids"], labels=LABEL, before=before))
    penalty = rf.search.repetition_penalty(given.get("repetition_penalty", 1.0), before=before)
    return {"end": end, "scorers": {"repetition": penalty}, "constraints": constraints}


@pytest.mark.parametrize("name", OPTIONS)
@pytest.mark.parametrize("make", [gpt2, t5])
def test_all_hypotheses_and_scores_are_those_of_generate(make, name):
    """With a beam for all sequences of labels, so that how places are given does not count."""
    for seed in range(2):
        model, step, start, inputs, before = make(seed)
        best = 10 if name == "all" else 20
        out = model.generate(
            **inputs, **OPTIONS[name], num_beams=WIDE, num_return_sequences=best, max_new_tokens=LIMIT,
            length_penalty=0.0, do_sample=False, output_scores=True, return_dict_in_generate=True,
        )  # fmt: skip
        with torch.no_grad():
            found = rf.search.decode(
                step, **start, **of_ours(OPTIONS[name], before), beam=WIDE, limit=LIMIT, labels=LABEL,
                length_normalization_exponent=0.0, include_eos=True,
            )  # fmt: skip
        for i, tree in enumerate(found.tree):
            got = {tuple(one.labels): one.score for one in tree.hypotheses}
            theirs = out.sequences[i * best : (i + 1) * best, len(out.sequences[0]) - LIMIT :].tolist()
            scores = out.sequences_scores[i * best : (i + 1) * best].tolist()
            pairs = [(cut(labels, tree), score) for labels, score in zip(theirs, scores, strict=True) if score > -1e8]
            assert len(pairs) > 5
            assert {labels: got[labels] for labels, _ in pairs} == pytest.approx(dict(pairs), abs=1e-4)
            assert sorted(got.values())[-len(pairs) :] == pytest.approx(sorted(dict(pairs).values()), abs=1e-4)
            for one in tree.hypotheses:
                assert one.sum == pytest.approx(sum(one.parts.values()), abs=1e-4)


def cut(labels, tree):
    """The labels up to the first one that ends them."""
    ends = [i for i, label in enumerate(labels) if label in tree.end_labels]
    return tuple(labels[: ends[0] + 1] if ends else labels)


def test_a_greedy_search_with_logits_is_that_of_generate():
    """Where scores are positive, too, which are divided by the penalty."""
    for seed in range(5):
        model, step, start, inputs, before = gpt2(seed)
        out = model.generate(**inputs, max_new_tokens=12, do_sample=False, repetition_penalty=1.5)
        penalty = rf.search.repetition_penalty(1.5, before=before)
        with torch.no_grad():
            found = rf.search.decode(
                step, **start, beam=1, end=1, limit=12, labels=LABEL, scorers={"again": penalty}, include_eos=True,
                input_type="log_prob",
            )  # fmt: skip
        for i, tree in enumerate(found.tree):
            assert tuple(tree.best.labels) == cut(out[i, 3:].tolist(), tree)


def test_a_processor_of_transformers_as_a_change():
    _, step, start, _, before = gpt2(1)
    processor = transformers.RepetitionPenaltyLogitsProcessor(1.7)

    def change(scores, so_far):
        ids = so_far.copy_transpose(so_far.dims).raw_tensor
        raw = processor(ids.reshape(-1, ids.shape[2]), scores.raw_tensor.reshape(-1, SIZE))
        return rf.convert_to_tensor(raw.reshape(scores.raw_tensor.shape), dims=scores.dims)

    options = {"beam": 4, "end": 1, "limit": 6, "labels": LABEL}
    with torch.no_grad():
        theirs = rf.search.decode(step, **start, **options, change=change)
        penalty = rf.search.repetition_penalty(1.7, before=[[row[-1]] for row in before])
        ours = rf.search.decode(step, **start, **options, scorers={"repetition": penalty})
    assert ours.nbest(4) == theirs.nbest(4)
    for one, other in zip(ours.tree, theirs.tree, strict=True):
        assert [x.score for x in one.hypotheses] == pytest.approx([x.score for x in other.hypotheses], abs=1e-4)


VERDICTS = "model error", "undecided"
"""Of a reference that may be ruled out."""


def parts_of(name, net, before):
    """A part of a score by name."""
    return {
        "repetition": lambda: rf.search.repetition_penalty(1.5, before=before),
        "presence": lambda: rf.search.presence_penalty(0.4, frequency=0.3, before=before),
        "no repeat": lambda: rf.search.no_repeat(2, before=before),
        "bad words": lambda: rf.search.bad_words(["ca", "e", "dd"], labels=net.label, before=before),
    }[name]()


@pytest.mark.parametrize("name", ["repetition", "presence", "no repeat", "bad words"])
@pytest.mark.parametrize("before", [None, "ac", ["ac", "", "ddd"]], ids=["none", "same", "each"])
def test_in_a_loop_as_in_decode(name, before):
    net = Net(5, 3, 2)
    found = decoded(net, 4, 6, scorers={"x": parts_of(name, net, before)})
    loop = search(net, 4, 6, {"x": parts_of(name, net, before)}, debug=True)
    assert found.nbest(4) == loop.found.nbest(4)
    for one, other in zip(found.tree, loop.found.tree, strict=True):
        assert [x.score for x in one.hypotheses] == pytest.approx([x.score for x in other.hypotheses], abs=1e-5)
        assert [x.parts for x in other.hypotheses] == [pytest.approx(x.parts, abs=1e-5) for x in one.hypotheses]
        lost = other.where("aaca")  # the steps are computed again, with these labels only
        assert lost.verdict in (("search error", "model error") if name in ("repetition", "presence") else VERDICTS)


@examples(25)
@given(
    seed=st.integers(0, 1000), presence=st.sampled_from([0.0, 0.7]), frequency=st.sampled_from([0.0, -0.4, 0.9]),
    penalty=st.sampled_from([1.0, 2.0, 0.5]),
)  # fmt: skip
def test_each_hypothesis_has_the_score_of_the_rule(seed, presence, frequency, penalty):
    net, before = Net(4, 1, seed), [2, 2, 3]
    penalties = {
        "presence": rf.search.presence_penalty(presence, frequency=frequency, before=before),
        "repetition": rf.search.repetition_penalty(penalty, before=before),
    }
    found = decoded(net, 200, 3, scorers=penalties, length_normalization_exponent=0.0)
    for one in found.tree[0].hypotheses:
        h, last, so_far, total = np.zeros(len(net.a), "float32"), 0, list(before), 0.0
        for label in [*one.labels, *([1] if one.complete else [])]:
            h, log_probs = net.step(h, last, 0)
            count, score = so_far.count(label), log_probs[label]
            score -= presence * (count > 0) + frequency * count
            if count:
                score = score * penalty if score < 0 else score / penalty
            total += score
            last = label
            so_far.append(label)
        assert one.score == pytest.approx(total, abs=1e-4)


def test_labels_before_as_tensors_of_any_padding():
    net, prompt = Net(5, 3, 2), rf.Dim(None, name="prompt")
    lists = [[3, 4], [], [2, 3, 3]]
    right = rf.convert_to_tensor([[3, 4, 0], [0, 0, 0], [2, 3, 3]], dims=[rf.batch_dim, prompt], lengths=[2, 0, 3])
    left = rf.convert_to_tensor([[-1, 3, 4], [-1, -1, -1], [2, 3, 3]], dims=[rf.batch_dim, rf.Dim(3, name="left")])
    expected = decoded(net, 4, 6, scorers={"x": rf.search.repetition_penalty(2.5, before=lists)}).nbest(4)
    assert expected != decoded(net, 4, 6, scorers={"x": rf.search.repetition_penalty(2.5)}).nbest(4)
    for before in (right, left):
        found = decoded(net, 4, 6, scorers={"x": rf.search.repetition_penalty(2.5, before=before)})
        assert found.nbest(4) == expected


def test_what_is_ruled_out_stays_so_and_only_falls_is_known():
    class Resurrection:
        def initial_state(self, *, batch_dims):
            return None

        def change(self, scores, label, state):
            return scores * 0.0, state

    net = Net(5, 1, 2)
    found = decoded(net, 3, 4, scorers={"only": rf.search.allowed("bc"), "same": Resurrection()})
    assert {*found.nbest(3)[0]} == {"", "c", "cc"}
    with pytest.raises(ParameterError, match="most_gain"):
        decoded(net, 3, 4, scorers={"x": rf.search.repetition_penalty(0.5)}, early_stop=1)
    for part in (rf.search.repetition_penalty(1.5), rf.search.presence_penalty(0.5)):
        early = decoded(net, 3, 4, scorers={"x": part}, early_stop=1)
        assert early.nbest(1) == decoded(net, 3, 4, scorers={"x": part}).nbest(1)


def test_ctc_has_no_bad_words_and_pays_for_presence():
    time, axis = rf.Dim(4, name="time"), rf.Dim(3, name="axis", vocab=["-", "a", "b"])
    frames = rf.log_softmax(rf.convert_to_tensor(np.eye(4, 3) + np.ones((4, 3)), dims=[time, axis]), axis=axis)
    options = {"spatial_dim": time, "axis": axis, "blank": 0, "beam": 60}
    plain = rf.search.ctc_beam(frames, **options).tree[0].hypotheses
    clean = rf.search.ctc_beam(frames, **options, scorers={"x": rf.search.bad_words(["ab", "bb"], labels=axis)}).tree[0]
    assert [x.text for x in clean.hypotheses] == [x.text for x in plain if not {"ab", "bb"} & {x.text[:2], x.text[1:3]}]
    paid = rf.search.ctc_beam(frames, **options, scorers={"x": rf.search.presence_penalty(0.5)}).tree[0].hypotheses
    scores = {x.text: x.score for x in plain}
    for x in paid:
        assert x.score == pytest.approx(scores[x.text] - 0.5 * (len(x.text) - len(set(x.text))), abs=1e-4)
    with pytest.raises(ParameterError, match="'x' cannot change the sum of scores"):
        rf.search.ctc_beam(frames, **options, scorers={"x": rf.search.repetition_penalty(2.0)})


@pytest.mark.parametrize(
    ("wrong", "error", "words"),
    [
        (lambda: rf.search.repetition_penalty(0.0), ParameterError, "not above 0"),
        (lambda: rf.search.repetition_penalty(math.nan), ParameterError, "finite number"),
        (lambda: rf.search.repetition_penalty(1.2, within=0), ParameterError, "within"),
        (lambda: rf.search.presence_penalty("much"), ParameterError, "finite number"),
        (lambda: rf.search.bad_words(["ab", ""], labels=Net(3, 1).label), ParameterError, "a word has no labels"),
        (lambda: rf.search.bad_words([[7]], labels=Net(3, 1).label), ParameterError, "no such label"),
        (lambda: decoded(Net(3, 2), 2, 3, [rf.search.no_repeat(1, before=[[1]])]), ParameterError, "`before`"),
        (lambda: decoded(Net(3, 2), 2, 3, [rf.search.no_repeat(1, before=rf.zeros([]))]), DimError, "before"),
    ],
)  # fmt: skip
def test_wrong_arguments(wrong, error, words):
    with pytest.raises(error, match=words):
        wrong()

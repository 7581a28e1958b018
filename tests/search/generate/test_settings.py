"""Settings of `generate` that are missing, or do not give the output."""

import pytest
import torch

import rfnb as rf
from rfnb.errors import SearchError
from rfnb.search.generate.scores import KeptScores
from tests.search.generate.models import generate, make_model

BEAMS = {
    "num_beams": 3,
    "num_return_sequences": 2,
    "length_penalty": 0.5,
    "early_stopping": True,
    "eos_token_id": [8, 26, 35],
    "pad_token_id": 0,
    "max_new_tokens": 12,
    "sequence_bias": {(8,): 2.0, (26,): 1.0, (35,): 1.0},
}
GREEDY = {"max_new_tokens": 6, "eos_token_id": 2, "pad_token_id": 0}
INPUTS = {"input_ids": torch.tensor([[5, 6, 7], [9, 4, 3]])}


def made(options, change, config=None, name="gpt2"):
    out = generate(make_model(name), INPUTS, **options)
    options = {key: value for key, value in {**options, **change}.items() if value != "missing"}
    return rf.search.from_generate(out, None, config, **options)


def test_the_settings_of_the_call_give_its_tree():
    assert made(BEAMS, {}).tree[0].hypotheses and made(GREEDY, {}).tree[0].hypotheses


@pytest.mark.parametrize("name", ["num_beams", "length_penalty", "early_stopping", "eos_token_id"])
def test_a_setting_that_is_missing_is_named(name):
    with pytest.raises(SearchError, match=f"`{name}` is not known"):
        made(BEAMS, {name: "missing"})


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"num_beams": 2}, 3),
        ({"num_beams": 1}, 3),
        ({"num_return_sequences": 1}, 2),
        ({"length_penalty": 1.0}, "about 0.5"),
        ({"early_stopping": "never"}, True),
        ({"eos_token_id": [26, 35]}, None),
        ({"eos_token_id": 3}, None),
        ({"max_new_tokens": 2}, None),
    ],
    ids=str,
)
def test_a_setting_that_does_not_give_the_beams_is_named(change, expected):
    with pytest.raises(SearchError, match=f"not made with this `{next(iter(change))}`") as caught:
        made(BEAMS, change)
    assert expected is None or caught.value.expected == expected


@pytest.mark.parametrize(
    "change",
    [{"num_beams": 2}, {"num_return_sequences": 3}, {"eos_token_id": 7}, {"max_new_tokens": 5}, {"max_new_tokens": 7}],
    ids=str,
)
def test_a_setting_that_does_not_give_the_branches_is_named(change):
    with pytest.raises(SearchError, match=f"not made with this `{next(iter(change))}`"):
        made(GREEDY, change)


def test_samples_that_are_called_greedy_are_named():
    torch.manual_seed(1)
    with pytest.raises(SearchError, match="not made with this `do_sample`"):
        made({**GREEDY, "do_sample": True, "temperature": 3.0}, {"do_sample": False})


@pytest.mark.parametrize(
    ("setting", "words"),
    [
        ({"num_beam_groups": 3}, "groups"),
        ({"constraints": [1]}, "constraints"),
        ({"force_words_ids": [[1]]}, "constraints"),
        ({"penalty_alpha": 0.6}, "contrastive"),
        ({"assistant_model": "small"}, "assisted"),
        ({"prompt_lookup_num_tokens": 3}, "assisted"),
        ({"stop_strings": ["."]}, "stopping criteria"),
    ],
    ids=str,
)
def test_searches_that_are_not_made_again_are_named(setting, words):
    with pytest.raises(SearchError, match=words):
        made(BEAMS, setting)


def test_sampled_beams_are_refused_with_the_way_that_works():
    torch.manual_seed(1)
    with pytest.raises(SearchError, match=r"sampled(.|\n)*rf\.capture"):
        made({**BEAMS, "do_sample": True}, {})


def test_never_needs_the_longest_length():
    options = {**BEAMS, "early_stopping": "never"}
    with pytest.raises(SearchError, match="`max_length`"):
        made(options, {"max_new_tokens": "missing"})


def test_what_is_no_output_or_has_no_scores_says_how_to_get_them():
    model = make_model("gpt2")
    for out in (model.generate(**INPUTS, **GREEDY), "text", None):
        with pytest.raises(SearchError, match="output_scores=True"):
            rf.search.from_generate(out, None, model.generation_config, **GREEDY)
    out = generate(model, INPUTS, **GREEDY)
    with pytest.raises(SearchError, match=r"model\.generation_config"):
        rf.search.from_generate(out, None, model, **GREEDY)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"num_beams": 0}, "`num_beams` is less than 1"),
        ({"candidates": -1}, "candidates"),
        ({"model": "gpt2"}, "`model` has no method `generate`"),
    ],
)
def test_numbers_and_models_that_cannot_be_are_named(change, words):
    with pytest.raises(rf.errors.RfError, match=words):
        made(BEAMS, change)


def test_scores_that_are_nan_are_not_taken_for_a_wrong_setting():
    out = generate(make_model("gpt2"), INPUTS, **BEAMS)
    out.scores = (out.scores[0], out.scores[1] * float("nan"), *out.scores[2:])
    with pytest.raises(SearchError, match="the scores of step 1 are not finite"):
        rf.search.from_generate(out, None, **BEAMS)


def test_whisper_gives_no_scores_of_all_beams_but_those_are_kept():
    model, speech = make_model("whisper"), {"input_features": torch.randn(2, 8, 60)}
    options = {"num_beams": 3, "max_new_tokens": 6}
    kept = KeptScores.of(model.generation_config, **options)
    for _ in range(2):  # each call begins anew
        more = {"output_scores": True, "return_dict_in_generate": True, "logits_processor": [kept]}
        out = model.generate(**speech, **options, **more)
    with pytest.raises(SearchError, match="scores of all beams"):
        rf.search.from_generate(out, None, model.generation_config, **options)
    found = rf.search.from_generate(out, None, model.generation_config, kept=kept, **options)
    assert [tree.best.score for tree in found.tree] == pytest.approx(out.sequences_scores.tolist(), rel=1e-5)


def test_the_limit_is_found_where_none_is_given():
    found = made(BEAMS, {"max_new_tokens": "missing"})
    assert found.nbest(3) == made(BEAMS, {}).nbest(3)


def test_a_search_of_generate_is_kept_in_files(tmp_path):
    for options in (BEAMS, GREEDY):
        found = made(options, {})
        read = rf.search.load(found.save(tmp_path / "x.rfbeam"))
        assert read.tree[1].prompt == found.tree[1].prompt == (9, 4, 3)
        assert read.tree[1].end_labels == found.tree[1].end_labels and read.nbest(3) == found.nbest(3)
        again = rf.search.Tree.from_json(found.tree[1].to_json())
        assert (again.prompt, again.end_labels) == ((9, 4, 3), found.tree[1].end_labels)


def test_the_sequences_alone_are_enough_for_kept_candidates():
    kept = KeptScores.of(None, **BEAMS)
    model = make_model("gpt2")
    out = model.generate(**INPUTS, **BEAMS, logits_processor=[kept])
    assert isinstance(out, torch.Tensor)
    found = rf.search.from_generate(out, None, None, kept=kept, **BEAMS)
    assert found.nbest(2) == made(BEAMS, {}).nbest(2)
    with pytest.raises(SearchError, match=r"`early_stopping`|settings do not give"):
        rf.search.from_generate(out + 1, None, None, kept=kept, **BEAMS)

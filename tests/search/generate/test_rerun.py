"""The model of a search of `generate`, run again: forced scores, and candidates that are kept."""

from contextlib import suppress

import numpy as np
import pytest
import torch
from transformers import (
    BambaConfig,
    BambaForCausalLM,
    BertConfig,
    BertLMHeadModel,
    GenerationMixin,
    LogitsProcessor,
    XLNetConfig,
    XLNetLMHeadModel,
)

import rfnb as rf
from rfnb.errors import SearchError
from tests.search.generate.models import generate, make_model

IDS = torch.tensor([[0, 5, 6, 7], [9, 4, 3, 11]])
MASK = torch.tensor([[0, 1, 1, 1], [1, 1, 1, 1]])
ENDS = {"eos_token_id": [26, 10, 16], "pad_token_id": 0, "max_new_tokens": 7}
BEAMS = {**ENDS, "num_beams": 3, "length_penalty": 0.5, "repetition_penalty": 1.2, "sequence_bias": {(26,): 1.0}}
SAMPLES = {**ENDS, "do_sample": True, "temperature": 0.5, "top_k": 7, "num_return_sequences": 2}
CASES = [("gpt2", BEAMS), ("t5", BEAMS), ("bart", {**BEAMS, "min_new_tokens": 3}), ("gpt2", ENDS), ("t5", ENDS)]


def made(name, options, **more):
    model, inputs = make_model(name), {"input_ids": IDS, "attention_mask": MASK}
    out = generate(model, inputs, **options)
    return rf.search.from_generate(out, None, model.generation_config, model=model, **inputs, **options, **more)


@pytest.mark.parametrize(("name", "options"), [*CASES, ("gpt2", SAMPLES), ("t5", SAMPLES)])
def test_the_forced_score_of_a_hypothesis_is_its_own(name, options):
    for tree in made(name, options).tree:
        for hypothesis in tree.hypotheses:
            labels = tree.prefix(tree.steps - 1, hypothesis.place)
            [sums] = tree.trace.model.forced({tree.sequence: [labels]})[tree.sequence]
            steps = [tree.scores[step, place] for step, place in enumerate(hypothesis.places)][: len(labels)]
            assert sums == pytest.approx(steps, rel=1e-4, abs=1e-5)


class Forcing(LogitsProcessor):
    """The scores of given labels, step by step: each is the only one that the next step may follow."""

    def __init__(self, labels):
        self.labels, self.scores = list(labels), []

    def __call__(self, input_ids, scores):
        label = self.labels[len(self.scores)]
        self.scores.append(scores[0].clone())
        if len(self.scores) == len(self.labels):
            raise StopIteration
        return torch.full_like(scores, -np.inf).index_fill(1, torch.tensor([label]), 0.0)


def by_step(model, inputs, row, labels, options):
    forcing, beams = Forcing(labels), options.get("num_beams", 1) > 1
    one = {name: value[row : row + 1] for name, value in inputs.items()}
    with suppress(StopIteration):
        GenerationMixin.generate(
            model, **one, **options | {"num_beams": 2 if beams else 1, "logits_processor": [forcing]}
        )
    scores = forcing.scores if beams else [step.log_softmax(-1) for step in forcing.scores]
    return [float(step[label]) for step, label in zip(scores, labels, strict=True)]


def xlnet():
    return XLNetLMHeadModel(XLNetConfig(vocab_size=40, d_model=16, n_layer=1, n_head=2, d_inner=32)).eval()


def bert(causal):
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 1, "num_attention_heads": 2}
    model = BertLMHeadModel(BertConfig(vocab_size=40, **sizes, is_decoder=causal)).eval()
    model.get_output_embeddings().weight.data.mul_(20.0)
    return model


def bamba():
    """Its logits are those of the last label alone, whatever the caller asks for."""
    sizes = {"hidden_size": 16, "intermediate_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2}
    ssm = {"mamba_n_heads": 4, "mamba_d_head": 8, "mamba_d_state": 8, "mamba_chunk_size": 8}
    config = BambaConfig(vocab_size=40, **sizes, num_key_value_heads=1, **ssm, attn_layer_indices=[1])
    model = BambaForCausalLM(config).eval()
    model.get_output_embeddings().weight.data.mul_(20.0)
    return model


@pytest.mark.parametrize("options", [BEAMS, {**ENDS, "no_repeat_ngram_size": 2, "repetition_penalty": 1.3}])
@pytest.mark.parametrize("name", ["t5", "gpt2", "bart", "whisper", "bert", "xlnet", "bamba", "bert of both directions"])
def test_one_pass_gives_the_forced_scores_of_single_steps(name, options):
    others = {
        "xlnet": xlnet, "bamba": bamba, "bert": lambda: bert(True), "bert of both directions": lambda: bert(False)
    }  # fmt: skip
    model, inputs = others[name]() if name in others else make_model(name), {"input_ids": IDS, "attention_mask": MASK}
    if name == "whisper":
        inputs = {"input_features": torch.randn(2, 8, 60, generator=torch.Generator().manual_seed(2))}
    out = generate(model, inputs, **options)
    kept = [] if name == "whisper" else None  # without what its own `generate` adds
    more = {} if kept is None else {"logits_processor": kept}
    found = rf.search.from_generate(out, None, model.generation_config, **options).force(model, **inputs, **more)
    decoder = getattr(getattr(model, "model", model), "decoder", model)
    calls = []
    hook = decoder.register_forward_hook(lambda *of: calls.append(of))
    for row, labels in [(0, (8, 12, 30, 8, 12)), (1, (12, 9, 12, 26))]:
        calls.clear()
        scores = found.trace.model.scores(row, labels)
        passes = {"xlnet": len(labels), "bamba": len(labels) + 1, "bert of both directions": len(labels) + 2}
        assert len(calls) == passes.get(name, 1)
        assert scores == pytest.approx(by_step(model, inputs, row, labels, options), rel=1e-5, abs=1e-5)
    hook.remove()


@pytest.mark.parametrize("name", ["gpt2", "bart"])
def test_a_prompt_of_embeddings_is_forced_in_one_pass(name):
    model, inputs = make_model(name), {"attention_mask": MASK}
    inputs["inputs_embeds"] = model.get_input_embeddings()(IDS)
    options = {**BEAMS, "repetition_penalty": 1.0}
    out = generate(model, inputs, **options)
    found = rf.search.from_generate(out, None, model.generation_config, **options).force(model, **inputs)
    scores = found.trace.model.scores(0, (8, 12, 30))
    assert scores == pytest.approx(by_step(model, inputs, 0, (8, 12, 30), options), rel=1e-5, abs=1e-5)


def test_a_reference_that_was_not_found_is_an_error_of_model_or_search():
    tree = made("gpt2", {**BEAMS, "length_penalty": 0.0}).tree[1]
    where = tree.where([8, 12])
    scores = tree.trace.model.scores(1, (8, 12, 26))
    assert where.score == pytest.approx(sum(scores), rel=1e-5)
    assert dict(where.label_scores) == pytest.approx(dict(zip(("8", "12", "26"), scores, strict=True)), rel=1e-4)
    assert where.forced in where.text and where.forced in rf.show(where).text
    assert where.verdict == ("search error" if where.score > tree.best.score else "model error")


@pytest.mark.parametrize(("name", "options"), CASES)
@pytest.mark.parametrize("typed", [False, True])
def test_a_branch_that_joins_the_tree_is_what_generate_gives_after_it(name, options, typed):
    found, model = made(name, options), make_model(name)
    tree = found.tree[0]
    node = next(each for each in tree.pruned(2) if not each.ended and each.label not in ENDS["eos_token_id"])
    kept = tree.keep(2, 39) if typed else tree.keep(node)
    living = kept.trace.living or kept.beam
    place = (tree.trace.living or tree.beam) if living < kept.beam else tree.beam
    labels = kept.prefix(2, place)
    assert labels[-1] == (39 if typed else node.label)
    prompt = torch.tensor(
        [[*(IDS[0].tolist() if name == "gpt2" else [model.generation_config.decoder_start_token_id])]]
    )
    ids = torch.cat([prompt, torch.tensor([labels])], 1)
    if name == "gpt2":
        inputs = {"input_ids": ids, "attention_mask": torch.tensor([[0, *[1] * (ids.shape[1] - 1)]])}
    else:
        inputs = {"input_ids": IDS[:1], "attention_mask": MASK[:1], "decoder_input_ids": ids}
    rest = {"max_new_tokens": 4, "min_new_tokens": 0}
    out = generate(model, inputs, **{**options, **rest, "num_return_sequences": options.get("num_beams", 1)})
    expected = {tuple(row[row[:] >= 0].tolist()) for row in out.sequences[:, ids.shape[1] :]}
    branch = {each.labels[3:] for each in kept.hypotheses if each.labels[:3] == labels and each.places[2] == place}
    assert {strip(row) for row in expected} == branch
    assert {each.labels: each.score for each in tree.hypotheses}.items() <= {
        each.labels: each.score for each in kept.hypotheses
    }.items()
    for each in kept.hypotheses:
        scores = tree.trace.model.scores(0, kept.prefix(kept.steps - 1, each.place))
        assert each.sum == pytest.approx(sum(scores), rel=1e-4)
        assert each.score == pytest.approx(each.sum / each.taken ** options.get("length_penalty", 0.0), rel=1e-4)


def test_a_search_gets_its_model_later(tmp_path):
    model, inputs = make_model("gpt2"), {"input_ids": IDS, "attention_mask": MASK}
    options = {**BEAMS, "length_penalty": 0.0, "sequence_bias": {(26,): 6.0}}
    with rf.capture(model, search=True) as seen:
        model.generate(**inputs, **options)
    found = seen.search[0]
    assert "found.force(model" in found.tree[1].where([8, 12]).because
    where, expected = (each.tree[1].where([8, 12]) for each in (found.force(model, **inputs), made("gpt2", options)))
    assert where.label_scores == expected.label_scores and where.label_scores
    with pytest.raises(SearchError, match="not one of `generate`"):
        rf.search.load(found.save(tmp_path / "x.rfbeam")).force(model, **inputs)


@pytest.mark.parametrize("options", [{"num_beams": 3}, {"num_beams": 1}, {"num_beams": 3, "do_sample": True}], ids=str)
def test_searches_of_whisper_are_forced_and_go_on(options):
    model, speech = make_model("whisper"), torch.randn(2, 8, 60, generator=torch.Generator().manual_seed(2))
    beginning = {"suppress_tokens": [5], "begin_suppress_tokens": [39]}
    torch.manual_seed(1)
    with rf.capture(model, search=True) as seen:
        model.generate(speech, max_new_tokens=6, **options, **beginning)
    tree = seen.search[0].force(model, input_features=speech).tree[1]
    for hypothesis in tree.hypotheses:
        [sums] = tree.trace.model.forced({1: [tree.prefix(tree.steps - 1, hypothesis.place)]})[1]
        assert sums[-1] == pytest.approx(hypothesis.sum, rel=1e-4)
    assert dict(tree.where([39, 7]).label_scores)["39"] == -np.inf
    kept = tree.keep(1, 17)
    grown = {each.labels for each in kept.hypotheses} - {each.labels for each in tree.hypotheses}
    assert grown and all(labels[1] == 17 and 5 not in labels for labels in grown)
    for each in kept.hypotheses:
        assert each.sum == pytest.approx(sum(tree.trace.model.scores(1, each.labels)), rel=1e-4)


def strip(labels):
    """The labels before an end label."""
    ends = [i for i, label in enumerate(labels) if label in ENDS["eos_token_id"]]
    return labels[: ends[0]] if ends else labels


def test_a_tree_with_a_branch_is_a_tree_like_others(tmp_path):
    tree = made("gpt2", BEAMS).tree[0]
    view = rf.show(tree)
    assert "beam 3, and 3 places for ended hypotheses" in tree.text
    assert "3 places go on, those below have ended" in str(view.html) and view.data["living"] == 3
    kept = tree.keep(1, 30).keep(0, 31)
    assert len(kept.hypotheses) == 9
    found = rf.search.Found(kept.trace)
    read = rf.search.load(found.save(tmp_path / "x.rfbeam"))
    assert read.nbest(9) == found.nbest(9)
    np.testing.assert_array_equal(kept.trace.scores[:, 1, :3], tree.trace.scores[:, 1, :3])
    assert rf.show(found).text


def test_what_cannot_be_kept_says_why():
    tree = made("gpt2", BEAMS).tree[0]
    with pytest.raises(SearchError, match="ends the hypothesis"):
        tree.keep(1, 26)
    with pytest.raises(SearchError, match="has a place"):
        tree.keep(1, tree.node(1, 0).label, tree.node(1, 0).parent)
    with pytest.raises(SearchError, match="no label may follow"):
        tree.keep(6, 30)
    model = make_model("gpt2")
    inputs = {"input_ids": IDS, "attention_mask": MASK}
    found = rf.search.from_generate(generate(model, inputs, **BEAMS), None, model.generation_config, **BEAMS)
    with pytest.raises(SearchError, match=r"found\.force\(model"):
        found.tree[0].keep(1, 30)

"""Attention around `generate`: that of `output_attentions`, with rows that follow the hypotheses it returned."""

from __future__ import annotations

import numpy as np
import pytest
import torch

import rfnb as rf
from tests.outside.library_loops import _bart, _gpt2, _mistral, _t5, _whisper

pytest.importorskip("transformers")
IDS = torch.tensor([[5, 6, 7, 8, 2], [9, 4, 3, 11, 12]])


def random_model(make, seed):
    torch.manual_seed(seed)
    model = make()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.25)
    return model


def expected(out, attentions, sequence, prompt, count, *, is_self):
    """The rows of all layers and heads for a returned sequence. [layers, heads, rows, columns]"""
    steps = []
    for step, layers in enumerate(attentions[: count - prompt]):
        row = int(out.beam_indices[sequence, step]) if getattr(out, "beam_indices", None) is not None else sequence
        weights = np.stack([layer[row].numpy() for layer in layers])
        new = weights[:, :, -1:] if step else weights
        width = count - 1 if is_self else new.shape[-1]
        before = max(0, prompt + step - new.shape[-1]) if is_self else 0  # of a sliding window
        steps.append(np.pad(new, [(0, 0)] * 3 + [(before, width - before - new.shape[-1])]))
    return np.concatenate(steps, 2)


SETTINGS = {
    "greedy": {},
    "beams": {"num_beams": 3},
    "several": {"num_beams": 4, "num_return_sequences": 3, "early_stopping": True},
    "short": {"num_beams": 3, "length_penalty": -2.0, "early_stopping": True},
    "long": {"num_beams": 3, "length_penalty": 2.0},
    "sampled": {"do_sample": True, "num_return_sequences": 2},
    "without_cache": {"num_beams": 3, "use_cache": False},
    "one_step": {"max_new_tokens": 1},
}


@pytest.mark.parametrize("make", [_t5, _bart, _gpt2, _mistral])
@pytest.mark.parametrize("setting", SETTINGS)
def test_each_matrix_is_what_the_model_gave_for_its_hypothesis(setting, make):
    lengths, moves, has_prompt = set(), 0, make in (_gpt2, _mistral)
    for seed in range(4):
        model, ends = random_model(make, seed), [*range(3 + seed, 40, 5)]
        mask = torch.tensor([[0, 0, 1, 1, 1], [1] * 5]) if has_prompt else torch.tensor([[1] * 5, [1, 1, 1, 0, 0]])
        given = {
            "max_new_tokens": 7,
            "no_repeat_ngram_size": 1,
            "eos_token_id": ends,
            "pad_token_id": 0,
            "attention_mask": mask,
        } | SETTINGS[setting]
        model.set_attn_implementation("eager")
        torch.manual_seed(seed)
        out = model.generate(IDS, output_attentions=True, return_dict_in_generate=True, output_scores=True, **given)
        model.set_attn_implementation("sdpa" if seed % 2 else "eager")
        torch.manual_seed(seed)
        with rf.capture(model) as seen:
            same = model.generate(IDS, **given)
        assert torch.equal(same, out.sequences)
        moves += sum(len({*row} - {-1}) > 1 for row in getattr(out, "beam_indices", torch.zeros(0, 0)).tolist())
        prompt = 5 if has_prompt else 1
        kinds = [("SelfAttention", "decoder"), ("EncDecAttention", "cross")] if make is _t5 else [
            ("self_attn", "decoder"), ("encoder_attn", "cross")]  # fmt: skip
        kinds = [("attn", None)] if has_prompt else kinds
        for name, kind in kinds:
            items = [each for each in seen if each.name.endswith(name) and "encoder." not in each.name]
            assert len(items) == 2
            truth = out.attentions if kind is None else getattr(out, f"{kind}_attentions")
            for number, sequence in enumerate(out.sequences.tolist()):
                ended = [i + 1 for i, label in enumerate(sequence) if i >= prompt and label in ends]
                count = min([*ended, len(sequence)])
                lengths.add(count)
                source = number * 2 // len(out.sequences)
                wanted = expected(out, truth, number, prompt, count, is_self=kind != "cross")
                before = 2 if has_prompt and source == 0 else 0  # padding on the left
                cols = wanted.shape[-1] - 2 if kind == "cross" and source == 1 else wanted.shape[-1]
                for layer, item in enumerate(items):
                    found = item.weights.raw_tensor[number, :, : count - 1 - before, : cols - before].numpy()
                    np.testing.assert_allclose(found, wanted[layer][:, before:, before:cols], atol=2e-5)
                    labels = item.labels[0][number]
                    shift = 1 if kind == "cross" else 0
                    assert labels == sequence[before + shift : count - 1 + shift]
                    sides = IDS[source][mask[source] == 1].tolist() if kind == "cross" else labels
                    assert item.labels[1][number] == sides
    assert setting == "one_step" or (len(lengths) > 1 and (moves > 0 or setting in ("greedy", "sampled", "short")))


def test_shown_with_the_words_of_the_model_and_of_the_tokenizer():
    model = random_model(_bart, 0)
    words = rf.Vocab([f"▁w{i}" for i in range(40)])
    with rf.capture(model) as seen:
        out = model.generate(IDS, num_beams=3, max_new_tokens=6, no_repeat_ngram_size=1, pad_token_id=0)
    assert len(seen.names()) == len(set(seen.names())) == 6 and not any("#" in name for name in seen.names())
    view = rf.show_attention(seen, batch=1, tokenizer=words).data
    assert view["row_dim"]["name"] == "step" and view["col_dim"]["name"] == "source"
    assert view["cols"] == [f"▁w{i}" for i in IDS[1].tolist()]
    assert view["rows"] == [f"▁w{i}" for i in out[1, 1:].tolist()]
    assert [head["name"] for head in view["heads"]] == [f"model.decoder.layers.{i // 2}.encoder_attn" for i in range(4)]
    assert rf.show_attention(seen).data["cols"] == [str(i) for i in IDS[0].tolist()]
    assert "w5" in rf.show(seen, tokenizer=words).html
    itself = rf.show_attention(seen["model.decoder.layers.1.self_attn"], tokenizer=words).data
    assert itself["causal"] and itself["rows"] == itself["cols"] == [f"▁w{i}" for i in out[0, :-1].tolist()]


def test_two_calls_of_generate_are_two_calls():
    model = random_model(_t5, 1)
    with rf.capture() as seen:
        first = model.generate(IDS, num_beams=2, max_new_tokens=4)
        second = model.generate(IDS[:1], max_new_tokens=6)
    name = "T5ForConditionalGeneration.decoder.block.0.layer.1.EncDecAttention"
    assert seen[name].shape[0] == first.shape[1] - 1 and seen[f"{name}#2"].shape[0] == second.shape[1] - 1
    assert f"{name}#3" not in seen.names()


@pytest.mark.parametrize("settings", [{}, {"num_beams": 3, "num_return_sequences": 2}])
def test_speech_attends_to_frames(settings):
    model = random_model(_whisper, 0)
    features = torch.randn(2, 8, 60, generator=torch.Generator().manual_seed(0))
    given = {"max_new_tokens": 6, "return_dict_in_generate": True, "output_scores": True, **settings}
    model.set_attn_implementation("eager")
    plain = model.generate(features, **given)
    with rf.capture(model) as seen:
        same = model.generate(features, **given)
    assert torch.equal(plain["sequences"], same["sequences"])
    item = seen["model.decoder.layers.0.encoder_attn"]
    assert item.cols.dimension == 30 and item.labels[1] is None
    labels = same["sequences"]
    with torch.no_grad():  # with beams, Whisper gives the attention of rows of the batch, not of what it returns
        sources = features.repeat_interleave(len(labels) // 2, 0)
        wanted = model(sources, decoder_input_ids=labels, output_attentions=True).cross_attentions[0]
    for number, sequence in enumerate(labels.tolist()):
        rows = len(item.labels[0][number])
        assert rows > 2 and item.labels[0][number] == sequence[1 : rows + 1]
        found = item.weights.raw_tensor[number, :, :rows]
        torch.testing.assert_close(found, wanted[number, :, :rows], atol=2e-5, rtol=0)


class Decoder(torch.nn.Module):
    """An attention decoder in eager torch, as in tutorials: additive scores, a softmax, a weighted sum."""

    def __init__(self) -> None:
        super().__init__()
        self.cell, self.query, self.score = torch.nn.GRUCell(8, 8), torch.nn.Linear(8, 8), torch.nn.Linear(8, 1)

    def forward(self, x, state, keys):
        scores = self.score(torch.tanh(self.query(state)[:, None] + keys))
        weights = torch.softmax(scores, dim=1)
        return self.cell(x + (weights * keys).sum(1), state), weights[..., 0]


@pytest.mark.parametrize("inside", [False, True])
def test_a_loop_of_a_recurrent_decoder_is_steps_by_source(inside):
    torch.manual_seed(0)
    decoder = Decoder()
    keys, x = torch.randn(2, 5, 8), torch.randn(4, 2, 8)

    class Model(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.decoder = decoder

        def forward(self, keys):
            state, rows = torch.zeros(2, 8), []
            for t in range(4):
                state, weights = self.decoder(x[t], state, keys)
                rows.append(weights)
            return torch.stack(rows, 1)

    model = Model()
    with torch.no_grad(), rf.capture(model) as seen:
        calls = [(model if inside else model.forward)(keys) for _ in range(2 if inside else 1)]
    assert seen.names() == (["decoder", "decoder#2"] if inside else ["decoder"])
    for item, rows in zip(seen, calls, strict=True):
        assert [dim.name for dim in item.dims] == ["batch", "step", "source"]
        assert torch.equal(item.weights.raw_tensor, rows) and item.note is None
    with torch.no_grad(), rf.capture(model) as seen:
        model.forward(keys[:1].expand(2, -1, -1))
    assert "same keys" in seen[0].note and "same keys" in rf.show_attention(seen).data["note"]


class CachedLayer(torch.nn.Module):
    """Self-attention by hand that keeps keys and values."""

    def __init__(self, window=None) -> None:
        super().__init__()
        self.heads, self.qkv, self.window = 2, torch.nn.Linear(8, 24), window

    def forward(self, x, past=None):
        q, k, v = self.qkv(x).unflatten(-1, (3, 2, 4)).permute(2, 0, 3, 1, 4)
        if past is not None:
            k, v = torch.cat([past[0], k], 2), torch.cat([past[1], v], 2)
            k, v = (x[:, :, -self.window :] if self.window else x for x in (k, v))
        mask = torch.ones(q.shape[2], k.shape[2], dtype=torch.bool).tril(k.shape[2] - q.shape[2])
        weights = (q @ k.transpose(-1, -2) / 2).masked_fill(~mask, -1e9).softmax(-1)
        return (weights @ v).transpose(1, 2).flatten(2), (k, v), weights


@pytest.mark.parametrize("keeps", [True, False])
def test_a_beam_search_by_hand_follows_its_hypotheses(keeps):
    torch.manual_seed(0)
    layer, embedding = CachedLayer(), torch.nn.Embedding(9, 8)
    numbers = torch.Generator().manual_seed(3)
    labels, past = torch.zeros(1, 2, dtype=torch.long), None
    moved = False
    with torch.no_grad(), rf.capture(layer) as seen:
        for step in range(6):
            new = labels[:, -1:] if keeps and step else labels
            _, past, _ = layer(embedding(new), past if keeps else None)
            if step < 5:
                parents = torch.randint(len(labels), (3,), generator=numbers)
                moved |= step > 0 and parents.tolist() != [0, 1, 2]
                labels = torch.cat([labels[parents], torch.randint(9, (3, 1), generator=numbers)], 1)
                past = tuple(x[parents] for x in past)
    _, _, wanted = layer(embedding(labels))
    assert moved and seen.names() == ["attention"] and seen[0].note is None
    assert [(dim.name, size) for dim, size in seen[0].axes] == [("batch", 3), ("head", 2), ("step", 7), ("key", 7)]
    torch.testing.assert_close(seen[0].weights.raw_tensor, wanted.detach())


class EinsumLayer(torch.nn.Module):
    """Attention by einsum, which multiplies without a sum where there is one key."""

    def forward(self, q, k, v):
        weights = torch.einsum("bhid,bhjd->bhij", q, k).softmax(-1)
        return torch.einsum("bhij,bhjd->bhid", weights, v), weights


class TwoLayers(torch.nn.Module):
    """Self-attention of the labels so far, then attention to a source; `late` leaves the first out at one label."""

    def __init__(self, late) -> None:
        super().__init__()
        self.own, self.source, self.late = EinsumLayer(), EinsumLayer(), late

    def forward(self, x, source):
        q = x[:, :, -1:]
        y, own = (q, None) if self.late and x.shape[2] == 1 else self.own(q, x, x)
        return self.source(y, source, source)[1], own


@pytest.mark.parametrize("late", [False, True])
def test_einsum_over_one_key_is_the_first_step(late):
    model, source, x = TwoLayers(late), torch.randn(2, 2, 5, 4), torch.randn(2, 2, 4, 4)
    with torch.no_grad(), rf.capture(model) as seen:
        steps = [model(x[:, :, :count], source) for count in range(1, 5)]
    assert seen.names() == (["source", "own", "source#2"] if late else ["own", "source"])
    to_source = torch.cat([weights for weights, _ in steps], 2)
    got = torch.cat([each.weights.raw_tensor for each in seen if each.path == "source"], 2)
    assert torch.equal(got, to_source)
    own = next(item.weights.raw_tensor for item in seen if item.path == "own")
    assert torch.equal(own[:, :, -1], steps[-1][1][:, :, 0]) and own.shape[-2:] == ((3, 4) if late else (4, 4))


def test_a_loop_that_keeps_the_last_keys_only():
    layer, x, past, steps = CachedLayer(window=3), torch.randn(2, 6, 8), None, []
    with torch.no_grad(), rf.capture(layer) as seen:
        for begin, end in [(0, 2), (2, 3), (3, 4), (4, 5), (5, 6)]:
            _, past, weights = layer(x[:, begin:end], past)
            steps.append(torch.nn.functional.pad(weights, [end - weights.shape[-1], 6 - end]))
    assert seen.names() == ["attention"] and seen[0].note is None
    assert torch.equal(seen[0].weights.raw_tensor, torch.cat(steps, 2))


class LocalAttention(torch.nn.Module):
    """Weights of blocks, which no product with values follows."""

    def forward(self, x):
        return x.unfold(1, 2, 2).softmax(-1).amax(-1)


def test_attention_of_another_form_is_named():
    model = torch.nn.Sequential(LocalAttention(), CachedLayer())
    with rf.capture(model) as seen:
        model(torch.randn(2, 4, 8))
    reason = "0: its softmax was not seen to weight values"
    assert seen.names() == ["1"] and seen.left_out == [reason] and reason in repr(seen)
    with rf.capture(model[0]) as seen:
        model[0](torch.randn(2, 4, 8))
    assert "all of it was left out: attention: its softmax" in repr(seen) and "bytes" not in repr(seen)


class LocalAndGlobalAttention(torch.nn.Module):
    """Weights of blocks, made by `logsumexp` or `softmax`, and usual ones."""

    def __init__(self, softmax):
        super().__init__()
        self.softmax = softmax

    def forward(self, x):
        blocks = x.unfold(1, 2, 2)
        local = blocks.softmax(-1) if self.softmax else (blocks - blocks.logsumexp(-1, keepdim=True)).exp()
        return local.amax(-1).sum(1, keepdim=True) + (x @ x.mT).softmax(-1) @ x


@pytest.mark.parametrize("softmax", [False, True])
def test_a_part_of_the_attention_of_a_module_is_named(softmax):
    model = torch.nn.Sequential(LocalAndGlobalAttention(softmax))
    with rf.capture(model) as seen:
        for _ in range(2):
            model(torch.randn(2, 4, 8))
    assert seen.names() == ["0", "0#2"] and seen.left_out == ["0: its softmax was not seen to weight values"]
    assert "left out: 0: its softmax" in repr(rf.show_attention(seen))
    assert repr(seen).count("left out") == 1


def test_the_same_batch_twice_is_two_calls():
    torch.manual_seed(0)
    layer, x = CachedLayer(), torch.randn(2, 4, 8)
    with torch.no_grad(), rf.capture(layer) as seen:
        layer(x)
        layer(x)
        layer(torch.randn(2, 5, 8))
    assert [item.shape for item in seen] == [(4, 4, 2), (4, 4, 2), (5, 5, 2)] and seen[1].name == f"{seen[0].name}#2"


def test_of_long_sequences_only_weights_are_kept():
    model = random_model(_gpt2, 0)
    with rf.capture(model) as seen:
        model.generate(IDS, max_new_tokens=40, num_beams=4, eos_token_id=None, pad_token_id=0)
    assert all(item.bytes < 4 * 8 * 2 * 45 * 45 for item in seen)  # 8 rows of the batch, 2 heads, 45 × 45 labels

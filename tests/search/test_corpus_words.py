"""Errors in words, of labels that are parts of words, and references as outputs are shown."""

import pytest

import rfnb as rf
from rfnb.errors import SearchError
from rfnb.search.result import Found
from tests.search.dict_search import traced
from tests.search.test_corpus_report import chain

VOCABS = {
    "▁": ["</s>", "▁the", "▁c", "at", "▁", "a", "t", "s"],
    "Ġ": ["</s>", "the", "Ġc", "at", "Ġ", "a", "t", "s"],
    "##": ["</s>", "the", "c", "##at", "a", "##a", "##t", "##s"],
    "@@": ["</s>", "the", "c@@", "at", "a@@", "t", "s@@", "s"],
    "</w>": ["</s>", "the</w>", "c", "at</w>", "a", "t</w>", "s", "s</w>"],
    "letters": ["</s>", *"thecas "],
}
LABELS = {"letters": [1, 2, 3, 7, 4, 5, 1]}
"""Of "the cat", where they are not 1, 2, 3."""


def found_of(vocab, *labels, steps=9):
    models, tags = [chain(*row) for row in labels], [str(i) for i in range(len(labels))]
    return Found(traced(models, 2, steps, vocab=vocab, tags=tags))


@pytest.mark.parametrize("name", VOCABS)
def test_errors_in_words_of_each_kind_of_pieces(name):
    labels = LABELS.get(name, [1, 2, 3])
    found = found_of(VOCABS[name], labels, labels)
    assert found.nbest(1) == [["the cat"]] * 2
    result = rf.search.report(found, ["the cat", "the at"], words=True)
    assert [(row.errors, row.length) for row in result] == [(0, 2), (1, 2)]
    assert result.error_rate == 0.25 and result["0"].verdict == "correct"
    assert result["1"].reference.text == "the at" and "word errors 25 %" in repr(result)
    by_label = rf.search.report(found, ["the cat", "the at"])
    assert by_label["0"].errors == 0 and by_label.error_rate != 0.25 and "label errors" in repr(by_label)


def test_a_text_is_the_best_hypothesis_that_has_it_else_the_fewest_pieces():
    vocab = ["</s>", "▁the", "▁c", "a", "t", "at", "▁cat"]
    found = found_of(vocab, [1, 2, 3, 4])
    tree = found.tree[0]
    assert tree.where("the cat").verdict == "correct" and tree.where("the cat").reference.labels == (1, 2, 3, 4)
    assert tree.where("▁the ▁cat").reference.labels == (1, 6) and tree.where(["▁the", "▁cat"]).verdict != "correct"
    assert tree.where("cat the").reference.labels == (6, 1)
    with pytest.raises(SearchError, match="dog"):
        tree.where("the dog")


def test_a_word_without_pieces_is_unknown_and_wrong():
    vocab = ["</s>", "▁the", "▁c", "at", "<unk>", "t", "e"]
    found = found_of(vocab, [1, 2, 3], [1, 4])
    result = rf.search.report(found, ["the dog", "the dog"], words=True)
    assert [row.reference.labels for row in result] == [(1, 4), (1, 4)]
    assert [(row.errors, row.length, row.reference.text) for row in result] == [(1, 2, "the dog"), (2, 2, "the dog")]
    assert (result["1"].output, result["1"].verdict) == ("the<unk>", "correct")  # by its labels


def test_texts_that_are_labels_stay_so():
    found = found_of(["</s>", "K", "AE", "T", "<unk>", "S", "P"], [1, 2, 3])
    assert found.tree[0].where("K AE T").verdict == "correct"
    assert rf.search.report(found, ["K AE S"], words=True).error_rate == pytest.approx(1 / 3)


def test_a_tokenizer_cuts_a_reference_as_it_does_a_text():
    tokenizers = pytest.importorskip("tokenizers")
    model = tokenizers.models.BPE(
        {"</s>": 0, "t": 1, "h": 2, "e": 3, "Ġ": 4, "c": 5, "a": 6, "th": 7, "the": 8, "Ġc": 9, "at": 10},
        [("t", "h"), ("th", "e"), ("Ġ", "c"), ("a", "t")],
    )
    tokenizer = tokenizers.Tokenizer(model)
    tokenizer.pre_tokenizer = tokenizers.pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = tokenizers.decoders.ByteLevel()
    vocab = rf.Vocab(tokenizer)
    trace = traced([chain(8, 9, 10), chain(8, 9, 6, 1)], 1, 9, tags=["a", "b"])
    found = Found(__import__("dataclasses").replace(trace, vocab=vocab))
    result = rf.search.report(found, {"a": "the cat", "b": "the cat"}, words=True)
    assert [row.errors for row in result] == [0, 0] and result.classes == {"correct": 2}
    assert rf.search.report(found, ["the at", "the c"], words=True).error_rate == 0.5


def test_settings_side_by_side_and_views_say_words():
    found = found_of(VOCABS["@@"], [1, 2, 3])
    both = rf.search.report({"one": found, "two": found}, ["the at"], words=True)
    assert "word errors" in repr(both) and both["one"].error_rate == 0.5
    page = rf.show(both)
    assert "word errors" in page.full_text and "word errors" in page._repr_mimebundle_()["text/html"]


def test_scales_are_tuned_on_words():
    vocab = VOCABS["@@"]
    found = found_of(vocab, [1, 2, 3])
    tuned = rf.search.tune(found, ["the at"], errors="words", model=(0.5, 2.0))
    assert tuned.before == 0.5
    with pytest.raises(SearchError, match='"labels", "words" or "sequences"'):
        rf.search.tune(found, ["the at"], errors="letters", model=(0.5, 2.0))

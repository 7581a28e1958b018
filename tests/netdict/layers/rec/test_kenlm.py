"""kenlm: the scores of an n-gram model in a loop, against the sums of the file."""

import math
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import NetworkError
from tests.netdict.layers.rec.nets import array, run

ARPA = """\\data\\
ngram 1=6
ngram 2=2

\\1-grams:
-1.0\t<unk>
-99\t<s>\t-0.5
-0.6\t</s>
-0.7\ta\t-0.2
-0.8\tb\t-0.3
-0.9\tab

\\2-grams:
-0.1\t<s> a
-0.4\ta b

\\end\\
"""
LABELS = ["a", "b", "a@@", "c"]
UNIGRAMS = {"a": -0.7, "b": -0.8, "ab": -0.9}
BIGRAMS = {("<s>", "a"): -0.1, ("a", "b"): -0.4}
BACKOFFS = {"<s>": -0.5, "a": -0.2, "b": -0.3}


def score(words):
    """log10 of a beginning of a sentence."""
    total = 0.0
    for before, word in zip(["<s>", *words], words, strict=False):
        unigram = BACKOFFS.get(before, 0.0) + UNIGRAMS.get(word, -1.0)
        total += BIGRAMS.get((before, word), unigram)
    return total


@pytest.fixture
def files(tmp_path):
    (tmp_path / "lm.arpa").write_text(ARPA)
    (tmp_path / "vocab.txt").write_text(repr({label: i for i, label in enumerate(LABELS)}))
    return {"lm_file": str(tmp_path / "lm.arpa"), "vocab_file": str(tmp_path / "vocab.txt")}


def scores(labels, **options):
    net = {
        "output": {
            "class": "rec",
            "from": "data",
            "unit": {"output": {"class": "kenlm", "from": "data:source", **options}},
        }
    }
    extern = {"data": {"dim": len(LABELS), "sparse": True}}
    numbers = np.asarray([[LABELS.index(label) for label in labels]], "int32")
    _, out = run(net, extern, {"data": (numbers, [len(labels)])})
    return array(out["output"])[0] / math.log(10)


def test_each_label_adds_what_it_scores(files):
    labels = ["a", "b", "c", "b", "a"]
    expected = [score(labels[: t + 1]) - score(labels[:t]) for t in range(5)]
    np.testing.assert_allclose(scores(labels, **files), expected, atol=1e-5)


def test_parts_of_words_are_joined(files):
    found = scores(["a@@", "b", "b"], bpe_merge_symbol="@@", **files)
    expected = [score(["a"]), score(["ab"]) - score(["a"]), score(["ab", "b"]) - score(["ab"])]
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_all_labels_that_may_come_next(files):
    found = scores(["a", "a@@"], bpe_merge_symbol="@@", dense_output=True, **files)
    np.testing.assert_allclose(found[0], [score(["a", label]) - score(["a"]) for label in LABELS], atol=1e-5)
    base = score(["a", "a@@"])
    np.testing.assert_allclose(found[1], [score(["a", f"a{label}"]) - base for label in LABELS], atol=1e-5)


def test_the_first_labels_may_be_left_out(files):
    found = scores(["c", "a", "b"], input_step_offset=1, **files)
    np.testing.assert_allclose(found, [0.0, score(["a"]), score(["a", "b"]) - score(["a"])], atol=1e-5)


def test_the_package_is_asked_if_it_is_installed(files, monkeypatch):
    package = SimpleNamespace(
        Model=lambda path: SimpleNamespace(score=lambda text, bos, eos: float(len(text))), __spec__=1
    )
    monkeypatch.setitem(sys.modules, "kenlm", package)
    np.testing.assert_allclose(scores(["a", "b"], **files), [1.0, 2.0], atol=1e-5)


def test_odd_spaces_are_parts_of_words(files):
    for name in ("lm_file", "vocab_file"):
        text = Path(files[name]).read_text().replace("ab", "a\u00a0b").replace("'c'", "'a\u00a0b'")
        Path(files[name]).write_text("\ufeff" + text, encoding="utf-8")
    expected = [score(["a"]), score(["a", "ab"]) - score(["a"])]
    np.testing.assert_allclose(scores(["a", "c"], **files), expected, atol=1e-5)


def test_other_labels_than_those_of_the_file_and_no_loop_are_errors(files):
    layer = {"class": "kenlm", "from": "data", **files}
    with pytest.raises(NetworkError, match="layer of a loop"):
        run({"output": layer}, {"data": {"dim": 4, "sparse": True}}, {})
    net = {"output": {"class": "rec", "from": "data", "unit": {"output": {**layer, "from": "data:source"}}}}
    with pytest.raises(NetworkError, match="other labels"):
        run(net, {"data": {"dim": 9, "sparse": True}}, {})


def test_files_may_be_functions(files, tmp_path):
    """Those of a config too, which are interpreted; what is not known there is named."""
    labels = ["a", "b"]
    functions = {name: lambda path=path: path for name, path in files.items()}
    np.testing.assert_array_equal(scores(labels, **functions), scores(labels, **files))
    text = f"""
import tools
def lm():
    return "{files["lm_file"]}"
extern_data = {{"data": {{"dim": 4, "sparse": True}}}}
unit = {{"class": "kenlm", "from": "data:source", "lm_file": lm, "vocab_file": tools.vocab}}
network = {{"output": {{"class": "rec", "from": "data", "unit": {{"output": unit}}}}}}
"""
    config = tmp_path / "lm.config"
    config.write_text(text)
    with pytest.raises(NetworkError, match="vocab_file is not the path"):
        rf.Network.from_config(config)
    config.write_text(text.replace("tools.vocab", repr(files["vocab_file"])))
    assert rf.Network.from_config(config).report()

"""N-gram models as tensors against a plain loop over dicts."""

import gzip
import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from rfnb.errors import DimError, SearchError
from tests.examples import examples

LETTERS = ["</s>", "a", "b", "c"]


def random_model(seed, order, share=0.5):
    """N-grams with log10-probability and backoff, by words; each context is an n-gram too."""
    random = np.random.RandomState(seed)
    grams = {(word,): random.uniform(-2, 0) for word in ["<s>", *LETTERS, "<unk>"]}
    last = list(grams)
    for _ in range(order - 1):
        last = [(*gram, word) for gram in last if gram[-1] != "</s>" for word in LETTERS if random.rand() < share]
        grams |= {gram: random.uniform(-2, 0) for gram in last}
    longest = max(map(len, grams))
    backoffs = {gram: random.uniform(-1, 0.2) for gram in grams if len(gram) < longest and random.rand() < 0.8}
    return grams, backoffs


def text_of(grams, backoffs):
    orders = range(1, max(map(len, grams)) + 1)
    lines = ["a comment", "", "\\data\\"]
    lines += [f"ngram {n}={sum(len(gram) == n for gram in grams)}" for n in orders]
    for n in orders:
        lines += ["", f"\\{n}-grams:"]
        for gram, value in grams.items():
            if len(gram) == n:
                more = f"\t{backoffs[gram]:.6f}" if gram in backoffs else ""
                lines.append(f"{value:.6f}\t{' '.join(gram)}{more}")
    return "\n".join([*lines, "", "\\end\\", ""])


def log_prob(grams, backoffs, context, word):
    """The definition: the n-gram, or else backoff and the shorter context."""
    if (*context, word) in grams:
        return grams[(*context, word)]
    return backoffs.get(tuple(context), 0.0) + log_prob(grams, backoffs, context[1:], word)


@examples(40)
@given(
    seed=st.integers(0, 1000), order=st.integers(1, 4), share=st.sampled_from([0.1, 0.5, 1.0]),
    texts=st.lists(st.lists(st.integers(0, 3), min_size=5, max_size=5), min_size=1, max_size=4),
)  # fmt: skip
def test_agrees_with_a_loop_over_dicts(tmp_path_factory, seed, order, share, texts):
    grams, backoffs = random_model(seed, order, share)
    path = tmp_path_factory.mktemp("arpa") / "lm.arpa"
    path.write_text(text_of(grams, backoffs))
    letter, beam = rf.Dim(4, name="letter", vocab=LETTERS), rf.Dim(len(texts), name="beam")
    lm = rf.search.NGram(path, letter)
    state = lm.initial_state(batch_dims=[beam])
    context_size = max(map(len, grams)) - 1
    for step in range(5):
        column = [0 if step == 0 else text[step - 1] for text in texts]
        label = rf.convert_to_tensor(np.asarray(column), dims=[beam], sparse_dim=letter)
        scores, state = lm.score(label, state)
        scores = scores if beam in scores.dims else rf.expand_dim(scores, beam)  # unigrams
        for text, row in zip(texts, scores.copy_transpose([beam, letter]).raw_tensor.tolist(), strict=True):
            context = ["<s>", *(LETTERS[i] for i in text[:step])]
            context = context[max(len(context) - context_size, 0) :]
            expected = [log_prob(grams, backoffs, context, word) * math.log(10) for word in LETTERS]
            assert row == pytest.approx(expected, abs=1e-4)


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
def test_a_search_with_an_ngram_finds_the_best_text(tmp_path):
    grams, backoffs = random_model(3, 3)
    path = tmp_path / "lm.arpa.gz"
    with gzip.open(path, "wt") as file:
        file.write(text_of(grams, backoffs))
    letter, beam = rf.Dim(4, name="letter", vocab=LETTERS), rf.Dim(4**4, name="beam")
    model, loop = np.random.RandomState(0).randn(4).astype("float32"), rf.Loop(max_seq_len=4)
    with loop:
        parts = {"model": rf.convert_to_tensor(model, dims=[letter]), "lm": (rf.search.NGram(path, letter), 0.7)}
        options = {"input_type": "log_prob", "length_normalization": False}
        loop.end(loop.choice(parts, beam=beam, **options).labels == 0, include_eos=True)

    def score(text):
        found, words = 0.0, ["<s>", *(LETTERS[i] for i in text)]
        for i in range(1, len(words)):
            context = words[max(i - 2, 0) : i]
            found += model[text[i - 1]] + 0.7 * math.log(10) * log_prob(grams, backoffs, context, words[i])
        return found

    texts = [(i, j, k, m) for i in range(4) for j in range(4) for k in range(4) for m in range(4)]
    texts = {text[: text.index(0) + 1] if 0 in text else text for text in texts}
    best = loop.found.tree[0].best
    assert tuple(best.labels) == max(texts, key=score)
    assert best.score == pytest.approx(max(map(score, texts)), abs=1e-4)


GOOD = text_of({("<s>",): -99.0, ("</s>",): -1.0, ("a",): -0.5, ("<s>", "a"): -0.1}, {("<s>",): -0.3})


@pytest.mark.parametrize(
    ("old", "new", "line", "match"),
    [
        ("\\data\\", "data", 15, "not complete"),
        ("ngram 2=1", "ngram 3=1", 5, "do not follow"),
        ("ngram 1=3", "ngram 1=4", 12, "3 1-grams came before"),
        ("-0.500000\ta", "zero\ta", 10, "is not a log-probability"),
        ("-0.500000\ta", "0.5\ta", 10, "is not a log-probability"),
        ("-0.500000\ta", "-0.5\ta b c d", 10, "not a 1-gram"),
        ("-0.500000\ta", "-0.5\t</s>", 10, "occurs twice"),
        ("<s> a", "<s> x", 13, "'x' is not among the 1-grams"),
        ("-0.300000", "nan", 8, "not a backoff weight"),
        ("\\2-grams:", "\\3-grams:", 12, "unexpected line"),
        ("\\end\\", "", 15, "not complete"),
        ("\\2-grams:\n-0.100000\t<s> a\n", "", 13, "an order is missing"),
    ],
)
def test_a_broken_file_is_an_error_with_its_line(tmp_path, old, new, line, match):
    assert old in GOOD
    path = tmp_path / "lm.arpa"
    path.write_text(GOOD.replace(old, new, 1))
    with pytest.raises(SearchError, match=match) as caught:
        rf.search.NGram(path, rf.Dim(2, name="letter", vocab=["</s>", "a"]))
    assert f"lm.arpa, line {line}:" in str(caught.value)


def test_a_file_that_cannot_be_read_is_an_error(tmp_path):
    with pytest.raises(SearchError, match="cannot be read"):
        rf.search.NGram(tmp_path / "no.arpa", rf.Dim(2, name="letter", vocab=["</s>", "a"]))
    (tmp_path / "binary.arpa").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(SearchError, match="cannot be read"):
        rf.search.NGram(tmp_path / "binary.arpa", rf.Dim(2, name="letter", vocab=["</s>", "a"]))


def test_a_label_that_the_model_lacks_is_an_error_or_unknown(tmp_path):
    path = tmp_path / "lm.arpa"
    grams, backoffs = random_model(0, 2)
    path.write_text(text_of(grams, backoffs))
    letter, beam = rf.Dim(3, name="letter", vocab=["<eos>", "a", "z"]), rf.Dim(1, name="beam")
    with pytest.raises(DimError, match="does not know a label") as caught:
        rf.search.NGram(path, letter)
    assert "'<eos>', label 0, and 1 more" in str(caught.value)
    with pytest.raises(DimError, match="does not know a label") as caught:
        rf.search.NGram(path, letter, words={"<eos>": "<none>"})
    assert 'words={"<eos>": "</s>"}' in caught.value.hint  # the label, not its word
    with pytest.raises(DimError, match="has no '<?>'".replace("?", r"\?")):
        rf.search.NGram(path, letter, unknown="<?>")
    with pytest.raises(DimError, match="no texts"):
        rf.search.NGram(path, rf.Dim(3, name="letter"))
    lm = rf.search.NGram(path, letter, words={"<eos>": "</s>"}, unknown="<unk>")
    scores, _ = lm.score(None, lm.initial_state(batch_dims=[beam]))
    expected = [log_prob(grams, backoffs, ["<s>"], word) * math.log(10) for word in ("</s>", "a", "<unk>")]
    assert scores.copy_transpose([beam, letter]).raw_tensor[0].tolist() == pytest.approx(expected, abs=1e-4)


ODD = ["</s>", "New\u00a0York", "\u3000", "a\u2028b", "\u00a0x\x85"]


@pytest.mark.parametrize("mark", ["", "\ufeff"])
@pytest.mark.parametrize("ends", ["\n", "\r\n", " \n"])
def test_words_are_split_at_space_and_tab_only(mark, ends, tmp_path):
    grams = {(word,): -1.0 - i / 8 for i, word in enumerate(["<s>", *ODD])}
    grams |= {(ODD[1], ODD[2]): -0.25, ("<s>", ODD[4]): -0.5}
    text = text_of(grams, {("<s>",): -0.125})
    assert "\t\u3000\n" in text  # a line that ends with the word
    (tmp_path / "lm.arpa").write_bytes((mark + text.replace("\n", ends)).encode())
    word, beam = rf.Dim(5, name="word", vocab=ODD), rf.Dim(1, name="beam")
    lm = rf.search.NGram(tmp_path / "lm.arpa", word)
    state, texts = lm.initial_state(batch_dims=[beam]), [["<s>"], ["<s>", ODD[1]]]
    for label, context in zip([0, 1], texts, strict=True):
        scores, state = lm.score(rf.convert_to_tensor([label], dims=[beam], sparse_dim=word), state)
        expected = [log_prob(grams, {("<s>",): -0.125}, context[-1:], w) * math.log(10) for w in ODD]
        assert scores.copy_transpose([beam, word]).raw_tensor[0].tolist() == pytest.approx(expected, abs=1e-5)


def test_a_label_that_begins_and_ends_has_the_word_of_the_end(tmp_path):
    grams = {(word,): -1.0 - i / 8 for i, word in enumerate(["<s>", "</s>", "a", "other"])}
    (tmp_path / "lm.arpa").write_text(text_of(grams, {}))
    beam = rf.Dim(1, name="beam")
    letter = rf.Dim(3, name="letter", vocab={"<s>": 0, "</s>": 0, "a": 1, "other": 2, "xyz": 2})
    lm = rf.search.NGram(tmp_path / "lm.arpa", letter)
    scores, _ = lm.score(rf.zeros([beam], dtype="int32", sparse_dim=letter), lm.initial_state(batch_dims=[beam]))
    expected = [grams[(word,)] * math.log(10) for word in ["</s>", "a", "other"]]
    assert scores.raw_tensor.flatten().tolist() == pytest.approx(expected, abs=1e-5)

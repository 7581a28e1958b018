"""KenLM as a scorer against the same model as tensors. Without the package `kenlm`, a class of Python stands for it."""

import math
import sys
from importlib.util import find_spec
from types import SimpleNamespace

import numpy as np
import pytest

import rfnb as rf
from rfnb.errors import DimError, SearchError
from tests.search.score.test_ngram import LETTERS, log_prob, random_model, text_of


def stand_in(grams, backoffs):
    """A package with the part of `kenlm` that we use, for one model."""
    order = max(map(len, grams))

    class State:
        words = ()

    class Model:
        def __init__(self, path):
            if not path.endswith("lm.arpa"):
                raise OSError("no such file")
            self.order = order

        def __contains__(self, word):
            return (word,) in grams

        def BeginSentenceWrite(self, state):
            state.words = ("<s>",)

        def NullContextWrite(self, state):
            state.words = ()

        def BaseScore(self, state, word, out):
            out.words = (*state.words, word)[-(order - 1) :] if order > 1 else ()
            return log_prob(grams, backoffs, list(state.words[-(order - 1) :]) if order > 1 else [], word)

    return SimpleNamespace(State=State, Model=Model)


@pytest.fixture(params=["stand-in", "kenlm"])
def model(request, tmp_path, monkeypatch):
    grams, backoffs = random_model(5, 3)
    (tmp_path / "lm.arpa").write_text(text_of(grams, backoffs).removeprefix("a comment\n\n"))
    if request.param == "stand-in":
        monkeypatch.setitem(sys.modules, "kenlm", stand_in(grams, backoffs))
    elif find_spec("kenlm") is None:
        pytest.skip("kenlm is not installed")
    return tmp_path / "lm.arpa"


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
def test_it_finds_what_the_model_as_tensors_finds(model):
    letter = rf.Dim(4, name="letter", vocab=LETTERS)

    def found(scorer, debug=False):
        beam, loop = rf.Dim(5, name="beam"), rf.Loop(max_seq_len=6, name="kenlm", debug=debug)
        scores = rf.convert_to_tensor([[-3.0, 0.1, 0.0, 0.2], [0.0, 0.3, 0.2, 0.0]], dims=[rf.batch_dim, letter])
        with loop:
            parts = {"model": (scores, 0.5), "lm": (scorer, 0.8)}
            chosen = loop.choice(parts, axis=letter, beam=beam, input_type="log_prob", partial_candidates=4)
            loop.end(chosen.labels == 0, include_eos=False)
        return loop.found, loop.run

    as_tensors, _ = found(rf.search.NGram(model, letter))
    by_kenlm, run = found(rf.search.KenLM(model, letter), debug=True)
    assert by_kenlm.nbest(5) == as_tensors.nbest(5)
    for one, two in zip(by_kenlm.tree, as_tensors.tree, strict=True):
        assert [x.parts["lm"] for x in one.hypotheses] == pytest.approx(
            [x.parts["lm"] for x in two.hypotheses], abs=1e-3
        )
    assert all(run[step].check == "replay agrees" for step in range(run.steps))


@pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")
def test_the_end_of_a_search_over_frames_is_that_of_the_model_as_tensors(model):
    """ "</s>" is one of the labels: where it is the last one, it is not scored again."""
    letter, time = rf.Dim(4, name="letter", vocab=LETTERS), rf.Dim(None, name="time")
    frames = [[[-0.5, -1.0, -2.0, -1.5]] * 3, [[-2.0, -1.0, -0.4, -1.1]] * 2, []]
    x = rf.convert_to_tensor(
        [np.asarray(one, "float32").reshape(-1, 4) for one in frames], dims=[rf.batch_dim, time, letter]
    )
    scores = []
    for lm in (rf.search.KenLM(model, letter), rf.search.NGram(model, letter)):
        found = rf.search.ctc_beam(x, spatial_dim=time, axis=letter, blank=3, beam=50, scorers={"lm": (lm, 0.7)})
        scores.append([{one.labels: one.score for one in tree.hypotheses} for tree in found.tree])
    for one, two in zip(*scores, strict=True):
        assert one == pytest.approx(two, abs=1e-4)
    grams, backoffs = random_model(5, 3)
    end = log_prob(grams, backoffs, ["<s>"], "</s>") * math.log(10) * 0.7
    assert [scores[0][2], scores[0][1][()]] == [{(): pytest.approx(end)}, pytest.approx(end - 2.2)]
    assert scores[0][1][0,] == pytest.approx(end + math.log(math.exp(-4) + 2 * math.exp(-3.1)), abs=1e-4)


def test_one_step_outside_of_a_loop(model):
    letter, beam = rf.Dim(4, name="letter", vocab=LETTERS), rf.Dim(1, name="beam")
    lm = rf.search.KenLM(model, letter)
    state = lm.advance(rf.zeros([beam], dtype="int64"), lm.initial_state(batch_dims=[beam]))
    labels = rf.convert_to_tensor([[2, 0]], dims=[beam, rf.Dim(2, name="candidates")])
    grams, backoffs = random_model(5, 3)
    expected = [log_prob(grams, backoffs, ["<s>"], word) * math.log(10) for word in ("b", "</s>")]
    assert lm.partial(labels, state).raw_tensor[0].tolist() == pytest.approx(expected, abs=1e-4)


def test_other_labels_and_files_are_refused(model):
    with pytest.raises(DimError, match="does not know a label"):
        rf.search.KenLM(model, rf.Dim(2, name="letter", vocab=["</s>", "z"]))
    with pytest.raises(SearchError, match="cannot be read"):
        rf.search.KenLM(model.with_name("no.bin"), rf.Dim(2, name="letter", vocab=["</s>", "a"]))


def test_without_the_package_the_error_says_what_to_install(monkeypatch, tmp_path):
    monkeypatch.setitem(sys.modules, "kenlm", None)
    with pytest.raises(SearchError, match="pip install kenlm"):
        rf.search.KenLM(tmp_path / "lm.bin", rf.Dim(2, name="letter", vocab=["</s>", "a"]))

"""Wrong arguments for all of `rf.search`, for `loop.choice`, and for what a search returns.

As in `test_wrong_calls.py`: each row starts from a valid call and replaces one argument after the other. The answer is
an error of rfnb, or a result.
"""

from __future__ import annotations

import functools
import inspect
import itertools
import types
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from transformers import GenerationMixin

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError, ParameterError, RfError, SearchError
from rfnb.search.corpus import SearchReport, SearchReports
from rfnb.search.explain.compare import BeamsCompared, SearchComparison
from rfnb.search.generate.settings import DEFAULTS
from rfnb.search.result import Found
from rfnb.search.rules import ChoiceOptions
from rfnb.search.tree import Tree, Trees
from tests.search.score.test_ngram import random_model, text_of
from tests.search.score.test_ngram_kenlm import stand_in

pytestmark = pytest.mark.filterwarnings("ignore")

LABELS = ["</s>", "a", "b", "c"]
WRONG: dict[str, Any] = {
    "None": None, "3": 3, "99": 99, "-1": -1, "1.5": 1.5, "text": "x", "an empty list": [], "an empty dict": {},
    "NaN": float("nan"), "an array": np.zeros(2), "a raw tensor": torch.zeros(2), "an object": object(),
    "another Dim": rf.Dim(7, name="other"), "True": True, "a list": [1.5, None],
    "a Tensor": rf.ones([rf.Dim(3, name="x")]),
    "a function": lambda *args: None, "a dict": {"x": "y", 3: None},
}  # fmt: skip


@functools.cache
def dims() -> dict[str, rf.Dim]:
    label = rf.Dim(4, name="label", vocab=LABELS)
    return {"label": label, "before": rf.Dim(4, name="before"), "time": rf.Dim(3, name="time")}


def looped(scores: Callable[[rf.Tensor], Any] | None = None, debug: bool = True, **options: Any) -> rf.Loop:
    """A search in a loop, with these options of `loop.choice`."""
    label, before, beam = dims()["label"], dims()["before"], rf.Dim(2, name="beam")
    rows = np.log(np.random.RandomState(3).dirichlet(np.ones(4), size=(2, 4))).astype("float32")
    table = rf.convert_to_tensor(rows, dims=[batch_dim, before, label], tags=["one", "two"])
    loop = rf.Loop(max_seq_len=4, name="search", debug=debug)
    loop.state.prev = rf.zeros([batch_dim, beam], dtype="int64", sparse_dim=label)
    options = {"beam": beam, "axis": label, "input_type": "log_prob"} | options
    with loop:
        own = rf.gather(table, indices=loop.state.prev, axis=before)
        parts = {"model": own, "length": 0.1} if scores is None else scores(own)
        chosen = loop.choice(parts, **options)
        loop.state.prev = chosen.labels if isinstance(chosen.labels, rf.Tensor) else chosen.labels[0]
        loop.end(loop.state.prev == 0, include_eos=False)
    return loop


@functools.cache
def search() -> Found:
    loop = looped()
    return _HELD.setdefault("found", (loop, loop.found))[1]


_HELD: dict[str, Any] = {}  # the run, too
TABLE = torch.tensor(np.random.RandomState(1).randn(4, 4).astype("float32"))


def step(prev: torch.Tensor, state: Any) -> Any:
    return TABLE[prev], state


def scores() -> rf.Tensor:
    return rf.convert_to_tensor(np.zeros((3, 4), "float32"), dims=[dims()["time"], dims()["label"]])


def arpa(folder: Any) -> Any:
    path = folder / "lm.arpa"
    path.write_text(text_of(*random_model(5, 3)))
    return path


def of_beam() -> dict[str, Any]:
    label, beam, after = dims()["label"], rf.Dim(2, name="beam"), rf.Dim(2, name="after")
    return {"scores": rf.ones([beam, label]), "base": rf.zeros([beam]), "axis": label, "beam": beam, "out_beam": after}


def of_generate(**settings: Any) -> dict[str, Any]:
    """What `generate` returns without beams, as far as it is read, and its settings."""
    steps = tuple(torch.eye(4)[[label]] for label in (1, 2, 3))
    out = types.SimpleNamespace(sequences=torch.tensor([[1, 1, 2, 3]]), scores=steps)
    return {"out": out, "tokenizer": LABELS, "num_beams": 1, "max_new_tokens": 3, "eos_token_id": 0} | settings


Row = Callable[[Any], tuple[Callable[..., Any], dict[str, Any]]]
"""From a folder, a function and the arguments of a valid call."""

FUNCTIONS: dict[str, Row] = {
    "decode": lambda f: (
        rf.search.decode, 
        {"step": step, "state": torch.zeros(2, 3), "start": 1, "end": "</s>", "limit": 3, "labels": LABELS},
    ),
    "ctc_beam": lambda f: (
        rf.search.ctc_beam, {"log_probs": scores(), "spatial_dim": dims()["time"], "axis": dims()["label"], "blank": 0}
    ),
    "beam_step": lambda f: (rf.search.beam_step, of_beam()),
    "from_generate": lambda f: (rf.search.from_generate, of_generate()),
    "load": lambda f: (rf.search.load, {"path": search().save(f / "x.rfbeam")}),
    "report": lambda f: (rf.search.report, {"found": search(), "references": ["a b", "a"]}),
    "tune": lambda f: (
        rf.search.tune, {"found": search(), "references": ["a b", "a"], "scales": {"length": (0.0, 1.0)}, "more": None}
    ),
    "sampled": lambda f: (rf.search.sampled, {"log_probs": scores(), "axis": dims()["label"]}),
    "truncated": lambda f: (rf.search.truncated, {"log_probs": scores(), "axis": dims()["label"]}),
    "stochastic": lambda f: (rf.search.stochastic, {"log_probs": scores(), "axis": dims()["label"]}),
    "allowed": lambda f: (rf.search.allowed, {"which": ["a"]}),
    "lengths": lambda f: (rf.search.lengths, {"end": 0, "minimum": 1, "maximum": 2}),
    "forced": lambda f: (rf.search.forced, {"prefix": [1, 2]}),
    "no_repeat": lambda f: (rf.search.no_repeat, {"n": 2}),
    "bad_words": lambda f: (
        rf.search.bad_words, {"words": ["ab"], "labels": dims()["label"], "before": None}
    ),
    "repetition_penalty": lambda f: (rf.search.repetition_penalty, {"penalty": 1.5, "within": 9}),
    "presence_penalty": lambda f: (rf.search.presence_penalty, {"presence": 0.5, "frequency": 0.1}),
    "trie": lambda f: (rf.search.trie, {"words": ["ab"], "labels": dims()["label"], "end": 0}),
    "NGram": lambda f: (rf.search.NGram, {"path": arpa(f), "labels": dims()["label"]}),
    "Lexicon": lambda f: (rf.search.Lexicon, {"spellings": {"ab": "ab", "c": "c"}, "labels": dims()["label"]}),
    "KenLM": lambda f: (rf.search.KenLM, {"path": arpa(f), "labels": dims()["label"]}),
    "WordNGram": lambda f: (
        rf.search.WordNGram,
        {"path": arpa(f), "labels": rf.Dim(4, name="piece", vocab=["</s>", "▁a", "▁b", "c"])},
    ),
    "Phrases": lambda f: (rf.search.Phrases, {"phrases": ["ab"], "labels": dims()["label"]}),
    "CTCPrefix": lambda f: (
        rf.search.CTCPrefix, 
        {"log_probs": scores(), "axis": dims()["time"], "blank": 0, "end": 1, "classes": dims()["label"]},
    ),
    "Coverage": lambda f: (rf.search.Coverage, {"weights": rf.ones([dims()["time"]]), "axis": dims()["time"]}),
    "InternalLM": lambda f: (
        rf.search.InternalLM, {"step": lambda *args: args, "encoded": scores(), "axis": dims()["time"]}
    ),
    "Found": lambda f: (rf.search.Found, {"trace": search().trace}),
    "Tree": lambda f: (rf.search.Tree, {"trace": search().trace, "sequence": 0}),
    "Tree.from_json": lambda f: (rf.search.Tree.from_json, {"data": search().tree[0].to_json()}),
}  # fmt: skip

METHODS: dict[str, Row] = {
    "found.nbest": lambda f: (search().nbest, {"n": 2}),
    "found.best": lambda f: (search().best, {"x": search().scores}),
    "found.rerank": lambda f: (search().rerank, {"scales": {"length": 0.2}, "more": None}),
    "found.force": lambda f: (
        rf.search.from_generate(**of_generate()).force,
        {"model": GenerationMixin(), "tokenizer": None},
    ),
    "found.same_hypotheses": lambda f: (search().same_hypotheses, {"other": search(), "pairs": [(0, 0)]}),
    "found.save": lambda f: (search().save, {"path": f / "y.rfbeam"}),
    "found.tree[…]": lambda f: (search().tree.__getitem__, {"which": 0}),
    "compare": lambda f: (rf.compare, {"a": search(), "kind": search()}),
    "compare trees": lambda f: (rf.compare, {"a": search().tree[0], "kind": search().tree[0]}),
    "tree.label": lambda f: (search().tree[0].label, {"label": 1}),
    "tree.text_of": lambda f: (search().tree[0].text_of, {"labels": [1]}),
    "tree.prefix_text": lambda f: (search().tree[0].prefix_text, {"labels": [1]}),
    "tree.prefix": lambda f: (search().tree[0].prefix, {"step": 0, "place": 0}),
    "tree.node": lambda f: (search().tree[0].node, {"step": 0, "place": 0}),
    "tree.nodes": lambda f: (search().tree[0].nodes, {"step": 0}),
    "tree.pruned": lambda f: (search().tree[0].pruned, {"step": 0, "most": 2}),
    "tree.where": lambda f: (search().tree[0].where, {"reference": "a b", "forced": -1.0}),
    "tree.why": lambda f: (search().tree[0].why, {"which": 0}),
    "tree.keep": lambda f: (search().tree[0].keep, {"step": search().tree[0].pruned(1)[0]}),
    "tree.keep a label": lambda f: (
        search().tree[0].keep,
        {"step": 1, "label": search().tree[0].pruned(1)[0].label, "parent": search().tree[0].pruned(1)[0].parent},
    ),
    "tree.save": lambda f: (search().tree[0].save, {"path": f / "x.json"}),
    "report[…]": lambda f: (rf.search.report(search(), ["a", "b"]).__getitem__, {"which": 0}),
    "report.of_class": lambda f: (rf.search.report(search(), ["a", "b"]).of_class, {"verdict": "correct"}),
    "reports[…]": lambda f: (rf.search.report({"x": search()}, ["a", "b"]).__getitem__, {"name": "x"}),
    "chosen.follow": lambda f: (_follow, {"x": None}),
}


def _follow(x: Any) -> Any:
    loop, beam = rf.Loop(max_seq_len=2), rf.Dim(2, name="beam")
    loop.state.prev = rf.zeros([beam], dtype="int64", sparse_dim=dims()["label"])
    with loop:
        own = rf.one_hot(loop.state.prev)
        chosen = loop.choice(own, beam=beam, axis=dims()["label"])
        loop.state.prev = chosen.labels
        return chosen.follow(loop.state.prev if x is None else x)


ROWS = FUNCTIONS | METHODS
OPTIONS = {"compare": ["x"], "from_generate": [*DEFAULTS]}
"""The names that are given for `**options`, where "length" is not one."""


def test_each_public_name_and_method_has_a_row():
    assert {name for name in rf.search.__all__ if "Scorer" not in name} == {
        name for name in FUNCTIONS if "." not in name
    }
    named = {"found": Found, "tree": Tree, "report": SearchReport}
    for name, cls in named.items():
        public = {key for key, value in vars(cls).items() if inspect.isfunction(value) and not key.startswith("_")}
        taking = {key for key in public if len(inspect.signature(vars(cls)[key]).parameters) > 1}
        assert {f"{name}.{key}" for key in taking} <= set(METHODS)
    for cls in (Trees, SearchReports, SearchComparison, BeamsCompared):
        assert not [key for key, value in vars(cls).items() if key[0] != "_" and inspect.isfunction(value)
                    and len(inspect.signature(value).parameters) > 1]  # fmt: skip


def check(what: str, call: Callable[[], Any]) -> None:
    try:
        call()
    except RfError:
        pass
    except Exception as error:
        raise AssertionError(f"{what} gives {type(error).__name__}: {error}") from error


@pytest.mark.parametrize("name", ROWS)
def test_a_wrong_argument_gives_an_error_of_rfnb(name, tmp_path, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "kenlm", stand_in(*random_model(5, 3)))
    fn, valid = ROWS[name](tmp_path)
    valid = {key: value for key, value in valid.items() if key != "more"}
    fn(**valid)
    raw = []
    for parameter in inspect.signature(fn).parameters.values():
        names = OPTIONS.get(name, ["length"]) if parameter.kind is parameter.VAR_KEYWORD else [parameter.name]
        for option, (what, wrong) in itertools.product(names, WRONG.items()):
            given = valid if parameter.kind is parameter.VAR_POSITIONAL else valid | {option: wrong}
            try:
                check(f"{name}({option}={what})", functools.partial(fn, **given))
            except AssertionError as error:
                raw.append(str(error))
    assert not raw, "\n".join(raw)


@pytest.mark.parametrize("name", ["scores", "parts", "scorer", *ChoiceOptions.__dataclass_fields__])
def test_a_wrong_option_of_choice_gives_an_error_of_rfnb(name):
    raw = []
    for what, wrong in WRONG.items():
        given = {
            "scores": {"scores": lambda own, wrong=wrong: wrong},
            "parts": {"scores": lambda own, wrong=wrong: {"model": own, "x": wrong}},
            "scorer": {"scores": lambda own, wrong=wrong: {"model": own, "x": (rf.search.no_repeat(1), wrong)}},
        }.get(name, {name: wrong})
        for more in (
            ({}, {"scores": lambda own: [own]}, {"blank": 0}) if name not in ("scores", "parts", "scorer") else ({},)
        ):
            try:
                check(f"choice({name}={what}, {more})", functools.partial(looped, debug=False, **{**more, **given}))
            except AssertionError as error:
                raw.append(str(error))
    assert not raw, "\n".join(raw)


def decoded(**options: Any) -> Found:
    given = {"batch": 1, "start": 1, "end": 0, "limit": 3, "labels": LABELS} | options
    return rf.search.decode(step, **given)


SAYS: list[tuple[Callable[[], Any], type[RfError], str]] = [
    (lambda: search().tree[0].pruned(99), SearchError, "no step with this position.*99.*0 to 3"),
    (lambda: search().tree[0].nodes(99), SearchError, "no step with this position.*99.*0 to 3"),
    (lambda: search().tree[0].prefix(99, 0), SearchError, "no step with this position.*99.*0 to 3"),
    (lambda: search().nbest(1.5), DtypeError, "`n` is not a whole number.*1.5"),
    (lambda: search().tree[None], DtypeError, "`which` is not a whole number.*a string"),
    (lambda: search().tree[0].node("x", 0), DtypeError, "`step` is not a whole number"),
    (lambda: search().tree[0].where("a", forced="x"), DtypeError, "`forced` is not a number"),
    (lambda: search().rerank("x"), DtypeError, "`scales` is not a dict"),
    (lambda: search().best(3), DtypeError, "`x` is not an rf.Tensor"),
    (lambda: rf.search.report(3, ["a"]), SearchError, "not the result of a search"),
    (lambda: rf.search.report(search(), ["a", "b"])[9], SearchError, "no sequence with this position.*9.*0 to 1"),
    (lambda: rf.search.report(search(), ["a", "b"])["tow"], SearchError, "did you mean 'two'"),
    (lambda: rf.search.report(search(), ["a", "b"]).of_class("corect"), SearchError, "did you mean 'correct'"),
    (lambda: rf.search.load(3), DtypeError, "`path` is not a string.*a path"),
    (lambda: rf.search.Tree(search().trace, 9), SearchError, "no sequence with this position"),
    (lambda: rf.search.Found(3), SearchError, "not the trace of a search"),
    (lambda: decoded(scorers=3), DtypeError, "decode: `scorers` is not a dict"),
    (lambda: decoded(constraints=3), DtypeError, "decode: `constraints` is not a list"),
    (lambda: decoded(change=3), DtypeError, "decode: `change` is not a function"),
    (lambda: decoded(change=lambda scores, labels: None), DtypeError, "the result of `change` is not an rf.Tensor"),
    (lambda: decoded(input_type="logit"), ParameterError, "unknown `input_type`"),
    (lambda: decoded(input_type=3), ParameterError, "unknown `input_type`"),
    (lambda: decoded(start=9), ParameterError, "`start` is not a label.*0 to 3"),
    (lambda: looped(blank="x"), DtypeError, "choice: `blank` is not a whole number"),
    (lambda: looped(lambda own: [own], source_beam_sizes=3), DtypeError, "choice: `source_beam_sizes` is not a list"),
    (lambda: looped(cheating="x"), ParameterError, "unknown `cheating`"),
    (lambda: looped(axis="label"), DimError, "choice: `axis` is not a Dim"),
    (lambda: looped(threshold="x"), ParameterError, "choice: `threshold` is not a finite number"),
    (lambda: rf.search.trie(3, labels=dims()["label"], end=0), DtypeError, "trie: `words` is not a list"),
    (lambda: rf.search.trie([[1.5]], labels=dims()["label"], end=0), ParameterError, "no such label"),
    (lambda: rf.search.allowed(3), DtypeError, "allowed: `which` is not an rf.Tensor.*or a list"),
    (lambda: rf.search.from_generate(**of_generate(num_beams="x")), DtypeError, "`num_beams` is not a whole number"),
    (
        lambda: rf.search.from_generate(**of_generate(eos_token_id=print)),
        DtypeError,
        "`eos_token_id` is not a whole number.*or a list",
    ),
    (lambda: rf.search.forced(3), DtypeError, "forced: `prefix` is not .*a string or a list"),
]
"""What is said about the mistakes that are made most."""


@pytest.mark.parametrize(("mistake", "kind", "words"), SAYS, ids=lambda part: part if isinstance(part, str) else "")
def test_the_error_says_what_is_wrong(mistake, kind, words):
    with pytest.raises(kind, match=f"(?s){words}"):
        mistake()


def test_states_of_numpy_follow_their_hypotheses():
    table = TABLE.numpy()

    def numpy_step(prev: torch.Tensor, state: np.ndarray) -> Any:
        assert isinstance(state, np.ndarray) and len(state) == len(prev)
        state = state + table[prev].sum(-1)
        return torch.tensor(table[prev] + np.sin(state)[:, None] * np.arange(4)), state

    def torch_step(prev: torch.Tensor, state: torch.Tensor) -> Any:
        scores, state = numpy_step(prev, state.numpy())
        return scores, torch.tensor(state)

    given = {"start": 1, "end": 0, "limit": 5, "beam": 3}
    found = rf.search.decode(numpy_step, np.zeros(2, "float32"), **given)
    expected = rf.search.decode(torch_step, torch.zeros(2), **given)
    assert found.nbest(3) == expected.nbest(3) and np.allclose(found.trace.final_scores, expected.trace.final_scores)
    with pytest.raises(SearchError, match="counts the hypotheses"):
        rf.search.decode(lambda prev, state: (TABLE[prev], state[:1]), np.zeros(2), **given)

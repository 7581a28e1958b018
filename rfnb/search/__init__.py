"""Search: beams of hypotheses over the steps of a loop, their scores, and the tree of all that was tried.

`rules` are the options of a search, and `beam` is one step of it; `places` has its groups, ends and thresholds, and
`frames` is the step of CTC and transducers. `choice` attaches a step to the body of a loop, `decoding` takes steps of
any function; `score` has the scorers that both add up. A `trace` keeps what was chosen; `tree` reads one sequence of
it, and `explain` says why. `found` is what a search returns, `stored` its files, `corpus` the errors of many sequences.
`replayed` and `repeated` compute again what a recorded search did not keep.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from rfnb.search.beam import BeamStep as BeamStep, beam_step as beam_step
    from rfnb.search.corpus.report import report as report
    from rfnb.search.corpus.tune import tune as tune
    from rfnb.search.ctc import ctc_beam as ctc_beam
    from rfnb.search.decoding import decode as decode
    from rfnb.search.found import Found as Found, load as load
    from rfnb.search.generate.build import from_generate as from_generate
    from rfnb.search.score.coverage import Coverage as Coverage
    from rfnb.search.score.ctc_prefix import CTCPrefix as CTCPrefix
    from rfnb.search.score.internal_lm import InternalLM as InternalLM
    from rfnb.search.score.kenlm_model import KenLM as KenLM
    from rfnb.search.score.lexicon import Lexicon as Lexicon
    from rfnb.search.score.ngram import NGram as NGram
    from rfnb.search.score.phrases import Phrases as Phrases
    from rfnb.search.score.scorer import (
        ChangingScorer as ChangingScorer,
        PartialScorer as PartialScorer,
        Scorer as Scorer,
    )
    from rfnb.search.score.word_ngram import WordNGram as WordNGram
    from rfnb.search.tree import Tree as Tree
    from rfnb.search.variants.constraints import (
        allowed as allowed,
        forced as forced,
        lengths as lengths,
        trie as trie,
    )
    from rfnb.search.variants.history import (
        bad_words as bad_words,
        no_repeat as no_repeat,
        presence_penalty as presence_penalty,
        repetition_penalty as repetition_penalty,
    )
    from rfnb.search.variants.sampling import sampled as sampled, stochastic as stochastic, truncated as truncated

_NAMES = {
    "CTCPrefix": "score.ctc_prefix",
    "ChangingScorer": "score.scorer",
    "Coverage": "score.coverage",
    "Found": "found",
    "InternalLM": "score.internal_lm",
    "KenLM": "score.kenlm_model",
    "Lexicon": "score.lexicon",
    "NGram": "score.ngram",
    "PartialScorer": "score.scorer",
    "Phrases": "score.phrases",
    "Scorer": "score.scorer",
    "Tree": "tree",
    "WordNGram": "score.word_ngram",
    "allowed": "variants.constraints",
    "bad_words": "variants.history",
    "beam_step": "beam",
    "ctc_beam": "ctc",
    "decode": "decoding",
    "forced": "variants.constraints",
    "from_generate": "generate.build",
    "lengths": "variants.constraints",
    "load": "found",
    "no_repeat": "variants.history",
    "presence_penalty": "variants.history",
    "repetition_penalty": "variants.history",
    "report": "corpus.report",
    "sampled": "variants.sampling",
    "stochastic": "variants.sampling",
    "trie": "variants.constraints",
    "truncated": "variants.sampling",
    "tune": "corpus.tune",
}
"""The module of each name of `rf.search`, imported when the name is first asked for."""

__all__ = sorted(_NAMES)


def __dir__() -> list[str]:
    return [*__all__, "__all__", "__doc__", "__name__"]


if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """A name of `rf.search`, imported when first asked for; AttributeError, with similar names, for others."""
        if name in _NAMES:
            value = globals()[name] = getattr(_import_module(f"{__name__}.{_NAMES[name]}"), name)
            return value
        from rfnb.core.ground.text import did_you_mean

        hint = did_you_mean(name, _NAMES, "rf.search.{}")
        raise AttributeError(f"rf.search has no {name!r}" + (f": {hint}" if hint else ""), name=name)

"""Search: beams of hypotheses over the steps of a loop, their scores, and the tree of all that was tried.

`rules` are the options of a search, and `beam` is one step of it, by rank or with groups, ends and thresholds; `frames`
is the step of CTC and transducers. `choice` attaches a step to the body of a loop, `decoding` takes steps of
any function; `score` has the scorers that both add up. A `trace` keeps what was chosen; `tree` reads one sequence of
it, and `explain` says why. `found` is what a search returns, `stored` its files, `corpus` the errors of many sequences.
`replayed` and `repeated` compute again what a recorded search did not keep.
"""

from importlib import import_module as _import_module
from typing import TYPE_CHECKING as _TYPE_CHECKING

if _TYPE_CHECKING:
    from rfnb.search.beam import BeamStep as BeamStep, beam_step as beam_step
    from rfnb.search.corpus import report as report, tune as tune
    from rfnb.search.decoding import decode as decode
    from rfnb.search.frames import ctc_beam as ctc_beam
    from rfnb.search.generate.build import from_generate as from_generate
    from rfnb.search.result import Found as Found, load as load
    from rfnb.search.score.ctc_prefix import CTCPrefix as CTCPrefix
    from rfnb.search.score.lexicon import Lexicon as Lexicon
    from rfnb.search.score.model_scorers import Coverage as Coverage, InternalLM as InternalLM
    from rfnb.search.score.ngram import KenLM as KenLM, NGram as NGram
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

_MODULES = {
    "beam": "beam_step",
    "corpus": "report tune",
    "decoding": "decode",
    "result": "Found load",
    "frames": "ctc_beam",
    "generate.build": "from_generate",
    "score.ctc_prefix": "CTCPrefix",
    "score.lexicon": "Lexicon",
    "score.ngram": "KenLM NGram",
    "score.model_scorers": "Coverage InternalLM",
    "score.phrases": "Phrases",
    "score.scorer": "ChangingScorer PartialScorer Scorer",
    "score.word_ngram": "WordNGram",
    "tree": "Tree",
    "variants.constraints": "allowed forced lengths trie",
    "variants.history": "bad_words no_repeat presence_penalty repetition_penalty",
    "variants.sampling": "sampled stochastic truncated",
}
_NAMES = {name: module for module, names in _MODULES.items() for name in names.split()}
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

"""The settings of a call of `generate`, which its output does not hold: from its configuration and its keywords."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from rfnb.core.tensor.arguments import mismatches, not_of_kind
from rfnb.errors import SearchError

WHAT = "from_generate"

HINT = "rf.search.from_generate(out, tokenizer, model.generation_config, num_beams=4), with the keywords of `generate`"

DEFAULTS: dict[str, object] = {
    "num_beams": 1, "do_sample": False, "length_penalty": 1.0, "early_stopping": False, "eos_token_id": None,
    "pad_token_id": None, "num_return_sequences": None, "max_length": None, "max_new_tokens": None,
}  # fmt: skip
"""The settings that are read, and the values of `generate` for those that a configuration leaves open."""

NEEDED = ("eos_token_id", "num_beams", "length_penalty", "early_stopping")
"""Those without which no search can be made again, by the order in which they are asked for."""

KINDS: dict[str, object] = {
    **dict.fromkeys(("num_beams", "pad_token_id", "num_return_sequences", "max_length", "max_new_tokens"), int | None),
    "length_penalty": float | None, "eos_token_id": int | Sequence[int] | None,
}  # fmt: skip
"""The kinds of the settings."""

OTHER_SEARCHES = {
    "num_beam_groups": "searches with groups of beams", "constraints": "searches with constraints",
    "force_words_ids": "searches with constraints", "penalty_alpha": "contrastive searches",
    "dola_layers": "DoLa searches", "assistant_model": "assisted searches", "use_mtp": "assisted searches",
    "prompt_lookup_num_tokens": "assisted searches", "assistant_early_exit": "assisted searches",
    "custom_generate": "searches of other code", "stopping_criteria": "searches with other stopping criteria",
    "stop_strings": "searches with other stopping criteria",
}  # fmt: skip
"""Settings of searches that are not made again, and what those are."""


@dataclass(frozen=True, kw_only=True)
class Settings:
    """The settings of one call of `generate`.

    Args:
        beams: the number of beams.
        sampled: whether labels are sampled.
        length_penalty: scores are divided by length ** length_penalty.
        early_stopping: when a search ends: True, as soon as `beams` hypotheses have ended; False, when none that goes
            on is better at its length; "never", when none can become better.
        ends: the labels that end hypotheses.
        returned: the number of hypotheses that are returned of each sequence; None if it is not given.
        most: the most labels of a hypothesis with its prompt. most_new: without; it comes first.
        pad: the label after the end of a hypothesis.
    """

    beams: int
    sampled: bool
    length_penalty: float
    early_stopping: bool | Literal["never"]
    ends: tuple[int, ...]
    returned: int | None
    most: int | None
    most_new: int | None
    pad: int | None

    def limit(self, prompt: int) -> int | None:
        """The most labels of a hypothesis after its prompt, if that is known."""
        if self.most_new is not None:
            return self.most_new
        return None if self.most is None else self.most - prompt


def read_settings(config: object, keywords: Mapping[str, object], *, beams: bool) -> Settings:
    """The settings. Raises SearchError for one that is missing, and for searches that cannot be made again.

    config: a configuration; None if there is none. beams: whether the output is that of a search with beams.
    """
    if config is not None and hasattr(config, "generation_config"):
        raise SearchError(
            f"{WHAT}: this is a model, not a configuration", got=type(config).__name__, hint="model.generation_config"
        )

    def value(name: str) -> Any:
        setting: object = keywords[name] if name in keywords else getattr(config, name, None)
        setting = setting.tolist() if hasattr(setting, "tolist") else setting  # of numpy and torch
        for wrong, kind in mismatches(setting, KINDS.get(name, Any)):
            raise not_of_kind(f"{WHAT}: `{name}`", wrong, kind)
        return DEFAULTS.get(name) if setting is None else setting

    for name, searches in OTHER_SEARCHES.items():
        setting = value(name)
        if setting is not None and setting is not False and (name, setting) != ("num_beam_groups", 1):
            raise SearchError(f"{WHAT}: {searches} are not made again", got=f"{name}={_short(setting)}")
    for name in NEEDED if beams else NEEDED[:1]:
        if config is None and name not in keywords:
            raise SearchError(f"{WHAT}: `{name}` is not known, which the output does not hold", hint=HINT)
    if value("num_beams") < 1:
        raise SearchError(f"{WHAT}: `num_beams` is less than 1", got=value("num_beams"))
    ends, stop = value("eos_token_id"), value("early_stopping")
    if stop not in (True, False, "never"):
        raise SearchError(f"{WHAT}: unknown `early_stopping`", got=repr(stop), expected='True, False or "never"')
    ends = [] if ends is None else [ends] if isinstance(ends, int) else list(ends)
    return Settings(
        beams=int(value("num_beams")),
        sampled=bool(value("do_sample")),
        length_penalty=float(value("length_penalty")),
        early_stopping=stop,
        ends=tuple(map(int, ends)),
        returned=value("num_return_sequences"),
        most=value("max_length"),
        most_new=value("max_new_tokens"),
        pad=value("pad_token_id"),
    )


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) < 40 else type(value).__name__


def contradiction(name: str, got: object, expected: object = None, why: str = "") -> SearchError:
    """The error for a setting that does not fit the output."""
    reason = f", {why}" if why else ""
    return SearchError(f"{WHAT}: the output was not made with this `{name}`{reason}", got=got, expected=expected)

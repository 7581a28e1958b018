"""Registers the search with loops, without importing it before it is used."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from rfnb.loop.choice import choose
from rfnb.trace.capture.generate import KeptSearch, keep_candidates, make_search
from rfnb.trace.run.file.store import read_found, write_found


@choose.register
def _choose(body: object, scores: object, **options: object) -> Any:
    return import_module("rfnb.search.choice").choose(body, scores, **options)


@write_found.register
def _write_found(found: Any) -> Any:
    return import_module("rfnb.search.file").parts_of(found.trace.with_candidates())


@read_found.register
def _read_found(facts: object, arrays: object) -> Any:
    return import_module("rfnb.search.result").Found(import_module("rfnb.search.file").trace_of(facts, arrays))


@keep_candidates.register
def _keep_candidates(config: object) -> Any:
    return import_module("rfnb.search.generate.scores").KeptScores.of(config)


@make_search.register
def _make_search(kept: KeptSearch) -> Any:
    from_generate = import_module("rfnb.search.generate.build").from_generate
    return from_generate(kept.sequences, kept.tokenizer, kept.config, kept=kept.processor, **kept.keywords)

"""Watches `generate` of Hugging Face's models: the labels of each call of the model, the candidates of its search, and
what comes out.
"""

from __future__ import annotations

import copy
import functools
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from rfnb.core.ground.hook import Hook
from rfnb.errors import ViewError

Call = Callable[..., object]


@dataclass(eq=False)
class Generated:
    """A call of `generate`.

    count: the number of its inputs. source: labels of the inputs of an encoder [inputs, labels], mask: which of them
    count. prompt: which labels of the prompt count, of a model without encoder. ends: labels that end a sequence.
    sequences: the result [results, labels]; None if it is not known. tokenizer: where `generate` was given one.
    """

    count: int
    source: np.ndarray | None
    mask: np.ndarray | None
    prompt: np.ndarray | None
    ends: frozenset[int]
    tokenizer: object = None
    sequences: np.ndarray | None = None


@dataclass(eq=False)
class KeptSearch:
    """What a call of `generate` keeps of its search.

    processor: has the candidates. config: the complete configuration. keywords: those of `OTHERS`, and
    the processors of the caller.
    """

    processor: Any
    config: Any
    keywords: dict[str, object]
    tokenizer: object = None
    sequences: Any = None


@dataclass(eq=False)
class Decoded:
    """A call of the model in `generate`. labels: of each row so far, [rows, labels]. outer: of `RawStep.call`."""

    generated: Generated
    labels: np.ndarray
    outer: int | None = None


keep_candidates: Hook[[object], object] = Hook("trace.capture.generate.keep_candidates", by="search.register")
"""A logits processor that keeps the candidates of a call of `generate`, for its complete configuration."""
make_search: Hook[[KeptSearch], object] = Hook("trace.capture.generate.make_search", by="search.register")
"""The search as `rf.search.from_generate` makes it."""


class Searches(Sequence[Any]):
    """The searches of all calls of `generate`, in order; each is made when it is read first.

    Raises SearchError for a search that cannot be made again, such as one with an assistant.
    """

    def __init__(self, kept: list[KeptSearch]):
        self.kept = kept
        self._made: dict[int, object] = {}

    def __len__(self) -> int:
        return len(self.kept)

    def __iter__(self) -> Iterator[Any]:
        return (self[i] for i in range(len(self)))

    def __getitem__(self, which: Any) -> Any:
        """A search, or a list of them for a slice."""
        if isinstance(which, slice):
            return [self[i] for i in range(len(self))[which]]
        try:
            number = range(len(self))[which]
        except (IndexError, TypeError):
            raise ViewError(
                "capture: there is no such search",
                got=repr(which),
                expected=f"0 to {len(self) - 1}" if self.kept else None,
                hint=None if self.kept else "rf.capture(model, search=True) around a call of model.generate",
            ) from None
        if number not in self._made:
            self._made[number] = make_search(self.kept[number])
        return self._made[number]


class GenerateWatch:
    """Follows the calls of `generate` of some modules, in this thread.

    now: the call of the model that is running. searches: of each call, if they are kept.
    """

    def __init__(self, counts: Callable[[object], bool], *, search: bool = False):
        self.now: Decoded | None = None
        self.searches: list[KeptSearch] = []
        self._search = search
        self._counts, self._thread = counts, threading.get_ident()

    def decoded(self, outer: int) -> Decoded | None:
        """The call of the model that attention in a call of an outermost module belongs to."""
        if self.now is None:
            return None
        if self.now.outer is None:
            self.now.outer = outer
        return self.now if self.now.outer == outer else None

    @contextmanager
    def watching(self) -> Iterator[None]:
        """Starts to watch, if transformers has been imported."""
        module = sys.modules.get("transformers.generation.utils")
        mixin = None if module is None else getattr(module, "GenerationMixin", None)
        if mixin is None:
            yield
            return
        generate = mixin.generate

        @functools.wraps(generate)
        def watched(model: object, *args: object, **kwargs: object) -> object:
            if threading.get_ident() != self._thread or not self._counts(model):
                return generate(model, *args, **kwargs)
            return self._generate(model, generate, args, kwargs)

        mixin.generate = watched
        try:
            yield
        finally:
            mixin.generate = generate

    def _generate(self, model: Any, generate: Call, args: tuple[object, ...], kwargs: dict[str, Any]) -> object:
        generated = None
        with suppress(Exception):  # an error here must not stop the model
            generated = _generated(model, args, kwargs)
        outer, self.now = self.now, None
        prepare, processors_of = model.prepare_inputs_for_generation, model._get_logits_processor
        continue_with: Any = getattr(model, "_get_top_k_continuations", None)
        searches: list[KeptSearch] = []

        @functools.wraps(prepare)
        def prepared(labels: object, /, *args: object, **kwargs: object) -> object:  # a Trainer has `labels` of its own
            with suppress(Exception):
                self.now = None if generated is None else Decoded(generated, _array(labels))
            return prepare(labels, *args, **kwargs)

        @functools.wraps(processors_of)
        def processors(generation_config: object, *args: object, **others: object) -> object:
            every = processors_of(generation_config, *args, **others)
            with suppress(Exception):
                processor = keep_candidates(generation_config)
                settings = {name: kwargs[name] for name in OTHERS if kwargs.get(name)}
                settings["logits_processor"] = kwargs.get("logits_processor") or []
                searches.append(KeptSearch(processor, copy.copy(generation_config), settings, kwargs.get("tokenizer")))
                every.append(processor)
            return every

        def continuations(*args: object, **kwargs: Any) -> object:
            scores, sequences, rows = candidates = continue_with(*args, **kwargs)
            with suppress(Exception):
                at, start = kwargs["cur_len"], kwargs["decoder_prompt_len"]
                searches[-1].processor.draw(scores, rows[:, :, at - start], sequences[:, :, at])
            return candidates

        methods: dict[str, object] = {"prepare_inputs_for_generation": prepared}
        if self._search:
            methods |= {"_get_logits_processor": processors}
            methods |= {"_get_top_k_continuations": continuations} if continue_with is not None else {}
        try:
            with replaced(model, methods):
                result = generate(model, *args, **kwargs)
        finally:
            self.now = outer
        with suppress(Exception):
            sequences = getattr(result, "sequences", result)
            for search in searches[-1:]:
                search.sequences = sequences
                self.searches.append(search)
            if generated is not None:
                generated.sequences = _array(sequences)
        return result


@contextmanager
def replaced(model: object, methods: dict[str, object]) -> Iterator[None]:
    """The object has these methods instead of those of its class."""
    originals = {name: vars(model)[name] for name in methods if name in vars(model)}
    vars(model).update(methods)
    try:
        yield
    finally:
        for name in methods:
            del vars(model)[name]
        vars(model).update(originals)


def _generated(model: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Generated:
    inputs = next((x for x in (args[0] if args else None, *map(kwargs.get, INPUTS)) if x is not None), None)
    labels = None if inputs is None or inputs.is_floating_point() or inputs.dim() != 2 else _array(inputs)
    mask = kwargs.get("attention_mask")
    mask = None if mask is None or mask.dim() != 2 else _array(mask) != 0
    encodes = bool(getattr(model.config, "is_encoder_decoder", False))
    config = (args[1] if len(args) > 1 else kwargs.get("generation_config")) or model.generation_config
    ends = kwargs.get("eos_token_id", config.eos_token_id)
    return Generated(
        1 if inputs is None else len(inputs),
        labels if encodes else None,
        mask if encodes else None,
        None if encodes else mask,
        frozenset() if ends is None else frozenset(np.ravel(_array(ends) if hasattr(ends, "cpu") else ends).tolist()),
        kwargs.get("tokenizer"),
    )


OTHERS = ("assistant_model", "custom_generate", "stopping_criteria", "prefix_allowed_tokens_fn")
"""Keywords of `generate` that change the search, and that no configuration has."""
INPUTS = ("inputs", "input_ids", "input_features", "input_values", "inputs_embeds", "pixel_values")
"""Keywords of `generate` for what it reads."""


def _array(raw: Any) -> np.ndarray:
    array: np.ndarray = raw.detach().cpu().numpy()
    return array

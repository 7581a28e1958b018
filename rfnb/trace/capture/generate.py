"""Watches `generate` of Hugging Face's models: which labels each call of the model has, and what comes out."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

import numpy as np


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
    tokenizer: Any = None
    sequences: np.ndarray | None = None


@dataclass(eq=False)
class Decoded:
    """A call of the model in `generate`. labels: of each row so far, [rows, labels]. outer: of `RawStep.call`."""

    generated: Generated
    labels: np.ndarray
    outer: int | None = None


class GenerateWatch:
    """Follows the calls of `generate` of some modules, in this thread. now: the call of the model that is running."""

    def __init__(self, counts: Callable[[Any], bool]):
        self.now: Decoded | None = None
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
        def watched(model: Any, *args: Any, **kwargs: Any) -> Any:
            if threading.get_ident() != self._thread or not self._counts(model):
                return generate(model, *args, **kwargs)
            return self._generate(model, generate, args, kwargs)

        mixin.generate = watched
        try:
            yield
        finally:
            mixin.generate = generate

    def _generate(self, model: Any, generate: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        generated = None
        with suppress(Exception):  # an error here must not stop the model
            generated = _generated(model, args, kwargs)
        before, self.now = self.now, None
        prepare = model.prepare_inputs_for_generation

        @functools.wraps(prepare)
        def prepared(labels: Any, *args: Any, **kwargs: Any) -> Any:
            with suppress(Exception):
                self.now = None if generated is None else Decoded(generated, _array(labels))
            return prepare(labels, *args, **kwargs)

        own = vars(model).get("prepare_inputs_for_generation")
        model.prepare_inputs_for_generation = prepared
        try:
            result = generate(model, *args, **kwargs)
        finally:
            self.now = before
            del model.prepare_inputs_for_generation
            if own is not None:
                model.prepare_inputs_for_generation = own
        with suppress(Exception):
            if generated is not None:
                generated.sequences = _array(getattr(result, "sequences", result))
        return result


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


INPUTS = ("inputs", "input_ids", "input_features", "input_values", "inputs_embeds", "pixel_values")
"""Keywords of `generate` for what it reads."""


def _array(raw: Any) -> np.ndarray:
    array: np.ndarray = raw.detach().cpu().numpy()
    return array

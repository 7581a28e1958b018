"""The search of a recurrent net: its steps, and its result with the scores of the reference."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from copy import copy
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import LayerNotFound, NetworkError
from rfnb.netdict.loops.build import choices
from rfnb.netdict.loops.net import RecNet
from rfnb.netdict.resolve import EXTRA, NET_OPTIONS, entry_of, inner_net
from rfnb.ops.convert import convert_to_tensor
from rfnb.ops.math import cast, maximum, minimum, where
from rfnb.ops.reduce import reduce_max
from rfnb.ops.shape import set_feature_dim
from rfnb.search.result import Found

if TYPE_CHECKING:
    from rfnb.loop.loop import Loop
    from rfnb.netdict.network import Network


@dataclass(frozen=True)
class SearchChoices:
    """The result of a search.

    Attributes:
        beam_dim: the final hypotheses. beam_scores: their scores, {batch, beam}. lengths: how many labels
            each has.
        found: the search, with its tree and n-best lists.
    """

    beam_dim: Dim
    beam_scores: Tensor
    lengths: Tensor
    found: Found

    @property
    def src_beams(self) -> Tensor:
        """Which hypothesis of the step before each one extends in the last step. → {batch, beam}"""
        parents = self.found.trace.parents[-1]
        assert isinstance(self.found.lengths, Tensor)
        dims = self.found.lengths.copy_transpose([*self.beam_scores.dims]).dims
        return convert_to_tensor(np.asarray(parents, "int32").reshape(parents.shape), dims=dims)


@dataclass
class StepsOfSearch:
    """The choices of a step, while it is computed. chosen: the newest one."""

    loop: Loop
    rec: RecNet
    chosen: Any = None

    def choose(self, scores: object, **options: object) -> Any:
        """A choice of `loop.choice`."""
        choice = self.loop.choice(scores, beam=self.rec.beam, **options)
        if choice.parents is not None:
            self.chosen = choice
        return choice

    def newest(self, x: Tensor) -> Tensor:
        """A value of hypotheses before the newest choice, for those after it."""
        if self.chosen is None:
            return x
        y: Tensor = self.chosen.follow(x)
        return y if y is x else set_feature_dim(y, x.feature_dim)


def result_of(rec: RecNet, loop: Loop) -> SearchChoices | None:
    """The result of a search, whose scores are those of the reference: normalized by one length for all hypotheses,
    or with `batch_independent` for those of a sequence.
    """
    if rec.beam is None or loop.found is None:
        return None
    scores, lengths = loop.found.scores, loop.found.lengths
    choice: Any = rec.last_choice
    if choice.length_normalization and lengths.num_elements():
        over = [rec.beam] if rec.layer.spec.batch_independent else list(lengths.dims)
        longest = reduce_max(lengths, axis=over, use_mask=False)
        with_end = bool(rec.layer.include_eos)
        limit = loop.max_seq_len
        steps = longest if with_end or limit is None else minimum(longest + 1, limit)
        counted = cast(maximum(longest + (not with_end), 1), scores.dtype)
        factor = cast(steps, scores.dtype) ** choice.length_normalization_exponent / counted
        scores = scores * where(longest > 0, factor, 1.0)
    return SearchChoices(rec.beam, scores, lengths, loop.found)


def searching(net: Network, beam_size: int | None) -> Network:
    """A network of the same net dict and the same parameters that searches. beam_size: of the last choices."""
    if isinstance(beam_size, bool) or not (beam_size is None or (isinstance(beam_size, int) and beam_size > 0)):
        raise NetworkError("search: beam_size is a number of hypotheses", got=repr(beam_size), expected="1 or more")
    searcher = type(net)(net.config, net.extern_data, train_flag=False, search_flag=True, name=net.name,
                     batch_independent=net.batch_independent)  # fmt: skip
    searcher._builder.variables = net._builder.variables
    searcher._stands_for = weakref.ref(net)
    layers = net._builder.scope.layers
    return searcher.construct_from_dict(layers if beam_size is None else with_beam_size(layers, beam_size))


def with_beam_size(layers: Mapping[str, Any], beam_size: int) -> Mapping[str, object]:
    """A net dict whose choices have this beam size, at any depth. It keeps the lines of the config."""
    changed: Any = copy(layers)
    for name, described in layers.items():
        inner = inner_net(described)
        if inner is not None:
            described = _with(described, NET_OPTIONS[described["class"]], with_beam_size(inner, beam_size))
        elif name in choices({name: described}):
            described = _with(described, "beam_size", beam_size)
        changed[name] = described
    return changed


def _with(described: Mapping[str, object], key: str, given: object) -> object:
    """A copy of the description of a layer, which keeps its line in the config."""
    copied: Any = copy(described)
    copied[key] = given
    return copied


def searched_net(net: Network, layer: str | None) -> RecNet:
    """The recurrent net whose search is asked for. Raises LayerNotFound if there is none, or no layer is named."""
    nets = net._builder.loops.nets
    searches = {path: rec for path, rec in nets.items() if rec.beam is not None and (layer or not EXTRA.match(path))}
    if layer is not None:
        return entry_of(searches, layer, f"search: there is no search in a layer {layer!r}", LayerNotFound)
    if not searches:
        raise LayerNotFound(
            "search: there is no layer of the class choice in a loop", got=f"loops: {', '.join(nets) or 'none'}",
            expected='"unit": {"output": {"class": "choice", …}, …}',
        )  # fmt: skip
    if len(searches) > 1:
        raise LayerNotFound(
            "search: there are several searches", got=", ".join(searches),
            hint=f'net.search(batch, layer="{next(iter(searches))}")',
        )  # fmt: skip
    return next(iter(searches.values()))

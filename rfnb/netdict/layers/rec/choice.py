"""Layers of a search: choice, decide, and those that take the scores and the parents of hypotheses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import Positive
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import NetworkDims, without
from rfnb.netdict.layer import ChoosingLayer, Layer
from rfnb.netdict.layer_call import exact_log
from rfnb.netdict.layers.basic import Copy
from rfnb.netdict.loops.search import SearchChoices, StepsOfSearch
from rfnb.netdict.losses_of_layers import search_of
from rfnb.netdict.options import value
from rfnb.netdict.resolve import names_of_sources
from rfnb.ops.create import zeros
from rfnb.ops.index import gather
from rfnb.ops.math import cast
from rfnb.ops.reduce import reduce_argmax
from rfnb.ops.shape import replace_dim, set_feature_dim, set_sparse_dim

SAME = (
    "input_type prob_scale base_beam_score_scale random_sample_scale length_normalization "
    "length_normalization_exponent keep_beams source_beam_sizes add_to_beam_scores scheduled_sampling"
).split()
"""Options that `loop.choice` has under the same name."""


class Choice(ChoosingLayer, layer_class="choice", joins=False):
    """A label for each hypothesis of a search, or without a search, the target. {…, labels} → {…}, sparse"""

    beam_size: int | None = value(None, Positive)
    keep_beams: bool = value(False, bool)
    search: object = value(None)
    add_to_beam_scores: object = value(None)
    input_type: str = value("prob", str)
    prob_scale: float = value(1.0, float)
    base_beam_score_scale: float = value(1.0, float)
    random_sample_scale: float = value(0.0, float)
    length_normalization: bool = value(True, bool)
    length_normalization_exponent: float = value(1.0, float)
    custom_score_combine: object = value(None)
    source_beam_sizes: object = value(None, list, tuple)
    scheduled_sampling: object = value(False)
    cheating: object = value(False, bool, str)
    explicit_search_sources: object = value(None, list, tuple)
    initial_output: object = value(None)

    def setup(self, *sources: Tensor, target: Tensor | None = None, **more: Tensor) -> None:
        """Checks that the scores are those of the labels of the target."""
        self.several = isinstance(self.spec.common.target, list | tuple)
        if self.searches and self.search is False and self.length_normalization:
            raise NetworkError(
                "choice: with search False, scores cannot be normalized by length",
                got='"search": False, "length_normalization": True', expected='"length_normalization": False',
            )  # fmt: skip
        if self.searches and self.input_type == "regression" and (self.beam_size or 1) != 1:
            raise NetworkError(
                "choice: with input_type regression, there are no labels, and so no hypotheses to choose from",
                got=f'"input_type": "regression", "beam_size": {self.beam_size}', expected='"beam_size": 1',
            )  # fmt: skip
        if not self.searches and target is None:
            raise NetworkError("choice: there is no search, and no target to take", expected='"target": "classes"')
        labels = self.spec.target_dim
        if labels is not None and sources and self.searches and self.input_type != "regression":
            feature = sources[0].feature_dim
            if feature is None or feature.dimension != labels.dimension:
                raise NetworkError(
                    "choice: the scores are not those of the labels of the target",
                    got=sources[0].describe_dims(), expected=f"features of {labels}",
                )  # fmt: skip

    @property
    def takes_target(self) -> bool:
        """Without a search, and where a search takes it."""
        return not self.searches or bool(self.cheating) or self.search is False

    @property
    def takes_sources(self) -> bool:
        """In a search; else the target is the output, whatever its scores are."""
        return self.searches

    @property
    def searches(self) -> bool:
        """Whether the layer is in a net that searches."""
        return self.loop is not None and self.loop.beam is not None

    def compute(self, *sources: Tensor, target: Tensor | None = None, **more: Tensor) -> Tensor:
        """{…, labels} → {…}. Of a search, only the template: `choose` computes its steps."""
        if not self.searches:
            assert target is not None
            self.last.parts = {f"out_{i}": x for i, x in enumerate([target, *more.values()])} if self.several else {}
            return target
        assert self.loop is not None and self.loop.beam is not None
        templates = []
        for source in sources:
            dims = without(source, source.feature_dim, self.loop.beam)
            if self.input_type == "regression":
                return set_feature_dim(zeros([*dims, self.loop.beam, source.feature_dim]), source.feature_dim)  # type: ignore[list-item]
            templates.append(zeros([*dims, self.loop.beam], dtype="int32", sparse_dim=source.feature_dim))
        if self.several:
            self.last.parts = {f"out_{i}": x for i, x in enumerate(templates)}
        return templates[0]

    def choose(self, steps: StepsOfSearch, *sources: Tensor, target: Tensor | None = None, **more: Tensor) -> Tensor:
        """The labels that this step of a search chooses. {…, beam, labels} → {…, beam}"""
        assert self.loop is not None and self.loop.beam is not None
        if self.input_type == "regression":
            return sources[0]
        options = {name: getattr(self, name) for name in SAME if getattr(self, name) is not None}
        options["add_to_beam_scores"] = self.search is False and self.add_to_beam_scores is not False
        options["search"] = self.search is not False
        if self.cheating or self.search is False:
            options |= {"cheating": self.cheating, "target": target}
        if self.custom_score_combine is not None:
            options["custom_score_combine"] = self._combine(more)
        size = self.beam_size if self.beam_size != self.loop.beam.dimension else None
        axes = [x.feature_dim for x in sources]
        if self.input_type == "prob" and len(sources) == 1 and sources[0].dtype not in ("float16", "bfloat16"):
            exact = exact_log(sources[0])
            if exact is not None:
                sources, options["input_type"] = (exact,), "log_prob"
        choice = steps.choose(
            list(sources) if self.several else sources[0],
            axis=axes if self.several else axes[0], beam_size=size, **options,
        )  # fmt: skip
        labels = choice.labels if self.several else [choice.labels]
        outputs = [cast(set_sparse_dim(x, axis), "int32") for x, axis in zip(labels, axes, strict=True)]
        if self.several:
            self.last.parts = {f"out_{i}": x for i, x in enumerate(outputs)}
        return outputs[0]

    def _combine(self, more: Mapping[str, Tensor]) -> object:
        function = self.custom_score_combine
        if not callable(function):
            raise NetworkError("choice: custom_score_combine is not a function", got=repr(function)[:60])
        return lambda scores, base: function(scores_in=scores, scores_base=base, layer=self)

    def get_search_choices(self) -> SearchChoices | None:
        """The result of the last search: `beam_dim`, `beam_scores`, `src_beams`, `found`."""
        return None if self.loop is None else self.loop.choices


class _OfHypotheses(ChoosingLayer):
    """A value of each hypothesis: that of this step in the loop, else the final one; zeros without a search."""

    found_as: ClassVar[str]
    found_dtype: ClassVar[str | None] = None

    def compute(self, x: Tensor) -> Tensor:
        """{…, beam} → {…, beam}"""
        search = search_of(self, x)
        if search is not None and search.choices is not None:
            of_all: Tensor = getattr(search.choices, self.found_as)
            return of_all
        beam = [dim for dim in x.dims if search is not None and dim is search.beam]
        return zeros([dim for dim in x.dims if dim.is_batch_dim()] + beam, dtype=self.found_dtype)


class BeamScores(_OfHypotheses, layer_class="choice_get_beam_scores"):
    """The scores of hypotheses. {…, beam} → {…, beam}"""

    found_as = "beam_scores"

    def choose(self, steps: StepsOfSearch, x: Tensor) -> Tensor:
        """The scores of the newest hypotheses."""
        return steps.chosen.scores if steps.chosen is not None else self.compute(x)


class SrcBeams(_OfHypotheses, layer_class="choice_get_src_beams"):
    """Which hypothesis of the step before each one extends. {…, beam} → {…, beam}, int32"""

    found_as, found_dtype = "src_beams", "int32"

    def choose(self, steps: StepsOfSearch, x: Tensor) -> Tensor:
        """The parents that the newest choice found."""
        parents = None if steps.chosen is None else steps.chosen.parents
        return self.compute(x) if parents is None else cast(set_sparse_dim(parents, None), "int32")


class Decide(Layer, layer_class="decide"):
    """The best hypothesis of a search; without one, the source. {…, beam} → {…}"""

    length_normalization: bool = value(False, bool)

    def compute(self, x: Tensor) -> Tensor:
        """{…, beam} → {…}"""
        search = search_of(self, x)
        if search is None or search.beam is None:
            return x
        if search.choices is None:  # a template
            return gather(x, indices=0, axis=search.beam)
        scores = search.choices.beam_scores
        if self.length_normalization:
            scores = scores / cast(search.choices.lengths, scores.dtype)
        return gather(x, indices=reduce_argmax(scores, axis=search.beam), axis=search.beam)


class DecideKeepBeam(Copy, layer_class="decide_keep_beam", by_place=True):
    """The source as it is; from a loop, the values by their places in the beam at each step. {…, beam} → the same"""


class SplitBatchBeam(Layer, layer_class="split_batch_beam"):
    """The beam as an axis like others. {…, beam} → {…, axis}"""

    beam_dim: Dim | None = value(None, Dim)

    @classmethod
    def rewritten(cls, described: Mapping[str, object]) -> Mapping[str, object]:
        """The usual options."""
        return {**described, "from": names_of_sources(described, None)}

    def setup(self, x: Tensor) -> None:
        """The new axis."""
        search = search_of(self, x)
        self.beam = None if search is None else search.beam
        if self.beam is not None and self.beam_dim is None:
            self.beam_dim = NetworkDims().static(self.beam.get_dim_value())

    def compute(self, x: Tensor) -> Tensor:
        """{…, beam} → {…, axis}"""
        if self.beam is None or self.beam_dim is None:
            return x
        return set_feature_dim(replace_dim(x, in_dim=self.beam, out_dim=self.beam_dim)[0], x.feature_dim)

    def feature_of(self, out: Tensor, sources: Sequence[Tensor]) -> Dim | None:
        """That of the source, or the new axis if it counts features."""
        if self.beam_dim is not None and sources[0].feature_dim is None and self.beam_dim in out.sig.index:
            return self.beam_dim
        return super().feature_of(out, sources)

"""`rf.search.ctc_beam`: prefix beam search for CTC, for scores that are known for all frames."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from rfnb.core.dims.dim import Dim
from rfnb.core.tensor.arguments import CountFrom1
from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.tensor import Tensor
from rfnb.core.vocab import Vocab
from rfnb.errors import DimError
from rfnb.loop.loop import Loop
from rfnb.search.found import Found
from rfnb.search.rules import Merge


@guarded
def ctc_beam(
    log_probs: Tensor,
    *,
    spatial_dim: Dim,
    axis: Dim | None = None,
    blank: int,
    beam: CountFrom1 = 8,
    merge: Merge | None = "sum",
    labels: object = None,
    scorers: Mapping[str, object] | None = None,
    start: int | str = 0,
) -> Found:
    """The best label sequences by the sum over their alignments. {…, spatial_dim, axis} → found, with {…, beam}

    In an alignment, each label takes one or more frames, with blanks before, between and after the labels, as for
    `rf.ctc_loss`; with a beam that holds all label sequences, the scores are its negated losses.

    >>> time, axis = rf.Dim(3, name="time"), rf.Dim(3, name="axis")
    >>> probs = rf.convert_to_tensor([[0.6, 0.4, 0.0], [0.6, 0.4, 0.0], [0.2, 0.0, 0.8]], dims=[time, axis])
    >>> found = rf.search.ctc_beam(rf.log(probs), spatial_dim=time, axis=axis, blank=0, beam=3, labels=["-", "a", "b"])
    >>> found.nbest(3), [round(p, 3) for p in rf.exp(found.scores).tolist()]
    ([['ab', 'b', 'a']], [0.512, 0.288, 0.128])

    The best single alignment is "- - b", with 0.288; the three of "ab" sum up to more.

    Prefix beam search with the scores of blank and label apart: Hannun, Maas, Jurafsky, Ng, First-Pass Large
    Vocabulary Continuous Speech Recognition using Bi-Directional Recurrent DNNs, 2014 (arXiv:1408.2873).
    `loop.choice(…, blank=…, label_loop=True)` does the same in a loop of your own.

    Args:
        log_probs: of the labels and blank in each frame.
        spatial_dim: the frames; their number may differ by sequence. axis: the labels; default: the feature dim.
        blank: the number of blank.
        beam: the number of label sequences that are kept in each frame.
        merge: "sum" over the alignments of the same labels, or the "max" of them. None: they are kept apart, as if
            they were different.
        labels: a list, an `rf.Vocab` or a tokenizer, for texts; default: the vocabulary of `axis`.
        scorers: parts that are added for each label, but not for blanks, as for `loop.choice`: {"lm": (lm, 0.4)}.
            start: the label that they see before the first one.

    Raises DimError if `log_probs` does not have the dims, ParameterError for numbers out of range.
    """
    axis = axis or log_probs.feature_dim
    if axis is None or axis not in log_probs.dims or spatial_dim not in log_probs.dims:
        raise DimError(
            "ctc_beam: `log_probs` needs the frames and the labels",
            got=log_probs.describe_dims(),
            expected="spatial_dim and axis among its dims",
            hint="rf.search.ctc_beam(log_probs, spatial_dim=time, axis=label_dim, blank=0)",
        )
    loop, hypotheses = Loop(axis=spatial_dim, name="ctc_beam"), Dim(beam, name="beam")
    with loop:
        frame = loop.unstack(log_probs)
        parts = frame if scorers is None else {"model": frame, **scorers}
        options: dict[str, Any] = {"blank": blank, "merge": merge, "label_loop": True, "start": start}
        loop.choice(parts, beam=hypotheses, axis=axis, input_type="log_prob", **options)
    result: Found = loop.found
    if labels is None:
        return result
    vocab = labels if isinstance(labels, Vocab) else Vocab(labels)
    return Found(replace(result.trace, vocab=vocab), result.scores, result.lengths, result.beam)

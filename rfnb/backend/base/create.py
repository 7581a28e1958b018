"""Tensors from numbers, random tensors, and noise on tensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from rfnb.backend.base.require import require_same_dims
from rfnb.core.dims import align
from rfnb.core.dims.binding import current_lengths
from rfnb.core.dims.dim import Dim, check_dims
from rfnb.core.dims.lengths import Lengths, too_large
from rfnb.core.ground.defaults import is_int_dtype
from rfnb.core.ground.scope import random_stream
from rfnb.core.tensor.tensor import RawTensor, Tensor, tensor_of
from rfnb.errors import DimError, DtypeError, ParameterError

if TYPE_CHECKING:
    from rfnb.backend.base.backend import Backend


class CreateOps:
    """Raw part: `full_raw(shape, value, dtype, device)`, `range_raw(size, dtype, device)`."""

    full_raw: Callable[[Sequence[int], RawTensor, str, str | None], RawTensor]
    range_raw: Callable[[int, str, str | None], RawTensor]

    @classmethod
    def full(
        cls: type[Backend],
        dims: Sequence[Dim],
        fill_value: object,
        *,
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
    ) -> Tensor:
        """A constant, or a Tensor with some of `dims` repeated along the others. → {dims}"""
        shape, lengths = sizes_of(dims)
        if isinstance(fill_value, Tensor):
            value = fill_value.copy_compatible_to_dims_raw(dims)
            value = cls.cast_raw(cls.copy_to_device_raw(value, device), dtype)
            raw = cls.copy_raw(cls.broadcast_raw(value, shape))
            lengths = lengths.join(fill_value.lengths, align.sig(dims), fill_value.sig)
        else:
            try:
                raw = cls.full_raw(shape, fill_value, dtype, device)
            except Exception as error:
                raise too_large("full", dims, shape, error) from None
        return tensor_of(raw, align.sig(dims, sparse_dim, feature_dim), lengths)

    @classmethod
    def range_over_dim(cls: type[Backend], dim: Dim, *, dtype: str, device: str | None = None) -> Tensor:
        """0, 1, … along `dim`. → {dim}, sparse in it with an integer dtype"""
        (size,), lengths = sizes_of([dim])
        sparse = dim if is_int_dtype(dtype) else None
        try:
            raw = cls.range_raw(size, dtype, device)
        except Exception as error:
            raise too_large("range_over_dim", [dim], [size], error) from None
        return tensor_of(raw, align.sig([dim], sparse), lengths)


def sizes_of(dims: Sequence[Dim]) -> tuple[list[int], Lengths]:
    """The sizes of the padded axes in the current batch, and its lengths. Raises DimError if a size is unknown."""
    check_dims(dims)
    lengths, sizes = current_lengths(dims), []
    for dim in dims:
        if dim.dimension is not None:
            sizes.append(dim.dimension)
            continue
        size = lengths.size(dim)
        if size is None:
            raise DimError(
                f"{dim.name} has no size yet",
                got=align.show_dims(dims),
                expected="dims of known size",
                hint=f"make a tensor from data with {dim.name} first, or give it a number: Dim(…, name={dim.name!r})",
                dims=[dim],
            )
        sizes.append(size.max)
    return sizes, lengths


PARAMETERS = {
    "uniform": ("minval", "maxval"),
    "normal": ("mean", "stddev"),
    "truncated_normal": ("mean", "stddev", "minval", "maxval"),
    "bernoulli": ("mean",),
}
"""The parameters of each distribution."""
SHORT_OF = 2**63 - 1


class RandomOps:
    """Raw part: `empty_raw`, `draw_raw(out, distribution, generator, seed, parameters)`, which fills it, `dropout_raw`;
    and the generators: `new_generator`, `draw_seed`, `set_random_seed`, `get_random_state`, `set_random_state`.

    `seed` is an int or a raw tensor of integers; if given, `generator` is not used.
    """

    empty_raw: Callable[[Sequence[int], str, str | None], RawTensor]
    draw_raw: Callable[..., RawTensor]
    dropout_raw: Callable[[RawTensor, float, Sequence[int], RawTensor], RawTensor]
    new_generator: Callable[[str], object]
    draw_seed: Callable[[], int]
    set_random_seed: Callable[[int], None]
    get_random_state: Callable[[], dict[str, bytes]]
    set_random_state: Callable[[Any], None]

    @classmethod
    def random(
        cls: type[Backend],
        *,
        dims: Sequence[Dim],
        dtype: str,
        device: str | None = None,
        sparse_dim: Dim | None = None,
        feature_dim: Dim | None = None,
        distribution: str,
        mean: float | Tensor | None = None,
        stddev: float | Tensor | None = None,
        bound: float | Tensor | None = None,
        minval: float | Tensor | None = None,
        maxval: float | Tensor | None = None,
        seed: int | Sequence[int] | np.ndarray | None = None,
        algorithm: str | None = None,
        explicit_state: Tensor | None = None,
        auto_update_state: bool | None = None,
        static: bool | None = None,
        out: Tensor | None = None,
    ) -> Tensor:
        """Random numbers: "uniform" in [minval, maxval), "normal", "truncated_normal", "bernoulli" (mean). → {dims}

        `rf.random` handles `auto_update_state` and `static`; they are ignored here, as is `algorithm`.
        """
        if out is None:
            shape, lengths = sizes_of(dims)
            try:
                raw = cls.empty_raw(shape, dtype, device)
            except Exception as error:
                raise too_large("random", dims, shape, error) from None
            out = tensor_of(raw, align.sig(dims, sparse_dim, feature_dim), lengths)
        else:
            require_same_dims("random", out, dims, "out")
        if bound is not None:
            minval, maxval = -bound, bound
        options = {"mean": mean, "stddev": stddev, "minval": minval, "maxval": maxval}
        options = {name: value for name, value in options.items() if value is not None}
        _check(distribution, options, out.dtype)
        parameters = {
            name: value.copy_compatible_to_dims_raw(out.dims) if isinstance(value, Tensor) else value
            for name, value in options.items()
        }
        source = explicit_state._raw if explicit_state is not None else one_seed(seed)
        generator = random_stream(out.device or "cpu") if source is None else None
        cls.draw_raw(out._raw, distribution, generator, source, parameters)
        return out

    @classmethod
    def dropout(cls: type[Backend], source: Tensor, drop_prob: float, dims: Sequence[Dim]) -> Tensor:
        """Entries set to 0 with probability `drop_prob`, else scaled up; drawn for `dims`. {…} → the same"""
        shape = cls.get_shape_tuple_raw(source._raw)
        missing = [dim for dim in dims if dim not in source.sig.index]
        if missing:
            raise DimError(
                f"dropout: `source` has no dim {missing[0].name}",
                got=source.describe_dims(),
                expected=align.show_dims(dims),
            )
        sizes = [n if dim in dims else 1 for dim, n in zip(source.dims, shape, strict=True)]
        generator = random_stream(source.device or "cpu")
        return source.like(cls.dropout_raw(source._raw, drop_prob, sizes, generator))


def one_seed(seed: int | Sequence[int] | np.ndarray | None) -> int | None:
    """A single seed computed from several numbers; one number stays unchanged."""
    if seed is None:
        return None
    if np.ndim(seed) == 0:
        return int(np.asarray(seed))
    words = np.asarray(seed, dtype=np.int64).astype(np.uint64).reshape(-1)  # also of negative numbers
    return int(np.random.SeedSequence(words.tolist()).generate_state(1, np.uint64)[0]) & SHORT_OF


def _check(distribution: str, given: dict[str, Any], dtype: str) -> None:
    names = PARAMETERS[distribution]
    _check_numbers(distribution, given, whole=is_int_dtype(dtype))
    odd = [name for name in given if name not in names]
    if odd:
        raise DimError(
            f"random: `{odd[0]}` has no meaning for {distribution!r}", got=", ".join(given), expected=", ".join(names)
        )
    integers = is_int_dtype(dtype)
    if integers and distribution == "uniform" and "maxval" not in given:
        raise DimError("random: integers need a `maxval`", got=f"dtype {dtype}", hint="maxval=…, exclusive")
    if (integers or dtype == "bool") and distribution.endswith("normal"):
        raise DtypeError(f"random: {distribution!r} does not give integers", got=dtype, expected="a float type")


def _check_numbers(distribution: str, given: dict[str, object], *, whole: bool) -> None:
    """Raises ParameterError for a range without numbers, a negative deviation, or NaN. Tensors are not read."""
    numbers = {name: value for name, value in given.items() if isinstance(value, int | float | np.number)}
    low, high = numbers.get("minval", -np.inf), numbers.get("maxval", np.inf)
    wrong = next((name for name, value in numbers.items() if value != value), None)
    if wrong is None and numbers.get("stddev", 0) < 0:
        wrong = "stddev"
    if wrong is not None:
        expected = "0 or more" if wrong == "stddev" else "a number"
        raise ParameterError(f"random: `{wrong}` is not valid", got=numbers[wrong], expected=expected)
    if distribution == "bernoulli" and not 0 <= numbers.get("mean", 0.5) <= 1:
        raise ParameterError("random: `mean` is not a probability", got=numbers["mean"], expected="0 to 1")
    if low > high or (whole and low == high):
        fault = "random: there are no numbers between `minval` and `maxval`"
        raise ParameterError(fault, got=f"minval {low}, maxval {high}", expected="minval < maxval")

"""Ops in plain torch: each method gives the expression of a traced op, where axes have positions."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from rfnb.backend.base.conv import spreads
from rfnb.core.dims.dim import Dim, batch_dim, single_step_dim
from rfnb.core.tensor.tensor import Tensor
from rfnb.netdict.code.body import Text, atom, uses_of
from rfnb.netdict.code.names import literal
from rfnb.netdict.code.torch_body import REDUCE, Axes, Layout, TorchLoops, axes_of, dims_of, last, one_or_all, position
from rfnb.netdict.code.trace import Call, unwritten

GATES = "ifjo"
"""The gates of nn.LSTM."""
RANDOM = ("bound", "mean", "stddev", "seed", "explicit_state", "static", "out")
"""Options of random numbers that have no form."""
CASTS = {"float32": "float", "float64": "double", "int32": "int", "int64": "long", "bool": "bool", "float16": "half"}


class TorchOps(TorchLoops):
    """Writes the lines of a method of an nn.Module, with the forms of all ops."""

    def op_linear(
        self, call: Call, source: Tensor, weight: Tensor, bias: Tensor | None, in_dim: Dim, out_dim: Dim
    ) -> str:
        """A product with a matrix."""
        x = source
        if len(weight.dims) != 2:
            raise unwritten(call.owner, "its weight is not a matrix", got=weight.describe_dims())
        input_axis = matrix_axis(weight, in_dim)
        order = [dim for dim in axes_of(x) if dim is not in_dim]
        dims, result = [*order, out_dim], axes_of(call.result)
        matrix = self.atom(weight) if input_axis == 0 else f"{self.atom(weight)}.T"
        addend = "" if bias is None else f" + {self.value(bias)}"
        if x.sparse_dim is in_dim:
            text = f"{matrix}[{self.value(x)}]"
            return self.permuted(f"({text}{addend})" if addend else text, dims, result)
        if self.may_have(weight, bias):
            layout = {id(weight): ("weight", (1, 0) if input_axis == 0 else None, None)}
            layout |= {} if bias is None else {id(bias): ("bias", None, None)}
            sizes = f"{self.of.size(in_dim)}, {self.of.size(out_dim)}{'' if addend else ', bias=False'}"
            module = self.of.module("linear", f"nn.Linear({sizes})", layout)
            return self.permuted(f"{module}({self.moved(x, [*order, in_dim])})", dims, result)
        text = f"{atom(self.moved(x, [*order, in_dim]))} @ {matrix}{addend}"
        if dims == [*result]:
            return Text(text, 1 if addend else 2)
        return self.permuted(f"({text})", dims, result)

    def op_matmul(self, call: Call, a: Tensor, b: Tensor, reduce: Dim | Sequence[Dim], use_mask: bool) -> str:
        """A sum of products."""
        over = dims_of(reduce)
        is_zero = any((id(x), id(self.root(dim))) in self.zero for x in (a, b) for dim in over)
        first = self.filled(a, over, "0") if use_mask and not is_zero else self.value(a)
        letters: dict[int, str] = {}
        for dim in (*axes_of(a), *axes_of(b)):
            letters.setdefault(id(dim), chr(ord("a") + len(letters)))
        outer_dims = [dim for dim in axes_of(a) if dim not in over]
        matrix = axes_of(a) == (*outer_dims, *over) and axes_of(b) == (*over, *axes_of(b)[-1:]) and len(b.dims) == 2
        if matrix and axes_of(call.result) == (*outer_dims, axes_of(b)[1]) and axes_of(b)[1] not in outer_dims:
            return Text(f"{atom(first)} @ {self.atom(b)}", 2)
        if len({*a.dims}) < len(a.dims) or len({*b.dims}) < len(b.dims) or a.dtype != b.dtype:
            raise unwritten(call.owner, "a product of tensors with an axis twice, or of different types")
        left, right, out = ("".join(letters[id(dim)] for dim in axes_of(x)) for x in (a, b, call.result))
        return f'torch.einsum("{left},{right}->{out}", {first}, {self.value(b)})'

    def op_softmax(self, call: Call, a: Tensor, axis: Dim, use_mask: bool) -> str:
        """Softmax over the valid frames."""
        text = self.filled(a, [axis] if use_mask else [], 'float("-inf")')
        if use_mask and call.name == "softmax" and self.lengths(a, axis):
            self.zero.add((id(call.result), id(self.root(axis))))
        return f"torch.{call.name}({text}, {last(position(axes_of(a), axis), a)})"

    op_log_softmax = op_softmax

    def op_gather(
        self, call: Call, source: Tensor, indices: Tensor | int | str, axis: Dim | None, clip_to_valid: bool
    ) -> str:
        """Entries at indices."""
        x, index = source, indices
        axis = index.sparse_dim if axis is None and isinstance(index, Tensor) else axis
        assert axis is not None
        if isinstance(index, int):
            if index < 0 and self.lengths(x, axis) is not None:
                raise unwritten(call.owner, "an entry counted from the end of each sequence")
            return f"{self.atom(x)}.select({position(axes_of(x), axis)}, {index})"
        if not isinstance(index, Tensor):
            raise unwritten(call.owner, "an index is a name")
        other_dims, dims = [dim for dim in axes_of(x) if dim is not axis], axes_of(call.result)
        clip = self.clip(call, x, axis, index) if clip_to_valid else ""
        if not any(dim in other_dims for dim in axes_of(index)):
            text = f"{self.atom(index)}{clip}" if clip or not index.dims else self.value(index)
            moved = atom(self.moved(x, [axis, *other_dims]))
            return self.permuted(f"{moved}[{text}]", [*axes_of(index), *other_dims], dims)
        entries = self.aligned(x, [*dims, axis], full=True)
        text = f"{self.atom(index)}{clip}" if clip else self.value(index)
        positions = atom(self.aligned(index, [*dims, axis], full=True, text=text))
        return f"torch.take_along_dim({entries}, {positions}.long(), -1)[..., 0]"

    def clip(self, call: Call, x: Tensor, axis: Dim, index: Tensor) -> str:
        """The calls that move indices to the first or the last frame."""
        lengths = self.lengths(x, axis)
        if lengths is None:
            return f".clamp(0, {self.dim(axis)} - 1)"
        if axes_of(index)[:1] != (batch_dim,):
            raise unwritten(call.owner, "indices that are clipped, without an axis of sequences")
        index_axes = f"[:{', None' * (len(index.dims) - 1)}]" if len(index.dims) > 1 else ""
        return f".clamp(min=0).minimum(({lengths} - 1){index_axes})"

    def op_concat(self, call: Call, sources: Sequence[tuple[Tensor, Dim]], handle_dynamic_dims: bool | None) -> str:
        """Tensors one after the other."""
        result = call.result[0]
        axis = position(axes_of(result), call.result[1])
        ragged = [self.lengths(x, dim) for x, dim in sources]
        parts = []
        for x, dim in sources:
            other_dims = [own for own in axes_of(x) if own is not dim]  # of two equal dims, the other one
            order = [dim if i == axis else next((own for own in other_dims if original(own) is original(other)), other)
                     for i, other in enumerate(axes_of(result))]  # fmt: skip
            text = self.aligned(x, order, full=True)
            if len(x.dims) < len(order):
                sizes = ["-1" if other in axes_of(x) else self.dim(other) for other in order]
                text = f"{atom(text)}.expand({', '.join(sizes)})"
            parts.append(text)
        if any(ragged[:-1]) and handle_dynamic_dims is not False:
            if len(parts) != 2 or axes_of(result)[:2] != (batch_dim, call.result[1]):
                raise unwritten(call.owner, "sequences are joined in an order of axes without a form")
            return f"join_sequences({parts[0]}, {ragged[0]}, {parts[1]})"
        return f"torch.cat([{', '.join(parts)}], {last(axis, result)})"

    def op_split(self, call: Call, source: Tensor, axis: Dim, out_dims: Sequence[Dim | int]) -> str:
        """Parts of an axis."""
        sizes = [self.dim(dim) if isinstance(dim, Dim) else str(dim) for dim in out_dims]
        place, text = last(position(axes_of(source), axis), source), self.atom(source)
        if len(set(sizes)) == 1:
            return f"{text}.chunk({len(sizes)}, {place})"
        return f"{text}.split([{', '.join(sizes)}], {place})"

    def op_merge_dims(self, call: Call, source: Tensor, dims: Sequence[Dim], out_dim: Dim | None) -> str:
        """Axes as one."""
        result, merged = call.result if isinstance(call.result, tuple) else (call.result, out_dim)
        axis = position(axes_of(result), merged)
        order = [*axes_of(result)[:axis], *dims, *axes_of(result)[axis + 1 :]]
        text = self.permuted(self.atom(source), axes_of(source), order)
        return f"{text}.flatten({axis}, {axis + len(dims) - 1})" if len(dims) > 1 else text

    def op_split_dims(self, call: Call, source: Tensor, axis: Dim, dims: Sequence[Dim], pad_value: float | None) -> str:
        """An axis as several."""
        x, place, text = source, position(axes_of(source), axis), self.atom(source)
        sizes = [self.dim(dim) if dim.dimension is not None else "-1" for dim in dims]
        if sizes.count("-1") > 1 or (axis.dimension is None and dims[0].dimension is not None):
            raise unwritten(call.owner, "an axis of frames is split in a way without a form")
        if axis.dimension is None:
            span = " * ".join(sizes[1:])
            lengths = self.lengths(x, axis)
            if lengths is not None and self.of is None and id(self.root(dims[0])) not in self.of_dims:
                name = self.place.names.new("lengths")
                self.line(f"{name} = -(-{lengths} // {span if len(sizes) == 2 else f'({span})'})")
                self.give_lengths(dims[0], name)
            value = literal(pad_value or 0)
            text = self.filled(x, [axis], str(value))
            text = padded(text, x, place, "0", f"-{self.dim(axis)} % ({span})", f", value={value}")
        new_order = [*axes_of(x)[:place], *dims, *axes_of(x)[place + 1 :]]
        return self.permuted(f"{text}.unflatten({place}, ({', '.join(sizes)}))", new_order, axes_of(call.result))

    def op_replace_dim_v2(
        self, call: Call, source: Tensor, in_dim: Dim, out_dim: Dim, allow_expand: bool, allow_shrink: bool
    ) -> str | None:
        """Frames of another dim."""
        x, old, new = source, in_dim, out_dim
        place = position(axes_of(x), old, None)
        if place is not None and (allow_expand or allow_shrink) and old.dimension is None:
            return padded(self.filled(x, [old], "0"), x, place, "0", f"{self.dim(new)} - {self.dim(old)}")
        has_lengths = new.dimension is not None or new.expr is not None or id(new) in self.frames.given
        if not has_lengths and self.root(new) is not self.root(old):
            self.frames.same[id(new)] = old
        self.alias(call, x, None)
        return None

    def op_copy_masked(self, call: Call, x: Tensor, mask_value: Tensor | float, dims: Sequence[Dim] | None) -> str:
        """A value in padding."""
        if isinstance(mask_value, Tensor) and mask_value.dims:
            raise unwritten(call.owner, "padding gets values with axes")
        text = "0" if not isinstance(mask_value, Tensor) and mask_value == 0 else self.value(mask_value)
        return self.filled(x, [dim for dim in axes_of(x) if not dim.is_batch_dim()] if dims is None else dims, text)

    def op_copy_transpose(self, call: Call, x: Tensor) -> str:
        """Another order of axes."""
        return self.permuted(self.atom(x), axes_of(x), axes_of(call.result))

    def op_cast(self, call: Call, tensor: Tensor, dtype: str) -> str:
        """Another type of numbers."""
        return f"{self.atom(tensor)}.{f'{CASTS[dtype]}()' if dtype in CASTS else f'to(torch.{dtype})'}"

    def op_full(self, call: Call, fill_value: object) -> str:
        """A constant."""
        result, value = call.result, fill_value
        sizes = ", ".join(map(self.dim, axes_of(result))) + "," * (len(axes_of(result)) == 1)
        usual = result.dtype == "float32" and (value == 0 or isinstance(value, float))
        options = f"{'' if usual else f', dtype=torch.{result.dtype}'}{self.device()}"
        if value == 0 and not isinstance(value, bool | Tensor):
            return f"torch.zeros(({sizes}){options})"
        return f"torch.full(({sizes}), {self.value(value)}{options})"

    def op_random(self, call: Call, options: Mapping[str, object]) -> str:
        """Random numbers."""
        result, kind, low, high = call.result, *map(options.get, ("distribution", "minval", "maxval"))
        unsupported = [x for name, x in options.items() if name in RANDOM and x is not None]
        if unsupported or isinstance(low, Tensor) or isinstance(high, Tensor) or kind not in ("uniform", "normal"):
            raise unwritten(call.owner, "random numbers of a kind that torch lacks", got=kind)
        if self.open:
            raise unwritten(call.owner, "random numbers in a loop are others in torch")
        sizes = ", ".join(map(self.dim, axes_of(result)))
        shape = f"({sizes}{',' * (len(result.dims) == 1)})"
        if "int" in result.dtype:
            dtype = f", dtype=torch.{result.dtype}" if result.dtype != "int64" else ""
            return f"torch.randint({self.value(low or 0)}, {self.value(high)}, {shape}{dtype}{self.device()})"
        text = f"torch.rand{'n' * (kind == 'normal')}({shape}{self.device()})"
        if (low or 0, high or 1) == (0, 1):
            return text
        return f"torch.empty({shape}{self.device()}).uniform_({self.value(low or 0)}, {self.value(high or 1)})"

    def op_range_over_dim(self, call: Call, dim: Dim) -> str:
        """0, 1, 2, …"""
        dtype = f", dtype=torch.{call.result.dtype}" if call.result.dtype != "int64" else ""
        return f"torch.arange({self.dim(dim)}{dtype}{self.device()})"

    def op_get_size_tensor(self, call: Call, x: Dim) -> str:
        """The lengths of a dim, or its size."""
        dim, root = x, self.root(x)
        if not call.result.dims:
            return f"torch.tensor({self.dim(dim)}{self.device()})"
        if id(root) in self.of_dims:
            return self.of_dims[id(root)]
        if self.of is not None:
            return self.ask("lengths", root)
        holder = self.with_dim(dim)
        text = None if holder is None else self.lengths(holder, dim)
        if text is None:
            raise unwritten(call.owner, f"the lengths of {dim.name!r} are not given as a tensor")
        return text

    def op_where(self, call: Call, cond: object, true_: object, false_: object) -> str:
        """One of two values."""
        return f"torch.where({', '.join(self.aligned(x, axes_of(call.result)) for x in (cond, true_, false_))})"

    def op_clip_by_value(self, call: Call, x: Tensor, clip_value_min: object, clip_value_max: object) -> str:
        """Entries between two bounds."""
        bounds = {"min": clip_value_min, "max": clip_value_max}
        if any(isinstance(bound, Tensor) for bound in bounds.values()):
            raise unwritten(call.owner, "bounds that are computed")
        listed = [f"{name}={literal(bound)}" for name, bound in bounds.items() if bound is not None]
        return f"{self.atom(x)}.clamp({', '.join(listed)})"

    def op_expand_dim(self, call: Call, source: Tensor) -> str:
        """One more axis."""
        text = self.aligned(source, axes_of(call.result), full=True)
        new = next(dim for dim in axes_of(call.result) if dim not in axes_of(source))
        if new.dimension == 1:
            return text
        sizes = [self.dim(dim) if dim is new else "-1" for dim in axes_of(call.result)]
        return f"{atom(text)}.expand({', '.join(sizes)})"

    def op_squeeze(self, call: Call, source: Tensor, axis: Dim) -> str:
        """One axis less."""
        return f"{self.atom(source)}.squeeze({position(axes_of(source), axis)})"

    def op_stack(self, call: Call, sources: Sequence[Tensor]) -> str:
        """Tensors along a new axis."""
        result, dim = call.result
        other_dims = [other for other in axes_of(result) if other is not dim]
        if any(set(axes_of(x)) != set(other_dims) for x in sources):
            raise unwritten(call.owner, "tensors with different axes are stacked")
        parts = ", ".join(self.aligned(x, other_dims) for x in sources)
        return f"torch.stack([{parts}], {position(axes_of(result), dim)})"

    def op_dropout(self, call: Call, source: Tensor, drop_prob: float, axis: Dim | Sequence[Dim] | bool | None) -> str:
        """Entries that are 0 in training."""
        dims = axes_of(source) if axis is None or isinstance(axis, bool) else dims_of(axis)
        if len(dims) == len(source.dims):
            return f"F.dropout({self.value(source)}, {literal(drop_prob)}, self.training)"
        sizes = [self.dim(dim) if dim in dims else "1" for dim in axes_of(source)]
        while sizes[0] == "1" and len(sizes) > 1:
            sizes.pop(0)
        ones = f"torch.ones({', '.join(sizes)}{self.device()})"
        return Text(f"{self.atom(source)} * F.dropout({ones}, {literal(drop_prob)}, self.training)", 2)

    def op_reverse_sequence(self, call: Call, tensor: Tensor, axis: Dim, handle_dynamic_dims: bool) -> str:
        """Frames from the last to the first."""
        x, lengths = tensor, self.lengths(tensor, axis) if handle_dynamic_dims else None
        if lengths is None:
            return f"{self.atom(x)}.flip({position(axes_of(x), axis)})"
        order = [batch_dim, axis, *(dim for dim in axes_of(x) if dim not in (batch_dim, axis))]
        text = self.permuted(self.atom(x), axes_of(x), order)
        return self.permuted(f"reverse_sequence({text}, {lengths})", order, axes_of(call.result))

    def op_layer_norm(
        self, call: Call, source: Tensor, scale: Tensor | None, bias: Tensor | None, in_dim: Axes, eps: float
    ) -> str:
        """Mean 0 and variance 1 over the features."""
        [axis] = dims_of(in_dim)
        order = [*(dim for dim in axes_of(source) if dim is not axis), axis]
        moved, result = self.moved(source, order), axes_of(call.result)
        if scale is not None and bias is not None and self.may_have(scale, bias):
            layout = {id(scale): ("weight", None, None), id(bias): ("bias", None, None)}
            module = self.of.module("norm", f"nn.LayerNorm({self.of.size(axis)}, eps={literal(eps)})", layout)
            return self.permuted(f"{module}({moved})", order, result)
        args = ", ".join("None" if p is None else self.value(p) for p in (scale, bias))
        return self.permuted(f"F.layer_norm({moved}, ({self.dim(axis)},), {args}, {literal(eps)})", order, result)

    def op_moments(self, call: Call, x: Tensor, axis: Axes, use_mask: bool, correction: int, distributed: bool) -> str:
        """Mean and variance over the valid frames."""
        if correction or distributed:
            raise unwritten(call.owner, "an unbiased variance")
        axes = tuple(position(axes_of(x), dim) for dim in dims_of(axis))
        masked = [dim for dim in dims_of(axis) if use_mask and self.lengths(x, dim) is not None]
        if not masked:
            return f"{self.atom(x)}.mean({axes}), {self.atom(x)}.var({axes}, correction=0)"
        valid = " & ".join(f"{self.mask(x, dim)}" for dim in masked)
        return f"masked_moments({self.value(x)}, {valid}, {axes})"

    def op_parameter_assign(self, call: Call, param: Tensor, value: object, how: str) -> None:
        """A parameter that changes."""
        method = "add_" if how == "add" else "copy_"
        self.line(f"{self.atom(param)}.data.{method}({self.atom(value)}.detach())")
        self.release(uses_of([call], ()))

    def op_ctc_loss(self, call: Call) -> str:
        """CTC."""
        kwargs = call.kwargs
        x, targets = kwargs["logits"], kwargs["targets"]
        frames, labels = kwargs["input_spatial_dim"], kwargs["targets_spatial_dim"]
        if kwargs["logits_normalized"] or kwargs["max_approx"] or not kwargs["label_loop"]:
            raise unwritten(call.owner, "CTC of a kind that torch lacks")
        [classes] = [dim for dim in axes_of(x) if dim not in (batch_dim, frames)]
        text = self.permuted(f"torch.log_softmax({self.value(x)}, {position(axes_of(x), classes)})", axes_of(x),
                             [frames, batch_dim, classes])  # fmt: skip
        labels_text = self.permuted(self.atom(targets), axes_of(targets), [batch_dim, labels])
        counts = [self.lengths(x, frames), self.lengths(targets, labels)]
        if None in counts:
            raise unwritten(call.owner, "CTC without lengths")
        return f"ctc_loss({text}, {labels_text}, {counts[0]}, {counts[1]}, {kwargs['blank_index']})"

    def op_conv(self, call: Call, in_dim: Dim) -> str:
        """A convolution."""
        return self.window(call, in_dim)

    def op_pool(self, call: Call) -> str:
        """The maximum or the mean of windows."""
        return self.window(call, None)

    def window(self, call: Call, feature: Dim | None) -> str:
        """A convolution, or pooling, with the axes in the order of torch."""
        x, kwargs = call.args[0], call.kwargs
        result, out_spatial = call.result
        spatial = dims_of(kwargs["in_spatial_dims"])
        count = len(spatial)
        zeros = [(0, 0)] * count if kwargs["padding"] == "valid" else kwargs["padding"]
        call = replace(call, kwargs={**kwargs, "padding": zeros})
        if not isinstance(zeros, list | tuple) or not all(isinstance(pair, tuple) for pair in zeros):
            raise unwritten(call.owner, "a padding without a form", got=repr(zeros))
        batch_axes = [dim for dim in axes_of(x) if dim not in spatial and dim is not feature]
        text = self.filled(x, spatial, "0") if kwargs["use_mask"] is not False else self.value(x)
        order = [*batch_axes, *([feature] if feature is not None else []), *spatial]
        moved = self.moved(x, order, text)
        sizes = [dim.dimension for dim in kwargs["filter_size"]] if feature is not None else [*kwargs["pool_size"]]
        strides = [*(kwargs["strides"] or [1] * count)]
        dilations = [*(kwargs["dilation_rate"] or [1] * count)]
        symmetric = self.plain_zeros(call, spatial)
        padding = ""
        if symmetric is None:
            pairs = [
                f"*{pair}" if pair.startswith("same_padding") else pair[1:-1] for pair in self.pairs(call, spatial)
            ]
            options = "" if feature is not None or kwargs["mode"] == "avg" else ', value=float("-inf")'
            moved = f"F.pad({moved}, ({', '.join(reversed(pairs))}{',' * (count == 1)}){options})"
        elif any(symmetric):
            padding = one_or_all(symmetric)
        if feature is not None:
            if len(batch_axes) != 1:
                raise unwritten(call.owner, "a convolution with other axes than sequences, frames and features")
            called, features = self.convolution(call, sizes, strides, dilations, padding), [kwargs["out_dim"]]
            return self.permuted(called.format(moved), [*batch_axes, *features, *out_spatial], axes_of(result))
        return self.pooling(call, moved, batch_axes, out_spatial, (sizes, strides, dilations, padding))

    def op_transposed_conv(self, call: Call) -> str:
        """A transposed convolution."""
        x, kwargs = call.args[0], call.kwargs
        feature, weight, out_dim, axes = (kwargs[n] for n in ("in_dim", "filter", "out_dim", "in_spatial_dims"))
        sizes = [dim.get_dim_value() for dim in kwargs["filter_size"]]
        batch_axes = [dim for dim in axes_of(x) if dim not in axes and dim is not feature]
        text = self.filled(x, axes, "0") if kwargs["use_mask"] is not False else self.value(x)
        moved = self.moved(x, [*batch_axes, feature, *axes], text)
        spread = spreads(
            call.name, sizes, *(kwargs[n] for n in ("strides", "padding", "remove_padding", "output_padding"))
        )
        extra = [extent.stride + extent.more + 2 * extent.left - extent.size for extent in spread]
        if len(batch_axes) != 1 or any(n >= extent.stride for n, extent in zip(extra, spread, strict=True)):
            raise unwritten(call.owner, "a transposed convolution of a kind that torch lacks")
        padding = {"padding": [extent.left for extent in spread], "output_padding": [max(n, 0) for n in extra]}
        more_options = f", stride={one_or_all([extent.stride for extent in spread])}"
        more_options += "".join(f", {name}={one_or_all(numbers)}" for name, numbers in padding.items() if any(numbers))
        kernel = self.moved(weight, [weight.dims[matrix_axis(weight, feature)], out_dim, *kwargs["filter_size"]])
        kernel += "" if kwargs["bias"] is None else f", {self.value(kwargs['bias'])}"
        text = f"F.conv_transpose{len(sizes)}d({moved}, {kernel}{more_options})"
        if any(n < 0 for n in extra):
            text += f"[..., {', '.join(f':{n}' if n < 0 else ':' for n in extra)}]"
        return self.permuted(text, [*batch_axes, out_dim, *call.result[1]], axes_of(call.result[0]))

    def plain_zeros(self, call: Call, spatial: Sequence[Dim]) -> list[int] | None:
        """The zeros at both ends of each axis, if they are as many and do not depend on a size."""
        pairs = self.pairs(call, spatial)
        if any(pair.startswith("same_padding") for pair in pairs):
            return None
        numbers = call.kwargs["padding"]
        return [a for a, _ in numbers] if all(a == b for a, b in numbers) else None

    def pairs(self, call: Call, spatial: Sequence[Dim]) -> list[str]:
        """The zeros before and after each axis."""
        windows = call.windows or [(0, 1, 0)] * len(spatial)
        return [
            f"({a}, {b})" if dim.dimension is not None or window[1] == 1 or not call.windows
            else f"same_padding({self.dim(dim)}, {', '.join(map(str, window))})"
            for dim, window, (a, b) in zip(spatial, windows, call.kwargs["padding"], strict=True)
        ]  # fmt: skip

    def convolution(
        self, call: Call, sizes: Sequence[int], strides: Sequence[int], dilations: Sequence[int], padding: str
    ) -> str:
        """The module of a convolution, or the function, with a place for its argument."""
        kwargs = call.kwargs
        weight, bias, groups = kwargs["filter"], kwargs["bias"], kwargs["groups"] or 1
        count = len(sizes)
        dims = weight.dims
        axes = (len(dims) - 1, len(dims) - 2, *range(count))
        options = {"stride": one_or_all(strides), "padding": padding or "0", "dilation": one_or_all(dilations)}
        usual = {"stride": "1", "padding": "0", "dilation": "1"}
        options_text = "".join(f", {name}={text}" for name, text in options.items() if text != usual[name])
        options_text += f", groups={groups}" if groups != 1 else ""
        expected = [*kwargs["filter_size"], None, kwargs["out_dim"]]
        if any(a is not b for a, b in zip(dims, expected, strict=True) if b is not None):
            raise unwritten(call.owner, "a filter whose axes are in another order", got=weight.describe_dims())
        if self.may_have(weight, bias):
            layout: Layout = {id(weight): ("weight", axes, None)}
            layout |= {} if bias is None else {id(bias): ("bias", None, None)}
            features = f"{self.of.size(kwargs['in_dim'])}, {self.of.size(kwargs['out_dim'])}"
            arguments = f"{features}, {one_or_all([self.of.size(dim) for dim in kwargs['filter_size']])}{options_text}"
            arguments += "" if bias is not None else ", bias=False"
            return f"{self.of.module('conv', f'nn.Conv{count}d({arguments})', layout)}({{}})"
        kernel = f"{self.atom(weight)}.permute({', '.join(map(str, axes))})"
        kernel += f", {self.value(bias)}" if bias is not None else ""
        return f"F.conv{count}d({{}}, {kernel}{options_text})"

    def pooling(self, call: Call, moved: str, rest: Sequence[Dim], out_spatial: Sequence[Dim], window: Any) -> str:
        """Pooling of the last axes."""
        sizes, strides, dilations, padding = window
        result, mode, count = call.result[0], call.kwargs["mode"], len(sizes)
        options = f", {one_or_all(sizes)}, {one_or_all(strides)}"
        options += f", padding={padding}" if padding else ""
        if mode == "max":
            options += f", dilation={one_or_all(dilations)}" if any(d != 1 for d in dilations) else ""
        elif any(d != 1 for d in dilations):
            raise unwritten(call.owner, "a mean of frames that are apart")
        else:
            options += ", count_include_pad=False" if padding else ""
        flat = max(len(rest) - 2, 0)
        flattened = f".flatten(0, {flat})" if flat else ""
        unflattened = f".unflatten(0, ({', '.join(map(self.dim, rest[: flat + 1]))}))" if flat else ""
        text = f"F.{mode}_pool{count}d({moved}{flattened}{options}){unflattened}"
        if mode == "avg" and moved.startswith("F.pad("):
            inner, zeros = moved[6:].rsplit(", (", 1)
            ones = f"F.pad(torch.ones_like({inner}), ({zeros}"
            text = f"({text} / F.{mode}_pool{count}d({ones}{flattened}{options}){unflattened})"
        return self.permuted(text, [*rest, *out_spatial], axes_of(result))

    def op_pad(
        self, call: Call, source: Tensor, axes: Sequence[Dim], padding: Sequence[tuple[object, object]], mode: str,
        value: Tensor | float | None,
    ) -> str:  # fmt: skip
        """More frames at the ends."""
        value = 0 if value is None else value
        if mode != "constant" or isinstance(value, Tensor):
            raise unwritten(call.owner, "a padding that is not a constant")
        if any(not isinstance(n, int) for pair in padding for n in pair):
            raise unwritten(call.owner, "a padding of a size that is computed")
        text = self.filled(source, axes, str(literal(value or 0)))
        pairs = {id(dim): pair for dim, pair in zip(axes, padding, strict=True)}
        listed = [", ".join(map(str, pairs.get(id(dim), (0, 0)))) for dim in reversed(axes_of(source))]
        while listed[-1] == "0, 0":
            listed.pop()
        return f"F.pad({text}, ({', '.join(listed)}){f', value={literal(value)}' if value else ''})"

    def op_slice(self, call: Call, source: Tensor, axis: Dim, start: Any, end: Any, step: Any, size: Any) -> str:
        """Some of the frames."""
        x = source
        if any(isinstance(n, Tensor) for n in (start, end, step, size)):
            raise unwritten(call.owner, "a slice whose ends are computed")
        if (step, start, end, size, axis.dimension is None) == (-1, None, None, None, False):
            return f"{self.atom(x)}.flip({position(axes_of(x), axis)})"
        if (step or 1) < 0:
            raise unwritten(call.owner, "a slice backwards")
        if size is not None and end is None:
            end = f"{start or 0} + {self.dim(size)}" if isinstance(size, Dim) else (start or 0) + size
        ragged = self.lengths(x, axis) is not None
        if ragged and (start or 0) < 0:
            raise unwritten(call.owner, "a slice from the end of each sequence")
        numbers = ["" if n is None else str(n) for n in (start or None, end)]
        numbers += [str(step)] if step not in (None, 1) else []
        place = position(axes_of(x), axis)
        self.new_lengths(call, x, axis, start or 0, end, step or 1)
        return f"{self.atom(x)}[{':, ' * place}{':'.join(numbers)}]"

    def new_lengths(self, call: Call, x: Tensor, axis: Dim, start: int, end: object, step: int) -> None:
        """The lengths of the dim of a slice, if it is not computed of other dims."""
        out, lengths = self.root(call.result[1]), self.lengths(x, axis)
        if lengths is None or out.dimension is not None or out.expr is not None:
            return
        if self.of is not None or not isinstance(end, int | None):
            raise unwritten(call.owner, "a slice of frames whose lengths have no form")
        text = lengths if end is None else f"({lengths} - {-end})" if end < 0 else f"{lengths}.clamp(max={end})"
        text = f"({text} - {start}).clamp(min=0)" if start else text
        name = self.place.names.new("lengths")
        self.line(f"{name} = {text}" if step == 1 else f"{name} = -(-{text} // {step})")
        self.give_lengths(out, name)

    def op_masked_select(self, call: Call, tensor: Tensor, mask: Tensor, dims: Sequence[Dim]) -> None:
        """The frames of a mask."""
        x, (result, out) = tensor, call.result
        if axes_of(mask) != (batch_dim, *dims) or axes_of(x)[:2] != (batch_dim, *dims) or self.of is not None:
            raise unwritten(call.owner, "frames are chosen over other axes than sequences and frames")
        text = f"select_frames({self.value(x)}, {self.filled(mask, dims, 'False')})"
        lengths = self.place.names.new("lengths")
        self.release(uses_of([call], ()))
        self.line(f"{self.target(result)}, {lengths} = {text}")
        self.give_lengths(out, lengths)

    def op_repeat(self, call: Call, values: Tensor, in_spatial_dim: Dim, repeats: Tensor | int) -> str:
        """Each frame several times."""
        if not isinstance(repeats, int):
            raise unwritten(call.owner, "frames are repeated as often as a tensor says")
        return f"{self.atom(values)}.repeat_interleave({repeats}, {position(axes_of(values), in_spatial_dim)})"

    def op_reduce_out(self, call: Call, source: Tensor, mode: str, num_pieces: int) -> str:
        """The maximum, or another reduction, of groups of features."""
        assert source.feature_dim is not None
        axis = position(axes_of(source), source.feature_dim)
        return f"{self.atom(source)}.unflatten({axis}, (-1, {num_pieces})).{REDUCE.get(mode, mode)}({axis + 1})"

    def op_sequence_mask(self, call: Call, dims: Axes) -> str:
        """Which frames are not padding."""
        [dim] = dims_of(dims)
        x = self.with_dim(dim)
        if x is None or axes_of(call.result) != (batch_dim, dim):
            raise unwritten(call.owner, "a mask of more than sequences and frames")
        return f"frame_mask({self.lengths(x, dim)}, {self.dim(dim)})"

    def op_cross_entropy(self, call: Call, estimated: Tensor, target: Tensor, axis: Dim, estimated_type: str) -> str:
        """The cross entropy of labels."""
        dims = axes_of(target)
        if estimated_type != "logits" or {*estimated.dims} != {*dims, axis}:
            raise unwritten(call.owner, "a cross entropy of a kind that torch lacks")
        order = [dims[0], axis, *dims[1:]] if dims else [axis]
        text = f'F.cross_entropy({self.moved(estimated, order)}, {self.atom(target)}.long(), reduction="none")'
        return self.permuted(text, dims, axes_of(call.result))

    def op_window(self, call: Call, source: Tensor, spatial_dim: Dim, window_dim: Dim) -> str:
        """The frames around each frame."""
        x, axis, window, out, kwargs = source, spatial_dim, window_dim, call.result[1], call.kwargs
        width, left, right = window.get_dim_value(), kwargs["window_left"], kwargs["window_right"]
        value = literal(kwargs["pad_value"] or 0)
        text = self.value(x) if kwargs["use_mask"] is False else self.filled(x, [axis], str(value))
        place = position(axes_of(x), axis)
        if kwargs["padding"] == "same":
            left = (width - 1 - right if right is not None else (width - 1) // 2) if left is None else left
            text = padded(text, x, place, left, width - 1 - left, f", value={value}")
        order = [*(out if dim is axis else dim for dim in axes_of(x)), window]
        text = f"{atom(text)}.unfold({place}, {width}, {kwargs['stride']})"
        return self.permuted(text, order, axes_of(call.result[0]))

    def op_shift_right(self, call: Call, source: Tensor, axis: Dim, pad_value: Tensor | float, amount: int) -> str:
        """Frames moved to later places, or to earlier ones."""
        x, value, left, place = source, pad_value, call.name == "shift_left", position(axes_of(source), axis)
        cut = f"{':, ' * place}{amount}:" if left else f"{':, ' * place}:-{amount}"
        if not isinstance(value, Tensor):
            number = str(literal(value))
            text = f"{atom(self.filled(x, [axis], number)) if left else self.atom(x)}[{cut}]"
            ends = (0, amount) if left else (amount, 0)
            return padded(text, x, place, *ends, "" if value == 0 else f", value={number}")
        if left:
            raise unwritten(call.owner, "frames are moved to the start, and a tensor comes after them")
        order = [amount if dim is axis else dim for dim in axes_of(x)]
        sizes = [str(dim) if isinstance(dim, int) else "-1" if dim in value.dims else self.dim(dim) for dim in order]
        head = self.aligned(value, axes_of(x), full=True)
        if sizes != ["1" if dim is axis else "-1" for dim in axes_of(x)]:
            head = f"{atom(head)}.expand({', '.join(sizes)})"
        return f"torch.cat([{head}, {self.atom(x)}[{cut}]], {place})"

    op_shift_left = op_shift_right

    def op_cum_concat_step(self, call: Call, source: Tensor, prev_accum: Tensor, axis: Dim) -> str:
        """One more frame."""
        dims = [axis if dim is call.result[1] else dim for dim in axes_of(call.result[0])]
        frames = self.moved(prev_accum, dims)
        return f"torch.cat([{frames}, {self.aligned(source, dims, full=True)}], {dims.index(axis)})"

    def op_cumsum(self, call: Call, source: Tensor, spatial_dim: Dim) -> str:
        """Sums of all frames so far."""
        return f"{self.atom(source)}.cumsum({position(axes_of(source), spatial_dim)})"

    # -- cells

    def write_cell(self, call: Call, following: Call | None) -> None:
        """Writes an LSTM."""
        layer = self.of.layer.cell
        cell, in_dim, out_dim = layer.cell, layer.in_dim, layer.out_dim
        [x], axis, state = call.args, call.kwargs["spatial_dim"], call.kwargs["state"]
        step = axis is single_step_dim
        order = tuple(map(cell.parts_order.index, GATES))
        layout = {}
        for name, where in (("ff_weight", "weight_ih"), ("rec_weight", "weight_hh"), ("bias", "bias_ih")):
            weight = call.weights.get(name)
            if weight is not None:
                gates_first = len(weight.dims) == 1 or weight.dims[0] is cell.gate_dim
                layout[id(weight)] = where + "_l0" * (not step), None if gates_first else (1, 0), order
        has_bias = call.weights.get("bias") is not None
        flags = ("" if step else ", batch_first=True") + ("" if has_bias else ", bias=False")
        constructor = f"nn.LSTM{'Cell' * step}({self.of.size(in_dim)}, {self.of.size(out_dim)}{flags})"
        module = self.of.module("lstm", constructor, layout)
        if has_bias:
            self.of.no_second_bias(f"{module}.bias_hh{'_l0' * (not step)}", module, cell.forget_bias)
        text = self.atom(x)
        dims = [*axes_of(x), *([in_dim] if x.sparse_dim is in_dim else [])]
        if x.sparse_dim is in_dim:
            text = f"F.one_hot({text}.long(), {self.dim(in_dim)}).float()"
        batch_axes = [dim for dim in dims if dim not in (axis, in_dim)]
        back = [*batch_axes, *([] if step else [axis]), out_dim]
        moved = self.permuted(text, dims, [*back[:-1], in_dim])
        output, states = call.result
        initial = self.state_of(call, state, batch_axes[0], out_dim, step)
        parts = [name for name in ("h", "c") if self.uses[id(states[name])] > 0]
        lengths = None if step else self.lengths(x, axis)
        self.release(uses_of([call], ()))
        name, c = self.target(output), self.target(states["c"])
        h = "_" if step else self.target(states["h"])
        if step:
            self.line(f"{name}, {c} = {module}({moved}{initial})")
            self.know(states["h"], name)
        elif lengths is None:
            self.line(f"{name}, _ = {module}({moved}{initial})")
        else:
            self.line(f"{name}, {h}, {c} = run_lstm({module}, {moved}, {lengths}{initial})")
        if [*axes_of(output)] != back and name != "_":
            self.line(f"{name} = {self.permuted(name, back, axes_of(output))}")
        for part in parts:
            if axes_of(states[part]) != (batch_axes[0], out_dim):
                raise unwritten(call.owner, "a state whose axes are in another order")

    def state_of(self, call: Call, state: Any, batch: Dim, out_dim: Dim, step: bool) -> str:
        """The argument for the first state; none for zeros."""
        texts = []
        for x in () if state is None else (state["h"], state["c"]):
            text = self.aligned(x, [batch, out_dim], full=True)
            if len(x.dims) < 2:
                text = f"{atom(text)}.expand({self.dim(batch)}, {self.dim(out_dim)})"
            texts.append(text if step else f"{atom(text)}[None].contiguous()")
        return f", ({', '.join(texts)})" if texts else ""


def padded(text: str, x: Tensor, place: int, before: object, after: object, more: str = "") -> str:
    """The call that adds entries at the ends of one axis of a tensor, whose text it is."""
    pairs = [*["0, 0"] * (len(x.dims) - 1 - place), f"{before}, {after}"]
    return f"F.pad({text}, ({', '.join(pairs)}){more})"


def matrix_axis(weight: Tensor, in_dim: Dim) -> int:
    """The axis of a matrix that the input has; of two equal ones, the copy."""
    copies = [i for i, dim in enumerate(weight.dims) if dim is not in_dim and original(dim) is in_dim]
    return copies[0] if copies else int(position(weight.dims, in_dim))


def original(dim: Dim) -> Dim:
    """The dim of which a dim is a copy, or the dim itself."""
    return dim.expr.dims[0] if dim.expr is not None and dim.expr.op == "copy" else dim

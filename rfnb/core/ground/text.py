"""Words of messages: counts, long names, and suggestions for unknown names."""

from __future__ import annotations

import difflib
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from rfnb.errors import DimError, RfError
from rfnb.printable import terminal_text


def count_of(number: int, word: str) -> str:
    """The number with its noun, in the plural where needed.

    >>> count_of(1, "step"), count_of(1200, "step")
    ('1 step', '1,200 steps')
    """
    return f"{number:,} {word}{'' if number == 1 else 's'}"


def cut(word: str, most: int) -> str:
    """The word, shortened to at most `most` characters.

    >>> cut("banana", 6), cut("bananas", 6)
    ('banana', 'banan…')
    """
    return word if len(word) <= most else word[: most - 1] + "…"


def first_of(names: Sequence[str], most: int) -> str:
    """The first `most` names, and how many others there are.

    >>> first_of(["kiwi", "fig", "plum"], 2), first_of(["kiwi", "fig"], 2)
    ('kiwi, fig and 1 more', 'kiwi, fig')
    """
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")


def nearest(name: object, known: Iterable[str], *, most: int = 1, cutoff: float = 0.6) -> list[str]:
    """The names among `known` with the most similar spelling.

    >>> nearest("encodr", ["decoder", "encoder", "step"])
    ['encoder']
    """
    return difflib.get_close_matches(str(name), list(known), most, cutoff)


def did_you_mean(
    name: object, known: Iterable[str], written: str = "{!r}", *, most: int = 1, cutoff: float = 0.6
) -> str | None:
    """A hint for an error about an unknown name; None if no name in `known` is similar.

    written: the format in which a suggested name is shown.

    >>> did_you_mean("encodr", ["decoder", "encoder", "step"], "model.{}")
    'did you mean model.encoder?'
    """
    near = nearest(name, known, most=most, cutoff=cutoff)
    return f"did you mean {' or '.join(map(written.format, near))}?" if near else None


def number_of(
    tag: str, tags: Sequence[str] | None, what: str, error: type[RfError] = DimError, hint: str | None = None
) -> int:
    """The number of the sequence with this tag. Raises `error`, which suggests similar tags, if there is none."""
    if not tags:
        raise error(
            f"{what}: no sequence with this tag",
            got=repr(tag),
            expected="a number, as the batch has no tags",
            hint=hint or "rf.convert_to_tensor(…, tags=[…]), or rf.collate(…, tag=…)",
        )
    if tag not in tags:
        names = ", ".join(map(repr, tags[:8])) + (f", … ({len(tags)})" if len(tags) > 8 else "")
        hint = did_you_mean(tag, tags, most=3)
        raise error(f"{what}: no sequence with this tag", got=repr(tag), expected=names, hint=hint)
    return list(tags).index(tag)


class Missing(AttributeError):
    """An AttributeError that searches for similar names only when it is shown.

    Tools probe for many attributes that do not exist, and discard these errors.
    """

    def __init__(self, what: str, name: str, owner: object, way: str | None = None):
        super().__init__(what, name=name)
        self.owner, self.way = owner, way

    def __str__(self) -> str:
        names = [name for name in dir(self.owner) if not name.startswith("_")]
        hint = did_you_mean(self.name, names, most=2, cutoff=0.7)
        text = f"{self.args[0]}: {hint}" if hint else self.args[0]
        return terminal_text(f"{text} → {self.way}" if self.way else text)

    def __reduce__(self) -> tuple[object, ...]:
        return AttributeError, (str(self),)


Missing.__module__, Missing.__name__, Missing.__qualname__ = "builtins", "AttributeError", "AttributeError"  # as shown


def no_name(module: object, name: str) -> AttributeError:
    """The error for `rf.name`, if there is no such name."""
    if name in INSTEAD:
        return AttributeError(f"rf.{name} → {INSTEAD[name]}", name=name)
    return Missing(f"module 'rfnb' has no attribute {name!r}", name, module, _call_of_torch(name))


def _call_of_torch(name: str) -> str | None:
    """How to call a function on tensors that torch has and rfnb lacks."""
    torch: Any = sys.modules.get("torch")
    if torch is None or not name.islower():
        return None
    of_tensors = hasattr(torch.Tensor, name) and hasattr(torch, name)
    path = "torch" if of_tensors else "torch.nn.functional" if hasattr(torch.nn.functional, name) else None
    return path and f"rf.raw_call({path}.{name}, x, out_dims=[…]), which sees padding"


def no_name_in_nn(name: str) -> AttributeError:
    """The error for `rf.nn.name`, which is a public name of `rf` or of `torch.nn`, if anything."""
    if name in INSTEAD:
        return AttributeError(f"rf.nn.{name} → {INSTEAD[name]}", name=name)
    return AttributeError(
        f"rf.nn has no {name!r}: modules and functions are names of rf itself, such as rf.Linear", name=name
    )


_CELLS = {"RNN": "BasicRNN", "LSTM": "LSTM", "GRU": "GRU"}
_SHOW = "rf.show(x); rf.show(model, x) for a graph, rf.show_attention(weights); rf.watch(x) prints in a loop"
_STEP = "rf.stepper(run) steps through a recorded loop, rf.watch(x) prints a value at each step"

INSTEAD = {
    **{name: f"rf.reduce_{name}(x, axis=…)" for name in "sum mean max min all any logsumexp argmax argmin".split()},
    "amax": "rf.reduce_max(x, axis=…)",
    "amin": "rf.reduce_min(x, axis=…)",
    **dict.fromkeys(["cat", "concatenate"], "rf.concat((x, dim_of_x), (y, dim_of_y)), which gives (tensor, dim)"),
    **dict.fromkeys("transpose permute swapaxes".split(), "not needed: ops find axes by dims; x.copy_transpose(dims)"),
    **dict.fromkeys("view flatten unflatten".split(), "rf.merge_dims, rf.split_dims or rf.reshape, with Dims"),
    "unsqueeze": "rf.expand_dim(x, dim), if at all: ops broadcast by dims",
    **dict.fromkeys(["expand", "tile"], "not needed: ops broadcast by dims; rf.expand_dims(x, dims=[…])"),
    **dict.fromkeys("mm bmm einsum".split(), "rf.matmul(a, b, reduce=…)"),
    **dict.fromkeys("tensor as_tensor from_numpy asarray".split(), "rf.convert_to_tensor(data, dims=[…])"),
    **dict.fromkeys(["clamp", "clip"], "rf.clip_by_value(x, low, high)"),
    "masked_fill": "rf.where(mask, value, x)",
    **dict.fromkeys("index_select take take_along_dim".split(), "rf.gather(x, indices=…, axis=…)"),
    "arange": "rf.range_over_dim(dim)",
    "linspace": "rf.linspace_over_dim(dim, start, end), which leaves out `end`",
    "leaky_relu": "rf.where(x > 0, x, 0.01 * x)",
    "tril": 'rf.where(rf.compare_bc(rf.range_over_dim(a), ">=", rf.range_over_dim(b)), x, 0)',
    "triu": 'rf.where(rf.compare_bc(rf.range_over_dim(a), "<=", rf.range_over_dim(b)), x, 0)',
    "cumprod": "rf.exp(rf.cumsum(rf.log(x), spatial_dim=…)), or an rf.Loop",
    "unfold": "rf.window(x, spatial_dim=…, window_dim=…)",
    "bernoulli": "rf.random_uniform(dims) < p",
    "nonzero": "rf.masked_select(x, mask=…, dims=[…])",
    "meshgrid": "not needed: ops broadcast by dims; rf.combine_bc(x, kind, y)",
    "topk": "rf.top_k(x, axis=…, k=…)",
    "flip": "rf.reverse_sequence(x, axis=…)",
    "detach": "rf.stop_gradient(x)",
    "no_grad": "rf.stop_gradient(x), or torch.no_grad()",
    "chunk": "rf.split(x, axis=…, out_dims=[…])",
    "randn": "rf.random_normal(dims)",
    "rand": "rf.random_uniform(dims)",
    **dict.fromkeys(["manual_seed", "seed"], "rf.set_random_seed(seed)"),
    "randint": 'rf.random_uniform(dims, minval=0, maxval=n, dtype="int64")',
    **dict.fromkeys(["multinomial", "categorical"], "rf.random_choice_with_replacement"),
    **dict.fromkeys(["empty", "empty_like"], "rf.zeros(dims), rf.zeros_like(x)"),
    **dict.fromkeys("FloatTensor LongTensor IntTensor BoolTensor".split(), "rf.convert_to_tensor(data, dims=[…])"),
    **dict.fromkeys(["std", "var"], "mean, variance = rf.moments(x, axis=…)"),
    **dict.fromkeys("isfinite isnan isinf".split(), "rf.is_finite(x), or rf.check.finite(model, x) for the first op"),
    **dict.fromkeys(["outer", "inner"], "x * y: ops broadcast by dims; rf.matmul(a, b, reduce=…) sums over one"),
    "roll": "rf.shift_right(x, axis=…, pad_value=0), or rf.shift_left",
    "scaled_dot_product_attention": "rf.dot_attention(query, keys, values, key_dim=…, axis=…)",
    **dict.fromkeys(
        "nll_loss mse_loss l1_loss kl_div".split(), "rf.cross_entropy, or ops: rf.squared_difference(x, y)"
    ),
    **dict.fromkeys("CrossEntropyLoss NLLLoss".split(), "rf.cross_entropy(estimated=…, target=…, axis=…), a function"),
    "MSELoss": "rf.squared_difference(x, y), a function",
    "CTCLoss": "rf.ctc_loss, a function",
    **{name: f"rf.{name.lower()}, a function" for name in "ReLU GELU SiLU Sigmoid Tanh Softmax".split()},
    "LogSoftmax": "rf.log_softmax, a function",
    "MultiheadAttention": "rf.SelfAttention, rf.CrossAttention, or rf.dot_attention",
    "Transformer": "rf.TransformerEncoder and rf.TransformerDecoder",
    "RNN": "rf.BasicRNN",
    **{f"{name}Cell": f"rf.{ours}, with spatial_dim=rf.single_step_dim" for name, ours in _CELLS.items()},
    **{f"BatchNorm{n}d": "rf.BatchNorm(in_dim)" for n in (1, 2, 3)},
    **{f"MaxPool{n}d": "rf.max_pool(x, pool_size=…, padding=…, in_spatial_dims=[…])" for n in (1, 2, 3)},
    **{f"ConvTranspose{n}d": f"rf.TransposedConv{n}d" for n in (1, 2, 3)},
    **dict.fromkeys("pack pack_import packed_flat_content packed_regap".split(), "rf.pack_padded, rf.masked_select"),
    "pack_padded_sequence": "rf.pack_padded, where packing is needed at all: tensors know their lengths",
    "pad_sequence": "rf.convert_to_tensor([a, b], dims=[rf.batch_dim, time]), from a list of sequences",
    **dict.fromkeys(["functional", "F"], "functions are names of rf itself: rf.relu(x)"),
    **dict.fromkeys(["enable_grad", "inference_mode", "autograd"], "torch's own works here; rf.stop_gradient(x)"),
    **dict.fromkeys(["grad", "backward"], "loss.backward(), or rf.gradient(loss, x)"),
    "autocast": "torch.autocast works here: docs/training.md",
    **dict.fromkeys("optim Adam AdamW SGD Optimizer".split(), "torch.optim.Adam(rf.torch_parameters(model))"),
    **dict.fromkeys(["DataLoader", "Dataset"], "torch.utils.data.DataLoader(samples, collate_fn=rf.collate({…}))"),
    **dict.fromkeys(
        ["train", "fit", "Trainer"], "a training loop is plain PyTorch: docs/training.md; rf.progress(batches)"
    ),
    **dict.fromkeys("compile jit export onnx func vmap".split(), "torch's takes rf.to_torch(model, in_dims=…)"),
    "DistributedDataParallel": "torch's takes rf.to_torch(model, in_dims=…): docs/distributed.md",
    **dict.fromkeys(["device", "cuda"], 'a string: rf.copy_to_device(x, "cuda"), rf.set_default_device("cuda")'),
    "state_dict": 'rf.save(model, "model.safetensors")',
    "load_state_dict": 'rf.load("model.safetensors", model)',
    **dict.fromkeys(
        "from_pretrained AutoModel pipeline".split(), "rf.import_weights(source, model): docs/checkpoints.md"
    ),
    **dict.fromkeys(["Tokenizer", "AutoTokenizer"], "rf.Vocab(tokenizer)"),
    **dict.fromkeys(["beam_search", "BeamSearch"], "a loop with loop.choice: docs/search.md, rf.Loop"),
    **dict.fromkeys(
        "generate decode greedy_search greedy".split(),
        "a loop with loop.choice, or rf.search.decode for a torch model: docs/search.md",
    ),
    **dict.fromkeys("visualize draw plot imshow heatmap summary inspect print display_graph".split(), _SHOW),
    "graph": "rf.show(model, x) shows the graph of a call, rf.model_graph(model, x) gives it",
    **dict.fromkeys("breakpoint debug set_trace pdb debugger".split(), _STEP),
    **dict.fromkeys(["record", "trace_loop"], 'rf.options.record = "last", or with rf.recording("last"):'),
    **dict.fromkeys(["history", "run", "step"], 'run = rf.runs["name"], run[3].after, rf.stepper(run)'),
    **{name: f'a string: dtype="{name}"' for name in "float16 float32 float64 bfloat16 int32 int64 uint8".split()},
}
"""What to write instead of names that users of torch, numpy and Hugging Face try, whatever the name is there: an op, a
module, a tool. Each function of `rf` in these sentences exists."""

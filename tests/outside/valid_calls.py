"""A valid call of each public function and module that takes tensors or dims, for `test_wrong_calls.py`.

A call is a function from a `World` to the arguments by name. What a call leaves out is taken by the name of the
parameter, or has a default.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np
import torch

import rfnb as rf
from rfnb import batch_dim


class World:
    """Tensors and dims of one batch, and of another one."""

    def __init__(self) -> None:
        self.time, self.word = rf.Dim(None, name="time"), rf.Dim(None, name="word")
        self.feat, self.out, self.vocab = rf.Dim(4, name="feat"), rf.Dim(3, name="out"), rf.Dim(5, name="vocab")
        self.one, self.two, self.beam = rf.Dim(1, name="one"), rf.Dim(2, name="two"), rf.Dim(2, name="beam")
        self.other, self.new = rf.Dim(4, name="other"), rf.Dim(None, name="new")
        self.old_batch, self.old_time = rf.Dim(None, name="old_batch"), rf.Dim(None, name="old_time")
        old, now = [self.old_batch, self.old_time, self.feat], [batch_dim, self.time, self.feat]
        self.old_x = rf.convert_to_tensor(np.ones((3, 4, 4), "float32"), dims=old, lengths=[4, 2, 1])
        self.x = rf.convert_to_tensor(np.ones((2, 3, 4), "float32"), dims=now, lengths=[3, 1])
        words = [batch_dim, self.word]
        self.words = rf.convert_to_tensor(np.zeros((2, 2), "int64"), dims=words, sparse_dim=self.vocab, lengths=[2, 1])
        self.labels = rf.zeros([batch_dim, self.time], dtype="int64", sparse_dim=self.vocab)
        self.at = rf.zeros([batch_dim, self.word], dtype="int64", sparse_dim=self.time)
        self.into = rf.zeros([batch_dim, self.time], dtype="int64", sparse_dim=self.out)
        self.frames = rf.ones([batch_dim, self.time])
        self.logits = rf.ones([batch_dim, self.time, self.vocab])
        self.memory = rf.ones([batch_dim, self.word, self.feat])
        self.mask = self.frames > 0.5
        self.scalar = rf.ones([])
        self.leaf = rf.ones([self.feat])
        rf.set_requires_gradient(self.leaf)

    def zeros(self, *dims: rf.Dim) -> rf.Tensor:
        return rf.zeros(dims)


Call = Callable[[World], dict[str, Any]]

BY_NAME: dict[str, Callable[[World], Any]] = {
    **dict.fromkeys(
        ("a", "b", "x", "y", "source", "tensor", "other", "values", "start", "end", "s", "inp"), lambda w: w.x
    ),
    **dict.fromkeys(("axis", "in_dim", "reduce", "mask_axis"), lambda w: w.feat),
    **dict.fromkeys(("spatial_dim", "in_spatial_dim", "input_spatial_dim", "path_spatial_dim"), lambda w: w.time),
    **dict.fromkeys(("query_spatial_dim", "indices_dim", "a_spatial_dim"), lambda w: w.time),
    **dict.fromkeys(("key_value_spatial_dim", "targets_spatial_dim", "b_spatial_dim"), lambda w: w.word),
    **dict.fromkeys(("feat_dim", "dim"), lambda w: w.feat),
    **dict.fromkeys(("scale", "bias"), lambda w: None),
    "out_dim": lambda w: w.out,
    "dims": lambda w: [batch_dim, w.time],
    "mask": lambda w: w.mask,
    "dtype": lambda w: "float32",
    "padding": lambda w: "same",
    "fill_value": lambda w: 1.0,
    "indices": lambda w: w.into,
    "kind": lambda w: "add",
    "mode": lambda w: "max",
    "logits": lambda w: w.logits,
    "targets": lambda w: w.words,
    "blank_index": lambda w: 4,
    "pad_value": lambda w: 0.0,
    "in_spatial_dims": lambda w: [w.time],
    "pool_size": lambda w: 2,
    "state": lambda w: rf.LstmState(h=w.zeros(batch_dim, w.out), c=w.zeros(batch_dim, w.out)),
    "num_layers": lambda w: 1,
    "num_heads": lambda w: 2,
    "model_dim": lambda w: w.feat,
    "vocab_dim": lambda w: w.vocab,
    "encoder_dim": lambda w: w.feat,
    "query_in_dim": lambda w: w.feat,
    "proj_dim": lambda w: w.out,
    "key_dim_total": lambda w: rf.Dim(4, name="keys"),
    "value_dim_total": lambda w: rf.Dim(4, name="values"),
    "num_groups": lambda w: 2,
    "filter_size": lambda w: 3,
    "drop_prob": lambda w: 0.5,
}

FUNCTIONS: dict[str, Call] = {
    "average_parameters": lambda w: {"optimizer": torch.optim.SGD(rf.torch_parameters(rf.Linear(w.feat, w.out)))},
    "distributed.average_parameters": lambda w: {
        "optimizer": torch.optim.SGD(rf.torch_parameters(rf.Linear(w.feat, w.out)))
    },
    "assert_": lambda w: {"condition": w.mask, "message": "true"},
    "audio.log_mel_filterbank_from_raw": lambda w: {
        "raw_audio": rf.ones([rf.Dim(800, name="t")]),
        "in_spatial_dim": None,
    },
    "audio.mask": lambda w: {"pos": rf.zeros([batch_dim], dtype="int64", sparse_dim=w.feat), "max_amount": 2},
    "audio.mel_filterbank": lambda w: {"x": rf.ones([rf.Dim(9, name="freq")]), "in_dim": None, "sampling_rate": 16000},
    "audio.random_mask": lambda w: {"broadcast_axis": w.time, "min_num": 1, "max_num": 2, "max_dims": 2},
    "audio.specaugment": lambda w: {"feature_dim": w.feat, "only_on_train": False},
    "batch_norm": lambda w: dict.fromkeys(("running_mean", "running_variance", "gamma", "beta")),
    "combine": lambda w: {},
    "combine_bc": lambda w: {},
    "compare": lambda w: {"a": w.x, "kind": "<", "b": w.x},
    "compare_bc": lambda w: {"kind": "<"},
    "complex_as_real": lambda w: {"x": rf.make_complex(w.x, w.x), "out_dim": None},
    "concat": lambda w: {"sources": [(w.x, w.feat), (w.x, w.feat)]},
    "concat_features": lambda w: {"sources": [rf.ones([batch_dim, w.feat], feature_dim=w.feat)]},
    "cond": lambda w: {"pred": True, "true_fn": lambda: w.x, "false_fn": lambda: w.x},
    "constant": lambda w: {},
    "fill": lambda w: {},
    "full": lambda w: {},
    "conv": lambda w: {"filter": w.zeros(w.out, w.feat, w.two), "filter_size": [w.two]},
    "convert_to_tensor": lambda w: {"value": np.ones((2, 3)), "dims": [batch_dim, w.time]},
    "cross_entropy": lambda w: {"estimated": w.logits, "target": w.labels, "axis": w.vocab, "estimated_type": "logits"},
    "ctc_durations_from_path": lambda w: {"path": w.labels},
    "ctc_no_label_loop_blank_durations_from_path": lambda w: {"path": w.labels},
    "cum_concat_step": lambda w: {"source": w.zeros(batch_dim, w.feat), "prev_accum": w.x, "axis": w.time},
    "dim_match_priority_when_needed": lambda w: {"dim": w.feat, "other_dims": [w.out]},
    "dot_attention": lambda w: {
        "query": w.zeros(batch_dim, w.feat),
        "keys": w.x,
        "values": w.x,
        "key_dim": w.feat,
        "axis": w.time,
    },
    "edit_distance": lambda w: {"a": w.labels, "b": w.words},
    "expand_dim": lambda w: {"dim": w.out},
    "expand_dims": lambda w: {"dims": [w.out]},
    "expand_make_non_empty": lambda w: {"axis": w.time},
    "gather": lambda w: {"indices": w.at, "axis": w.time},
    "gating": lambda w: {"axis": w.feat, "out_dim": w.two},
    "gradient": lambda w: {"y": rf.reduce_sum(w.leaf, axis=w.feat), "x": w.leaf},
    "is_packed": lambda w: {},
    "label_smoothed_log_prob_gradient": lambda w: {"log_prob": w.x, "smoothing": 0.1, "axis": w.feat},
    "label_smoothing": lambda w: {"prob": w.labels, "smoothing": 0.1, "axis": w.vocab},
    "lerp": lambda w: {"weight": 0.5},
    "linear": lambda w: {"weight": w.zeros(w.feat, w.out)},
    "linspace_over_dim": lambda w: {"start": 0.0, "end": 1.0},
    "logical_and": lambda w: {"a": w.mask, "b": w.mask},
    "logical_or": lambda w: {"a": w.mask, "b": w.mask},
    "logical_not": lambda w: {"a": w.mask},
    "lstm": lambda w: {
        "state_h": w.zeros(batch_dim, w.out),
        "state_c": w.zeros(batch_dim, w.out),
        "ff_weight": w.zeros(4 * w.out, w.feat),
        "rec_weight": w.zeros(4 * w.out, w.out),
    },
    "make_complex": lambda w: {"real": w.x, "imag": w.x},
    "make_conv_out_spatial_dims": lambda w: {},
    "make_transposed_conv_out_spatial_dims": lambda w: {},
    "masked_scatter": lambda w: {
        "source": rf.masked_select(w.x, mask=w.mask, dims=[batch_dim, w.time], out_dim=w.new)[0],
        "dims": [batch_dim, w.time],
        "in_dim": w.new,
    },
    "max_pool1d": lambda w: {},
    "masked_select": lambda w: {"out_dim": None},
    "merge_dims": lambda w: {"dims": [w.time, w.feat]},
    "nested.gather_nested": lambda w: {
        "s": w.zeros(batch_dim, w.beam),
        "indices": rf.zeros([batch_dim, w.two], dtype="int64", sparse_dim=w.beam),
    },
    "nested.mask_nested": lambda w: {"mask_value": 0.0},
    "nested.masked_select_nested": lambda w: {},
    "nested.where_nested": lambda w: {"x": w.frames, "y": w.frames, "condition": w.mask},
    "one_hot": lambda w: {"source": w.labels},
    "smooth_one_hot": lambda w: {"source": w.labels, "label_prob": 0.9},
    "pack_padded": lambda w: {"dims": [batch_dim, w.time]},
    "pad": lambda w: {"axes": [w.time], "padding": [(1, 2)]},
    "pad_packed": lambda w: {
        "source": rf.pack_padded(w.x, dims=[batch_dim, w.time], out_dim=w.new)[0],
        "in_dim": w.new,
    },
    "pool2d": lambda w: {"in_spatial_dims": [w.time, w.feat]},
    "pool3d": lambda w: {
        "source": w.zeros(batch_dim, w.feat, w.out, w.vocab),
        "in_spatial_dims": [w.feat, w.out, w.vocab],
    },
    "random": lambda w: {"distribution": "normal"},
    "random_choice_with_replacement": lambda w: {
        "dims": [batch_dim, w.time, w.beam],
        "probs": w.logits / 5.0,
        "axis": w.vocab,
    },
    "random_choice_without_replacement": lambda w: {"log_probs": w.logits, "axis": w.vocab, "num_samples_dim": w.two},
    "range_over_dim_strided": lambda w: {"stride": 2},
    "range_over_merged_dims": lambda w: {"dims": [w.feat, w.out]},
    "raw_call": lambda w: {"fn": torch.exp, "tensors": [w.x], "out_dims": [batch_dim, w.time, w.feat]},
    "real_as_complex": lambda w: {"x": w.zeros(w.two), "pair_dim": w.two},
    "reduce_all": lambda w: {"source": w.mask, "axis": w.time},
    "reduce_any": lambda w: {"source": w.mask, "axis": w.time},
    "reduce_out": lambda w: {"source": rf.ones([w.feat], feature_dim=w.feat), "num_pieces": 2, "out_dim": None},
    "repeat": lambda w: {"repeats": 2},
    "replace_dim": lambda w: {"in_dim": w.time, "out_dim": w.new},
    "replace_dim_v2": lambda w: {"in_dim": w.feat, "out_dim": w.out},
    "reshape": lambda w: {"source": w.zeros(w.feat, w.out), "in_dims": [w.feat, w.out], "out_dims": [w.out, w.feat]},
    "scaled_gradient": lambda w: {"scale": 2.0},
    "scaled_gradient_ext": lambda w: {"scale": 2.0},
    "scatter_count": lambda w: {},
    "search_sorted": lambda w: {"sorted_seq": w.leaf, "values": 0.5},
    "sequence_mask": lambda w: {"dims": [w.time]},
    "set_feature_dim": lambda w: {"source": w.x, "feature_dim": w.feat},
    "make_norm": lambda w: {"norm": rf.LayerNorm},
    "set_sparse_dim": lambda w: {"source": w.labels, "sparse_dim": w.vocab},
    "sequential": lambda w: {"modules": [rf.relu]},
    "set_requires_gradient": lambda w: {"source": w.leaf},
    "sinusoidal_encoding": lambda w: {"indices": rf.range_over_dim(w.time)},
    "slice": lambda w: {"axis": w.time},
    "squeeze": lambda w: {"source": w.zeros(w.one), "axis": w.one},
    "shift_left": lambda w: {"axis": w.time},
    "shift_right": lambda w: {"axis": w.time},
    "sparse_to_dense": lambda w: {"labels": w.labels, "label_value": 1.0, "other_value": 0.0, "axis": w.vocab},
    "split": lambda w: {"out_dims": [w.two, rf.Dim(2, name="rest")]},
    "split_dims": lambda w: {"dims": [w.two, rf.Dim(2, name="rest")]},
    "stack": lambda w: {"sources": [w.x, w.x], "out_dim": None},
    "stft": lambda w: {"x": w.frames, "frame_step": 1, "frame_length": 2},
    "top_k": lambda w: {"k": 2},
    "top_k_mask": lambda w: {"k": 2},
    "top_p_mask": lambda w: {"probs": w.x, "p": 0.5},
    "transposed_conv": lambda w: {"filter": w.zeros(w.feat, w.out, w.two), "filter_size": [w.two]},
    "where": lambda w: {"cond": w.mask, "true_": w.frames, "false_": 0.0},
    "window": lambda w: {"window_dim": w.two},
    "steps": lambda w: {"items": [1, 2]},
    "unstack": lambda w: {"axis": w.feat},
    "scan": lambda w: {"xs": w.x, "spatial_dim": w.time, "body": lambda x, state: (x, state)},
    "while_loop": lambda w: {"cond": lambda x: x < 3.0, "body": lambda x: x + 1.0, "initial": w.scalar},
    "make_cell": lambda w: {"unit": "lstm", "in_dim": w.feat},
    "is_parametrized": lambda w: {"module": rf.Linear(w.feat, w.out)},
    "param_groups": lambda w: {"module": rf.Linear(w.feat, w.out), "weight_decay": 0.1},
    "torch_parameters": lambda w: {"module": rf.Linear(w.feat, w.out)},
    "weight_noise": lambda w: {"module": rf.Linear(w.feat, w.out), "param_name": "weight", "std": 0.1},
    "weight_dropout": lambda w: {"module": rf.Linear(w.feat, w.out), "param_name": "weight"},
    "calc_conv_out_length": lambda w: {"in_length": w.time, "stride": 1},
    "calc_transposed_conv_out_length": lambda w: {"in_length": w.time},
    "collate": lambda w: {"spec": {"x": [batch_dim, w.new]}},
    "distributed.mean": lambda w: {"losses": w.x},
    "layer_norm": lambda w: {"scale": w.zeros(w.feat), "bias": w.zeros(w.feat)},
    "dropout": lambda w: {"on_forward": True},
}
ELSEWHERE = {
    "get_tensor_consumers", "get_tensor_dependencies", "walk_tensor_consumers", "watch",  # of values of a loop body
    "nested.masked_scatter_nested", "register_parametrization", "distributed.DistributedDataParallel",
    "from_torch", "to_torch", "rf_module_to_pt_module",
}  # fmt: skip
"""Functions with tests of their own."""

MODULES: dict[str, Call] = {
    "RotaryPosCausalSelfAttention": lambda w: {},
    "RotaryPosSelfAttention": lambda w: {},
    "BatchNorm": lambda w: {}, "Dropout": lambda w: {}, "Normalize": lambda w: {"param_dims": w.feat},
    "BasicLSTM": lambda w: {}, "BasicRNN": lambda w: {}, "GRU": lambda w: {}, "LSTM": lambda w: {}, "RHN": lambda w: {},
    "VanillaLSTM": lambda w: {}, "ZoneoutLSTM": lambda w: {}, "LayerNormVariantsLSTM": lambda w: {},
    "CausalSelfAttention": lambda w: {}, "SelfAttention": lambda w: {}, "RelPosSelfAttention": lambda w: {},
    "RelPosCausalSelfAttention": lambda w: {}, "CrossAttention": lambda w: {},
    "ConformerConvBlock": lambda w: {"out_dim": w.feat, "kernel_size": 3, "norm": rf.LayerNorm(w.feat)},
    "ConformerConvSubsample": lambda w: {"out_dims": [w.two, w.out], "filter_sizes": [(3, 3), (3, 3)]},
    "ConformerEncoder": lambda w: {"out_dim": w.feat, "input_layer": None, "num_heads": 2, "conv_kernel_size": 3},
    "ConformerEncoderLayer": lambda w: {"out_dim": w.feat, "num_heads": 2, "conv_kernel_size": 3},
    "ConformerPositionwiseFeedForward": lambda w: {"out_dim": w.feat},
    "Conv1d": lambda w: {}, "Conv2d": lambda w: {}, "Conv3d": lambda w: {},
    "TransposedConv1d": lambda w: {}, "TransposedConv2d": lambda w: {}, "TransposedConv3d": lambda w: {},
    "EBranchformerLayer": lambda w: {"out_dim": w.feat, "num_heads": 2},
    "Embedding": lambda w: {"in_dim": w.vocab}, "Linear": lambda w: {},
    "FeedForward": lambda w: {"out_dim": w.feat}, "FeedForwardGated": lambda w: {"out_dim": w.feat},
    "GroupNorm": lambda w: {}, "GroupNormSpatial": lambda w: {}, "LayerNorm": lambda w: {}, "RMSNorm": lambda w: {},
    "LearnedRelativePositionalEncoding": lambda w: {}, "RunningMean": lambda w: {"alpha": 0.1},
    "TransformerDecoder": lambda w: {"model_dim": w.feat, "num_heads": 2},
    "TransformerDecoderLayer": lambda w: {"out_dim": w.feat, "num_heads": 2},
    "TransformerEncoder": lambda w: {"model_dim": w.feat, "num_heads": 2},
    "TransformerEncoderLayer": lambda w: {"out_dim": w.feat, "num_heads": 2},
}  # fmt: skip
"""The modules, and the arguments of their classes."""

BASES = {
    "Module", "RecCell", "SelfAttentionBase", "Functional", "ModuleList", "ParameterList", "Sequential",
    "IEncoder", "ISeqFramewiseEncoder", "ISeqDownsamplingEncoder",
    "PiecewiseLinear", "PiecewiseLinearStepwiseScheduler", "WeightDropout", "WeightNoise",
}  # fmt: skip
"""Modules without dims of their own."""


def _state_of(module: Any, w: World) -> Any:
    return module.default_initial_state(batch_dims=[batch_dim])


def _image(w: World, *dims: rf.Dim) -> dict[str, Any]:
    return {"source": w.zeros(batch_dim, *dims, w.feat), "in_spatial_dims": list(dims)}


CALLS: dict[str, Callable[[Any, World], dict[str, Any]]] = {
    **dict.fromkeys(
        ["BasicLSTM", "BasicRNN", "GRU", "LSTM", "RHN", "VanillaLSTM", "ZoneoutLSTM", "LayerNormVariantsLSTM"],
        lambda module, w: {"state": _state_of(module, w)},
    ),
    **dict.fromkeys(
        [f"{kind}{which}SelfAttention" for kind in ("", "RelPos", "RotaryPos") for which in ("", "Causal")],
        lambda module, w: {"axis": w.time},
    ),
    "CrossAttention": lambda module, w: {"q": w.x, "encoder": module.transform_encoder(w.memory, axis=w.word)},
    "Normalize": lambda module, w: {"a": w.x, "axis": w.time},
    "ConformerConvSubsample": lambda module, w: {"source": w.x},
    **dict.fromkeys(["Conv2d", "TransposedConv2d"], lambda module, w: _image(w, w.time, w.vocab)),
    **dict.fromkeys(["Conv3d", "TransposedConv3d"], lambda module, w: _image(w, w.time, w.vocab, w.two)),
    "Embedding": lambda module, w: {"source": w.labels},
    "TransformerDecoder": lambda module, w: {
        "source": w.labels, "state": _state_of(module, w), "encoder": module.transform_encoder(w.memory, axis=w.word),
    },
    "TransformerDecoderLayer": lambda module, w: {
        "state": _state_of(module, w), "encoder": module.transform_encoder(w.memory, axis=w.word),
    },
    "TransformerEncoder": lambda module, w: {"source": w.words, "spatial_dim": w.word},
}  # fmt: skip
"""What the call of a module takes besides `BY_NAME`."""


def arguments(name: str, fn: Callable[..., Any], world: World, given: Call | None) -> dict[str, Any]:
    """The arguments of a valid call."""
    own = {} if given is None else given(world)
    parameters = inspect.signature(fn).parameters.values()
    required = {p.name for p in parameters if p.default is p.empty and p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)}
    found = {key: BY_NAME[key](world) for key in required if key in BY_NAME and key not in own} | own
    if name.startswith("audio.") and "raw_audio" in found:
        found["in_spatial_dim"] = found["raw_audio"].dims[0]
    if name == "audio.mel_filterbank":
        found["in_dim"] = found["x"].dims[0]
    return found


def call(fn: Callable[..., Any], given: dict[str, Any]) -> Any:
    """fn(…) with arguments by name, where it takes them by name."""
    parameters = inspect.signature(fn).parameters.values()
    starred = any(p.kind is p.VAR_POSITIONAL for p in parameters)
    in_order: list[Any] = []
    for p in parameters:
        if p.name in given and p.kind is p.VAR_POSITIONAL:
            in_order += given.pop(p.name)
        elif p.name in given and (p.kind is p.POSITIONAL_ONLY or (starred and p.kind is p.POSITIONAL_OR_KEYWORD)):
            in_order.append(given.pop(p.name))
    return fn(*in_order, **given)

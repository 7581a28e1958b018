"""Sequence models in a notebook: tensors that know their dims by name, loops that can be stepped forward and back."""

from __future__ import annotations

import rfnb.backend.torch.backend  # registers itself
import rfnb.ops.describe  # methods of Tensor
from rfnb import errors as errors
from rfnb.nn import init as init

# isort: split
# dims and tensors
from rfnb.core.dim import (
    Dim as Dim,
    batch_dim as batch_dim,
    single_step_dim as single_step_dim,
)
from rfnb.core.parameter import Parameter as Parameter
from rfnb.core.raw import register_backend_by_tensor_type as register_backend_by_tensor_type
from rfnb.core.run_ctx import (
    RunCtx as RunCtx,
    get_run_ctx as get_run_ctx,
    get_run_ctx_step as get_run_ctx_step,
    init_forward_step_run_ctx as init_forward_step_run_ctx,
    init_train_step_run_ctx as init_train_step_run_ctx,
)
from rfnb.core.state import State as State
from rfnb.core.tensor import Tensor as Tensor
from rfnb.core.tensor_dict import TensorDict as TensorDict
from rfnb.core.vocab import Vocab as Vocab

# isort: split
# from data, and new
from rfnb.ops.collate import collate as collate
from rfnb.ops.convert import convert_to_tensor as convert_to_tensor
from rfnb.ops.create import (
    full as full,
    get_default_array_index_dtype as get_default_array_index_dtype,
    get_default_device as get_default_device,
    get_default_float_dtype as get_default_float_dtype,
    get_default_int_dtype as get_default_int_dtype,
    get_random_state as get_random_state,
    ones as ones,
    ones_like as ones_like,
    random as random,
    random_normal as random_normal,
    random_truncated_normal as random_truncated_normal,
    random_uniform as random_uniform,
    range_over_dim as range_over_dim,
    set_default_device as set_default_device,
    set_default_float_dtype as set_default_float_dtype,
    set_random_seed as set_random_seed,
    set_random_state as set_random_state,
    zeros as zeros,
    zeros_like as zeros_like,
)

# isort: split
# maths
from rfnb.ops.activation import (
    elu as elu,
    gelu as gelu,
    identity as identity,
    log_sigmoid as log_sigmoid,
    relu as relu,
    relu_square as relu_square,
    selu as selu,
    sigmoid as sigmoid,
    silu as silu,
    softplus as softplus,
    softsign as softsign,
    swish as swish,
    tanh as tanh,
)
from rfnb.ops.linear import linear as linear
from rfnb.ops.loss import (
    cross_entropy as cross_entropy,
    edit_distance as edit_distance,
    label_smoothing as label_smoothing,
)
from rfnb.ops.math import (
    abs as abs,
    add as add,
    cast as cast,
    ceil as ceil,
    clip_by_value as clip_by_value,
    combine as combine,
    combine_bc as combine_bc,
    compare as compare,
    compare_bc as compare_bc,
    cos as cos,
    equal as equal,
    exp as exp,
    expm1 as expm1,
    floor as floor,
    floordiv as floordiv,
    greater as greater,
    greater_equal as greater_equal,
    is_finite as is_finite,
    is_infinite as is_infinite,
    is_neg_infinite as is_neg_infinite,
    less as less,
    less_equal as less_equal,
    log as log,
    log1p as log1p,
    log_add_exp as log_add_exp,
    logical_and as logical_and,
    logical_not as logical_not,
    logical_or as logical_or,
    maximum as maximum,
    minimum as minimum,
    mod as mod,
    mul as mul,
    neg as neg,
    not_equal as not_equal,
    pow as pow,
    reciprocal as reciprocal,
    round as round,
    rsqrt as rsqrt,
    sign as sign,
    sin as sin,
    sqrt as sqrt,
    square as square,
    squared_difference as squared_difference,
    sub as sub,
    truediv as truediv,
    where as where,
)
from rfnb.ops.matmul import (
    dot as dot,
    matmul as matmul,
)
from rfnb.ops.norm import layer_norm as layer_norm
from rfnb.ops.random import dropout as dropout
from rfnb.ops.rec import lstm as lstm
from rfnb.ops.reduce import (
    reduce as reduce,
    reduce_all as reduce_all,
    reduce_any as reduce_any,
    reduce_argmax as reduce_argmax,
    reduce_argmin as reduce_argmin,
    reduce_logsumexp as reduce_logsumexp,
    reduce_max as reduce_max,
    reduce_mean as reduce_mean,
    reduce_min as reduce_min,
    reduce_sum as reduce_sum,
)
from rfnb.ops.sequence import (
    cumsum as cumsum,
    reverse_sequence as reverse_sequence,
)
from rfnb.ops.softmax import (
    log_softmax as log_softmax,
    softmax as softmax,
)
from rfnb.ops.top_k import top_k as top_k

# isort: split
# shapes and places
from rfnb.ops.concat import (
    concat as concat,
    concat_features as concat_features,
    cum_concat_step as cum_concat_step,
    split as split,
    stack as stack,
    unstack as unstack,
)
from rfnb.ops.control import raw_call as raw_call
from rfnb.ops.device import (
    copy as copy,
    copy_to_device as copy_to_device,
)
from rfnb.ops.grad import (
    gradient as gradient,
    scaled_gradient as scaled_gradient,
    set_requires_gradient as set_requires_gradient,
    stop_gradient as stop_gradient,
)
from rfnb.ops.index import (
    gather as gather,
    one_hot as one_hot,
    scatter as scatter,
)
from rfnb.ops.mask import sequence_mask as sequence_mask
from rfnb.ops.shape import (
    expand_dim as expand_dim,
    expand_dims as expand_dims,
    merge_dims as merge_dims,
    replace_dim as replace_dim,
    replace_dim_v2 as replace_dim_v2,
    set_sparse_dim as set_sparse_dim,
    split_dims as split_dims,
    squeeze as squeeze,
)
from rfnb.ops.slice import (
    pad as pad,
    shift_left as shift_left,
    shift_right as shift_right,
    slice as slice,
)

# isort: split
# loops and their runs
from rfnb.loop.loop import Loop as Loop
from rfnb.trace.run import Run as Run
from rfnb.trace.session import (
    options as options,
    recording as recording,
    runs as runs,
)

# isort: split
# modules
from rfnb.checkpoint.load import load_checkpoint as load_checkpoint
from rfnb.checkpoint.save import save_checkpoint as save_checkpoint
from rfnb.nn.bridge import torch_parameters as torch_parameters
from rfnb.nn.container import (
    ModuleList as ModuleList,
    Sequential as Sequential,
    sequential as sequential,
)
from rfnb.nn.dropout import Dropout as Dropout
from rfnb.nn.embedding import Embedding as Embedding
from rfnb.nn.linear import Linear as Linear
from rfnb.nn.module import (
    Functional as Functional,
    Module as Module,
)
from rfnb.nn.norm import LayerNorm as LayerNorm
from rfnb.nn.rec import (
    LSTM as LSTM,
    LstmState as LstmState,
)

# isort: split
# views
from rfnb.display.show import (
    show as show,
    show_attention as show_attention,
)
from rfnb.display.widgets.stepper import stepper as stepper

# isort: split
# in a notebook
from rfnb.core.source import follow_cells as _follow_cells
from rfnb.display.comm import install as _install
from rfnb.display.register import register_views as _register_views

__version__ = "0.1.0"

_register_views()
_follow_cells()
_install(runs)


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the panel."""
    return [{"src": "labextension", "dest": "rfnb-lab"}]

"""Dims, tensors, backends and ops: the names of `rf` that `import rfnb` brings."""

# fmt: off
# isort: skip_file

# modules that register themselves on import
import rfnb.backend.numpy as _numpy_backend
import rfnb.backend.torch.backend as _torch_backend  # the backend that is selected by default
import rfnb.core.tensor.pickling as _pickling
import rfnb.ops.methods as _methods  # of Tensor

# isort: split
# namespaces
from rfnb import errors as errors
from rfnb.ops import audio as audio, nested as nested
from rfnb.backend.base.backend import Backend as Backend
from rfnb.core.dims.dim import Dim as Dim, batch_dim as batch_dim, single_step_dim as single_step_dim
from rfnb.core.ground.defaults import (
    get_default_array_index_dtype as get_default_array_index_dtype, get_default_device as get_default_device,
    get_default_float_dtype as get_default_float_dtype, get_default_int_dtype as get_default_int_dtype,
    is_float_dtype as is_float_dtype, set_default_device as set_default_device,
    set_default_device_ctx as set_default_device_ctx, set_default_float_dtype as set_default_float_dtype,
    set_default_float_dtype_ctx as set_default_float_dtype_ctx,
)
from rfnb.core.ground.backends import (
    get_backend_by_raw_tensor_type as get_backend_by_raw_tensor_type, get_backend_by_tensor as get_backend_by_tensor,
    get_raw_tensor_type as get_raw_tensor_type, get_selected_backend as get_selected_backend,
    is_backend_raw_tensor_dim_tag_independent as is_backend_raw_tensor_dim_tag_independent,
    is_executing_eagerly as is_executing_eagerly, register_backend_by_tensor_type as register_backend_by_tensor_type,
    select_backend as select_backend, select_backend_numpy as select_backend_numpy,
    select_backend_returnn_layers_tf as select_backend_returnn_layers_tf, select_backend_tf as select_backend_tf,
    select_backend_torch as select_backend_torch,
)
from rfnb.core.run_ctx import (
    BehaviorVersion as BehaviorVersion, Loss as Loss, RunCtx as RunCtx, get_run_ctx as get_run_ctx,
    get_run_ctx_step as get_run_ctx_step, init_forward_step_run_ctx as init_forward_step_run_ctx,
    init_train_step_run_ctx as init_train_step_run_ctx,
)
from rfnb.core.tensor.op import op as op
from rfnb.core.tensor.parameter import (
    Parameter as Parameter, set_parameter_copy_behavior_ctx as set_parameter_copy_behavior_ctx,
)
from rfnb.core.tensor.tensor import Tensor as Tensor
from rfnb.core.tensor.tensor_dict import State as State, TensorDict as TensorDict
from rfnb.core.vocab import Vocab as Vocab
from rfnb.ops.dims import (
    dim_match_priority_when_needed as dim_match_priority_when_needed,
    get_default_dim_size_device as get_default_dim_size_device,
    last_frame_position_of_dim as last_frame_position_of_dim, linspace_over_dim as linspace_over_dim,
    masked_fraction_of_shape as masked_fraction_of_shape, num_elements_of_shape as num_elements_of_shape,
    range_over_dim_strided as range_over_dim_strided, range_over_merged_dims as range_over_merged_dims,
    use_mask_default as use_mask_default,
)
from rfnb.ops.collate import collate as collate
from rfnb.ops.convert import convert_to_tensor as convert_to_tensor, copy as copy, copy_to_device as copy_to_device
from rfnb.ops.create import (
    constant as constant, fill as fill, full as full, ones as ones, ones_like as ones_like,
    range_over_dim as range_over_dim, zeros as zeros, zeros_like as zeros_like,
)
from rfnb.ops.mask import (
    sequence_mask as sequence_mask, is_packed as is_packed, masked_scatter as masked_scatter,
    masked_select as masked_select, pack_padded as pack_padded, pad_packed as pad_packed, unpack as unpack,
)
from rfnb.ops.random import (
    dropout as dropout, dropout_broadcast_default as dropout_broadcast_default, get_random_state as get_random_state,
    get_static_step_based_seed as get_static_step_based_seed, random as random,
    random_choice_with_replacement as random_choice_with_replacement,
    random_choice_without_replacement as random_choice_without_replacement, random_normal as random_normal,
    random_truncated_normal as random_truncated_normal, random_uniform as random_uniform,
    reset_step_random_state as reset_step_random_state, set_dropout_broadcast as set_dropout_broadcast,
    set_dropout_broadcast_ctx as set_dropout_broadcast_ctx, set_random_seed as set_random_seed,
    set_random_state as set_random_state,
)
from rfnb.ops.index import (
    search_sorted as search_sorted, sort as sort, top_k as top_k, top_k_mask as top_k_mask, top_p_mask as top_p_mask,
    gather as gather, one_hot as one_hot, scatter as scatter, scatter_argmax as scatter_argmax,
    scatter_count as scatter_count, scatter_logmeanexp as scatter_logmeanexp, scatter_logsumexp as scatter_logsumexp,
    scatter_mean as scatter_mean, smooth_one_hot as smooth_one_hot, sparse_to_dense as sparse_to_dense,
)
from rfnb.ops.math import (
    abs as abs, add as add, cast as cast, ceil as ceil, ceil_divide as ceil_divide, clip_by_value as clip_by_value,
    combine as combine, combine_bc as combine_bc, compare_bc as compare_bc, complex_as_real as complex_as_real,
    cos as cos, elu as elu, equal as equal, exp as exp, expm1 as expm1, floor as floor, floor_divide as floor_divide,
    gating as gating, gelu as gelu, greater as greater, greater_equal as greater_equal, identity as identity,
    is_finite as is_finite, is_infinite as is_infinite, is_neg_infinite as is_neg_infinite, lerp as lerp, less as less,
    less_equal as less_equal, log as log, log1p as log1p, log_add_exp as log_add_exp, log_sigmoid as log_sigmoid,
    logical_and as logical_and, logical_not as logical_not, logical_or as logical_or, make_complex as make_complex,
    maximum as maximum, minimum as minimum, mod as mod, mul as mul, neg as neg, not_equal as not_equal,
    opt_logical_and as opt_logical_and, opt_logical_or as opt_logical_or, pow as pow,
    real_as_complex as real_as_complex, reciprocal as reciprocal, relu as relu, relu_square as relu_square,
    round as round, rsqrt as rsqrt, safe_log as safe_log, selu as selu, sigmoid as sigmoid, sign as sign, silu as silu,
    sin as sin, softplus as softplus, softsign as softsign, sqrt as sqrt, square as square,
    squared_difference as squared_difference, sub as sub, swish as swish, tanh as tanh, true_divide as true_divide,
    where as where,
)
from rfnb.ops.matmul import dot as dot, matmul as matmul, linear as linear
from rfnb.ops.reduce import (
    log_softmax as log_softmax, reduce as reduce, reduce_all as reduce_all, reduce_any as reduce_any,
    reduce_argmax as reduce_argmax, reduce_argmin as reduce_argmin, reduce_logmeanexp as reduce_logmeanexp,
    reduce_logsumexp as reduce_logsumexp, reduce_max as reduce_max, reduce_mean as reduce_mean,
    reduce_min as reduce_min, reduce_out as reduce_out, reduce_sum as reduce_sum, softmax as softmax,
)
from rfnb.ops.slice import (
    cumsum as cumsum, reverse_sequence as reverse_sequence, pad as pad, repeat as repeat, shift_left as shift_left,
    shift_right as shift_right, slice as slice,
)
from rfnb.ops.concat import (
    concat as concat, concat_features as concat_features, cum_concat_step as cum_concat_step, split as split,
    stack as stack, unstack as unstack,
)
from rfnb.ops.shape import (
    expand_dim as expand_dim, expand_dims as expand_dims, expand_make_non_empty as expand_make_non_empty,
    merge_dims as merge_dims, replace_dim as replace_dim, replace_dim_v2 as replace_dim_v2, reshape as reshape,
    set_feature_dim as set_feature_dim, set_sparse_dim as set_sparse_dim, split_dims as split_dims, squeeze as squeeze,
)
from rfnb.ops.conv import (
    calc_conv_out_length as calc_conv_out_length, calc_transposed_conv_out_length as calc_transposed_conv_out_length,
    conv as conv, make_conv_out_spatial_dims as make_conv_out_spatial_dims,
    make_transposed_conv_out_spatial_dims as make_transposed_conv_out_spatial_dims, max_pool as max_pool,
    max_pool1d as max_pool1d, pool as pool, pool1d as pool1d, pool2d as pool2d, pool3d as pool3d, stft as stft,
    transposed_conv as transposed_conv, window as window,
)
from rfnb.ops.attention import dot_attention as dot_attention
from rfnb.ops.norm import (
    batch_norm as batch_norm, group_norm as group_norm, layer_norm as layer_norm, moments as moments,
    normalize as normalize, rms_norm as rms_norm,
)
from rfnb.ops.position import (
    relative_positional_encoding as relative_positional_encoding, sinusoidal_encoding as sinusoidal_encoding,
    sinusoidal_positional_encoding as sinusoidal_positional_encoding,
)
from rfnb.ops.rec import lstm as lstm
from rfnb.ops.control import (
    AmpPolicy as AmpPolicy, amp_cast_compute as amp_cast_compute, amp_cast_float32 as amp_cast_float32,
    get_amp_policy as get_amp_policy, set_amp_policy as set_amp_policy, set_amp_policy_ctx as set_amp_policy_ctx,
    assert_ as assert_, cond as cond, control_flow_ctx as control_flow_ctx,
    get_current_control_flow_ctx as get_current_control_flow_ctx, is_static_traceable as is_static_traceable,
    raw_call as raw_call, set_static_traceable as set_static_traceable,
    set_static_traceable_ctx as set_static_traceable_ctx, static_traceable_generation as static_traceable_generation,
)
from rfnb.ops.grad import (
    gradient as gradient, gradient_checkpoint_scope as gradient_checkpoint_scope, scaled_gradient as scaled_gradient,
    scaled_gradient_ext as scaled_gradient_ext, set_requires_gradient as set_requires_gradient,
    stop_gradient as stop_gradient, stop_gradient_scope as stop_gradient_scope,
)
from rfnb.ops.loss import (
    cross_entropy as cross_entropy, ctc_best_path as ctc_best_path, ctc_durations_from_path as ctc_durations_from_path,
    ctc_greedy_decode as ctc_greedy_decode, ctc_loss as ctc_loss,
    ctc_no_label_loop_blank_durations_from_path as ctc_no_label_loop_blank_durations_from_path,
    edit_distance as edit_distance, label_smoothed_log_prob_gradient as label_smoothed_log_prob_gradient,
    label_smoothing as label_smoothing,
)

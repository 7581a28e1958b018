"""The public names of `rf`, and the folder whose `public.py` gives each of them.

With this table, a name that is asked for first imports its own folder alone; completion, and the answer to an unknown
name, import nothing. `pytest tests/test_public_api.py --update-golden` writes it from the files `public.py`.
"""

NAMES = {
    "ops": """
        AmpPolicy
        Backend BehaviorVersion
        Dim
        Loss
        Parameter
        RunCtx
        State
        Tensor TensorDict
        Vocab
        abs add amp_cast_compute amp_cast_float32 assert_ audio
        batch_dim batch_norm
        calc_conv_out_length calc_transposed_conv_out_length cast ceil ceil_divide clip_by_value collate combine
        combine_bc compare_bc complex_as_real concat concat_features cond constant control_flow_ctx conv
        convert_to_tensor copy copy_to_device cos cross_entropy ctc_best_path ctc_durations_from_path ctc_greedy_decode
        ctc_loss ctc_no_label_loop_blank_durations_from_path cum_concat_step cumsum
        dim_match_priority_when_needed dot dot_attention dropout dropout_broadcast_default
        edit_distance elu equal errors exp expand_dim expand_dims expand_make_non_empty expm1
        fill floor floor_divide full
        gather gating gelu get_amp_policy get_backend_by_raw_tensor_type get_backend_by_tensor
        get_current_control_flow_ctx get_default_array_index_dtype get_default_device get_default_dim_size_device
        get_default_float_dtype get_default_int_dtype get_random_state get_raw_tensor_type get_run_ctx get_run_ctx_step
        get_selected_backend get_static_step_based_seed gradient gradient_checkpoint_scope greater greater_equal
        group_norm
        identity init_forward_step_run_ctx init_train_step_run_ctx is_backend_raw_tensor_dim_tag_independent
        is_executing_eagerly is_finite is_float_dtype is_infinite is_neg_infinite is_packed is_static_traceable
        label_smoothed_log_prob_gradient label_smoothing last_frame_position_of_dim layer_norm lerp less less_equal
        linear linspace_over_dim log log1p log_add_exp log_sigmoid log_softmax logical_and logical_not logical_or lstm
        make_complex make_conv_out_spatial_dims make_transposed_conv_out_spatial_dims masked_fraction_of_shape
        masked_scatter masked_select matmul max_pool max_pool1d maximum merge_dims minimum mod moments mul
        neg nested normalize not_equal num_elements_of_shape
        one_hot ones ones_like op opt_logical_and opt_logical_or
        pack_padded pad pad_packed pool pool1d pool2d pool3d pow
        random random_choice_with_replacement random_choice_without_replacement random_normal random_truncated_normal
        random_uniform range_over_dim range_over_dim_strided range_over_merged_dims raw_call real_as_complex reciprocal
        reduce reduce_all reduce_any reduce_argmax reduce_argmin reduce_logmeanexp reduce_logsumexp reduce_max
        reduce_mean reduce_min reduce_out reduce_sum register_backend_by_tensor_type relative_positional_encoding relu
        relu_square repeat replace_dim replace_dim_v2 reset_step_random_state reshape reverse_sequence rms_norm round
        rsqrt
        safe_log scaled_gradient scaled_gradient_ext scatter scatter_argmax scatter_count scatter_logmeanexp
        scatter_logsumexp scatter_mean search_sorted select_backend select_backend_numpy
        select_backend_returnn_layers_tf select_backend_tf select_backend_torch selu sequence_mask set_amp_policy
        set_amp_policy_ctx set_default_device set_default_device_ctx set_default_float_dtype set_default_float_dtype_ctx
        set_dropout_broadcast set_dropout_broadcast_ctx set_feature_dim set_parameter_copy_behavior_ctx set_random_seed
        set_random_state set_requires_gradient set_sparse_dim set_static_traceable set_static_traceable_ctx shift_left
        shift_right sigmoid sign silu sin single_step_dim sinusoidal_encoding sinusoidal_positional_encoding slice
        smooth_one_hot softmax softplus softsign sort sparse_to_dense split split_dims sqrt square squared_difference
        squeeze stack static_traceable_generation stft stop_gradient stop_gradient_scope sub swish
        tanh top_k top_k_mask top_p_mask transposed_conv true_divide
        unpack unstack use_mask_default
        where window
        zeros zeros_like
    """,
    "nn": """
        BasicLSTM BasicRNN BatchNorm
        CausalSelfAttention CausalSelfAttentionState CollectOutputsDict ConformerConvBlock ConformerConvSubsample
        ConformerEncoder ConformerEncoderLayer ConformerPositionwiseFeedForward Conv1d Conv2d Conv3d CrossAttention
        Dropout
        EBranchformerLayer Embedding
        FeedForward FeedForwardGated Functional
        GRU GetModelFunc GroupNorm GroupNormSpatial
        IEncoder ISeqDownsamplingEncoder ISeqFramewiseEncoder
        LSTM LayerNorm LayerNormVariantsLSTM LearnedRelativePositionalEncoding Linear LstmState
        Module ModuleList
        Normalize NotSpecified
        ParameterList PiecewiseLinear PiecewiseLinearStepwiseScheduler
        RHN RMSNorm RecCell RelPosCausalSelfAttention RelPosSelfAttention RotaryPosCausalSelfAttention
        RotaryPosSelfAttention RunningMean
        SelfAttention SelfAttentionBase Sequential StepFunc
        TransformerDecoder TransformerDecoderLayer TransformerEncoder TransformerEncoderLayer TransposedConv1d
        TransposedConv2d TransposedConv3d
        VanillaLSTM
        WeightDropout WeightNoise
        ZoneoutLSTM
        average_parameters
        batch_norm_distributed_default build_dict build_from_dict
        conv_norm_use_mask_default
        decoder distributed
        encoder
        from_torch
        hooks
        init is_parametrized
        make_cell make_ff make_norm
        param_groups
        register_parametrization remove_parametrization rf_module_to_pt_module
        sequential
        to_torch torch_parameters
        weight_dropout weight_noise
    """,
    "data": """
        FrameBatches
        HdfWriter
        examples
        hdf
    """,
    "trace": """
        Captured Comparison
        ModelGraph
        Pause Probe
        Run
        capture compare
        get_tensor_consumers get_tensor_dependencies
        load_probe load_run
        model_graph
        options
        pause_when pauses probe
        record_calls record_loops recording runs
        steps
        walk_tensor_consumers when
    """,
    "loop": """
        Gradients
        Loop
        TensorArray
        check
        pause profile pure
        scan
        watch while_loop
    """,
    "search": """
        search
    """,
    "checkpoint": """
        LoadReport
        average_checkpoints
        import_weights
        load load_checkpoint load_config load_pretrained
        open_checkpoint
        save save_checkpoint save_pretrained
    """,
    "jobs": """
        attach
        launch
    """,
    "netdict": """
        Config
        ExternData
        FeatureDim
        LossHolder
        Network
        SpatialDim
        layer
        preload
        read_config
        set_behavior_version
    """,
    "netdict.code": """
        diff
        to_code
    """,
    "display": """
        el
        gradient_norms
        integrations
        page progress
        register_view
        show show_attention show_dims stepper
    """,
}
"""The public names by folder."""

FOLDERS = {name: folder for folder, names in NAMES.items() for name in names.split()}
"""The folder of each public name."""

"""Which file has which classes of layers, so that a net imports only those that it has."""

from __future__ import annotations

CLASSES = {
    "basic": "linear hidden forward softmax copy dropout identity activation cast scaled_grad",
    "conv": "conv transposed_conv pool",
    "create": "constant variable range range_in_axis range_from_length seq_len_mask random rand_int random_state_init",
    "eval": "combine eval compare switch",
    "matmul": "dot",
    "norm": "layer_norm norm batch_norm gating softmax_over_spatial",
    "rec.cell": "rec rnn_cell get_last_hidden_state",
    "rec.choice": "choice choice_get_beam_scores choice_get_src_beams decide decide_keep_beam split_batch_beam",
    "rec.attention": "generic_attention dot_attention concat_attention gauss_window_attention",
    "rec.cum_concat": "cum_concat",
    "rec.edit_distance": "edit_distance_table optimal_completions",
    "rec.kenlm": "kenlm",
    "rec.twod": "twod_lstm",
    "rec.masked": "masked_computation unmask",
    "rec.self_attention": "self_attention",
    "rec.position": "positional_encoding relative_positional_encoding",
    "rec.subnet": "rec:unit get_rec_accumulated rec_last_output rec_unstack",
    "reduce": "reduce reduce_out math_norm cumsum elemwise_prod weighted_sum",
    "shape": "split_dims merge_dims squeeze expand_dims swap_axes reinterpret_data length reshape transpose tile",
    "slice": "slice slice_nd gather gather_nd scatter_nd",
    "shift": "shift_axis resize",
    "chunks": "time_chunking time_unchunking",
    "loss": "loss sparse_softmax_cross_entropy_with_logits edit_distance",
    "batches": "flatten_batch unflatten_batch split_batch_time",
    "signal": "stft istft mel_filterbank",
    "run": "train_flag print hdf_dump",
    "time": "window prefix_in_time postfix_in_time pad repeat",
    "concat": "concat split stack top_k",
    "wrap": "subnetwork cond",
}
"""The names of the classes in net dicts, by file."""

MODULES = {name: f"rfnb.netdict.layers.{file}" for file, names in CLASSES.items() for name in names.split()}
"""The full name of the module that defines the layers of a class, by class name."""

"""The nets of all recorded cases as code: it computes the same, or an error names the layer that has no form."""

import pytest

from rfnb.netdict.code.trace import Unwritten
from tests.netdict.code.agreement import check_code_of
from tests.netdict.goldens import FOLDER, Case

SEARCH = FOLDER.parent / "search"
CASES = sorted([*FOLDER.glob("*.json"), *SEARCH.glob("*.json")])
UNWRITTEN = """
    config_chunks_of_frames_and_back config_size_base_upsampled config_upsampled_and_joined_with_the_frames_before
    config_upsampled_by_repeat_cut_to_the_targets config_upsampled_twice_cut_to_the_targets config_window_and_shift
    cond_false cond_true csc_len_penalty csc_scaled eval_shape_condition
    cheating_exclusive cheating_true fixed_len no_search_choice choice_search_no_state
    kenlm_dense kenlm_dense_bpe kenlm_sparse kenlm_sparse_bpe kenlm_input_step_offset
    model_transducer_search_beam1 model_transducer_search_beam4
    choice_search_regression masked_outside_labels_collapse masked_transducer_att_subnet_search
    model_attention_search_beam1 model_attention_search_beam12 model_attention_search_beam4
    model_transformer_search_beam1 model_transformer_search_beam4 rec_sub_end_max_seq_len_expr
    rec_sub_end_max_seq_len_via resize_linear shift_axis_left shift_axis_nopad shift_axis_right
    size_base_longer_upsampled
    time_chunking time_chunking_short_4_2
    twod_lstm_average twod_lstm_last twod_lstm_max twod_lstm_weighted
    twod_lstm_in_loop_average twod_lstm_in_loop_last twod_lstm_in_loop_max twod_lstm_in_loop_weighted
""".split()
"""Cases without a form as code."""
NOT_IN_TORCH = """
    config_scores_of_every_label_at_every_frame concat_time edit_distance pool_out_spatial_dims_same
    postfix_in_time_layer random_shape_of_data range_from_length rec_sub_window_state repeat_layer scatter_nd
    self_attention_rel_pos_in_loop slice_nd slice_nd_size_layer slice_nd_size_none top_k
""".split()
"""Cases without a search that have no form in plain torch."""


@pytest.mark.parametrize("file", CASES, ids=[f"{file.parent.name}/{file.stem}" for file in CASES])
def test_the_code_computes_the_same_or_has_no_form(file):
    case = Case(file.stem, file.parent)
    net, batch = case.network(), case.batch()
    if file.stem in UNWRITTEN:
        with pytest.raises(Unwritten, match="to_code: "):
            check_code_of(net, batch)
        return
    code = check_code_of(net, batch)
    assert "class Net(rf.Module):" in code
    if file.stem in NOT_IN_TORCH or ".choice(" in code:
        with pytest.raises(Unwritten, match="a search has no form" if ".choice(" in code else "to_code: "):
            check_code_of(net, batch, "torch")
    else:
        code = check_code_of(net, batch, "torch")
        assert "class Net(nn.Module):" in code and "rf." not in code.partition("import")[2]


def test_most_cases_have_a_form():
    """The numbers only fall, unless cases are added."""
    assert len(UNWRITTEN) <= 48 and len(NOT_IN_TORCH) <= 15 and len(CASES) >= 487

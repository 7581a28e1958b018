"""Configs of published kinds as code: it computes the same, or an error names the layer and the cause."""

import pytest

import rfnb as rf
from rfnb.netdict.code.trace import Unwritten
from tests.netdict.code.agreement import check_code_of
from tests.netdict.test_network_configs_kinds import CONFIGS, batch_of

UNWRITTEN = (
    """
registered target in choice; registered target masked labels; own random_mask; own random_mask other signature
specaugment returnn v2; tf.shape arithmetic; size_base upsampled; one frame stream time sliced
upsampled twice, cut to the targets; upsampled and joined with the frames before; chunks of frames, and back
upsampled by repeat, cut to the targets; durations of a text to speech net; window and shift
masks of time by a function with numpy; frames cut to the shorter of two streams; SpecAugment with while loop
tim dims in tuple of lists and size target; hybrid focal with sequence weights and prior tuples
frames cropped and stacked by functions
""".strip()
    .replace("\n", "; ")
    .split("; ")
)
"""Configs without a form as code."""
NOT_IN_TORCH = (
    """
scores of every label at every frame; hdf alignment forced by fast_bw; slice_nd per beam
lm of characters with a highway and labels drawn by rank
""".strip()
    .replace("\n", "; ")
    .split("; ")
)
"""Configs without a search that have no form in plain torch alone."""


def code_of(net, batch, target):
    """The code, which agrees; None for a typed error, whose cause is not that it gave something else."""
    try:
        return check_code_of(net, batch, target)
    except Unwritten as error:
        assert "has no form as code: " in str(error)
        assert "something else\n" not in str(error) and "does not give" not in str(error)
        return None


@pytest.mark.parametrize("name", CONFIGS)
def test_the_code_of_a_published_kind_agrees_or_has_no_form(name, tmp_path):
    path = tmp_path / "published.config"
    path.write_text(CONFIGS[name])
    net = rf.Network.from_config(path)
    batch = batch_of(net, CONFIGS[name])
    code = code_of(net, batch, "rf")
    assert (code is None) == (name in UNWRITTEN)
    if code is not None and ".choice(" not in code:
        assert (code_of(net, batch, "torch") is None) == (name in NOT_IN_TORCH)

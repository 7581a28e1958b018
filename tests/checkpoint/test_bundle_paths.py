"""A checkpoint is found by its prefix, by each of its files, and by its folder."""

import re
import shutil

import numpy as np
import pytest

from rfnb.checkpoint.bundle import index_of
from rfnb.errors import CheckpointError
from tests.checkpoint.bundle_writer import write
from tests.checkpoint.test_bundle import GOLDEN


def test_prefix_files_and_folder(tmp_path):
    write(tmp_path / "network.040", {"w": np.ones(2, "float32")})
    (tmp_path / "network.040.meta").write_bytes(b"never read")
    index = tmp_path / "network.040.index"
    for name in ("network.040", "network.040.index", "network.040.meta", "network.040.data-00000-of-00001"):
        assert index_of(tmp_path / name) == index
    assert index_of(tmp_path) is None and index_of(tmp_path / "network.041") is None
    (tmp_path / "checkpoint").write_text('model_checkpoint_path: "network.040"\n')
    assert index_of(tmp_path) == index == index_of(tmp_path / "checkpoint")


def test_a_folder_that_was_moved(tmp_path):
    shutil.copytree(GOLDEN / "trained", tmp_path / "moved")
    assert index_of(tmp_path / "moved").name == "network-2.index"


@pytest.mark.parametrize(
    "text, message",
    [
        ('model_checkpoint_path: "network.041"', r"network.041.index is missing\n(.*\n)*.*network.040"),
        ("nothing", "names no checkpoint"),
        ("\0\xff" * 100, "names no checkpoint"),
        ("x" * 2_000_000, "is not a list of checkpoints"),
    ],
)
def test_a_bad_list_of_checkpoints(text, message, tmp_path):
    write(tmp_path / "network.040", {"w": np.ones(2, "float32")})
    (tmp_path / "checkpoint").write_text(text, encoding="latin-1")
    with pytest.raises(CheckpointError) as caught:
        index_of(tmp_path)
    assert re.search(message, str(caught.value))


def test_a_file_of_a_checkpoint_whose_index_is_missing(tmp_path):
    write(tmp_path / "a", {"w": np.ones(2, "float32")})
    (tmp_path / "b.meta").write_bytes(b"")
    with pytest.raises(CheckpointError, match=r"b.index is missing\n.*in that folder: a"):
        index_of(tmp_path / "b.meta")


def test_version_1_is_recognized_with_the_way_to_convert(tmp_path):
    """TensorFlow 2.15 wrote the file with `SaverDef.V1`."""
    with pytest.raises(CheckpointError, match=r"old is a checkpoint of TensorFlow's version 1\n(.*\n)*.*SaverDef.V2"):
        index_of(GOLDEN / "old")
    shutil.copy(GOLDEN / "old", tmp_path / "m[1]-00000-of-00002")
    with pytest.raises(CheckpointError, match="version 1"):
        index_of(tmp_path / "m[1]")

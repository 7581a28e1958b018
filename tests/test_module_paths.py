"""Modules below `rf` that have no file."""

from __future__ import annotations

import importlib.util
import subprocess
from pathlib import Path

import pytest

import rfnb as rf
from rfnb.module_paths import PATHS


@pytest.mark.parametrize("path", PATHS)
def test_a_module_gives_names_of_rf(path):
    module = importlib.import_module(f"rfnb.{path}")
    assert module.Tensor is rf.Tensor and module.Linear is rf.Linear
    assert "ConformerEncoder" in dir(module) and importlib.util.find_spec(f"rfnb.{path}") is module.__spec__


@pytest.mark.parametrize("path", PATHS)
def test_no_file_has_the_name_of_such_a_module(path):
    files = {file.stem for file in Path(rf.__file__).parent.iterdir()}
    assert path.partition(".")[0] not in files


@pytest.mark.slow
def test_imports_as_models_write_them(python):
    code = """
from rfnb.encoder.base import ISeqDownsamplingEncoder
from rfnb.encoder.conformer import ConformerEncoder
from rfnb.encoder.e_branchformer import Merge
from rfnb.decoder.transformer import TransformerDecoder
from rfnb.attention import RelPosSelfAttention
from rfnb.tensor_array import TensorArray
import rfnb as rf
assert rf.attention.RelPosSelfAttention is RelPosSelfAttention is rf.RelPosSelfAttention
assert rf.encoder.base.ISeqDownsamplingEncoder is ISeqDownsamplingEncoder
assert rf.state.State is rf.State and rf.module.Module is rf.Module and rf.run_ctx.get_run_ctx is rf.get_run_ctx
assert rf.tensor_array.TensorArray is TensorArray and not {"attention", "state", "module"} & set(dir(rf))
"""
    subprocess.run([python, "-c", code], check=True)


def test_what_a_module_lacks_is_an_attribute_error():
    import rfnb.attention

    with pytest.raises(AttributeError, match="did you mean 'SelfAttention'"):
        rfnb.attention.SelfAttenton  # noqa: B018
    assert not hasattr(rfnb.attention, "__file__") and not hasattr(rfnb.attention, "_private")

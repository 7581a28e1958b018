"""`import rfnb.as_returnn`: a file that imports RETURNN's frontend runs unchanged, each time in a new process."""

from __future__ import annotations

import subprocess
import textwrap

import pytest


@pytest.fixture(scope="module")
def run(python):
    """What code prints."""

    def run(code: str) -> str:
        done = subprocess.run([python, "-c", textwrap.dedent(code)], check=False, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    return run


@pytest.mark.slow
def test_what_models_import_is_the_same_object(run):
    run(
        """
        import rfnb as ours, rfnb.as_returnn
        import returnn.frontend as rf
        import returnn.frontend.encoder.conformer as conformer_module
        from returnn.tensor import Tensor, Dim, TensorDict, batch_dim, single_step_dim
        from returnn.tensor.tensor_dict import TensorDict as same_dict
        from returnn.frontend import Linear, relu, init
        from returnn.frontend.encoder.base import IEncoder, ISeqFramewiseEncoder, ISeqDownsamplingEncoder
        from returnn.frontend.encoder.conformer import ConformerConvSubsample, ConformerEncoder, ConformerEncoderLayer
        from returnn.frontend.encoder.conformer import ConformerPositionwiseFeedForward
        from returnn.frontend.encoder.e_branchformer import EBranchformerLayer, FeedForwardConvGated
        from returnn.frontend.encoder.transformer import TransformerEncoder
        from returnn.frontend.decoder.transformer import TransformerDecoder, TransformerDecoderLayer, FeedForwardGated
        from returnn.frontend.attention import RelPosSelfAttention, dot_attention
        from returnn.frontend.tensor_array import TensorArray
        from returnn.frontend.state import State
        from returnn.frontend.module import Module
        from returnn.frontend.run_ctx import RunCtx, get_run_ctx
        from returnn.frontend.loop import while_loop, scan
        from returnn.frontend.cond import cond
        from returnn.frontend.build_from_dict import build_from_dict, build_dict
        from returnn.frontend.rec import LSTM, LstmState
        from returnn.frontend.audio import specaugment, log_mel_filterbank_from_raw
        from returnn.frontend.nested import gather_nested, mask_nested
        from returnn.frontend.init import Glorot
        from returnn.frontend.amp import set_amp_policy
        from returnn.frontend.static_traceable import is_static_traceable
        from returnn.forward_iface import ForwardCallbackIface
        from returnn.log import log
        from returnn.util.basic import NotSpecified, BehaviorVersion, prod
        from returnn.util.collect_outputs_dict import CollectOutputsDict
        from returnn.util.basic import get_login_username
        from returnn.util.math import PiecewiseLinear, ceil_div
        from returnn.frontend import RawTensorTypes
        from returnn.frontend._backend import Backend, global_backend, select_backend
        from returnn.frontend.types import RawTensorTypes as same_types
        from returnn.frontend.attention import _apply_rope
        from returnn.frontend.build_from_dict import _get_cls
        from returnn.frontend.decoder.transformer import ceil_div as same_ceil_div
        from returnn.torch.util.gradient_checkpoint import gradient_checkpoint_scope
        from returnn.datasets.util.vocabulary import Vocabulary
        from returnn.torch.frontend.bridge import rf_module_to_pt_module

        assert Tensor is ours.Tensor and batch_dim is ours.batch_dim and same_dict is TensorDict is ours.TensorDict
        assert ConformerEncoder is ours.ConformerEncoder is rf.encoder.conformer.ConformerEncoder
        assert conformer_module.ConformerEncoder is ConformerEncoder
        assert rf.cond is cond is ours.cond and rf.Module is Module and rf.nested.gather_nested is gather_nested
        assert Vocabulary is ours.Vocab and Glorot is ours.init.Glorot is rf.init.Glorot and rf.audio is ours.audio
        assert FeedForwardConvGated is ours.encoder.e_branchformer.FeedForwardConvGated
        assert rf.attention.dot_attention is dot_attention and NotSpecified is rf.NotSpecified
        assert ceil_div is same_ceil_div and RawTensorTypes is same_types and Backend is ours.Backend
        assert global_backend.name == "torch" and _get_cls("rf.Linear") is ours.Linear
        assert CollectOutputsDict is ours.CollectOutputsDict and set_amp_policy is ours.set_amp_policy
        """
    )


@pytest.mark.slow
def test_a_config_is_read(run):
    run(
        """
        import rfnb.as_returnn
        from returnn.config import get_global_config, Config, set_global_config
        assert get_global_config().float("dropout", 0.1) == 0.1
        set_global_config(Config({"dropout": 0.2}))
        assert get_global_config(return_empty_if_none=True).float("dropout", 0.1) == 0.2
        """
    )


@pytest.mark.slow
def test_pickles_and_isinstance_work_in_both_directions(run):
    run(
        """
        import pickle, rfnb as ours, rfnb.as_returnn
        import returnn.frontend as rf
        from returnn.tensor import Tensor, Dim
        lstm = rf.LSTM(Dim(2, name="in"), Dim(3, name="out"))
        again = pickle.loads(pickle.dumps(lstm))
        assert isinstance(again, ours.LSTM) and isinstance(again.in_dim, Dim) and b"returnn" not in pickle.dumps(lstm)
        assert rf.build_from_dict({"class": "returnn.frontend.encoder.conformer.ConformerEncoderLayer"}, num_heads=2)
        """
    )


@pytest.mark.slow
def test_all_names_come_with_a_star(run):
    run(
        """
        import rfnb.as_returnn
        from returnn.frontend import *
        from returnn.tensor import *
        assert Linear and relu and batch_dim
        """
    )


@pytest.mark.slow
def test_nothing_more_is_imported_than_by_rfnb(run):
    names = ("rfnb.nn.public", "rfnb.loop.loop")
    code = f"import sys, rfnb{{}}; print(len([name for name in sys.modules if name in {names}]))"
    assert run(code.format("")) == run(code.format(".as_returnn")) == "0"


MISSING = {
    "from returnn.frontend import Lineer": "did you mean 'Linear'",
    "from returnn.frontend.encoder.conformer import ConformerEncodr": "did you mean 'ConformerEncoder'",
    "from returnn.frontend.encodr import conformer": "did you mean 'encoder'",
    "import returnn.frontend.decoder.transfomer": "did you mean 'transformer'",
    "from returnn.tensor import Tensr": "did you mean 'Tensor'",
    "from returnn.util.basic import NotSpecifid": "did you mean 'NotSpecified'",
    "from returnn.config import get_global_confg": "did you mean 'get_global_config'",
    "from returnn.frontend import pack": "rf.pack_padded",
    "from returnn.datasets import Dataset": "module 'returnn.datasets' has no name or module 'Dataset' in rfnb",
    "import returnn.sprint": "module 'returnn' has no name or module 'sprint' in rfnb",
}


@pytest.mark.slow
def test_what_is_missing_is_named(run):
    code = f"""
        import rfnb.as_returnn
        for line in {[*MISSING]}:
            try:
                exec(line)
            except ImportError as error:
                print(type(error).__name__, error)
        """
    for found, said in zip(run(code).splitlines(), MISSING.values(), strict=True):
        assert found.startswith("ReturnnError") and said in found


@pytest.mark.slow
def test_an_unknown_attribute_is_an_attribute_error(run):
    code = """
        import rfnb.as_returnn, returnn.frontend as rf
        assert not hasattr(rf, "Lineer") and not hasattr(rf, "_utils") and getattr(rf, "sum", None) is None
        try:
            rf.Lineer
        except AttributeError as error:
            print(error)
        """
    assert run(code) == "module 'returnn.frontend' has no name or module 'Lineer' in rfnb: did you mean 'Linear'?"


@pytest.mark.slow
def test_the_real_package_is_in_the_way(run):
    code = """
        import sys, types
        sys.modules["returnn"] = types.ModuleType("returnn")
        try:
            import rfnb.as_returnn
        except ImportError as error:
            print(type(error).__name__, error)
        assert "rfnb.as_returnn" not in sys.modules and "returnn.frontend" not in sys.modules
        """
    assert run(code).startswith("ReturnnError rfnb.as_returnn: the package `returnn` is already imported")


@pytest.mark.slow
def test_it_may_be_installed_twice(run):
    run(
        """
        import importlib, sys, rfnb.as_returnn, returnn.frontend
        finders = len(sys.meta_path)
        importlib.reload(rfnb.as_returnn)
        assert len(sys.meta_path) == finders and sys.modules["returnn.frontend"] is returnn.frontend
        """
    )

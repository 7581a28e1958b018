"""Where a report names nothing that stops a recorded net, a training step passes, and a search if there is a choice."""

import numpy as np
import pytest
import torch

import rfnb as rf
from tests.netdict.test_goldens import CASES, Case

OF_SEARCH = {"fixed_len"}
"""Recorded for a search: the targets of its batch have other lengths than the loop."""
STOPPED = {"choice_search_no_state", "split_batch_beam"}
"""These only exist in a search."""


@pytest.mark.parametrize("file", CASES, ids=[f"{file.parent.name}/{file.stem}" for file in CASES])
def test_a_training_step_and_a_search_pass_unless_the_report_says_why(file):
    case = Case(file.stem, file.parent)
    rf.set_random_seed(1)
    extern = rf.ExternData(case.read(case.case["extern_data"]))
    config = {"behavior_version": case.case["behavior_version"], **(case.case.get("config") or {})}
    net = rf.Network(config, extern, train_flag=None)
    report = net.construct_from_dict(case.read(case.case["net_dict"]), strict=False).report()
    assert bool(report) == (file.stem not in STOPPED), report
    if not report or file.stem in OF_SEARCH:
        return
    batch = case.batch()
    rf.init_train_step_run_ctx(step=0)
    net(batch)
    loss = net.get_objective()
    if isinstance(loss, rf.Tensor):
        loss.backward()
        gradients = [x.grad for x in rf.torch_parameters(net) if x.grad is not None]
        assert np.isfinite(loss.item()) and all(torch.isfinite(x).all() for x in gradients)
    if any(layer.layer_class == "choice" for layer in net.every_layer().values()) and not report.of("search"):
        rf.init_forward_step_run_ctx()
        assert net.search(batch).nbest(1)

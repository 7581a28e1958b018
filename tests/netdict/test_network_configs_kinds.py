"""Configs of the kinds that people published, one for each: read, reported, trained for a step, searched."""

import copy
import re
from pathlib import Path

import numpy as np
import pytest
import torch

import rfnb as rf

TEXTS = [(Path(__file__).parent / name).read_text() for name in ("kinds.txt", "kinds_sizes.txt", "kinds_styles.txt")]
PARTS = [part for text in TEXTS for part in re.split(r"(?m)^# --- ", text)[1:]]
CONFIGS = {name: text for name, _, text in (part.partition("\n") for part in PARTS)}


def batch_of(net, text):
    """Random data; a comment of the config says how many frames the sequences of a key have, others have 12."""
    frames = {key: eval(sizes) for key, sizes in re.findall(r"(?m)^# frames of (\w+): (.*)", text)}
    draw, batch = np.random.default_rng(1), {}
    for key, data in net.extern_data.data.items():
        lengths = frames.get(key, [12, 11, 10])
        sizes = [max(lengths) if dim.dimension is None else dim.dimension for dim in data.dims]
        shape = [len(lengths), *sizes[1:]]
        array = draw.integers(0, data.dim, shape) if data.sparse_dim else draw.normal(size=shape)
        batch[key] = (array.astype(data.dtype), lengths)
    return batch


@pytest.mark.parametrize("name", CONFIGS)
def test_it_takes_a_training_step_and_searches(name, tmp_path):
    rf.set_random_seed(1)
    path = tmp_path / "published.config"
    path.write_text(CONFIGS[name])
    net = rf.Network.from_config(path)
    assert net.report(), [found.what for found in net.report().of("stops")]
    batch = batch_of(net, CONFIGS[name])
    rf.init_train_step_run_ctx(step=3000)
    net(batch)
    loss = net.get_objective()
    loss.backward()
    gradients = [x.grad for x in rf.torch_parameters(net) if x.grad is not None]
    assert np.isfinite(loss.item()) and gradients and all(torch.isfinite(x).all() for x in gradients)
    if '"choice"' in CONFIGS[name]:
        rf.init_forward_step_run_ctx()
        assert net.search(batch).nbest(1)


@pytest.mark.parametrize("name", ["registered target in choice", "argmax over prev weights", "returnn common style"])
@pytest.mark.parametrize("used", [False, True])
def test_a_copy_of_a_network_computes_the_same_with_parameters_of_its_own(name, used, tmp_path):
    path = tmp_path / "published.config"
    path.write_text(CONFIGS[name])
    net = rf.Network.from_config(path)
    batch, losses = batch_of(net, CONFIGS[name]), []
    if used:
        rf.init_train_step_run_ctx()
        net(batch)
        net.get_objective().backward()
    for model in (copy.deepcopy(net), net):
        rf.init_train_step_run_ctx()
        rf.set_random_seed(1)
        model(batch)
        losses.append(model.get_objective().item())
        for parameter in model.parameters():  # of the copy alone
            parameter.assign(parameter * 0.0)
    assert losses[0] == losses[1]

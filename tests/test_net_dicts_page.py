"""docs/net_dicts.md: its examples run, weights come over by their names in a checkpoint, and HDF files are read."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
import torch

import rfnb as rf

ROOT = Path(__file__).parents[1]
PAGE = (ROOT / "docs" / "net_dicts.md").read_text(encoding="utf-8")
LOOK, DRAFT, TRAIN, WEIGHTS, HDF = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def names(monkeypatch):
    monkeypatch.chdir(ROOT)
    found: dict[str, object] = {"__name__": "page"}
    exec(LOOK, found)
    return found


def test_the_examples_run(names):
    exec(DRAFT, names)
    exec(TRAIN, names)
    assert names["batches"]


def test_the_calls_of_the_tables_are_there(names):
    net = names["net"]
    assert [name for name in re.findall(r"\bnet\.(\w+)(?!\w*\")", PAGE) if not hasattr(net, name)] == ["html"]
    assert [name for name in re.findall(r"rf\.(\w+)", PAGE) if not hasattr(rf, name)] == []


def test_weights_by_their_names_in_a_checkpoint(names, tmp_path):
    exec(WEIGHTS, names)
    net = names["net"]
    expected = {path: {name: x + 1 for name, x in each.items()} for path, each in net.get_param_values_dict().items()}
    recurrent = {path for path, layer in net.layers.items() if layer.layer_class == "rec"}
    stored = {
        f"{path}/{'rec/' if path in recurrent else ''}{name}": array
        for path, each in expected.items()
        for name, array in each.items()
    }
    stored |= {"global_step": np.zeros(()), "output/W/Adam": np.zeros(3)}
    np.savez(tmp_path / "weights.npz", **stored)
    names["set_weights"](net, tmp_path / "weights.npz")
    found = net.get_param_values_dict()
    assert all((found[path][name] == x).all() for path, each in expected.items() for name, x in each.items())


def test_data_in_hdf_files(names, monkeypatch):
    frames = [np.full((n, 40), n, "float32") for n in (5, 3)]
    labels = [np.arange(n, dtype="int32") for n in (5, 3)]
    file = {
        "inputs": np.concatenate(frames),
        "seqTags": [b"kiwi", b"fig"],
        "seqLengths": np.array([[5, 5], [3, 3]]),
        "targets": ...,
        "targets/data": {"classes": np.concatenate(labels)},
    }
    monkeypatch.setitem(sys.modules, "h5py", SimpleNamespace(File=lambda path, mode: file))  # it may not be installed
    exec(f"import torch\nimport numpy as np\n{HDF}", names)
    data = names["HdfDataset"]("data.hdf")
    net = names["net"]
    [batch] = torch.utils.data.DataLoader(data, batch_size=2, collate_fn=net.extern_data.collate)
    assert batch["data"].describe_dims() == "{batch:2, data:3–5, feature:40}"
    assert batch["classes"].raw_tensor[1, :3].tolist() == [0, 1, 2]
    assert net(batch)["output"].dims

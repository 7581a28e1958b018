"""Wrong arguments for what reads and writes files, bridges to torch, makes views, and keeps runs: errors of rfnb.

`test_wrong_calls.py` has the functions on tensors.
"""

from __future__ import annotations

import io
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import RfError

FEAT, OUT = rf.Dim(4, name="feat"), rf.Dim(3, name="out")
HOSTILE = "\x1b[31m<script>alert(1)</script>\x00\u202e\ud800"


class Model(rf.Module):
    def __init__(self) -> None:
        self.linear, self.norm = rf.Linear(FEAT, OUT), rf.LayerNorm(OUT)

    def __call__(self, x: rf.Tensor) -> rf.Tensor:
        return self.norm(rf.relu(self.linear(x)))


class Place:
    """A model, its checkpoint, a recorded run, views and broken files, in a folder."""

    def __init__(self, folder: Path):
        self.folder, self.model = folder, Model()
        time = rf.Dim(None, name="time")
        self.x = rf.convert_to_tensor(np.ones((2, 3, 4), "float32"), dims=[batch_dim, time, FEAT], lengths=[3, 1])
        loop = rf.Loop(axis=time, debug=True, name="wrong_files")
        loop.state.h = rf.zeros([batch_dim, OUT])
        with loop:
            loop.state.h = rf.tanh(loop.state.h + self.model.linear(loop.unstack(self.x)))
        self.run, self.view, self.vocab = rf.runs["wrong_files"], rf.show(self.x), rf.Vocab(["a", "b"])
        rf.save(self.model, folder / "good.safetensors")
        for name, content in {
            "empty.pt": b"",
            "junk.pt": b"\xff" * 99,
            "a.safetensors": b"no",
            "a.rfrun": b"PK",
        }.items():
            (folder / name).write_bytes(content)
        for name, value in {"list.pt": [1], "odd.pt": {"linear.weight": "text"}, "keys.pt": {1: 2}}.items():
            torch.save(value, folder / name)
        (folder / "evil.pt").write_bytes(pickle.dumps(print))


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    return Place(tmp_path_factory.mktemp("wrong"))


OBJECTS: dict[str, Callable[[Place], Any]] = {
    "None": lambda p: None,
    "a number": lambda p: 5,
    "a negative number": lambda p: -1,
    "NaN": lambda p: float("nan"),
    "2 ** 70": lambda p: 2**70,
    "bytes": lambda p: b"abc",
    "a list": lambda p: [1, 2],
    "a dict": lambda p: {"a": object()},
    "an object": lambda p: object(),
    "a class": lambda p: int,
    "a Dim": lambda p: FEAT,
    "a Tensor": lambda p: p.x,
    "an empty Tensor": lambda p: rf.ones([rf.Dim(0, name="none")]),
    "a raw tensor": lambda p: torch.zeros(2),
    "an array": lambda p: np.zeros((2, 2)),
    "an open file": lambda p: io.BytesIO(b"junk"),
    "hostile text": lambda p: HOSTILE,
}
FILES: dict[str, Callable[[Place], Any]] = {
    "no file": lambda p: p.folder / "nowhere" / "x.pt",
    "a NUL": lambda p: "a\x00b.pt",
    "a long name": lambda p: "a" * 5000 + ".pt",
    **{
        name: lambda p, name=name: p.folder / name  # type: ignore[misc]
        for name in ("empty.pt", "junk.pt", "a.safetensors", "a.rfrun", "list.pt", "odd.pt", "keys.pt", "evil.pt")
    },
}

OF_FILES: dict[str, Callable[[Place, Any], Any]] = {
    "load": lambda p, wrong: rf.load(wrong, p.model),
    "load_checkpoint": lambda p, wrong: rf.load_checkpoint(p.model, wrong),
    "load_config": lambda p, wrong: rf.load_config(wrong),
    "import_weights": lambda p, wrong: rf.import_weights(wrong, p.model),
    "load_run": lambda p, wrong: rf.load_run(wrong),
    "load_probe": lambda p, wrong: rf.load_probe(wrong),
}
"""Each is given all of `OBJECTS` and `FILES`."""

ALL = "None, a number, NaN, 2 ** 70, bytes, a list, a dict, an object, a Dim, a Tensor, a raw tensor, an array"
OTHERS: dict[str, tuple[Callable[[Place, Any], Any], str]] = {
    "open_checkpoint": (lambda p, wrong: rf.open_checkpoint(wrong), ALL),
    "open_checkpoint[…]": (lambda p, wrong: rf.open_checkpoint(p.folder / "good.safetensors")[wrong], ALL),
    "save to": (lambda p, wrong: rf.save(p.model, wrong), ALL),
    "save what": (lambda p, wrong: rf.save(wrong, p.folder / "x.safetensors"), ALL),
    "save the training": (
        lambda p, wrong: rf.save(p.model, p.folder / "x.safetensors", training=wrong),
        ALL.replace("None, ", "").replace("a dict, ", ""),
    ),
    "load into": (lambda p, wrong: rf.load(p.folder / "good.safetensors", wrong), ALL),
    "load strictly": (lambda p, wrong: rf.load(p.folder / "good.safetensors", p.model, strict=wrong), "an array"),
    "read_config": (lambda p, wrong: rf.read_config(wrong), ALL),
    "to_torch": (lambda p, wrong: rf.to_torch(wrong), ALL),
    "to_torch in_dims": (lambda p, wrong: rf.to_torch(p.model, in_dims=wrong), ALL.replace("None, ", "")),
    "to_torch out_dims": (
        lambda p, wrong: rf.to_torch(p.model, in_dims=[[FEAT]], out_dims=wrong),
        ALL.replace("None, ", ""),
    ),
    "from_torch": (lambda p, wrong: rf.from_torch(wrong, [FEAT], [OUT]), ALL),
    "get_deep": (lambda p, wrong: p.model.get_deep(wrong), ALL),
    "apply": (lambda p, wrong: p.model.apply(wrong), ALL),
    "to": (lambda p, wrong: p.model.to(device=wrong), "a list, a dict, an object, an array, 2 ** 70, hostile text"),
    "backward": (lambda p, wrong: p.model.linear.weight.backward(wrong), ALL),
    "find": (lambda p, wrong: p.run.find(wrong), ALL),
    "fork": (lambda p, wrong: p.run.fork(wrong), ALL),
    "rerun": (lambda p, wrong: p.run.rerun(wrong), ALL.replace("None, ", "")),
    "run.save": (lambda p, wrong: p.run.save(wrong), ALL),
    "stack": (lambda p, wrong: p.run.stack(wrong), ALL),
    "runs.add": (lambda p, wrong: rf.runs.add(wrong), ALL),
    "runs.by_serial": (lambda p, wrong: rf.runs.by_serial(wrong), ALL),
    "stepper": (lambda p, wrong: rf.stepper(wrong), ALL),
    "gradient_norms": (lambda p, wrong: rf.gradient_norms(wrong), ALL),
    "show_attention": (lambda p, wrong: rf.show_attention(wrong), "None, a number, bytes, an object, a Dim"),
    "view.save": (lambda p, wrong: p.view.save(wrong), ALL),
    "view.has": (lambda p, wrong: p.view.has(wrong), ALL),
    "decode": (lambda p, wrong: p.vocab.decode(wrong), "None, bytes, a dict, an object, a Dim, hostile text"),
    "encode": (lambda p, wrong: p.vocab.encode(wrong), "None, a number, NaN, a list, an object, a Dim"),
    "get_seq_labels": (lambda p, wrong: p.vocab.get_seq_labels(wrong), "None, a number, NaN, an object, a Dim"),
    "of_labels": (lambda p, wrong: rf.Vocab.of_labels(wrong), "None, a number, NaN, an object, a Dim"),
    "Vocab": (lambda p, wrong: rf.Vocab(wrong), "None, a number, NaN, an object, a Dim, a Tensor, hostile text"),
    "Dim's name": (lambda p, wrong: rf.Dim(3, name=wrong), ALL.replace("None, ", "")),
    "Dim's vocab": (lambda p, wrong: rf.Dim(None, vocab=wrong), "a number, NaN, an object, a Tensor, hostile text"),
    "Dim's bound": (lambda p, wrong: rf.Dim(None, bounded_by=wrong), ALL.replace("None, ", "").replace("a Dim, ", "")),
    "Dim's kind": (lambda p, wrong: rf.Dim(3, kind=wrong), ALL.replace("None, ", "")),
    "a dim divided by": (lambda p, wrong: (FEAT // wrong, rf.Dim(None) // wrong), "2 ** 70, None, NaN, a list"),
    "Tensor's dims": (lambda p, wrong: rf.Tensor("x", wrong, "float32"), ALL.replace("None, ", "")),
    "Tensor's sparse_dim": (
        lambda p, wrong: rf.Tensor("x", [FEAT], "int64", sparse_dim=wrong),
        ALL.replace("None, ", "").replace("a Dim, ", ""),
    ),
    "Tensor's feature_dim_axis": (
        lambda p, wrong: rf.Tensor("x", [FEAT], "float32", feature_dim_axis=wrong),
        "a number, NaN, 2 ** 70, bytes, a list, an object, a Dim",
    ),
    "x.axis": (lambda p, wrong: p.x.axis(wrong), ALL.replace("a Dim, ", "")),
    "x.copy": (lambda p, wrong: p.x.copy(wrong), "a raw tensor, an array"),
    "Loop's name": (lambda p, wrong: rf.Loop(name=wrong), ALL),
    "TensorArray": (lambda p, wrong: rf.TensorArray(wrong), ALL.replace("a Tensor, ", "")),
    "select_backend": (lambda p, wrong: rf.select_backend(wrong), ALL),
    "read a run's step": (lambda p, wrong: p.run[wrong], "None, NaN, bytes, a list, a dict, an object, a Dim"),
}  # fmt: skip
"""What each is given, by the names in `OBJECTS`."""

CALLS = [
    *((function, what, fn) for function, fn in OF_FILES.items() for what in {**OBJECTS, **FILES}),
    *((function, what, fn) for function, (fn, given) in OTHERS.items() for what in given.split(", ")),
]


@pytest.mark.parametrize(("function", "what", "fn"), CALLS, ids=[f"{function}: {what}" for function, what, _ in CALLS])
@pytest.mark.filterwarnings("ignore")
def test_a_wrong_argument_gives_an_error_of_rfnb(place: Place, function: str, what: str, fn: Any) -> None:
    wrong = {**OBJECTS, **FILES}[what](place)
    with pytest.raises(RfError) as caught:
        fn(place, wrong)
    message = str(caught.value)
    assert "\x1b" not in message
    assert "\x00" not in message
    assert "\u202e" not in message
    assert len(message) < 8000


def test_nothing_was_changed_by_the_failed_calls(place: Place) -> None:
    with rf.open_checkpoint(place.folder / "good.safetensors") as saved:
        for name, parameter in place.model.named_parameters():
            assert torch.equal(saved[name], parameter.raw_tensor)
    assert rf.get_selected_backend() == "torch"
    assert rf.runs["wrong_files"] is place.run

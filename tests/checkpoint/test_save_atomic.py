"""A save that fails, or is killed, leaves the file that was there, and nothing beside it."""

from __future__ import annotations

import os
import resource
import signal
from pathlib import Path

import pytest
import torch

import rfnb as rf
from rfnb.errors import CheckpointError

IN, OUT = rf.Dim(100, name="in"), rf.Dim(1000, name="out")


@pytest.fixture
def path(tmp_path):
    return rf.save(rf.Linear(IN, OUT), tmp_path / "model.safetensors")


def only_the_good_file(path: Path, good: bytes) -> bool:
    return path.read_bytes() == good and [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.fixture
def small_files():
    """No file may grow beyond 50 kB, as on a disk that is full."""
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, limits[1]))
    yield
    resource.setrlimit(resource.RLIMIT_FSIZE, limits)


def test_a_full_disk(path, request):
    good = path.read_bytes()
    request.getfixturevalue("small_files")
    with pytest.raises(CheckpointError, match="cannot be written") as error:
        rf.save(rf.Linear(IN, OUT), path)
    assert "File too large" in str(error.value)
    assert "model.safetensors is unchanged" in str(error.value)
    assert only_the_good_file(path, good)


@pytest.mark.parametrize("step", ["rfnb.checkpoint.save.save_file", "rfnb.core.ground.atomic._to_disk"])
@pytest.mark.parametrize("kind", [OSError, KeyboardInterrupt])
def test_an_error_at_any_step(path, monkeypatch, step, kind):
    def half_written(*args):
        if len(args) > 1:
            Path(args[1]).write_bytes(b"half")
        raise kind("stop")

    good = path.read_bytes()
    monkeypatch.setattr(step, half_written)
    with pytest.raises(CheckpointError if kind is OSError else kind, match="stop"):
        rf.save(rf.Linear(IN, OUT), path)
    assert only_the_good_file(path, good)


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write everywhere")
def test_a_folder_that_may_not_be_written(path):
    path.parent.chmod(0o500)
    try:
        with pytest.raises(CheckpointError, match="Permission denied"):
            rf.save(rf.Linear(IN, OUT), path)
    finally:
        path.parent.chmod(0o700)


def test_a_refused_write_is_a_checkpoint_error(path, monkeypatch):
    def refused(*_):
        raise PermissionError("Permission denied")

    good = path.read_bytes()
    monkeypatch.setattr(Path, "replace", refused)
    with pytest.raises(CheckpointError, match="Permission denied"):
        rf.save(rf.Linear(IN, OUT), path)
    assert only_the_good_file(path, good)


def die(*args):
    if len(args) == 3:  # save_file(tensors, path, metadata)
        Path(args[1]).write_bytes(b"half of a file")
    os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # of fork beside threads; the child has none
@pytest.mark.parametrize(
    "step", ["checkpoint.save.save_file", "core.ground.atomic._to_disk", "core.ground.atomic.Path.replace"]
)
def test_a_kill_at_any_step(path, monkeypatch, step):
    good, model = path.read_bytes(), rf.Linear(IN, OUT)
    with monkeypatch.context() as dying:
        dying.setattr(f"rfnb.{step}", die)
        child = os.fork()
        if child == 0:
            try:
                rf.save(model, path)
            finally:
                os._exit(1)
    assert os.WTERMSIG(os.waitpid(child, 0)[1]) == signal.SIGKILL
    assert path.read_bytes() == good
    assert rf.load(rf.save(model, path), rf.Linear(IN, OUT)).complete


@pytest.mark.parametrize(
    ("where", "words"),
    [
        (".", "is a folder"),
        ("no/model.safetensors", "the folder .* does not exist"),
        ("model.pt", "is that of torch files"),
        ("model.pth", "is that of torch files"),
    ],
)
def test_a_path_that_cannot_be_written(tmp_path, where, words):
    with pytest.raises(CheckpointError, match=words):
        rf.save(rf.Linear(IN, OUT), tmp_path / where)
    assert not list(tmp_path.iterdir())


def test_the_mode_of_the_file_is_kept(path):
    path.chmod(0o640)
    rf.save(rf.Linear(IN, OUT), path)
    assert path.stat().st_mode & 0o777 == 0o640


class Odd(rf.Module):
    """A parameter with any name and any values."""

    def __init__(self, name="weight", raw=None, dims=()):
        setattr(self, name, rf.Parameter(dims, raw_tensor=raw, trainable=False))


@pytest.mark.parametrize("name", ["__metadata__", "training:x", "\ud800"])
def test_names_that_no_file_can_have(path, name):
    good = path.read_bytes()
    with pytest.raises(CheckpointError):
        rf.save(Odd(name), path)
    assert only_the_good_file(path, good)


@pytest.mark.parametrize("name", ["", "a b", "ä", "a:b", "'\"\\\n\0", "x" * 100_000, "../up", "dims", "config"])
def test_odd_names_come_back(tmp_path, name):
    model = Odd(name, torch.tensor(3.0))
    other = Odd(name)
    assert rf.load(rf.save(model, tmp_path / "odd.safetensors"), other).complete
    assert getattr(other, name).raw_tensor.item() == 3.0


DTYPES = "float16 bfloat16 float64 int8 int16 int32 int64 uint8 bool complex64".split()


@pytest.mark.parametrize("shape", [(), (0,), (2, 0), (3, 2)])
@pytest.mark.parametrize("dtype", DTYPES)
def test_types_and_shapes_come_back(tmp_path, dtype, shape):
    dims = [rf.Dim(size, name=f"axis{i}") for i, size in enumerate(shape)]
    raw = torch.arange(6).reshape(3, 2).to(getattr(torch, dtype))
    raw = raw[0, 1] if shape == () else raw[: shape[0]].reshape(-1)[: torch.Size(shape).numel()].reshape(shape)
    other = Odd(raw=torch.zeros_like(raw), dims=dims)
    rf.load(rf.save(Odd(raw=raw, dims=dims), tmp_path / "x.safetensors"), other)
    assert torch.equal(other.weight.raw_tensor, raw)


def test_values_that_share_memory_or_are_no_block(tmp_path):
    dims = [rf.Dim(3, name="a"), rf.Dim(3, name="b")]
    numbers = torch.arange(12.0).reshape(4, 3)
    model, other = rf.Module(), rf.Module()
    square = torch.ones(3, 3)
    for i, raw in enumerate([numbers[:3], numbers[1:], numbers[:3].T, square, square]):
        setattr(model, f"p{i}", rf.Parameter(dims, raw_tensor=raw, trainable=False))
        setattr(other, f"p{i}", rf.Parameter(dims))
    path = rf.save(model, tmp_path / "x.safetensors")
    rf.load(path, other)
    assert torch.equal(other.p1.raw_tensor, numbers[1:])
    assert torch.equal(other.p2.raw_tensor, numbers[:3].T)
    assert path.stat().st_size < 2000


@pytest.mark.parametrize("options", [{"device": "meta"}, {"dtype": torch.bits8}], ids=str)
def test_values_that_no_file_can_have(path, options):
    good = path.read_bytes()
    with pytest.raises(CheckpointError, match="cannot be written"):
        rf.save(Odd(raw=torch.empty(2, **options), dims=[rf.Dim(2, name="two")]), path)
    assert only_the_good_file(path, good)


def test_a_link_stays_a_link(path, tmp_path):
    link = tmp_path / "latest.safetensors"
    link.symlink_to(path.name)
    model = rf.Linear(IN, OUT)
    assert rf.save(model, link) == link
    assert link.is_symlink() and link.readlink() == Path(path.name)
    again = rf.Linear(IN, OUT)
    rf.load(path, again)
    assert torch.equal(again.weight.raw_tensor, model.weight.raw_tensor)


def test_no_file_takes_the_place_of_a_pipe(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    with pytest.raises(CheckpointError, match="not a regular file"):
        rf.save(rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out")), tmp_path / "pipe")
    assert (tmp_path / "pipe").is_fifo() and len(list(tmp_path.iterdir())) == 1


@pytest.mark.parametrize("name", ["x" * 300, "a\0b"])
def test_names_that_are_no_path(name, tmp_path):
    model = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    with pytest.raises(CheckpointError, match=r"not a path to write to|cannot be written"):
        rf.save(model, tmp_path / name)
    with pytest.raises(CheckpointError, match="does not exist"):
        rf.load(tmp_path / name, model)

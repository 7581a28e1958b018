"""Checkpoints that TensorFlow 2.15 wrote are read bit for bit; what is malformed is a CheckpointError, and no more."""

from __future__ import annotations

import re
import struct
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch

from rfnb.checkpoint.bundle import Bundle, key_of_slice
from rfnb.errors import CheckpointError
from tests.checkpoint import bundle_writer as writer
from tests.checkpoint.bundle_writer import block, entry, field, header, masked_crc, number, sealed, table, write

GOLDEN = Path(__file__).parents[1] / "golden/checkpoint/tensorflow"


def bits(x):
    return x.view(torch.uint8).numpy().tobytes() if x.ndim else x.reshape(1).view(torch.uint8).numpy().tobytes()


@pytest.mark.parametrize("name", ["types", "sliced", "sharded", "trained/network-2"])
def test_what_tensorflow_wrote_is_read_bit_for_bit(name):
    """All dtypes, empty tensors and scalars; variables in slices, along either axis; three shards; slots of Adam."""
    found = Bundle(GOLDEN / f"{name}.index")
    expected = np.load(GOLDEN / f"{name.partition('/')[0]}_expected.npz")
    read = {key for key in found.tensors if isinstance(found.dtype(key), torch.dtype)}
    assert read == set(expected.files)
    for key in read:
        value = found.read(key, verify=True)
        want = torch.from_numpy(expected[key])
        if value.dtype == torch.bfloat16:
            want = want.to(torch.bfloat16)
        assert value.dtype == want.dtype and value.shape == want.shape and bits(value) == bits(want), key


def test_words_and_resources_are_listed_and_not_read():
    found = Bundle(GOLDEN / "types.index")
    assert found.dtype("words") == "string" and found.tensors["words"].shape == (2,)
    with pytest.raises(CheckpointError, match="words has no numbers"):
        found.read("words")


def test_ours_and_a_big_endian_one(tmp_path):
    values = {"a/W": np.arange(6, dtype="float32").reshape(2, 3), "b": np.array([1, 2], "int64"), "c": np.array(True)}
    write(tmp_path / "x", values, shards=2, per_block=2)
    found = Bundle(tmp_path / "x.index")
    assert list(found.tensors) == ["a/W", "b", "c"]
    for name, value in values.items():
        np.testing.assert_array_equal(found.read(name, verify=True).numpy(), value)
    swapped = np.array([1.5, -2], ">f4").tobytes()
    index = [(b"", header() + field(2, 1)), (b"w", entry(1, (2,), 0, 0, 8, masked_crc(swapped)))]
    (tmp_path / "y.index").write_bytes(table([index]))
    (tmp_path / "y.data-00000-of-00001").write_bytes(swapped)
    assert Bundle(tmp_path / "y.index").read("w", verify=True).tolist() == [1.5, -2]


def test_values_are_mapped_and_not_read(tmp_path):
    write(tmp_path / "x", {"small": np.ones(3, "float32")})
    index = [(b"", header()), (b"large", entry(1, (2**28,), 0, 0, 2**30))]
    (tmp_path / "x.index").write_bytes(table([index]))
    with (tmp_path / "x.data-00000-of-00001").open("wb") as file:
        file.truncate(2**30)
    tracemalloc.start()
    value = Bundle(tmp_path / "x.index").read("large")
    assert tracemalloc.get_traced_memory()[1] < 2**20 and value[-1] == 0
    tracemalloc.stop()
    value[0] = 1  # a copy on write: the file stays
    with (tmp_path / "x.data-00000-of-00001").open("rb") as file:
        assert file.read(4) == bytes(4)


def test_a_changed_value_is_seen_with_verify(tmp_path):
    prefix = write(tmp_path / "x", {"a": np.ones(3, "float32"), "b": np.ones(3, "float32")})
    data = prefix.with_name("x.data-00000-of-00001")
    raw = bytearray(data.read_bytes())
    raw[14] ^= 1
    data.write_bytes(bytes(raw))
    found = Bundle(tmp_path / "x.index")
    assert found.read("a", verify=True).sum() == 3 and found.read("b").sum() != 3
    with pytest.raises(CheckpointError, match=r"data-00000-of-00001 cannot be read, byte 12\n.*b with checksum"):
        found.read("b", verify=True)


def index_with(*entries):
    return table([[(b"", header()), *entries]])


ONE = entry(1, (2,), 0, 0, 8)
SLICES = field(1, 1) + field(2, field(2, field(1, 4)))


def sliced(*ranges):
    parts = [field(7, field(1, field(1, start) + field(2, size))) for start, size in ranges]
    return (b"w", SLICES + b"".join(parts))


MALFORMED = {
    "empty": (b"", r"byte 0\n.*no bytes\n.*57 fb 80 8b 24 75 47 db at the end"),
    "another kind": (b"PK" * 100, "of another kind"),
    "no header": (table([[(b"w", ONE)]]), "no header"),
    "no entries": (table([]), "no header"),
    "behind the end": (index_with((b"w", entry(1, (2,), 0, 4, 8))), r"w up to byte 12\n.*8 bytes, as x.data"),
    "very large": (index_with((b"w", entry(1, (10**9, 10**9), 0, 0, 4 * 10**18))), "up to byte 4000000000000000000"),
    "another size": (index_with((b"w", entry(1, (3,), 0, 0, 8))), r"w with 8 bytes\n.*12 bytes for the shape \(3,\)"),
    "negative": (index_with((b"w", entry(1, (2**64 - 1,), 0, 0, 8))), "axis 1 of size 18446744073709551615"),
    "many of nothing": (index_with((b"w", entry(1, (0, 2**62, 2**62), 0, 0, 0))), "w with 0 bytes"),
    "shard": (index_with((b"w", entry(1, (2,), 1, 0, 8))), r"w in shard 1\n.*one of 1 shards"),
    "no slice": (index_with(sliced((0, 4))), "a slice .* which is not there"),
    "name": (index_with((b"w\xff", ONE)), "a name in UTF-8"),
    "order": (index_with((b"w", ONE), (b"v", ONE)), r"the key b'v'\n.*a key behind b'w'"),
    "twice": (index_with((b"w", ONE), (b"w", ONE)), "a key behind"),
    "field": (index_with((b"w", b"\x0b\x01")), "a field of kind 3"),
    "unknown rank": (index_with((b"w", field(1, 1) + field(2, field(3, 1)))), "an unknown number of axes"),
    "long field": (index_with((b"w", b"\x12\x7f\x00")), r"a field of \d+ bytes\n.*at most 3 bytes"),
    "long number": (index_with((b"w", b"\x08" + b"\xff" * 11)), "at most ten bytes"),
    "message": (index_with((b"w", field(1, b"ab"))), "a number"),
    "no message": (index_with((b"w", field(2, 5))), "a message"),
    "long keys": (
        table([[(b"", header()), *((b"k" * 10**5 + b"%03d" % i, ONE) for i in range(99))]], interval=1000),
        "keys of 100003 bytes",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_what_is_malformed_is_named_with_file_and_byte(name, tmp_path):
    content, message = MALFORMED[name]
    (tmp_path / "x.index").write_bytes(content)
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(8))
    with pytest.raises(CheckpointError) as caught:
        Bundle(tmp_path / "x.index")
    assert re.search(message, str(caught.value)), caught.value
    assert re.search(r"x.index cannot be read, byte \d+", str(caught.value)) and caught.value.expected


def test_slices_that_overlap_or_use_the_same_bytes(tmp_path):
    """Four values in two slices: one that leaves holes, one whose slices are the same bytes of a smaller file."""

    def index(first, second, offset):
        stored = [
            (key_of_slice("w", [r]), entry(1, (r[1],), 0, at, 4 * r[1])) for r, at in ((first, 0), (second, offset))
        ]
        return index_with(*sorted(dict(stored).items()), sliced(first, second))

    (tmp_path / "x.data-00000-of-00001").write_bytes(np.arange(4, dtype="float32").tobytes())
    (tmp_path / "x.index").write_bytes(index((0, 2), (2, 2), 8))
    assert Bundle(tmp_path / "x.index").read("w").tolist() == [0, 1, 2, 3]
    (tmp_path / "x.index").write_bytes(index((0, 2), (1, 2), 8))
    with pytest.raises(CheckpointError, match="slices of w that overlap"):
        Bundle(tmp_path / "x.index").read("w")
    (tmp_path / "x.data-00000-of-00001").write_bytes(bytes(8))
    (tmp_path / "x.index").write_bytes(index((0, 2), (2, 2), 0))
    with pytest.raises(CheckpointError, match="in a place of its own"):
        Bundle(tmp_path / "x.index")


@pytest.mark.parametrize("kind, name", [(1, "snappy"), (2, "zlib"), (9, "of kind 9")])
def test_compressed_blocks_are_refused(kind, name, tmp_path):
    content = sealed(block([(b"", header())]), kind)
    at = [number(0) + number(len(content) - 5)] * 2  # the block of properties, and the one of handles
    (tmp_path / "x.index").write_bytes(content + b"".join(at).ljust(40, b"\0") + struct.pack("<Q", writer.MAGIC))
    with pytest.raises(CheckpointError, match=name):
        Bundle(tmp_path / "x.index")


def test_a_missing_shard_is_named_with_those_that_are_there(tmp_path):
    write(tmp_path / "x", {"a": np.ones(3, "float32"), "b": np.ones(3, "float32")}, shards=2)
    (tmp_path / "x.data-00001-of-00002").unlink()
    with pytest.raises(CheckpointError) as caught:
        Bundle(tmp_path / "x.index")
    assert "x.data-00001-of-00002 is missing" in str(caught.value) and "x.data-00000-of-00002" in caught.value.got


@pytest.mark.parametrize("name", ["types", "sliced"])
def test_every_cut_and_every_changed_byte_is_seen(name, tmp_path):
    """The checksums of the index are always compared. Bytes between the numbers of the footer do not count."""
    good = (GOLDEN / f"{name}.index").read_bytes()
    for file in GOLDEN.glob(f"{name}.data-*"):
        (tmp_path / file.name.replace(name, "x")).write_bytes(file.read_bytes())
    cuts = [good[:n] for n in range(len(good))]
    changes = [good[:n] + bytes([good[n] ^ 0x41]) + good[n + 1 :] for n in range(len(good))]
    seen = [refused(tmp_path / "x.index", content) for content in cuts + changes]
    assert seen.count(False) < 36


def refused(index: Path, content: bytes) -> bool:
    """Whether reading everything ends with a CheckpointError; any other exception fails the test."""
    index.write_bytes(content)
    try:
        found = Bundle(index)
        for name in found.tensors:
            if isinstance(found.dtype(name), torch.dtype):
                found.read(name)
    except CheckpointError as error:
        assert str(error)
        return True
    return False


@pytest.mark.parametrize("seed", range(4))
def test_ten_thousand_mutated_indices_give_nothing_but_a_checkpoint_error(seed, tmp_path):
    """Entries, blocks and handles are changed before the checksums are computed, so that they are read."""
    random = np.random.default_rng(seed)
    values = {f"layer_{i}/{part}": np.ones((2, i), "float32") for i in range(3) for part in "Wb"}
    write(tmp_path / "x", values)
    key = b"\0w\0\x01\x01\x01\x80\x84"
    entries = [(b"", header()), (key, entry(1, (4,), 0, 0, 16)), *_entries_of(values), sliced((0, 4))]
    contents, accepted = block(entries), 0
    for i in range(2500):
        if i % 2:
            changed = [(mutated(k, random, 0.1), mutated(v, random, 0.3)) for k, v in entries]
            content = block(sorted(changed) if random.random() < 0.9 else changed)
        else:
            content = mutated(contents, random, 1.0)
        out = sealed(content)
        handles = block([(b"zz", number(0) + number(len(content)))])
        handles = mutated(handles, random, 0.05)
        nothing = block([])
        footer = number(len(out)) + number(len(nothing))
        out += sealed(nothing)
        footer += number(len(out)) + number(len(handles))
        data = out + sealed(handles) + footer.ljust(40, b"\0") + struct.pack("<Q", writer.MAGIC)
        accepted += not refused(tmp_path / "x.index", data)
    assert 20 < accepted < 1500  # the mutations are neither all harmless nor all seen at the first byte


def _entries_of(values):
    at = 0
    for name in sorted(values):
        yield name.encode(), entry(1, values[name].shape, 0, at, values[name].nbytes)
        at += values[name].nbytes


def mutated(data: bytes, random: np.random.Generator, probability: float) -> bytes:
    """With a probability: some bytes changed, taken out, doubled, or set to the ends of their range."""
    if not data or random.random() > probability:
        return data
    changed = bytearray(data)
    for _ in range(int(random.integers(1, 4))):
        at = int(random.integers(len(changed))) if changed else 0
        kind = int(random.integers(5))
        if kind == 0:
            changed[at : at + 1] = bytes([int(random.integers(256))])
        elif kind == 1:
            del changed[at : at + int(random.integers(1, 5))]
        elif kind == 2:
            changed[at:at] = changed[at : at + int(random.integers(1, 9))]
        elif kind == 3:
            changed[at : at + 1] = bytes([int(random.choice([0, 1, 127, 128, 255]))])
        else:
            changed[at:at] = b"\xff" * int(random.integers(1, 11))
    return bytes(changed)

"""CRC32C in lanes equals the loop over bytes."""

import numpy as np
import pytest

from rfnb.checkpoint.bundle import crc32c, masked
from tests.checkpoint.bundle_writer import masked_crc


@pytest.mark.parametrize("size", [0, 1, 255, 256, 2047, 2048, 2049, 4095, 70_000, 300_001])
def test_lanes_and_the_loop_agree(size):
    data = np.random.default_rng(size).integers(256, size=size, dtype=np.uint8).tobytes()
    assert masked(crc32c(data)) == masked_crc(data)
    assert crc32c(memoryview(data)) == crc32c(bytearray(data))


def test_known_values():
    """The check value of the algorithm, and 32 bytes of RFC 3720."""
    assert crc32c(b"123456789") == 0xE3069283
    assert crc32c(bytes(32)) == 0x8A9136AA and crc32c(b"\xff" * 32) == 0x62A8AB43

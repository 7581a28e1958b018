"""Writes `cmudict.dict.xz` from a `cmudict.dict`: the same bytes, compressed.

Usage: `python make_cmudict.py path/to/cmudict.dict`
"""

from __future__ import annotations

import hashlib
import lzma
import sys
from pathlib import Path

PACKED = Path(__file__).with_name("cmudict.dict.xz")
SHA256 = "81917843c7f44ce2b094ac63873c2c7a4cf802040792c455ba3ca406891c3d22"
"""The hash of the file to which the numbers in README.md apply."""


def pack(source: Path, target: Path = PACKED) -> None:
    """The dictionary, compressed with the strongest setting of xz."""
    text = source.read_bytes()
    if hashlib.sha256(text).hexdigest() != SHA256:
        print("This is another version of the dictionary: the sizes of the split in README.md will not hold.")
    target.write_bytes(lzma.compress(text, preset=9 | lzma.PRESET_EXTREME))
    print(f"{target.name}: {target.stat().st_size:,} bytes, {len(text.splitlines()):,} entries")


if __name__ == "__main__":
    if len(sys.argv) != 2:
        sys.exit(__doc__)
    pack(Path(sys.argv[1]))

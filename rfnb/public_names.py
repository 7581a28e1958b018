"""The public names of `rf`, and the folder whose `public.py` gives each of them.

They are read from the text of these files, so that a name imports its own folder alone when it is first asked for, and
completion, or the answer to an unknown name, imports nothing.
"""

import re
from pathlib import Path

_FOLDERS = "ops nn data trace loop search checkpoint jobs netdict netdict.code display".split()


def _names_in(folder: str) -> list[str]:
    file = Path(__file__).parent / folder.replace(".", "/") / "public.py"
    return sorted(re.findall(r"\bas ([a-zA-Z]\w*)[,\n]", file.read_text(encoding="utf-8")))


NAMES = {folder: _names_in(folder) for folder in _FOLDERS}
"""The public names by folder."""

FOLDERS = {name: folder for folder, names in NAMES.items() for name in names}
"""The folder of each public name."""

"""Sequence models in a notebook: tensors that know their dims by name, loops that can be stepped forward and back."""

from __future__ import annotations

__version__ = "0.1.0"


def _jupyter_labextension_paths() -> list[dict[str, str]]:
    """Where JupyterLab finds the panel."""
    return [{"src": "labextension", "dest": "rfnb-lab"}]

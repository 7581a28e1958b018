"""Modules: parameters and what computes with them."""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from rfnb.core.ground.suggestions import no_name_in_nn as _no_name_in_nn

if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raises AttributeError: modules are names of `rf`, not of this folder."""
        raise _no_name_in_nn(name)

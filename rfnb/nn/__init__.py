"""Modules: layers, cells, attention, encoders and decoders, and the bridge to torch.

Read `module` first: what a Module is, containers, hooks, building modules from dicts. Then `init` (initial values of
parameters) and `layers` (linear, convolution, norms, embedding, LSTM, …), which `attention` and `cells` (recurrent
cells, written as one step) build on. `encoder` and `decoder` combine them into whole models: Conformer, E-Branchformer,
Transformer. `schedule` holds values that change with the training step. `bridge` turns rfnb modules into
`torch.nn.Module` and back. `public` lists the names that become names of `rf`.
"""

from typing import TYPE_CHECKING as _TYPE_CHECKING

from rfnb.core.ground.text import no_name_in_nn as _no_name_in_nn

if not _TYPE_CHECKING:

    def __getattr__(name: str) -> object:
        """Raises AttributeError: modules are names of `rf`, not of this folder."""
        raise _no_name_in_nn(name)

"""What a variable of a net dict may be made from, if the file has none of its name. The first row that fits is taken.

The names are the ends of names: what stands before them is the same in the model and in the file. `*` stands for
anything without a "/", and must mean one variable only. A cell is the one that the weights were trained for, if it
matters for what is added to the forget gate.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple


class VariableRow(NamedTuple):
    """A variable of the model, the variables of the file that it is made from, and how.

    together: variables that must be missing as well. added: what the cell of the file adds to the forget gate at run
    time; None if it is the same cell as in the model.
    """

    missing: str
    sources: tuple[str, ...]
    transform: str = "same"
    together: tuple[str, ...] = ()
    added: float | None = None


def _native_to_basic() -> Iterator[VariableRow]:
    for cell in ("rnn/lstm_cell", "rnn/basic_lstm_cell", "lstm_cell", "basic_lstm_cell"):
        yield VariableRow(f"/{cell}/kernel", ("/W", "/W_re"), "kernel of native weights", added=0.0)
        yield VariableRow(f"/{cell}/bias", ("/b",), "gates in the other order", added=0.0)


def _basic_to_native() -> Iterator[VariableRow]:
    names = ("rec/W", "rec/W_re", "rec/b")
    for cell in ("rec/rnn/lstm_cell", "rec/lstm_cell"):
        yield VariableRow("rec/W_re", (f"{cell}/kernel",), "recurrent rows of a kernel", names, 1.0)
        yield VariableRow("rec/W", (f"{cell}/kernel",), "input rows of a kernel", names, 1.0)
        yield VariableRow("rec/b", (f"{cell}/bias",), "gates in the other order", names, 1.0)


def _batch_norm() -> Iterator[VariableRow]:
    for part in ("beta", "gamma", "mean", "variance"):
        yield VariableRow(f"batch_norm/{part}", (f"batch_norm/*_{part}",), "the same values in another shape")
        yield VariableRow(f"batch_norm/v2_{part}", (f"batch_norm/*_{part}",), "the same values in another shape")
        yield VariableRow(f"batch_norm/v2_{part}", (f"batch_norm/{part}",), "the same values in another shape")


_RENAMED = {
    "lstm_cell/biases": "lstm_cell/bias",
    "lstm_cell/weights": "lstm_cell/kernel",
    "lstm_cell/bias": "rnn/lstm_cell/bias",
    "lstm_cell/kernel": "rnn/lstm_cell/weights",
    "rnn/lstm_cell/bias": "lstm_cell/bias",
    "rnn/lstm_cell/kernel": "lstm_cell/kernel",
    "cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/bias": "lstm_fused_cell/bias",
    "cudnn/params_canonical/rnn/multi_rnn_cell/cell_0/cudnn_compatible_lstm_cell/kernel": "lstm_fused_cell/kernel",
}
"""From the end of the name in the file to that in the model."""

_CUDNN = tuple(f"/cudnn/CudnnRNNParamsToCanonical:{i}" for i in range(16))


def _cudnn() -> Iterator[VariableRow]:
    """The canonical weights of cuDNN, also for native weights, as which a net dict with `cudnnlstm` runs here."""
    yield VariableRow("/lstm_block_wrapper/kernel", _CUDNN[:8], "kernel of cuDNN weights", added=0.0)
    yield VariableRow("/lstm_block_wrapper/bias", _CUDNN[8:], "bias of cuDNN biases", added=0.0)
    yield VariableRow("/W", _CUDNN[:4], "native weights of cuDNN weights", added=0.0)
    yield VariableRow("/W_re", _CUDNN[4:8], "native weights of cuDNN weights", added=0.0)
    yield VariableRow("/b", _CUDNN[8:], "native bias of cuDNN biases", added=0.0)


ROWS = [
    *_native_to_basic(),
    *_basic_to_native(),
    *_batch_norm(),
    *(VariableRow(model, (file,)) for file, model in _RENAMED.items()),
    *_cudnn(),
]

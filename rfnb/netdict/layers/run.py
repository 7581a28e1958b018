"""Layers about the run itself: train_flag, print, hdf_dump."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.util import find_spec

import numpy as np

from rfnb.core.dims.dim import Dim
from rfnb.core.run_ctx import get_run_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import NetworkError
from rfnb.netdict.axes import time_of
from rfnb.netdict.layer import Layer
from rfnb.netdict.options import REQUIRED, layers, value
from rfnb.ops.create import full
from rfnb.printable import encodable


class TrainFlag(Layer, layer_class="train_flag", sourceless=True):
    """Whether this is training. → {} bool"""

    def compute(self) -> Tensor:
        """→ {}"""
        return full(dims=[], fill_value=bool(get_run_ctx().train_flag), dtype="bool")


class Print(Layer, layer_class="print"):
    """The source, which is written to the standard output for each batch. {…} → the same"""

    summarize: int | None = value(99, int)
    extra_print_args: Sequence[object] = value(())

    def compute(self, x: Tensor) -> Tensor:
        """{…} → the same"""
        if x.device != "meta":
            extra = " ".join(str(argument) for argument in self.extra_print_args)
            numbers = np.array2string(x.raw_tensor.detach().cpu().numpy(), threshold=self.summarize or sys.maxsize)
            sys.stdout.write(encodable(f"{self.name} {x.describe_dims()} {extra}\n{numbers}\n"))
        return x


class HdfDump(Layer, layer_class="hdf_dump"):
    """The source, which is added to a file in the HDF format of data sets, sequence by sequence. {…} → the same

    The file has `inputs` (all frames, one after the other), `seqLengths` and `seqTags`, and under
    `targets/data` what `extra` names. It needs h5py.
    """

    filename: object = value(REQUIRED)
    extra: object = layers(None)
    dump_whole_batches: bool = value(False, bool)
    labels: object = value(None)
    extend_existing_file: bool = value(False, bool)
    dump_per_run: bool = value(False, bool)

    def setup(self, x: Tensor, **inputs: Tensor) -> None:
        """Nothing is written yet. Raises NetworkError without h5py."""
        if find_spec("h5py") is None:
            raise NetworkError("hdf_dump writes a file with h5py, which is not installed", hint="pip install h5py")
        if self.dump_whole_batches or not isinstance(self.filename, str):
            fault = "hdf_dump: the file name must be a text, and sequences are written one by one"
            raise NetworkError(fault, got=repr(self.filename)[:60], expected='"filename": "….hdf"')
        self.begun = self.extend_existing_file

    def compute(self, x: Tensor, **inputs: Tensor) -> Tensor:
        """{…} → the same"""
        if x.device != "meta":
            tensors = {"inputs": x, **{f"targets/data/{key.removeprefix('extra_')}": y for key, y in inputs.items()}}
            self._write({name: _sequences(y) for name, y in tensors.items()}, x)
        return x

    def _write(self, found: dict[str, list[np.ndarray]], x: Tensor) -> None:
        import h5py  # type: ignore[import-not-found,unused-ignore]

        batch = next((dim for dim in x.dims if dim.is_batch_dim()), None)
        tags = None if batch is None else x.size_of(batch).tags
        with h5py.File(self.filename, "a" if self.begun else "w") as file:
            self.begun = True
            count = len(found["inputs"])
            offset = len(file["seqTags"]) if "seqTags" in file else 0
            names = tags or [f"seq-{offset + i}" for i in range(count)]
            lengths = np.array([[len(seq) for seq in rows] for rows in zip(*found.values(), strict=True)], "int32")
            frames = {name: np.concatenate(rows) for name, rows in found.items()}
            texts = np.array([name.encode() for name in names], dtype=h5py.special_dtype(vlen=bytes))
            for name, rows in {**frames, "seqLengths": lengths, "seqTags": texts}.items():
                if name not in file:
                    file.create_dataset(name, data=rows, maxshape=(None, *rows.shape[1:]))
                else:
                    file[name].resize(len(file[name]) + len(rows), axis=0)
                    file[name][-len(rows) :] = rows
            labels = x.sparse_dim or x.feature_dim
            file.attrs["inputPattSize"] = 1 if labels is None else labels.dimension or 1
            file.attrs["numSeqs"] = offset + count
            file.attrs["numTimesteps"] = len(file["inputs"])


def _sequences(x: Tensor) -> list[np.ndarray]:
    """The frames of each sequence; one frame if there is no time axis."""
    frames = time_of(x)
    batch = [dim for dim in x.dims if dim.is_batch_dim()]
    order: Sequence[Dim] = [*batch, *filter(None, [frames])]
    array = x.copy_transpose([*order, *(dim for dim in x.dims if dim not in order)]).raw_tensor.detach().cpu().numpy()
    if frames is None:
        return [row[None] for row in array]
    lengths = np.broadcast_to(x.size_of(frames).over(batch), (len(array),))
    return [row[:length] for row, length in zip(array, lengths, strict=True)]

"""What an engine does around a model: it describes the data, fills a batch in, runs a step and reads the result."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import returnn.frontend as rf
import torch
from returnn.tensor import Dim, Tensor, TensorDict


def fill(extern_data: TensorDict, seqs: Sequence[dict[str, np.ndarray]]) -> TensorDict:
    """Puts a batch into templates: first the data, then the lengths, as raw tensors."""
    extern_data.reset_content()
    for name, tensor in extern_data.data.items():
        arrays = [seq[name] for seq in seqs]
        longest = max(len(array) for array in arrays)
        padded = [np.pad(a, [(0, longest - len(a)), *[(0, 0)] * (a.ndim - 1)]) for a in arrays]
        tensor.raw_tensor = torch.tensor(np.stack(padded), dtype=getattr(torch, tensor.dtype))
        tensor.dims[1].dyn_size_ext.raw_tensor = torch.tensor([len(array) for array in arrays], dtype=torch.int32)
    return extern_data


def train(model: rf.Module, extern_data: TensorDict, train_step, *, train_flag: bool = True) -> dict[str, Tensor]:
    """One step with its gradients. → the losses, each summed over its frames."""
    for parameter in rf.torch_parameters(model):
        parameter.grad = None
    rf.init_train_step_run_ctx(train_flag=train_flag, step=0, epoch=1)
    train_step(model=model, extern_data=extern_data)
    ctx = rf.get_run_ctx()
    ctx.total_loss().raw_tensor.backward()
    return {name: float(loss.get_summed_loss()) for name, loss in ctx.losses.items()}


def bad_gradients(model: rf.Module) -> list[str]:
    """The parameters whose gradient is missing, is zero or is not finite."""
    grads = {name: p.raw_tensor.grad for name, p in model.named_parameters() if p.trainable}
    return [name for name, grad in grads.items() if grad is None or not grad.isfinite().all() or not grad.any()]


def best(labels: Tensor, out_dim: Dim, beam: Dim, batch: Dim) -> list[list[int]]:
    """The labels {beam, batch, out} of the first hypothesis of each sequence; the lengths are over the beam, too."""
    lengths = rf.gather(out_dim.get_size_tensor(), indices=0, axis=beam).copy_compatible_to_dims_raw([batch])
    raw = labels.copy_compatible_to_dims_raw([beam, batch, out_dim])[0]
    return [row[: int(n)].tolist() for row, n in zip(raw, lengths, strict=True)]


def sequences(tensor: Tensor, spatial_dim: Dim, batch_dim: Dim) -> list[list[int]]:
    """The entries of each sequence of a tensor {batch, spatial}."""
    raw = tensor.copy_compatible_to_dims_raw([batch_dim, spatial_dim])
    lengths = spatial_dim.get_size_tensor().copy_compatible_to_dims_raw([batch_dim])
    return [row[: int(n)].tolist() for row, n in zip(raw, lengths, strict=True)]

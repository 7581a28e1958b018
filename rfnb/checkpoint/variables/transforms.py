"""From variables of a file to a variable of a model, by the names that `net_dicts` uses.

Native weights have the gates j, i, f, o (cell input, input gate, forget gate, output gate), kernels i, j, f, o, and the
canonical weights of cuDNN are a tensor for each of i, f, j, o. A kernel has the rows of the input, then those of h.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

Parts = Sequence[torch.Tensor]


def other_gates(weight: torch.Tensor) -> torch.Tensor:
    """{…, 4n} with the first two of four blocks exchanged: j, i, f, o ↔ i, j, f, o.

    >>> other_gates(torch.arange(8.0)).tolist()
    [2.0, 3.0, 0.0, 1.0, 4.0, 5.0, 6.0, 7.0]
    """
    first, second, *tail = weight.chunk(4, dim=-1)
    return torch.cat([second, first, *tail], dim=-1)


def with_forget_bias(bias: torch.Tensor, added: float) -> torch.Tensor:
    """A bias {4n} with a number added to the forget gate, the third block in either order."""
    blocks = list(bias.chunk(4, dim=-1))
    blocks[2] = blocks[2] + added
    return torch.cat(blocks, dim=-1)


def _rows(kernel: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """A kernel {in + n, 4n} as the rows of the input and those of h."""
    n = kernel.shape[1] // 4
    return kernel[: len(kernel) - n], kernel[len(kernel) - n :]


def _cudnn_kernel(parts: Parts) -> torch.Tensor:
    """Four weights {n, in} and four {n, n}, of i, f, j, o → {in + n, 4n}"""
    i, f, j, o = (torch.cat([w, r], dim=1).T for w, r in zip(parts[:4], parts[4:], strict=True))
    return torch.cat([i, j, f, o], dim=1)


def _cudnn_bias(parts: Parts) -> torch.Tensor:
    """Four biases {n} of the input and four of h → {4n}"""
    i, f, j, o = (a + b for a, b in zip(parts[:4], parts[4:], strict=True))
    return torch.cat([i, j, f, o])


def _cudnn_native(parts: Parts) -> torch.Tensor:
    """Four weights {n, in} of i, f, j, o → {in, 4n}"""
    i, f, j, o = (w.T for w in parts)
    return torch.cat([j, i, f, o], dim=1)


TRANSFORMS: dict[str, Callable[[Parts], torch.Tensor]] = {
    "same": lambda parts: parts[0],
    "gates in the other order": lambda parts: other_gates(parts[0]),
    "kernel of native weights": lambda parts: other_gates(torch.cat(list(parts))),
    "input rows of a kernel": lambda parts: other_gates(_rows(parts[0])[0]),
    "recurrent rows of a kernel": lambda parts: other_gates(_rows(parts[0])[1]),
    "the same values in another shape": lambda parts: parts[0].reshape(-1),
    "kernel of cuDNN weights": _cudnn_kernel,
    "bias of cuDNN biases": _cudnn_bias,
    "native weights of cuDNN weights": _cudnn_native,
    "native bias of cuDNN biases": lambda parts: other_gates(_cudnn_bias(parts)),
}
"""Functions of the variables of the file."""


def common_part(
    new: torch.Tensor, old: torch.Tensor, blocks: Sequence[tuple[Sequence[int], Sequence[int]]]
) -> torch.Tensor:
    """`new` with what both have taken from `old`, along every axis, block by block.

    blocks: for each axis the sizes of its blocks in `new` and in `old`, as many in both.

    >>> common_part(torch.zeros(6), torch.arange(1.0, 5), [((3, 3), (2, 2))]).tolist()
    [1.0, 2.0, 0.0, 3.0, 4.0, 0.0]
    """
    result = new.clone()
    places = [_common(*sizes) for sizes in blocks]
    if places:
        into, out_of = (torch.meshgrid(*(torch.tensor(axis[i]) for axis in places), indexing="ij") for i in range(2))
        result[into] = old[out_of].to(result)
    else:
        result.copy_(old)
    return result


def _common(new: Sequence[int], old: Sequence[int]) -> tuple[list[int], list[int]]:
    """The indices along an axis of what blocks of these sizes have in common."""
    into: list[int] = []
    out_of: list[int] = []
    start, old_start = 0, 0
    for size, old_size in zip(new, old, strict=True):
        shared = range(min(size, old_size))
        into += [start + i for i in shared]
        out_of += [old_start + i for i in shared]
        start, old_start = start + size, old_start + old_size
    return into, out_of

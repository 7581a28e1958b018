"""Matrices made smaller for pictures: of each block of entries what stands out."""

from __future__ import annotations

import numpy as np


def block_for(shape: tuple[int, ...], most: tuple[int, int]) -> tuple[int, int]:
    """How many rows and columns go into one cell so that there are at most `most` of each."""
    rows, cols = (max(1, -(-size // limit)) for size, limit in zip(shape, most, strict=True))
    return rows, cols


def pooled(matrix: np.ndarray, block: tuple[int, int], choose: np.ufunc = np.maximum) -> np.ndarray:
    """The largest entry of each block, or another one. […, rows, columns] → the same, smaller"""
    for axis, step in zip((-2, -1), block, strict=True):
        if step > 1 and matrix.shape[axis]:
            matrix = choose.reduceat(matrix, np.arange(0, matrix.shape[axis], step), axis=axis)
    return matrix


def extremes(matrix: np.ndarray, valid: np.ndarray | None, block: tuple[int, int]) -> np.ndarray:
    """Of each block the valid entry that is the furthest from zero; what is not finite goes first."""
    low, high = (
        pooled(matrix if valid is None else np.where(valid, matrix, np.float32(nothing)), block, choose)
        for nothing, choose in ((np.inf, np.minimum), (-np.inf, np.maximum))
    )
    finite = np.isfinite(low) & np.isfinite(high)
    return np.where(np.where(finite, np.abs(low) > np.abs(high), ~np.isfinite(low)), low, high)

"""`rf.search.decode` puts states in order only where hypotheses have changed their places."""

from __future__ import annotations

from typing import Any

import torch

import rfnb as rf


class Cache:
    """Counts how often it is put in order."""

    def __init__(self, rows: torch.Tensor):
        self.rows, self.calls = rows, 0

    def reorder_cache(self, index: torch.Tensor) -> None:
        """Puts the rows in order."""
        self.rows, self.calls = self.rows[index], self.calls + 1


def searched(beam: int) -> tuple[Any, Cache]:
    torch.manual_seed(3)
    table, cache = torch.randn(5, 5) * 2, Cache(torch.arange(2.0))

    def step(prev: torch.Tensor, cache: Cache) -> tuple[torch.Tensor, Cache]:
        cache.rows = cache.rows + prev / 10
        return table[prev] + torch.sin(9 * cache.rows)[:, None] * torch.arange(5) / 2, cache

    return rf.search.decode(step, cache, batch=2, beam=beam, start=1, end=None, limit=30), cache


def test_a_beam_of_one_is_put_in_order_at_the_start_alone() -> None:
    found, cache = searched(1)
    assert len(found.nbest(1, text=False)[0][0]) == 30 and cache.calls == 2


def test_hypotheses_that_change_places_take_their_state_along() -> None:
    found, cache = searched(4)
    assert cache.calls > 10
    for sequence, (rows, nbest) in enumerate(zip(cache.rows.view(2, 4), found.nbest(4, text=False), strict=True)):
        expected = [sequence + (1 + sum(labels[:-1])) / 10 for labels in nbest]  # by the labels that it has read
        torch.testing.assert_close(rows.sort().values, torch.tensor(expected).sort().values)

"""The rank of each box: below all boxes that it depends on."""

from __future__ import annotations

from collections.abc import Sequence

from rfnb.display.layout.link import Link


def turned(count: int, links: Sequence[Link]) -> set[int]:
    """Positions of the links that close a cycle, or are marked as going back."""
    below: list[list[int]] = [[] for _ in range(count)]
    back = {i for i, link in enumerate(links) if link.back or link.source == link.target}
    for i, link in enumerate(links):
        if i not in back:
            below[link.source].append(i)
    finished, active = [False] * count, [False] * count
    for start in range(count):
        if finished[start]:
            continue
        active[start] = True
        stack = [(start, iter(below[start]))]
        while stack:
            box, pending = stack[-1]
            i = next(pending, -1)
            if i < 0:
                stack.pop()
                active[box], finished[box] = False, True
            elif active[links[i].target]:
                back.add(i)
            elif not finished[links[i].target]:
                active[links[i].target] = True
                stack.append((links[i].target, iter(below[links[i].target])))
    return back


def ranks(count: int, links: Sequence[Link]) -> list[int]:
    """Ranks by the longest path from above; a box that feeds one place only is just above it. Needs acyclic links."""
    above: list[list[int]] = [[] for _ in range(count)]
    below: list[list[int]] = [[] for _ in range(count)]
    for link in links:
        above[link.target].append(link.source)
        below[link.source].append(link.target)
    order = _sorted(above, below)
    rank = [0] * count
    exclusive = [False] * count  # nothing above it is used by others
    for box in order:
        rank[box] = max((rank[a] + 1 for a in above[box]), default=0)
        exclusive[box] = all(exclusive[a] and len(below[a]) == 1 for a in above[box])
    for box in reversed(order):
        if below[box] and (exclusive[box] or len(above[box]) < len(below[box]) == 1):
            rank[box] = min(rank[b] for b in below[box]) - 1
    return rank


def _sorted(above: list[list[int]], below: list[list[int]]) -> list[int]:
    """The boxes in topological order."""
    missing = [len(boxes) for boxes in above]
    order = [box for box, count in enumerate(missing) if not count]
    for box in order:
        for target in below[box]:
            missing[target] -= 1
            if not missing[target]:
                order.append(target)
    return order

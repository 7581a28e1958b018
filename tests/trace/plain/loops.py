"""Loops of plain Python as people write them: decoders, samplers, searches, numeric loops; none of them trains."""

from __future__ import annotations

import heapq
import math
import random
from collections import Counter, defaultdict, deque
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import nn

EOS, WORDS = 0, 7
BIGRAMS = {("a", "b"): 1.5, ("b", "a"): 0.5}


class Cell(nn.Module):
    """One step of a decoder with attention."""

    def __init__(self, width: int = 8):
        super().__init__()
        self.embedding = nn.Embedding(WORDS, width)
        self.cell = nn.GRUCell(2 * width, width)
        self.out = nn.Linear(2 * width, WORDS)
        self.drop = nn.Dropout(0.3)

    def forward(self, label, context, h, encoded):
        h = self.cell(torch.cat([self.embedding(label), context], -1), h)
        weights = torch.softmax(torch.einsum("bh,bth->bt", h, encoded), -1)
        context = self.drop(torch.einsum("bt,bth->bh", weights, encoded))
        return self.out(torch.cat([h, context], -1)), context, h, weights


MODEL = Cell()
SHARED = torch.linspace(0, 1, 5)


def greedy_decoder():
    model, encoded = MODEL.eval(), torch.randn(2, 5, 8)
    label, context, h = torch.ones(2, dtype=torch.long), torch.zeros(2, 8), torch.zeros(2, 8)
    tokens, ended = [], torch.zeros(2, dtype=torch.bool)
    with torch.no_grad():
        for _t in range(7):
            logits, context, h, _weights = model(label, context, h, encoded)
            label = logits.argmax(-1)
            ended |= label == EOS
            tokens.append(label)
            if ended.all():
                break
    return tokens


def sampler_with_dropout():
    model, encoded = MODEL.train(), torch.randn(1, 4, 8)
    label, context, h = torch.ones(1, dtype=torch.long), torch.zeros(1, 8), torch.zeros(1, 8)
    out = torch.zeros(1, 6, dtype=torch.long)
    for t in range(6):
        logits, context, h, _ = model(label, context, h, encoded)
        label = torch.multinomial(torch.softmax(logits / 0.8, -1), 1)[:, 0]
        out[:, t] = label
    return out


def nucleus_sampling():
    logits, generator, seen = torch.randn(20), torch.Generator().manual_seed(3), []
    while len(seen) < 8:
        order = logits.argsort(descending=True)
        probs = logits.softmax(-1)[order]
        kept = order[probs.cumsum(0) - probs < 0.9]
        token = kept[torch.multinomial(logits[kept].softmax(-1), 1, generator=generator)].item()
        seen.append(token)
        logits = logits.clone()
        logits[token] -= 0.5
    return seen


def beam_search():
    table = torch.randn(WORDS, WORDS).log_softmax(-1)
    beams, finished = [((1,), 0.0)], []
    for _step in range(5):
        candidates = []
        for words, score in beams:
            for word in range(WORDS):
                candidates.append(((*words, word), score + table[words[-1], word].item()))
        candidates.sort(key=lambda candidate: -candidate[1])
        beams = []
        for words, score in candidates[:3]:
            (finished if words[-1] == EOS else beams).append((words, score))
        if not beams:
            break
    return finished, beams


def batched_beam_search():
    table, k = torch.randn(WORDS, WORDS).log_softmax(-1), 3
    scores, last = torch.tensor([0.0, -1e9, -1e9]), torch.ones(3, dtype=torch.long)
    history = torch.zeros(3, 0, dtype=torch.long)
    for _ in range(5):
        total = scores[:, None] + table[last]
        scores, flat = total.view(-1).topk(k)
        back, last = flat // WORDS, flat % WORDS
        history = torch.cat([history[back], last[:, None]], 1)
    return history


def ctc_greedy():
    frames, previous, out = torch.randn(9, 4).argmax(-1), None, []
    for frame in frames.tolist():
        if frame != previous and frame != EOS:
            out.append(frame)
        previous = frame
    return out


def ctc_prefix_search():
    probs = torch.randn(6, 3).softmax(-1).tolist()
    beam = {(): (1.0, 0.0)}
    for row in probs:
        following = defaultdict(lambda: [0.0, 0.0])
        for prefix, (blank, label) in beam.items():
            following[prefix][0] += (blank + label) * row[0]
            for s in (1, 2):
                if prefix and prefix[-1] == s:
                    following[prefix][1] += label * row[s]
                    following[(*prefix, s)][1] += blank * row[s]
                else:
                    following[(*prefix, s)][1] += (blank + label) * row[s]
        beam = {p: tuple(v) for p, v in sorted(following.items(), key=lambda item: -sum(item[1]))[:4]}
    return beam


def viterbi():
    emission, transition = torch.randn(8, 4), torch.randn(4, 4)
    score, back = emission[0], []
    for t in range(1, len(emission)):
        score, best = (score[:, None] + transition).max(0)
        score = score + emission[t]
        back.append(best)
    path = [int(score.argmax())]
    for best in reversed(back):
        path.append(int(best[path[-1]]))
    return path[::-1]


def power_iteration():
    matrix, v, values = torch.randn(5, 5), torch.ones(5), []
    for _ in range(6):
        v = matrix @ v
        v /= v.norm()
        values.append(float(v @ matrix @ v))
    return values


def k_means():
    points = torch.randn(30, 2)
    centers, moved = points[:3].clone(), 1.0
    rounds = 0
    while moved > 1e-3 and rounds < 8:
        nearest = torch.cdist(points, centers).argmin(1)
        new = torch.stack([points[nearest == c].mean(0) if (nearest == c).any() else centers[c] for c in range(3)])
        moved = (new - centers).abs().max().item()
        centers.copy_(new)
        rounds += 1
    return centers


def gradient_ascent():
    x, target = torch.zeros(4, requires_grad=True), torch.randn(4)
    for _ in range(6):
        objective = -((x - target) ** 2).sum() + torch.sin(x).sum()
        (gradient,) = torch.autograd.grad(objective, x)
        x = (x + 0.1 * gradient).detach().requires_grad_()
    return x


def gradient_by_backward():
    x = torch.zeros(3, requires_grad=True)
    for step in range(5):
        loss = ((x - torch.arange(3.0)) ** 2).sum()
        loss.backward()
        with torch.no_grad():
            x -= 0.1 * x.grad
        if step % 2:
            x.grad.zero_()
    return x.detach()


def adversarial_steps():
    model, x, delta = MODEL.out.eval(), torch.randn(2, 16), torch.zeros(2, 16, requires_grad=True)
    for _ in range(4):
        loss = nn.functional.cross_entropy(model(x + delta), torch.tensor([1, 2]))
        loss.backward()
        delta = (delta + 0.05 * delta.grad.sign()).clamp(-0.2, 0.2).detach().requires_grad_(True)
    return delta


def recurrent_with_gradients():
    w, h, losses = nn.Parameter(torch.eye(3)), torch.zeros(2, 3), 0.0
    for x in torch.randn(5, 2, 3):
        h = torch.tanh(h @ w + x)
        losses = losses + h.pow(2).mean()
    losses.backward()
    return w.grad


def collatz():
    n, longest = 27, 27
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        longest = max(longest, n)
        if longest > 200:
            break
    else:
        longest = 0
    return longest


def nested_loops():
    table = torch.zeros(4, 4)
    for i in range(4):
        row = 0.0
        for j in range(i + 1):
            table[i, j] = i * j + row
            row += 0.5
        while row > 1:
            row -= 1
    return table


def edit_distance():
    a, b = "kitten", "sitting"
    previous = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        current = [i]
        for j, y in enumerate(b, 1):
            current.append(min(previous[j] + 1, current[-1] + 1, previous[j - 1] + (x != y)))
        previous = current
    return previous[-1]


def numpy_jacobi():
    a, b, x = np.eye(4) * 4 + np.ones((4, 4)), np.arange(4.0), np.zeros(4)
    residuals = []
    for _ in range(6):
        x = (b - (a - np.diag(np.diag(a))) @ x) / np.diag(a)
        residuals.append(np.linalg.norm(a @ x - b))
    return x, residuals


def numpy_in_place():
    grid = np.random.rand(5, 5)
    inner = grid[1:-1, 1:-1]
    for _ in range(4):
        inner += 0.1 * (grid[:-2, 1:-1] - inner)
        grid[0] = np.random.rand(5)
    return grid


def states_in_a_dict():
    states = {"h": torch.zeros(3), "steps": 0, "best": (None, -1.0)}
    states["copy"] = states["h"]
    for x in torch.randn(5, 3):
        states["h"] = torch.tanh(states["h"] + x)
        states["copy"] += x
        states["steps"] += 1
        norm = states["h"].norm().item()
        if norm > states["best"][1]:
            states["best"] = (states["h"], norm)
    return states


@dataclass
class Hypothesis:
    """A hypothesis of a search."""

    words: list[int] = field(default_factory=list)
    score: float = 0.0
    state: Any = None


def dataclass_states():
    hypotheses, table = [Hypothesis([1], 0.0, torch.zeros(2))], torch.randn(4, 4).log_softmax(-1)
    for _ in range(4):
        following = []
        for hypothesis in hypotheses:
            scores, words = table[hypothesis.words[-1]].topk(2)
            for score, word in zip(scores.tolist(), words.tolist(), strict=True):
                state = hypothesis.state + score
                following.append(Hypothesis([*hypothesis.words, word], hypothesis.score + score, state))
        hypotheses = sorted(following, key=lambda one: -one.score)[:3]
        hypotheses[0].words[-1] += 0
    return [(one.words, one.score) for one in hypotheses]


class Cache:
    """Keys and values that grow, in an object."""

    def __init__(self):
        self.keys, self.length = None, 0

    def add(self, key):
        self.keys = key if self.keys is None else torch.cat([self.keys, key])
        self.length += 1
        return self.keys


def object_with_a_cache():
    cache, x = Cache(), torch.randn(1, 4)
    for _ in range(5):
        keys = cache.add(x)
        x = torch.softmax(x @ keys.t(), -1) @ keys + 0.1
    return cache.length, x


def views_of_one_tensor():
    memory = torch.zeros(3, 4)
    first, last = memory[0], memory[-1]
    for t in range(5):
        first += t
        last.add_(first)
        memory[1] = memory.sum(0)
    return memory


def python_random_walk():
    position, visited = 0, Counter()
    for _ in range(8):
        position += random.choice([-1, 1])
        visited[position] += 1
    return position, visited


def simulated_annealing():
    x, energy, temperature, rng = 3.0, 9.0, 2.0, np.random.default_rng(5)
    while temperature > 0.3:
        y = x + rng.normal()
        if y * y < energy or rng.random() < math.exp((energy - y * y) / temperature):
            x, energy = y, y * y
        temperature *= 0.8
    return x


def dijkstra():
    graph = {"a": {"b": 1, "c": 4}, "b": {"c": 2, "d": 6}, "c": {"d": 3}, "d": {}}
    queue, distance = [(0, "a")], {"a": 0}
    while queue:
        d, node = heapq.heappop(queue)
        if d > distance[node]:
            continue
        for other, length in graph[node].items():
            if d + length < distance.get(other, math.inf):
                distance[other] = d + length
                heapq.heappush(queue, (d + length, other))
    return distance


def breadth_first():
    neighbours, queue, seen = {1: [2, 3], 2: [4], 3: [4], 4: []}, deque([1], maxlen=10), {1}
    while queue:
        node = queue.popleft()
        for other in neighbours[node]:
            if other not in seen:
                seen.add(other)
                queue.append(other)
    return seen


def function_beside_the_loop():
    w, total = torch.randn(3, 3), torch.zeros(3)

    def score(x):
        return torch.tanh(x @ w + total)

    shift = partial(torch.add, torch.ones(3))
    for x in torch.randn(4, 3):
        y = score(x)
        total = shift(total + y)
    return total


def method_as_a_variable():
    step, h = MODEL.eval().cell.forward, torch.zeros(1, 8)
    for x in torch.randn(4, 1, 16).unbind(0):
        h = step(x, h)
    return h


def language_model_of_the_module():
    words, scores = ["a"], []
    for step in range(5):
        following = max("ab", key=lambda w: BIGRAMS.get((words[-1], w), 0.0) + 0.1 * step)
        scores.append(BIGRAMS.get((words[-1], following), 0.0) + SHARED[step].item())
        words.append(following)
    return words, scores


def diffusion():
    x, betas = torch.randn(2, 3), torch.linspace(0.1, 0.4, 6)
    alphas = torch.cumprod(1 - betas, 0)
    for t in reversed(range(6)):
        noise = torch.randn_like(x) if t > 0 else torch.zeros_like(x)
        x = (x - betas[t] * x / (1 - alphas[t]).sqrt()) / (1 - betas[t]).sqrt() + betas[t].sqrt() * noise
    return x


def gibbs_sampling():
    spins = torch.ones(6)
    for _sweep in range(4):
        for i in range(6):
            field_ = spins[i - 1] + spins[(i + 1) % 6]
            spins[i] = 1.0 if torch.rand(()) < torch.sigmoid(2 * field_) else -1.0
    return spins


def draws_in_the_test():
    draws = 0
    while torch.rand(1).item() < 0.8 and draws < 10:
        draws += 1
    return draws


def until_an_error():
    values = []
    try:
        for x in [4, 2, 0, 1]:
            values.append(8 // x)
    except ZeroDivisionError:
        values.append(-1)
    return values


def returns_from_the_loop():
    low, high = 0.0, 10.0
    while True:
        middle = (low + high) / 2
        if abs(middle * middle - 17) < 1e-2:
            return middle
        if middle * middle < 17:
            low = middle
        else:
            high = middle


def comprehension_and_walrus():
    rows, n = [], 0
    while (n := n + 1) < 6:
        rows.append([n * k for k in range(3)])
        total = sum(sum(row) for row in rows)
    return total


def match_and_try():
    stack, program = [], ["2", "3", "+", "x", "4", "*"]
    for word in program:
        try:
            stack.append(int(word))
        except ValueError as error:
            match (word, len(stack)):
                case ("+", n) if n > 1:
                    stack.append(stack.pop() + stack.pop())
                case ("*", _):
                    stack.append(stack.pop() * stack.pop())
                case _:
                    failed = str(error)
    return stack, failed


class Decoder:
    """A method with private names."""

    def __init__(self):
        self.__w = torch.randn(3, 3)
        self.factor: float = 0.5

    def decode(self):
        h: torch.Tensor = torch.ones(3)
        for _t in range(4):
            scaled: torch.Tensor = self.__w * self.factor
            h = torch.tanh(scaled @ h)
        return h


def method_with_private_names():
    return Decoder().decode()


LOOPS = [
    value
    for value in [*globals().values()]
    if callable(value) and getattr(value, "__module__", "") == __name__ and isinstance(value, type(nested_loops))
]

"""Loops in the style of tutorials, samplers, training and search: each function runs one, and returns what it computes.

`TRAINING` has the names of those that train, whose parameters and optimizers a loop changes where they are.
"""

from __future__ import annotations

import asyncio
import copy
import heapq
import itertools
import math
import random
from collections import Counter, deque
from dataclasses import dataclass, field

import numpy as np
import torch
import torch.nn.functional as F
import tqdm
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def _weights(*shape: int) -> torch.Tensor:
    return torch.randn(*shape) / math.sqrt(shape[-1])


# -- decoders


class _Attention(nn.Module):
    def __init__(self, size: int = 8):
        super().__init__()
        self.query, self.key = nn.Linear(size, size), nn.Linear(size, size)

    def forward(self, h, encoded, mask):
        energy = torch.einsum("bh,bsh->bs", self.query(h), self.key(encoded))
        return energy.masked_fill(~mask, float("-inf")).softmax(-1)


class _Decoder(nn.Module):
    def __init__(self, vocab: int = 11, size: int = 8):
        super().__init__()
        self.embed, self.cell = nn.Embedding(vocab, size), nn.GRUCell(size, size)
        self.out = nn.Linear(size, vocab)

    def forward(self, token, h):
        h = self.cell(self.embed(token), h)
        return self.out(h), h


@torch.no_grad()
def greedy_decoder():
    model, attend = _Decoder(), _Attention()
    encoded, lengths = torch.randn(3, 6, 8), torch.tensor([6, 4, 2])
    mask = torch.arange(6)[None] < lengths[:, None]
    h, token, done = torch.zeros(3, 8), torch.zeros(3, dtype=torch.long), torch.zeros(3, dtype=torch.bool)
    tokens, atts = [], []
    for _step in range(12):
        att = attend(h, encoded, mask)
        context = torch.einsum("bs,bsh->bh", att, encoded)
        logits, h = model(token, h + context)
        token = logits.argmax(-1).masked_fill(done, 0)
        tokens.append(token)
        atts.append(att)
        done |= token == 3
        if done.all():
            break
    return torch.stack(tokens), torch.stack(atts), done


def lstm_by_hand():
    x, w, u, b = torch.randn(7, 2, 5), _weights(5, 16), _weights(4, 16), torch.zeros(16)
    w.requires_grad_()
    h, c = torch.zeros(2, 4), torch.zeros(2, 4)
    outputs = []
    for t in range(x.shape[0]):
        i, f, g, o = (x[t] @ w + h @ u + b).chunk(4, dim=-1)
        c = torch.sigmoid(f + 1) * c + torch.sigmoid(i) * torch.tanh(g)
        h = torch.sigmoid(o) * torch.tanh(c)
        outputs.append(h)
    y = torch.stack(outputs)
    y.sum().backward()
    return y, w.grad


def seq2seq_with_attention():
    encoder, decoder, attend = nn.GRU(8, 8, batch_first=True), _Decoder(), _Attention()
    source, target = torch.randn(2, 5, 8), torch.randint(11, (2, 6))
    encoded, state = encoder(source)
    h, mask = state[0], torch.ones(2, 5, dtype=torch.bool)
    loss = torch.zeros(())
    for t in range(target.size(1) - 1):
        att = attend(h, encoded, mask)
        h = h + (att.unsqueeze(1) @ encoded).squeeze(1)
        logits, h = decoder(target[:, t], h)
        loss = loss + F.cross_entropy(logits, target[:, t + 1])
    loss.backward()
    return loss, [p.grad for p in decoder.parameters()]


def scheduled_sampling():
    decoder, target = _Decoder(), torch.randint(11, (3, 9))
    h, token, used = torch.zeros(3, 8), target[:, 0], 0
    logits_of_steps = []
    for t in range(1, target.size(1)):
        logits, h = decoder(token, h)
        logits_of_steps.append(logits)
        if random.random() < 0.5:
            token = target[:, t]
        else:
            token, used = logits.detach().argmax(-1), used + 1
    return torch.stack(logits_of_steps), used


def ctc_greedy():
    labels = torch.randn(2, 15, 5).argmax(-1)
    hypotheses = []
    for row in labels.tolist():
        hypothesis, previous = [], 0
        for label in row:
            if label != previous and label != 0:
                hypothesis.append(label)
            previous = label
        hypotheses.append(hypothesis)
    return hypotheses


@dataclass
class _Hypothesis:
    tokens: list[int]
    score: float
    h: torch.Tensor

    def extended(self, token: int, score: float, h: torch.Tensor) -> _Hypothesis:
        return _Hypothesis([*self.tokens, token], self.score + score, h)


@torch.no_grad()
def beam_search_with_hypotheses():
    model = _Decoder()
    beam, finished = [_Hypothesis([1], 0.0, torch.zeros(1, 8))], []
    for _step in range(8):
        candidates = []
        for hypothesis in beam:
            logits, h = model(torch.tensor(hypothesis.tokens[-1:]), hypothesis.h)
            scores, tokens = logits.log_softmax(-1)[0].topk(4)
            for score, token in zip(scores.tolist(), tokens.tolist(), strict=True):
                candidates.append(hypothesis.extended(token, score, h))
        candidates.sort(key=lambda c: c.score, reverse=True)
        finished += [c for c in candidates[:4] if c.tokens[-1] == 3]
        beam = [c for c in candidates if c.tokens[-1] != 3][:4]
        if len(finished) >= 4 or not beam:
            break
    best = max(finished + beam, key=lambda c: c.score / len(c.tokens))
    return best.tokens, best.score


@torch.no_grad()
def beam_search_in_tensors():
    model, k = _Decoder(), 3
    h, scores = torch.zeros(k, 8), torch.tensor([0.0] + [float("-inf")] * (k - 1))
    tokens = torch.ones(k, 1, dtype=torch.long)
    while tokens.size(1) < 7 and not (tokens[:, -1] == 3).all():
        logits, h = model(tokens[:, -1], h)
        total = scores[:, None] + logits.log_softmax(-1)
        scores, index = total.view(-1).topk(k)
        came_from, new = index // 11, index % 11
        tokens = torch.cat([tokens[came_from], new[:, None]], dim=1)
        h = h[came_from]
    return tokens, scores


@torch.no_grad()
def nucleus_sampling():
    model, h, token, sequence = _Decoder(), torch.zeros(1, 8), torch.tensor([1]), []
    finished = False
    while not finished:
        logits, h = model(token, h)
        probabilities = torch.softmax(logits / 0.7, dim=-1)
        ordered, indices = probabilities.sort(descending=True)
        remove = ordered.cumsum(-1) - ordered > 0.8
        ordered[remove] = 0.0
        ordered.div_(ordered.sum(-1, keepdim=True))
        token = indices.gather(-1, torch.multinomial(ordered, 1)).squeeze(-1)
        sequence.append(token.item())
        finished = token.item() == 3 or len(sequence) >= 20
    return sequence, h


@torch.inference_mode()
def decoding_with_a_cache():
    w_q, w_k, w_v = (_weights(8, 8) for _ in range(3))
    cache_k, cache_v = torch.zeros(1, 10, 8), torch.zeros(1, 10, 8)
    x, outputs = torch.randn(1, 8), []
    for t in range(10):
        cache_k[:, t] = x @ w_k
        cache_v[:, t] = x @ w_v
        scores = (x @ w_q)[:, None] @ cache_k[:, : t + 1].transpose(1, 2) / 8**0.5
        x = torch.tanh((scores.softmax(-1) @ cache_v[:, : t + 1])[:, 0] + x)
        outputs.append(x)
    return torch.stack(outputs), cache_k


# -- samplers and inference in probabilistic models


def metropolis_hastings():
    x, samples, accepted = np.zeros(2), [], 0

    def log_density(x):
        return -0.5 * (x**2).sum() - 0.1 * (x[0] * x[1]) ** 2

    for _ in range(50):
        proposal = x + np.random.normal(size=2) * 0.8
        ratio = log_density(proposal) - log_density(x)
        if np.log(np.random.rand()) < ratio:
            x = proposal
            accepted += 1
        samples.append(x)
    return np.array(samples), accepted


def langevin_dynamics():
    x = torch.randn(16, 2)
    for step in range(20):
        x.requires_grad_(True)
        energy = (x**4).sum() / 4 - (x**2).sum() / 2
        (gradient,) = torch.autograd.grad(energy, x)
        rate = 0.05 / (1 + step)
        with torch.no_grad():
            x = x - rate * gradient + math.sqrt(2 * rate) * torch.randn_like(x)
    return x


@torch.no_grad()
def diffusion_sampling():
    betas = torch.linspace(1e-4, 0.2, 20)
    alphas = 1 - betas
    products = torch.cumprod(alphas, 0)
    model = nn.Sequential(nn.Linear(3, 16), nn.SiLU(), nn.Linear(16, 2))
    x = torch.randn(8, 2)
    for t in tqdm.tqdm(reversed(range(20)), total=20, disable=True):
        noise = model(torch.cat([x, torch.full((8, 1), t / 20)], dim=1))
        mean = (x - betas[t] / (1 - products[t]).sqrt() * noise) / alphas[t].sqrt()
        x = mean + betas[t].sqrt() * torch.randn_like(x) if t > 0 else mean
    return x


def viterbi():
    emissions, transitions = np.log(np.random.dirichlet(np.ones(4), 9)), np.log(np.random.dirichlet(np.ones(4), 4))
    score, back = emissions[0].copy(), np.zeros((9, 4), dtype=int)
    for t in range(1, 9):
        for s in range(4):
            candidates = score + transitions[:, s]
            back[t, s] = np.argmax(candidates)
        score = (score[:, None] + transitions).max(0) + emissions[t]
    path = [int(score.argmax())]
    for t in range(8, 0, -1):
        path.insert(0, int(back[t, path[0]]))
    return path, score


def forward_algorithm():
    emissions, transitions = torch.randn(3, 6, 4).log_softmax(-1), torch.randn(4, 4).log_softmax(-1)
    lengths = torch.tensor([6, 5, 3])
    alpha = emissions[:, 0] - math.log(4)
    for t in range(1, emissions.size(1)):
        new = torch.logsumexp(alpha.unsqueeze(2) + transitions, dim=1) + emissions[:, t]
        alpha = torch.where((t < lengths).unsqueeze(1), new, alpha)
    return alpha.logsumexp(-1)


def k_means():
    points = torch.randn(60, 2) + torch.tensor([[2.0, 0.0]]) * torch.randint(2, (60, 1))
    centers = points[:3].clone()
    for iteration in range(30):  # noqa: B007
        distances = torch.cdist(points, centers)
        assignment = distances.argmin(1)
        new = torch.stack([points[assignment == k].mean(0) for k in range(3)])
        if torch.allclose(new, centers):
            break
        centers = new
    return centers, assignment, iteration


def expectation_maximization():
    x = np.concatenate([np.random.normal(-2, 1, 40), np.random.normal(3, 0.5, 60)])
    means, stds, weights = np.array([-1.0, 1.0]), np.ones(2), np.full(2, 0.5)
    likelihood = -np.inf
    while True:
        density = weights * np.exp(-0.5 * ((x[:, None] - means) / stds) ** 2) / (stds * np.sqrt(2 * np.pi))
        total = density.sum(1, keepdims=True)
        posterior = density / total
        counts = posterior.sum(0)
        means = (posterior * x[:, None]).sum(0) / counts
        stds = np.sqrt((posterior * (x[:, None] - means) ** 2).sum(0) / counts)
        weights = counts / len(x)
        before, likelihood = likelihood, np.log(total).sum()
        if likelihood - before < 1e-3:
            break
    return means, stds, weights, likelihood


def kalman_filter():
    a, c = np.array([[1.0, 1.0], [0.0, 1.0]]), np.array([[1.0, 0.0]])
    q, r = 0.01 * np.eye(2), np.array([[0.5]])
    observed = np.cumsum(np.ones(15)) + np.random.normal(size=15)
    x, p, estimates = np.zeros((2, 1)), np.eye(2), np.empty(15)
    for t, z in enumerate(observed):
        x = a @ x
        p = a @ p @ a.T + q
        gain = p @ c.T @ np.linalg.inv(c @ p @ c.T + r)
        x += gain @ (z - c @ x)
        p = (np.eye(2) - gain @ c) @ p
        estimates[t] = x[0, 0]
    return estimates, p


def particle_filter():
    particles, weights = np.random.normal(size=50), np.full(50, 1 / 50)
    means = []
    for z in np.sin(np.arange(12) / 2):
        particles = particles + 0.3 * np.random.normal(size=50)
        weights *= np.exp(-2 * (particles - z) ** 2)
        weights /= weights.sum()
        if 1 / (weights**2).sum() < 25:
            index = np.random.choice(50, 50, p=weights)
            particles, weights = particles[index], np.full(50, 1 / 50)
        means.append(float((particles * weights).sum()))
    return means, particles


# -- search and other algorithms


def dijkstra():
    graph = {i: {(i * j + 3) % 12: j + 1.5 for j in range(1, 4)} for i in range(12)}
    distances, queue = {0: 0.0}, [(0.0, 0)]
    visited = set()
    while queue:
        distance, node = heapq.heappop(queue)
        if node in visited:
            continue
        visited.add(node)
        for neighbour, weight in graph[node].items():
            new = distance + weight
            if new < distances.get(neighbour, math.inf):
                distances[neighbour] = new
                heapq.heappush(queue, (new, neighbour))
    return distances, sorted(visited)


def edit_distance():
    a, b = "sequence models", "frequent modules"
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        diagonal, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            diagonal, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, diagonal + (x != y))
    return row


def byte_pair_encoding():
    words = Counter({("l", "o", "w"): 5, ("l", "o", "w", "e", "r"): 2, ("n", "e", "w", "e", "s", "t"): 6})
    merges = []
    for _ in range(5):
        pairs = Counter()
        for word, count in words.items():
            for pair in itertools.pairwise(word):
                pairs[pair] += count
        if not pairs:
            break
        best = max(pairs, key=lambda pair: (pairs[pair], pair))
        merges.append(best)
        words = Counter({_merged(word, best): count for word, count in words.items()})
    return merges, dict(words)


def _merged(word, pair):
    merged, i = [], 0
    while i < len(word):
        whole = word[i : i + 2] == pair
        merged.append("".join(pair) if whole else word[i])
        i += 2 if whole else 1
    return tuple(merged)


def recursion_with_loops():
    found = []

    def place(row, columns):
        if row == 5:
            found.append(columns)
            return
        for column in range(5):
            if all(column != c and abs(column - c) != row - r for r, c in enumerate(columns)):
                place(row + 1, (*columns, column))

    place(0, ())
    return found


def power_iteration():
    matrix = torch.randn(6, 6)
    matrix = matrix @ matrix.T
    vector, value = torch.ones(6), torch.tensor(0.0)
    for _ in range(100):
        product = matrix @ vector
        vector = product / product.norm()
        new = vector @ matrix @ vector
        if abs(new - value) < 1e-5:
            break
        value = new
    return value, vector


def conjugate_gradient():
    a = torch.randn(5, 5, dtype=torch.float64)
    a, b = a @ a.T + torch.eye(5, dtype=torch.float64), torch.randn(5, dtype=torch.float64)
    x, r = torch.zeros_like(b), b.clone()
    p, rs = r.clone(), r @ r
    while rs.sqrt() > 1e-8:
        ap = a @ p
        alpha = rs / (p @ ap)
        x.add_(p, alpha=alpha.item())
        r.sub_(ap, alpha=alpha.item())
        new = r @ r
        p.mul_(new / rs).add_(r)
        rs = new
    return x, a @ x - b


def generators_that_feed_a_loop():
    def numbers(n):
        for i in range(n):
            yield torch.full((2,), float(i))

    def pairs(items):
        window = deque(maxlen=2)
        for item in items:
            window.append(item)
            if len(window) == 2:
                yield window[0] + window[1]

    total = torch.zeros(2)
    for pair in pairs(numbers(6)):
        total = total + pair
    return total


def asynchronous_loop():
    async def batches(n):
        for i in range(n):
            await asyncio.sleep(0)
            yield np.arange(3) + i

    async def consume():
        total, seen = np.zeros(3), 0
        async for batch in batches(5):
            total += batch
            seen += 1
        return total, seen

    return asyncio.run(consume())


@dataclass
class _State:
    position: torch.Tensor
    velocity: torch.Tensor
    log: list[float] = field(default_factory=list)


def a_dataclass_as_state():
    state = _State(torch.tensor([0.0, 1.0]), torch.tensor([1.0, 0.0]))
    for i in range(10):
        force = -state.position
        velocity = state.velocity + 0.1 * force
        state = _State(state.position + 0.1 * velocity, velocity, state.log)
        state.log.append(float(velocity.norm()))
        if i % 4 == 3:
            state.velocity.mul_(0.5)
    return state.position, state.log


# -- training


class _Regression:
    """Data and a model; small enough that a step takes less than a millisecond."""

    def __init__(self, *, dropout: float = 0.0):
        self.x = torch.randn(24, 4)
        self.y = self.x.sum(-1, keepdim=True).sin() + 0.1 * torch.randn(24, 1)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Dropout(dropout), nn.Linear(8, 1))

    def loader(self, batch: int = 8) -> DataLoader:
        return DataLoader(TensorDataset(self.x, self.y), batch_size=batch, shuffle=True)

    def loss(self, x=None, y=None):
        return F.mse_loss(self.model(self.x if x is None else x), self.y if y is None else y)

    def result(self, *more):
        return [*map(torch.Tensor.detach, self.model.parameters()), *(p.grad for p in self.model.parameters()), *more]


def training_with_clipping():
    task = _Regression(dropout=0.2)
    optimizer, losses = torch.optim.Adam(task.model.parameters(), 0.01), []
    for _epoch in range(2):
        for x, y in task.loader():
            optimizer.zero_grad()
            loss = task.loss(x, y)
            loss.backward()
            norm = nn.utils.clip_grad_norm_(task.model.parameters(), 0.5)
            optimizer.step()
            losses.append((loss.item(), norm.item()))
    return task.result(losses)


def sgd_by_hand():
    x, y = torch.randn(20, 3), torch.randn(20)
    w, b = torch.zeros(3, requires_grad=True), torch.zeros((), requires_grad=True)
    for _ in range(10):
        loss = ((x @ w + b - y) ** 2).mean()
        loss.backward()
        for parameter in (w, b):
            parameter.data -= 0.1 * parameter.grad
            parameter.grad.zero_()
    return w, b, loss


def learning_rate_finder():
    task = _Regression()
    optimizer = torch.optim.SGD(task.model.parameters(), lr=1e-4)
    rates, losses, best = [], [], math.inf
    batches = iter(task.loader(4) for _ in range(5))
    for loader in batches:
        for x, y in loader:
            loss = task.loss(x, y)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            rates.append(optimizer.param_groups[0]["lr"])
            losses.append(loss.item())
            best = min(best, loss.item())
            if loss.item() > 4 * best:
                return task.result(rates, losses)
            optimizer.param_groups[0]["lr"] *= 1.5
    return task.result(rates, losses)


def curriculum():
    task = _Regression()
    optimizer = torch.optim.RMSprop(task.model.parameters(), 1e-3)
    order = task.x.norm(dim=1).argsort()
    for fraction in (0.25, 0.5, 1.0):
        chosen = order[: int(fraction * len(order))]
        for i in torch.randperm(len(chosen)).split(4):
            rows = chosen[i]
            loss = task.loss(task.x[rows], task.y[rows])
            optimizer.zero_grad(set_to_none=False)
            loss.backward()
            optimizer.step()
    return task.result(loss)


def early_stopping():
    task, held_out = _Regression(), _Regression()
    optimizer = torch.optim.AdamW(task.model.parameters(), 0.1)
    best, waited, kept, epoch = math.inf, 0, None, 0
    while waited < 3 and epoch < 25:
        task.model.train()
        for x, y in task.loader(12):
            optimizer.zero_grad()
            task.loss(x, y).backward()
            optimizer.step()
        task.model.eval()
        with torch.no_grad():
            value = task.loss(held_out.x, held_out.y).item()
        if value < best - 1e-4:
            best, waited, kept = value, 0, copy.deepcopy(task.model.state_dict())
        else:
            waited += 1
        epoch += 1
    return [*kept.values(), best, epoch]


def gradient_accumulation():
    task = _Regression()
    optimizer = torch.optim.SGD(task.model.parameters(), 0.05, momentum=0.9)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1, 0.5)
    for i, (x, y) in enumerate(tqdm.tqdm(task.loader(4), disable=True)):
        loss = task.loss(x, y) / 3
        loss.backward()
        if (i + 1) % 3 == 0:
            optimizer.step()
            optimizer.zero_grad()
            scheduler.step()
    return [*task.model.state_dict().values(), loss, scheduler.get_last_lr()]


def validation():
    task = _Regression(dropout=0.5)
    task.model.eval()
    total, count, worst = 0.0, 0, torch.tensor(0.0)
    with torch.inference_mode():
        for x, y in task.loader(5):
            prediction = task.model(x)
            error = (prediction - y).abs()
            total += error.sum().item()
            count += len(x)
            worst = torch.maximum(worst, error.max())
    return total / count, worst


def two_loaders():
    labelled, unlabelled = _Regression(), _Regression()
    optimizer = torch.optim.Adam(labelled.model.parameters())
    for (x, y), (z, _) in zip(labelled.loader(), unlabelled.loader(6), strict=False):
        loss = labelled.loss(x, y) + 0.1 * (labelled.model(z) - labelled.model(z + 0.01)).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return labelled.result(loss)


def adversarial_training():
    generator, discriminator = nn.Linear(2, 2), nn.Sequential(nn.Linear(2, 4), nn.ReLU(), nn.Linear(4, 1))
    optimizer_g = torch.optim.Adam(generator.parameters(), 1e-2)
    optimizer_d = torch.optim.Adam(discriminator.parameters(), 1e-2)
    bce = nn.BCEWithLogitsLoss()
    for _step in range(6):
        real, noise = torch.randn(8, 2) + 2, torch.randn(8, 2)
        fake = generator(noise)
        loss_d = bce(discriminator(real), torch.ones(8, 1)) + bce(discriminator(fake.detach()), torch.zeros(8, 1))
        optimizer_d.zero_grad()
        loss_d.backward()
        optimizer_d.step()
        loss_g = bce(discriminator(fake), torch.ones(8, 1))
        optimizer_g.zero_grad()
        loss_g.backward()
        optimizer_g.step()
    return [*generator.state_dict().values(), *discriminator.state_dict().values(), loss_d, loss_g]


def policy_optimization():
    policy, value = nn.Linear(3, 2), nn.Linear(3, 1)
    optimizer = torch.optim.Adam([*policy.parameters(), *value.parameters()], 1e-2)
    state, rollout = torch.randn(3), []
    for _ in range(12):
        with torch.no_grad():
            distribution = torch.distributions.Categorical(logits=policy(state))
            action = distribution.sample()
            rollout.append((state, action, distribution.log_prob(action), value(state)[0]))
        state = torch.tanh(state + 0.3 * (2 * action - 1) + 0.1 * torch.randn(3))
    states, actions, before, values = map(torch.stack, zip(*rollout, strict=True))
    returns, total = torch.zeros(12), 0.0
    for t in reversed(range(12)):
        total = float(states[t].sum()) + 0.9 * total
        returns[t] = total
    advantages = returns - values
    for _epoch in range(3):
        now = torch.distributions.Categorical(logits=policy(states)).log_prob(actions)
        ratio = (now - before).exp()
        clipped = torch.min(ratio * advantages, ratio.clamp(0.8, 1.2) * advantages)
        loss = -clipped.mean() + 0.5 * F.mse_loss(value(states)[:, 0], returns)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return [*policy.state_dict().values(), loss, returns]


def averaged_weights():
    task = _Regression()
    optimizer = torch.optim.SGD(task.model.parameters(), 0.1)
    ema = {name: p.detach().clone() for name, p in task.model.named_parameters()}
    averaged = torch.optim.swa_utils.AveragedModel(task.model)
    for epoch in range(4):
        for x, y in task.loader(12):
            optimizer.zero_grad()
            task.loss(x, y).backward()
            optimizer.step()
            with torch.no_grad():
                for name, p in task.model.named_parameters():
                    ema[name].lerp_(p, 0.1)
        if epoch >= 2:
            averaged.update_parameters(task.model)
    return [*ema.values(), *averaged.module.state_dict().values()]


def closures_of_lbfgs():
    task, losses = _Regression(), []
    optimizer = torch.optim.LBFGS(task.model.parameters(), max_iter=4, line_search_fn="strong_wolfe")
    for _ in range(3):

        def closure():
            optimizer.zero_grad()
            loss = task.loss()
            loss.backward()
            losses.append(loss.item())
            return loss

        optimizer.step(closure)
    return task.result(losses)


def truncated_backpropagation():
    cell, readout = nn.LSTMCell(2, 4), nn.Linear(4, 2)
    optimizer = torch.optim.Adagrad([*cell.parameters(), *readout.parameters()], 0.1)
    x = torch.randn(13, 3, 2)
    state, loss = None, 0
    for t in range(12):
        state = cell(x[t], state)
        loss = loss + F.mse_loss(readout(state[0]), x[t + 1])
        if t % 4 == 3:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
            state, loss = tuple(s.detach() for s in state), 0
    return [*cell.state_dict().values(), *readout.state_dict().values()]


TRAINING = {
    "training_with_clipping",
    "sgd_by_hand",
    "learning_rate_finder",
    "curriculum",
    "early_stopping",
    "gradient_accumulation",
    "two_loaders",
    "adversarial_training",
    "policy_optimization",
    "averaged_weights",
    "closures_of_lbfgs",
    "truncated_backpropagation",
}

LOOPS = {
    name: value
    for name, value in dict(globals()).items()
    if callable(value) and getattr(value, "__module__", "") == __name__ and not name.startswith("_")
}

"""Rows of the table of loops: recurrent networks, filters and sums."""

from __future__ import annotations

import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim
from tests.loop.loops import Batch, Data, Results, Row, feat, hidden, hidden_out, key, recur

key_out, between = Dim(5, name="key_out"), Dim(5, name="between")


def renamed(x: Tensor, old: Dim, new: Dim) -> Tensor:
    """With another Dim for one."""
    return rf.replace_dim(x, in_dim=old, out_dim=new)[0]


class Elman(Row):
    """tanh(W x + U h + b)"""

    def loop(self, b: Batch) -> Results:
        w, u, bias = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out), b.parameter("b", hidden)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            h = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + recur(loop.state.h, u) + bias)
            loop.state.h = h
            hs = loop.stack(h)
        return {"h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for x in d.frames(i):
            h = torch.tanh(x @ d["w"] + h @ d["u"] + d["b"])
            hs.append(h)
        return {"h": hs, "last h": h}


class BackwardElman(Row):
    """From the end to the start, on a square Linear."""

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat, hidden)
        u = b.module("u", lambda: rf.Linear(hidden, hidden))
        loop = b.loop()
        loop.state.h = b.h0
        backward = rf.reverse_sequence(b.x, axis=b.time)
        with loop:
            h = rf.tanh(rf.matmul(loop.unstack(backward), w, reduce=feat) + u(loop.state.h))
            loop.state.h = h
            hs = loop.stack(h)
        return {"h": rf.reverse_sequence(hs, axis=b.time).copy_transpose(hs.dims), "last h": loop.state.h}

    named = False  # it is turned round behind the loop

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs, u = d.h0[i], [], d.modules["u"]
        for x in d.frames(i).flip(0):
            h = torch.tanh(x @ d["w"] + h @ u.weight.raw_tensor + u.bias.raw_tensor)
            hs.append(h)
        return {"h": hs[::-1], "last h": h}


class Gru(Row):
    """Gated recurrent units."""

    def loop(self, b: Batch) -> Results:
        w = [b.parameter(f"w{n}", feat, hidden) for n in range(3)]
        u = [b.parameter(f"u{n}", hidden, hidden_out) for n in range(3)]
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            x, h = loop.unstack(b.x), loop.state.h
            update = rf.sigmoid(rf.matmul(x, w[0], reduce=feat) + recur(h, u[0]))
            reset = rf.sigmoid(rf.matmul(x, w[1], reduce=feat) + recur(h, u[1]))
            new = rf.tanh(rf.matmul(x, w[2], reduce=feat) + recur(reset * h, u[2]))
            loop.state.h = (1.0 - update) * h + update * new
            return_, updates = loop.stack(new), loop.stack(update)
        return {"new": return_, "update": updates, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, news, updates = d.h0[i], [], []
        for x in d.frames(i):
            z = torch.sigmoid(x @ d["w0"] + h @ d["u0"])
            r = torch.sigmoid(x @ d["w1"] + h @ d["u1"])
            n = torch.tanh(x @ d["w2"] + (r * h) @ d["u2"])
            h = (1 - z) * h + z * n
            news.append(n)
            updates.append(z)
        return {"new": news, "update": updates, "last h": h}


class LayerNormLstm(Row):
    """An LSTM by hand with a nested state and normalized gates."""

    def loop(self, b: Batch) -> Results:
        names = "input forget cell output".split()
        w = {n: b.parameter(f"w {n}", feat, hidden) for n in names}
        u = {n: b.parameter(f"u {n}", hidden, hidden_out) for n in names}
        scale, bias = b.parameter("scale", hidden), b.parameter("bias", hidden)
        loop = b.loop()
        loop.state.s = rf.State(h=b.h0, c=b.zeros(hidden))
        with loop:
            x, h = loop.unstack(b.x), loop.state.s.h
            pre = {n: rf.matmul(x, w[n], reduce=feat) + recur(h, u[n]) for n in names}
            pre = {n: rf.layer_norm(v, scale, bias, in_dim=hidden, eps=1e-3) for n, v in pre.items()}
            c = loop.state.s.c * rf.sigmoid(pre["forget"]) + rf.sigmoid(pre["input"]) * rf.tanh(pre["cell"])
            h = rf.sigmoid(pre["output"]) * rf.tanh(c)
            loop.state.s = rf.State(h=h, c=c)
            hs, cs = loop.stack(h), loop.stack(c)
        return {"h": hs, "c": cs, "last h": loop.state.s.h, "last c": loop.state.s.c}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, c, hs, cs = d.h0[i], d.zeros(4), [], []
        for x in d.frames(i):
            g = {
                n: torch.nn.functional.layer_norm(x @ d[f"w {n}"] + h @ d[f"u {n}"], (4,), d["scale"], d["bias"], 1e-3)
                for n in "input forget cell output".split()
            }
            c = c * torch.sigmoid(g["forget"]) + torch.sigmoid(g["input"]) * torch.tanh(g["cell"])
            h = torch.sigmoid(g["output"]) * torch.tanh(c)
            hs.append(h)
            cs.append(c)
        return {"h": hs, "c": cs, "last h": h, "last c": c}


class LstmModule(Row):
    """The module, step by step; torch's own cell by hand, whose gates come in another order."""

    def loop(self, b: Batch) -> Results:
        lstm = b.module("lstm", lambda: rf.LSTM(feat, hidden))
        loop = b.loop()
        loop.state.lstm = rf.LstmState(h=b.h0, c=b.zeros(hidden))
        with loop:
            out, loop.state.lstm = lstm(loop.unstack(b.x), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
            outs = loop.stack(out)
        return {"out": outs, "last c": loop.state.lstm.c}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        lstm, h, c, hs = d.modules["lstm"], d.h0[i], d.zeros(4), []
        for x in d.frames(i):
            gates = lstm.ff_weight.raw_tensor @ x + lstm.rec_weight.raw_tensor @ h + lstm.bias.raw_tensor
            gate_in, forget, cell, gate_out = gates.split(4)
            c = torch.sigmoid(forget) * c + torch.sigmoid(gate_in) * torch.tanh(cell)
            h = torch.sigmoid(gate_out) * torch.tanh(c)
            hs.append(h)
        return {"out": hs, "last c": c}


class Zoneout(Row):
    """Some units keep their value, by chance."""

    random = True

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            before = loop.state.h
            chance = rf.random_uniform([batch_dim, hidden], dtype=b.data.dtype)
            new = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + recur(before, u))
            h = rf.where(chance < 0.4, before, new)
            loop.state.h = h
            chances, hs = loop.stack(chance), loop.stack(h)
        return {"chance": chances, "h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for x, chance in zip(d.frames(i), ours["chance"], strict=True):
            h = torch.where(chance < 0.4, h, torch.tanh(x @ d["w"] + h @ d["u"]))
            hs.append(h)
        return {"chance": ours["chance"], "h": hs, "last h": h}


class Dropout(Row):
    """On the input, where it could be done before the steps, and on the state."""

    random = True

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            dropped = rf.dropout(loop.unstack(b.x), 0.5, on_forward=True)
            thinned = rf.dropout(loop.state.h, 0.25, on_forward=True)
            h = rf.tanh(rf.matmul(dropped, w, reduce=feat) + recur(thinned, u))
            loop.state.h = h
            outs = loop.stack(dropped), loop.stack(thinned), loop.stack(h)
        return dict(zip(("dropped", "thinned", "h"), outs, strict=True))

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, found = d.h0[i], {"dropped": [], "thinned": [], "h": []}
        for n, x in enumerate(d.frames(i)):
            dropped = x * (ours["dropped"][n] != 0) / 0.5
            thinned = h * (ours["thinned"][n] != 0) / 0.75
            h = torch.tanh(dropped @ d["w"] + thinned @ d["u"])
            for name, value in zip(found, (dropped, thinned, h), strict=True):
                found[name].append(value)
        return found


class RandomWalk(Row):
    """Normal noise of a learned size."""

    random = True

    def loop(self, b: Batch) -> Results:
        scale = b.parameter("scale", hidden)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            noise = rf.random_normal([batch_dim, hidden], dtype=b.data.dtype)
            other = rf.random_normal([batch_dim, hidden], dtype=b.data.dtype)
            h = 0.9 * loop.state.h + noise * rf.exp(scale) + other
            loop.state.h = h
            noises, others, hs = loop.stack(noise), loop.stack(other), loop.stack(h)
        return {"noise": noises, "other": others, "h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        drawn = [float(raw) for name in ("noise", "other") for noise in ours[name] for raw in noise]
        assert len(set(drawn)) == len(drawn), "each op draws other numbers at each step"
        for noise, other in zip(ours["noise"], ours["other"], strict=True):
            h = 0.9 * h + noise * d["scale"].exp() + other
            hs.append(h)
        return {"noise": ours["noise"], "other": ours["other"], "h": hs, "last h": h}


class MovingAverage(Row):
    """Exponential, with a learned decay; a state without batch counts the steps of all."""

    def loop(self, b: Batch) -> Results:
        decay = rf.sigmoid(b.parameter("decay", feat))
        loop = b.loop()
        loop.state.mean, loop.state.steps = b.zeros(feat), rf.zeros([], dtype="int64")
        with loop:
            mean = rf.lerp(loop.unstack(b.x), loop.state.mean, decay)
            loop.state.mean = mean
            loop.state.steps = loop.state.steps + 1
            means = loop.stack(mean)
        return {"mean": means, "last mean": loop.state.mean}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        mean, means, decay = d.zeros(3), [], torch.sigmoid(d["decay"])
        for x in d.frames(i):
            mean = decay * mean + (1 - decay) * x
            means.append(mean)
        return {"mean": means, "last mean": mean}


class RunningMax(Row):
    """The largest so far, and where it was."""

    def loop(self, b: Batch) -> Results:
        loop = b.loop()
        loop.state.best = rf.full(dims=[batch_dim, feat], fill_value=float("-inf"), dtype=b.data.dtype)
        loop.state.where = rf.full(dims=[batch_dim, feat], fill_value=-1, dtype="int64")
        with loop:
            x = loop.unstack(b.x)
            better = x > loop.state.best
            best = rf.where(better, x, loop.state.best)
            where = rf.where(better, loop.iter_idx, loop.state.where)
            loop.state.best, loop.state.where = best, where
            bests, wheres, betters = loop.stack(best), loop.stack(where), loop.stack(better)
        return {"best": bests, "where": wheres, "better": betters, "last": loop.state.best}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        x, found = d.frames(i), {"best": [], "where": [], "better": []}
        best, where = torch.full_like(d.zeros(3), float("-inf")), torch.full((3,), -1)
        for n in range(len(x)):
            better = x[n] > best
            best, where = torch.where(better, x[n], best), torch.where(better, n, where)
            for name, value in zip(found, (best, where, better), strict=True):
                found[name].append(value)
        return {**found, "last": best}


class RunningSums(Row):
    """Sum, and log of a sum of exponentials from log 0 on."""

    def loop(self, b: Batch) -> Results:
        loop = b.loop()
        loop.state.total = b.zeros(feat)
        loop.state.log_total = rf.full(dims=[batch_dim, feat], fill_value=float("-inf"), dtype=b.data.dtype)
        with loop:
            x = loop.unstack(b.x)
            loop.state.total += x
            loop.state.log_total = rf.log_add_exp(loop.state.log_total, x)
            total, log_total = loop.state.total, loop.state.log_total
            totals, log_totals = loop.stack(total), loop.stack(log_total)
        return {"total": totals, "log_total": log_totals, "last": loop.state.log_total}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        x = d.frames(i)
        logs = [torch.logsumexp(x[: n + 1], 0) for n in range(len(x))]
        last = logs[-1] if logs else torch.full_like(d.zeros(3), float("-inf"))
        return {"total": [x[: n + 1].sum(0) for n in range(len(x))], "log_total": logs, "last": last}


class Kalman(Row):
    """A filter of noisy observations of a position: mean, covariance, gain."""

    dtypes = ("float64",)

    def loop(self, b: Batch) -> Results:
        move = b.parameter("move", key, key_out)
        look, noise = b.parameter("look", key), rf.exp(b.parameter("noise"))
        identity = rf.convert_to_tensor(torch.eye(5, dtype=torch.float64), dims=[key, key_out])
        loop = b.loop()
        loop.state.mean = b.zeros(key)
        loop.state.cov = rf.expand_dim(identity, batch_dim)
        with loop:
            y = rf.reduce_sum(loop.unstack(b.x), axis=feat)
            mean = renamed(rf.matmul(loop.state.mean, move, reduce=key), key_out, key)
            right = renamed(move, key, between)
            half = rf.matmul(renamed(loop.state.cov, key_out, between), right, reduce=between)  # C A
            cov = rf.matmul(renamed(half, key, between), renamed(right, key_out, key), reduce=between)  # Aᵀ C A
            cov = cov + identity * 0.1
            across = renamed(rf.matmul(cov, look, reduce=key), key_out, key)
            gain = across / (rf.matmul(across, look, reduce=key) + noise)
            mean = mean + gain * (y - rf.matmul(mean, look, reduce=key))
            cov = cov - rf.combine_bc(gain, "mul", renamed(across, key, key_out))
            loop.state.mean, loop.state.cov = mean, cov
            means, gains = loop.stack(mean), loop.stack(gain)
        return {"mean": means, "gain": gains, "last cov": loop.state.cov.copy_transpose([batch_dim, key, key_out])}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        a, look, noise, means, gains = d["move"], d["look"], d["noise"].exp(), [], []
        mean, cov = d.zeros(5), torch.eye(5, dtype=torch.float64)
        for x in d.frames(i):
            mean, cov = mean @ a, a.T @ cov @ a + 0.1 * torch.eye(5, dtype=torch.float64)
            gain = cov @ look / (look @ cov @ look + noise)
            mean, cov = mean + gain * (x.sum() - mean @ look), cov - torch.outer(gain, cov @ look)
            means.append(mean)
            gains.append(gain)
        return {"mean": means, "gain": gains, "last cov": cov}


class WeightNorm(Row):
    """Weights of length one times a scale, made in the body though no step changes them."""

    def loop(self, b: Batch) -> Results:
        v, scale, w = (
            b.parameter("v", hidden, hidden_out),
            b.parameter("scale", hidden_out),
            b.parameter("w", feat, hidden),
        )
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            weight = v * scale * rf.rsqrt(rf.reduce_sum(rf.square(v), axis=hidden))
            h = rf.tanh(recur(loop.state.h, weight) + rf.matmul(loop.unstack(b.x), w, reduce=feat))
            loop.state.h = h
            hs, norm = loop.stack(h), loop.stack(weight)
        return {"h": hs, "weight": norm}

    alone = False  # what is stacked of the weights is as long as the batch

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        weight = d["v"] * d["scale"] / d["v"].square().sum(0).sqrt()
        for x in d.frames(i):
            h = torch.tanh(h @ weight + x @ d["w"])
            hs.append(h)
        return {"h": hs, "weight": [weight] * d.lengths[i]}


class BatchNorm(Row):
    """Statistics of the frames of one step; sequences that have ended give their last frame again."""

    alone = False

    def loop(self, b: Batch) -> Results:
        gamma, beta = b.parameter("gamma", feat), b.parameter("beta", feat)
        loop = b.loop()
        loop.state.s = b.zeros(feat)
        with loop:
            x = loop.unstack(b.x)
            mean, variance = rf.moments(x, batch_dim)
            normal = gamma * (x - mean) * rf.rsqrt(variance + 1e-2) + beta
            loop.state.s = loop.state.s + normal
            normals = loop.stack(normal)
        return {"normal": normals, "last s": loop.state.s}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        s, normals = d.zeros(3), []
        for n in range(d.lengths[i]):
            now = [d.x[k, min(n, length - 1)] if length else d.zeros(3) for k, length in enumerate(d.lengths)]
            x = torch.stack(now)
            y = d["gamma"] * (x - x.mean(0)) * (x.var(0, correction=0) + 1e-2).rsqrt() + d["beta"]
            s = s + y[i]
            normals.append(y[i])
        return {"normal": normals, "last s": s}


class BatchNormModule(Row):
    """The op in training, whose running statistics each step moves on."""

    alone = False

    def loop(self, b: Batch) -> Results:
        running = [rf.Parameter([feat], initial=start, trainable=False) for start in (0.0, 1.0)]
        gamma, w = b.parameter("gamma", feat), b.parameter("w", feat, hidden)
        rf.init_train_step_run_ctx(train_flag=True)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            normal = rf.batch_norm(
                loop.unstack(b.x), in_dim=feat, running_mean=running[0], running_variance=running[1], gamma=gamma,
                beta=None, affine=True, epsilon=1e-2, momentum=0.2,
            )  # fmt: skip
            h = rf.tanh(loop.state.h + rf.matmul(normal, w, reduce=feat))
            loop.state.h = h
            normals, hs = loop.stack(normal), loop.stack(h)
        return {"normal": normals, "h": hs, "last mean": rf.copy(running[0])}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        mean, h, normals, hs = d.zeros(3), d.h0[i], [], []
        for n in range(max(d.lengths)):
            x = torch.stack([d.x[k, min(n, t - 1)] if t else d.zeros(3) for k, t in enumerate(d.lengths)])
            mean = 0.8 * mean + 0.2 * x.mean(0).detach()
            normal = d["gamma"] * (x[i] - x.mean(0)) * (x.var(0, correction=0) + 1e-2).rsqrt()
            if n < d.lengths[i]:
                h = torch.tanh(h + normal @ d["w"])
                normals.append(normal)
                hs.append(h)
        return {"normal": normals, "h": hs, "last mean": mean}


class TruncatedGradients(Row):
    """No gradient goes back over every third step, and half of it over the others."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            halved = rf.scaled_gradient(loop.state.h, 0.5)
            before = rf.where(loop.iter_idx % 3 == 2, rf.stop_gradient(loop.state.h), halved)
            h = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + recur(before, u))
            loop.state.h = h
            hs = loop.stack(h)
        return {"h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for n, x in enumerate(d.frames(i)):
            before = h.detach() if n % 3 == 2 else h.detach() + (h - h.detach()) * 0.5
            h = torch.tanh(x @ d["w"] + before @ d["u"])
            hs.append(h)
        return {"h": hs, "last h": h}


class SlidingWindow(Row):
    """The last frames on an axis of fixed size, shifted in each step; the largest two of them, and the sum of all."""

    def loop(self, b: Batch) -> Results:
        window, two = Dim(3, name="window"), Dim(2, name="two")
        loop = b.loop()
        loop.state.window = b.zeros(window, feat)
        with loop:
            shifted = rf.shift_left(loop.state.window, axis=window, pad_value=0.0)
            last = rf.set_sparse_dim(rf.range_over_dim(window), None) == 2
            now = rf.where(last, loop.unstack(b.x), shifted, allow_broadcast_all_sources=True)
            best, places, _ = rf.top_k(now, axis=window, k_dim=two)
            sums = rf.cumsum(now, spatial_dim=window)
            loop.state.window = now
            outs = loop.stack(best), loop.stack(places), loop.stack(sums)
        dims = {"best": two, "places": two, "sums": window}
        found = {
            name: out.copy_transpose([b.time, batch_dim, dim, feat])
            for (name, dim), out in zip(dims.items(), outs, strict=True)
        }
        return {**found, "last": loop.state.window}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        frames, found = [d.zeros(3), d.zeros(3)], {"best": [], "places": [], "sums": []}
        now = torch.zeros_like(d.zeros(3, 3))
        for x in d.frames(i):
            frames.append(x)
            now = torch.stack([*([d.zeros(3)] if len(frames) < 3 else []), *frames[-3:]])
            best, places = now.topk(2, 0)
            for name, value in zip(found, (best, places, now.cumsum(0)), strict=True):
                found[name].append(value)
        return {**found, "last": now}


class RawCalls(Row):
    """Plain torch functions between the ops, one of them with two results' worth of work."""

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat, hidden)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            x = rf.matmul(loop.unstack(b.x), w, reduce=feat)
            squashed = rf.raw_call(torch.nn.functional.softsign, x, out_dims=x.dims)
            h = rf.raw_call(
                lambda a, c: torch.sin(a) + c.flip(-1), loop.state.h, squashed, out_dims=[batch_dim, hidden]
            )
            loop.state.h = h
            hs, parts = loop.stack(h), loop.stack(squashed)
        return {"h": hs, "squashed": parts, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs, parts = d.h0[i], [], []
        for x in d.frames(i):
            part = torch.nn.functional.softsign(x @ d["w"])
            h = torch.sin(h) + part.flip(-1)
            hs.append(h)
            parts.append(part)
        return {"h": hs, "squashed": parts, "last h": h}


class ComplexRotation(Row):
    """A complex state, turned by a learned angle."""

    dtypes = ("float32",)

    def loop(self, b: Batch) -> Results:
        angle = b.parameter("angle", hidden)
        loop = b.loop()
        loop.state.z = rf.make_complex(b.h0, b.h0 * 0.5)
        with loop:
            loud = rf.reduce_sum(loop.unstack(b.x), axis=feat)
            z = loop.state.z * rf.make_complex(rf.cos(angle), rf.sin(angle)) + rf.cast(loud, "complex64")
            loop.state.z = z
            parts = rf.abs(z)
            zs, sizes = loop.stack(z), loop.stack(parts)
        return {"z": zs, "parts": sizes, "last z": loop.state.z}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        z, zs, sizes = torch.complex(d.h0[i], d.h0[i] * 0.5), [], []
        for x in d.frames(i):
            z = z * torch.complex(d["angle"].cos(), d["angle"].sin()) + x.sum()
            zs.append(z)
            sizes.append(z.abs())
        return {"z": zs, "parts": sizes, "last z": z}


class HalfPrecision(Row):
    """A product in bfloat16, a state in float32, and one in bfloat16 that is computed in float32."""

    dtypes, tolerance = ("float32",), 2e-2

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h, loop.state.rough = b.h0, b.zeros(hidden, dtype="bfloat16")
        with loop:
            product = rf.matmul(rf.cast(loop.unstack(b.x), "bfloat16"), rf.cast(w, "bfloat16"), reduce=feat)
            h = rf.tanh(rf.cast(product, "float32") + recur(loop.state.h, u))
            loop.state.rough = rf.cast(loop.state.rough, "float32") * 0.5 + h
            loop.state.h = h
            products, hs = loop.stack(product), loop.stack(h)
        assert loop.state.rough.dtype == "bfloat16"
        return {"product": products, "h": hs, "last rough": loop.state.rough}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, rough, products, hs = d.h0[i], torch.zeros(4, dtype=torch.bfloat16), [], []
        for x in d.frames(i):
            product = x.bfloat16() @ d["w"].bfloat16()
            h = torch.tanh(product.float() + h @ d["u"])
            rough = (rough.float() * 0.5 + h).bfloat16()
            products.append(product)
            hs.append(h)
        return {"product": products, "h": hs, "last rough": rough}


class EnteredTwice(Row):
    """The same Loop again: it goes on from where it was."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h = b.h0
        for _ in range(2):
            with loop:
                h = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + recur(loop.state.h, u))
                loop.state.h = h
                hs = loop.stack(h)
        return {"h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h = d.h0[i]
        for _ in range(2):
            hs = []
            for x in d.frames(i):
                h = torch.tanh(x @ d["w"] + h @ d["u"])
                hs.append(h)
        return {"h": hs, "last h": h}


class TwoLayers(Row):
    """States in a list, in a dict, and a list in a dict."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.layers = [b.h0, {"h": b.zeros(hidden), "old": [b.h0 * 2.0]}]
        with loop:
            low, high = loop.state.layers
            low = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + recur(low, u))
            above = rf.tanh(recur(low, u) + high["h"] * high["old"][0])
            loop.state.layers = [low, {"h": above, "old": [high["h"]]}]
            lows, highs = loop.stack(low), loop.stack(above)
        first, second = loop.state.layers
        return {"low": lows, "above": highs, "last 0": first, "last 1": second["h"], "last 2": second["old"][0]}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        low, high, old, lows, highs = d.h0[i], d.zeros(4), d.h0[i] * 2, [], []
        for x in d.frames(i):
            low = torch.tanh(x @ d["w"] + low @ d["u"])
            high, old = torch.tanh(low @ d["u"] + high * old), high
            lows.append(low)
            highs.append(high)
        return {"low": lows, "above": highs, "last 0": low, "last 1": high, "last 2": old}


class NoneAmongStates(Row):
    """A part of a state that is not used here."""

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat, hidden)
        loop = b.loop()
        loop.state.s = rf.State(h=b.h0, c=None)
        with loop:
            h = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + loop.state.s.h)
            loop.state.s = rf.State(h=h, c=None)
            hs = loop.stack(h)
        assert loop.state.s.c is None
        return {"h": hs, "last h": loop.state.s.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for x in d.frames(i):
            h = torch.tanh(x @ d["w"] + h)
            hs.append(h)
        return {"h": hs, "last h": h}


class TwoInputs(Row):
    """Two tensors over the same axis, their dims in another order, one of them not over the batch; states as well."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        turned = (b.x * 2.0).copy_transpose([feat, b.time, batch_dim])
        places = rf.cast(rf.range_over_dim(b.time), b.data.dtype)
        loop = b.loop()
        loop.state.h = b.h0.copy_transpose([hidden, batch_dim])
        with loop:
            x = loop.unstack(b.x) + rf.square(loop.unstack(turned)) * loop.unstack(places)
            h = rf.tanh(rf.matmul(x, w, reduce=feat) + recur(loop.state.h, u))
            loop.state.h = h
            xs, hs = loop.stack(x), loop.stack(h)
        return {"x": xs, "h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, xs, hs = d.h0[i], [], []
        for n, x in enumerate(d.frames(i)):
            y = x + (2 * x) ** 2 * n
            h = torch.tanh(y @ d["w"] + h @ d["u"])
            xs.append(y)
            hs.append(h)
        return {"x": xs, "h": hs, "last h": h}


class SeveralStacks(Row):
    """The same twice, what no step changes, what only outputs need, the state before, an input as it is."""

    alone = False  # what is over no batch is as long as the batch

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            x = loop.unstack(b.x)
            before = loop.state.h
            h = rf.tanh(rf.matmul(x, w, reduce=feat) + recur(before, u))
            loop.state.h = h
            squared = rf.softmax(rf.square(h), axis=hidden)
            constant = rf.reduce_sum(w, axis=feat)
            outs = {"h": loop.stack(h), "before": loop.stack(before), "x": loop.stack(x)}
            outs |= {
                "squared": loop.stack(squared),
                "constant": loop.stack(constant),
                "h again": loop.stack(h, name="h"),
            }
            outside = loop.stack(b.h0)
        return {**outs, "h0 outside": outside}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, found = d.h0[i], {name: [] for name in ("h", "before", "x", "squared", "constant", "h again", "h0 outside")}
        for x in d.frames(i):
            before, h = h, torch.tanh(x @ d["w"] + h @ d["u"])
            values = (h, before, x, h.square().softmax(0), d["w"].sum(0), h, d.h0[i])
            for name, value in zip(found, values, strict=True):
                found[name].append(value)
        return found


class LastOfNoState(Row):
    """`last` of what the body computes, of an input, and of the state before."""

    at_least = 1

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat, hidden)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            x, before = loop.unstack(b.x), loop.state.h
            y = rf.matmul(x, w, reduce=feat)
            h = rf.tanh(y + before)
            loop.state.h = h
            lasts = {
                "last y": loop.last(y),
                "last x": loop.last(x),
                "last before": loop.last(before),
                "last h": loop.last(h),
            }
            hs = loop.stack(h)
        return {**lasts, "h": hs}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for x in d.frames(i):
            y, before = x @ d["w"], h
            h = torch.tanh(y + h)
            hs.append(h)
        return {"last y": y, "last x": x, "last before": before, "last h": h, "h": hs}


class OverFeatures(Row):
    """Over an axis of fixed size, of what has a time axis too."""

    named = True

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat)
        loop = b.loop(axis=feat)
        loop.state.s = b.zeros(b.time)
        with loop:
            x, scale = loop.unstack(b.x), loop.unstack(w)
            s = rf.sin(loop.state.s + x * scale)
            loop.state.s = s
            sums = loop.stack(s)
        return {"s": sums, "last s": loop.state.s}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        x, s, sums = d.frames(i), d.zeros(d.lengths[i]), []
        for n in range(3):
            s = torch.sin(s + x[:, n] * d["w"][n])
            sums.append(s)
        return {"s": sums, "last s": s}


class OverStaticTime(Row):
    """Over an axis of the data of one known size, and no state at all."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden)
        loop = b.loop(axis=hidden)
        with loop:
            y = rf.reduce_sum(loop.unstack(w) * loop.unstack(u), axis=feat) * rf.reduce_sum(b.h0, axis=hidden)
            ys = loop.stack(y)
        return {"y": ys}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        return {"y": [(d["w"][:, n] * d["u"][n]).sum() * d.h0[i].sum() for n in range(4)]}

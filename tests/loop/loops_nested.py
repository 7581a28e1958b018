"""Rows of the table of loops: loops inside of loops, and loops as functions."""

from __future__ import annotations

import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from tests.loop.loops import Batch, Data, Results, Row, feat, hidden, hidden_out, recur


class InnerOverMemory(Row):
    """In each step a recurrent network runs over the memory, from the state of the outer one."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop(name="outer")
        loop.state.h = b.h0
        with loop:
            inner = rf.Loop(axis=b.enc, name="inner")
            inner.state.g = loop.state.h
            x = rf.matmul(loop.unstack(b.x), w, reduce=feat)
            with inner:
                g = rf.tanh(recur(inner.state.g, u) + rf.matmul(inner.unstack(b.memory), w, reduce=feat) * x)
                inner.state.g = g
            h = rf.tanh(inner.state.g + x)
            loop.state.h = h
            hs = loop.stack(h)
        return {"h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for frame in d.frames(i):
            x, g = frame @ d["w"], h
            for m in d.memory_of(i):
                g = torch.tanh(g @ d["u"] + (m @ d["w"]) * x)
            h = torch.tanh(g + x)
            hs.append(h)
        return {"h": hs, "last h": h}


class InnerWithEnd(Row):
    """Adaptive computation: as many inner steps as each sequence needs, seven at most."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        halt = b.parameter("halt", hidden)
        loop = b.loop(name="outer")
        loop.state.h = b.h0
        with loop:
            inner = rf.Loop(max_seq_len=7, name="inner")
            inner.state.g, inner.state.budget = loop.state.h + rf.matmul(loop.unstack(b.x), w, reduce=feat), b.zeros()
            inner.state.steps = b.zeros(dtype="int32")
            with inner:
                g = rf.tanh(recur(inner.state.g, u))
                inner.state.budget = inner.state.budget + rf.sigmoid(rf.matmul(g, halt, reduce=hidden))
                inner.state.g, inner.state.steps = g, inner.state.steps + 1
                inner.end(inner.state.budget > 1.4, include_eos=True)
            loop.state.h = inner.state.g
            steps, budget = inner.state.steps, inner.state.budget
            taken, budgets = loop.stack(steps), loop.stack(budget)
        return {"steps": taken, "budget": budgets, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, taken, budgets = d.h0[i], [], []
        for x in d.frames(i):
            h, budget, steps = h + x @ d["w"], d.zeros(), 0
            while steps < 7 and budget <= 1.4:
                h, steps = torch.tanh(h @ d["u"]), steps + 1
                budget = budget + torch.sigmoid(h @ d["halt"])
            taken.append(steps)
            budgets.append(budget)
        return {"steps": taken, "budget": budgets, "last h": h}


class InnerWithEndWithoutIt(Row):
    """The step at which an inner loop ends does not count."""

    def loop(self, b: Batch) -> Results:
        loop = b.loop(name="outer")
        loop.state.total = b.zeros()
        with loop:
            x = loop.unstack(b.x)
            inner = rf.Loop(max_seq_len=9, name="inner")
            inner.state.s = rf.reduce_sum(rf.square(x), axis=feat) + 0.2
            with inner:
                doubled = inner.state.s * 2.0
                inner.end(doubled > 4.0, include_eos=False)
                inner.state.s = doubled
            total = loop.state.total + inner.state.s
            loop.state.total = total
            totals = loop.stack(total)
        return {"total": totals, "last total": loop.state.total}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        total, totals = d.zeros(), []
        for x in d.frames(i):
            s = x.square().sum() + 0.2
            for _ in range(9):
                if s * 2 > 4:
                    break
                s = s * 2
            total = total + s
            totals.append(total)
        return {"total": totals, "last total": total}


class TwoLevels(Row):
    """What an inner loop stacked is used in the outer step: attention over it."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop(name="outer")
        loop.state.h = b.h0
        with loop:
            x = rf.matmul(loop.unstack(b.x), w, reduce=feat)
            inner = rf.Loop(axis=b.enc, name="inner")
            inner.state.g = loop.state.h
            with inner:
                g = rf.tanh(recur(inner.state.g, u) + rf.matmul(inner.unstack(b.memory), w, reduce=feat))
                inner.state.g = g
                gs = inner.stack(g)
            weights = rf.softmax(rf.matmul(gs, x, reduce=hidden), axis=b.enc)
            h = rf.matmul(weights, gs, reduce=b.enc)
            loop.state.h = h
            all_weights, hs = loop.stack(weights), loop.stack(h)
        return {"weights": all_weights, "h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, all_weights, hs = d.h0[i], [], []
        for frame in d.frames(i):
            g, gs = h, []
            for m in d.memory_of(i):
                g = torch.tanh(g @ d["u"] + m @ d["w"])
                gs.append(g)
            weights = (torch.stack(gs) @ (frame @ d["w"])).softmax(0)
            h = weights @ torch.stack(gs)
            all_weights.append(weights)
            hs.append(h)
        return {"weights": all_weights, "h": hs, "last h": h}


class ThreeLevels(Row):
    """A loop over features, in one over the memory, in one over the frames."""

    def loop(self, b: Batch) -> Results:
        scale = b.parameter("scale", feat)
        loop = b.loop(name="outer")
        loop.state.s = b.zeros()
        with loop:
            x = loop.unstack(b.x)
            middle = rf.Loop(axis=b.enc, name="middle")
            middle.state.s = loop.state.s
            with middle:
                m = middle.unstack(b.memory)
                inner = rf.Loop(axis=feat, name="inner")
                inner.state.s = middle.state.s
                with inner:
                    product = inner.unstack(x) * inner.unstack(m) * inner.unstack(scale)
                    inner.state.s = rf.sin(inner.state.s + product)
                middle.state.s = inner.state.s * 0.9
            s = middle.state.s
            loop.state.s = s
            sums = loop.stack(s)
        return {"s": sums, "last s": loop.state.s}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        s, sums = d.zeros(), []
        for x in d.frames(i):
            for m in d.memory_of(i):
                for k in range(3):
                    s = torch.sin(s + x[k] * m[k] * d["scale"][k])
                s = s * 0.9
            sums.append(s)
        return {"s": sums, "last s": s}


class InnerThatDependsOnNoState(Row):
    """It is the same at each step, or one for each frame."""

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat, hidden)
        loop = b.loop(name="outer")
        loop.state.h = b.h0
        with loop:
            same = rf.Loop(axis=b.enc, name="same")
            same.state.g = b.zeros(feat)
            with same:
                same.state.g = rf.tanh(same.state.g * 0.5 + same.unstack(b.memory))
            frame = rf.Loop(max_seq_len=3, name="frame")
            frame.state.g = loop.unstack(b.x)
            with frame:
                frame.state.g = rf.tanh(frame.state.g + same.state.g)
            g = frame.state.g
            h = rf.tanh(loop.state.h + rf.matmul(g, w, reduce=feat))
            loop.state.h = h
            gs, hs = loop.stack(g), loop.stack(h)
        return {"g": gs, "h": hs}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        same, h, gs, hs = d.zeros(3), d.h0[i], [], []
        for m in d.memory_of(i):
            same = torch.tanh(same * 0.5 + m)
        for x in d.frames(i):
            for _ in range(3):
                x = torch.tanh(x + same)
            h = torch.tanh(h + x @ d["w"])
            gs.append(x)
            hs.append(h)
        return {"g": gs, "h": hs}


class RandomInside(Row):
    """An inner loop draws other numbers at each outer step."""

    random = True

    def loop(self, b: Batch) -> Results:
        w, draws = b.parameter("w", feat, hidden), Dim(3, name="draws")
        loop = b.loop(name="outer")
        loop.state.h = b.h0
        with loop:
            inner = rf.Loop(axis=draws, name="inner")
            inner.state.g = loop.state.h
            with inner:
                noise = rf.random_uniform([batch_dim, hidden], dtype=b.data.dtype)
                inner.state.g = rf.tanh(inner.state.g + noise)
                noises = inner.stack(noise)
            drawn = noises * 1.0
            h = rf.tanh(inner.state.g + rf.matmul(loop.unstack(b.x), w, reduce=feat))
            loop.state.h = h
            all_noises, hs = loop.stack(drawn), loop.stack(h)
        return {"drawn": all_noises, "h": hs}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for x, drawn in zip(d.frames(i), ours["drawn"], strict=True):
            assert len(torch.unique(drawn)) == drawn.numel()
            for noise in drawn:
                h = torch.tanh(h + noise)
            h = torch.tanh(h + x @ d["w"])
            hs.append(h)
        return {"drawn": ours["drawn"], "h": hs}


class ScanOverFrames(Row):
    """`rf.scan` with a state of two."""

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat, hidden)

        def body(x: rf.Tensor, state: rf.State) -> tuple[dict[str, rf.Tensor], rf.State]:
            h = rf.tanh(rf.matmul(x, w, reduce=feat) + state.h)
            return {"h": h, "sum": state.total + h}, rf.State(h=h, total=state.total + h)

        start = rf.State(h=b.h0, total=b.zeros(hidden))
        outs, last, b.over = rf.scan(spatial_dim=b.time, xs=b.x, initial=start, body=body)
        return {"h": outs["h"], "sum": outs["sum"], "last h": last.h, "last total": last.total}

    named = False

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, total, hs, sums = d.h0[i], d.zeros(4), [], []
        for x in d.frames(i):
            h = torch.tanh(x @ d["w"] + h)
            total = total + h
            hs.append(h)
            sums.append(total)
        return {"h": hs, "sum": sums, "last h": h, "last total": total}


class ScanWhile(Row):
    """`rf.scan` by a condition, until the state of a sequence is large."""

    def loop(self, b: Batch) -> Results:
        grow = b.parameter("grow")

        def body(_: None, n: rf.Tensor) -> tuple[rf.Tensor, rf.Tensor]:
            return n, n * 1.5 + rf.sigmoid(grow)

        limits = rf.cast(b.limits, b.data.dtype) * 2.0
        steps, last, b.over = rf.scan(initial=b.zeros(), cond=lambda _, n: n < limits, cond_dims=[batch_dim], body=body)
        return {"n": steps, "last n": last}

    named = False

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        n, steps = d.zeros(), []
        while n < 2 * d.lengths[i]:
            steps.append(n)
            n = n * 1.5 + torch.sigmoid(d["grow"])
        return {"n": steps, "last n": n}


class While(Row):
    """`rf.while_loop` of all sequences together: Newton's square root."""

    named = False
    alone = False  # the others go on as long as one does

    def loop(self, b: Batch) -> Results:
        wanted = rf.exp(b.h0)

        def goes_on(state: rf.State) -> rf.Tensor:
            error = rf.abs(rf.square(state.root) - wanted)
            return rf.reduce_max(error, axis=error.dims) > 1e-4

        def body(state: rf.State) -> rf.State:
            return rf.State(root=(state.root + wanted / state.root) * 0.5, steps=state.steps + 1)

        start = rf.State(root=wanted, steps=rf.zeros([], dtype="int32"))
        last = rf.while_loop(goes_on, body, start)
        return {"root": last.root, "steps": last.steps}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        wanted = d.h0.exp()
        root, steps = wanted, 0
        while (root.square() - wanted).abs().max() > 1e-4:
            root, steps = (root + wanted / root) * 0.5, steps + 1
        return {"root": root[i], "steps": steps}

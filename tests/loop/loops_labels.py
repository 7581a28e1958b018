"""Rows of the table of loops: labels, ends, and dynamic programming over sequences."""

from __future__ import annotations

from typing import Any

import torch

import rfnb as rf
from rfnb import Dim, Tensor, batch_dim
from tests.loop.loops import Batch, Data, Results, Row, feat, hidden, hidden_out, recur, tags, vocab

tags_before = Dim(4, name="tags before")
NONE = float("-inf")


def either(a: Tensor, b: Tensor) -> Tensor:
    """log(exp(a) + exp(b)); where both are log 0, without the NaN that torch gives for a gradient."""
    impossible = rf.logical_and(a == NONE, b == NONE)
    return rf.where(impossible, NONE, rf.log_add_exp(rf.where(impossible, 0.0, a), rf.where(impossible, 0.0, b)))


class Greedy(Row):
    """The best label is fed back, until it is 0; the last step of each counts."""

    include_eos = True

    def loop(self, b: Batch) -> Results:
        embedding, out = b.parameter("embedding", vocab, hidden), b.parameter("out", hidden, vocab)
        u = b.parameter("u", hidden, hidden_out)
        steps = Dim(None, name="steps")
        loop = b.loop(axis=steps, max_seq_len=b.limits)
        loop.state.h, loop.state.label = b.h0, b.zeros(dtype="int64", sparse_dim=vocab)
        with loop:
            h = rf.tanh(rf.gather(embedding, indices=loop.state.label) + recur(loop.state.h, u) * 3.0)
            scores = rf.log_softmax(rf.matmul(h, out, reduce=hidden), axis=vocab)
            label = rf.reduce_argmax(scores, axis=vocab)
            best = rf.reduce_max(scores, axis=vocab)
            loop.state.h, loop.state.label = h, label
            loop.end(label == 0, include_eos=self.include_eos)
            labels, bests = loop.stack(label), loop.stack(best)
        return {"label": labels, "best": bests, "last label": loop.state.label, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, label, labels, bests = d.h0[i], 0, [], []
        for _ in range(d.lengths[i]):
            new = torch.tanh(d["embedding"][label] + h @ d["u"] * 3)
            scores = (new @ d["out"]).log_softmax(0)
            best = int(scores.argmax())
            if best == 0 and not self.include_eos:
                break
            h, label = new, best
            labels.append(label)
            bests.append(scores[best])
            if best == 0:
                break
        return {"label": labels, "best": bests, "last label": label, "last h": h}


class GreedyWithoutEnd(Greedy):
    """The last step of each does not count."""

    include_eos = False


class Counter(Row):
    """Counts up to the length of each sequence, then ends by itself."""

    def loop(self, b: Batch) -> Results:
        loop = b.loop(max_seq_len=99)
        loop.state.n = b.zeros(dtype="int64")
        with loop:
            squared = loop.state.n * loop.state.n
            loop.end(loop.state.n == b.limits, include_eos=False)
            loop.state.n = loop.state.n + 1
            out = loop.stack(squared)
        return {"squared": out, "last n": loop.state.n}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        return {"squared": [n * n for n in range(d.lengths[i])], "last n": d.lengths[i]}


class CounterWithLimits(Row):
    """A largest number of steps for each sequence; the numbers of the steps are all there is."""

    def loop(self, b: Batch) -> Results:
        loop = b.loop(max_seq_len=b.limits)
        loop.state.total = b.zeros(dtype="int32")
        with loop:
            tripled = rf.cast(loop.iter_idx * 3, "int32")
            total = loop.state.total + tripled
            loop.state.total = total
            out = loop.stack(total)
        return {"total": out, "last total": loop.state.total}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        totals = [sum(3 * k for k in range(n + 1)) for n in range(d.lengths[i])]
        return {"total": totals, "last total": totals[-1] if totals else 0}


class TwoLimits(Row):
    """Data with lengths, and a largest number of steps for each sequence: half as many, but two are always allowed."""

    def loop(self, b: Batch) -> Results:
        longest = rf.maximum(rf.floor_divide(b.limits, 2), 2)
        loop = b.loop(axis=Dim(None, name="steps"), max_seq_len=longest)
        loop.state.s = b.zeros(feat)
        with loop:
            s = rf.sin(loop.state.s + loop.unstack(b.x, axis=b.time))
            loop.state.s = s
            sums = loop.stack(s)
        return {"s": sums, "last s": loop.state.s}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        s, sums = d.zeros(3), []
        for x in d.frames(i)[: max(d.lengths[i] // 2, 2)]:
            s = torch.sin(s + x)
            sums.append(s)
        return {"s": sums, "last s": s}


class EndsWithin(Row):
    """Data with lengths, and an end that may come before."""

    def loop(self, b: Batch) -> Results:
        w = b.parameter("w", feat, hidden)
        loop = b.loop()
        loop.state.h, loop.state.energy = b.h0, b.zeros()
        with loop:
            x = loop.unstack(b.x)
            h = rf.tanh(loop.state.h + rf.matmul(x, w, reduce=feat))
            energy = loop.state.energy + rf.reduce_sum(rf.square(x), axis=feat)
            loop.state.h, loop.state.energy = h, energy
            loop.end(energy > 3.0, include_eos=True)
            hs, energies = loop.stack(h), loop.stack(energy)
        return {"h": hs, "energy": energies, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, energy, hs, energies = d.h0[i], d.zeros(), [], []
        for x in d.frames(i):
            h, energy = torch.tanh(h + x @ d["w"]), energy + x.square().sum()
            hs.append(h)
            energies.append(energy)
            if energy > 3:
                break
        return {"h": hs, "energy": energies, "last h": h}


class Transducer(Row):
    """The state of the labels moves on only where the label is no blank."""

    def loop(self, b: Batch) -> Results:
        embedding, u = b.parameter("embedding", vocab, hidden), b.parameter("u", hidden, hidden_out)
        w = b.parameter("w", feat, hidden)
        loop = b.loop()
        loop.state.s = rf.State(h=b.h0, count=b.zeros(dtype="int32"))
        with loop:
            label = loop.unstack(b.labels)
            emits = rf.set_sparse_dim(label, None) > 2
            moved = rf.tanh(rf.gather(embedding, indices=label) + recur(loop.state.s.h, u))
            h = rf.where(emits, moved, loop.state.s.h)
            loop.state.s = rf.State(h=h, count=loop.state.s.count + rf.cast(emits, "int32"))
            joint = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + h)
            joints, emitted = loop.stack(joint), loop.stack(emits)
        return {"joint": joints, "emits": emitted, "last h": loop.state.s.h, "last count": loop.state.s.count}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, count, joints, emits = d.h0[i], 0, [], []
        for x, label in zip(d.frames(i), d.labels_of(i), strict=True):
            if label > 2:
                h, count = torch.tanh(d["embedding"][label] + h @ d["u"]), count + 1
            joints.append(torch.tanh(x @ d["w"] + h))
            emits.append(label > 2)
        return {"joint": joints, "emits": emits, "last h": h, "last count": count}


class Ngram(Row):
    """The last three labels as states, each handed on to the next."""

    def loop(self, b: Batch) -> Results:
        tables = [b.parameter(f"table {n}", vocab, hidden) for n in range(3)]
        loop = b.loop()
        loop.state.history = [b.zeros(dtype="int64", sparse_dim=vocab) for _ in range(3)]
        with loop:
            first, second, third = loop.state.history
            scores = rf.gather(tables[0], indices=first) * rf.gather(tables[1], indices=second)
            scores = rf.softmax(scores + rf.gather(tables[2], indices=third), axis=hidden)
            loop.state.history = [loop.unstack(b.labels), first, second]
            out = loop.stack(scores)
        return {"scores": out, "last label": loop.state.history[0], "second": loop.state.history[2]}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        labels, scores = [0, 0, 0, *d.labels_of(i)], []
        for n in range(len(labels) - 3):
            a, b, c = (d[f"table {k}"][labels[n + 2 - k]] for k in range(3))
            scores.append((a * b + c).softmax(0))
        return {"scores": scores, "last label": labels[-1], "second": labels[-3]}


class Sampling(Row):
    """A label by chance from what the last one says, fed back."""

    random = True

    def loop(self, b: Batch) -> Results:
        table = b.parameter("table", vocab, (following := Dim(6, name="following")))
        loop = b.loop(max_seq_len=b.limits)
        loop.state.label = b.zeros(dtype="int64", sparse_dim=vocab)
        with loop:
            probs = rf.softmax(rf.gather(table, indices=loop.state.label), axis=following)
            label = rf.random_choice_with_replacement([batch_dim], probs=probs, axis=following)
            prob = rf.gather(probs, indices=label, axis=following)
            loop.state.label = rf.set_sparse_dim(label, vocab)
            labels, seen = loop.stack(label), loop.stack(prob)
        return {"label": labels, "prob": seen, "last label": loop.state.label}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        last, probs = 0, []
        for label in map(int, ours["label"]):
            probs.append(d["table"][last].softmax(0)[label])
            last = label
        return {"label": ours["label"], "prob": probs, "last label": last}


class Flags(Row):
    """Bool states: whether a label has ever been there, which of them have; and how often, in whole numbers."""

    def loop(self, b: Batch) -> Results:
        loop = b.loop()
        loop.state.ever, loop.state.seen = b.zeros(dtype="bool"), b.zeros(vocab, dtype="bool")
        loop.state.counts = b.zeros(vocab, dtype="int16")
        with loop:
            label = loop.unstack(b.labels)
            here = rf.one_hot(label) > 0.5
            again = rf.gather(loop.state.seen, indices=label)
            ever = rf.logical_or(loop.state.ever, again)
            loop.state.ever, loop.state.seen = ever, rf.logical_or(loop.state.seen, here)
            loop.state.counts = loop.state.counts + rf.cast(here, "int16")
            evers, agains = loop.stack(ever), loop.stack(again)
        return {"ever": evers, "again": agains, "last seen": loop.state.seen, "last counts": loop.state.counts}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        labels = d.labels_of(i)
        agains = [label in labels[:n] for n, label in enumerate(labels)]
        counts = [labels.count(n) for n in range(6)]
        evers = [any(agains[: n + 1]) for n in range(len(labels))]
        return {"ever": evers, "again": agains, "last seen": [n > 0 for n in counts], "last counts": counts}


class Viterbi(Row):
    """The best way through tags, and back along the pointers in a second loop."""

    def loop(self, b: Batch) -> Results:
        emission, transition = b.parameter("emission", feat, tags), b.parameter("transition", tags_before, tags)
        loop = b.loop(name="forward")
        loop.state.score = b.zeros(tags)
        with loop:
            before = rf.replace_dim(loop.state.score, in_dim=tags, out_dim=tags_before)[0]
            ways = rf.combine_bc(before, "add", transition)
            pointer = rf.reduce_argmax(ways, axis=tags_before)
            score = rf.reduce_max(ways, axis=tags_before) + rf.matmul(loop.unstack(b.x), emission, reduce=feat)
            loop.state.score = score
            pointers, scores = loop.stack(pointer), loop.stack(score)
        last = rf.reduce_argmax(loop.state.score, axis=tags)
        backward = b.loop(name="backward")
        backward.state.tag = last
        turned = rf.reverse_sequence(pointers, axis=b.time)
        with backward:
            tag = backward.state.tag
            before = rf.gather(backward.unstack(turned), indices=tag, axis=tags)
            backward.state.tag = rf.set_sparse_dim(before, tags)
            path = backward.stack(tag)
        return {"pointer": pointers, "score": scores, "path": path, "best": rf.reduce_max(loop.state.score, axis=tags)}

    named = False  # two loops

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        score, pointers, scores = d.zeros(4), [], []
        for x in d.frames(i):
            best, pointer = (score[:, None] + d["transition"]).max(0)
            score = best + x @ d["emission"]
            pointers.append(pointer)
            scores.append(score)
        tag, path = int(score.argmax()), []
        for pointer in pointers[::-1]:
            path.append(tag)
            tag = int(pointer[tag])
        return {"pointer": pointers, "score": scores, "path": path, "best": score.max()}


class HmmForward(Row):
    """All ways from the first state to any, some of which are impossible: log 0."""

    def loop(self, b: Batch) -> Results:
        emission, free = b.parameter("emission", feat, tags), b.parameter("transition", tags_before, tags)
        before, after = rf.range_over_dim(tags_before), rf.range_over_dim(tags)
        allowed = rf.compare_bc(rf.set_sparse_dim(before, None), "less_equal", rf.set_sparse_dim(after, None))
        transition = rf.where(allowed, free, NONE)
        loop = b.loop()
        first = rf.where(rf.set_sparse_dim(after, None) == 0, 0.0, NONE)
        loop.state.alpha = rf.expand_dim(rf.cast(first, b.data.dtype), batch_dim)
        with loop:
            before = rf.replace_dim(loop.state.alpha, in_dim=tags, out_dim=tags_before)[0]
            ways = rf.reduce_logsumexp(rf.combine_bc(before, "add", transition), axis=tags_before)
            alpha = ways + rf.matmul(loop.unstack(b.x), emission, reduce=feat)
            loop.state.alpha = alpha
            alphas = loop.stack(alpha)
        total = rf.reduce_logsumexp(loop.state.alpha, axis=tags)
        return {"alpha": alphas, "total": total}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        ways: dict[int, Any] = {0: d.zeros()}
        alphas = []
        for x in d.frames(i):
            ways = {
                to: torch.logsumexp(torch.stack([ways[a] + d["transition"][a, to] for a in ways if a <= to]), 0)
                + x @ d["emission"][:, to]
                for to in range(4)
            }
            alphas.append(torch.stack([ways[n] for n in range(4)]))
        return {"alpha": alphas, "total": torch.logsumexp(torch.stack([*ways.values()]), 0)}


class CtcForward(Row):
    """All alignments of labels with blanks between them, over the states of a padded axis."""

    def loop(self, b: Batch) -> Results:
        out = b.parameter("out", feat, vocab)
        labels, states = b.memory_labels, b.enc
        jump = rf.set_sparse_dim(labels, None) != rf.shift_right(
            rf.set_sparse_dim(labels, None), axis=states, pad_value=-1
        )
        loop = b.loop()
        start = rf.full(dims=[batch_dim, states], fill_value=NONE, dtype=b.data.dtype)
        loop.state.label, loop.state.blank = start, start
        loop.state.none = b.zeros()  # nothing but blanks so far
        with loop:
            scores = rf.log_softmax(rf.matmul(loop.unstack(b.x), out, reduce=feat), axis=vocab)
            blank_score = rf.gather(scores, indices=0, axis=vocab)
            label_score = rf.gather(scores, indices=labels, axis=vocab)
            first = rf.range_over_dim(states) == 0
            from_blank = rf.shift_right(loop.state.blank, axis=states, pad_value=NONE)
            from_blank = rf.where(rf.set_sparse_dim(first, None), loop.state.none, from_blank)
            from_label = rf.where(jump, rf.shift_right(loop.state.label, axis=states, pad_value=NONE), NONE)
            label = either(either(loop.state.label, from_blank), from_label) + label_score
            blank = either(loop.state.blank, loop.state.label) + blank_score
            loop.state.label, loop.state.blank = label, blank
            loop.state.none = loop.state.none + blank_score
            alphas, blanks = loop.stack(label), loop.stack(blank)
        return {"label": alphas, "blank": blanks, "last none": loop.state.none}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        labels = d.memory_labels[i, : d.memory_lengths[i]].tolist()
        extended = [0]
        for label in labels:
            extended += [label, 0]
        alpha: list[Any] = [d.zeros(), *[None] * (2 * len(labels))]
        all_labels, all_blanks = [], []
        none = d.zeros() + NONE
        for x in d.frames(i):
            scores, new = (x @ d["out"]).log_softmax(0), []
            for s, label in enumerate(extended):
                ways = [alpha[s], alpha[s - 1] if s else None]
                if s % 2 and s > 1 and label != extended[s - 2]:
                    ways.append(alpha[s - 2])
                ways = [way for way in ways if way is not None]
                new.append(torch.logsumexp(torch.stack(ways), 0) + scores[label] if ways else None)
            alpha = new
            filled = [none if way is None else way for way in alpha]
            all_labels.append(torch.stack(filled[1::2]))
            all_blanks.append(torch.stack(filled[2::2]))
        return {"label": all_labels, "blank": all_blanks, "last none": alpha[0]}


class EditDistance(Row):
    """Row by row; the way along a row is a loop of its own over the other sequence."""

    def loop(self, b: Batch) -> Results:
        columns = rf.range_over_dim(b.enc)
        loop = b.loop(name="rows")
        loop.state.row = rf.expand_dim(rf.cast(rf.set_sparse_dim(columns, None) + 1, "int64"), batch_dim)
        loop.state.first = rf.zeros([batch_dim], dtype="int64")  # the cost of taking no column
        with loop:
            differs = rf.set_sparse_dim(b.memory_labels, None) != rf.set_sparse_dim(loop.unstack(b.labels), None)
            diagonal = rf.shift_right(loop.state.row, axis=b.enc, pad_value=loop.state.first)
            best = rf.minimum(diagonal + rf.cast(differs, "int64"), loop.state.row + 1)
            along = rf.Loop(axis=b.enc, name="along")
            along.state.left = loop.state.first + 1
            with along:
                here = rf.minimum(along.unstack(best), along.state.left + 1)
                along.state.left = here
                row = along.stack(here)
            loop.state.row, loop.state.first = row, loop.state.first + 1
            distance = along.state.left
            distances = loop.stack(distance)
        return {"distance": distances, "last row": loop.state.row}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        other = d.memory_labels[i, : d.memory_lengths[i]].tolist()
        row, distances = list(range(len(other) + 1)), []
        for n, label in enumerate(d.labels_of(i)):
            new = [n + 1]
            for k, their in enumerate(other):
                new.append(min(row[k] + (label != their), row[k + 1] + 1, new[k] + 1))
            row = new
            distances.append(row[-1])
        return {"distance": distances, "last row": row[1:]}


class Branches(Row):
    """One of two cells by what the frame says; the other's log of nothing gets into no gradient."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            x = loop.unstack(b.x)
            loud = rf.reduce_sum(x, axis=feat) > 0.0
            fast = rf.sigmoid(rf.matmul(x, w, reduce=feat) + recur(loop.state.h, u))
            slow = loop.state.h * 0.5 + rf.log(rf.exp(rf.matmul(x, w, reduce=feat)) + 1.0)
            h = rf.where(loud, fast, slow)
            loop.state.h = h
            hs, louds = loop.stack(h), loop.stack(loud)
        return {"h": hs, "loud": louds, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs, louds = d.h0[i], [], []
        for x in d.frames(i):
            loud = bool(x.sum() > 0)
            fast, slow = torch.sigmoid(x @ d["w"] + h @ d["u"]), h * 0.5 + torch.log(torch.exp(x @ d["w"]) + 1)
            h = fast if loud else slow
            hs.append(h)
            louds.append(loud)
        return {"h": hs, "loud": louds, "last h": h}


class BranchOfAll(Row):
    """Every third step another cell for all sequences: a condition of the body, without dims."""

    def loop(self, b: Batch) -> Results:
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            x = rf.matmul(loop.unstack(b.x), w, reduce=feat)
            before = loop.state.h
            h = rf.cond(loop.iter_idx % 3 == 1, lambda: rf.tanh(x + recur(before, u)), lambda: before * 0.5 + x)
            loop.state.h = h
            hs = loop.stack(h)
        return {"h": hs, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, hs = d.h0[i], []
        for n, x in enumerate(d.frames(i)):
            h = torch.tanh(x @ d["w"] + h @ d["u"]) if n % 3 == 1 else h * 0.5 + x @ d["w"]
            hs.append(h)
        return {"h": hs, "last h": h}


class BranchByState(Row):
    """A loop without batch: the state decides which side is taken, and one side has a loop inside."""

    alone = named = False

    def loop(self, b: Batch) -> Results:
        scale = b.parameter("scale", hidden)
        loop = b.loop(axis=Dim(None, name="steps"), max_seq_len=6)
        loop.state.s = scale * 0.1

        def grown() -> Tensor:
            inner = rf.Loop(max_seq_len=3, name="inner")
            inner.state.g = loop.state.s
            with inner:
                inner.state.g = inner.state.g * 1.6 + scale
            return inner.state.g

        with loop:
            small = rf.reduce_sum(rf.square(loop.state.s), axis=hidden) < 9.0
            s = rf.cond(small, grown, lambda: rf.sin(loop.state.s))
            loop.state.s = s
            out = loop.stack(s)
        return {"s": out, "last s": loop.state.s}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        s, out = d["scale"] * 0.1, []
        for _ in range(6):
            if s.square().sum() < 9:
                for _ in range(3):
                    s = s * 1.6 + d["scale"]
            else:
                s = torch.sin(s)
            out.append(s)
        return {"s": out, "last s": s}


class Beam(Row):
    """Hypotheses that reorder all states, until each has ended; what is stacked is of the order of its step."""

    named = False

    def loop(self, b: Batch) -> Results:
        beam, old = Dim(2, name="beam"), Dim(2, name="old beam")
        table, out = b.parameter("table", vocab, hidden), b.parameter("out", hidden, vocab)
        loop = b.loop(axis=Dim(None, name="steps"), max_seq_len=5)
        loop.state.h = rf.expand_dim(b.h0, beam)
        loop.state.label = b.zeros(beam, dtype="int64", sparse_dim=vocab)
        start = rf.where(rf.set_sparse_dim(rf.range_over_dim(beam), None) == 0, 0.0, -1e9)
        loop.state.score = rf.expand_dim(rf.cast(start, b.data.dtype), batch_dim)
        loop.state.done = b.zeros(beam, dtype="bool")
        with loop:
            h = rf.tanh(rf.gather(table, indices=loop.state.label) + loop.state.h)
            log_probs = rf.log_softmax(rf.matmul(h, out, reduce=hidden), axis=vocab)
            finished = rf.where(rf.set_sparse_dim(rf.range_over_dim(vocab), None) == 0, 0.0, -1e9)
            log_probs = rf.where(
                loop.state.done, rf.cast(finished, b.data.dtype), log_probs, allow_broadcast_all_sources=True
            )
            scores, (backrefs, labels), _ = rf.top_k(loop.state.score + log_probs, axis=[beam, vocab], k_dim=old)
            backrefs, labels, scores = (
                rf.replace_dim(t, in_dim=old, out_dim=beam)[0] for t in (backrefs, labels, scores)
            )
            loop.state.h = h
            loop.reorder(backrefs, beam)
            loop.state.label, loop.state.score = labels, scores
            loop.state.done = rf.logical_or(loop.state.done, labels == 0)
            taken, parents = loop.stack(labels), loop.stack(backrefs)
        results = {"label": taken, "parent": parents, "score": loop.state.score, "last h": loop.state.h}
        return {
            name: t.copy_transpose([d for d in (batch_dim, loop.axis, beam, hidden) if d in t.dims_set])
            for name, t in results.items()
        }

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        hyps: list[Any] = [(d.zeros(), 0, d.h0[i], False), (d.zeros() - 1e9, 0, d.h0[i], False)]
        all_labels, all_parents = [], []
        for _ in range(5):
            found = []
            for parent, (score, label, h, done) in enumerate(hyps):
                h = torch.tanh(d["table"][label] + h)
                log_probs = (h @ d["out"]).log_softmax(0)
                for n in range(6):
                    gain = d.zeros() - (1e9 if n else 0) if done else log_probs[n]
                    found.append((score + gain, n, h, done or n == 0, parent))
            best = sorted(found, key=lambda hyp: -float(hyp[0].detach()))[:2]
            hyps = [hyp[:4] for hyp in best]
            all_labels.append([hyp[1] for hyp in best])
            all_parents.append([hyp[4] for hyp in best])
        scores, hs = torch.stack([hyp[0] for hyp in hyps]), torch.stack([hyp[2] for hyp in hyps])
        return {"label": all_labels, "parent": all_parents, "score": scores, "last h": hs}

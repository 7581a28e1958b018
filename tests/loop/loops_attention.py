"""Rows of the table of loops: attention, pointers and memories."""

from __future__ import annotations

import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from tests.loop.loops import Batch, Data, Results, Row, feat, hidden, hidden_out, key, recur, vocab

window, one = Dim(3, name="window"), Dim(1, name="one")
slots = Dim(4, name="slots")


class AttentionDecoder(Row):
    """Teacher forcing, and the sum of all weights so far fed back."""

    def loop(self, b: Batch) -> Results:
        embedding = b.parameter("embedding", vocab, hidden)
        to_key, query = b.parameter("to key", feat, key), b.parameter("query", hidden, key)
        feedback, energy = b.parameter("feedback", key), b.parameter("energy", key)
        w, u = b.parameter("w", feat, hidden), b.parameter("u", hidden, hidden_out)
        out = b.parameter("out", hidden, vocab)
        loop = b.loop()
        loop.state.h = b.h0
        loop.state.accumulated = b.zeros(b.enc)
        loop.state.label = b.zeros(dtype="int64", sparse_dim=vocab)
        with loop:
            keys = rf.matmul(b.memory, to_key, reduce=feat)
            fed = rf.combine_bc(loop.state.accumulated, "mul", feedback)
            hiddens = rf.tanh(keys + rf.matmul(loop.state.h, query, reduce=hidden) + fed)
            weights = rf.softmax(rf.matmul(hiddens, energy, reduce=key), axis=b.enc)
            att = rf.matmul(weights, b.memory, reduce=b.enc)
            last = rf.gather(embedding, indices=loop.state.label, axis=vocab)
            h = rf.tanh(last + rf.matmul(att, w, reduce=feat) + recur(loop.state.h, u))
            logits = rf.log_softmax(rf.matmul(h, out, reduce=hidden), axis=vocab)
            loop.state.h, loop.state.accumulated = h, loop.state.accumulated + weights
            loop.state.label = loop.unstack(b.labels)
            outs = loop.stack(weights), loop.stack(logits)
        accumulated = loop.state.accumulated
        return {"weights": outs[0], "logits": outs[1], "last accumulated": accumulated, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, memory, label = d.h0[i], d.memory_of(i), 0
        accumulated, all_weights, all_logits = d.zeros(len(memory)), [], []
        for next_label in d.labels_of(i):
            hiddens = torch.tanh(
                memory @ d["to key"] + h @ d["query"] + accumulated[:, None] * d["feedback"],
            )
            weights = (hiddens @ d["energy"]).softmax(0)
            h = torch.tanh(d["embedding"][label] + (weights @ memory) @ d["w"] + h @ d["u"])
            accumulated = accumulated + weights
            all_weights.append(weights)
            all_logits.append((h @ d["out"]).log_softmax(0))
            label = next_label
        return {"weights": all_weights, "logits": all_logits, "last accumulated": accumulated, "last h": h}


class LocationAttention(Row):
    """A convolution over the weights of the step before."""

    def loop(self, b: Batch) -> Results:
        filters, query = b.parameter("filters", window, one, key), b.parameter("query", hidden, key)
        to_key, energy, w = b.parameter("to key", feat, key), b.parameter("energy", key), b.parameter("w", feat, hidden)
        loop = b.loop()
        loop.state.h, loop.state.weights = b.h0, b.zeros(b.enc)
        with loop:
            seen, _ = rf.conv(
                rf.expand_dim(loop.state.weights, one), in_dim=one, out_dim=key, in_spatial_dims=[b.enc],
                filter=filters, filter_size=[window], padding="same",
            )  # fmt: skip
            seen = seen + rf.matmul(b.memory, to_key, reduce=feat) + rf.matmul(loop.state.h, query, reduce=hidden)
            weights = rf.softmax(rf.matmul(rf.tanh(seen), energy, reduce=key), axis=b.enc)
            att = rf.matmul(weights, b.memory, reduce=b.enc)
            h = rf.tanh(loop.state.h + rf.matmul(att + loop.unstack(b.x), w, reduce=feat))
            loop.state.h, loop.state.weights = h, weights
            outs = loop.stack(weights), loop.stack(h)
        return {"weights": outs[0], "h": outs[1], "last weights": loop.state.weights}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, memory = d.h0[i], d.memory_of(i)
        weights, all_weights, hs = d.zeros(len(memory)), [], []
        for x in d.frames(i):
            padded = torch.nn.functional.pad(weights, (1, 1))
            seen = torch.stack([padded[n : n + 3] @ d["filters"][:, 0] for n in range(len(memory))])
            weights = (torch.tanh(seen + memory @ d["to key"] + h @ d["query"]) @ d["energy"]).softmax(0)
            h = torch.tanh(h + (weights @ memory + x) @ d["w"])
            all_weights.append(weights)
            hs.append(h)
        return {"weights": all_weights, "h": hs, "last weights": weights}


class HardAttention(Row):
    """A position that goes on by one when a probability says so, and stops at the end of the memory."""

    def loop(self, b: Batch) -> Results:
        w, go = b.parameter("w", feat, hidden), b.parameter("go", hidden)
        ends = rf.reduce_sum(rf.cast(rf.sequence_mask(b.enc), "int64"), axis=b.enc) - 1
        loop = b.loop()
        loop.state.h, loop.state.position = b.h0, b.zeros(dtype="int64")
        with loop:
            seen = rf.gather(b.memory, indices=loop.state.position, axis=b.enc)
            h = rf.tanh(loop.state.h + rf.matmul(seen + loop.unstack(b.x), w, reduce=feat))
            goes = rf.matmul(h, go, reduce=hidden) > 0.0
            position = rf.where(goes, rf.minimum(loop.state.position + 1, ends), loop.state.position)
            loop.state.h, loop.state.position = h, position
            positions, hs = loop.stack(position), loop.stack(h)
        return {"position": positions, "h": hs, "last position": loop.state.position}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, memory, position, positions, hs = d.h0[i], d.memory_of(i), 0, [], []
        for x in d.frames(i):
            h = torch.tanh(h + (memory[position] + x) @ d["w"])
            if h @ d["go"] > 0:
                position = min(position + 1, len(memory) - 1)
            positions.append(position)
            hs.append(h)
        return {"position": positions, "h": hs, "last position": position}


class Pointer(Row):
    """Each step points to the best frame of the loop's own axis that none has pointed to before."""

    def loop(self, b: Batch) -> Results:
        w, query = b.parameter("w", feat, hidden), b.parameter("query", hidden, feat)
        loop = b.loop()
        loop.state.h, loop.state.free = b.h0, rf.full(dims=[batch_dim, b.time], fill_value=True, dtype="bool")
        with loop:
            loop.unstack(b.labels)
            scores = rf.matmul(b.whole, rf.matmul(loop.state.h, query, reduce=hidden), reduce=feat)
            masked = rf.where(loop.state.free, scores, -1e9)
            weights = rf.softmax(masked, axis=b.time)
            pointer = rf.reduce_argmax(masked, axis=b.time)
            chosen = rf.gather(b.whole, indices=pointer, axis=b.time)
            best = rf.reduce_max(weights, axis=b.time)
            loop.state.h = rf.tanh(loop.state.h + rf.matmul(chosen, w, reduce=feat))
            loop.state.free = rf.logical_and(
                loop.state.free, rf.compare_bc(rf.range_over_dim(b.time), "not_equal", pointer)
            )
            pointers, bests = loop.stack(pointer), loop.stack(best)
        return {"pointer": pointers, "best": bests, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, x, pointers, bests = d.h0[i], d.frames(i), [], []
        free = torch.ones(len(x), dtype=torch.bool)
        for _ in x:
            scores = torch.where(free, x @ (h @ d["query"]), -1e9)
            pointer = int(scores.argmax())
            h = torch.tanh(h + x[pointer] @ d["w"])
            free = free & (torch.arange(len(x)) != pointer)
            pointers.append(pointer)
            bests.append(scores.softmax(0).max())
        return {"pointer": pointers, "best": bests, "last h": h}


class SelfAttention(Row):
    """Each frame over the whole sequence, the axis of the loop; no state is needed."""

    def loop(self, b: Batch) -> Results:
        query, to_key = b.parameter("query", feat, key), b.parameter("to key", feat, key)
        loop = b.loop()
        with loop:
            q = rf.matmul(loop.unstack(b.x), query, reduce=feat)
            weights = rf.softmax(rf.matmul(q, rf.matmul(b.whole, to_key, reduce=feat), reduce=key), axis=b.time)
            att = rf.matmul(weights, b.whole, reduce=b.time)
            atts = loop.stack(att)
        return {"att": atts}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        x = d.frames(i)
        return {"att": [((x @ d["to key"]) @ (frame @ d["query"])).softmax(0) @ x for frame in x]}


class CausalAttention(Row):
    """Over the frames up to this one, by a mask from the number of the step; and what was attended to goes on."""

    def loop(self, b: Batch) -> Results:
        query, w = b.parameter("query", feat, feat_out := Dim(3, name="feat out")), b.parameter("w", feat, hidden)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            q = rf.replace_dim(rf.matmul(loop.unstack(b.x), query, reduce=feat), in_dim=feat_out, out_dim=feat)[0]
            past = rf.compare_bc(rf.range_over_dim(b.time), "less_equal", loop.iter_idx)
            scores = rf.where(past, rf.matmul(q, b.whole, reduce=feat), float("-inf"))
            att = rf.matmul(rf.softmax(scores, axis=b.time), b.whole, reduce=b.time)
            h = rf.tanh(loop.state.h + rf.matmul(att, w, reduce=feat))
            loop.state.h = h
            atts, hs = loop.stack(att), loop.stack(h)
        return {"att": atts, "h": hs}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, x, atts, hs = d.h0[i], d.frames(i), [], []
        for n in range(len(x)):
            att = (x[: n + 1] @ (x[n] @ d["query"])).softmax(0) @ x[: n + 1]
            h = torch.tanh(h + att @ d["w"])
            atts.append(att)
            hs.append(h)
        return {"att": atts, "h": hs}


class GrowingCache(Row):
    """Keys of all steps so far, on an axis that grows by one at each."""

    def loop(self, b: Batch) -> Results:
        query, w = b.parameter("query", hidden, hidden_out), b.parameter("w", feat, hidden)
        past = Dim(0, name="past")
        loop = b.loop()
        loop.state.h, loop.state.past, loop.state.keys = b.h0, past, b.zeros(past, hidden)
        with loop:
            new = rf.tanh(rf.matmul(loop.unstack(b.x), w, reduce=feat) + loop.state.h)
            keys, longer = rf.cum_concat_step(new, prev_accum=loop.state.keys, axis=loop.state.past)
            weights = rf.softmax(rf.matmul(keys, recur(loop.state.h, query), reduce=hidden), axis=longer)
            h = rf.matmul(weights, keys, reduce=longer)
            loop.state.h, loop.state.keys, loop.state.past = h, keys, longer
            hs = loop.stack(h)
        return {"h": hs, "last keys": loop.state.keys.copy_transpose([batch_dim, loop.state.past, hidden])}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, keys, hs = d.h0[i], d.zeros(0, 4), []
        for x in d.frames(i):
            keys = torch.cat([keys, torch.tanh(x @ d["w"] + h)[None]])
            h = (keys @ (h @ d["query"])).softmax(0) @ keys
            hs.append(h)
        return {"h": hs, "last keys": keys}


class WrittenMemory(Row):
    """Slots that are written in turn and read by their content."""

    def loop(self, b: Batch) -> Results:
        w, to_query = b.parameter("w", feat, hidden), b.parameter("query", feat, hidden)
        loop = b.loop()
        loop.state.memory = b.zeros(slots, hidden)
        with loop:
            x = loop.unstack(b.x)
            place = rf.set_sparse_dim(loop.iter_idx % 4, slots)
            here = rf.cast(rf.one_hot(place), b.data.dtype)
            written = rf.combine_bc(here, "mul", rf.tanh(rf.matmul(x, w, reduce=feat)))
            memory = loop.state.memory * (1.0 - here) + written
            weights = rf.softmax(rf.matmul(memory, rf.matmul(x, to_query, reduce=feat), reduce=hidden), axis=slots)
            read = rf.matmul(weights, memory, reduce=slots)
            loop.state.memory = memory
            reads = loop.stack(read)
        return {"read": reads, "last memory": loop.state.memory}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        memory, reads = [d.zeros(4) for _ in range(4)], []
        for n, x in enumerate(d.frames(i)):
            memory[n % 4] = torch.tanh(x @ d["w"])
            now = torch.stack(memory)
            reads.append((now @ (x @ d["query"])).softmax(0) @ now)
        return {"read": reads, "last memory": torch.stack(memory)}


class StackMachine(Row):
    """Pushes where the label is even, pops where it is odd and there is something."""

    def loop(self, b: Batch) -> Results:
        loop = b.loop()
        depth = Dim(6, name="depth")
        loop.state.stack, loop.state.top = b.zeros(depth, feat), b.zeros(dtype="int64", sparse_dim=depth)
        with loop:
            x, label, top = loop.unstack(b.x), loop.unstack(b.labels), rf.set_sparse_dim(loop.state.top, None)
            push = rf.cast(label, "int64") % 2 == 0
            full = rf.where(push, 1.0, 0.0)
            new = rf.scatter(rf.cast(full, b.data.dtype) * x, indices=loop.state.top, indices_dim=[], out_dim=depth)
            free = rf.logical_or(rf.compare_bc(rf.range_over_dim(depth), "not_equal", top), rf.logical_not(push))
            stack = rf.where(free, loop.state.stack, new)
            moved = rf.where(push, rf.minimum(top + 1, 5), rf.maximum(top - 1, 0))
            popped = rf.gather(stack, indices=rf.maximum(moved - 1, 0), axis=depth)
            loop.state.stack, loop.state.top = stack, rf.set_sparse_dim(moved, depth)
            tops, seen = loop.stack(moved), loop.stack(popped)
        return {"moved": tops, "popped": seen, "last stack": loop.state.stack, "last top": loop.state.top}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        stack, top, tops, seen = [d.zeros(3) for _ in range(6)], 0, [], []
        for x, label in zip(d.frames(i), d.labels_of(i), strict=True):
            if label % 2 == 0:
                stack[top] = x
                top = min(top + 1, 5)
            else:
                top = max(top - 1, 0)
            tops.append(top)
            seen.append(stack[max(top - 1, 0)])
        return {"moved": tops, "popped": seen, "last stack": torch.stack(stack), "last top": top}


class DotAttention(Row):
    """The composite op over the memory, and the frames of two tensors of the memory's kind."""

    def loop(self, b: Batch) -> Results:
        w, query = b.parameter("w", feat, hidden), b.parameter("query", hidden, key)
        to_key = b.parameter("to key", feat, key)
        loop = b.loop()
        loop.state.h = b.h0
        with loop:
            q = rf.matmul(loop.state.h, query, reduce=hidden)
            keys = rf.matmul(b.memory, to_key, reduce=feat)
            att = rf.dot_attention(q, keys, b.memory, key_dim=key, axis=b.enc)
            h = rf.tanh(loop.state.h + rf.matmul(att * loop.unstack(b.x), w, reduce=feat))
            loop.state.h = h
            atts = loop.stack(att)
        return {"att": atts, "last h": loop.state.h}

    def hand(self, d: Data, i: int, ours: Results) -> Results:
        h, memory, atts = d.h0[i], d.memory_of(i), []
        for x in d.frames(i):
            att = ((memory @ d["to key"]) @ (h @ d["query"]) / 5**0.5).softmax(0) @ memory
            h = torch.tanh(h + (att * x) @ d["w"])
            atts.append(att)
        return {"att": atts, "last h": h}

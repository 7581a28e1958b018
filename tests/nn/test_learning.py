"""Small models learn small tasks: if they do not, something between data and optimizer is wrong."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim

RATE = 8000
TONES = (300, 500, 800, 1300, 2100)
"""In Hz: the letters of the tone language."""
WORDS = ("red", "green", "blue", "black", "white")


def trained(module, loss_of, *, steps, rate, warmup=20):
    """`module` after so many steps; `loss_of(step)` is a scalar."""
    optimizer = torch.optim.AdamW([p.raw_tensor for p in module.parameters() if not p.auxiliary], lr=rate)
    for step in range(steps):
        optimizer.param_groups[0]["lr"] = rate * min((step + 1) / warmup, 1.0, 2 * (steps - step) / steps)
        rf.init_train_step_run_ctx(train_flag=True, step=step)
        loss = loss_of(step).raw_tensor
        optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_([p.raw_tensor for p in module.parameters() if not p.auxiliary], 1.0)
        optimizer.step()
    rf.init_forward_step_run_ctx()
    return module


def padded(sequences, dim, sparse_dim=None):
    """{batch, dim} of sequences of numbers."""
    longest = max(len(sequence) for sequence in sequences)
    raw = np.zeros([len(sequences), longest], np.asarray(sequences[0]).dtype)
    for row, sequence in zip(raw, sequences, strict=True):
        row[: len(sequence)] = sequence
    lengths = [len(sequence) for sequence in sequences]
    return rf.convert_to_tensor(raw, dims=[batch_dim, dim], lengths=lengths, sparse_dim=sparse_dim)


def sequences_of(x, dim):
    """The valid entries of each sequence, as lists."""
    raw, lengths = x.copy_transpose([batch_dim, dim]).numpy(), x.size_of(dim).values
    return [row[:n].tolist() for row, n in zip(raw, np.broadcast_to(lengths, len(raw)), strict=True)]


def tone_batch(rng, count):
    """Letters of the tone language, and how they sound: tones of different length with pauses and noise."""
    labels = [rng.integers(0, len(TONES), rng.integers(2, 6)) for _ in range(count)]
    sounds = []
    for sequence in labels:
        parts = []
        for label in sequence:
            times = np.arange(int(RATE * rng.uniform(0.06, 0.1))) / RATE
            parts += [np.sin(2 * np.pi * TONES[label] * times), np.zeros(int(RATE * rng.uniform(0.02, 0.05)))]
        sound = np.concatenate(parts)
        sounds.append((sound + 0.05 * rng.normal(size=len(sound))).astype("float32"))
    return sounds, labels


class ConformerCtc(rf.Module):
    """Log mel features, a Conformer, and a score for each letter and blank, which is the last one."""

    def __init__(self, letters, sampling_rate=RATE):
        self.sampling_rate = sampling_rate
        self.mels, model = rf.Dim(20, name="mels"), rf.Dim(32, name="model")
        self.letters, self.with_blank = letters, letters + 1
        frontend = rf.ConformerConvSubsample(
            self.mels, out_dims=[8, 8], filter_sizes=[3, 3], pool_sizes=[(1, 2)], strides=[(2, 1), (2, 2)]
        )
        options = {"num_heads": 2, "conv_kernel_size": 5, "ff_dim": 64, "dropout": 0.0, "input_dropout": 0.0}
        self.encoder = rf.ConformerEncoder(self.mels, model, num_layers=1, input_layer=frontend, **options)
        self.logits = rf.Linear(model, self.with_blank)

    def __call__(self, sound, *, samples):
        """{batch, samples} → {batch, frames, letters and blank}, and the dim of the frames"""
        x, time = rf.audio.log_mel_filterbank_from_raw(
            sound, in_spatial_dim=samples, out_dim=self.mels, sampling_rate=self.sampling_rate
        )
        x = rf.audio.specaugment(x, spatial_dim=time, feature_dim=self.mels, max_consecutive_spatial_dims=2)
        x, frames = self.encoder(x * 0.3 + 1.0, in_spatial_dim=time)
        return self.logits(x), frames

    def loss(self, sounds, labels):
        """Of a batch; -log p per sequence."""
        samples, spelling = rf.Dim(None, name="samples"), rf.Dim(None, name="spelling")
        logits, frames = self(padded(sounds, samples), samples=samples)
        targets = padded(labels, spelling, self.letters)
        loss = rf.ctc_loss(
            logits=logits, targets=targets, input_spatial_dim=frames, targets_spatial_dim=spelling,
            blank_index=self.letters.dimension,
        )  # fmt: skip
        return rf.reduce_mean(loss, axis=batch_dim)

    def greedy(self, sounds):
        """The best label of each frame, without repetitions and blanks."""
        samples = rf.Dim(None, name="samples")
        logits, frames = self(padded(sounds, samples), samples=samples)
        best = sequences_of(rf.reduce_argmax(logits, axis=self.with_blank), frames)
        blank = self.letters.dimension
        return [[a for a, b in zip(row, [blank, *row], strict=False) if a not in (b, blank)] for row in best]


def error_rate(found, expected):
    """Edits over the number of labels."""
    return sum(edits(a, list(b)) for a, b in zip(found, expected, strict=True)) / sum(len(b) for b in expected)


def edits(a, b):
    """Insertions, deletions and substitutions from a to b (Levenshtein)."""
    row = list(range(len(b) + 1))
    for i, x in enumerate(a, 1):
        last, row[0] = row[0], i
        for j, y in enumerate(b, 1):
            last, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, last + (x != y))
    return row[-1]


@pytest.mark.slow
def test_a_conformer_learns_tones_by_ctc():
    rf.set_random_seed(3)
    rng = np.random.default_rng(3)
    model = ConformerCtc(rf.Dim(len(TONES), name="letters"))
    trained(model, lambda step: model.loss(*tone_batch(rng, 16)), steps=120, rate=4e-3)
    sounds, labels = tone_batch(np.random.default_rng(99), 40)
    assert error_rate(model.greedy(sounds), labels) < 0.1


def spoken(word, voice, speed):
    """A word as eSpeak NG says it, at 11025 Hz, without the silence around it. speed: words per minute."""
    said = ["espeak-ng", "-v", f"en-us+{voice}", "-s", str(speed), "--stdout", word]
    wav = subprocess.run(said, capture_output=True, check=True).stdout[44:]  # behind the header, at 22050 Hz
    sound = np.frombuffer(wav[: len(wav) // 4 * 4], "<i2").reshape(-1, 2).mean(axis=1) / 2**15
    loud = np.flatnonzero(np.abs(sound) > 0.01)
    return sound[loud[0] : loud[-1] + 300]


def speakers(voices, speeds):
    """All words of each voice at each speed."""
    return [[spoken(word, voice, speed) for word in WORDS] for voice in voices for speed in speeds]


def speech_batch(rng, speakers, count):
    """One to three words of one speaker after each other, in noise; and which ones."""
    labels = [rng.integers(0, len(WORDS), rng.integers(1, 4)) for _ in range(count)]
    sounds = [np.concatenate([speakers[who][word] for word in sequence])
              for sequence, who in zip(labels, rng.integers(0, len(speakers), count), strict=True)]  # fmt: skip
    return [(sound + 0.01 * rng.normal(size=len(sound))).astype("float32") for sound in sounds], labels


@pytest.mark.skipif(shutil.which("espeak-ng") is None, reason="espeak-ng is not installed, which speaks the words")
def test_a_conformer_learns_spoken_words_by_ctc():
    """And knows them from voices and at speeds that it has not heard."""
    rf.set_random_seed(3)
    rng = np.random.default_rng(3)
    heard, unheard = speakers(["m1", "m3", "m5", "f1", "f2", "f4"], [220, 260, 300]), speakers(["m2", "f3"], [240, 280])
    model = ConformerCtc(rf.Dim(len(WORDS), name="words"), sampling_rate=11025)
    trained(model, lambda step: model.loss(*speech_batch(rng, heard, 16)), steps=100, rate=6e-3)
    sounds, labels = speech_batch(np.random.default_rng(99), unheard, 40)
    assert error_rate(model.greedy(sounds), labels) < 0.15


def test_edits():
    assert [edits("kitten", "sitting"), edits("", "ab"), edits("ab", "ab")] == [3, 2, 0]


class Reverser(rf.Module):
    """A Transformer that says a word backwards; label 0 is both the begin and the end of a sentence."""

    def __init__(self, letters):
        self.letters, model = letters, rf.Dim(32, name="model")
        options = {"num_layers": 1, "num_heads": 2, "ff_dim": 64, "dropout": 0.0, "att_dropout": 0.0}
        self.encoder = rf.TransformerEncoder(letters, model, **options)
        self.decoder = rf.TransformerDecoder(model, letters, model, **options)

    def encoded(self, words):
        """What the decoder needs of the encoder."""
        time = rf.Dim(None, name="spelling")
        return self.decoder.transform_encoder(
            self.encoder(padded(words, time, self.letters), spatial_dim=time), axis=time
        )

    def loss(self, words):
        """Cross-entropy of each next letter, by teacher forcing."""
        time = rf.Dim(None, name="time")
        before, after = ([np.concatenate(pair) for pair in pairs] for pairs in (
            [([0], word[::-1]) for word in words], [(word[::-1], [0]) for word in words]
        ))  # fmt: skip
        targets = padded(after, time, self.letters)
        logits, _ = self.decoder(
            padded(before, time, self.letters),
            spatial_dim=time,
            state=self.decoder.default_initial_state(batch_dims=[batch_dim]),
            encoder=self.encoded(words),
        )
        loss = rf.cross_entropy(estimated=logits, target=targets, axis=self.letters, estimated_type="logits")
        return rf.reduce_mean(loss, axis=[batch_dim, time])

    def greedy(self, words, longest):
        """The best letters, step by step."""
        encoder = self.encoded(words)
        loop = rf.Loop(max_seq_len=longest)
        loop.state.label = rf.zeros([batch_dim], dtype="int64", sparse_dim=self.letters)
        loop.state.decoder = self.decoder.default_initial_state(batch_dims=[batch_dim])
        with loop:
            logits, loop.state.decoder = self.decoder(
                loop.state.label, spatial_dim=rf.single_step_dim, state=loop.state.decoder, encoder=encoder
            )
            loop.state.label = rf.cast(rf.reduce_argmax(logits, axis=self.letters), "int64")
            labels = loop.stack(loop.state.label)
        rows = labels.copy_transpose([batch_dim, labels.dims[0]]).numpy().tolist()
        return [row[: row.index(0)] if 0 in row else row for row in rows]


def words_of(rng, count, letters):
    return [rng.integers(1, letters, rng.integers(1, 7)) for _ in range(count)]


@pytest.mark.slow
def test_a_transformer_learns_to_reverse_and_decodes_step_by_step():
    rf.set_random_seed(5)
    rng = np.random.default_rng(5)
    model = Reverser(rf.Dim(8, name="letters"))
    trained(model, lambda step: model.loss(words_of(rng, 64, 8)), steps=350, rate=5e-3)
    words = words_of(np.random.default_rng(99), 100, 8)
    found = model.greedy(words, longest=8)
    assert np.mean([a == word[::-1].tolist() for a, word in zip(found, words, strict=True)]) >= 0.95

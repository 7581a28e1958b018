"""`rf.check.batch_invariance` for plain torch: each sequence in its batch and alone."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import nn

import rfnb as rf

LENGTHS = [7, 3, 5]
BATCH, FRAMES, SIZE = 3, 7, 8
torch.manual_seed(0)
X = torch.randn(BATCH, FRAMES, SIZE)
PADDING = torch.arange(FRAMES) >= torch.tensor(LENGTHS)[:, None]
CAUSAL = nn.Transformer.generate_square_subsequent_mask(FRAMES)


def encoder(**options: Any) -> nn.Module:
    torch.manual_seed(0)
    layer = nn.TransformerEncoderLayer(SIZE, 2, 16, **options)
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False).eval()


class Packed(nn.Module):
    """An LSTM in both directions, which is given the lengths."""

    def __init__(self):
        super().__init__()
        self.lstm = nn.LSTM(SIZE, 5, batch_first=True, bidirectional=True)
        self.out = nn.Linear(10, 4)

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> Any:
        packed = nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)
        output, (h, _) = self.lstm(packed)
        y, _ = nn.utils.rnn.pad_packed_sequence(output, batch_first=True)
        return self.out(y), h


class Convolved(nn.Module):
    def __init__(self, use_mask: bool):
        super().__init__()
        self.layers = nn.ModuleList([nn.Conv1d(SIZE, SIZE, 3, padding=1), nn.Conv1d(SIZE, SIZE, 3, padding=1)])
        self.use_mask = use_mask

    def forward(self, x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        x, mask = x.mT, torch.arange(x.shape[1]) < lengths[:, None, None]
        for layer in self.layers:
            x = layer(torch.where(mask, x, 0.0) if self.use_mask else x)
        return x.mT


class Normed(nn.Module):
    def __init__(self):
        super().__init__()
        self.norm = nn.BatchNorm1d(SIZE)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.norm(x.mT).mT


def pooled(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    frames = (~mask).float()[..., None]
    return (x * frames).sum(1) / frames.sum(1)


def attending(input_ids: torch.Tensor, attention_mask: torch.Tensor) -> dict[str, Any]:
    x = torch.nn.functional.one_hot(input_ids, 10).float()
    scores = (x @ x.mT).masked_fill(attention_mask[:, None] == 0, -torch.inf)
    return {"logits": scores.softmax(-1) @ x, "past": None}


def summed(x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    return x.softmax(-1)[~mask].sum()


IDS = torch.randint(0, 10, (BATCH, FRAMES))
TARGETS, TARGET_PADDING = torch.randn(BATCH, 4, SIZE), torch.arange(4) >= torch.tensor([2, 4, 3])[:, None]
SOUND = {
    "linear": lambda check: check(nn.Linear(SIZE, 4), X, lengths=LENGTHS),
    "lengths as a tensor, padded further": lambda check: check(nn.Linear(SIZE, 4), X[:2], lengths=torch.tensor([4, 3])),
    "padding mask": lambda check: check(encoder(batch_first=True), X, src_key_padding_mask=PADDING),
    "padding mask of floats, and a causal one": lambda check: check(
        encoder(batch_first=True), X, CAUSAL, torch.zeros(3, 7).masked_fill(PADDING, -torch.inf)
    ),
    "causal mask": lambda check: check(encoder(batch_first=True), X, CAUSAL, lengths=LENGTHS),
    "frames first": lambda check: check(encoder(), X.transpose(0, 1), src_key_padding_mask=PADDING),
    "packed": lambda check: check(Packed(), X, lengths=torch.tensor(LENGTHS)),
    "packed, a list": lambda check: check(Packed(), X, lengths=LENGTHS),
    "packed, by position": lambda check: check(Packed(), X, torch.tensor(LENGTHS)),
    "one direction": lambda check: check(lambda x: nn.LSTM(SIZE, 5, batch_first=True)(x)[0] * 0, X, lengths=LENGTHS),
    "conv with masks": lambda check: check(Convolved(True), X, lengths=torch.tensor(LENGTHS)),
    "norm": lambda check: check(Normed().eval(), X, lengths=LENGTHS),
    "pooled": lambda check: check(pooled, X, PADDING, lengths=LENGTHS),
    "pooled by a mask": lambda check: check(pooled, X, mask=PADDING),
    "attention mask": lambda check: check(attending, input_ids=IDS, attention_mask=(~PADDING).long()),
    "a sum of all sequences": lambda check: check(summed, X, mask=PADDING),
    "a dict": lambda check: check(lambda a: SimpleNamespace(y=a["x"] * 2), {"x": X, "id": "a"}, lengths=LENGTHS),
    "labels": lambda check: check(lambda x: x.argmax(-1), X, lengths=LENGTHS),
    "no frames": lambda check: check(lambda x: x + x.amax(1, keepdim=True) * 0, X, lengths=[7, 0, 3]),
    "one frame each": lambda check: check(encoder(batch_first=True), X[:, :1], lengths=[1, 1, 1]),
    "one sequence": lambda check: check(encoder(batch_first=True), X[:1], src_key_padding_mask=PADDING[1:2]),
    "as many sequences as frames": lambda check: check(lambda x: x.cumsum(1), X[:, :3], lengths=[3, 1, 2]),
    "two lengths": lambda check: check(
        nn.Transformer(SIZE, 2, 1, 1, 16, batch_first=True).eval(), X, TARGETS,
        src_key_padding_mask=PADDING, tgt_key_padding_mask=TARGET_PADDING, memory_key_padding_mask=PADDING,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SOUND)
def test_sound(name):
    report = SOUND[name](rf.check.batch_invariance)
    assert report, repr(report)
    assert report.results > 0
    assert not report.cause


WRONG = {
    "no mask": (lambda check: check(encoder(batch_first=True), X, lengths=LENGTHS), "multi_head_attention_forward", 1),
    "no mask, one sequence": (
        lambda check: check(encoder(batch_first=True), X[:1], lengths=[4]), "multi_head_attention_forward", 0,
    ),
    "both directions": (
        lambda check: check(nn.LSTM(SIZE, 5, batch_first=True, bidirectional=True), X, lengths=LENGTHS), "lstm", 1,
    ),
    "conv without masks": (lambda check: check(Convolved(False), X, lengths=torch.tensor(LENGTHS)), "conv1d", 1),
    "mean": (lambda check: check(lambda x: x.mean(1), X, lengths=LENGTHS), "mean", 1),
    "another mask": (
        lambda check: check(lambda input_ids, attention_mask: attending(input_ids, attention_mask + 1),
                            input_ids=IDS, attention_mask=(~PADDING).long()), "softmax", 1,
    ),
    "a sum of all sequences": (
        lambda check: check(lambda x, mask: x.softmax(1)[~mask].sum(), X, mask=PADDING), "softmax", 1,
    ),
    "no mask of the memory": (
        lambda check: check(
            nn.Transformer(SIZE, 2, 1, 1, 16, batch_first=True).eval(), X, TARGETS,
            src_key_padding_mask=PADDING, tgt_key_padding_mask=TARGET_PADDING,
        ), "multi_head_attention_forward", 1,
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", WRONG)
def test_padding(name):
    call, op, sequence = WRONG[name]
    report = call(rf.check.batch_invariance)
    assert not report
    assert (report.first.event.op, report.first.sequence, report.cause) == (op, f"sequence {sequence}", "padding")
    assert "padding affects the result" in repr(report)
    entry = report.first.tensor.raw_tensor[report.first.place].item()
    assert entry == pytest.approx(report.first.together)


def test_what_sorts_or_shifts_sequences_is_not_blamed():
    packed, relative = Packed(), nn.Linear(SIZE, 2 * FRAMES - 1)

    def leak(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        return packed(x, lengths)[0].softmax(1)

    def positions(x: torch.Tensor) -> torch.Tensor:
        frames, middle = x.shape[1], FRAMES - 1
        scores = relative(x)[:, :, middle - frames + 1 : middle + frames]  # of all distances, from -frames to frames
        return (scores * 1.0).sum(-1)

    report = rf.check.batch_invariance(leak, X, torch.tensor(LENGTHS))
    assert (report.first.event.op, report.cause) == ("softmax", "padding")
    assert rf.check.batch_invariance(positions, X, lengths=LENGTHS).first.event.op == "sum"


def test_the_module_and_the_line_are_named():
    report = rf.check.batch_invariance(Convolved(False), X, lengths=torch.tensor(LENGTHS))
    assert report.first.event.path == "Convolved.layers.0"
    assert "layer(torch.where(mask, x, 0.0) if self.use_mask else x)" in repr(report)
    report = rf.check.batch_invariance(encoder(batch_first=True), X, lengths=LENGTHS)
    assert report.first.event.path == "TransformerEncoder.layers.0.self_attn"
    assert report.first.operands == (f"transpose {{axis0:7, axis1:3, axis2:8}}: {X.min():.4g} … {X.max():.4g}",)


def test_other_sequences():
    model = Normed()
    report = rf.check.batch_invariance(model, X, lengths=LENGTHS)
    assert (report.first.event.op, report.first.event.path, report.cause) == ("batch_norm", "Normed.norm", "sequences")
    assert "other sequences affect the result" in repr(report)
    assert model.norm.num_batches_tracked == 0 and not model.norm.running_mean.any()  # as before
    report = rf.check.batch_invariance(lambda x: x - x.mean(0), X, lengths=LENGTHS)
    assert (report.first.event.op, report.cause) == ("sub", "sequences")


def test_random_numbers():
    model, attention = nn.Sequential(nn.Linear(SIZE, 4), nn.Dropout(0.5)), encoder(batch_first=True).train()
    state = torch.get_rng_state()
    report = rf.check.batch_invariance(model, X, lengths=LENGTHS)
    assert "random numbers differ from call to call" in repr(report)
    assert rf.check.batch_invariance(attention, X, src_key_padding_mask=PADDING).cause == "random numbers"
    assert torch.equal(torch.get_rng_state(), state)


def test_changes_in_place():
    def leaking(x: torch.Tensor) -> torch.Tensor:
        h = x * 2
        h += 1
        h -= h.mean(1, keepdim=True)
        return h * 3

    before = X.clone()
    assert rf.check.batch_invariance(leaking, X, lengths=LENGTHS).first.event.op == "mean"
    model = nn.Sequential(nn.Linear(SIZE, 4), nn.ReLU(inplace=True), nn.Linear(4, 4))
    assert rf.check.batch_invariance(model, X, lengths=LENGTHS)
    assert rf.check.batch_invariance(lambda x: x.add_(1), X, lengths=LENGTHS)
    assert torch.equal(X, before)


def test_nothing_compared_is_never_a_pass():
    report = rf.check.batch_invariance(lambda x: None, X, lengths=LENGTHS)
    assert not report
    assert "nothing was compared" in repr(report)
    assert not rf.check.batch_invariance(lambda x: torch.ones(3), X, lengths=LENGTHS)
    assert not rf.check.batch_invariance(lambda x: x.mean(), X, lengths=[X.shape[1]] * len(X))


def frames_of(x, lengths):
    return torch.cat([row[:n] for row, n in zip(x, lengths, strict=True)])


@pytest.mark.parametrize(
    ("loss", "op"),
    [
        (lambda x, lengths: x.square().mean(), "mean"),
        (lambda x, lengths: {"twice": x * 2, "loss": nn.functional.mse_loss(x, torch.zeros_like(x))}, "mse_loss"),
        (lambda x, lengths: frames_of(x, lengths).sum() / x[..., 0].numel(), "div"),
        (lambda x, lengths: ((lengths < x.shape[1]).all(), x.square().mean())[1], "mean"),
        (lambda x, lengths: (frames_of(x, lengths).mean(), x.max() * 0), None),
    ],
)
def test_a_loss_is_compared_with_and_without_padding(loss, op):
    report = rf.check.batch_invariance(loss, X, lengths=torch.tensor(LENGTHS))
    assert bool(report) == (op is None)
    if op is not None:
        assert (report.first.event.op, report.first.sequence, report.cause) == (op, "sequence 1", "padding")
        assert "with padding" in repr(report) and "padding affects the result" in repr(report)


def test_a_loss_of_rfnb():
    time, feat = rf.Dim(None, name="time"), rf.Dim(SIZE, name="feat")
    x = rf.convert_to_tensor(X, dims=[rf.batch_dim, time, feat], lengths=LENGTHS)
    linear = rf.Linear(feat, feat)
    for use_mask in (True, False):
        report = rf.check.batch_invariance(lambda x: rf.reduce_mean(linear(x), axis=x.dims, use_mask=use_mask), x)  # noqa: B023
        assert bool(report) == use_mask
    assert report.first.event.op == "reduce_mean" and "use_mask=False" in repr(report)
    assert time.size.values.tolist() == LENGTHS


def test_a_loss_that_cannot_be_compared_is_said():
    def loss(x: torch.Tensor, lengths: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        assert x.shape[1] == max(lengths)
        return x * 2, x.mean()

    assert "results without an axis of the sequences were not compared" in repr(
        rf.check.batch_invariance(loss, X, lengths=torch.tensor(LENGTHS))
    )


def test_rfnb_on_plain_tensors():
    batch, time, feat = rf.Dim(None, name="batch"), rf.Dim(None, name="time"), rf.Dim(SIZE, name="feat")

    def mean(x: torch.Tensor, lengths: torch.Tensor, use_mask: bool) -> torch.Tensor:
        x = rf.convert_to_tensor(x, dims=[batch, time, feat], lengths=lengths)
        return rf.reduce_mean(x, axis=time, use_mask=use_mask).raw_tensor

    lengths = torch.tensor(LENGTHS)
    assert rf.check.batch_invariance(mean, X, lengths=lengths, use_mask=True)
    report = rf.check.batch_invariance(mean, X, lengths=lengths, use_mask=False)
    assert report.first.event.op == "reduce_mean"
    assert "a mask is off (use_mask=False)" in repr(report)


def test_torch_in_a_model_of_rfnb():
    time, feat, out = rf.Dim(None, name="time"), rf.Dim(SIZE, name="feat"), rf.Dim(10, name="out")
    x = rf.convert_to_tensor(X, dims=[rf.batch_dim, time, feat], lengths=LENGTHS)
    lstm = nn.LSTM(SIZE, 5, batch_first=True, bidirectional=True)
    model = rf.from_torch(lstm, in_dims=[rf.batch_dim, time, feat], out_dims=([rf.batch_dim, time, out],))
    report = rf.check.batch_invariance(lambda x: rf.tanh(model(x)[0]), x)
    assert (report.first.event.op, report.first.event.path) == ("lstm", "TorchNet.LSTM")


def test_a_sequence_that_fails_alone_is_named():
    with pytest.raises(RuntimeError) as info:
        rf.check.batch_invariance(nn.Conv1d(SIZE, 4, 5), X.mT, lengths=LENGTHS)
    assert info.value.__notes__ == ["in the call with sequence 1 alone"]

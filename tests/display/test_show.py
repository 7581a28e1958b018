"""What `rf.show` gives a model's call, and what it keeps for the view."""

import functools

import pytest
import torch

import rfnb as rf
from rfnb.core.ground.show import Shown
from rfnb.errors import ViewError

nn = torch.nn


class Net(nn.Module):
    """Takes arguments with the names of options of views."""

    def __init__(self):
        super().__init__()
        self.linear = nn.Linear(3, 3)

    def forward(self, input_ids, attention_mask=None, *, batch=None, dims=None, lengths=None, depth=None, show=None):
        y = self.linear(input_ids)
        for other in (attention_mask, batch, dims, lengths):
            y = y if other is None else y * other
        return y if show is None else y + depth


class Wrapped(nn.Module):
    def __init__(self):
        super().__init__()
        self.net = Net()

    def forward(self, *inputs, **kwargs):
        return self.net(*inputs, **kwargs)


def names(view):
    """The rows of the inputs."""
    return [line.split()[1] for line in view.text.splitlines() if line.startswith("  →")]


@pytest.fixture
def x():
    return torch.ones(2, 3)


@pytest.mark.parametrize(
    "make", [Net, Wrapped, lambda: nn.DataParallel(Net()), lambda: Net().forward, lambda: functools.partial(Net())]
)
def test_all_keywords_that_the_call_knows_go_to_it(make, x):
    given = {name: torch.ones(3) * n for n, name in enumerate(("attention_mask", "batch", "dims", "lengths"))}
    assert set(names(rf.show(make(), input_ids=x, **given))) == {"input_ids", *given}
    assert len(names(rf.show(make(), x, **given))) == 5
    assert "without numbers" in rf.show(make(), x, **given, meta=True).text


def test_keywords_go_to_modules_of_rfnb_and_to_functions(x):
    feat = rf.Dim(3, name="feat")
    assert names(rf.show(rf.Linear(feat, feat), source=rf.ones([feat]), show="activation")) == ["source"]
    assert names(rf.show(lambda x, lengths: x * lengths, x=x, lengths=torch.ones(3), depth=0)) == ["x", "lengths"]
    assert names(rf.show(lambda **named: named["z"] * 2, z=x)) == ["z"]


def test_an_option_that_the_model_takes_as_well_goes_to_the_model(x):
    view = rf.show(Net(), x, depth=7, show="anything", hide=())
    assert "add" in view.text and "measured" not in view.text and "linear.weight" in view.text
    assert rf.show(nn.Sequential(Net()), x, depth=0).data["open"] == []
    assert "root mean square" in rf.show(nn.Linear(3, 3), x, show="gradient", loss=torch.sum).text


@pytest.mark.parametrize(
    ("call", "message", "hint"),
    [
        (lambda x: rf.show(Net(), input_idz=x), "call of Net does not take 'input_idz'", "'input_ids'"),
        (lambda x: rf.show(Net(), x, lenghts=[1]), "call of Net does not take 'lenghts'", "'lengths'"),
        (lambda x: rf.show(nn.Linear(3, 3), x, dept=1), "call of Linear does not take 'dept'", "'depth'"),
        (lambda x: rf.show(nn.Linear(3, 3), batch=1), "call of Linear does not take 'batch'", None),
        (lambda x: rf.show(lambda a: a, b=x), "call of lambda does not take 'b'", None),
        (lambda x: rf.show(nn.Linear(3, 3), depth=1), "view of a Linear does not take 'depth'", None),
        (lambda x: rf.show(3, x), "one thing at a time", "rf.show"),
        (lambda x: rf.show(lambda: x), "no such view", "rf.model_graph(f)"),
    ],
)
def test_a_wrong_keyword_is_named_with_the_nearest(call, message, hint, x):
    with pytest.raises(ViewError, match=message) as raised:
        call(x)
    assert hint is None or hint in raised.value.hint


def test_what_is_shown_prints_as_text_too():
    def below(cls):
        return [cls, *(each for sub in cls.__subclasses__() for each in below(sub))]

    import rfnb.netdict.code.diff  # noqa: F401, one that is loaded late

    of_dataclasses = [cls.__qualname__ for cls in below(Shown) if hasattr(cls.__repr__, "__wrapped__")]
    assert "NetDiff" in {cls.__qualname__ for cls in below(Shown)} and of_dataclasses == []

"""What a user does wrong when it is late, and what is said then; names, flags and files of realistic programs."""

import operator

import numpy as np
import pytest
import torch

import rfnb as rf
from rfnb import batch_dim
from rfnb.errors import DimError, DtypeError, LoopError, TraceError

time, hidden, beam = rf.Dim(None, name="time"), rf.Dim(4, name="hidden"), rf.Dim(2, name="beam")
vocab = rf.Dim(3, name="vocab", vocab=list("abc"))


@pytest.fixture
def x():
    return rf.convert_to_tensor([np.ones((4, 4)), np.ones((2, 4))], dims=[batch_dim, time, hidden])


def started(**states):
    loop = rf.Loop(max_seq_len=3, name="late", debug=True)
    for name, value in states.items():
        loop.state[name] = value
    return loop


# -- names of values


def test_a_nested_target_gives_each_value_its_own_name():
    loop = started(score=rf.zeros([beam]))
    with loop:
        every = rf.combine_bc(loop.state.score, "add", rf.zeros([vocab]))
        score, (parent, word), _ = rf.top_k(every, axis=[beam, vocab], k_dim=beam)
        best, place, _ = rf.top_k(every, axis=vocab, k=1)
        loop.state.score = score
    step = loop.run[0]
    assert step.parent.sparse_dim is beam and step.word.sparse_dim is vocab and step.place.sparse_dim is vocab
    assert step.best.dims_set >= {beam} and "_" not in [value.name for value in step.values()]
    del score, parent, word, best, place


def test_a_name_is_that_of_the_result_not_of_the_ops_inside_of_a_function():
    loop = started(n=rf.zeros([beam]))
    with loop:
        word = rf.random_choice_with_replacement([beam], probs=rf.ones([vocab]), axis=vocab)
        loop.state.n = loop.state.n + rf.cast(word, "float32")
    named = [value for value in loop.run[0].values() if value.name == "word"]
    assert [value.tensor.sparse_dim for value in named] == [vocab]


def test_several_values_in_a_part_of_a_result_have_no_name():
    lstm = rf.LSTM(hidden, hidden)
    loop = started(lstm=lstm.default_initial_state(batch_dims=[beam]))
    with loop:
        h, loop.state.lstm = lstm(rf.ones([beam, hidden]), state=loop.state.lstm, spatial_dim=rf.single_step_dim)
    assert torch.equal(loop.run[1].h.raw_tensor, loop.run[1].after.lstm.h.raw_tensor)
    assert "lstm" not in [value.name for value in loop.run[1].values()]
    del h


def test_a_frame_is_called_as_its_line_says_also_if_a_list_holds_it(x):
    loop = rf.Loop(axis=time, debug=True)
    with loop:
        frame = loop.unstack(x)
        held = [frame]
        loop.stack(held[0] * 2.0)
    assert loop.run[0].values()[0].name == "frame"


# -- files and comparisons


def test_a_loaded_run_agrees_with_several_values_of_one_name(tmp_path):
    loop = started(h=rf.zeros([beam]), g=rf.zeros([beam]))
    with loop:
        loop.state.h = (loop.state.h + 1.0) * 2.0 + (loop.state.g + 3.0)
        loop.state.g = loop.state.h * 0.5
    comparison = rf.compare(loop.run, rf.load_run(loop.run.save(tmp_path / "late.rfrun")))
    assert comparison.agree, comparison


def test_positions_of_an_axis_without_its_batch_are_in_the_file(tmp_path, x):
    loop = started(n=rf.zeros([batch_dim]))
    with loop:
        small = rf.range_over_dim(time) < 2  # {time}, which is 2–4
        loop.state.n = loop.state.n + rf.reduce_sum(rf.where(small, x, 0.0), axis=[time, hidden])
    loaded = rf.load_run(loop.run.save(tmp_path / "x.rfrun"))
    assert loaded[0].small.dims == (time,) and rf.compare(loop.run, loaded)
    del small


def test_a_comparison_of_labels_says_no_distance():
    def run(first):
        loop = started(word=rf.convert_to_tensor([first], dims=[rf.Dim(1, name="n")], sparse_dim=vocab))
        with loop:
            loop.state.word = rf.minimum(loop.state.word * 2, 2)
        return loop.run

    said = str(rf.compare(run(0), run(1)))  # 0 0 0, and 1 2 2: further apart later on
    assert "'a' and 'b'" in said and "Δ" not in said.partition("state word")[2]


# -- what is said


def test_a_growing_state_is_not_stacked():
    grown = rf.Dim(0, name="grown")
    loop = started(out=rf.zeros([beam, grown]), grown=grown)
    with loop:
        loop.state.out, loop.state.grown = rf.cum_concat_step(
            rf.ones([beam]), prev_accum=loop.state.out, axis=loop.state.grown
        )
    with pytest.raises(LoopError, match="its size differs from step to step"):
        loop.run.stack("out")


def test_a_run_without_steps_says_so():
    loop = rf.Loop(max_seq_len=0, debug=True)
    loop.state.n = rf.zeros([])
    with loop:
        loop.state.n = loop.state.n + 1
    for ask in (lambda: loop.run[0], lambda: loop.run.fork(0)):
        with pytest.raises(LoopError) as raised:
            ask()
        assert raised.value.expected == "none: the run has no steps"


def test_a_loss_without_a_name_is_called_loss(x):
    def total(value):
        return rf.reduce_sum(value, axis=value.dims)

    loop = rf.Loop(axis=time, debug=True)
    loop.state.h = rf.zeros([batch_dim, hidden])
    with loop:
        loop.state.h = loop.state.h * 0.5 + loop.unstack(x.requires_grad_())
    assert loop.run.gradients(total(loop.state.h)).loss == "loss"


def reorders_what_no_state_has():
    loop = started(score=rf.zeros([beam]))
    with loop:
        loop.state.score = loop.state.score + 1
        loop.reorder(rf.zeros([beam], dtype="int64"), rf.Dim(2, name="other"))


def chooses_between_values():
    rf.cond(rf.convert_to_tensor(True), rf.zeros([]), rf.ones([]))


def goes_back_in_the_body():
    loop = started(h=rf.zeros([]))
    with loop:
        loop.state.h = loop.state.h + 1.0
        loop.state.h.backward()


def begins_with_a_torch_tensor():
    with started(h=torch.zeros(2)):
        pass


def begins_with_a_number():
    with started(h=0.0):
        pass


def misspells_a_state():
    loop = started(hidden=rf.zeros([]))
    with loop:
        loop.state.hidden = loop.state.hiden + 1


def gives_a_list():
    loop = started(h=rf.zeros([]))
    with loop:
        loop.state.h = [loop.state.h]


def forgets_the_batch():
    loop = started(h=rf.zeros([hidden]))
    with loop:
        loop.state.h = rf.expand_dim(loop.state.h, batch_dim)


def unstacks_lengths_that_differ():
    other = rf.Dim(None, name="other")
    a = rf.convert_to_tensor([[1.0, 2.0], [1.0]], dims=[batch_dim, time])
    b = rf.convert_to_tensor([[1.0, 2.0, 3.0], [1.0]], dims=[batch_dim, other])
    loop = rf.Loop(axis=time)
    with loop:
        loop.stack(loop.unstack(a) + loop.unstack(b, axis=other))


MISTAKES = {
    reorders_what_no_state_has: (LoopError, ["no state has the dim other", "score {beam:2}"]),
    chooses_between_values: (DtypeError, ["`true_fn` is not a function", "rf.where(pred, a, b)"]),
    goes_back_in_the_body: (TraceError, ["would be called once, at step 0", "loss = loop.stack(h)"]),
    begins_with_a_torch_tensor: (LoopError, ["torch.Tensor of shape (2,)", "dims=[…]"]),
    begins_with_a_number: (LoopError, ["float 0.0", "rf.convert_to_tensor(0.0)"]),
    misspells_a_state: (LoopError, ["there is no state 'hiden'", "did you mean 'hidden'?"]),
    gives_a_list: (LoopError, ["a list of length 1", "one value"]),
    forgets_the_batch: (DimError, ["rf.zeros([hidden, batch_dim])"]),
    unstacks_lengths_that_differ: (DimError, ["[3, 1] in b {batch:2, other:1–3}", "[2, 1], the length", "rf.slice"]),
    lambda: rf.Loop(max_seq_len=2.5): (DtypeError, ["max_seq_len must be a number of steps"]),
    lambda: rf.Loop(max_seq_len=rf.ones([])): (DtypeError, ["an integer"]),
    lambda: rf.watch(rf.ones([]), steps="all"): (LoopError, ["range(0, 1000, 100)"]),
}


@pytest.mark.parametrize(("mistake", "said"), MISTAKES.items())
def test_mistakes_are_explained(x, mistake, said):
    kind, parts = said
    with pytest.raises(kind) as raised:
        mistake()
    assert [part for part in parts if part not in str(raised.value)] == []


OPERATIONS = {
    "equal": operator.eq, "not_equal": operator.ne, "less": operator.lt, "greater_equal": operator.ge,
    "add": operator.add, "truediv": operator.truediv, "logaddexp": rf.log_add_exp,
}  # fmt: skip


@pytest.mark.parametrize("kind", OPERATIONS)
def test_the_way_out_of_an_outer_product_works(kind, monkeypatch):
    monkeypatch.setattr(rf.options, "accidents", "all")
    a, b = rf.zeros([beam]), rf.ones([hidden])
    with pytest.raises(DimError) as raised:
        OPERATIONS[kind](a, b)
    way = raised.value.hint.removeprefix("if this is intended: ")
    function = "compare_bc" if kind in ("equal", "not_equal", "less", "greater_equal") else "combine_bc"
    assert way == f'rf.{function}(a, "{kind}", b)'
    assert getattr(rf, function)(a, kind, b).dims_set == {beam, hidden}


# -- modules and parameters made in the body

frames, feat, out = rf.Dim(3, name="frames"), rf.Dim(4, name="feat"), rf.Dim(2, name="out")
MADE = {
    "rf.Linear": lambda x: rf.Linear(feat, out)(x),
    "rf.LayerNorm": lambda x: rf.LayerNorm(feat)(x),
    "rf.Parameter": lambda x: x * rf.Parameter([feat], initial=1.0),
    "random": lambda x: x * rf.Parameter([feat], initial=rf.init.Normal(stddev=1.0)),
    "torch.nn.Linear": lambda x: rf.raw_call(torch.nn.Linear(4, 4), x, out_dims=[batch_dim, feat]),
    "torch, not trained": lambda x: rf.raw_call(
        torch.nn.Linear(4, 4).requires_grad_(False), x, out_dims=[batch_dim, feat]
    ),
    "torch.nn.LayerNorm": lambda x: rf.raw_call(torch.nn.LayerNorm(4), x, out_dims=[batch_dim, feat]),
    "from_torch": lambda x: rf.from_torch(torch.nn.Linear(4, 4), in_dims=[batch_dim, feat], out_dims=[batch_dim, feat])(
        x
    ),
    "in a branch": lambda x: rf.cond(
        rf.reduce_sum(x, axis=x.dims) > 0, lambda: x * rf.Parameter([feat], initial=1.0), lambda: x
    ),
    "in an inner loop": lambda x: rf.while_loop(
        lambda s: rf.reduce_sum(s, axis=s.dims) < 9.0, lambda s: s + rf.Parameter([feat], initial=1.0), x
    ),
}


def in_loop(make, x):
    loop = rf.Loop(axis=frames, name="late")
    loop.state.s = rf.zeros([batch_dim])
    with loop:
        y = make(loop.unstack(x))
        loop.state.s = loop.state.s + rf.reduce_sum(y, axis=y.remaining_dims([batch_dim]))


def in_scan(make, x):
    def step(xs, s):
        y = make(xs)
        return y, s

    ys = rf.Tensor("ys", [batch_dim, feat], "float32")
    rf.scan(spatial_dim=frames, initial=rf.zeros([batch_dim]), xs=x, ys=ys, body=step)


def in_while(make, x):
    first = rf.gather(x, indices=0, axis=frames)
    rf.while_loop(lambda s: s[0] < 3, lambda s: (s[0] + 1, s[1] + 0 * make(s[1])), (rf.convert_to_tensor(0), first))


@pytest.mark.parametrize("run", [in_loop, in_scan, in_while])
@pytest.mark.parametrize("name", MADE)
@pytest.mark.parametrize("gradients", [torch.enable_grad, torch.no_grad])
def test_modules_and_parameters_are_made_before_the_loop(run, name, gradients):
    x = rf.convert_to_tensor(np.ones((2, 3, 4), "float32"), dims=[batch_dim, frames, feat])
    with (
        gradients(),
        pytest.raises(LoopError, match=r"made in the body of a loop \(test_body_mistakes.py:\d+\)") as error,
    ):
        run(MADE[name], x)
    assert "before the loop" in error.value.hint


def test_what_is_not_trained_may_be_made_in_the_body():
    x = rf.convert_to_tensor(np.ones((2, 3, 4), "float32"), dims=[batch_dim, frames, feat])
    weight = rf.Parameter([feat], initial=2.0)
    for make in (
        lambda x: x * rf.Parameter([feat], initial=1.0, trainable=False),
        lambda x: x * rf.Parameter([feat], raw_tensor=weight.raw_tensor),
        lambda x: rf.raw_call(torch.nn.ReLU(), x, out_dims=[batch_dim, feat]),
    ):
        in_loop(make, x)


def test_a_parameter_that_is_trained_is_not_changed_in_the_body():
    x = rf.convert_to_tensor(np.ones((2, 3, 4), "float32"), dims=[batch_dim, frames, feat])
    weight = rf.Parameter([feat], initial=2.0)

    def change(x):
        weight.assign_add(1.0)
        return x * weight

    with pytest.raises(TraceError, match=r"changed in the body of a loop \(test_body_mistakes.py:\d+\)"):
        in_loop(change, x)
    assert weight.raw_tensor.tolist() == [2.0] * 4
    in_scan(change, x)  # step by step, by Python
    assert weight.raw_tensor.tolist() == [5.0] * 4

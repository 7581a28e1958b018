"""`rf.compare` of the runs of two searches compares hypotheses with the same labels, wherever they are."""

import pytest
from hypothesis import given, strategies as st

import rfnb as rf
from tests.examples import examples
from tests.search.test_choice import Net, search

pytestmark = pytest.mark.filterwarnings("ignore::rfnb.errors.LoopWarning")


def recorded(net, batch, beam, limit=4, **options):
    return search(net, batch, beam, limit, debug=True, length_normalization=False, **options)[0].run


def prefixes(tree, step):
    return {tree.prefix(step, node.place): node.place for node in reversed(tree.nodes(step))}


@examples(20)
@given(
    seed=st.integers(0, 1000), batch=st.integers(1, 3), beams=st.tuples(st.integers(1, 5), st.integers(1, 5)),
    limit=st.integers(1, 5),
)  # fmt: skip
def test_the_same_model_has_the_same_values_for_the_same_labels(seed, batch, beams, limit):
    net = Net(4, batch, seed)
    a, b = (recorded(net, batch, beam, limit) for beam in beams)
    found = rf.compare(a, b)
    assert not found.differing and [value.note for value in found.values if "size" in value.note] == []
    searches = rf.compare(a.found, b.found)
    assert [each.step for each in found.beams] == [each.step for each in searches.sequences]
    assert bool(found) == (bool(searches) and found.same_steps)


def test_values_that_depend_on_the_place_differ_where_the_places_do():
    net, limit = Net(5, 2, 7), 4
    runs = []
    for size in (2, 4):
        beam = rf.Dim(size, name="beam")
        loop = rf.Loop(max_seq_len=limit, name="search", debug=True)
        loop.state.prev = rf.zeros([rf.batch_dim, beam], dtype="int64", sparse_dim=net.label)
        loop.state.h = rf.zeros([rf.batch_dim, beam, net.state])
        loop.state.place = rf.zeros([rf.batch_dim, beam])
        with loop:
            loop.state.h, logits = net.traced(loop.state.h, loop.state.prev)
            chosen = loop.choice(logits, beam=beam, axis=net.label, input_type="logits")
            loop.state.prev = chosen.labels
            after = rf.cast(rf.range_over_dim(chosen.beam), "float32")
            loop.state.place = rf.expand_dim(after, rf.batch_dim).copy_transpose(chosen.labels.dims)
            loop.end(chosen.labels == 1, include_eos=False)
        runs.append(loop.run)
    a, b = runs
    found = rf.compare(a, b)
    expected = min(
        (step for step in range(min(a.steps, b.steps)) for mine, theirs in zip(a.found.tree, b.found.tree, strict=True)
         if step < min(mine.steps, theirs.steps) for labels, place in prefixes(mine, step).items()
         if prefixes(theirs, step).get(labels, place) != place),
        default=None,
    )  # fmt: skip
    places = next(value for value in found.values if value.name == "state place")
    assert expected is not None and places.step == expected
    assert next(value for value in found.values if value.name == "state h").agree


def test_a_changed_model_is_found_among_the_hypotheses_that_both_have():
    net = Net(4, 2, 3)
    a = recorded(net, 2, 2)
    net.tensors[2] = net.tensors[2] * 1.01
    b = recorded(net, 2, 4)
    found = rf.compare(a, b)
    assert found.first.step == 0 and not found
    h = next(value for value in found.values if value.name == "state h")
    assert h.step is None  # the states of the same labels are the same: only the output layer has changed


def test_a_run_from_a_file_and_one_sequence(tmp_path):
    net = Net(4, 2, 3)
    a, b = recorded(net, 2, 2), recorded(net, 2, 4)
    loaded = rf.load_run(b.save(tmp_path / "b.rfrun"))
    whole, from_file = rf.compare(a, b), rf.compare(a, loaded)
    assert [each.step for each in from_file.beams] == [each.step for each in whole.beams]
    assert not from_file.differing
    one = rf.compare(a, b, sequence=1)
    assert [each.step for each in one.beams] == [whole.beams[1].step] and not one.differing


def test_the_notes_name_the_first_step_that_differs():
    net = Net(5, 1, 2)
    a, b = recorded(net, 1, 1), recorded(net, 1, 4)
    each = rf.compare(a, b).beams[0]
    notes = " ".join(rf.compare(a, b).notes)
    assert each.step is None or f"step {each.step}" in notes
    assert all(value.agree for value in rf.compare(a, b).values)

"""What is taken from a file, under which names, and what the report says of the rest."""

from __future__ import annotations

import json
import pickle
import re
import struct
from collections import OrderedDict

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

import rfnb as rf
from rfnb.errors import CheckpointError

IN, HIDDEN, OUT = rf.Dim(3, name="in"), rf.Dim(4, name="hidden"), rf.Dim(2, name="out")


class Model(rf.Module):
    """An encoder and a decoder."""

    def __init__(self):
        self.encoder = rf.Sequential(rf.Linear(IN, HIDDEN), rf.Linear(HIDDEN, HIDDEN))
        self.decoder = rf.Linear(HIDDEN, OUT)


def named(**parts):
    module = rf.Module()
    for name, part in parts.items():
        setattr(module, name, part)
    return module


def values(module):
    return {name: p.raw_tensor.detach().clone() for name, p in module.named_parameters()}


def same(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


@pytest.fixture
def model():
    return Model()


@pytest.fixture
def path(model, tmp_path):
    return rf.save(model, tmp_path / "model.safetensors")


def encoder_only(model):
    return {name: raw for name, raw in values(model).items() if name.startswith("encoder")}


# -- names


def test_a_part_of_a_model_by_its_prefix(model, path):
    encoder = Model().encoder
    report = rf.load(path, encoder, rename={"encoder": "", "decoder": None})
    assert same(values(encoder), values(model.encoder))
    assert report.renamed["0.weight"] == "encoder.0.weight"
    assert report.complete


def test_a_file_of_a_part_goes_into_a_larger_model(model, tmp_path):
    path = rf.save(model.encoder, tmp_path / "encoder.safetensors")
    other = Model()
    before = values(other.decoder)
    report = rf.load(path, other, rename={"": "encoder."}, only="encoder.")
    assert same(values(other.encoder), values(model.encoder))
    assert same(values(other.decoder), before)
    assert report.skipped == ("decoder.weight", "decoder.bias")
    assert not report.missing and not report.complete


def test_only_what_was_loaded_is_told_to_be_renamed(model, path):
    report = rf.load(path, named(decoder=Model().decoder), rename={"encoder": "other"}, strict=False)
    assert not report.renamed and set(report.unexpected) == {f"other.{name}" for name in values(model.encoder)}


def test_the_longest_prefix_counts(model, path):
    first, second = Model().encoder
    other = named(a=named(first=first), b=second, decoder=Model().decoder)
    rf.load(path, other, rename={"encoder": "b", "encoder.0": "a.first", "encoder.1": "b"})
    assert torch.equal(other.a.first.weight.raw_tensor, model.encoder[0].weight.raw_tensor)
    assert torch.equal(other.b.weight.raw_tensor, model.encoder[1].weight.raw_tensor)


def test_a_function_gives_names(model, path):
    other = named(ENCODER=Model().encoder)
    rf.load(path, other, rename=lambda name: name.replace("encoder", "ENCODER") if "encoder" in name else None)
    assert same(values(other.ENCODER), values(model.encoder))


@pytest.mark.parametrize(
    ("rename", "words"),
    [
        ({"encodr": ""}, "no entry is named 'encodr'"),
        ({"enc": "encoder"}, "no entry is named 'enc'"),
        ({"encoder.0": "encoder.1"}, r"gives two entries the name 'encoder\.1\.(weight|bias)'"),
    ],
)
def test_a_rename_that_cannot_be_meant(path, rename, words):
    other = Model()
    before = values(other)
    with pytest.raises(CheckpointError, match=words):
        rf.load(path, other, rename=rename)
    assert same(values(other), before)


@pytest.mark.parametrize("strict", [True, False])
@pytest.mark.parametrize("prefix", ["module", "_orig_mod", "a.b"])
def test_what_stands_before_all_names_is_found(model, tmp_path, prefix, strict):
    torch.save({f"{prefix}.{name}": raw for name, raw in values(model).items()}, tmp_path / "model.pt")
    with pytest.raises(CheckpointError, match=rf'rename={{"{prefix}": ""}}'):
        rf.load(tmp_path / "model.pt", Model(), strict=strict)
    assert rf.load(tmp_path / "model.pt", Model(), rename={prefix: ""}).complete


def test_names_that_end_alike_are_not_told_apart_by_a_prefix(model):
    with pytest.raises(CheckpointError) as error:
        rf.load({f"my{name}": raw for name, raw in values(model).items()}, Model())
    assert "rename" not in str(error.value)


def test_what_is_missing_before_all_names_is_found(model, path):
    with pytest.raises(CheckpointError, match=r'rename={"": "model"}'):
        rf.load(path, named(model=Model()))


# -- choice


@pytest.mark.parametrize(
    "choice",
    [
        {"only": "encoder"},
        {"only": ["encoder.0.", "encoder.1"]},
        {"skip": "decoder"},
        {"skip": ["decoder.weight", "decoder.bias"]},
        {"only": lambda name: "encoder" in name},
        {"only": ["encoder", "decoder"], "skip": "decoder"},
    ],
)
def test_only_and_skip(model, path, choice):
    other = Model()
    before = values(other.decoder)
    report = rf.load(path, other, **choice)
    assert same(encoder_only(other), encoder_only(model))
    assert same(values(other.decoder), before)
    assert report.skipped == ("decoder.weight", "decoder.bias")


@pytest.mark.parametrize("choice", [{"only": []}, {"only": lambda name: False}, {"skip": ""}])
def test_a_choice_that_leaves_nothing(path, choice):
    with pytest.raises(CheckpointError, match="nothing in") as error:
        rf.load(path, Model(), **choice)
    assert "take prefixes of names" in error.value.hint


@pytest.mark.parametrize("argument", ["only", "skip"])
@pytest.mark.parametrize(
    ("choice", "words"),
    [
        ("encoder.*", "named 'encoder.*'"),
        (["decoder", "enc"], "named 'enc'"),
        ("decoder.wieght", "did you mean 'decoder.weight'?"),
        (3, "must be names"),
        (["decoder", 3], "must be names"),
    ],
)
def test_a_choice_of_nothing_is_told(path, argument, choice, words):
    other = Model()
    before = values(other)
    with pytest.raises(CheckpointError, match=re.escape(words)) as error:
        rf.load(path, other, **{argument: choice})
    assert f"`{argument}`" in error.value.what and "a function of a name" in error.value.expected
    assert same(values(other), before)


def test_what_is_in_the_file_only_can_be_skipped(model):
    there = {**values(model), "lm.weight": torch.ones(3)}
    assert rf.load(there, Model(), skip="lm").complete
    assert rf.load(there, Model(), skip=(name for name in ["lm"])).complete


@pytest.mark.parametrize("rename", ["x", 3, {"encoder": 3}, {3: "encoder"}, [("encoder", "b")]])
def test_a_rename_that_is_no_table(path, rename):
    with pytest.raises(CheckpointError, match="`rename` is not a table of names") as error:
        rf.load(path, Model(), rename=rename)
    assert repr(rename) == error.value.got


def test_a_head_of_another_size_is_skipped(model, path):
    other = Model()
    other.decoder = rf.Linear(HIDDEN, rf.Dim(9, name="classes"))
    with pytest.raises(CheckpointError, match=r'skip="decoder" leaves it unchanged'):
        rf.load(path, other, strict=False)
    rf.load(path, other, skip="decoder")
    assert same(encoder_only(other), encoder_only(model))


def test_parts_of_other_sizes_are_named_as_parts():
    def made(size):
        dims = rf.Dim(3, name="a"), rf.Dim(size, name="b")
        return [rf.Linear(*dims) for _ in range(4)]

    def hint(*names):
        ours, theirs = (dict(zip(names, made(size), strict=False)) for size in (4, 5))
        same_size = rf.Linear(IN, OUT)
        there = values(named(**theirs, same=same_size))
        with pytest.raises(CheckpointError) as error:
            rf.load(there, named(**ours, same=same_size))
        return error.value.hint

    assert hint("a") == 'skip="a" leaves it unchanged'
    assert hint("a", "b") == 'skip=["a", "b"] leaves them unchanged'
    assert hint("a", "b", "c", "d") == "make the module with dims of the same sizes"


def test_a_rename_does_not_move_what_fits(model):
    there = {name.removeprefix("decoder."): raw for name, raw in values(model).items()}
    with pytest.raises(CheckpointError) as error:
        rf.load(there, Model())
    assert error.value.hint == 'rename={"weight": "decoder.weight", "bias": "decoder.bias"}'
    assert rf.load(there, Model(), rename={"weight": "decoder.weight", "bias": "decoder.bias"}).complete


def test_lines_of_a_fact_are_below_each_other(model):
    with pytest.raises(CheckpointError) as error:
        rf.load({"encoder": torch.ones(1)}, model)
    first, second = error.value.got.splitlines()[:2]
    assert first.startswith("missing") and second.startswith("missing")
    lines = str(error.value).splitlines()
    assert lines[1].index("missing") == lines[2].index("missing") == 12


@pytest.mark.parametrize("strict", [True, False])
def test_nothing_matched(path, strict):
    other = named(other=rf.LayerNorm(IN))
    with pytest.raises(CheckpointError, match=r"other\.scale") as error:
        rf.load(path, other, strict=strict)
    assert "decoder.weight" in str(error.value)
    assert strict or "encoder.0.bias and 3 more" in str(error.value)


@pytest.mark.parametrize(("layers", "more"), [(6, None), (7, 2)])
def test_of_many_complaints_the_first_are_told(layers, more):
    with pytest.raises(CheckpointError) as error:
        rf.load({}, rf.ModuleList(rf.Linear(IN, OUT) for _ in range(layers)))
    assert str(error.value).count("missing") == 12
    assert ("more" in str(error.value)) == (more is not None) and (not more or f"… and {more} more" in str(error.value))


# -- ties


class Tied(rf.Module):
    """The output layer has the weight of the embedding."""

    def __init__(self, *, tie=True):
        self.embedding, self.logits = (rf.Linear(IN, HIDDEN, with_bias=False) for _ in "eo")
        if tie:
            self.logits.weight = self.embedding.weight


def test_a_tied_parameter_is_there_once_and_stays_tied(tmp_path):
    model, other = Tied(), Tied()
    path = rf.save(model, tmp_path / "tied.safetensors")
    assert list(load_file(path)) == ["embedding.weight"]
    report = rf.load(path, other)
    assert report.complete and report.loaded == ("embedding.weight",) and not report.renamed
    assert other.logits.weight is other.embedding.weight
    assert same(values(other), values(model))


def test_a_tied_file_fills_both_of_a_model_without_ties(tmp_path):
    model, other = Tied(), Tied(tie=False)
    assert rf.load(rf.save(model, tmp_path / "tied.safetensors"), other).complete
    assert torch.equal(other.logits.weight.raw_tensor, model.embedding.weight.raw_tensor)
    assert torch.equal(other.embedding.weight.raw_tensor, model.embedding.weight.raw_tensor)


@pytest.mark.parametrize("value", [1.0, float("nan")])
def test_both_names_may_be_there_with_one_value(value):
    other = Tied()
    both = {name: torch.full((3, 4), value) for name in ("embedding.weight", "logits.weight")}
    assert rf.load(both, other).complete


def test_two_values_for_one_parameter():
    other = Tied()
    before = values(other)
    both = {"embedding.weight": torch.zeros(3, 4), "logits.weight": torch.ones(3, 4)}
    with pytest.raises(
        CheckpointError, match=r"(?s)embedding\.weight and logits\.weight are the same parameter.*{'logits\.weight'"
    ):
        rf.load(both, other)
    assert same(values(other), before)


def test_a_wrong_shape_under_the_second_name():
    both = {"embedding.weight": torch.zeros(3, 4), "logits.weight": torch.zeros(9, 4)}
    with pytest.raises(CheckpointError, match=r"\{in:3, hidden:4\} in the module, shape \(9, 4\) in the file"):
        rf.load(both, Tied())


def test_a_parameter_is_chosen_by_any_of_its_names():
    other = Tied()
    assert rf.load({"logits.weight": torch.ones(3, 4)}, other, only="logits").complete
    assert other.embedding.weight.raw_tensor.min() == 1


def test_the_second_name_is_enough(tmp_path):
    other = Tied()
    assert rf.load({"logits.weight": torch.ones(3, 4)}, other).complete
    assert other.embedding.weight.raw_tensor.min() == 1
    report = rf.load({"head.weight": torch.zeros(3, 4)}, other, rename={"head": "logits"})
    assert report.renamed == {"logits.weight": "head.weight"}
    assert other.embedding.weight.raw_tensor.max() == 0


@pytest.mark.parametrize("strict", [True, False])
def test_a_second_name_that_only_the_file_has(strict, tmp_path):
    weight = torch.ones(3, 4)
    torch.save({"embedding.weight": weight, "logits.weight": weight}, tmp_path / "tied.pt")
    other = named(embedding=rf.Linear(IN, HIDDEN, with_bias=False))
    report = rf.load(tmp_path / "tied.pt", other, strict=strict)
    assert report.complete and report.loaded == ("embedding.weight",)
    alike = {"embedding.weight": weight, "logits.weight": weight.clone()}
    with pytest.raises(CheckpointError, match=r"unexpected logits\.weight"):
        rf.load(alike, other)


def test_a_module_with_two_names_and_one_that_holds_itself(tmp_path):
    model = Model()
    model.again, model.encoder.owner, model.encoder.itself = model.encoder, model, model.encoder
    path = rf.save(model, tmp_path / "x.safetensors")
    assert rf.load(path, model).complete
    assert rf.load(path, Model()).complete


def test_two_empty_tensors_are_no_tie():
    empty = rf.Dim(0, name="empty")
    with pytest.raises(CheckpointError, match="unexpected q"):
        rf.load({"p": torch.zeros(0), "q": torch.zeros(0)}, named(p=rf.Parameter([empty])))


# -- dims, types


def test_the_same_dims_in_another_order(tmp_path):
    model, other = (named(weight=rf.Parameter(dims)) for dims in ([IN, HIDDEN], [HIDDEN, IN]))
    model.weight.initial = rf.init.Normal(1.0)
    rf.load(rf.save(model, tmp_path / "x.safetensors"), other)
    assert torch.equal(other.weight.raw_tensor, model.weight.raw_tensor.T)


def test_a_square_weight_is_turned_too(tmp_path):
    a, b = rf.Dim(3, name="a"), rf.Dim(3, name="b")
    model, other = (named(weight=rf.Parameter(dims)) for dims in ([a, b], [b, a]))
    model.weight.initial = rf.init.Normal(1.0)
    rf.load(rf.save(model, tmp_path / "x.safetensors"), other)
    assert torch.equal(other.weight.raw_tensor, model.weight.raw_tensor.T)


def test_two_dims_of_one_name(tmp_path):
    model = named(weight=rf.Parameter([rf.Dim(2, name="x"), rf.Dim(3, name="x")], initial=1.0))
    assert rf.load(rf.save(model, tmp_path / "x.safetensors"), model).complete


def test_dims_that_do_not_fit_are_named(path):
    other = Model()
    other.decoder = rf.Linear(HIDDEN, rf.Dim(9, name="classes"))
    with pytest.raises(CheckpointError) as error:
        rf.load(path, other)
    assert "decoder.weight: {hidden:4, classes:9} in the module, {hidden:4, out:2} in the file" in str(error.value)


@pytest.mark.parametrize(("here", "there"), [("float32", "int64"), ("int8", "uint8"), ("bool", "int8")])
def test_types_that_do_not_fit_are_named(here, there):
    ours = named(p=rf.Parameter([IN], here, trainable=False))
    with pytest.raises(CheckpointError, match=rf"\{{in:3\}} {here} in the module, shape \(3,\) {there} in the file"):
        rf.load({"p": torch.zeros(3, dtype=getattr(torch, there))}, ours)


@pytest.mark.parametrize("there", ["float64", "float16", "bfloat16"])
@pytest.mark.parametrize("here", ["float64", "float16", "bfloat16"])
def test_the_module_keeps_its_type(model, tmp_path, there, here):
    path = rf.save(model.to(dtype=there), tmp_path / "x.safetensors")
    other = Model().to(dtype=here)
    assert rf.load(path, other).complete
    wanted = {name: raw.to(getattr(torch, here)) for name, raw in values(model).items()}
    assert same(values(other), wanted)


def test_parameters_stay_the_same_objects(path):
    other = Model()
    before = [parameter.raw_tensor for parameter in other.parameters()]
    optimizer = torch.optim.SGD(rf.torch_parameters(other))
    rf.load(path, other)
    assert all(a is b.raw_tensor for a, b in zip(before, other.parameters(), strict=True))
    assert all(raw.requires_grad and raw.is_leaf for raw in before)
    assert optimizer.param_groups[0]["params"][0] is before[0]


# -- files of torch, and of nobody


@pytest.mark.parametrize("place", [None, "model", "state_dict", "model_state_dict"])
@pytest.mark.parametrize("options", [{}, {"_use_new_zipfile_serialization": False}], ids=["zip", "pickle"])
def test_state_dicts_of_torch(model, tmp_path, place, options):
    state = OrderedDict(values(model))
    torch.save(state if place is None else {place: state, "epoch": 3, "step": 7}, tmp_path / "model.pt", **options)
    other = Model()
    assert rf.load(tmp_path / "model.pt", other).complete
    assert same(values(other), values(model))


@pytest.mark.parametrize("kind", [lambda p: p.numpy(), lambda p: p.raw_tensor, lambda p: p])
def test_tensors_by_name(model, kind):
    other = Model()
    assert rf.load({name: kind(parameter) for name, parameter in model.named_parameters()}, other).complete
    assert same(values(other), values(model))


def test_an_array_that_is_not_writable():
    array = np.ones(3, np.float32)
    array.setflags(write=False)
    rf.load({"p": array}, named(p=rf.Parameter([IN])))


def test_arrays_do_not_become_the_parameters():
    raw, module = torch.ones(3), named(p=rf.Parameter([IN]))
    rf.load({"p": raw}, module)
    raw.zero_()
    assert module.p.raw_tensor.min() == 1


class Evil:
    """Reading it would run a function."""

    def __reduce__(self):
        return exec, ("raise SystemExit('it ran')",)


@pytest.mark.parametrize("save", [torch.save, lambda x, path: path.write_bytes(pickle.dumps(x, 2))])
def test_nothing_in_a_file_runs(tmp_path, save):
    save({"model": {"p": torch.ones(3)}, "evil": Evil()}, tmp_path / "evil.pt")
    with pytest.raises(CheckpointError, match="cannot be read"):
        rf.load(tmp_path / "evil.pt", named(p=rf.Parameter([IN])))


def test_a_file_of_torch_without_a_state_dict(tmp_path):
    torch.save({"weights": {"p": torch.ones(3)}, "epoch": 3}, tmp_path / "x.pt")
    with pytest.raises(CheckpointError, match="a dict with 'weights', 'epoch'"):
        rf.load(tmp_path / "x.pt", named(p=rf.Parameter([IN])))


def test_the_order_of_arguments(model, path):
    with pytest.raises(CheckpointError, match=r"rf\.load\(path, module\)"):
        rf.load(model, path)


def safetensors_file(header: object) -> bytes:
    text = json.dumps(header).encode() if not isinstance(header, bytes) else header
    return struct.pack("<Q", len(text)) + text


HOSTILE = {
    "empty": b"",
    "text": b"weights = 3",
    "a zip of nothing": b"PK\x05\x06" + b"\0" * 18,
    "half a pickle": b"\x80\x02}q\x00(X",
    "endless header": struct.pack("<Q", 2**62) + b"{}",
    "no JSON": safetensors_file(b"{{{{"),
    "a list": safetensors_file([]),
    "deep": safetensors_file(b"[" * 100_000),
    "beyond the end": safetensors_file({"p": {"dtype": "F32", "shape": [3], "data_offsets": [0, 12]}}),
    "overlapping": safetensors_file({n: {"dtype": "U8", "shape": [4], "data_offsets": [0, 4]} for n in "ab"}) + b"abcd",
    "negative": safetensors_file({"p": {"dtype": "F32", "shape": [-3], "data_offsets": [0, 12]}}) + b"0" * 12,
    "huge": safetensors_file({"p": {"dtype": "F32", "shape": [2**40, 2**40], "data_offsets": [0, 12]}}) + b"0" * 12,
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE)
def test_files_that_are_none(tmp_path, content):
    path = tmp_path / "hostile"
    path.write_bytes(content)
    module = named(p=rf.Parameter([IN]))
    with pytest.raises(CheckpointError, match="cannot be read"):
        rf.load(path, module)
    assert not module.p.raw_tensor.any()


METADATA = [("dims", "[1"), ("dims", "[" * 100_000), ("tied", "[]"), ("config", "{"), ("training", '{"values": 3}')]


@pytest.mark.parametrize(("table", "text"), METADATA, ids=lambda text: text[:20])
def test_metadata_that_is_none(tmp_path, table, text):
    path = tmp_path / "x.safetensors"
    save_file({"p": torch.ones(3)}, path, {table: text})
    module = named(p=rf.Parameter([IN]))
    with pytest.raises(CheckpointError, match="cannot be read"):
        rf.load_config(path) if table == "config" else rf.load(path, module)
    assert not module.p.raw_tensor.any()


@pytest.mark.parametrize("dims", [{"p": 3}, {"p": ["a", "b"]}, {"p": [None]}, {"q": ["in"]}, {"p": {"in": 3}}])
@pytest.mark.parametrize("tied", [{"p": "p"}, {"x": "nothing"}, {"x": ["p"]}, {"p": None}])
def test_metadata_about_nothing(tmp_path, dims, tied):
    path = tmp_path / "x.safetensors"
    save_file({"p": torch.ones(3)}, path, {"dims": json.dumps(dims), "tied": json.dumps(tied)})
    module = named(p=rf.Parameter([IN]))
    assert rf.load(path, module).complete
    assert module.p.raw_tensor.min() == 1
    with pytest.raises(CheckpointError, match=r"p: \{out:2\} in the module"):
        rf.load(path, named(p=rf.Parameter([OUT])))


def test_a_name_of_the_file_counts_more_than_a_tie(tmp_path):
    save_file({"p": torch.ones(3), "q": torch.zeros(3)}, tmp_path / "x", {"tied": json.dumps({"p": "q"})})
    module = named(p=rf.Parameter([IN]), q=rf.Parameter([IN], initial=2.0))
    assert rf.load(tmp_path / "x", module).complete
    assert (module.p.raw_tensor.min(), module.q.raw_tensor.max()) == (1, 0)


@pytest.mark.parametrize("kept", [0.0, 0.2, 0.5, 0.9, 0.999])
def test_a_truncated_file_of_torch(model, tmp_path, kept):
    path = tmp_path / "model.pt"
    torch.save(values(model), path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * kept)])
    other = Model()
    before = values(other)
    with pytest.raises(CheckpointError, match="cannot be read"):
        rf.load(path, other)
    assert same(values(other), before)


@pytest.mark.parametrize("broken", [torch.ones(2, device="meta"), torch.ones(2).to_sparse()], ids=["meta", "sparse"])
def test_values_that_are_no_plain_tensors_change_nothing(broken):
    linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    before = linear.weight.raw_tensor.clone()
    with pytest.raises(CheckpointError, match="bias in the state dict is not a plain tensor"):
        rf.load({"weight": torch.ones(3, 2), "bias": broken}, linear)
    assert torch.equal(linear.weight.raw_tensor, before)


@pytest.mark.parametrize("make", [rf.to_torch, lambda module: torch.nn.Linear(3, 2), lambda module: None])
def test_what_is_no_module_of_rfnb(make, tmp_path):
    linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    path = rf.save(linear, tmp_path / "x.safetensors")
    for name, call in (
        ("load", rf.load),
        ("import_weights", rf.import_weights),
        ("save", lambda path, module: rf.save(module, path)),
    ):
        with pytest.raises(CheckpointError, match=rf"^{name}: `module` is not an rf\.Module") as caught:
            call(path, make(linear))
        assert ("save" in caught.value.hint) == (name == "save") or caught.value.hint == "net.rf_module"


@pytest.mark.parametrize("name", ["load", "import_weights", "load_checkpoint", "load_config"])
def test_an_error_names_the_function_that_was_called(name, tmp_path):
    linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    calls = {
        "load": lambda source: rf.load(source, linear),
        "import_weights": lambda source: rf.import_weights(source, linear),
        "load_checkpoint": lambda source: rf.load_checkpoint(linear, source),
        "load_config": rf.load_config,
    }
    broken = tmp_path / "broken.safetensors"
    broken.write_bytes(b"nothing")
    for source in (tmp_path / "no.safetensors", broken, 3):
        with pytest.raises(CheckpointError, match=f"^{name}: "):
            calls[name](source)


def test_import_weights_speaks_of_itself(tmp_path):
    linear = rf.Linear(rf.Dim(3, name="in"), rf.Dim(2, name="out"))
    for source, options in (
        ({"weight": torch.ones(7, 7)}, {}),
        ({"other": torch.ones(2, 3)}, {"strict": False}),
        (torch.nn.Linear(3, 2), {"rename": {"nothing": "x"}}),
        (torch.nn.Linear(3, 2), {"skip": "nothing"}),
        (torch.nn.Linear(3, 2), {"rename": 3}),
        (torch.nn.Linear(9, 2), {}),
    ):
        with pytest.raises(CheckpointError, match=r"^import_weights: "):
            rf.import_weights(source, linear, **options)

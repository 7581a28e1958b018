"""`rf.diff`: what was added, removed, renamed and changed, and what follows; `rf.compare` of two nets."""

import pytest

import rfnb as rf
from rfnb.netdict.code import diff as diff_module

LAYERS = {
    "conv": {"class": "conv", "from": "data", "filter_size": (3,), "padding": "same", "n_out": 4},
    "pool": {"class": "pool", "from": "conv", "mode": "max", "pool_size": (2,), "padding": "same"},
    "ff": {"class": "linear", "activation": "relu", "n_out": 6, "from": "pool"},
    "output": {"class": "softmax", "n_out": 3, "from": "ff"},
}


def network(layers, name="net"):
    return rf.Network(name=name, extern_data=rf.ExternData({"data": {"dim": 5}})).construct_from_dict(layers)


def test_equal_nets_have_no_difference():
    assert not rf.diff(LAYERS, dict(LAYERS))
    assert "no difference" in rf.show(rf.diff(network(LAYERS), network(LAYERS))).text


def test_a_renamed_layer_is_no_new_one():
    renamed = {("hidden" if name == "ff" else name): dict(x) for name, x in LAYERS.items()}
    renamed["output"]["from"] = "hidden"
    difference = rf.diff(LAYERS, renamed)
    assert difference.renamed == {"ff": "hidden"}
    assert not (difference.added or difference.gone or difference.changes)


def test_names_of_a_long_chain_are_compared_once(monkeypatch):
    compared = []
    similar = diff_module.SequenceMatcher
    monkeypatch.setattr(diff_module, "SequenceMatcher", lambda *names: compared.append(names) or similar(*names))
    a, b = (
        {f"{x}{i}": {"class": "linear", "from": f"{x}{i - 1}" if i else "data"} for i in range(20)} for x in ("p", "q")
    )
    assert rf.diff(a, b).renamed == {f"p{i}": f"q{i}" for i in range(20)}
    assert 0 < len(compared) == len(set(compared))


def test_functions_of_a_config_are_equal_if_their_code_is(tmp_path):
    path, nets = tmp_path / "net.config", []
    for body in ("x + 1", "x + 1", "x + 2"):
        path.write_text(f"""
def function(source, **kwargs):
    x = source(0)
    return {body}
network = {{"output": {{"class": "eval", "from": "data", "eval": function}}}}
""")
        nets.append(rf.read_config(path).network())
    assert not rf.diff(nets[0], nets[1])
    assert rf.diff(nets[0], nets[2]).changed == ["output"]


CALLED = """
width = {1}

def add(x):  # {3}
    return x * {0} + width

def transform(x):
    return {2}

called = "self.network.get_config().typed_value('transform')(source(0))"
extern_data = {{"data": {{"dim": 5}}}}
network = {{
    "named": {{"class": "eval", "from": "data", "eval": called}},
    "output": {{"class": "eval", "from": "named", "eval": lambda source, **_: transform(source(0))}},
}}
"""


@pytest.mark.parametrize(
    "values, lines",
    [
        ((1, 3, "add(x)", "other comment"), None),
        ((2, 3, "add(x)", ""), ("return x * 1 + width", "return x * 2 + width")),
        ((1, 4, "add(x)", ""), ("width = 3", "width = 4")),
        ((1, 3, "x - add(x)", ""), ("return add(x)", "return x - add(x)")),
    ],
)
def test_functions_that_functions_and_expressions_name_count_too(values, lines, tmp_path):
    sides = []
    for i, side in enumerate([(1, 3, "add(x)", ""), values]):
        path = tmp_path / f"{i}.config"
        path.write_text(CALLED.format(*side))
        sides.append((rf.read_config(path), rf.Network.from_config(path)))
    for a, b in zip(*sides, strict=True):
        found = [(change.layer, change.option, change.before, change.after) for change in rf.diff(a, b).changes]
        assert found == ([] if lines is None else [("named", "eval", *lines), ("output", "eval", *lines)])


def test_what_follows_is_told_for_networks():
    other = {**LAYERS, "conv": {**LAYERS["conv"], "filter_size": (5,)}, "ff": {**LAYERS["ff"], "n_out": 7}}
    other["more"] = {"class": "copy", "from": "ff", "is_output_layer": True}
    difference = rf.diff(network(LAYERS), network(other))
    assert difference.added == ["more"] and difference.changed == ["conv", "ff"]
    follows = {(x.layer, x.what): (x.before, x.after) for x in difference.consequences}
    assert follows["ff", "parameters"] == ("30", "35")
    assert follows["output", "receptive field"] == ("4 frames, one for 2 frames", "6 frames, one for 2 frames")
    assert follows["ff", "dims"][0].endswith("6}") and follows["ff", "dims"][1].endswith("7}")


@pytest.mark.parametrize("size", [5, rf.Dim(5, name="window")])
def test_the_receptive_field_of_a_window_is_its_size(size):
    def fields(size):
        window = {"class": "window", "window_size": size, "from": "data"}
        merged = {"class": "merge_dims", "axes": ["static:0", "F"], "from": "window"}
        return network({"window": window, "output": merged})

    rows = rf.diff(fields(3), fields(size)).consequences
    assert [x.after for x in rows if x.what == "receptive field"] == ["5 frames, one for 1 frame"]


def test_the_view_escapes_names_of_layers():
    difference = rf.diff(LAYERS, {**LAYERS, "<img src=x>": {"class": "copy", "from": "data"}})
    view = rf.show(difference)
    assert "<img" not in str(view.html) and "&lt;img" in str(view.html)
    assert "1 added" in view.text


def test_an_option_that_is_not_a_number_is_equal_to_itself():
    net = {"output": {"class": "eval", "from": "data", "eval": "source(0)", "value": float("nan")}}
    same = {"output": {**net["output"], "value": float("nan") * 2}}
    assert not rf.diff(net, same)
    assert rf.diff(net, {"output": {**net["output"], "value": 1.0}})


def test_compare_finds_the_first_layer_that_differs():
    a, b = network(LAYERS, "a"), network(LAYERS, "b")
    b.set_param_values_by_dict(a.get_param_values_dict())
    assert rf.compare(a, b, a.extern_data.example())
    b.get_layer("ff").params["b"].assign_add(1.0)
    comparison = rf.compare(a, b, a.extern_data.example())
    assert not comparison and comparison.first.layer == "ff" and comparison.agree == ["conv", "pool"]
    assert "ff is the first layer that differs" in rf.show(comparison).text


def test_layers_that_are_not_a_number_in_both_nets_agree():
    a, b = network(LAYERS, "a"), network(LAYERS, "b")
    b.set_param_values_by_dict(a.get_param_values_dict())
    b.get_layer("ff").params["b"].assign_add(float("nan"))
    comparison = rf.compare(a, b, a.extern_data.example())
    assert comparison.first.layer == "ff" and "by inf" in comparison.first.what
    a.get_layer("ff").params["b"].assign_add(float("nan"))
    comparison = rf.compare(a, b, a.extern_data.example())
    assert comparison and comparison.not_numbers[0] == "ff"
    assert "NaN in both" in rf.show(comparison).text

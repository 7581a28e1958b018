"""Net dicts with many options, compared with what the reference computed for them: outputs, losses, gradients.

`more_net_dicts.npz` has by name of the case what went in and what came out; frames behind the ends hold numbers too.
"""

import ast
import json

import numpy as np
import pytest

import rfnb as rf
from tests.netdict.goldens import FOLDER, in_stored_order

CASES = json.loads((FOLDER.parent / "more_net_dicts.json").read_text())
NUMBERS = np.load(FOLDER.parent / "more_net_dicts.npz")


def arrays(case, kind):
    """By the rest of their names, the arrays of a case whose names begin with this word."""
    start = f"{case['name']}:{kind} "
    return {name.removeprefix(start): NUMBERS[name] for name in NUMBERS.files if name.startswith(start)}


def computed(case):
    net = rf.Network(case["config"], rf.ExternData(case["extern"]), train_flag=case["train"], eval_flag=True)
    net.construct_from_dict(ast.literal_eval(case["net"]))
    values = {}
    for name, array in arrays(case, "param").items():
        layer, _, param = name.partition(" ")
        values.setdefault(layer, {})[param] = array
    net.set_param_values_by_dict(values)
    assert not net.report().of("stops")
    lengths = arrays(case, "lengths")
    return net, net.forward({key: (array, lengths.get(key)) for key, array in arrays(case, "data").items()})


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_as_the_reference(case):
    net, outputs = computed(case)
    expected = arrays(case, "output")
    for path, kinds in case["outputs"].items():
        found = in_stored_order(outputs[path], net.template(path), [{"kind": kind} for kind in kinds])
        np.testing.assert_allclose(found, expected[path], rtol=2e-4, atol=3e-5, err_msg=path)
    holders, total, constraints = net.get_losses_initialized(with_total=True)
    values = arrays(case, "loss")
    assert {name.rpartition(" ")[0] for name in values} == set(holders)
    for name, value in values.items():
        path, _, what = name.rpartition(" ")
        ways = {"loss": "get_loss_value", "error": "get_error_value", "norm_factor": "get_norm_factor"}
        found = getattr(holders[path], ways[what])()
        np.testing.assert_allclose(found.item(), value, rtol=2e-4, atol=1e-4, err_msg=name)
    for found, kind in ((total, "total"), (constraints, "cons")):
        number = found.item() if isinstance(found, rf.Tensor) else found
        np.testing.assert_allclose(number, NUMBERS[f"{case['name']}:{kind}"], rtol=2e-4, atol=1e-4, err_msg=kind)
    gradients = arrays(case, "grad")
    if gradients:
        net.get_objective().backward()
    for name, wanted in gradients.items():
        layer, _, param = name.replace("prev:", "").partition(" ")
        found = net.get_layer(layer).params[param].raw_tensor.grad
        found = np.zeros_like(wanted) if found is None else found.numpy()
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=2e-4, err_msg=name)

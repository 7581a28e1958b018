"""Net dicts compute what the reference implementation computed: outputs, losses, gradients."""

import pytest

from rfnb.network.resolve import MODULES
from tests.network.goldens import FOLDER, Case

CASES = sorted(file.stem for file in FOLDER.glob("*.json"))


@pytest.mark.parametrize("name", CASES)
def test_outputs_losses_and_gradients(name):
    case = Case(name)
    net, outputs = case.build()
    case.check_outputs(net, outputs)
    if case.case["losses"]:
        case.check_losses(net)
    if case.case["grads"]:
        case.check_gradients(net)


def test_the_cases_are_many_and_their_classes_are_registered():
    """All cases of net dicts without recurrent subnets, attention and search are here."""
    assert len(CASES) == 278
    classes = {kind for name in CASES for kind in Case(name).case["classes"] if ":" not in kind}
    assert classes <= set(MODULES)

"""Net dicts compute what the reference implementation computed: outputs, losses, gradients; names of variables too."""

import pytest

from rfnb.netdict.layer import MODULES
from tests.netdict.goldens import FOLDER, Case

SEARCH = FOLDER.parent / "search"
CASES = sorted([*FOLDER.glob("*.json"), *SEARCH.glob("*.json")])


@pytest.mark.parametrize("file", CASES, ids=[f"{file.parent.name}/{file.stem}" for file in CASES])
def test_outputs_losses_and_gradients(file, tmp_path):
    case = Case(file.stem, file.parent)
    net, outputs = case.build()
    case.check_outputs(net, outputs)
    if case.case["losses"]:
        case.check_losses(net)
    if case.case["grads"]:
        case.check_gradients(net)
    case.check_variables(net)
    case.check_saved(net, tmp_path / "net.safetensors")


def test_the_cases_are_many_and_their_classes_are_registered():
    """All recorded cases are here."""
    assert len(CASES) == 487
    classes = {kind for file in CASES for kind in Case(file.stem, file.parent).case["classes"] if ":" not in kind}
    assert classes <= set(MODULES)

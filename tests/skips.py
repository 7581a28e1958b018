"""The skips that are known: in CI, another one fails the run, so that nothing that is promised is left out unseen."""

from __future__ import annotations

import re

KNOWN = {
    r"root may write everywhere": "CI runs as root",
    r"sys\.monitoring is newer": "Python 3.11; 3.14 runs in tests/trace/plain/test_events.py under Node",
    r"could not import '(datasets|lightning)'.*": "large packages; their loops were recorded by hand",
    r"RFNB_IPYKERNEL_6 names no Python with ipykernel 6": "needs an environment of its own",
    r"tests/nn/bridge/test_distributed\.py does it on the CPU": "the same on a GPU",
    r".*RFNB_DEVICE=cpu runs the same tests on the CPU\.": "CI has no accelerator",
    r"kenlm is not installed": "a compiler is missing, as the set-up says",
    r"it depends on the others of the batch": "a case that has no single sequence",
    r"not in this precision": "a case of float32",
    r"its state has the frames of each sequence": "a module without single steps",
    r"labels are never NaN": "a case of labels",
    r"needs the tests of all rows": "a part of the tests runs",
    r"all tests skipped by \+SKIP option": "an example of Lightning's, which is not installed",
    r"the time is over": "make quick",
}
"""By pattern of the reason, why the skip is right."""


def unknown(reasons: list[str]) -> list[str]:
    """The reasons that no pattern fits."""
    return [reason for reason in reasons if not any(re.fullmatch(pattern, reason) for pattern in KNOWN)]

"""The tree of a module."""

from __future__ import annotations

from typing import Any

from rfnb.core.dim import Dim
from rfnb.core.lengths import EMPTY
from rfnb.display.views import module

feat, hidden = Dim(4, name="feat"), Dim(8, name="<hidden>")


class Param:
    """What the view asks of a parameter."""

    def __init__(self, *dims: Dim, trainable: bool = True):
        self.dims, self.dtype, self.trainable, self.lengths = dims, "float32", trainable, EMPTY


class Linear:
    in_dim, out_dim = feat, hidden

    def named_parameters(self, *, recurse: bool) -> Any:
        return {"weight": Param(feat, hidden), "bias": Param(hidden, trainable=False)}.items()

    def named_children(self) -> Any:
        return []


class Model:
    def __init__(self, **children: Any):
        self.children = children

    def named_parameters(self, *, recurse: bool) -> Any:
        return []

    def named_children(self) -> Any:
        return self.children.items()


def test_parameters_are_counted_and_shared_ones_once():
    shared = Linear()
    view = module.describe(Model(first=Linear(), a=shared, b=shared))
    assert view["count"] == 2 * 40
    assert view["bytes"] == 320
    assert module.to_text(view) == (
        "Model  80 parameters · 320 B\n"
        "  first: Linear  feat:4 → <hidden>:8  40 parameters\n"
        "    weight {feat:4, <hidden>:8} float32\n"
        "    bias {<hidden>:8} float32  not trained\n"
        "  a: Linear  feat:4 → <hidden>:8  40 parameters\n"
        "    weight {feat:4, <hidden>:8} float32\n"
        "    bias {<hidden>:8} float32  not trained\n"
        "  b: Linear  shown above  0 parameters"
    )


def test_names_are_escaped():
    html = module.to_html(module.describe(Model(**{"<b>": Linear()})))
    assert "<hidden>" not in html
    assert "&lt;b&gt;" in html


def test_a_module_that_holds_itself():
    model = Model()
    model.children["me"] = model
    assert "shown above" in module.to_text(module.describe(model))

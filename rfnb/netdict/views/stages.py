"""The view of `config.stages()`: a strip of pictures, and a row for each stage with what it changes."""

from __future__ import annotations

from typing import Any

from rfnb.core.ground.text import count_of, first_of
from rfnb.display.graph import view as graph_view
from rfnb.display.graph.cards import amount
from rfnb.display.kit import blocks as page
from rfnb.display.markup import style, svg
from rfnb.display.markup.html import Html, el
from rfnb.errors import RfError
from rfnb.netdict.network import Network
from rfnb.netdict.stages import Stage, StageChanges, Stages
from rfnb.netdict.views.network import describe as describe_network

COLUMNS = ("stage", "epochs", "layers", "parameters", "changes")
CELL = f"{style.LEFT_CELL};white-space:normal;overflow-wrap:break-word;max-width:40em"
FEW = 4
"""So many layers are named of a change."""
MOST = 12
"""Most stages with a picture; of the others there is a row."""
STRIP = "display:flex;gap:12px;overflow-x:auto;align-items:flex-start"
Colours = dict[tuple[str, int], int]
"""The colours of dims by name and size, as numbers of the palette."""
PICTURE = "flex:none;width:min(320px, 90vw)"


@page.shows("net_stages", "rfnb.netdict.stages.Stages")
def describe(stages: Stages, *, depth: int = 0) -> page.Page:
    """The strip and the rows. depth: how many levels of the networks are open in their pictures."""
    rows: list[list[Any]] = []
    pictures = []
    colours: Colours = {}
    for stage, changes in zip(stages, stages.changes(), strict=True):
        net, fault = _network(stage)
        params = "?" if net is None else amount(net.get_num_params())
        words = fault or words_of(changes, first=stage.number == 0)
        rows.append([stage.number, stage.epochs, len(stage.described()), params, words])
        if stage.number < MOST:
            pictures.append(_picture(stage, net, words, depth, colours))
    blocks: list[Any] = [
        page.head(stages.name, f" {count_of(len(stages), 'stage')}"),
        page.Figure(el("div", pictures, style=STRIP)),
        page.Grid(rows, COLUMNS, [style.LEFT_CELL] * 4 + [CELL]),
        page.Note(f"pictures of the first {MOST} stages" if len(stages) > MOST else None),
    ]
    return page.Page("net_stages", stages.name, blocks, page.Table(COLUMNS, rows))


def _network(stage: Stage) -> tuple[Network | None, str]:
    """The network of a stage, or why there is none."""
    try:
        return stage.network(strict=False), ""
    except RfError as error:
        return None, error.what


def _picture(stage: Stage, net: Network | None, words: str, depth: int, colours: Colours) -> Html:
    """A stage in the strip. colours: those of the pictures before: each network has dims of its own."""
    picture: Html | None = None
    if net is not None:
        graph = describe_network(net, depth=depth)["graph"]
        for dim in graph["dims"]:
            if dim["colour"] is not None:
                dim["colour"] = colours.setdefault((dim["name"], dim["size"]), len(colours))
        image = svg.data_uri(graph_view.to_svg(graph))
        picture = el("img", src=image, alt=f"the layers of {stage.name}", style="max-width:100%;height:auto")
    title = el("div", el("b", f"{stage.number}"), f" {stage.epochs}")
    return el("div", title, el("div", words, style="opacity:0.75;font-size:90%"), picture, style=PICTURE)


def words_of(changes: StageChanges, *, first: bool = False) -> str:
    """What a stage changes, in words.

    >>> from rfnb.netdict.network import Network
    >>> from rfnb.netdict.stages import StageChanges
    >>> words_of(StageChanges({"a": {"n_out": 2}}, {"a": {"n_out": 4}, "b": {}}))
    'adds b; widens a (2 → 4)'
    """
    if first:
        return f"begins with {count_of(len(changes.added), 'layer')}"
    wider = {path: sizes for path, sizes in changes.resized.items() if _is_wider(*sizes)}
    narrower = {path: sizes for path, sizes in changes.resized.items() if path not in wider}
    groups = {
        "adds": changes.added,
        "drops": changes.gone,
        "widens": [f"{path} ({a} → {b})" for path, (a, b) in wider.items()],
        "narrows": [f"{path} ({a} → {b})" for path, (a, b) in narrower.items()],
        "freezes": changes.frozen,
        "frees": changes.freed,
        "changes": changes.changed,
    }
    parts = [f"{verb} {first_of(paths, FEW)}" for verb, paths in groups.items() if paths]
    return "; ".join(parts) or "the same layers, with other settings"


def _is_wider(old: object, new: object) -> bool:
    return not (isinstance(old, int) and isinstance(new, int) and new < old)

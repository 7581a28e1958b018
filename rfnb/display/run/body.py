"""The source of a loop's body with the values of one step beside its lines."""

from __future__ import annotations

from collections import defaultdict
from textwrap import dedent

from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el
from rfnb.display.run.schema import RunView, StepView


def body_text(run: RunView, step: StepView) -> list[str]:
    """The source, and after each line the values it computed."""
    texts = beside(step)
    failure = run["failure"]
    if failure is not None and failure["line"] is not None and failure["step"] == step["step"]:
        texts[failure["line"]] = "✗ " + failure["error"].partition("\n")[0]
    body = dedent("\n".join(run["body"])).split("\n") if run["body"] else []
    width = min(80, max((len(line) for line in body), default=0))
    numbered = enumerate(body, run["first_line"])
    lines = [f"  {n:>4}  {text:<{width}}  {texts.pop(n, '')}".rstrip() for n, text in numbered]
    return lines + [f"  {n:>4}  {words}" for n, words in sorted(texts.items())]


def body_html(run: RunView, step: StepView) -> Html:
    """The source with values as HTML."""
    look = f"{style.NUMBERS};line-height:1.4;margin:0 0 8px 0;padding:0;background:none;overflow-x:auto"
    return el("pre", "\n".join(body_text(run, step)), style=look)


def beside(step: StepView) -> dict[int, str]:
    """`name = value` for the values of each line; unnamed values are left out where there are named ones."""
    named: dict[int, bool] = defaultdict(bool)
    for row in step["values"]:
        named[row["line"]] |= row["value"]["name"] != row["op"]
    lines: dict[int, list[str]] = defaultdict(list)
    for row in step["values"]:
        if named[row["line"]] and row["value"]["name"] == row["op"]:
            continue
        text = row["value"]["text"]
        odd = "".join(f"  {flag}" for flag in row["value"]["flags"] if flag not in ("constant", *text.split()))
        lines[row["line"]].append(f"{row['value']['name']} = {text}{odd}")
    return {line: "  ".join(words) for line, words in lines.items()}

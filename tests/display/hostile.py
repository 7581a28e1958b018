"""Names that want to be more than names, and every view with them in it."""

from __future__ import annotations

import linecache
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np
import torch

import rfnb as rf
from rfnb import Dim, batch_dim
from rfnb.display.kit.view import View
from tests.display.standins import Raw

PAYLOADS = {
    "markup": "<img src=x onerror='window.hit=1'><b>",
    "script": "</script><script>window.hit=1</script>",
    "svg": "]]></svg></foreignObject><svg onload='window.hit=1'><script>window.hit=1</script>",
    "quotes": "\"' onmouseover='window.hit=1' autofocus onfocus=\"window.hit=1\" x='",
    "comment": "--><!--[if IE]><script>window.hit=1</script>--!>",
    "closing": "</title></style></textarea></pre></td></table></details></div></body>",
    "style": "x;background:url(http://127.0.0.1:9/hit)}*{display:none}</style><style>*{display:none}",
    "link": "javascript:window.hit=1",
    "address": "data:text/html;base64,PHNjcmlwdD53aW5kb3cuaGl0PTE8L3NjcmlwdD4= http://127.0.0.1:9/hit",
    "entities": "&lt;script&gt;window.hit=1&lt;/script&gt; &#60;b&#62; &amp;quot;",
    "maths": r"$\href{javascript:window.hit=1}{x}$ $$x$$ \(x\) `code` ${window.hit=1} {{x}} %s {0}",
    "colours": "\x1b[31mred\x1b[0m \x1b]8;;http://127.0.0.1:9/hit\x07link\x1b]8;;\x07 \x9b31m",
    "controls": "a\x00b\x01\x08\x0b\x7f\x85\ufeff\uffff",
    "lines": "one\ntwo\r\nthree\rfour\u2028five\u2029six\ttab\x0cpage",
    "direction": "abc\u202egpj.exe\u2066\u200fx",
    "surrogates": "a\ud800b\udc80c\udfff",
    "marks": "e" + "\u0301\u0489" * 60,
    "long": "w" * 3000,
    "prototype": "__proto__",
    "nothing": "",
}
"""By what they try. Whatever runs sets `window.hit`."""

Word = Callable[[str], str]
"""From the name that a thing would have to the one that it has."""


def harmless(name: str) -> str:
    """The name itself."""
    return name


def hostile(payload: str) -> Word:
    """Names that end in the payload; no two things have the same name."""
    return lambda name: name + payload


def disarmed(payload: str) -> Word:
    """The same names with a letter, as wide, for all that markup, terminals and encodings give a meaning."""

    def letter(character: str) -> str:
        if character == "\n" or (character.isprintable() and character not in "<>&'\""):
            return character
        return "x" if character < "\u2e80" else "字"

    return hostile("".join(map(letter, payload)))


def views(word: Word) -> dict[str, View]:
    """One of each kind and form, with names made by `word` wherever a user's words can get in."""
    return {name: view for make in makers() for name, view in make(word).items()}


def spelled(name: str) -> str:
    """Without what Python takes in no class or file: NUL and halves of surrogate pairs."""
    return "".join(c for c in name if c != "\x00" and not "\ud800" <= c <= "\udfff")


def batch(word: Word) -> tuple[rf.Tensor, Dim, Dim]:
    """Sequences with tags, their axis, and a dim with a vocab."""
    time = Dim(None, name=word("time"))
    letter = Dim(4, name=word("letter"), vocab=[word(label) for label in "abcd"])
    tags = [word(tag) for tag in ("kiwi", "fig")]
    raw = torch.arange(24.0).reshape(2, 3, 4)
    x = rf.convert_to_tensor(raw, dims=[batch_dim, time, letter], lengths=[3, 2], tags=tags, name=word("x"))
    return x, time, letter


def tensors(word: Word) -> dict[str, View]:
    """Numbers, a picture, labels, one sequence, a dtype and a device that nobody knows."""
    x, time, letter = batch(word)
    wide = Dim(300, name=word("wide"))
    large = rf.convert_to_tensor(torch.rand(2, 3, 300), dims=[batch_dim, time, wide], name=word("large"))
    bad = rf.convert_to_tensor(torch.full((2, 3, 4), torch.nan), dims=x.dims, name=word("bad"))
    ids = torch.tensor([[0, 1, 9], [3, 2, 0]])
    labels = rf.convert_to_tensor(ids, dims=[batch_dim, time], sparse_dim=letter, name=word("labels"))
    return {
        "tensor": rf.show(x),
        "tensor, one sequence": rf.show(x, batch=word("kiwi")),
        "tensor, one entry": rf.show(x, **{time.name: 1, letter.name: word("a")}),
        "tensor, picture": rf.show(large),
        "tensor, not finite": rf.show(bad),
        "tensor, labels": rf.show(labels),
        "tensor, strange": rf.show(rf.Tensor(word("empty"), [time, letter], "float32")),
        "tensor, broken": View(_describe_strange(word)),
        "dim": rf.show(letter),
        "dim, derived": rf.show((time + 1) * 2),
    }


def _describe_strange(word: Word) -> Any:
    """A raw tensor whose class says strange things."""
    from rfnb.display.tensor import view as tensor_view

    class Strange:
        shape, dtype, device = (2,), word("dtype"), word("device")

        def __array__(self, *_: Any, **__: Any) -> np.ndarray:
            return np.array([word("one"), word("two")], dtype=object)

    return tensor_view.describe(Raw((Dim(2, name=word("two")),), Strange(), name=word("strange")))


def structures(word: Word) -> dict[str, View]:
    """Nested containers, plain arrays with named axes."""
    x, _, _ = batch(word)
    odd = type(spelled(word("Odd")), (), {"__repr__": lambda self: word("odd")})
    nested = {word("key"): [x, {word("text"): word("a text")}], word("odd"): odd(), word("many"): [x, x, x]}
    return {
        "tree": rf.show(nested),
        "tree, state": rf.show(rf.State({word("h"): x})),
        "array": rf.show(np.ones((2, 3)), dims=[word("rows"), word("cols")]),
    }


def dims(word: Word) -> dict[str, View]:
    """The table of dims."""
    x, time, _ = batch(word)
    other = rf.convert_to_tensor([[1.0], [2.0, 3.0]], dims=[batch_dim, Dim(None, name=time.name)], name=word("other"))
    return {"dim table": rf.show_dims(x, other)}


def module_of(word: Word) -> type[rf.Module]:
    """A module with such a class name, whose part has such a name."""

    def __call__(self: Any, x: rf.Tensor) -> rf.Tensor:
        for layer in self.layers:
            x = rf.tanh(layer(x))
        if self.fails:
            raise RuntimeError(word("forward failed"))
        return x

    return type(spelled(word("Model")), (rf.Module,), {"__call__": __call__, "fails": False})


def modules(word: Word) -> dict[str, View]:
    """A tree of modules, model graphs of it and of torch's, one whose forward fails."""
    x, _, letter = batch(word)
    made = module_of(word)()
    inside = Dim(5, name=word("inside"))
    made.layers = rf.ModuleList({word("up"): rf.Linear(letter, inside), word("down"): rf.Linear(inside, letter)})
    part = torch.nn.Sequential()
    part.add_module(word("part").replace(".", ""), torch.nn.Linear(4, 3))
    found = {"module": rf.show(made), "graph": rf.show(made, x), "graph, torch": rf.show(part, torch.zeros(2, 4))}
    made.fails = True
    return {**found, "graph, failed": rf.show(made, x)}


LOOP = """
def run_loop(rf, x, time, letter, batch_dim, word):
    loop = rf.Loop(axis=time, name=word("loop"))
    setattr(loop.state, word("total"), rf.zeros([batch_dim, letter]))
    with loop:
        frame = loop.unstack(x)  # COMMENT
        named = frame * 2.0, "COMMENT"
        setattr(loop.state, word("total"), getattr(loop.state, word("total")) + named[0])
        out = loop.stack(getattr(loop.state, word("total")))
    return loop, out
"""


WRONG = """
def add_wrong(rf, x, other):
    return x + other  # COMMENT
"""


def written(code: str, word: Word) -> dict[str, Any]:
    """What the code defines, written in a file with such a name, with such words in its lines."""
    comment = "".join(c for c in word("a comment") if c.isprintable() and c not in '"\\')
    name, code = spelled(word("file.py")), code.replace("COMMENT", comment)
    linecache.cache[name] = (len(code), None, code.splitlines(keepends=True), name)
    names: dict[str, Any] = {}
    exec(compile(code, name, "exec"), names)
    return names


def loops(word: Word) -> dict[str, View]:
    """A run, the list of runs, what was hoisted, gradients, a comparison."""
    rf.runs.clear()
    x, time, letter = batch(word)
    x.raw_tensor.requires_grad_()
    with rf.recording("last"):
        loop, out = written(LOOP, word)["run_loop"](rf, x, time, letter, batch_dim, word)
        run = loop.run
        fork = run.fork(1, **{word("total"): 0.0})
    found = {
        "gradients": rf.show(run.gradients(rf.reduce_sum(out, axis=list(out.dims)))),
        "run": rf.show(run),
        "run, one sequence": rf.show(run, batch=word("fig")),
        "explanation": rf.show(loop.explain()),
        "comparison": rf.show(rf.compare(run, fork)),
        "runs": rf.show(rf.runs),
    }
    rf.runs.clear()
    return found


def attentions(word: Word) -> dict[str, View]:
    """One matrix with labels, layers and heads, those that a model made."""
    sides = [Dim(3, name=word("queries")), Dim(4, name=word("keys"))]
    more = [Dim(2, name=word("layer")), Dim(2, name=word("head"))]
    energy = torch.sin(torch.arange(48.0)).reshape(2, 2, 3, 4)
    many = rf.softmax(rf.convert_to_tensor(energy, dims=[*more, *sides], name=word("weights")), axis=sides[1])
    one = rf.gather(rf.gather(many, indices=0, axis=more[0]), indices=0, axis=more[1])
    labels = [[word(f"{side}{i}") for i in range(n)] for side, n in (("r", 3), ("c", 4))]
    attends = type(spelled(word("Attends")), (rf.Module,), {"__call__": _attend})
    model = rf.ModuleList({word("block"): attends()})
    with rf.capture(model, attention=True) as seen:
        model[word("block")](rf.ones([sides[0], more[0]]), rf.ones([sides[1], more[0]]), sides[1], more[0])
    return {
        "attention, seen": rf.show(seen),
        "attention": rf.show_attention(one, rows=labels[0], cols=labels[1]),
        "attention, layers": rf.show_attention(many, rows=labels[0], cols=labels[1]),
    }


def _attend(self: Any, query: rf.Tensor, keys: rf.Tensor, axis: Dim, key_dim: Dim) -> rf.Tensor:
    return rf.dot_attention(query, keys, keys, key_dim=key_dim, axis=axis)


def checks(word: Word) -> dict[str, View]:
    """What the checks found."""
    x, time, _ = batch(word)
    return {
        "check, batch": rf.show(rf.check.batch_invariance(lambda x: rf.reduce_mean(x, axis=time, use_mask=False), x)),
        "check, finite": rf.show(rf.check.finite(lambda: rf.log(x * 0.0 - 1.0))),
    }


def errors(word: Word) -> dict[str, View]:
    """Dims that do not fit, in a file with such a name; what is not there; an error of somebody else."""
    x, time, letter = batch(word)
    other = rf.ones([Dim(3, name=time.name)])

    def fail() -> None:
        raise RuntimeError(word("said"))

    calls: dict[str, Callable[[], Any]] = {
        "error, dims": lambda: written(WRONG, word)["add_wrong"](rf, x, other),
        "error, name": lambda: rf.show(x, **{word("tme"): 0}),
        "error, label": lambda: rf.show(x, **{letter.name: word("e")}),
        "error, tag": lambda: rf.show(x, batch=word("kiwwi")),
        "error, text": fail,
    }
    found = {}
    for name, call in calls.items():
        try:
            call()
        except Exception as error:
            found[name] = rf.show(error)
    return found


def trainings(word: Word) -> dict[str, View]:
    """Curves, norms of gradients, what a checkpoint held."""
    x, _, letter = batch(word)
    model = rf.ModuleList({word("up"): rf.Linear(letter, letter), word("down"): rf.Linear(letter, Dim(2, name="two"))})
    rf.reduce_sum(model[0](x), axis=x.dims).backward()
    progress = rf.progress([1, 2], name=word("run"), plot=False)
    for _ in progress:
        progress.report(**{word("loss"): 1.0})
    stored = {f"{word('up')}.{part.name.rpartition('.')[2]}": part for part in model[0].parameters()}
    report = rf.load({**stored, word("else"): torch.zeros(2)}, model, strict=False)
    return {
        "progress": rf.show(progress),
        "gradient norms": rf.show(rf.gradient_norms(model)),
        "loaded": rf.show(report),
    }


MAKERS: list[Callable[[Word], dict[str, View]]] = [
    *(tensors, structures, dims, modules),
    *(loops, attentions, trainings, checks, errors),
]


def makers() -> Iterator[Callable[[Word], dict[str, View]]]:
    """Those here, and `hostile_views` in the tests of a view."""
    yield from MAKERS
    folder = Path(__file__).parents[1]
    for file in sorted(folder.rglob("test_*_view.py")):
        if "\ndef hostile_views(" in file.read_text(encoding="utf-8"):
            inside = ".".join(file.relative_to(folder).with_suffix("").parts)
            yield import_module(f"tests.{inside}").hostile_views

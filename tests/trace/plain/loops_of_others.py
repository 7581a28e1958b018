"""Loops of installed packages, as they are: for each, the functions that have them, and a call that returns a result.

`TRAINING` has the names of those that change parameters or optimizers where they are.
"""

from __future__ import annotations

import ast
import difflib
import fractions
import heapq
import io
import random
import statistics
import string
import sys
import textwrap
import tokenize
from collections.abc import Callable
from typing import Any, NamedTuple

import jinja2.lexer
import matplotlib.ticker
import mpmath.calculus.optimization
import networkx as nx
import networkx.algorithms.approximation.traveling_salesman
import networkx.algorithms.link_analysis.pagerank_alg
import networkx.algorithms.shortest_paths.astar
import networkx.algorithms.shortest_paths.dense
import networkx.algorithms.shortest_paths.weighted
import networkx.drawing.layout
import numpy as np
import pygments.lexer
import pygments.lexers
import sympy.ntheory.factor_
import torch
import torch.ao.nn.quantizable
import torch.autograd.functional
import torch.autograd.gradcheck
import torch.fx
import torch.nn.utils.clip_grad
import torch.utils.checkpoint
from torch import nn


class Case(NamedTuple):
    """A loop of a package: the functions in which it is, and a call that runs it.

    unset: variables whose memory was not set.
    """

    functions: tuple[Callable[..., Any], ...]
    call: Callable[[], Any]
    unset: tuple[str, ...] = ()


def _optim(name: str) -> Any:
    return sys.modules[f"torch.optim.{name}"]


def _trained(optimizer_class: Any, steps: int = 3, **options: Any) -> Any:
    model, x = nn.Sequential(nn.Linear(3, 4), nn.Tanh(), nn.Linear(4, 1)), torch.randn(6, 3)
    optimizer = optimizer_class(model.parameters(), **options)

    def closure():
        optimizer.zero_grad()
        loss = model(x).square().mean()
        loss.backward()
        return loss

    losses = [optimizer.step(closure) for _ in range(steps)]
    return [p.detach() for p in model.parameters()], losses


def _clipped(clip: Callable[..., Any]) -> Any:
    model = nn.Linear(3, 2)
    model(torch.randn(4, 3)).square().sum().backward()
    return clip(model.parameters(), 0.1), [p.grad for p in model.parameters()]


def _scheduled() -> Any:
    optimizer = torch.optim.SGD([torch.zeros(2, requires_grad=True)], lr=1.0)
    kinds = [torch.optim.lr_scheduler.ConstantLR(optimizer), torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.9)]
    chained, rates = torch.optim.lr_scheduler.ChainedScheduler(kinds), []
    for _ in range(6):
        optimizer.step()
        chained.step()
        rates.append(chained.get_last_lr())
    return rates


def _averaged() -> Any:
    model = nn.Sequential(nn.Linear(2, 3), nn.BatchNorm1d(3))
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(2):
        average.update_parameters(model)
    torch.optim.swa_utils.update_bn([torch.randn(4, 2) for _ in range(3)], average)
    return [*average.state_dict().values()]


def _layers(decoder: bool) -> Any:
    layer = (nn.TransformerDecoderLayer if decoder else nn.TransformerEncoderLayer)(8, 2, 16, 0.1, batch_first=True)
    x = torch.randn(2, 5, 8)
    if decoder:
        return nn.TransformerDecoder(layer, 3)(x, torch.randn(2, 4, 8))
    return nn.TransformerEncoder(layer, 3)(x)


def _quantizable_lstm() -> Any:
    model = torch.ao.nn.quantizable.LSTM(3, 4, num_layers=2)
    y, (h, c) = model(torch.randn(6, 2, 3))
    y.sum().backward()
    return y, h, c


def _lobpcg() -> Any:
    a = torch.randn(20, 20, dtype=torch.float64)
    return torch.lobpcg(a @ a.T, k=2, niter=8)


def _interpreted() -> Any:
    model = nn.Sequential(nn.Linear(2, 3), nn.ReLU(), nn.Linear(3, 1))
    return torch.fx.Interpreter(torch.fx.symbolic_trace(model)).run(torch.randn(2, 2))


def _state_dict() -> Any:
    model, other = (nn.Sequential(nn.Linear(2, 2), nn.BatchNorm1d(2)) for _ in range(2))
    model.load_state_dict(other.state_dict())
    return [p.detach() for _, p in model.named_parameters()]


def _graph(size: int = 11) -> nx.Graph:
    graph = nx.Graph()
    edges = ((i, (i * j + 1) % size, 1.0 + (i * j) % 5) for i in range(size) for j in range(1, 4))
    graph.add_weighted_edges_from(edges)
    return graph


def _tokens() -> Any:
    source = "for x in range(3):\n    print(x + 1)  # more\n"
    return [tuple(token) for token in tokenize.generate_tokens(io.StringIO(source).readline)]


LOOPS = {
    "torch LBFGS.step": Case((torch.optim.LBFGS.step,), lambda: _trained(torch.optim.LBFGS, max_iter=5)),
    "torch LBFGS, strong Wolfe": Case(
        (_optim("lbfgs")._strong_wolfe,),
        lambda: _trained(torch.optim.LBFGS, max_iter=5, lr=3, line_search_fn="strong_wolfe"),
    ),
    "torch Adam, tensor by tensor": Case(
        (_optim("adam")._single_tensor_adam,), lambda: _trained(torch.optim.Adam, foreach=False)
    ),
    "torch SGD, tensor by tensor": Case(
        (_optim("sgd")._single_tensor_sgd,),
        lambda: _trained(torch.optim.SGD, lr=0.1, momentum=0.9, foreach=False),
    ),
    "torch Rprop, tensor by tensor": Case(
        (_optim("rprop")._single_tensor_rprop,), lambda: _trained(torch.optim.Rprop, foreach=False)
    ),
    "torch clip_grad_norm_": Case(
        (torch.nn.utils.clip_grad._get_total_norm,), lambda: _clipped(torch.nn.utils.clip_grad_norm_)
    ),
    "torch clip_grad_value_": Case(
        (torch.nn.utils.clip_grad.clip_grad_value_,), lambda: _clipped(torch.nn.utils.clip_grad_value_)
    ),
    "torch ChainedScheduler": Case((torch.optim.lr_scheduler.ChainedScheduler.step,), _scheduled),
    "torch update_bn": Case((torch.optim.swa_utils.update_bn,), _averaged),
    "torch TransformerEncoder": Case((nn.TransformerEncoder.forward,), lambda: _layers(False)),
    "torch TransformerDecoder": Case((nn.TransformerDecoder.forward,), lambda: _layers(True)),
    "torch Sequential": Case(
        (nn.Sequential.forward,), lambda: nn.Sequential(nn.Linear(2, 3), nn.Dropout(0.3), nn.ReLU())(torch.randn(4, 2))
    ),
    "torch quantizable LSTM": Case((torch.ao.nn.quantizable.LSTM.forward,), _quantizable_lstm),
    "torch AdaptiveLogSoftmax": Case(
        (nn.AdaptiveLogSoftmaxWithLoss.forward,),
        lambda: tuple(nn.AdaptiveLogSoftmaxWithLoss(4, 12, [3, 7], 2.0)(torch.randn(9, 4), torch.arange(9))),
        ("gather_inds",),
    ),
    "torch spectral_norm": Case(
        (torch.nn.utils.parametrizations._SpectralNorm._power_method,),
        lambda: torch.nn.utils.parametrizations.spectral_norm(nn.Linear(3, 4), n_power_iterations=3).weight,
    ),
    "torch VonMises.sample": Case(
        (torch.distributions.von_mises._rejection_sample,),
        lambda: torch.distributions.VonMises(torch.zeros(5), 4 * torch.ones(5)).sample((3,)),
        ("x",),
    ),
    "torch ComposeTransform": Case(
        (torch.distributions.ComposeTransform.__call__,),
        lambda: torch.distributions.ComposeTransform(
            [torch.distributions.AffineTransform(1, 2), torch.distributions.ExpTransform()]
        )(torch.randn(4)),
    ),
    "torch lobpcg": Case((torch._lobpcg.LOBPCG.run,), _lobpcg),
    "torch jacobian": Case(
        (torch.autograd.functional.jacobian,),
        lambda: torch.autograd.functional.jacobian(lambda x: (x**3).cumsum(0), torch.randn(4)),
    ),
    "torch fx Interpreter": Case((torch.fx.Interpreter.run,), _interpreted),
    "torch checkpoint_sequential": Case(
        (torch.utils.checkpoint.checkpoint_sequential,),
        lambda: torch.utils.checkpoint.checkpoint_sequential(
            [nn.Linear(2, 2) for _ in range(4)], 2, torch.randn(3, 2, requires_grad=True), use_reentrant=False
        ),
    ),
    "torch BatchSampler": Case(
        (torch.utils.data.BatchSampler.__iter__,),
        lambda: [*torch.utils.data.DataLoader(range(7), batch_size=3, shuffle=True)],
    ),
    "torch load_state_dict": Case((nn.Module.load_state_dict,), _state_dict),
    "torch unpad_sequence": Case(
        (torch.nn.utils.rnn.unpad_sequence,),
        lambda: torch.nn.utils.rnn.unpad_sequence(torch.randn(4, 3), torch.tensor([4, 2, 3])),
    ),
    "numpy polyval": Case((np.polyval,), lambda: np.polyval([1.0, -2, 3], np.arange(4.0))),
    "numpy apply_along_axis": Case(
        (np.apply_along_axis,), lambda: np.apply_along_axis(np.sort, 1, np.random.normal(size=(3, 4)))
    ),
    "networkx dijkstra": Case(
        (networkx.algorithms.shortest_paths.weighted._dijkstra_multisource,),
        lambda: dict(nx.single_source_dijkstra_path_length(_graph(), 0)),
    ),
    "networkx bellman_ford": Case(
        (networkx.algorithms.shortest_paths.weighted._inner_bellman_ford,),
        lambda: dict(nx.single_source_bellman_ford_path_length(_graph(), 0)),
    ),
    "networkx breadth first": Case((nx.generic_bfs_edges,), lambda: [*nx.bfs_edges(_graph(), 0)]),
    "networkx coloring": Case((nx.greedy_color,), lambda: nx.greedy_color(_graph())),
    "sympy factorint": Case(
        (sympy.ntheory.factor_._factorint_small,), lambda: sympy.factorint(2**5 * 3**4 * 1009 * 10007)
    ),
    "mpmath findroot": Case(
        (mpmath.calculus.optimization.findroot,), lambda: str(mpmath.findroot(lambda x: mpmath.cos(x) - x, 1))
    ),
    "jinja2 lexer": Case(
        (jinja2.lexer.Lexer.tokeniter,),
        lambda: [*jinja2.Environment().lex("{% for x in y %}{{ x|upper }}{% endfor %} text")],
    ),
    "pygments lexer": Case(
        (pygments.lexer.RegexLexer.get_tokens_unprocessed,),
        lambda: [(i, str(t), v) for i, t, v in pygments.lexers.IniLexer().get_tokens_unprocessed("[a]\nx = 1 # y\n")],
    ),
    "matplotlib ticks": Case(
        (matplotlib.ticker.MaxNLocator._raw_ticks,), lambda: matplotlib.ticker.MaxNLocator(5).tick_values(0.3, 17)
    ),
    "difflib": Case(
        (difflib.SequenceMatcher.find_longest_match,),
        lambda: [*map(tuple, difflib.SequenceMatcher(None, "private thread", "private car").get_matching_blocks())],
    ),
    "textwrap": Case((textwrap.TextWrapper._wrap_chunks,), lambda: textwrap.wrap("step forward and back " * 4, 17)),
    "heapq merge": Case((heapq.merge,), lambda: [*heapq.merge([1, 4, 9], [2, 3], [5])]),
    "statistics": Case((statistics._sum,), lambda: statistics.mean([1.5, 2.5, 4.0])),
    "tokenize": Case((tokenize._tokenize,), _tokens),
    "ast.walk": Case((ast.walk,), lambda: [type(node).__name__ for node in ast.walk(ast.parse("x = [i for i in y]"))]),
    "torch gradcheck": Case(
        (sys.modules["torch.autograd.gradcheck"]._get_numerical_jacobian,),
        lambda: torch.autograd.gradcheck(lambda x: x**2, torch.randn(3, dtype=torch.float64, requires_grad=True)),
    ),
    "torch hessian": Case(
        (torch.autograd.functional._grad_preprocess,),
        lambda: torch.autograd.functional.hessian(lambda x: (x**3).sum(), torch.randn(3)),
    ),
    "torch default_collate": Case(
        (torch.utils.data._utils.collate.collate,),
        lambda: torch.utils.data.default_collate([{"a": torch.ones(2), "b": (1, 2.0)} for _ in range(3)])["a"],
    ),
    "torch broadcasts of a tree": Case(
        (torch.distributions.transforms.CatTransform._call,),
        lambda: torch.distributions.transforms.CatTransform(
            [torch.distributions.ExpTransform(), torch.distributions.AffineTransform(1, 2)], dim=0, lengths=[2, 3]
        )(torch.randn(5)),
    ),
    "numpy hermval": Case(
        (np.polynomial.hermite.hermval,), lambda: np.polynomial.hermite.hermval(np.arange(3.0), [1, 2, 3, 4.5])
    ),
    "numpy matrix_power": Case(
        (np.linalg.matrix_power,), lambda: np.linalg.matrix_power(np.array([[1.0, 1], [1, 0]]), 13)
    ),
    "numpy pad": Case((np.pad,), lambda: np.pad(np.arange(6.0).reshape(2, 3), 2, mode="reflect")),
    "numpy select": Case(
        (np.select,),
        lambda: np.select([np.arange(4) < 1, np.arange(4) > 2], [np.arange(4), np.arange(4) * 2], 9),
    ),
    "numpy gradient": Case((np.gradient,), lambda: np.gradient(np.random.rand(3, 4))),
    "numpy poly": Case((np.poly,), lambda: np.poly([1.0, 2.0, 3.0])),
    "networkx pagerank": Case(
        (networkx.algorithms.link_analysis.pagerank_alg._pagerank_python,),
        lambda: networkx.algorithms.link_analysis.pagerank_alg._pagerank_python(nx.DiGraph(_graph(7)), tol=1e-4),
    ),
    "networkx A*": Case((networkx.algorithms.shortest_paths.astar.astar_path,), lambda: nx.astar_path(_graph(), 0, 7)),
    "networkx Floyd-Warshall": Case(
        (networkx.algorithms.shortest_paths.dense.floyd_warshall_predecessor_and_distance,),
        lambda: {key: dict(row) for key, row in nx.floyd_warshall(_graph(7)).items()},
    ),
    "networkx eigenvector": Case(
        (nx.eigenvector_centrality,), lambda: nx.eigenvector_centrality(_graph(7), max_iter=500, tol=1e-4)
    ),
    "networkx betweenness": Case((nx.betweenness_centrality,), lambda: nx.betweenness_centrality(_graph())),
    "networkx annealing": Case(
        (networkx.algorithms.approximation.traveling_salesman.simulated_annealing_tsp,),
        lambda: nx.approximation.simulated_annealing_tsp(nx.complete_graph(5), "greedy", seed=3),
    ),
    "networkx spring layout": Case(
        (networkx.drawing.layout._fruchterman_reingold,), lambda: nx.spring_layout(_graph(), seed=3, iterations=8)
    ),
    "sympy Pollard's rho": Case(
        (sympy.ntheory.factor_.pollard_rho,), lambda: sympy.ntheory.factor_.pollard_rho(16843009)
    ),
    "random.shuffle": Case((random.Random.shuffle,), lambda: random.shuffle([*range(9)])),
    "random.gammavariate": Case((random.Random.gammavariate,), lambda: random.gammavariate(0.7, 2)),
    "fractions": Case(
        (fractions.Fraction.limit_denominator,),
        lambda: str(fractions.Fraction(3.14159265).limit_denominator(1000)),
    ),
    "difflib, close matches": Case(
        (difflib.get_close_matches,), lambda: difflib.get_close_matches("appel", ["ape", "apple", "peach"])
    ),
    "statistics.quantiles": Case((statistics.quantiles,), lambda: statistics.quantiles([1, 5, 2, 8, 3], n=4)),
    "string.Formatter": Case(
        (string.Formatter._vformat,), lambda: string.Formatter().vformat("{a} {0!r:>5}", (1,), {"a": 2})
    ),
}

TRAINING = {name for name in LOOPS if name.startswith(("torch LBFGS", "torch Adam", "torch SGD", "torch Rprop"))}
NOT_FORKED = {
    **dict.fromkeys(
        (
            *("torch BatchSampler", "networkx breadth first", "jinja2 lexer", "pygments lexer", "heapq merge"),
            *("tokenize", "ast.walk"),
        ),
        "a loop with `yield`",
    ),
    "torch load_state_dict": "the loop changes the weights",
    "torch update_bn": "the loop changes the weights|does not come back|cannot be had again",
    "torch jacobian": "gradients end",
    "statistics": "the state of _grouper objects is not kept",
}
"""Loops of which a fork is refused or incomplete, with the reason."""

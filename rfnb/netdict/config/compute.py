"""Computes what a layer `eval` holds: an expression, a function of the config, or a function that was given."""

from __future__ import annotations

import ast
import inspect
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from typing import Any
from weakref import WeakKeyDictionary

from rfnb.core.dims.dim import Dim
from rfnb.core.ground.defaults import set_default_device_ctx
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ConfigError, NetworkError, ParameterError, RfError
from rfnb.netdict.axes import NetworkDims
from rfnb.netdict.config.interpreter import Interpreter, Leave
from rfnb.netdict.config.modules import ConfigModule, ConfigOptions
from rfnb.netdict.config.tf_functions import network_of
from rfnb.netdict.config.tf_names import PADDING, POOL, Array, Number, Padding
from rfnb.netdict.config.values import Frame, Function, Located, Unknown
from rfnb.ops.create import full
from rfnb.ops.shape import set_feature_dim

LONGEST = 4000
"""Longest expression, in characters."""
_INTERPRETERS: WeakKeyDictionary[NetworkDims, Interpreter] = WeakKeyDictionary()


class Own:
    """A function on Tensors that stands for one of a config: it gets Tensors, and its results are arrays again.

    Of the arguments by name it gets those that it takes: `network=` and `self=` mean nothing here.
    """

    def __init__(self, function: Callable[..., object]):
        if not callable(function):
            raise ParameterError("functions: this is not a function", got=repr(function)[:60], expected="a function")
        self.function = function
        parameters = inspect.signature(function).parameters
        self.all = any(parameter.kind is inspect.Parameter.VAR_KEYWORD for parameter in parameters.values())
        self.names = frozenset(parameters)

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """The result for arrays and numbers."""
        arrays = [x for x in (*args, *kwargs.values()) if isinstance(x, Array)]
        options = {key: _tensor(value) for key, value in kwargs.items() if self.all or key in self.names}
        options = {key: value for key, value in options.items() if not isinstance(value, ConfigModule | Unknown)}
        result = self.function(*(_tensor(x) for x in args), **options)
        if not isinstance(result, Tensor) or not arrays:
            return result
        order = [dim for dim in arrays[0].axes if dim is not None and dim in result.sig.index]
        return arrays[0].like(result, [*order, *(dim for dim in result.dims if dim not in order)])


def _tensor(given: object) -> object:
    """What a function that was given gets: a Tensor, and a function that gives Tensors for `source`."""
    if isinstance(given, Array):
        return given.whole()
    return (lambda *args, **kwargs: _tensor(given(*args, **kwargs))) if callable(given) else given


def with_own(given: object, functions: Mapping[str, Own]) -> Any:
    """A net dict with the given functions in place of those of the config that have their names."""
    if isinstance(given, dict):
        entries = {key: with_own(entry, functions) for key, entry in given.items()}
        return Located(entries, given.line, given.file) if isinstance(given, Located) else entries
    if isinstance(given, list | tuple):
        return type(given)(with_own(entry, functions) for entry in given)
    if isinstance(given, Function | Unknown):
        return functions.get(given.name.removesuffix("()").rpartition(".")[2], given)
    return given


class Computation:
    """What `eval` holds, ready to be computed. Raises NetworkError if it is neither an expression nor a function.

    Args:
        given: the text of an expression, or a function of `source`. config: the values that it may ask for.
        more: further names of the expression. pool: the dims of the network, whose expressions share an interpreter.
        padding: whether reductions count it, which is the default.
    """

    def __init__(
        self,
        given: Any,
        config: Mapping[str, object],
        more: Mapping[str, object] | None,
        pool: NetworkDims,
        padding: Padding | None = None,
    ):
        self.given, self.more = given, dict(more or {})
        self.padding = padding or Padding()
        self.config = dict(config)
        self.tree: ast.expr | None = None
        if isinstance(given, str):
            self.tree = _parsed(given)
        elif isinstance(given, Unknown) or not callable(given):
            fault = "eval is neither an expression nor a function that is known"
            raise NetworkError(fault, got=repr(given)[:60], hint='from_config(…, functions={"name": function})')
        if pool not in _INTERPRETERS:
            _INTERPRETERS[pool] = Interpreter("eval", {})
        self.pool, self.interpreter = pool, _INTERPRETERS[pool]
        self.options = ConfigOptions(self.config, {})
        functions = [entry for entry in (given, *self.config.values()) if isinstance(entry, Function)]
        limits = (self.interpreter.limits, *(function.limits for function in functions))
        self.limits = list({id(entry): entry for entry in limits}.values())

    def __deepcopy__(self, memo: object) -> Computation:
        return self

    def __call__(self, tensors: Sequence[Tensor], orders: Sequence[Sequence[Dim]]) -> tuple[Tensor, list[Dim]]:
        """The result and its declared order."""
        common: list[Dim] = []
        for order in orders:
            new = [dim for dim in order if dim not in common]
            ends_fixed = bool(common) and common[-1].dimension is not None and bool(new)
            place = len(common) - ends_fixed if new and new[-1].dimension is None else len(common)
            common[place:place] = new

        def source(
            i: int = 0, auto_convert: bool = True, enforce_batch_major: bool = False, as_data: bool = False, **_: object
        ) -> Array:
            axes_of_source = list(orders[i])
            axes: Sequence[Dim | None] = axes_of_source
            if auto_convert and not as_data:
                axes = [dim if dim in axes_of_source else None for dim in common]
            return Array(tensors[i], axes, self.pool)

        token, padding = POOL.set(self.pool), PADDING.set(self.padding)
        try:
            with set_default_device_ctx(tensors[0].device) if tensors else nullcontext():
                result = self._computed(source)
        finally:
            POOL.reset(token)
            PADDING.reset(padding)
        if isinstance(result, Tensor):
            order = [dim for dim in common if dim in result.sig.index]
            result = Array(result, [*order, *(dim for dim in result.dims if dim not in order)], self.pool)
        if isinstance(result, Number):
            kind = "bool" if isinstance(result, bool) else "int32" if isinstance(result, int) else "float32"
            result = Array(full(dims=[], fill_value=result, dtype=kind), [], self.pool)
        if not isinstance(result, Array):
            expected = "source(0), operators, functions of tf that are known here, of the config, or given"
            fault = f"eval: {result.name} is not known here" if isinstance(result, Unknown) else "eval gives no tensor"
            hint = 'from_config(…, functions={"name": function})' if isinstance(result, Unknown) else None
            raise NetworkError(fault, got=repr(result)[:60], expected=expected, hint=hint)
        tensor = result.whole()
        return tensor, list(tensor.dims)

    def _computed(self, source: Callable[..., Array]) -> object:
        network = network_of(self.options)
        me = ConfigModule("self", {"network": network})
        for limits in self.limits:
            limits.renew_for_tensors()
        try:
            if self.tree is not None:
                modules = self.interpreter.modules
                util = modules["TFUtil"]
                names: dict[str, Any] = {"tf": modules["tensorflow"], "TFUtil": util, "tf_util": util, **util.names}
                names |= {"source": source, "self": me, "network": network, "config": self.options, **self.more}
                return self.interpreter.value(self.tree, Frame(names))
            arguments = {"self": me, "network": network, "source": source, **self.more}
            if isinstance(self.given, Function):
                every = self.given.node.args.kwarg is not None
                arguments = {key: value for key, value in arguments.items() if every or key in self.given.parameters}
            return self.given(**arguments)
        except RfError as error:
            if isinstance(error, ConfigError):
                raise NetworkError(f"eval: {error.what}", got=error.got) from error
            raise
        except Leave:
            raise
        except Exception as error:
            raise NetworkError("eval cannot be computed", got=f"{type(error).__name__}: {error}"[:200]) from error


def computed_by(function: Function, x: Tensor) -> Tensor:
    """The result of a function of the config for one tensor: an activation, for example."""
    function.limits.renew_for_tensors()
    pool = NetworkDims()
    token = POOL.set(pool)
    try:
        result = function(Array(x, x.dims, pool))
    except (TypeError, ValueError, IndexError, ConfigError) as error:
        raise NetworkError(f"{function.name} cannot be computed", got=str(error)[:200]) from error
    finally:
        POOL.reset(token)
    if not isinstance(result, Array):
        raise NetworkError(f"{function.name} gives no tensor", got=repr(result)[:60])
    return set_feature_dim(result.whole(), x.feature_dim)


def _parsed(text: str) -> ast.expr:
    if len(text) > LONGEST:
        raise NetworkError("eval: the expression is too long", got=len(text), expected=f"at most {LONGEST} characters")
    try:
        return ast.parse(text.strip().replace("\n", " "), mode="eval").body
    except (SyntaxError, ValueError, MemoryError, RecursionError) as error:
        reason = error.msg if isinstance(error, SyntaxError) else str(error)
        fault = f"eval is not an expression: {reason[:80]}"
        raise NetworkError(fault, got=repr(text)[:80], expected="an expression of Python") from None

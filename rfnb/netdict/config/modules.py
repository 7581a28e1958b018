"""What the imports of a config give. Modules that are not here are opaque."""

from __future__ import annotations

import copy
import functools
import math
import os.path
from collections.abc import Callable
from typing import Any

import numpy as np

from rfnb.errors import ConfigError
from rfnb.netdict.config.builtins import ITERTOOLS, Builtins
from rfnb.netdict.config.limits import Limits
from rfnb.netdict.config.values import EpochValue, Located, NumberList, Unknown, Version


class ConfigModule:
    """A module that a config may import: a table of names."""

    def __init__(self, name: str, names: dict[str, Any]):
        self.name, self.names = name, names

    def __repr__(self) -> str:
        return f"<module {self.name}>"


class ConfigOptions:
    """The object `config` that configs ask for their own options, and for those given when the config is read."""

    def __init__(self, values: dict[str, Any], given: dict[str, Any]):
        self.values, self.given = values, given
        self.methods: dict[str, Any] = {
            "bool": self._typed(_bool), "int": self._typed(int), "float": self._typed(float), "value": self._value,
            "opt_typed_value": self._get, "typed_value": self._get, "has": self._has, "list": self._list,
            "is_true": lambda key, default=False: bool(self._get(key, default)),
            "set": self._set, "update": self._update,
            "get_of_type": lambda key, types, default=None: self._get(key, default),
            "bool_or_other": self._get, "typed_dict": self.values, "int_list": self._list, "float_list": self._list,
            "is_typed": lambda key: key in self.values,
        }  # fmt: skip

    def __repr__(self) -> str:
        return "<config>"

    def _get(self, key: str, default: Any = None, *_: Any, **__: Any) -> Any:
        return self.given.get(key, self.values.get(key, default))

    def _set(self, key: str, value: Any) -> None:
        self.values[key] = value

    def _update(self, values: dict[str, Any]) -> None:
        self.values.update(values)

    def _has(self, key: str) -> bool:
        return key in self.given or key in self.values

    def _value(self, key: str, default: Any = None, index: int | None = None, list_join_str: str = ",") -> Any:
        value = self._get(key, default)
        if isinstance(value, list | tuple):
            return value[index] if index is not None else list_join_str.join(map(str, value))
        return value if value is None or isinstance(value, str) else str(value)

    def _list(self, key: str, default: Any = None) -> Any:
        value = self._get(key, default)
        return value if isinstance(value, list | tuple) else [] if value is None else [value]

    def _typed(self, kind: Callable[[Any], Any]) -> Callable[..., Any]:
        def read(key: str, default: Any = None, *_: Any) -> Any:
            value = self._get(key, default)
            value = value[0] if isinstance(value, list | tuple) and value else value
            return value if value is None or isinstance(value, Unknown) else kind(value)

        return read


def _bool(value: Any) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    return words.get(value.lower(), bool(value)) if isinstance(value, str) else bool(value)


def _copied(limits: Limits) -> Callable[[Any], Any]:
    def deep(value: Any) -> Any:
        limits.spend(_count(value, limits))
        return copy.deepcopy(value)

    return deep


def _count(value: Any, limits: Limits) -> int:
    """The number of entries of nested data."""
    waiting, visited, count = [value], set[int](), 0
    while waiting:
        entry = waiting.pop()
        count += 1
        if count > 1_000_000:
            limits.spend(count)
        if isinstance(entry, list | tuple | set | dict) and id(entry) not in visited:
            visited.add(id(entry))
            waiting += entry.values() if isinstance(entry, dict) else entry
    return count


def _numpy(limits: Limits) -> dict[str, Any]:
    """Functions of numpy on numbers, and on arrays of them."""

    def array(x: Any, *_: Any, **__: Any) -> Any:
        return NumberList(array(entry) for entry in limits.entries_of(x)) if isinstance(x, list | tuple) else x

    def linspace(start: float, stop: float, num: int = 50, **options: Any) -> NumberList:
        limits.spend(int(num))
        return NumberList(np.linspace(float(start), float(stop), int(num)).tolist())

    def arange(*args: float) -> NumberList:
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        limits.spend(max(int((stop - start) / step), 0) + 1)
        return NumberList(np.arange(*args).tolist())

    def filled(value: float) -> Callable[..., Any]:
        def make(shape: Any, *_: Any, **__: Any) -> Any:
            sizes = [shape] if isinstance(shape, int) else list(shape)
            limits.spend(math.prod(sizes))
            return array(np.full(sizes, value).tolist())

        return make

    scalar: dict[str, Callable[..., Any]] = {
        "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp, "ceil": math.ceil,
        "floor": math.floor, "abs": abs, "round": round, "power": math.pow, "maximum": max, "minimum": min,
        "clip": lambda x, low, high: min(max(x, low), high), "square": lambda x: x * x,
    }  # fmt: skip
    scalar = {name: _elementwise(function) for name, function in scalar.items()}
    reduced: dict[str, Callable[..., Any]] = {
        "sum": sum,
        "prod": math.prod,
        "max": max,
        "min": min,
        "mean": lambda x: sum(x) / len(x),
    }
    over = {name: _over(limits, function) for name, function in reduced.items()}
    kinds: dict[str, Any] = dict.fromkeys("int32 int64 int_ int8 uint8".split(), int)
    kinds |= dict.fromkeys("float32 float64 float_ float16".split(), float)
    return {
        **scalar, **over, **kinds, "linspace": linspace, "arange": arange, "zeros": filled(0.0), "ones": filled(1.0),
        "pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "array": array, "asarray": array,
        "logspace": lambda a, b, num=50, base=10.0, **_: NumberList(base**x for x in linspace(a, b, num)),
    }  # fmt: skip


def _elementwise(function: Callable[..., Any]) -> Callable[..., Any]:
    def call(x: Any, *more: Any, **_: Any) -> Any:
        return NumberList(call(entry, *more) for entry in x) if isinstance(x, NumberList) else function(x, *more)

    return call


def _over(limits: Limits, function: Callable[..., Any]) -> Callable[..., Any]:
    return lambda x, *_, **__: function(limits.entries_of(x))


def _math() -> dict[str, Any]:
    names = (
        "ceil floor sqrt log log2 log10 exp pow pi e inf nan sin cos tan tanh atan fabs gcd isnan isinf fsum trunc "
        "degrees radians hypot prod"
    ).split()
    return {name: getattr(math, name) for name in names}


def modules(limits: Limits, builtins: Builtins, options: ConfigOptions, path: str) -> dict[str, ConfigModule]:
    """The modules by name."""
    paths: dict[str, Any] = {
        name: getattr(os.path, name)
        for name in ("basename", "dirname", "join", "split", "splitext", "normpath", "isabs", "commonprefix")
    }
    paths |= {name: lambda text: text for name in ("abspath", "realpath", "expanduser", "expandvars")}
    path_module = ConfigModule("os.path", {**paths, "sep": "/"})

    def getenv(name: str, default: Any = None) -> Any:
        return default

    environ = Unknown("os.environ", {"get": getenv, "setdefault": getenv, "pop": getenv})
    system = ConfigModule("os", {
        "path": path_module, "environ": environ, "getenv": getenv, "sep": "/", "linesep": "\n", "getcwd": lambda: ".",
        "getpid": lambda: 1, "name": "posix", "curdir": ".",
    })  # fmt: skip
    bounded = {
        name: (lambda f: lambda *several: limits.entries_of(f(*map(limits.entries_of, several))))(function)
        for name, function in ITERTOOLS.items()
    }
    getter = {"get_global_config": lambda *_, **__: options, "config": options}
    return {
        "math": ConfigModule("math", _math()),
        "copy": ConfigModule("copy", {"deepcopy": _copied(limits), "copy": copy.copy}),
        "numpy": ConfigModule("numpy", _numpy(limits)),
        "os": system, "os.path": path_module,
        "sys": ConfigModule("sys", {"argv": [path], "version_info": Version(3, 11, 0), "path": [], "platform": "linux",
                              "maxsize": 2**63 - 1, "maxint": 2**63 - 1, "modules": {}, "version": "3.11",
                              "exit": lambda *_: None}),
        "functools": ConfigModule("functools", {"partial": functools.partial, "reduce": builtins.table()["reduce"],
                                          "wraps": lambda f: lambda g: g}),
        "itertools": ConfigModule("itertools", bounded),
        "collections": ConfigModule("collections", {"OrderedDict": _ordered(limits)}),
        "Config": ConfigModule("Config", getter), "returnn.config": ConfigModule("returnn.config", getter),
        "Pretrain": ConfigModule("Pretrain", {"WrapEpochValue": EpochValue}),
        "returnn.pretrain": ConfigModule("returnn.pretrain", {"WrapEpochValue": EpochValue}),
        "__future__": ConfigModule("__future__", {}), "typing": ConfigModule("typing", {}),
    }  # fmt: skip


def _ordered(limits: Limits) -> Callable[..., Any]:
    def make(entries: Any = (), **more: Any) -> Any:
        return Located(dict(entries if isinstance(entries, dict) else limits.entries_of(entries), **more))

    return make


def typing_name(module: str) -> bool:
    """Whether the names of a module are only for annotations."""
    return module in ("typing", "typing_extensions")


def missing(name: str) -> Any:
    """A module that is not in the tables."""
    if name.split(".")[0] in ("builtins", "__builtin__"):
        raise ConfigError(f"import of {name}: a config is read, not run")
    return Unknown(name)

"""What the imports of a config give, and what a config may call. Modules that are not here are opaque.

Nothing else of Python can be reached from the functions and methods here.
"""

from __future__ import annotations

import ast
import collections
import copy
import functools
import itertools
import json
import math
import operator
import os.path
import string
from _string import formatter_field_name_split  # type: ignore[import-not-found]
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from rfnb.core.dims.dim import Dim, batch_dim, single_step_dim
from rfnb.errors import ConfigError
from rfnb.netdict.config.limits import ENTRIES, Limits
from rfnb.netdict.config.values import (
    Class,
    Decorated,
    EpochValue,
    FieldDefault,
    Function,
    Instance,
    Located,
    NumberList,
    Unknown,
    Version,
)

METHODS: dict[type, str] = {
    str: "capitalize casefold count endswith find format index isalnum isalpha isdigit islower isspace istitle isupper "
    "join lower lstrip partition replace rfind rindex rpartition rsplit rstrip split splitlines startswith strip "
    "swapcase title translate upper encode removeprefix removesuffix ljust rjust center zfill",
    bytes: "decode",
    list: "append clear copy count extend index insert pop remove reverse sort",
    tuple: "count index",
    dict: "clear copy fromkeys get items keys pop popitem setdefault update values "
    "has_key iteritems iterkeys itervalues",
    set: "add clear copy difference difference_update discard intersection intersection_update isdisjoint issubset "
    "issuperset pop remove symmetric_difference union update",
    frozenset: "copy difference intersection isdisjoint issubset issuperset symmetric_difference union",
    int: "bit_length",
    float: "is_integer",
    slice: "indices",
    NumberList: "tolist",
    Dim: "ceildiv_left ceildiv_right div_left div_right sub_left sub_right is_batch_dim is_feature_dim is_spatial_dim",
}
"""By type: the methods that a config may call."""

DATA: dict[type, str] = {
    int: "real imag numerator denominator", float: "real imag", slice: "start stop step",
    Version: "major minor micro", NumberList: "shape", Dim: "dimension name description kind",
}  # fmt: skip
"""By type: the attributes that a config may read."""

COMPARES = "index count remove sort get setdefault has_key pop".split()
"""Methods that compare entries."""

EXCEPTIONS = (
    Exception, ArithmeticError, AssertionError, AttributeError, FileNotFoundError, ImportError, IndexError, KeyError,
    LookupError, ModuleNotFoundError, NameError, NotImplementedError, OSError, OverflowError, RuntimeError,
    StopIteration, SyntaxError, SystemExit, TypeError, UnicodeError, ValueError, ZeroDivisionError,
)  # fmt: skip
TYPES = (int, float, complex, str, bytes, bool, list, tuple, dict, set, frozenset, slice, range, object)
VIEWS: tuple[type, ...] = (type({}.keys()), type({}.values()), type({}.items()))


class Formatter(string.Formatter):
    """`str.format`, which reads attributes only as a config may."""

    def __init__(self, attribute: Callable[[object, str], object], limits: Limits):
        self._attribute, self._limits = attribute, limits

    def get_field(self, field_name: str, args: Any, kwargs: Any) -> object:
        """The value of a replacement field."""
        first, rest = formatter_field_name_split(field_name)
        value = self.get_value(first, args, kwargs)
        for is_attribute, name in rest:
            value = self._attribute(value, name) if is_attribute else value[name]
        return value, first

    def format_field(self, value: object, format_spec: str) -> str:
        """The text of a value."""
        self._limits.format(format_spec)
        self._limits.weigh(value)
        return self._limits.made(format(value, format_spec) if not format_spec or not opaque(value) else repr(value))


def opaque(value: object) -> bool:
    """Whether a value is only known by name."""
    return isinstance(value, Unknown)


def opaque_inside(*values: object) -> bool:
    """Whether a value, or an entry of one, is only known by name."""
    return any(map(opaque, _entries(values)))


def unknown_of(*values: object) -> Unknown:
    """What an operation with opaque values gives: the first of them."""
    return next(filter(opaque, _entries(values)))


def _entries(values: Sequence[object]) -> Iterator[Any]:
    for value in values:
        for entry in value.values() if isinstance(value, dict) else [value]:
            yield from entry if isinstance(entry, list | tuple) else [entry]


class Builtins:
    """The functions of `__builtins__`, as far as a config may call them."""

    def __init__(self, limits: Limits, attribute: Callable[[object, str], object]):
        self.limits, self.attribute = limits, attribute
        self.formatter = Formatter(attribute, limits)

    def table(self) -> dict[str, object]:
        """All names."""
        known: dict[str, Callable[..., object]] = {
            **{function.__name__: function for function in (abs, bin, chr, divmod, hex, next, oct, ord, round)},
            **{function.__name__: self._over(function) for function in (all, any, sum, sorted, max, min)},
            **{name: getattr(self, f"_{name}") for name in "enumerate filter len map reversed zip reduce".split()},
            "iter": lambda values: iter(self.limits.entries_of(values)), "compile": _refused("compile"),
        }  # fmt: skip
        unknown = "open file __import__ input raw_input memoryview execfile".split()
        return {
            **{kind.__name__: kind for kind in (*EXCEPTIONS, *TYPES)},
            "basestring": str, "unicode": str, "long": int, "IOError": OSError, "EnvironmentError": OSError,
            "None": None, "True": True, "False": False, "NotImplemented": None, "Ellipsis": ..., "super": None,
            **{name: _of_known(function) for name, function in known.items()},
            **{name: functools.partial(Decorated, name) for name in ("staticmethod", "classmethod", "property")},
            **{name: Unknown(name) for name in unknown},
            "callable": callable, "id": id, "hash": lambda value: 0, "unichr": chr, "xrange": range,
            "cmp": lambda a, b: (a > b) - (a < b), "print": lambda *args, **kwargs: None,
            "repr": self._repr, "pow": self._pow, "type": self._type, "format": self._format,
            "isinstance": _is_instance, "issubclass": lambda kind, of: isinstance(kind, type) and issubclass(kind, of),
            "getattr": self._getattr, "hasattr": self._hasattr, "setattr": _setattr,
        }  # fmt: skip

    def construct(self, kind: type, args: tuple[Any, ...], kwargs: dict[str, object]) -> object:
        """A value of one of Python's types."""
        if any(map(opaque, args)):
            return Unknown(f"{kind.__name__}({args[0].name if opaque(args[0]) else '…'})")
        if kind in (str, bytes, set, frozenset, dict):
            self.limits.weigh(*args)
        if kind in (list, tuple, set, frozenset) and args:
            return kind(self.limits.entries_of(args[0]))
        if kind is dict and args and not isinstance(args[0], dict):
            args = (self.limits.entries_of(args[0]),)
        if kind is object:
            return Unknown("object()")
        if kind is str and args and isinstance(args[0], Instance) and args[0].has("__str__"):
            return self.limits.made(args[0].special("__str__"))
        return self.limits.made(kind(*args, **kwargs))

    def method(self, owner: object, name: str) -> object:
        """The bound method of a value of Python's types; None if a config may not call it."""
        kind: Any = owner if isinstance(owner, type) else type(owner)
        for base, names in METHODS.items():
            if isinstance(kind, type) and issubclass(kind, base) and name in names.split():
                return functools.partial(self._call, owner, base, name)
        for base, names in DATA.items():
            if not isinstance(owner, type) and isinstance(owner, base) and name in names.split():
                return operator.attrgetter(name)(owner)
        return None

    def _call(self, owner: Any, kind: type, name: str, *args: Any, **kwargs: object) -> object:
        limits = self.limits
        if isinstance(owner, type) and name != "fromkeys":  # str.upper(x)
            if not args:
                raise TypeError(f"{kind.__name__}.{name} needs an object")
            owner, args = args[0], args[1:]
        if any(map(opaque, args)) and kind in (str, bytes):
            return Unknown(f"text.{name}()")
        if kind is str:
            limits.spend(len(owner))
            if name == "format":
                return limits.made(self.formatter.vformat(owner, args, kwargs))
            if name == "join":
                parts = limits.entries_of(args[0])
                limits.spend(sum(map(len, parts)) + len(owner) * len(parts))
                return owner.join(parts)
            if name == "replace":
                limits.spend(len(owner) + (owner.count(args[0]) if args[0] else len(owner) + 1) * len(args[1]))
            if name in ("ljust", "rjust", "center", "zfill"):
                limits.spend(int(args[0]))
        if kind is list and name in ("extend", "append", "insert"):
            limits.spend(1 if name != "extend" else 0)
            args = (limits.entries_of(args[0]),) if name == "extend" else args
            if len(owner) > ENTRIES:
                limits.spend(len(owner))
        if name in COMPARES or kind in (set, frozenset):
            limits.weigh(*args, *([owner] if kind in (list, tuple) else []))
        if name == "has_key":
            return args[0] in owner
        if name.startswith("iter"):
            name = name[4:]
        result: Any = getattr(owner, name)(*args, **kwargs)
        return [*result] if type(result) in VIEWS else limits.made(result)

    def _over(self, function: Callable[..., object]) -> Callable[..., object]:
        @functools.wraps(function)
        def call(*args: Any, **kwargs: object) -> Any:
            self.limits.weigh(*args)
            if args and not isinstance(args[0], int | float | str) and len(args) < 3:
                args = (self.limits.entries_of(args[0]), *args[1:])
            if function in (all, any):
                values = [bool(entry) for entry in args[0] if not opaque(entry)]
                decided = function(values) if len(values) == len(args[0]) or (function is any) in values else None
                return Unknown(f"{function.__name__}()") if decided is None else decided
            return self.limits.made(function(*args, **kwargs))

        return call

    def _enumerate(self, values: Iterable[object], start: int = 0) -> list[object]:
        return list(enumerate(self.limits.entries_of(values), start))

    def _filter(self, function: Callable[[object], object] | None, values: Iterable[object]) -> list[object]:
        return [value for value in self.limits.entries_of(values) if (function(value) if function else value)]

    def _map(self, function: Callable[..., object], *several: Iterable[object]) -> list[object]:
        return list(map(function, *map(self.limits.entries_of, several)))

    def _reversed(self, values: Iterable[object]) -> list[object]:
        return self.limits.entries_of(values)[::-1]

    def _zip(self, *several: Iterable[object]) -> list[object]:
        return list(zip(*map(self.limits.entries_of, several), strict=False))

    def _reduce(
        self, function: Callable[[object, object], object], values: Iterable[object], *initial: object
    ) -> object:
        return functools.reduce(function, self.limits.entries_of(values), *initial)

    def _len(self, value: Any) -> int:
        return value.special("__len__") if isinstance(value, Instance) and value.has("__len__") else len(value)

    def _repr(self, value: object) -> str:
        self.limits.weigh(value)
        return self.limits.made(repr(value))

    def _pow(self, a: Any, b: object, *rest: object) -> object:
        self.limits.before("Pow", a, b)
        return pow(a, b, *rest)

    def _format(self, value: object, spec: str = "") -> str:
        return self.formatter.format_field(value, spec)

    def _type(self, value: object) -> object:
        if isinstance(value, Instance):
            return value.kind
        return type(value) if type(value) in (*TYPES, type(None)) else Unknown(f"type of {value!r}")

    def _getattr(self, owner: object, name: str, *default: object) -> object:
        try:
            return self.attribute(owner, name)
        except AttributeError:
            if default:
                return default[0]
            raise

    def _hasattr(self, owner: object, name: str) -> bool:
        try:
            self.attribute(owner, name)
        except AttributeError:
            return False
        return True


def _of_known(function: Callable[..., object]) -> Callable[..., object]:
    """A function whose result is unknown if one of its arguments is."""
    name = function.__name__.strip("_")
    return lambda *args, **kwargs: Unknown(f"{name}()") if any(map(opaque, args)) else function(*args, **kwargs)


def _is_instance(value: Any, kinds: object) -> object:
    alternatives = kinds if isinstance(kinds, tuple) else (kinds,)
    if opaque(value):
        return Unknown(f"isinstance({value.name})")
    return any(
        kind in value.kind.chain
        if isinstance(value, Instance) and (isinstance(kind, Class) or kind in (dict, object))
        else isinstance(kind, type) and isinstance(value, kind) and not isinstance(value, Instance | Function | Unknown)
        for kind in alternatives
    )


def _setattr(owner: object, name: str, value: object) -> None:
    if not isinstance(owner, Instance):
        raise ConfigError("setattr: only objects of the config's own classes can be changed", got=repr(owner))
    owner.names[name] = value


def _dataclass(kind: object = None, **options: object) -> object:
    return kind if kind is not None else lambda kind: kind


def _as_dict(value: Any) -> object:
    """What `dataclasses.asdict` gives."""
    if isinstance(value, Instance) and not isinstance(value, dict):
        return Located({name: _as_dict(entry) for name, entry in value.names.items()})
    return type(value)(map(_as_dict, value)) if type(value) in (list, tuple) else value


def _literal(limits: Limits) -> Callable[[str], object]:
    def read(text: str) -> object:
        limits.spend(len(text))
        return limits.made(ast.literal_eval(text.strip()))

    return read


def _refused(name: str) -> Callable[..., object]:
    def call(*args: object, **kwargs: object) -> NoReturn:
        raise ConfigError(
            f"{name}: a config is read, not run", hint="rf.read_config(path, execute=True), for files of one's own"
        )

    return call


ITERTOOLS: dict[str, Callable[..., Iterable[object]]] = {
    "chain": itertools.chain, "zip_longest": itertools.zip_longest, "izip_longest": itertools.zip_longest,
}  # fmt: skip
"""Functions of `itertools` whose result is not longer than what they are given."""


class ConfigModule:
    """A module that a config may import: a table of names."""

    def __init__(self, name: str, names: dict[str, object]):
        self.name, self.names = name, names

    def __repr__(self) -> str:
        return f"<module {self.name}>"


class _DimClass(ConfigModule):
    """The class of dims, which a config may also call by its older name."""

    def __call__(
        self, dimension: object = None, kind: object = None, description: str = "", name: str = "", **_: object
    ) -> Dim:
        """A new dim. Where it was made, and whether it is for a batch only, changes nothing."""
        size = dimension if isinstance(dimension, int) else None
        return Dim(size, name=name or description, kind=kind if isinstance(kind, str) else None)


def _dims() -> dict[str, object]:
    """What a config imports to describe axes."""

    def of_kind(kind: str) -> Callable[..., Dim]:
        return lambda description=None, dimension=None, **_: dim_class(dimension, kind=kind, description=description)

    kinds = {"Spatial": "spatial", "Time": "spatial", "Feature": "feature", "Batch": "batch", "Unspecified": None}
    dim_class = _DimClass("Dim", {"Types": ConfigModule("Dim.Types", {**kinds})})
    return {
        "Dim": dim_class, "DimensionTag": dim_class, "SpatialDim": of_kind("spatial"), "FeatureDim": of_kind("feature"),
        "batch_dim": batch_dim, "single_step_dim": single_step_dim,
    }  # fmt: skip


class ConfigOptions:
    """The object `config` that configs ask for their own options, and for those given when the config is read."""

    def __init__(self, values: dict[str, object], given: dict[str, object]):
        self.values, self.given = values, given
        self.methods: dict[str, object] = {
            "bool": self._typed(_bool), "int": self._typed(int), "float": self._typed(float), "value": self._value,
            "opt_typed_value": self._get, "typed_value": self._get, "has": self._has, "list": self._list,
            "is_true": lambda key, default=False: bool(self._get(key, default)),
            "set": self._set, "update": self.values.update,
            "get_of_type": lambda key, types, default=None: self._get(key, default),
            "bool_or_other": self._get, "typed_dict": self.values, "int_list": self._list, "float_list": self._list,
            "is_typed": lambda key: key in self.values,
        }  # fmt: skip

    def __repr__(self) -> str:
        return "<config>"

    def _get(self, key: str, default: object = None, *_: object, **__: object) -> object:
        return self.given.get(key, self.values.get(key, default))

    def _set(self, key: str, value: object) -> None:
        self.values[key] = value

    def _has(self, key: str) -> bool:
        return key in self.given or key in self.values

    def _value(self, key: str, default: object = None, index: int | None = None, list_join_str: str = ",") -> object:
        value = self._get(key, default)
        if isinstance(value, list | tuple):
            return value[index] if index is not None else list_join_str.join(map(str, value))
        return value if value is None or isinstance(value, str) else str(value)

    def _list(self, key: str, default: object = None) -> object:
        value = self._get(key, default)
        return value if isinstance(value, list | tuple) else [] if value is None else [value]

    def _typed(self, kind: Callable[[Any], object]) -> Callable[..., object]:
        def read(key: str, default: object = None, *_: object) -> object:
            value = self._get(key, default)
            value = value[0] if isinstance(value, list | tuple) and value else value
            return value if value is None or isinstance(value, Unknown) else kind(value)

        return read


def _bool(value: object) -> bool:
    words = {"true": True, "yes": True, "on": True, "1": True, "false": False, "no": False, "off": False, "0": False}
    return words.get(value.lower(), bool(value)) if isinstance(value, str) else bool(value)


def _copied(limits: Limits) -> Callable[[object], object]:
    def deep(value: object) -> object:
        limits.spend(_count(value, limits))
        return copy.deepcopy(value)

    return deep


def _count(value: object, limits: Limits) -> int:
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


def _numpy(limits: Limits) -> dict[str, object]:
    """Functions of numpy on numbers, and on arrays of them."""

    def array(x: object, *_: object, **__: object) -> object:
        return NumberList(array(entry) for entry in limits.entries_of(x)) if isinstance(x, list | tuple) else x

    def linspace(start: float, stop: float, num: int = 50, **options: object) -> NumberList:
        limits.spend(int(num))
        return NumberList(np.linspace(float(start), float(stop), int(num)).tolist())

    def arange(*args: float) -> NumberList:
        start, stop, step = (0, args[0], 1) if len(args) == 1 else (*args, 1)[:3]
        limits.spend(max(int((stop - start) / step), 0) + 1)
        return NumberList(np.arange(*args).tolist())

    def filled(value: float) -> Callable[..., object]:
        def make(shape: Any, *_: object, **__: object) -> object:
            sizes = [shape] if isinstance(shape, int) else list(shape)
            limits.spend(math.prod(sizes))
            return array(np.full(sizes, value).tolist())

        return make

    scalar: dict[str, Callable[..., object]] = {
        "sqrt": math.sqrt, "log": math.log, "log2": math.log2, "log10": math.log10, "exp": math.exp, "ceil": math.ceil,
        "floor": math.floor, "abs": abs, "round": round, "power": math.pow, "maximum": max, "minimum": min,
        "clip": lambda x, low, high: min(max(x, low), high), "square": lambda x: x * x,
    }  # fmt: skip
    scalar = {name: _elementwise(function) for name, function in scalar.items()}
    reduced: dict[str, Callable[..., object]] = {
        "sum": sum, "prod": math.prod, "max": max, "min": min, "mean": lambda x: sum(x) / len(x),
    }  # fmt: skip
    over = {name: _over(limits, function) for name, function in reduced.items()}
    kinds: dict[str, object] = dict.fromkeys("int32 int64 int_ int8 uint8".split(), int)
    kinds |= dict.fromkeys("float32 float64 float_ float16".split(), float)
    return {
        **scalar, **over, **kinds, "linspace": linspace, "arange": arange, "zeros": filled(0.0), "ones": filled(1.0),
        "pi": math.pi, "e": math.e, "inf": math.inf, "nan": math.nan, "array": array, "asarray": array,
        "logspace": lambda a, b, num=50, base=10.0, **_: NumberList(base**x for x in linspace(a, b, num)),
    }  # fmt: skip


def _elementwise(function: Callable[..., object]) -> Callable[..., object]:
    def call(x: object, *more: object, **_: object) -> object:
        return NumberList(call(entry, *more) for entry in x) if isinstance(x, NumberList) else function(x, *more)

    return call


def _over(limits: Limits, function: Callable[..., object]) -> Callable[..., object]:
    return lambda x, *_, **__: function(limits.entries_of(x))


def _math() -> dict[str, object]:
    names = (
        "ceil floor sqrt log log2 log10 exp pow pi e inf nan sin cos tan tanh atan fabs gcd isnan isinf fsum trunc "
        "degrees radians hypot prod"
    ).split()
    return {name: getattr(math, name) for name in names}


def modules(limits: Limits, builtins: Builtins, options: ConfigOptions, path: str) -> dict[str, ConfigModule]:
    """The modules by name."""
    paths: dict[str, object] = {
        name: getattr(os.path, name)
        for name in ("basename", "dirname", "join", "split", "splitext", "normpath", "isabs", "commonprefix")
    }
    paths |= {name: lambda text: text for name in ("abspath", "realpath", "expanduser", "expandvars")}
    path_module = ConfigModule("os.path", {**paths, "sep": "/"})

    def getenv(name: str, default: object = None) -> object:
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
    dims = _dims()
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
                                          "wraps": lambda f: lambda g: g, "cache": lambda f: f,
                                          "lru_cache": _dataclass}),
        "dataclasses": ConfigModule("dataclasses", {
            "dataclass": _dataclass, "field": lambda **options: FieldDefault(
                options.get("default"), options.get("default_factory")), "asdict": _as_dict}),
        "ast": ConfigModule("ast", {"literal_eval": _literal(limits)}),
        "json": ConfigModule("json", {"loads": lambda text, **_: limits.made(json.loads(text)),
                                      "dumps": lambda value, **_: limits.made(json.dumps(value))}),
        "abc": ConfigModule("abc", {"ABC": object, "abstractmethod": lambda f: f}),
        "itertools": ConfigModule("itertools", {**bounded}),
        "collections": ConfigModule("collections", {
            "OrderedDict": _ordered(limits), "defaultdict": collections.defaultdict,
            "namedtuple": lambda name, fields, **_: collections.namedtuple(name, fields)}),
        "Config": ConfigModule("Config", getter), "returnn.config": ConfigModule("returnn.config", getter),
        "Pretrain": ConfigModule("Pretrain", {"WrapEpochValue": EpochValue}),
        "returnn.pretrain": ConfigModule("returnn.pretrain", {"WrapEpochValue": EpochValue}),
        **{name: ConfigModule(name, dims) for name in ("returnn.tf.util.data", "returnn.tensor", "TFUtil.data")},
        "__future__": ConfigModule("__future__", {}), "typing": ConfigModule("typing", {}),
    }  # fmt: skip


def _ordered(limits: Limits) -> Callable[..., object]:
    def make(entries: Any = (), **more: object) -> object:
        return Located(dict(entries if isinstance(entries, dict) else limits.entries_of(entries), **more))

    make.makes_dicts = True  # type: ignore[attr-defined]
    return make


def missing(name: str) -> Unknown:
    """A module that is not in the tables."""
    if name.split(".")[0] in ("builtins", "__builtin__"):
        raise ConfigError(f"import of {name}: a config is read, not run")
    return Unknown(name)

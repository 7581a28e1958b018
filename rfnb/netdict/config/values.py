"""What a config may hold beside Python's own data."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator, Mapping
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, NamedTuple


class Located(dict[Any, object]):
    """A dict that a config writes, with the number of the line where it begins, and the file if it is known."""

    __slots__ = ("file", "line")

    def __init__(self, entries: Mapping[object, object], line: int | None = None, file: str | None = None):
        super().__init__(entries)
        self.line, self.file = line, file

    def __copy__(self) -> Located:
        return Located(self, self.line, self.file)

    copy = __copy__

    def __deepcopy__(self, memo: dict[int, object]) -> Located:
        memo[id(self)] = duplicate = Located({}, self.line, self.file)
        duplicate.update({deepcopy(key, memo): deepcopy(value, memo) for key, value in self.items()})
        return duplicate


class Unknown:
    """A value that is only known by name, such as what a config imports. All that is done with it is opaque too.

    Args:
        name: what is shown for it.
        members: attributes that are known all the same.
    """

    def __init__(self, name: str, members: Mapping[str, object] | None = None):
        self.name, self.members = name if len(name) < 80 else f"{name[:60]}…", members or {}

    def __repr__(self) -> str:
        return f"<{self.name}>"

    def __bool__(self) -> bool:
        return False

    def __iter__(self) -> Iterator[object]:
        return iter(())

    def __len__(self) -> int:
        return 0

    def __deepcopy__(self, memo: dict[int, object]) -> Unknown:
        return self


class Version(NamedTuple):
    """`sys.version_info`."""

    major: int
    minor: int
    micro: int


class NumberList(list[Any]):
    """An array of numpy. Operators work on its entries."""

    def __getitem__(self, index: Any) -> Any:
        entries = super().__getitem__(index)
        return NumberList(entries) if isinstance(index, slice) else entries

    @property
    def shape(self) -> tuple[int, ...]:
        """The sizes of the axes."""
        return (len(self), *(self[0].shape if self and isinstance(self[0], NumberList) else ()))

    def tolist(self) -> list[object]:
        """The entries as lists."""
        return [entry.tolist() if isinstance(entry, NumberList) else entry for entry in self]

    def paired(self, other: object) -> list[object]:
        """The entries that belong to those of this array: of another one, or a number again and again."""
        if not isinstance(other, list | tuple):
            return [other] * len(self)
        if len(other) != len(self):
            raise ValueError(f"arrays of {len(self)} and {len(other)} entries")
        return list(other)


class Known(Unknown):
    """A function of an import that is known, but only while an expression of a net is computed."""

    def __init__(self, name: str, run: Callable[..., object]):
        super().__init__(name)
        self.run = run


@dataclass(repr=False)
class Frame:
    """The names of a function or of the whole config. parent: where names are looked up that are not here."""

    names: dict[str, Any] = field(default_factory=dict)
    parent: Frame | None = None
    outside: set[str] = field(default_factory=set)  # declared `nonlocal`
    globally: set[str] = field(default_factory=set)  # declared `global`
    is_class: bool = False
    is_inner: bool = False  # of a comprehension
    is_module: bool = False  # of a file beside the config
    yielded: list[object] | None = None

    @property
    def root(self) -> Frame:
        """The frame of the file."""
        return self if self.parent is None else self.parent.root


class Function:
    """A function of a config. A call interprets its body."""

    def __init__(
        self, node: ast.FunctionDef | ast.Lambda, frame: Frame, defaults: list[object], keywords: dict[str, object],
        run: Callable[..., object],
    ):  # fmt: skip
        self.node, self.frame, self.defaults, self.keywords, self._run = node, frame, defaults, keywords, run
        self.name = getattr(node, "name", "<lambda>")
        self.line = node.lineno

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """What the function gives."""
        return self._run(self, args, kwargs)

    def __repr__(self) -> str:
        return f"<function {self.name}>"

    @property
    def limits(self) -> Any:
        """What the interpreter that runs it has left."""
        return self._run.__self__.limits  # type: ignore[attr-defined]

    def __deepcopy__(self, memo: dict[int, object]) -> Function:
        return self

    @property
    def parameters(self) -> list[str]:
        """The names of its parameters."""
        signature = self.node.args
        return [arg.arg for arg in (*signature.posonlyargs, *signature.args, *signature.kwonlyargs)]


class Bound:
    """A method of an object of a config."""

    def __init__(self, function: Function, owner: object):
        self.function, self.owner = function, owner

    def __call__(self, /, *args: object, **kwargs: object) -> Any:
        """What the method gives."""
        return self.function(self.owner, *args, **kwargs)

    def __repr__(self) -> str:
        return f"<method {self.function.name}>"


@dataclass(frozen=True)
class Decorated:
    """A function under `staticmethod`, `classmethod` or `property`, which is the kind."""

    kind: str
    function: Any


class Class:
    """A plain class of a config."""

    def __init__(self, name: str, bases: list[object], names: dict[str, object], fields: tuple[str, ...] = ()):
        self.name, self.bases, self.names, self.fields = name, bases, names, fields

    def find(self, name: str) -> tuple[bool, Any]:
        """Whether the class or one of its bases has this name, and its value."""
        if name in self.names:
            return True, self.names[name]
        for base in self.bases:
            if isinstance(base, Class):
                exists, value = base.find(name)
                if exists:
                    return True, value
        return False, None

    @property
    def chain(self) -> list[object]:
        """The class and all its bases."""
        return [self, *(kind for base in self.bases for kind in (base.chain if isinstance(base, Class) else [base]))]

    def __call__(self, *args: object, **kwargs: object) -> Instance:
        """A new object."""
        is_dict = any(kind is dict or getattr(kind, "makes_dicts", False) for kind in self.chain)
        instance = DictInstance(self) if is_dict else Instance(self)
        exists, init = self.find("__init__")
        if exists:
            init(instance, *args, **kwargs)
        elif isinstance(instance, DictInstance):
            instance.update(*args, **kwargs)
        else:
            self._set_fields(instance, args, kwargs)
        return instance

    def _set_fields(self, instance: Instance, args: tuple[object, ...], kwargs: dict[str, object]) -> None:
        """What the class has under `@dataclass`: a value for each field."""
        kinds = [kind for kind in reversed(self.chain) if isinstance(kind, Class)]
        fields = list(dict.fromkeys(name for kind in kinds for name in kind.fields))
        arguments = dict(zip(fields, args, strict=False)) | kwargs
        if wrong := [name for name in arguments if fields and name not in fields]:
            raise TypeError(f"{self.name} has no field {wrong[0]}")
        for name in fields:
            exists, default = self.find(name)
            if name not in arguments and not exists:
                raise TypeError(f"{self.name} needs {name}")
            instance.names[name] = arguments[name] if name in arguments else made_default(default)
        exists, function = self.find("__post_init__")
        if exists and fields:
            function(instance)

    def __repr__(self) -> str:
        return f"<class {self.name}>"


class Instance:
    """An object of a class of a config."""

    def __init__(self, kind: Class):
        self.kind, self.names = kind, dict[str, Any]()

    def has(self, name: str) -> bool:
        """Whether its class has a method of this name."""
        return self.kind.find(name)[0]

    def special(self, name: str, *args: object) -> Any:
        """What the method of this name gives. Raises TypeError if there is none."""
        exists, method = self.kind.find(name)
        if not exists:
            raise TypeError(f"{self.kind.name} has no {name}")
        return method(self, *args)

    def __repr__(self) -> str:
        return f"<{self.kind.name} object>"


class DictInstance(Instance, Located):
    """An object of a class of a config that is a dict."""

    def __init__(self, kind: Class):
        Instance.__init__(self, kind)
        Located.__init__(self, {})


@dataclass(frozen=True)
class FieldDefault:
    """What `field(default=…, default_factory=…)` of a dataclass gives."""

    default: Any = None
    default_factory: Any = None


def made_default(default: object) -> object:
    """The value of a field that is not given."""
    if not isinstance(default, FieldDefault):
        return default
    return default.default if default.default_factory is None else default.default_factory()


class Super:
    """What `super()` gives: the methods of the bases."""

    def __init__(self, owner: Instance, bases: list[object]):
        self.owner, self.bases = owner, bases


class ConfigRaised(Exception):
    """An exception that a config raises itself: an object of one of its classes."""

    def __init__(self, value: object):
        super().__init__(str(value))
        self.value = value


class EpochValue:
    """A value that depends on the epoch of a training, made by `WrapEpochValue`."""

    def __init__(self, function: object):
        self.function = function

    def __repr__(self) -> str:
        return "<value of the epoch>"

    def __deepcopy__(self, memo: dict[int, object]) -> EpochValue:
        return self

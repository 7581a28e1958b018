"""Lists of modules and of parameters, functions as modules, and the outputs of inner modules that are kept."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import Any, Generic, TypeVar, overload

from rfnb.core.tensor.op import guarded
from rfnb.core.tensor.parameter import Parameter
from rfnb.core.tensor.tensor import Tensor
from rfnb.errors import ParameterError
from rfnb.nn.module.module import Module


class Functional(Module):
    """A function as a module, for example as an entry of a list of modules.

    attribs: attributes to set; parameters and modules among them belong to the module.

    >>> twice = rf.Functional(lambda x: 2 * x)
    >>> twice(rf.ones([rf.Dim(3, name="feat")])).raw_tensor.tolist()
    [2.0, 2.0, 2.0]

    Raises ParameterError if `func` cannot be called.
    """

    def __init__(self, func: Callable[..., object], *, attribs: dict[str, object] | None = None):
        check_callable(func, type(self).__name__)
        self.func = func
        for name, value in (attribs or {}).items():
            setattr(self, name, value)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Calls the function."""
        return self.func(*args, **kwargs)

    def get_default_name(self) -> str:
        """The name of the function."""
        return getattr(self.func, "__name__", type(self.func).__name__).replace("<lambda>", "lambda")


def check_callable(part: object, what: str) -> None:
    """Raises ParameterError if `part` is neither a module nor a function. what: how the message begins."""
    if not callable(part):
        raise ParameterError(
            f"{what}: this is not a module", got=f"{part!r:.40}", expected="an rf.Module or a function of a Tensor"
        )


Part = Module | Callable[..., Any]
P = TypeVar("P", bound=Module | Parameter)
L = TypeVar("L", bound="_Listed[Any]")


class _Listed(Module, Generic[P]):
    """A list whose entries are attributes named "0", "1", …, or like the keys of a dict."""

    _kind: type[object]

    def __init__(self, *parts: object):
        only = parts[0] if len(parts) == 1 else None
        if isinstance(only, Mapping | _Listed):
            self._add(only.items())
        else:
            self._add(enumerate(only if isinstance(only, Iterable) and not isinstance(only, Tensor) else parts))

    def _part(self, given: Any) -> object:
        return given

    def _add(self, parts: Iterable[tuple[object, object]]) -> None:
        for name, part in parts:
            setattr(self, str(name), self._part(part))

    def items(self) -> list[tuple[str, P]]:
        """Names and entries; an entry that occurs twice is listed twice."""
        entries: list[Any] = [(name, part) for name, part in vars(self).items() if isinstance(part, self._kind)]
        return entries

    def append(self, part: object) -> None:
        """Adds an entry at the end."""
        self._add([(len(self), part)])

    def extend(self, parts: Iterable[object]) -> None:
        """Adds entries at the end."""
        self._add(list(enumerate(parts, len(self))))

    def __len__(self) -> int:
        return len(self.items())

    def __iter__(self) -> Iterator[P]:
        return iter([part for _, part in self.items()])

    @overload
    def __getitem__(self: L, index: slice) -> L: ...
    @overload
    def __getitem__(self, index: int | str) -> P: ...
    def __getitem__(self, index: int | str | slice) -> Any:
        if isinstance(index, str):
            return dict(self.items())[index]
        return type(self)(list(self)[index]) if isinstance(index, slice) else list(self)[index]

    def __setitem__(self, index: int | slice, part: object) -> None:
        """Replaces entries. For a slice they are renumbered, but names from a dict stay."""
        entries = self.items()
        if not isinstance(index, slice):
            self._add([(entries[index][0], part)])
            return
        names, parts = [name for name, _ in entries[index]], self._parts(part)
        if len(names) != len(parts):
            if index.step not in (None, 1):
                fault = f"{type(self).__name__}: a slice with a step is replaced by a different number of entries"
                raise ParameterError(fault, got=len(parts), expected=len(names))
            names = ["0"] * len(parts)
        entries[index] = zip(names, parts, strict=True)
        self._become(entries)

    def __delitem__(self, index: int | slice) -> None:
        """Removes entries; the following ones are renumbered, but names from a dict stay."""
        entries = self.items()
        del entries[index]
        self._become(entries)

    def _parts(self, given: object) -> list[Any]:
        if not isinstance(given, Iterable) or isinstance(given, Tensor):
            fault = f"{type(self).__name__}: what replaces a slice is not a list"
            kind = self._kind.__name__.lower()
            raise ParameterError(fault, got=type(given).__name__, expected=f"a list of {kind}s", hint=f"[{kind}]")
        return [self._part(part) for part in given]

    def _become(self, entries: Iterable[tuple[str, object]]) -> None:
        for name, _ in self.items():
            delattr(self, name)
        self._add((i if name.isdecimal() else name, part) for i, (name, part) in enumerate(entries))


class ModuleList(_Listed[Module]):
    """A list of modules, named "0", "1", …, or like the keys of a dict. Functions become modules.

    >>> dims = [rf.Dim(n, name=f"hidden{n}") for n in (3, 4, 5)]
    >>> layers = rf.ModuleList(rf.Linear(a, b) for a, b in zip(dims, dims[1:]))
    >>> [name for name, _ in layers.named_parameters()]
    ['0.weight', '0.bias', '1.weight', '1.bias']
    """

    _kind = Module

    def __init__(self, *modules: Part | Iterable[Part] | Mapping[str, Part]):
        super().__init__(*modules)

    def _part(self, given: Part) -> Module:
        if isinstance(given, Module):
            return given
        check_callable(given, type(self).__name__)
        return Functional(given)


class ParameterList(_Listed[Parameter]):
    """A list of parameters, named "0", "1", …, or like the keys of a dict.

    >>> feat = rf.Dim(3, name="feat")
    >>> scales = rf.ParameterList(rf.Parameter([feat]) for _ in range(2))
    >>> [name for name, _ in scales.named_parameters()]
    ['0', '1']

    Raises ParameterError if an entry is not a Parameter.
    """

    _kind = Parameter

    def __init__(self, *parameters: Parameter | Iterable[Parameter] | Mapping[str, Parameter]):
        super().__init__(*parameters)

    def _part(self, given: object) -> Parameter:
        if not isinstance(given, Parameter):
            fault = "ParameterList: an entry is not a Parameter"
            raise ParameterError(fault, got=type(given).__name__, expected="rf.Parameter")
        return given


class Sequential(ModuleList):
    """Calls modules one after the other, each with the result of the previous one.

    >>> hidden, out = rf.Dim(3, name="hidden"), rf.Dim(2, name="out")
    >>> rf.Sequential(rf.Linear(hidden, out), rf.relu)(rf.zeros([hidden])).dims == (out,)
    True
    """

    def __call__(self, inp: Tensor, *, collected_outputs: dict[str, Tensor] | None = None, **kwargs: object) -> Tensor:
        """The result of the last module. `collected_outputs` receives all results; `kwargs` go to all modules."""
        for name, part in self.items():
            inp = part(inp, **kwargs)
            if collected_outputs is not None:
                collected_outputs[name] = inp
        return inp


@guarded
def sequential(source: Tensor, *modules: Part) -> Tensor:
    """Calls `modules` one after the other, each with the previous result: `rf.Sequential(*modules)(source)`.

    >>> feat = rf.Dim(3, name="feat")
    >>> x = rf.convert_to_tensor([-4.0, 1.0, 9.0], dims=[feat])
    >>> rf.sequential(x, rf.relu, rf.sqrt).raw_tensor.tolist()
    [0.0, 1.0, 3.0]
    """
    for module in modules:
        check_callable(module, "sequential")
        source = module(source)
    return source


class CollectOutputsDict(dict[str, Any]):
    """A dict for `collected_outputs` that keeps only the entries whose key matches a pattern, such as "1" or "*.5".

    >>> model, time = rf.Dim(4, name="model"), rf.Dim(3, name="time")
    >>> layers = rf.Sequential(*(rf.Linear(model, model) for _ in range(4)))
    >>> collected = rf.CollectOutputsDict(allowed_key_patterns=["0", "[23]"])
    >>> _ = layers(rf.zeros([time, model]), collected_outputs=collected)
    >>> list(collected), collected.is_key_allowed("1")
    (['0', '2', '3'], False)

    allowed_key_patterns: as in file names, with `*`, `?` and `[…]`; None: all keys.
    """

    def __init__(self, *args: object, allowed_key_patterns: Sequence[str] | None = None, **kwargs: object):
        super().__init__()
        self.allowed_key_patterns = allowed_key_patterns
        self.update(*args, **kwargs)

    def is_key_allowed(self, key: str) -> bool:
        """Whether an entry with this key is kept."""
        patterns = self.allowed_key_patterns
        return patterns is None or any(fnmatchcase(key, pattern) for pattern in patterns)

    def __setitem__(self, key: str, value: object) -> None:
        if self.is_key_allowed(key):
            super().__setitem__(key, value)

    def update(self, *args: object, **kwargs: object) -> None:
        """Sets each entry whose key matches."""
        for key, value in dict(*args, **kwargs).items():
            self[key] = value

    def setdefault(self, key: str, default: object = None) -> Any:
        """Sets an entry that is not there, if its key matches, and returns the value or `default`."""
        if key not in self:
            self[key] = default
        return self.get(key, default)

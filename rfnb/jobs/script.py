"""A function of a notebook as a script: with it go the imports, functions, classes and data that it uses."""

from __future__ import annotations

import ast
import builtins
import dis
import inspect
import io
import linecache
import os
import pickle
import sys
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property
from graphlib import CycleError, TopologicalSorter
from importlib.util import find_spec
from pathlib import Path
from textwrap import dedent
from types import CodeType, FunctionType, ModuleType
from typing import Any

from rfnb.core.ground.source import codes_in, parsed
from rfnb.errors import LaunchError
from rfnb.jobs.worker import first_object
from rfnb.printable import error_text
from rfnb.trace.plain.syntax import outside_of_functions
from rfnb.trace.plain.user_code import first_line

FIRST, LATER = "first values", "later values"
"""Stand for the lines that read values, among the names of a script: before, and after, classes of the notebook."""
BEGIN = "process = Process(__file__)"
"""A line that each script has."""
LITERALS = (int, float, complex, str, bytes, bool, type(None), type(...))


class Definition:
    """A function, class or assignment of the notebook: its text, and the names that it uses.

    Args:
        statement: the syntax tree.
        text: of the whole cell.
        flags: with which the cell was compiled, for `from __future__ import annotations`.
    """

    def __init__(self, statement: ast.stmt, text: str, flags: int):
        self.text = dedent("\n".join(text.splitlines()[first_line(statement) - 1 : statement.end_lineno]))
        self.statement, self.flags = statement, flags

    @cached_property
    def code(self) -> CodeType:
        """The statement, compiled alone."""
        return compile(self.text, "<definition>", "exec", flags=self.flags, dont_inherit=True)

    @cached_property
    def first_names(self) -> set[str]:
        """The names that are looked up when the statement runs: of bases, decorators, default values."""
        return set(_names(self.code, "LOAD_NAME"))

    @cached_property
    def later_names(self) -> set[str]:
        """The names that are looked up when the functions in it are called."""
        return set(_names(self.code, "LOAD_GLOBAL"))

    @property
    def chains(self) -> Iterator[str]:
        """What looks like a module of a package: `torch.nn.functional`."""
        for node in ast.walk(self.statement):
            if isinstance(node, ast.Attribute) and "(" not in (chain := ast.unparse(node)):
                yield chain


def _names(code: CodeType, operation: str) -> Iterator[str]:
    codes = (code, *codes_in(code))
    return (line.argval for part in codes for line in dis.get_instructions(part) if line.opname == operation)


class Script:
    """The script of a function, in the order in which its parts need each other.

    Args:
        function: the function that the processes call.
        arguments: of the call, positional and by name.

    Raises LaunchError for what cannot go along.
    """

    def __init__(self, function: Callable[..., object], arguments: tuple[tuple[object, ...], dict[str, object]]):
        self.name = _name_of(function)
        self._globals = inspect.unwrap(function).__globals__
        self._modules: dict[str, str] = {}  # the line that imports each name
        self._definitions: dict[str, Definition] = {}
        self._literals: dict[str, str] = {}
        self._values: dict[str, object] = {}
        try:
            inspect.signature(function).bind(*arguments[0], **arguments[1])
        except TypeError as error:
            raise LaunchError(f"launch: {self.name!r} cannot be called with these arguments", got=error) from error
        self._needs: set[str] = set()  # of the notebook, when the values are read
        new = {self.name: "rf.launch"}
        while new:
            while new:
                for name, user in sorted(new.items()):
                    self._add(name, self._globals.get(name, function), user)
                new = self._unknown
            self._pickle(arguments)
            new = dict.fromkeys(self._needs - self._definitions.keys(), LATER)

    @property
    def _unknown(self) -> dict[str, str]:
        """The names that definitions use and that have no place yet, each with a definition that uses it."""
        placed = {*self._definitions, *self._modules, *self._literals, *self._values}
        return {
            name: user
            for user, definition in self._definitions.items()
            for name in definition.first_names | definition.later_names
            if name in self._globals and name not in placed and not _is_known(name, self._globals[name])
        }

    def _user_of(self, name: str) -> str:
        return next(user for user, d in self._definitions.items() if name in d.first_names | d.later_names)

    def _add(self, name: str, value: object, user: str) -> None:
        """Puts a name where it belongs."""
        if isinstance(value, ModuleType):
            self._modules[name] = self._import_of(name, value, user)
        elif line := _from_module(name, value):
            self._modules[name] = line
        elif isinstance(inspect.unwrap(value) if callable(value) else value, FunctionType | type):
            self._definitions[name] = self._definition(name, value, user)
        elif text := _literal(value):
            self._literals[name] = f"{name} = {text}"
        else:
            self._values[name] = value

    def _import_of(self, name: str, module: ModuleType, user: str) -> str:
        full = module.__name__
        if getattr(module, "__spec__", None) is None:
            raise LaunchError(
                f"launch: `{user}` uses the module {name!r}, which other processes cannot import", got=full,
                hint="import it from a file",
            )  # fmt: skip
        if full == name:
            return f"import {name}"
        package, _, module_name = full.rpartition(".")
        return f"from {package} import {module_name} as {name}" if package else f"import {full} as {name}"

    def _definition(self, name: str, value: object, user: str) -> Definition:
        for text, flags, line in _sources(value):
            try:
                tree = parsed(text)
            except SyntaxError:
                continue
            for statement in reversed([n for n in outside_of_functions(tree) if isinstance(n, ast.stmt)]):
                is_inside = line is None or first_line(statement) <= line <= (statement.end_lineno or 0)
                if is_inside and name in _bound(statement):
                    return Definition(statement, text, flags)
        kind = "class" if isinstance(value, type) else "function"
        raise LaunchError(
            f"launch: the {kind} {name!r} cannot go to other processes, as its definition was not found",
            got=f"{value!r:.80}, used by `{user}`",
            expected=f"a {kind} that a cell, a script or a module defines under this name, outside of other functions",
        )

    # -- values

    def _pickle(self, arguments: tuple[tuple[object, ...], dict[str, object]]) -> None:
        """Pickles the values and arguments: values of classes of the notebook, and arguments, apart from others, which
        default values and attributes of these classes may need.
        """
        needs = {
            name: self._check(f"`{self._user_of(name)}` uses {name!r}, which", v) for name, v in self._values.items()
        }
        for place, value in [*enumerate(arguments[0], 1), *arguments[1].items()]:
            self._check(f"argument {place!r}" if isinstance(place, str) else f"argument {place}", value)
        self._first = {name: value for name, value in self._values.items() if not needs[name]}
        self._later = {name: value for name, value in self._values.items() if needs[name]}
        first, later = Pickling(), Pickling()
        self._pickled = {"first.pt": first.save({"values": self._first, "objects": first.objects})}
        later.known = {id(value): number for number, value in enumerate(first.objects)}
        self._pickled["later.pt"] = later.save({"values": self._later, "arguments": arguments})
        self._needs = {name for name in later.names if name in self._globals}

    def _check(self, subject: str, value: object) -> set[str]:
        """The names of the notebook that reading a value needs. Raises LaunchError if it cannot be pickled."""
        pickling = Pickling()
        try:
            pickling.save(value)
        except Exception as error:
            raise LaunchError(
                f"launch: {subject} cannot go to other processes", got=f"{type(value).__name__}: {error_text(error)}",
                hint=f"make it inside of {self.name!r}, or pass what it is made of",
            ) from error  # fmt: skip
        return pickling.names

    # -- text

    def _order(self) -> list[str]:
        """The definitions and values, each after what it needs when it runs."""
        first, later = dict.fromkeys(self._first, FIRST), dict.fromkeys(self._later, LATER)
        places = first | later | {name: name for name in self._definitions}
        needs = {
            name: {places[word] for word in definition.first_names if word in places}
            for name, definition in self._definitions.items()
        }
        needs |= {FIRST: set(), LATER: {FIRST, *(self._needs & self._definitions.keys())}}
        try:
            order = list(TopologicalSorter(needs).static_order())
        except CycleError as error:
            circle = " → ".join(map(str, error.args[1]))
            raise LaunchError(
                "launch: definitions and values need each other", got=circle,
                hint="make the values inside of a function, not as default values or attributes of a class",
            ) from error  # fmt: skip
        return order

    @property
    def text(self) -> str:
        """The script."""
        future = any(d.flags & _ANNOTATIONS for d in self._definitions.values())
        lines = ["from __future__ import annotations", ""] if future else []
        lines += sorted({*self._modules.values(), *self._submodules()})
        lines += ["from rfnb.jobs.worker import Process", "", BEGIN, *self._literals.values()]
        for name in self._order():
            if name in (FIRST, LATER):
                values = self._first if name == FIRST else self._later
                lines += ["", ""] if values else []
                lines += [f"{value} = process.{name.split()[0]}[{value!r}]" for value in values]
            else:
                lines += ["", "", self._definitions[name].text]
        return "\n".join([*lines, "", "", 'if __name__ == "__main__":', f"    process.run({self.name})", ""])

    def _submodules(self) -> Iterator[str]:
        """Imports of modules that are reached by their package: `xml.dom` after `import xml.dom`."""
        for definition in self._definitions.values():
            for chain in definition.chains:
                root = chain.split(".")[0]
                if self._modules.get(root) == f"import {root}" and chain in sys.modules:
                    yield f"import {chain}"

    def write(self, folder: Path) -> Path:
        """Writes the script and its values to a folder; returns its path. No module has the name of the script, which
        would hide it where the script runs alone.
        """
        path = folder / f"{self.name}.py"
        if _is_module(self.name, path):
            path = folder / f"run_{self.name}.py"
        if path.exists() and BEGIN not in path.read_text(encoding="utf-8", errors="replace"):
            raise LaunchError(
                f"launch: {path.name!r} in the folder is not a script of rf.launch, which would replace it", got=path,
                hint="another folder",
            )  # fmt: skip
        path.write_text(self.text, encoding="utf-8")
        for name, content in self._pickled.items():
            (folder / name).write_bytes(content)
        return path


_ANNOTATIONS = 0x1000000  # of `from __future__ import annotations`


class Pickling(ModuleType):
    """The module pickle for `torch.save`, which also notes what is pickled.

    names: classes and functions of the notebook, which are pickled by name. objects: all that are pickled. known: the
    numbers of objects in an earlier pickle, by `id`, which are pickled as such.
    """

    def __init__(self) -> None:
        super().__init__("pickle")
        self.__dict__.update(vars(pickle))
        self.names, self.objects, self.known = set[str](), list[object](), dict[int, int]()
        module = self

        class Pickler(pickle.Pickler):
            def reducer_override(self, value: object) -> Any:
                if isinstance(value, type | FunctionType):
                    module.names |= {value.__qualname__.split(".")[0]} if value.__module__ == "__main__" else set()
                elif id(value) in module.known:
                    return first_object, (module.known[id(value)],)
                else:
                    module.objects.append(value)
                return NotImplemented

        self.Pickler = Pickler

    def save(self, value: object) -> bytes:
        """A value as bytes."""
        import torch

        file = io.BytesIO()
        torch.save(value, file, pickle_module=self)
        return file.getvalue()


def _name_of(function: Callable[..., object]) -> str:
    """The name of the function to run. Raises LaunchError if it is not one."""
    name = getattr(function, "__name__", "")
    if (
        not isinstance(inspect.unwrap(function) if callable(function) else None, FunctionType)
        or not name.isidentifier()
    ):
        raise LaunchError(
            "launch: `function` cannot be called by name in other processes", got=f"{function!r:.80}",
            expected="a function that a cell or a module defines by `def`", hint="def train(): …",
        )  # fmt: skip
    if inspect.unwrap(function).__closure__:
        raise LaunchError(
            f"launch: {name!r} uses variables of the function around it",
            got=", ".join(inspect.unwrap(function).__code__.co_freevars),
            expected="a function outside of other functions", hint="pass them as arguments",
        )  # fmt: skip
    return str(name)


def _is_known(name: str, value: object) -> bool:
    """Whether each module has the name anyway."""
    return name[:2] == "__" or getattr(builtins, name, builtins) is value


def _from_module(name: str, value: object) -> str | None:
    """The line that imports a value from the module that defines it, if that is a file."""
    module, path = getattr(value, "__module__", None), getattr(value, "__qualname__", None)
    if not isinstance(module, str) or module in ("__main__", "builtins") or not isinstance(path, str) or "." in path:
        return None
    if getattr(sys.modules.get(module), path, None) is not value:
        return None
    return f"from {module} import {path}" + ("" if path == name else f" as {name}")


def _is_module(name: str, path: Path) -> bool:
    """Whether a file other than this one, or Python itself, has a module of the name."""
    try:
        spec = find_spec(name)
    except ValueError:  # of a module that is not a file
        return True
    return spec is not None and spec.origin != os.fspath(path)


def _literal(value: object) -> str | None:
    """A number, text, or container of these, as code; None for others."""
    if type(value) not in (*LITERALS, tuple, list, dict, set):
        return None
    text = repr(value)
    try:
        is_exact = len(text) < 10_000 and ast.literal_eval(text) == value
    except (ValueError, SyntaxError, MemoryError, RecursionError):
        return None
    return text if is_exact else None


def _sources(value: Any) -> Iterator[tuple[str, int, int | None]]:
    """Texts in which a function or class may be defined, with flags of the compiler, and the line if it is known."""
    functions = [inspect.unwrap(value)] if not isinstance(value, type) else vars(value).values()
    for function in functions:
        code = getattr(inspect.unwrap(function) if callable(function) else function, "__code__", None)
        if code is not None and (lines := linecache.getlines(code.co_filename)):
            yield "".join(lines), code.co_flags & _ANNOTATIONS, code.co_firstlineno
    if isinstance(value, type):  # without functions of its own: in the script, or the newest cell that has the name
        yield "".join(linecache.getlines(getattr(sys.modules["__main__"], "__file__", None) or "")), 0, None
        for entry in reversed(list(linecache.cache.values())):
            if len(entry) > 2 and entry[1] is None:
                yield "".join(entry[2]), 0, None


def _bound(statement: ast.stmt) -> Iterable[str]:
    """The names that a statement binds."""
    match statement:
        case ast.FunctionDef(name=name) | ast.AsyncFunctionDef(name=name) | ast.ClassDef(name=name):
            return [name]
        case ast.Assign(targets=targets):
            return [target.id for target in targets if isinstance(target, ast.Name)]
    return []

"""Runs the statements of a config, without running Python code."""

from __future__ import annotations

import ast
from collections.abc import Callable
from pathlib import Path
from typing import Any

from rfnb.errors import ConfigError
from rfnb.netdict.config.expressions import Expressions
from rfnb.netdict.config.limits import LimitError, Limits
from rfnb.netdict.config.modules import Builtins, ConfigModule, ConfigOptions, missing, modules
from rfnb.netdict.config.tf_functions import tensorflow
from rfnb.netdict.config.values import Bound, Class, ConfigRaised, Frame, Function, Instance, Unknown

DEPTH = 60
"""How deep calls may be nested."""


class Leave(BaseException):
    """What a statement does to the statements around it: "break", "continue" or "return", with its value."""

    def __init__(self, how: str, value: object = None):
        self.how, self.value = how, value


class Interpreter(Expressions):
    """Runs statements. `globals` has the names of the config; `line` is that of the statement that runs."""

    def __init__(self, path: str, options: dict[str, object], parse: Callable[[Path], ast.Module] | None = None):
        self.limits = Limits()
        self.path, self.at, self.parse = path, Path(path), parse
        self.neighbours: dict[Path, ConfigModule] = {}
        self.globals = Frame()
        self.builtins = Builtins(self.limits, self.attribute)
        self.options = ConfigOptions(self.globals.names, options)
        self.modules = {**modules(self.limits, self.builtins, self.options, path), **tensorflow()}
        self.names = self.builtins.table() | {"config": self.options, "__file__": path, "__name__": "__config__"}
        self.line = 0
        self.starred = None
        self.skipped: dict[int, str] = {}
        self.unknown: dict[tuple[int, str], None] = {}
        self._guesses: set[tuple[int, str]] = set()
        self._depth = 0

    def run(self, tree: ast.Module) -> None:
        """Runs a whole config."""
        self.globals.names.clear()
        self.block(tree.body, self.globals)

    # -- what only the machine of the config knows

    def holds(self, test: ast.expr, frame: Frame) -> bool:
        """Whether a condition holds. One that is unknown is taken for false, unless the config then fails."""
        value = self.value(test, frame)
        if not isinstance(value, Unknown):
            return bool(value)
        place = (test.lineno, ast.unparse(test))
        self.unknown.pop(place, None)
        self.unknown[place] = None
        return place in self._guesses

    def attempt(self, run: Callable[[], object]) -> object:
        """The result of `run`. If it fails, unknown conditions are taken for true, one after the other, the last first.

        A config may ask where files are, and raise if they are nowhere. It changes nothing, so it can run again. Raises
        the error of the attempt that came furthest.
        """
        failures: list[tuple[int, int, Exception]] = []
        unknown, skipped = self.unknown, self.skipped
        while True:
            self.unknown, self.skipped = dict(unknown), dict(skipped)
            budget = self.limits.steps
            try:
                return run()
            except Exception as error:
                failures.append((budget - self.limits.steps, self.line, error))
                places = (place for place in reversed(self.unknown) if place not in unknown)
                place = next((place for place in places if place not in self._guesses), None)
                if place is None or isinstance(error, LimitError):
                    _, self.line, furthest = max(failures, key=lambda failure: failure[0])
                    raise furthest from None
                self._guesses.add(place)

    def notes(self) -> dict[int, str]:
        """By line: the assertions and conditions that depend on the machine where the config was meant to run."""
        words = {
            line: f"an assertion about the machine of the config is skipped: {test}"
            for line, test in self.skipped.items()
        }
        for line, test in self.unknown:
            truth = "true" if (line, test) in self._guesses else "false"
            words[line] = f"a condition about the machine of the config is taken for {truth}: {test}"
        return {line: text if len(text) < 160 else f"{text[:159]}…" for line, text in sorted(words.items())}

    def block(self, body: list[ast.stmt], frame: Frame) -> None:
        """Runs statements one after the other."""
        for statement in body:
            self.limits.step()
            self.line = statement.lineno
            method = getattr(self, f"_{type(statement).__name__}", None)
            if method is None:
                raise ConfigError(f"{type(statement).__name__} is not supported in a config")
            method(statement, frame)

    # -- functions

    def call_function(self, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> object:
        """The result of a function of the config."""
        frame, node = Frame(self._arguments(function, args, kwargs), function.frame), function.node
        self._depth += 1
        line = self.line
        try:
            if self._depth > DEPTH:
                raise LimitError("calls of functions are nested too deeply", expected=f"at most {DEPTH}")
            if isinstance(node, ast.Lambda):
                return self.value(node.body, frame)  # of the same line
            if any(isinstance(child, ast.Yield | ast.YieldFrom) for child in ast.walk(node)):
                frame.yielded = []
            self.block(node.body, frame)
        except Leave as leave:
            if frame.yielded is None:
                self.line = line
                return leave.value
        finally:
            self._depth -= 1
        self.line = line
        return frame.yielded

    def _arguments(self, function: Function, args: tuple[object, ...], kwargs: dict[str, object]) -> dict[str, object]:
        signature = function.node.args
        names = [arg.arg for arg in (*signature.posonlyargs, *signature.args)]
        values = dict(zip(names, args, strict=False))
        positional = args[len(names) :]
        if positional and signature.vararg is None:
            raise TypeError(f"{function.name} takes {len(names)} arguments, got {len(args)}")
        extra = {}
        allowed = {*names, *(arg.arg for arg in signature.kwonlyargs)}
        for name, value in kwargs.items():
            if name in values:
                raise TypeError(f"{function.name} got {name} twice")
            if name in allowed:
                values[name] = value
            elif signature.kwarg is None:
                raise TypeError(f"{function.name} has no parameter {name}")
            else:
                extra[name] = value
        defaults = dict(zip(reversed(names), reversed(function.defaults), strict=False)) | function.keywords
        for name in allowed - set(values):
            if name not in defaults:
                raise TypeError(f"{function.name} needs the argument {name}")
            values[name] = defaults[name]
        if signature.vararg is not None:
            values[signature.vararg.arg] = tuple(positional)
        if signature.kwarg is not None:
            values[signature.kwarg.arg] = extra
        return {name: values[name] for name in [*names, *values] if name in values}

    def _FunctionDef(self, node: ast.FunctionDef, frame: Frame) -> None:
        function = self.function(node, frame)
        for decorator in reversed(node.decorator_list):
            function = self.call(self.value(decorator, frame), (function,), {})
        self._owner_of(node.name, frame)[node.name] = function

    def _ClassDef(self, node: ast.ClassDef, frame: Frame) -> None:
        body = Frame(parent=frame, is_class=True)
        bases = [self.value(base, frame) for base in node.bases]
        self.block(node.body, body)
        fields = [
            part.target.id
            for part in node.body
            if isinstance(part, ast.AnnAssign) and isinstance(part.target, ast.Name)
        ]
        self._owner_of(node.name, frame)[node.name] = Class(node.name, bases, body.names, tuple(fields))

    def _Return(self, node: ast.Return, frame: Frame) -> None:
        raise Leave("return", None if node.value is None else self.value(node.value, frame))

    def _Yield(self, node: ast.Yield, frame: Frame) -> None:
        assert frame.yielded is not None
        frame.yielded.append(None if node.value is None else self.value(node.value, frame))
        self.limits.spend(1)

    def _YieldFrom(self, node: ast.YieldFrom, frame: Frame) -> None:
        assert frame.yielded is not None
        frame.yielded += self.limits.entries_of(self.value(node.value, frame))

    # -- assignments

    def _Assign(self, node: ast.Assign, frame: Frame) -> None:
        value = self.value(node.value, frame)
        for target in node.targets:
            self.assign(target, value, frame)

    def _AnnAssign(self, node: ast.AnnAssign, frame: Frame) -> None:
        if node.value is not None:
            self.assign(node.target, self.value(node.value, frame), frame)

    def _AugAssign(self, node: ast.AugAssign, frame: Frame) -> None:
        target = node.target
        old = self.value(type(target)(**{**vars(target), "ctx": ast.Load()}), frame)
        new = self.value(node.value, frame)
        if isinstance(old, list) and isinstance(node.op, ast.Add):
            entries = self.limits.entries_of(new)
            self.limits.spend(len(old) + len(entries))
            old += entries
        else:
            self.assign(node.target, self.binary(node.op, old, new), frame)

    def _Delete(self, node: ast.Delete, frame: Frame) -> None:
        for target in node.targets:
            if isinstance(target, ast.Name):
                self._owner_of(target.id, frame).pop(target.id)
            elif isinstance(target, ast.Subscript):
                owner, index = self.value(target.value, frame), self.value(target.slice, frame)
                if isinstance(owner, list | dict):
                    del owner[index]

    def _Global(self, node: ast.Global, frame: Frame) -> None:
        frame.globally |= set(node.names)

    def _Nonlocal(self, node: ast.Nonlocal, frame: Frame) -> None:
        frame.outside |= set(node.names)

    def _Expr(self, node: ast.Expr, frame: Frame) -> None:
        self.value(node.value, frame)

    def _Pass(self, node: ast.Pass, frame: Frame) -> None:
        pass

    # -- control

    def _If(self, node: ast.If, frame: Frame) -> None:
        self.block(node.body if self.holds(node.test, frame) else node.orelse, frame)

    def _For(self, node: ast.For, frame: Frame) -> None:
        for entry in self.entries(self.value(node.iter, frame)):
            self.assign(node.target, entry, frame)
            if self._left(node.body, frame):
                return
        self.block(node.orelse, frame)

    def _While(self, node: ast.While, frame: Frame) -> None:
        while self.holds(node.test, frame):
            if self._left(node.body, frame):
                return
        self.block(node.orelse, frame)

    def _left(self, body: list[ast.stmt], frame: Frame) -> bool:
        """Runs the body of a loop once. Whether it leaves the loop."""
        try:
            self.block(body, frame)
        except Leave as leave:
            if leave.how == "return":
                raise
            return leave.how == "break"
        return False

    def _Break(self, node: ast.Break, frame: Frame) -> None:
        raise Leave("break")

    def _Continue(self, node: ast.Continue, frame: Frame) -> None:
        raise Leave("continue")

    def _Assert(self, node: ast.Assert, frame: Frame) -> None:
        value = self.value(node.test, frame)
        if isinstance(value, Unknown):
            self.skipped[node.lineno] = ast.unparse(node.test)
        elif not value:
            raise AssertionError("an assertion does not hold")

    def _Raise(self, node: ast.Raise, frame: Frame) -> None:
        raise self.raised(RuntimeError() if node.exc is None else self.value(node.exc, frame))

    def _With(self, node: ast.With, frame: Frame) -> None:
        for item in node.items:
            entered = self.value(item.context_expr, frame)
            if item.optional_vars is not None:
                self.assign(item.optional_vars, entered if isinstance(entered, Unknown) else Unknown("file"), frame)
        self.block(node.body, frame)

    def _Try(self, node: ast.Try, frame: Frame) -> None:
        try:
            try:
                self.block(node.body, frame)
            except ConfigError:
                raise
            except Exception as error:
                handler = next((clause for clause in node.handlers if self._handles(clause, error, frame)), None)
                if handler is None:
                    raise
                if handler.name:
                    frame.names[handler.name] = error.value if isinstance(error, ConfigRaised) else error
                self.block(handler.body, frame)
            else:
                self.block(node.orelse, frame)
        finally:
            self.block(node.finalbody, frame)

    def _handles(self, handler: ast.ExceptHandler, error: Exception, frame: Frame) -> bool:
        if handler.type is None:
            return True
        kinds = self.value(handler.type, frame)
        for kind in kinds if isinstance(kinds, tuple) else (kinds,):
            if isinstance(kind, type) and isinstance(error, kind):
                return True
            if isinstance(error, ConfigRaised) and isinstance(error.value, Instance) and error.value.kind is kind:
                return True
        return False

    def interpreted(self, name: str, args: list[object], frame: Frame) -> Any:
        """What `eval` or `exec` does with a text: it is interpreted like the config itself."""
        text, names = args[0], next((scope for scope in reversed(args[1:]) if isinstance(scope, dict)), None)
        if isinstance(text, Unknown):
            return Unknown(f"{name}()")
        if not isinstance(text, str):
            raise TypeError(f"{name} takes a text")
        self.limits.spend(len(text))
        tree: Any = ast.parse(text.strip() if name == "eval" else text, mode=name)
        inner = frame if names is None else Frame(names)
        line = self.line
        self._depth += 1
        try:
            if self._depth > DEPTH:
                raise LimitError("calls of functions are nested too deeply", expected=f"at most {DEPTH}")
            return self.value(tree.body, inner) if name == "eval" else self.block(tree.body, inner)
        finally:
            self._depth, self.line = self._depth - 1, line

    # -- imports

    def _neighbour(self, name: str) -> ConfigModule | None:
        """The names of a Python file that lies beside the config, which is interpreted too; None if there is none."""
        dots = len(name) - len(name.lstrip("."))
        folders = [Path(self.path).parent] if not dots else [self.at.parent, *self.at.parent.parents][dots - 1 : dots]
        place = folders[0].joinpath(*filter(None, name.split("."))) if folders else self.at
        file = next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
        if file is None or self.parse is None:
            return None
        if file not in self.neighbours:
            frame, line, importer = Frame(is_module=True), self.line, self.at
            self.neighbours[file], self.at = ConfigModule(name, frame.names), file
            try:
                tree = self.parse(file)
                for node in ast.walk(tree):
                    if isinstance(node, ast.Dict):
                        node.file = str(file)  # type: ignore[attr-defined]
                self.block(tree.body, frame)
            except LimitError:
                raise
            except Exception as error:
                words = error.what if isinstance(error, ConfigError) else "the file fails"
                words = words if words.startswith(f"{file.name}:") else f"{file.name}:{self.line}: {words}"
                got = error.got if isinstance(error, ConfigError) else f"{type(error).__name__}: {error}"[:200]
                raise ConfigError(words, got=got) from None
            self.at, self.line = importer, line
        return self.neighbours[file]

    def _Import(self, node: ast.Import, frame: Frame) -> None:
        for alias in node.names:
            name = alias.name if alias.asname else alias.name.split(".")[0]
            imported = self.modules[name] if name in self.modules else self._neighbour(name) or missing(name)
            self._owner_of(alias.asname or name, frame)[alias.asname or name] = imported

    def _ImportFrom(self, node: ast.ImportFrom, frame: Frame) -> None:
        module = "." * node.level + (node.module or "")
        neighbour = self.modules[module] if module in self.modules else self._neighbour(module)
        imported: ConfigModule | Unknown = missing(module) if neighbour is None else neighbour
        for alias in node.names:
            if alias.name == "*":
                if isinstance(imported, ConfigModule):
                    frame.names.update(imported.names)
                self.starred = module
                continue
            name = f"{module}.{alias.name}"
            value: Any = self.modules.get(name)
            if value is None and (not isinstance(imported, ConfigModule) or alias.name not in imported.names):
                value = self._neighbour(name)
            value = self.attribute(imported, alias.name) if value is None else value
            if module in ("typing", "typing_extensions"):  # only for annotations
                value = Unknown(name)
            self._owner_of(alias.asname or alias.name, frame)[alias.asname or alias.name] = value


def plain(value: object) -> bool:
    """Whether a value is one of Python's own, and not one of the config's."""
    return not isinstance(value, Unknown | Function | Bound | Class | Instance | ConfigModule | ConfigOptions)

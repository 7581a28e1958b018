"""The global config, which models read their options from."""

from __future__ import annotations

import builtins
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rfnb.core.run_ctx import BehaviorVersion
from rfnb.errors import OptionError

__all__ = ["Config", "get_global_config", "global_config_ctx", "set_global_config"]

TRUE, FALSE = ("true", "yes", "on", "1"), ("false", "no", "off", "0", "")


class Config:
    """Options by name. Models read them with a default: `config.float("dropout", 0.1)`.

    >>> from rfnb.as_returnn.config import Config
    >>> config = Config({"dropout": "0.2", "enc_dims": [512, 256], "use_ctc": True})
    >>> config.float("dropout", 0.1), config.int("num_layers", 6), config.bool("use_ctc", False)
    (0.2, 6, True)
    >>> config.typed_value("enc_dims"), config.value("enc_dims", None)
    ([512, 256], '512,256')
    """

    def __init__(self, items: Mapping[str, object] | None = None):
        self.typed_dict: dict[str, Any] = dict(items or {})

    def __contains__(self, key: str) -> builtins.bool:
        return key in self.typed_dict

    def has(self, key: str) -> builtins.bool:
        """Whether the option is set."""
        return key in self.typed_dict

    def set(self, key: str, value: object) -> None:
        """Sets an option."""
        self.typed_dict[key] = value

    def update(self, items: Mapping[str, object]) -> None:
        """Sets several options."""
        self.typed_dict.update(items)

    def typed_value(self, key: str, default: object = None, index: builtins.int | None = None) -> Any:
        """The option as it was set; with `index`, this entry of it."""
        found = self.typed_dict.get(key, default)
        return found if index is None or found is default else found[index]

    def get_of_type(self, key: str, types: type | tuple[type, ...], default: object = None) -> Any:
        """The option as it was set. Raises OptionError if it is not of one of these types."""
        found = self.typed_value(key, default)
        if found is not default and not isinstance(found, types):
            raise OptionError(f"config: {key!r} has another type", got=repr(found), expected=types)
        return found

    def value(self, key: str, default: object, index: builtins.int | None = None, list_join_str: str = ",") -> Any:
        """The option as a string; the entries of a list with `list_join_str` in between."""
        found = self.typed_value(key, None, index)
        if isinstance(found, list | tuple):
            return list_join_str.join(map(str, found))
        return default if found is None else str(found)

    def int(self, key: str, default: object, index: builtins.int = 0) -> Any:
        """The option as a whole number."""
        return self._as(int, key, default, index)

    def float(self, key: str, default: object, index: builtins.int = 0) -> Any:
        """The option as a float."""
        return self._as(float, key, default, index)

    def bool(self, key: str, default: object, index: builtins.int = 0) -> Any:
        """The option as a bool; also "true", "no", "1", …"""
        found = self.bool_or_other(key, default, index)
        if isinstance(found, str) and found is not default:
            raise OptionError(f"config: {key!r} is not a bool", got=repr(found), expected=f"one of {[*TRUE, *FALSE]}")
        return found if found is default else bool(found)

    def bool_or_other(self, key: str, default: object = None, index: builtins.int = 0) -> Any:
        """The option as a bool if it can be read as one, otherwise as it was set."""
        found = self._one(key, default, index)
        text = str(found).lower()
        return text in TRUE if isinstance(found, str | int) and text in (*TRUE, *FALSE) else found

    def is_true(self, key: str, default: object = False) -> Any:
        """Whether the option is set to something true."""
        return self.bool(key, default)

    def list(self, key: str, default: object = None) -> Any:
        """The option as a list; a string is split at commas."""
        found = self.typed_value(key, None)
        if found is None:
            return [] if default is None else default
        if isinstance(found, str):
            return [part.strip() for part in found.split(",")]
        return [*found] if isinstance(found, tuple | list) else [found]

    def int_list(self, key: str, default: object = None) -> Any:
        """The option as a list of whole numbers."""
        return [int(entry) for entry in self.list(key, default)]

    def float_list(self, key: str, default: object = None) -> Any:
        """The option as a list of floats."""
        return [float(entry) for entry in self.list(key, default)]

    def _one(self, key: str, default: object, index: builtins.int) -> object:
        found = self.typed_value(key, None)
        found = found[index] if isinstance(found, list | tuple) else found
        return default if found is None else found

    def _as(self, kind: Any, key: str, default: Any, index: builtins.int) -> object:
        found = self._one(key, default, index)
        return found if found is default else kind(found)


_global: Config = Config()


def get_global_config(
    *, raise_exception: bool = True, auto_create: bool = False, return_empty_if_none: bool = False
) -> Config:
    """The config that `set_global_config` set; at first an empty one, so the options do not matter."""
    return _global


def set_global_config(config: Config | Mapping[str, object]) -> None:
    """Sets the config that models read: a Config, or a dict of options.

    Warns of what modules did in its `behavior_version` but do not do here.
    """
    global _global
    _global = config if isinstance(config, Config) else Config(config)
    version = _global.typed_value("behavior_version")
    if version is not None:
        BehaviorVersion.set(version)


@contextmanager
def global_config_ctx(config: Config | Mapping[str, object]) -> Iterator[Config]:
    """Sets the config inside the block."""
    before = _global
    set_global_config(config)
    try:
        yield _global
    finally:
        set_global_config(before)

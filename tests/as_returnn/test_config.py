"""The config that models read options from."""

from __future__ import annotations

import pytest

import rfnb as rf
from rfnb.as_returnn.config import Config, get_global_config, global_config_ctx, set_global_config

CONFIG = Config({"rate": "0.5", "layers": 6, "dims": (512, 256), "use": "yes", "off": 0, "mode": "fast", "none": None})


@pytest.mark.parametrize(
    ("method", "key", "expected"),
    [
        ("typed_value", "dims", (512, 256)),
        ("typed_value", "nothing", "default"),
        ("float", "rate", 0.5),
        ("float", "layers", 6.0),
        ("float", "nothing", "default"),
        ("float", "none", "default"),
        ("int", "dims", 512),
        ("bool", "use", True),
        ("bool", "off", False),
        ("bool", "nothing", "default"),
        ("bool_or_other", "mode", "fast"),
        ("bool_or_other", "use", True),
        ("bool_or_other", "layers", 6),
        ("is_true", "use", True),
        ("value", "layers", "6"),
        ("value", "dims", "512,256"),
        ("value", "nothing", "default"),
        ("list", "dims", [512, 256]),
        ("list", "mode", ["fast"]),
        ("list", "nothing", "default"),
        ("float_list", "dims", [512.0, 256.0]),
    ],
)
def test_an_option(method, key, expected):
    found = getattr(CONFIG, method)(key, "default")
    assert found == expected and type(found) is type(expected)


def test_an_entry_of_a_list():
    assert (CONFIG.typed_value("dims", index=1), CONFIG.int("dims", 0, 1), CONFIG.value("dims", "", 1)) == (
        256,
        256,
        "256",
    )


def test_options_are_set_and_found():
    config = Config()
    config.set("a", 1)
    config.update({"b": 2})
    assert config.typed_dict == {"a": 1, "b": 2} and config.has("a") and "c" not in config


def test_another_type_is_refused():
    assert CONFIG.get_of_type("layers", int, 1) == 6 and CONFIG.get_of_type("nothing", int) is None
    with pytest.raises(rf.errors.OptionError, match="'layers' has another type"):
        CONFIG.get_of_type("layers", (str, list))
    with pytest.raises(rf.errors.OptionError, match="'mode' is not a bool"):
        CONFIG.bool("mode", False)


def test_the_global_config():
    before = get_global_config()
    with global_config_ctx({"a": 1}) as config:
        assert get_global_config() is config and config.int("a", 0) == 1
        set_global_config(CONFIG)
        assert get_global_config(return_empty_if_none=True) is CONFIG
    assert get_global_config() is before


def test_a_config_with_an_earlier_behavior_version_gives_a_warning():
    with pytest.warns(UserWarning, match="In version 21"), global_config_ctx({"behavior_version": 21}):
        pass

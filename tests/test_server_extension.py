"""The server extension makes connections send at once, and changes nothing else."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import SimpleNamespace

import pytest

FILE = Path(__file__).parents[1] / "extension" / "server" / "rfnb_lab.py"


@pytest.fixture
def extension():
    """The module, which stands outside of the package: the server must not import torch."""
    spec = importlib.util.spec_from_file_location("rfnb_lab", FILE)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class Standard:
    """A connection between a kernel and a browser."""

    def __init__(self, handler):
        self.websocket_handler = handler

    def connect(self):
        return "connected"


def test_connections_set_tcp_nodelay_when_they_connect(extension):
    told = []
    server = SimpleNamespace(web_app=SimpleNamespace(settings={"kernel_websocket_connection_class": Standard}))
    extension._load_jupyter_server_extension(server)
    made = server.web_app.settings["kernel_websocket_connection_class"]
    handler = SimpleNamespace(set_nodelay=told.append)
    assert (made(handler).connect(), told) == ("connected", [True])
    assert made.__name__ == "Standard"
    assert made(SimpleNamespace()).connect() == "connected"  # a handler that cannot


def test_a_server_without_such_connections_is_left_alone(extension):
    server = SimpleNamespace(web_app=SimpleNamespace(settings={}))
    extension._load_jupyter_server_extension(server)
    assert server.web_app.settings == {}


def test_the_module_and_its_settings_have_one_name(extension):
    assert extension._jupyter_server_extension_points() == [{"module": "rfnb_lab"}]
    assert '"rfnb_lab": true' in FILE.with_suffix(".json").read_text(encoding="utf-8")

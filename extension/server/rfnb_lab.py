"""A server extension: kernels send small messages to the browser at once.

By default, TCP holds a small message back until the browser has confirmed the one before it, for up to 40 ms. That is
most of the time between a click on a step and the step. Without this extension, as on a hub whose server is managed by
others, everything works as well, and each step takes that much longer.
"""

from __future__ import annotations

from contextlib import suppress
from typing import Any


def _jupyter_server_extension_points() -> list[dict[str, str]]:
    return [{"module": "rfnb_lab"}]


def _load_jupyter_server_extension(server: Any) -> None:
    """Replaces the class of the connections between kernels and browsers by a subclass of it."""
    settings = server.web_app.settings
    standard = settings.get("kernel_websocket_connection_class")
    if standard is not None:
        settings["kernel_websocket_connection_class"] = without_delay(standard)


def without_delay(standard: type) -> type:
    """A subclass of a connection that sets TCP_NODELAY when it connects."""

    class Connection(standard):  # type: ignore[misc]
        def connect(self) -> Any:
            with suppress(Exception):  # a connection with a delay is better than none
                self.websocket_handler.set_nodelay(True)
            return super().connect()

    Connection.__name__ = standard.__name__
    return Connection

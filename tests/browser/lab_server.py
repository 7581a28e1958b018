"""A JupyterLab or Notebook 7 of our own: free port, token, empty configuration, this checkout's extension."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.forks import add_kernel

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "rfnb" / "labextension"
SERVER = ROOT / "extension" / "server"
QUIET = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
"""No dialog asks for news: it would hide buttons."""
START = """
import runpy, sys
sys.modules["rfc3987_syntax"] = None
del sys.argv[0]
runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)
"""
"""As `python -m`, without what takes half of the time in which a server starts; see `tests/conftest.py`."""


@dataclass(frozen=True)
class LabServer:
    """Where the browser goes, and the folder that it shows."""

    url: str
    token: str
    notebooks: Path
    app: str = "jupyterlab"

    def address(self, notebook: str) -> str:
        """The notebook, in a fresh workspace."""
        page = "notebooks" if self.app == "notebook" else "lab/tree"
        return f"{self.url}/{page}/{notebook}?token={self.token}&reset"

    def start_kernel(self, notebook: str, kernel: str = "python3") -> None:
        """Starts the kernel of a notebook before the page is opened."""
        session = {"path": notebook, "name": notebook, "type": "notebook", "kernel": {"name": kernel}}
        headers = {"Authorization": f"token {self.token}", "Content-Type": "application/json"}
        request = urllib.request.Request(f"{self.url}/api/sessions", json.dumps(session).encode(), headers)
        urllib.request.urlopen(request, timeout=60).close()


@contextmanager
def running(folder: Path, app: str = "jupyterlab", python: str = sys.executable) -> Iterator[LabServer]:
    """The server while the block runs; all it writes is below `folder`, its log is `lab.log`.

    app: the module that starts it, "jupyterlab" or "notebook".
    python: the program that starts the kernels of notebooks, such as that of `forking`; Python starts those with the
    name "alone".
    """
    server = LabServer(f"http://127.0.0.1:{free_port()}", secrets.token_hex(8), folder / "notebooks", app)
    server.notebooks.mkdir()
    add_kernel(folder / "jupyter_path", "alone", sys.executable)
    add_kernel(folder / "jupyter_path", "python3", python)
    with (folder / "lab.log").open("w") as log:
        process = subprocess.Popen(
            command(server, folder), env=environment(folder), cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_until_it_answers(server, process, folder / "lab.log")
            yield server
        finally:
            stop(process)


def command(server: LabServer, folder: Path) -> list[str]:
    """How the server is started."""
    port = server.url.rpartition(":")[2]
    name = "JupyterNotebookApp" if server.app == "notebook" else "LabApp"
    options = {
        "ip": "127.0.0.1",
        "port": port,
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": server.notebooks,
        "ServerApp.jpserver_extensions": {"rfnb_lab": True},
        "IdentityProvider.token": server.token,
        f"{name}.expose_app_in_browser": True,
        f"{name}.user_settings_dir": settings(folder),
        f"{name}.workspaces_dir": folder / "workspaces",
        f"{name}.extra_labextensions_path": linked_extension(folder),
    }
    flags = ["--no-browser", "--allow-root", *(f"--{name}={value}" for name, value in options.items())]
    return [sys.executable, "-c", START, server.app, *flags]


def settings(folder: Path) -> Path:
    """User settings that keep dialogs away."""
    file = folder / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(QUIET))
    return folder / "settings"


def linked_extension(folder: Path) -> Path:
    """A folder of extensions with the one built in this checkout, whatever the environment has."""
    extensions = folder / "labextensions"
    extensions.mkdir()
    (extensions / "rfnb-lab").symlink_to(EXTENSION, target_is_directory=True)
    return extensions


def environment(folder: Path) -> dict[str, str]:
    """The user's configuration stays out of it, and kernels import this checkout."""
    names = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_PATH", "IPYTHONDIR")
    places = {name: str(folder / name.lower()) for name in names}
    path = os.pathsep.join([str(ROOT), str(SERVER), *filter(None, [os.environ.get("PYTHONPATH")])])
    return os.environ | places | {"PYTHONPATH": path, "JUPYTER_PLATFORM_DIRS": "1"}


def free_port() -> int:
    """A port that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def wait_until_it_answers(server: LabServer, process: subprocess.Popen, log: Path, seconds: float = 90) -> None:
    """Returns when the server is up; raises with its log when it ended or took too long."""
    end = time.monotonic() + seconds
    while process.poll() is None and time.monotonic() < end:
        try:
            with urllib.request.urlopen(f"{server.url}/api?token={server.token}", timeout=5):
                return
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
    raise RuntimeError(f"JupyterLab did not start:\n{log.read_text()[-3000:]}")


def stop(process: subprocess.Popen) -> None:
    """Ends the server and with it the kernels."""
    process.terminate()
    try:
        process.wait(timeout=15)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()

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

from ipykernel.kernelspec import get_kernel_dict

ROOT = Path(__file__).parents[2]
EXTENSION = ROOT / "rfnb" / "labextension"
SERVER = ROOT / "extension" / "server"
KERNEL_FORKS = Path(__file__).with_name("kernel_forks.py")
QUIET = {"fetchNews": "false", "checkForUpdates": False, "doNotDisturbMode": True}
"""No dialog asks for news: it would hide buttons."""


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
def running(folder: Path, app: str = "jupyterlab", forks: Path | None = None) -> Iterator[LabServer]:
    """The server while the block runs; all it writes is below `folder`, its log is `lab.log`.

    app: the module that starts it, "jupyterlab" or "notebook".
    forks: the socket of `forking`, whose kernels are then those of notebooks; "alone" is one that Python starts.
    """
    server = LabServer(f"http://127.0.0.1:{free_port()}", secrets.token_hex(8), folder / "notebooks", app)
    server.notebooks.mkdir()
    add_kernel(folder, "alone", "-m", "ipykernel_launcher", "-f", "{connection_file}")
    if forks:
        add_kernel(folder, "python3", "-IS", KERNEL_FORKS, forks, "{connection_file}")
    with (folder / "lab.log").open("w") as log:
        process = subprocess.Popen(
            command(server, folder), env=environment(folder), cwd=folder, stdout=log, stderr=subprocess.STDOUT
        )
        try:
            wait_until_it_answers(server, process, folder / "lab.log")
            yield server
        finally:
            stop(process)


@contextmanager
def forking(folder: Path) -> Iterator[Path]:
    """The socket of a process that forks kernels, while the block runs."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a process with threads cannot be forked
    program = [sys.executable, str(KERNEL_FORKS), str(folder / "socket")]
    process = subprocess.Popen(program, env=environment(folder) | one_thread, stdin=subprocess.PIPE)
    try:
        yield folder / "socket"
    finally:
        process.communicate()  # closes its input, and so it ends


def add_kernel(folder: Path, name: str, *arguments: object) -> None:
    """A kernel that this server has before those of the environment."""
    spec = get_kernel_dict() | {"argv": [sys.executable, *map(str, arguments)]}
    file = folder / "jupyter_path" / "kernels" / name / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(spec))


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
    return [sys.executable, "-m", server.app, *flags]


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

"""Kernels that begin with torch imported: forks of one process, each behind a program that stands for it.

JupyterLab starts `kernel_forks.py SOCKET CONNECTION_FILE`, which asks the process at the socket for a fork, passes
signals on to it and ends with it. Where nobody answers, that program becomes a kernel itself.
"""

import contextlib
import gc
import importlib
import json
import os
import selectors
import signal
import socket
import sys
from pathlib import Path


def stand_in(address, connection_file):
    """Runs in the program that JupyterLab knows; returns when the kernel has ended."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(address)
        request = {"file": connection_file, "folder": str(Path.cwd()), "environment": dict(os.environ)}
        socket.send_fds(line, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
        kernel = int(line.recv(100))
    except (OSError, ValueError):
        os.execv(sys.executable, [sys.executable, "-m", "ipykernel_launcher", "-f", connection_file])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.killpg(kernel, number))
    line.recv(1)


def serve(address):
    """Forks a kernel for each request, until its input is closed; kernels end with their programs."""
    for module in ("torch", "numpy.random", "statistics", "fractions", "ipykernel.kernelapp", "ipykernel.zmqshell"):
        importlib.import_module(module)
    gc.freeze()
    events = selectors.DefaultSelector()
    listener = socket.socket(socket.AF_UNIX)
    listener.bind(f"{address}.new")
    listener.listen(100)
    Path(f"{address}.new").rename(address)
    for file in (listener, sys.stdin):
        events.register(file, selectors.EVENT_READ)
    while True:
        for event, _ in events.select():
            if event.fileobj is sys.stdin:
                return
            if event.fileobj is listener:
                fork(listener.accept()[0], events)
            elif event.fileobj in events.get_map():  # the other event may have come together with it
                end(*event.data, events)


def fork(line, events):
    """A kernel, and the two events that end it: its own end and that of the program which stands for it."""
    text, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
    while not text.endswith(b"\n"):
        text += line.recv(1 << 20)
    kernel = os.fork()
    if kernel == 0:
        become_kernel(json.loads(text), streams)
    with contextlib.suppress(OSError):  # the kernel does it as well, and one of them is first
        os.setpgid(kernel, kernel)
    for stream in streams:
        os.close(stream)
    line.sendall(str(kernel).encode())
    ended = os.pidfd_open(kernel)
    for file in (line, ended):
        events.register(file, selectors.EVENT_READ, (kernel, line, ended))


def become_kernel(request, streams):
    """Goes on as a kernel that was started with this environment in this folder, and ends with it."""
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 10_000)  # those of other kernels
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.argv[1:] = ["-f", request["file"]]
    importlib.import_module("ipykernel.kernelapp").launch_new_instance()
    sys.exit()


def end(kernel, line, ended, events):
    """Both, the kernel and the program that stands for it."""
    for file in (line, ended):
        events.unregister(file)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(kernel, signal.SIGKILL)
    os.waitpid(kernel, 0)
    os.close(ended)
    line.close()


if __name__ == "__main__":
    del sys.path[0]
    serve(sys.argv[1]) if len(sys.argv) == 2 else stand_in(*sys.argv[1:])

"""Processes that begin with torch imported: forks of one process, each with a program that stands for it.

`python forks.py SOCKET ARGUMENTS` does what `python ARGUMENTS` does, which are a script, `-m MODULE` or `-c CODE` and
their arguments: it asks the process at the socket for a fork, passes signals on to it and ends as it ends. Where nobody
answers, that program becomes Python itself.
"""

import contextlib
import gc
import importlib
import json
import os
import runpy
import selectors
import shlex
import signal
import socket
import subprocess
import sys
import types
from pathlib import Path


@contextlib.contextmanager
def forking(folder):
    """A program that does what `python` does, in forks of a process that lives while the block runs."""
    one_thread = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}  # a process with threads cannot be forked
    address = str(folder / "socket")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen(100)  # from now on: who asks while torch is imported waits
        number = listener.fileno()
        command = [sys.executable, __file__, str(number)]
        process = subprocess.Popen(command, env=os.environ | one_thread, stdin=subprocess.PIPE, pass_fds=[number])
    program = folder / "python"
    program.write_text(f'#!/bin/sh\nexec {shlex.join([sys.executable, "-IS", __file__, address])} "$@"\n')
    program.chmod(0o700)
    try:
        yield str(program)
    finally:
        process.communicate()  # closes its input, and so it ends


def add_kernel(folder, name, python):
    """A kernel that a program starts, for who has the folder in JUPYTER_PATH: before that of the environment."""
    from ipykernel.kernelspec import get_kernel_dict

    spec = get_kernel_dict() | {"argv": [python, "-m", "ipykernel_launcher", "-f", "{connection_file}"]}
    file = folder / "kernels" / name / "kernel.json"
    file.parent.mkdir(parents=True)
    file.write_text(json.dumps(spec))


def stand_in(address, *arguments):
    """Runs in the program that was started; ends when the fork has ended, and as it did."""
    line = socket.socket(socket.AF_UNIX)
    try:
        line.connect(address)
        request = {"arguments": arguments, "folder": str(Path.cwd()), "environment": dict(os.environ)}
        socket.send_fds(line, [json.dumps(request).encode() + b"\n"], [0, 1, 2])
        answers = line.makefile()
        process = int(answers.readline())
    except (OSError, ValueError):
        os.execv(sys.executable, [sys.executable, *arguments])
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda number, _: os.killpg(process, number))
    status = int(answers.readline() or 1)
    if status < 0:
        with contextlib.suppress(OSError):  # SIGKILL has no other handler
            signal.signal(-status, signal.SIG_DFL)
        os.kill(os.getpid(), -status)
    sys.exit(status)


def serve(listener):
    """Forks for each request, until its input is closed; forks end with their programs."""
    for module in ("torch", "numpy.random", "statistics", "fractions", "ipykernel.kernelapp", "ipykernel.zmqshell"):
        importlib.import_module(module)
    gc.freeze()
    events = selectors.DefaultSelector()
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
    """A process, and the two events that end it: its own end and that of the program which stands for it."""
    text, streams, _, _ = socket.recv_fds(line, 1 << 20, 3)
    while not text.endswith(b"\n"):
        text += line.recv(1 << 20)
    process = os.fork()
    if process == 0:
        forget(line, events)
        become(json.loads(text), streams)
    with contextlib.suppress(OSError):  # the fork does it as well, and one of them is first
        os.setpgid(process, process)
    for stream in streams:
        os.close(stream)
    line.sendall(b"%d\n" % process)
    ended = os.pidfd_open(process)
    for file in (line, ended):
        events.register(file, selectors.EVENT_READ, (process, line, ended))


def forget(line, events):
    """Leaves all sockets to the process that forks: an object that is kept would close what later has its number."""
    for key in events.get_map().values():
        if isinstance(key.fileobj, socket.socket):
            key.fileobj.detach()
    line.detach()
    events.close()


def become(request, streams):
    """Goes on as Python that was started with these arguments, in this environment and folder, and ends with it."""
    os.setpgid(0, 0)
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
    os.closerange(3, 10_000)  # the streams of other forks
    os.environ.clear()
    os.environ.update(request["environment"])
    os.chdir(request["folder"])
    sys.path[:0] = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    option, *rest = request["arguments"]
    if option == "-u":
        option, *rest = rest
    if "PYTHONUNBUFFERED" in os.environ:
        sys.stdout.reconfigure(write_through=True)
    if rest[:1] != ["ipykernel_launcher"]:
        for name in [name for name in sys.modules if name.partition(".")[0] in ("IPython", "ipykernel", "comm")]:
            del sys.modules[name]
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    if option == "-c":
        code, *sys.argv[1:] = rest
        sys.argv[0] = "-c"
        sys.path.insert(0, "")
        exec(compile(code, "<string>", "exec"), vars(main))
    elif option == "-m":
        module, *sys.argv[1:] = rest
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(module, run_name="__main__", alter_sys=True)
    else:
        sys.argv = [option, *rest]
        if "PYTHONSAFEPATH" not in os.environ:
            sys.path.insert(0, str(Path(option).resolve().parent))
        vars(main)["__file__"] = option
        exec(compile(Path(option).read_bytes(), option, "exec"), vars(main))
    sys.exit()


def end(process, line, ended, events):
    """Both, the fork and the program that stands for it."""
    for file in (line, ended):
        events.unregister(file)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    status = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    with contextlib.suppress(OSError):  # the program has ended
        line.sendall(b"%d\n" % status)
    os.close(ended)
    line.close()


if __name__ == "__main__":
    del sys.path[0]
    serve(socket.socket(fileno=int(sys.argv[1]))) if len(sys.argv) == 2 else stand_in(*sys.argv[1:])

"""Comms: news is told often enough and not too often; a real kernel answers while a cell runs."""

from __future__ import annotations

import textwrap
import time
from pathlib import Path
from typing import Any

import pytest
from jupyter_client.manager import KernelManager

from rfnb.display.panel import comm
from rfnb.display.panel.schema import PROTOCOL


def test_outside_of_a_kernel_nothing_happens():
    assert not comm._links
    assert comm.main_thread_later() is None


class Told:
    """A clock, a list of waiting calls, and how often it was told."""

    def __init__(self):
        self.now, self.times, self.waiting = 100.0, 0, []
        self.news = comm.News(self.tell, self.waiting.append, lambda: self.now)

    def tell(self) -> None:
        self.times += 1


def test_the_first_change_is_told_at_once_and_the_next_ones_together():
    told = Told()
    for _ in range(50):
        told.news.changed()
    assert (told.times, len(told.waiting)) == (1, 1)
    told.waiting.pop()()
    assert told.times == 2
    told.news.flush()
    assert told.times == 2


def test_a_long_cell_goes_on_telling():
    told = Told()
    for _ in range(40):
        told.news.changed()
        told.now += 0.1
    assert 10 <= told.times <= 17


SETUP = """
import os, sys, threading, time
sys.path.insert(0, {root!r})
from tests.display.standins import RunList, SumRun, numbers
from rfnb.display.panel import comm
from rfnb.display.panel.schema import PROTOCOL
runs = RunList(SumRun(numbers(2, 4), [4, 3], ["a", "b"]))
comm._links.clear()  # `import rfnb` linked the real list of runs
kernel = get_ipython().kernel
link = comm.install(runs, kernel)
assert comm.install(runs, kernel) is link

def told(path):
    end = time.monotonic() + 60
    while not os.path.exists(path) and time.monotonic() < end:
        time.sleep(0.01)
"""


class Kernel:
    """A real kernel, asked as a front end does."""

    def __init__(self, client: Any):
        self.client, self.heard = client, []

    def run(self, code: str) -> None:
        reply = self.client.execute_interactive(textwrap.dedent(code), timeout=60, output_hook=self.heard.append)
        assert reply["content"]["status"] == "ok", reply["content"]

    def open(self, target: str, number: str) -> None:
        self.send("comm_open", {"comm_id": number, "target_name": target, "data": {}})

    def ask(self, message: dict[str, Any], number: str = "c") -> None:
        self.send("comm_msg", {"comm_id": number, "data": message})

    def send(self, kind: str, content: dict[str, Any], subshell: str | None = None) -> None:
        message = self.client.session.msg(kind, content)
        if subshell is not None:
            message["header"]["subshell_id"] = subshell
        self.client.shell_channel.send(message)

    def subshell(self) -> str:
        """A thread in the kernel that answers while a cell runs, as JupyterLab makes one for each comm target."""
        self.client.control_channel.send(self.client.session.msg("create_subshell_request", {}))
        return self.client.get_control_msg(timeout=30)["content"]["subshell_id"]

    def wait(self, number: str, what: Any = None, seconds: float = 30) -> Any:
        """The first message on this comm that `what` accepts."""
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            if not self.heard:
                self.heard.append(self.client.get_iopub_msg(timeout=seconds))
            found = self.heard.pop(0)
            content = found["content"]
            if (
                found["msg_type"] == "comm_msg"
                and content["comm_id"] == number
                and (what is None or what(content["data"]))
            ):
                return content["data"]
        raise AssertionError(f"nothing on {number}")


@pytest.fixture
def go(tmp_path: Path) -> Path:
    """The file that `told` in the kernel waits for."""
    return tmp_path / "go"


@pytest.fixture(scope="module")
def kernel(forked_kernels):
    manager = KernelManager(kernel_name="python3")
    manager.start_kernel()
    client = manager.blocking_client()
    client.start_channels()
    client.wait_for_ready(timeout=60)
    kernel = Kernel(client)
    kernel.run(SETUP.format(root=str(Path(__file__).parents[3])))
    kernel.open("rfnb.commands", "c")
    kernel.open("rfnb.events", "e")
    yield kernel
    client.stop_channels()
    manager.shutdown_kernel(now=True)


def test_a_real_kernel_answers(kernel: Kernel):
    kernel.ask({"id": 1, "command": "hello", "args": {"protocol": PROTOCOL, "version": "0"}})
    assert kernel.wait("c")["data"]["protocol"] == PROTOCOL
    kernel.ask({"id": 2, "command": "step", "args": {"run": 7, "step": 1, "sequence": None}})
    assert kernel.wait("c")["data"]["step"] == 1
    kernel.ask({"id": 3, "command": "dance", "args": {}})
    assert kernel.wait("c")["status"] == "error"


def test_from_another_thread_the_answer_comes_as_an_event(kernel: Kernel, go: Path):
    ask = """
    replies = []
    def ask(number):
        message = {"id": number, "command": "step", "args": {"run": 7, "step": 0, "sequence": None}}
        replies.append(link.dispatcher.handle(message)["status"])
    thread = threading.Thread(target=ask, args=(11,)); thread.start(); thread.join()
    assert replies == ["busy"], replies
    """
    kernel.run(ask)
    event = kernel.wait("e", lambda data: data["event"] == "reply")
    assert (event["data"]["id"], event["data"]["status"]) == (11, "ok")
    kernel.run(f"threading.Thread(target=lambda: (told({str(go)!r}), ask(12))).start()")
    go.touch()  # now that no cell runs
    assert kernel.wait("e", lambda data: data["event"] == "reply")["data"]["id"] == 12
    kernel.run("assert replies == ['busy', 'queued'], replies")


def test_news_of_runs_and_the_wish_to_open_one(kernel: Kernel):
    kernel.run("""
    for _ in range(30):
        runs.insert(0, SumRun(numbers(1, 2), [2], serial=8))
        for listener in runs.listeners: listener()
    runs[:] = runs[-1:]
    for listener in runs.listeners: listener()
    assert comm.open_run(runs[0])
    """)
    assert len(kernel.wait("e", lambda data: data["event"] == "runs")["data"]) == 2
    kernel.wait("e", lambda data: data["event"] == "runs" and len(data["data"]) == 1)
    kernel.run("pass")


def test_a_panel_that_went_away_is_forgotten(kernel: Kernel):
    kernel.open("rfnb.events", "e2")
    kernel.run("assert len(link.panels) == 2")
    kernel.send("comm_close", {"comm_id": "e2", "data": {}})
    kernel.run("assert len(link.panels) == 1")


def test_the_inline_stepper_in_a_real_kernel(kernel: Kernel):
    kernel.heard.clear()
    kernel.run("""
    import pathlib, tempfile
    from rfnb.display.kit import page
    from rfnb.display.panel import stepper
    page.STATIC = pathlib.Path(tempfile.mkdtemp())
    for name in ("stepper.js", "stepper.css"):
        (page.STATIC / name).write_text("export default {}" if name.endswith("js") else "")
    widget = stepper.make(runs[0], None)
    display(widget)
    """)
    shown = [m["content"]["data"] for m in kernel.heard if m["msg_type"] == "display_data"][-1]
    assert {"text/plain", "text/html", "application/vnd.jupyter.widget-view+json"} < set(shown)
    mark = shown["application/vnd.rfnb.view+json"]
    assert mark["model_id"] == shown["application/vnd.jupyter.widget-view+json"]["model_id"]
    assert mark["kernel_id"]
    message = {"id": 4, "command": "step", "args": {"run": 7, "step": 2, "sequence": None}}
    kernel.ask({"method": "custom", "content": message}, mark["model_id"])
    reply = kernel.wait(mark["model_id"], lambda data: data.get("method") == "custom")["content"]
    assert (reply["id"], reply["status"], reply["data"]["step"]) == (4, "ok", 2)


@pytest.mark.slow
def test_while_a_cell_runs_a_subshell_answers_or_is_busy(kernel: Kernel, go: Path):
    subshell = kernel.subshell()
    kernel.client.execute(f"link.emit({{'event': 'begun'}}); told({str(go)!r})")
    kernel.wait("e", lambda data: data["event"] == "begun")
    for number, command, args in ((21, "runs", {}), (22, "step", {"run": 7, "step": 0, "sequence": None})):
        data = {"id": number, "command": command, "args": args}
        kernel.send("comm_msg", {"comm_id": "c", "data": data}, subshell)
    assert kernel.wait("c", lambda data: data["id"] == 21)["status"] == "ok"
    assert kernel.wait("c", lambda data: data["id"] == 22)["status"] == "busy"
    go.touch()  # the cell ends
    late = kernel.wait("e", lambda data: data["event"] == "reply")["data"]
    assert (late["id"], late["status"]) == (22, "ok")
    kernel.run("pass")

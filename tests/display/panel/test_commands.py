"""The dispatcher: messages in, replies out, without a kernel."""

from __future__ import annotations

from threading import Thread
from typing import Any

import pytest

from rfnb.display.panel.commands import SESSION, Dispatcher
from rfnb.display.panel.schema import PROTOCOL
from tests.display.standins import RunList, SumRun, numbers


def message(command: str, /, **args: Any) -> dict[str, Any]:
    return {"id": 5, "command": command, "args": args}


@pytest.fixture
def runs() -> RunList:
    return RunList(SumRun(numbers(2, 4), [4, 3], ["a", "b"]))


def elsewhere(work: Any) -> Any:
    """What `work` gives in another thread."""
    found = []
    thread = Thread(target=lambda: found.append(work()))
    thread.start()
    thread.join()
    return found[0]


def test_hello(runs):
    reply = Dispatcher(runs).handle(message("hello", protocol=PROTOCOL, version="9"))
    assert reply["status"] == "ok"
    assert (reply["id"], reply["data"]["protocol"], reply["data"]["session"]) == (5, PROTOCOL, SESSION)


def test_the_light_commands(runs):
    answers = Dispatcher(runs)
    assert [item["run"] for item in answers.handle(message("runs"))["data"]] == [7]
    assert answers.handle(message("run", run=7))["data"]["states"] == ["total", "offset"]
    assert answers.handle(message("pin", run=7, pinned=True))["data"][0]["pinned"] is True
    assert answers.handle(message("forget", run=7))["data"] == []


def test_a_step_and_a_value_on_the_main_thread(runs):
    answers = Dispatcher(runs)
    view = answers.handle(message("step", run=7, step=2, sequence=1))["data"]
    assert (view["step"], view["sequence"]) == (2, 1)
    value = answers.handle(message("value", run=7, step=2, name="total", sequence=None))["data"]
    assert value["kind"] == "tensor"
    assert value["values"] == pytest.approx(runs[0].sums[:, 3].tolist())
    assert answers.handle(message("value", run=7, step=0, name="offset"))["data"]["dims"][0]["size"] == 2


@pytest.mark.parametrize("status", ["queued", "busy"])
def test_from_another_thread_tensors_are_left_to_the_main_thread(runs, status):
    work, events = [], []
    answers = Dispatcher(runs, later=lambda job: work.append(job) or status, emit=events.append)
    reply = elsewhere(lambda: answers.handle(message("step", run=7, step=0, sequence=None)))
    assert reply == {"id": 5, "status": status, "data": None, "error": None}
    assert runs[0].asked == []
    work[0]()
    assert events[0]["event"] == "reply"
    assert (events[0]["data"]["id"], events[0]["data"]["status"]) == (5, "ok")
    assert elsewhere(lambda: answers.handle(message("runs")))["status"] == "ok"


def test_a_late_answer_can_go_where_the_question_came_from(runs):
    work, late, events = [], [], []
    answers = Dispatcher(runs, later=lambda job: work.append(job) or "queued", emit=events.append)
    elsewhere(lambda: answers.handle(message("value", run=7, step=9, name="h"), answer=late.append))
    work[0]()
    assert late[0]["status"] == "error"
    assert events == []


@pytest.mark.parametrize(
    "message", [message("step", run=99, step=0), message("run", run=99), message("forget", run=99)]
)
def test_a_run_that_is_no_longer_kept_is_gone_at_once(runs, message):
    answers = Dispatcher(runs, later=lambda job: "busy", is_busy=lambda: True)
    assert elsewhere(lambda: answers.handle(message))["status"] == "gone"


def test_a_run_that_was_dropped_while_the_cell_ran_is_gone(runs):
    work, late = [], []
    answers = Dispatcher(runs, later=lambda job: work.append(job) or "busy")
    assert elsewhere(lambda: answers.handle(message("step", run=7, step=0), answer=late.append))["status"] == "busy"
    runs.clear()
    work[0]()
    assert late[0]["status"] == "gone"


@pytest.mark.parametrize(
    "bad",
    [
        None, 3, "step", [], {}, {"id": "x"}, {"id": 1}, {"id": 1, "command": "dance"}, {"id": 1, "command": ["step"]},
        {"id": 1, "command": "step", "args": 3}, message("step"), message("step", run=7),
        message("step", run=7, step=4), message("step", run=7, step=-1), message("step", run=7, step="x"),
        message("step", run=7, step=0, sequence=2), message("value", run=7, step=0, name="<b>"),
        message("value", run=7, step=0, name=None), message("runs", more=1), message("run", run=None),
    ],
)  # fmt: skip
def test_what_is_wrong_is_an_error_reply_of_one_line(runs, bad):
    reply = Dispatcher(runs).handle(bad)
    assert reply["status"] == "error"
    assert reply["error"]
    assert "\n" not in reply["error"]


def test_a_replay_that_fails_is_an_error_reply(runs):
    class Broken(SumRun):
        def __getitem__(self, i):
            raise RuntimeError("no snapshot\nof the weights")

    runs[0] = Broken(numbers(1, 2), [2])
    assert Dispatcher(runs).handle(message("step", run=7, step=0))["error"] == "RuntimeError: no snapshot"


def test_the_kernel_says_its_own_protocol_to_an_older_panel(runs):
    reply = Dispatcher(runs).handle(message("hello", protocol=0))
    assert reply["data"]["protocol"] == PROTOCOL

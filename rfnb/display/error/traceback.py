"""The traceback of an error: its frames, and the errors that caused it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rfnb.core.ground.source import Source, is_own, is_users, steps_of
from rfnb.display.error.schema import CauseView, FrameView
from rfnb.display.markup import style
from rfnb.display.markup.html import Html, el, join
from rfnb.display.markup.widgets_html import quiet
from rfnb.printable import error_text

FRAMES = 40
CAUSES = 4


def describe_frames(error: BaseException) -> list[FrameView]:
    """Frames from the user's first line on; the first and last ones if there are very many."""
    frames = [_frame(source) for _, source in steps_of(error)]
    first = next((i for i, frame in enumerate(frames) if frame["whose"] == "user"), 0)
    frames = frames[first:]
    if len(frames) <= FRAMES:
        return frames
    left_out: FrameView = {"place": "", "function": "", "text": f"… {len(frames) - FRAMES} more", "whose": "other"}
    return [*frames[: FRAMES // 2], left_out, *frames[-FRAMES // 2 :]]


def _frame(source: Source) -> FrameView:
    code = source.code
    generated = code.co_qualname.startswith("make.<locals>")  # written by `core.op`: there is no such line in the file
    return {
        "place": source.place() if is_users(code) else f"{_path_of(source)}:{source.line}",
        "function": code.co_name,
        "text": "" if generated else source.text(),
        "whose": "rfnb" if is_own(code) else "user" if is_users(code) else "other",
    }


def _path_of(source: Source) -> str:
    """The path of a library's file, from the name of its package on."""
    if is_own(source.code):
        return f"rfnb{source.file.rpartition('/rfnb')[2]}"
    return source.file.partition("-packages/")[2] or source.file


def describe_causes(error: BaseException) -> Iterator[CauseView]:
    """The errors that caused this one, the nearest first."""
    for _ in range(CAUSES):
        cause = error.__cause__
        earlier = cause or (None if error.__suppress_context__ else error.__context__)
        if earlier is None:
            return
        error = earlier
        yield {
            "error": error_text(error)[:2000],
            "relation": "caused by" if cause is not None else "while handling",
            "frames": describe_frames(error),
        }


def cause_text(cause: CauseView) -> str:
    """ "caused by cell 5, line 2: KeyError: 'a'" """
    places = [frame["place"] for frame in cause["frames"] if frame["whose"] == "user"]
    return " ".join([cause["relation"], *(f"{place}:" for place in places[-1:]), cause["error"]])


def frames_html(frames: Sequence[FrameView]) -> Html:
    """A line for the place and one for the code of each frame; frames of libraries are quiet."""
    return el("div", [_frame_html(frame) for frame in frames], style=f"{style.NUMBERS};margin:2px 0 4px 14px")


def _frame_html(frame: FrameView) -> Html:
    where = f"{frame['place']}, in {frame['function']}" if frame["place"] else None
    return el(
        "div",
        quiet(where, tag="div") if where else None,
        el("div", frame["text"], style="padding-left:16px;overflow-wrap:anywhere") if frame["text"] else None,
        style=None if frame["whose"] == "user" else style.QUIET,
    )


def cause_html(cause: CauseView) -> Html:
    """The message of the error and its frames."""
    return join(el("div", cause["error"], style=f"{style.CODE};white-space:pre-wrap"), frames_html(cause["frames"]))

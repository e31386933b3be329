"""What counts as a finding: a crash, a hang, an endless message, or a secret of the input in an error."""

from __future__ import annotations

import signal
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import Any

from models.exceptions import TallyguardError
from stream_app.wire.messages import Rejected

MOST_MESSAGE_BYTES = 2048
MOST_SECONDS = 2.0
"""Of the processor's time, so that a busy machine is not taken for a hang."""

COUNT, PERSON, TOKEN = "4810397", "canary-person", "canary-token"
"""What stands in the seeds as somebody's count and id, and as a secret; none may stand in an error."""


@dataclass(frozen=True)
class Target:
    """One door: ``call`` takes bytes and may end well, or in one of the ``known`` errors.

    ``secrets`` of the input that no error may show; a refused message shows them by its hint only.
    """

    name: str
    seeds: tuple[bytes, ...]
    call: Callable[[bytes], object]
    known: tuple[type[Exception], ...] = (TallyguardError,)
    secrets: tuple[str, ...] = (COUNT, PERSON)
    seconds: float = MOST_SECONDS
    quick_inputs: int = 3000


def door(call: Callable[[bytes], object], *seeds: bytes, **more: Any) -> Callable[[str], Target]:
    """A row of the table of doors."""
    return lambda name: Target(name, seeds, call, **more)


class HangError(BaseException):
    """An input takes too long."""


class _Watch:
    """Ends a call with :class:`HangError` after so much time of the processor, give or take a tick.

    One timer ticks for all calls. A library that does not come back is seen once it does: the interpreter
    hears of many ticks as one, so the time is looked at, too.
    """

    TICK_SECONDS = 0.25

    def __init__(self) -> None:
        self._ends: float | None = None

    def begin(self, seconds: float) -> None:
        """A call begins."""
        if signal.getsignal(signal.SIGVTALRM) != self._tick:
            signal.signal(signal.SIGVTALRM, self._tick)
            signal.setitimer(signal.ITIMER_VIRTUAL, self.TICK_SECONDS, self.TICK_SECONDS)
        self._ends = time.process_time() + seconds + self.TICK_SECONDS

    def end(self) -> None:
        """The call has ended."""
        ends, self._ends = self._ends, None
        if ends is not None and time.process_time() > ends:
            raise HangError

    def _tick(self, number: int, frame: FrameType | None) -> None:
        if self._ends is not None and time.process_time() > self._ends:
            self._ends = None
            raise HangError


_WATCH = _Watch()


def stop_watch() -> None:
    """No more ticks: other tests measure time, too."""
    signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
    signal.signal(signal.SIGVTALRM, signal.SIG_DFL)


def warm_up(target: Target) -> None:
    """Take the seeds without a watch: kernels are compiled by whoever calls them first."""
    for seed in target.seeds:
        with suppress(*target.known):
            target.call(seed)


def finding(target: Target, data: bytes) -> str | None:
    """What is wrong with how a door takes some bytes: a line that names kind and place; None for nothing."""
    try:
        try:
            _WATCH.begin(target.seconds)
            result = target.call(data)
        finally:
            _WATCH.end()  # a hang outside the interpreter is known only now
    except target.known as error:
        return _in_words(target, str(error))
    except HangError as error:
        return f"hang at {_place(error)}"
    except Exception as error:
        return f"{type(error).__name__} at {_place(error)}: {_said(error)}".rstrip(": ")
    for rejected in result if isinstance(result, list) else [result]:
        if isinstance(rejected, Rejected) and (wrong := _in_words(target, rejected.hint)):
            return wrong
    return None


def _in_words(target: Target, message: str) -> str | None:
    """What is wrong with a message to people."""
    if len(message.encode("utf-8", "surrogatepass")) > MOST_MESSAGE_BYTES:
        return f"message of more than {MOST_MESSAGE_BYTES} bytes: {message[:80]!r}"
    shown = [secret for secret in target.secrets if secret in message]
    return f"message tells {shown[0]}: {message[:200]!r}" if shown else None


def _said(error: Exception) -> str:
    """What a check of a door says; what else is raised may say something new each time."""
    return str(error).split("\n")[0][:80] if isinstance(error, AssertionError) else ""


def _place(error: BaseException) -> str:
    """File and line of the innermost call that is ours, but for the watch's own."""
    frames = [each for each in traceback.extract_tb(error.__traceback__) if each.name != "_tick"]
    ours = [
        frame
        for frame in frames
        if "/site-packages/" not in frame.filename and "/lib/python" not in frame.filename
    ]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"

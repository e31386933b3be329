"""What counts as a finding: a crash, a hang, an endless message, or a secret of the input in an error."""

from __future__ import annotations

import signal
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import FrameType

from models.exceptions import TallyguardError
from stream_app.messages import Rejected

MOST_MESSAGE_BYTES = 2048
MOST_SECONDS = 2.0
"""Of the processor's time, so that a busy machine is not taken for a hang."""

COUNT, PERSON, TOKEN = "7770777", "canary-person", "canary-token"
"""What stands in the seeds as somebody's count and id, and as a secret; none may be told by an error."""


@dataclass(frozen=True)
class Target:
    """One door: ``call`` takes bytes and may end well, or in one of the ``known`` errors.

    ``secrets`` of the input that no error may tell; a refused message tells them by its hint only.
    """

    name: str
    seeds: tuple[bytes, ...]
    call: Callable[[bytes], object]
    known: tuple[type[Exception], ...] = (TallyguardError,)
    secrets: tuple[str, ...] = (COUNT, PERSON)
    seconds: float = MOST_SECONDS
    quick_inputs: int = 3000


class HangError(BaseException):
    """An input takes too long."""


def finding(target: Target, data: bytes) -> str | None:
    """What is wrong with how a door takes some bytes: a line that names kind and place; None for nothing."""
    try:
        with _time_limit(target.seconds):
            result = target.call(data)
    except target.known as error:
        return _in_words(target, str(error))
    except HangError as error:
        return f"hang at {_place(error)}"
    except Exception as error:
        return f"{type(error).__name__} at {_place(error)}"
    for rejected in result if isinstance(result, list) else [result]:
        if isinstance(rejected, Rejected) and (wrong := _in_words(target, rejected.hint)):
            return wrong
    return None


def _in_words(target: Target, message: str) -> str | None:
    """What is wrong with a message to people."""
    if len(message.encode("utf-8", "surrogatepass")) > MOST_MESSAGE_BYTES:
        return f"message of more than {MOST_MESSAGE_BYTES} bytes: {message[:80]!r}"
    told = [secret for secret in target.secrets if secret in message]
    return f"message tells {told[0]}: {message[:200]!r}" if told else None


def _place(error: BaseException) -> str:
    """File and line of the innermost call that is ours."""
    frames = traceback.extract_tb(error.__traceback__)
    ours = [
        frame
        for frame in frames
        if "/site-packages/" not in frame.filename and "/lib/python" not in frame.filename
    ]
    frame = (ours or frames)[-1]
    return f"{Path(frame.filename).name}:{frame.lineno} {frame.name}"


@contextmanager
def _time_limit(seconds: float) -> Iterator[None]:
    """:class:`HangError` after so much time of the processor."""

    def stop(number: int, frame: FrameType | None) -> None:
        raise HangError

    before = signal.signal(signal.SIGVTALRM, stop)
    signal.setitimer(signal.ITIMER_VIRTUAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0.0)
        signal.signal(signal.SIGVTALRM, before)

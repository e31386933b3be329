"""Stopping in order, by whichever signal; what was started to live on does."""

from __future__ import annotations

import gc
import os
import signal

import pytest

from stream_app.setup.this_process import stop_on_signals, stop_signals


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_asks_for_a_stop_and_a_second_one_acts_as_before(number: signal.Signals) -> None:
    heard: list[int] = []
    before = signal.signal(number, lambda got, frame: heard.append(got))
    try:
        with stop_on_signals() as request:
            os.kill(os.getpid(), number)
            assert request.is_set
            assert os.read(request.wake, 1)
            os.kill(os.getpid(), number)
        assert heard == [number]
    finally:
        signal.signal(number, before)


@pytest.mark.parametrize(("number", "is_heard"), [(signal.SIGINT, True), (signal.SIGHUP, False)])
def test_of_ignored_signals_only_the_end_of_a_terminal_stays_ignored(
    number: signal.Signals, is_heard: bool
) -> None:
    """As nohup leaves it; a script that starts us with ``&`` can still stop us by SIGINT."""
    before = signal.signal(number, signal.SIG_IGN)
    try:
        with stop_on_signals() as request:
            os.kill(os.getpid(), number)
            assert request.is_set is is_heard
            assert (number in stop_signals()) is is_heard
        assert signal.getsignal(number) is signal.SIG_IGN
    finally:
        signal.signal(number, before)


def test_who_must_be_asked_to_stop_looks_for_garbage_as_usual_whatever_the_command_began_with() -> None:
    usual, begun_with = gc.get_threshold(), (50_000, 5, 5)
    gc.set_threshold(*begun_with)
    try:
        with stop_on_signals():
            assert gc.get_threshold() != begun_with
            assert gc.get_freeze_count() > 0
        assert gc.get_freeze_count() == 0
    finally:
        gc.set_threshold(*usual)

"""Live runs that close steps by the clock, as processes: killed, and under a clock that jumps."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from tests import ROOT
from tests.copies import Copy
from tests.stream_app.embedded.run_once import GRACE_SECONDS, STEP_SECONDS
from tests.stream_app.embedded.test_restart import RUN
from tests.stream_app.engine_support import activation, json_lines, lines_of, reading, run_on
from tests.watching.services import wait_until
from tests.wrong_clock import TRUE, YEAR_AHEAD, WrongClock

pytestmark = pytest.mark.slow

STEPS, STEPS_AT_MOST = 10, 100


def of_step(step: int) -> bytes:
    """Two sensors that report everything."""
    return lines_of([activation(step, "A", "B"), reading(step, "A", step), reading(step, "B", 1)])


def give(process: subprocess.Popen[bytes] | Copy, lines: bytes) -> None:
    assert process.stdin is not None
    process.stdin.write(lines)
    process.stdin.flush()


def released(output: Path) -> bytes:
    """The whole lines that are published so far."""
    path = output / "releases.jsonl"
    return path.read_bytes().rpartition(b"\n")[0] if path.exists() else b""


def count(output: Path) -> int:
    return len(released(output).splitlines())


def test_a_live_run_killed_between_ticks_publishes_each_step_once_as_if_never_killed(tmp_path: Path) -> None:
    """What was published stays the beginning; nothing comes before its tick, whenever the kill is."""
    origin, random = int(time.time()) + 1, np.random.default_rng(7)
    sent = b"".join(map(of_step, range(STEPS)))
    ticks: dict[str, object] = {"step_seconds": STEP_SECONDS, "grace_seconds": GRACE_SECONDS}
    run_on(tmp_path / "whole", [sent], settings={**ticks, "origin": origin})
    output, before = tmp_path / "killed", b""
    for target in (2, 5, 8, STEPS):
        process = Copy(RUN, [str(output), "-", f"ticks:{origin}"], os.environ, tmp_path / "log", piped=True)
        give(process, sent)
        own = max(target, len(before.splitlines()) + 1)  # the process before may have been faster than asked
        wait_until(f"{own} steps", lambda own=own: count(output) >= own)
        if target < STEPS:
            time.sleep(float(random.uniform(0, STEP_SECONDS)))
            process.kill()
            assert process.wait() == -signal.SIGKILL
        now = released(output)
        assert now.startswith(before)
        assert time.time() >= origin + len(now.splitlines()) * STEP_SECONDS + GRACE_SECONDS
        before = now
    process.terminate()
    assert process.wait(60) == 0
    assert (output / "rejected.jsonl").read_bytes() == b""
    for name in ("decisions.jsonl", "releases.jsonl"):  # then nobody reports, and steps close as they come
        assert (output / name).read_bytes().startswith((tmp_path / "whole" / name).read_bytes()), name


def test_a_live_run_whose_clock_jumps_a_year_ahead_and_back_loses_nothing(tmp_path: Path) -> None:
    """Steps are reported while they last; none may have been closed for good."""
    clock, output = WrongClock(tmp_path), tmp_path / "out"
    origin, step, jumped_at = int(time.time()) + 1, 0, STEPS_AT_MOST
    command = [
        sys.executable,
        "-m",
        "tests.stream_app.embedded.run_once",
        str(output),
        "-",
        f"ticks:{origin}",
    ]
    environment = {**os.environ, "NUMBA_NUM_THREADS": "1", **clock.environment}
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, env=environment)
    while step < min(jumped_at + 6, STEPS_AT_MOST):
        wait_until(f"step {step}", lambda step=step: time.time() >= origin + step * STEP_SECONDS)
        if jumped_at == STEPS_AT_MOST and count(output) >= 2:
            jumped_at = step
        clock.set(YEAR_AHEAD if jumped_at <= step < jumped_at + 3 else TRUE)
        give(process, of_step(step))
        step += 1
    assert jumped_at < STEPS_AT_MOST
    process.communicate(timeout=60)
    assert process.returncode == 0
    assert (output / "rejected.jsonl").read_bytes() == b""
    said = [line["releases"] for line in json_lines(output / "releases.jsonl")]
    assert all(len(each) == 2 and all("value" in one for one in each) for each in said[:step])  # type: ignore[arg-type, attr-defined]
    assert len(said) >= step
    assert not any(said[step:])

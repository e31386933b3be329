"""Killed and started again: the same releases and the same risks as if nothing had happened."""

from __future__ import annotations

import os
import signal
import time
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from stream_app.watching.metrics import EngineMetrics
from tests.copies import Copy
from tests.stream_app.embedded.run_once import KINDS
from tests.stream_app.embedded.test_journal import Crash, Disk
from tests.stream_app.engine_support import (
    REGISTRY,
    everything_in,
    json_lines,
    lines_of,
    messages_of_a_day,
    run_on,
)

STEPS = 160
PATIENCE_SECONDS = 600  # two busy minutes were too few on a machine that did nothing wrong
RUN = "import sys; from tests.stream_app.embedded.run_once import main; main(*sys.argv[1:])"
NOISED = {"release": {"mechanism": "gaussian", "sigma": 3.0}}


def start(output: Path, source: Path, kind: str = "plain") -> Copy:
    """A run as a process of its own."""
    return Copy(RUN, [str(output), str(source), kind], os.environ, output.with_suffix(".log"))


def released(output: Path) -> int:
    """How many steps are published so far."""
    path = output / "releases.jsonl"
    return path.read_bytes().count(b"\n") if path.exists() else 0


def wait_for_steps(process: Copy, output: Path, steps: int) -> None:
    """Until so many steps are published, or the process has ended."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while process.poll() is None and (done := released(output)) < steps:
        if time.monotonic() > deadline:
            raise AssertionError(f"the run does not get on: {done} of {steps} steps\n{process.where()}")
        time.sleep(0.001)


@pytest.fixture
def source(tmp_path: Path) -> Path:
    return write_source(tmp_path)


def write_source(folder: Path) -> Path:
    path = folder / "messages.jsonl"
    path.write_bytes(lines_of(messages_of_a_day(STEPS, 21, faults=True)) + b"no message\n")
    return path


@cache
def whole(kind: str) -> dict[str, bytes]:
    """What a run that nothing disturbs writes, every tier's file included."""
    with TemporaryDirectory() as folder:
        output, source = Path(folder, "whole"), write_source(Path(folder))
        run_on(output, [source.read_bytes()], input=source, settings=KINDS[kind])
        return everything_in(output)


def kill_and_restart(tmp_path: Path, source: Path, kills: int, seed: int, kind: str = "plain") -> int:
    """Kill a run at random moments, let the last one finish, compare; the number of kills that hit."""
    random = np.random.default_rng(seed)
    output, hits = tmp_path / "killed", 0
    for target in np.sort(random.integers(0, STEPS, size=kills)):
        process = start(output, source, kind)
        wait_for_steps(process, output, int(target))
        time.sleep(float(random.uniform(0, 0.003)))
        process.kill()
        hits += process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    last = start(output, source, kind)
    assert last.wait(PATIENCE_SECONDS) == 0, last.log.read_text()[-4000:]
    assert everything_in(output) == whole(kind), f"seed {seed}"
    return hits


@pytest.mark.slow
def test_a_run_killed_at_ten_random_moments_ends_with_the_same_files(tmp_path: Path, source: Path) -> None:
    """Releases, decisions, risks and dead letters, byte for byte."""
    assert kill_and_restart(tmp_path, source, kills=10, seed=int.from_bytes(os.urandom(4))) >= 5


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["tiers", "budget", "crowd"])
def test_a_killed_run_with_tiers_or_a_budget_ends_with_the_same_files(
    tmp_path: Path, source: Path, kind: str
) -> None:
    """Decisions in hindsight, and every tier's own file, too."""
    assert kill_and_restart(tmp_path, source, kills=8, seed=5, kind=kind) >= 4


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_run_killed_at_many_random_moments_ends_with_the_same_files(
    tmp_path: Path, source: Path, seed: int
) -> None:
    assert kill_and_restart(tmp_path, source, kills=20, seed=seed) >= 10


@pytest.mark.slow
def test_sigterm_finishes_the_step_and_loses_nothing(tmp_path: Path, source: Path) -> None:
    """Exit status 0, a commit at the line that was reached, and the same files in the end."""
    output = tmp_path / "stopped"
    process = start(output, source)
    wait_for_steps(process, output, STEPS // 3)
    process.terminate()
    assert process.wait(PATIENCE_SECONDS) == 0
    assert output.with_suffix(".log").read_text() == "signal\n"
    assert 0 < released(output) < STEPS
    assert start(output, source).wait(PATIENCE_SECONDS) == 0
    assert everything_in(output) == whole("plain")


def start_piped(output: Path) -> Copy:
    """A run that reads from a pipe."""
    return Copy(RUN, [str(output)], os.environ, output.with_suffix(".log"), piped=True)


@pytest.mark.slow
def test_sigint_ends_a_run_that_waits_for_input(tmp_path: Path) -> None:
    """What came before is released; nothing that is still open is given up."""
    output = tmp_path / "piped"
    process = start_piped(output)
    assert process.stdin is not None
    process.stdin.write(
        b'{"v":1,"type":"activation","step":0,"sensors":["B"]}\n'
        b'{"v":1,"type":"reading","step":0,"sensor":"B","count":4}\n'
        b'{"v":1,"type":"activation","step":1,"sensors":["B"]}\n'
    )
    process.stdin.flush()
    wait_for_steps(process, output, 1)
    process.send_signal(signal.SIGINT)
    assert process.wait(PATIENCE_SECONDS) == 0
    process.stdin.close()
    rest = b'{"v":1,"type":"reading","step":1,"sensor":"B","count":9}\n'
    again = start_piped(output)
    assert again.stdin is not None
    with again.stdin as stdin:
        stdin.write(rest)
    assert again.wait(PATIENCE_SECONDS) == 0
    values = [line["releases"] for line in json_lines(output / "releases.jsonl")]
    assert values == [[{"sensor": "B", "mechanism": "raw", "value": count}] for count in (4, 9)]


@pytest.mark.slow
@pytest.mark.parametrize("ends_by", ["stop", "kill"])
def test_the_privacy_spend_in_the_metrics_goes_on_after_a_restart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, ends_by: str
) -> None:
    """Epsilon and rho after a restart in a new process are those of a run that was never interrupted."""

    def spent(folder: Path, chunks: list[bytes], **options: object) -> dict[str, float | None]:
        registry = CollectorRegistry()
        metrics = EngineMetrics(registry, REGISTRY.sensors, (0.5,), 1e-6)
        run_on(folder, chunks, settings=NOISED, observer=metrics, **options)
        names = ("tallyguard_dp_rho", "tallyguard_dp_epsilon")
        return {name: registry.get_sample_value(name, {"group": "all"}) for name in names}

    day = lines_of(messages_of_a_day(12, 3))
    half = day[: day.rindex(b"\n", 0, len(day) // 2) + 1]
    whole = spent(tmp_path / "whole", [day])
    if ends_by == "stop":
        before = spent(tmp_path / "parts", [half], keep_open=True)
        assert 0 < (before["tallyguard_dp_rho"] or 0) < (whole["tallyguard_dp_rho"] or 0)
    else:
        disk = Disk(monkeypatch)
        disk.crash_at = 60
        with pytest.raises(Crash):
            spent(tmp_path / "parts", [day])
        disk.crash_at = -1
    released = len((tmp_path / "parts" / "releases.jsonl").read_bytes().splitlines())
    assert 0 < released < 12
    assert spent(tmp_path / "parts", [day]) == whole
    assert spent(tmp_path / "parts", [day]) == whole

"""`tallyguard backfill` publishes an archive as a run would: killed or not, and no step twice."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import numpy as np
import pytest

from stream_app.embedded import check_unreleased, read_archive_steps
from stream_app.exceptions import InputError, OutputError
from stream_app.wire import Activation, Reading
from tests.copies import Copy
from tests.stream_app.command_line import called
from tests.stream_app.embedded.test_restart import PATIENCE_SECONDS, wait_for_steps
from tests.stream_app.engine_support import (
    NAMES,
    NOISE_SECRET,
    PSEUDONYM_SECRET,
    activation,
    lines_of,
    messages_of_a_day,
    outputs_of,
    reading,
)

STEPS, KILLS = 100, 4
COMMAND = "import sys; from stream_app.cli import main; sys.argv[0] = 'tallyguard'; sys.exit(main())"
KEYS = {"TALLYGUARD_NOISE_KEY_SECRET": NOISE_SECRET, "TALLYGUARD_PSEUDONYM_KEY_SECRET": PSEUDONYM_SECRET}
PRIORS = {
    "locations": list(NAMES),
    "people": [
        {"person": "ann", "initial": None, "transition": [[0.7, 0.1, 0.1, 0.1]] * 4},
        {"person": "bob", "initial": None, "transition": [[1, 0, 0, 0]] * 4},
    ],
}


@pytest.fixture
def deployment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings, priors and an archive of :data:`STEPS` steps in a folder; keys in the environment."""
    for name, secret in KEYS.items():
        monkeypatch.setenv(name, secret)
    settings = 'deployment = "test"\nhorizon = 4\nsharpen_operations = 2_000_000\nlisten = ""\n'
    settings += '[release]\nmechanism = "gaussian"\nsigma = 3.0\n'
    (tmp_path / "tallyguard.toml").write_text(f"grace_seconds = 60\n{settings}")  # archives do not go by it
    (tmp_path / "priors.json").write_text(json.dumps(PRIORS))
    (tmp_path / "archive.jsonl").write_bytes(lines_of(archive_of(31)))
    return tmp_path


def archive_of(seed: int) -> list[Activation | Reading]:
    """Random counts of :data:`STEPS` steps, something in the last of them."""
    return [*messages_of_a_day(STEPS - 1, seed), activation(STEPS - 1, "A"), reading(STEPS - 1, "A", seed)]


def arguments(folder: Path, archive: str, output: str) -> list[str]:
    where = ["--config", str(folder / "tallyguard.toml"), "--priors", str(folder / "priors.json")]
    return ["backfill", str(folder / archive), *where, "--output", str(folder / output)]


def backfill(folder: Path, archive: str = "archive.jsonl", output: str = "out") -> str:
    """The command in this process; what it raises is raised."""
    done = called(*arguments(folder, archive, output), catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return done.output


@pytest.mark.slow
def test_an_archive_is_published_as_a_run_publishes_it(deployment: Path) -> None:
    assert f"{STEPS} steps" in backfill(deployment)
    (deployment / "tallyguard.toml").write_text(
        (deployment / "tallyguard.toml").read_text().removeprefix("grace_seconds = 60\n")
    )
    run = ["run", "--input", *arguments(deployment, "archive.jsonl", "run")[1:]]
    assert called(*run, catch_exceptions=False).exit_code == 0
    assert outputs_of(deployment / "out") == outputs_of(deployment / "run")


@pytest.mark.slow
def test_killed_at_any_moment_it_ends_in_the_same_files(deployment: Path) -> None:
    """`kill -9` at random steps; each restart goes on where the last one was."""
    backfill(deployment, output="whole")
    output, hits = deployment / "killed", 0
    for target in np.sort(np.random.default_rng(5).integers(0, STEPS, size=KILLS)):
        process = Copy(
            COMMAND, arguments(deployment, "archive.jsonl", "killed"), os.environ, deployment / "log"
        )
        wait_for_steps(process, output, int(target))
        process.kill()
        hits += process.wait(PATIENCE_SECONDS) == -signal.SIGKILL
    assert hits > 0
    backfill(deployment, output="killed")
    assert outputs_of(output) == outputs_of(deployment / "whole")


@pytest.mark.slow
def test_what_another_input_has_released_is_refused_and_what_follows_is_not(deployment: Path) -> None:
    """A step is released once: neither output nor place in the input changes by the refusal."""
    backfill(deployment)
    before = outputs_of(deployment / "out")
    again = lines_of(archive_of(32))  # other counts of the same steps
    (deployment / "again.jsonl").write_bytes(again)
    with pytest.raises(OutputError, match=rf"steps before {STEPS} .* give only steps from {STEPS} on"):
        backfill(deployment, "again.jsonl")
    assert outputs_of(deployment / "out") == before
    later_lines = [activation(STEPS, "A"), reading(STEPS, "A", 3), activation(STEPS + 19, "B")]
    (deployment / "following.jsonl").write_bytes(lines_of(later_lines))
    assert "20 steps" in backfill(deployment, "following.jsonl")
    assert "0 steps" in backfill(deployment, "following.jsonl")


def test_an_archive_that_a_run_would_reject_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    archive = tmp_path / "archive.jsonl"
    with pytest.raises(InputError, match="must be readable"):
        read_archive_steps(archive)
    with pytest.raises(InputError, match=r"connect files counts\.parquet"):
        read_archive_steps(tmp_path / "counts.parquet")
    archive.write_bytes(b"nothing\n")
    with pytest.raises(InputError, match="none in"):
        read_archive_steps(archive)
    archive.write_bytes(lines_of([reading(4, "A", 1), reading(3, "A", 1)]))
    with pytest.raises(InputError, match="line 2: step 3 after step 4"):
        read_archive_steps(archive)
    assert read_archive_steps(archive, late=1).last_step == 4
    archive.write_bytes(lines_of([reading(1400, "A", 1), reading(1401, "A", 1)]))
    steps = read_archive_steps(archive)
    assert (steps.first_step, steps.last_step) == (1400, 1401)
    with pytest.raises(InputError, match="max_ahead = 1000"):
        check_unreleased(steps, tmp_path / "out", max_ahead=1000)
    assert not (tmp_path / "out").exists()

"""Fetching a deployment into a folder: what is new is added, once, and what is not as it must be is refused."""

from __future__ import annotations

import json
import stat
from collections.abc import Iterator
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.keys import NoiseKey
from stream_app.analysis.checked_run import check_run
from stream_app.analysis.run_log import read_run
from stream_app.embedded.replay import replay_run
from stream_app.exceptions import OutputLockedError, RunChangedError
from stream_app.kafka.broker.clients import LogError, TopicError
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools.fetching import fetch
from stream_app.setup.run_folder.durable import FolderLock
from stream_app.setup.run_folder.key_record import advance_noise_key
from stream_app.setup.run_folder.record import RecordDamagedError
from stream_app.setup.settings import Settings
from stream_app.steps import together
from stream_app.wire import Rejected, RiskSummary
from tests.stream_app.embedded.test_journal import Crash, Disk
from tests.stream_app.engine_support import (
    NAMES,
    json_lines,
    lines_of,
    messages_of_a_day,
    population,
    run_on,
    settings,
)
from tests.stream_app.kafka.topics_in_memory import ADA, OfARun, TopicsInMemory

STEPS = 20
LOGS = ("decisions.jsonl", "releases.jsonl")


def deployed(folder: Path, **more: Any) -> Deployment:
    folder.mkdir(exist_ok=True)
    locations = folder / "locations.txt"
    locations.write_text("".join(f"{name}\n" for name in NAMES))
    kafka = {"servers": ("nowhere:9092",), "partitions": 2, **more.pop("kafka", {})}
    return Deployment.of(settings(locations=locations, kafka=kafka, **more))


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> TopicsInMemory:
    return TopicsInMemory(monkeypatch)


@pytest.fixture
def made(topics: TopicsInMemory, tmp_path: Path) -> OfARun:
    """A deployment beside an embedded run of the same, nothing of which is published yet."""
    return begun(topics, tmp_path)


def begun(topics: TopicsInMemory, folder: Path, **more: Any) -> OfARun:
    messages = [lines_of(messages_of_a_day(STEPS, seed=3))]
    run_on(folder / "run", messages, settings={"kafka": {"partitions": 2}, **more})
    found = OfARun(topics, deployed(folder / "files", **more), folder / "run")
    found.begin(population())
    return found


def risks(folder: Path, first: int = 0, until: int = STEPS) -> list[dict[str, Any]]:
    """By step and person."""
    found: list[dict[str, Any]] = [dict(each) for each in json_lines(folder / "risks.jsonl")]
    found = [each for each in found if first <= each["step"] < until]
    return sorted(found, key=lambda each: (each["step"], each.get("person", "")))


def assert_same(copy: Path, run: Path, until: int = STEPS) -> None:
    for name in LOGS:
        own, others = ((each / name).read_bytes().splitlines()[:until] for each in (copy, run))
        assert own == others, name
    assert risks(copy, until=until) == risks(run, until=until)
    assert check_run(copy).faults == ()


def test_a_copy_is_as_the_run_and_grows_by_what_is_new(made: OfARun, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    made.publish(7)
    assert fetch(made.deployment, copy).steps == 7
    assert fetch(made.deployment, copy)[:2] == (0, 7)
    made.publish(STEPS)
    before = {path.name: path.read_bytes() for path in copy.glob("*.jsonl") if path.name != "progress.jsonl"}
    found = fetch(made.deployment, copy)
    assert (found.steps, found.next_step, found.people, found.left_out) == (STEPS - 7, STEPS, 6, ())
    assert all((copy / name).read_bytes().startswith(own) for name, own in before.items())
    assert_same(copy, made.folder)
    assert replay_run(copy, Settings()).is_same
    assert read_run(copy).summaries == read_run(made.folder).summaries
    assert "deployment on Kafka may have released more" in check_run(copy).in_words()
    at_once = tmp_path / "at-once"
    fetch(made.deployment, at_once)
    for name in (*LOGS, "risks.jsonl"):
        assert (at_once / name).read_bytes() == (copy / name).read_bytes()
    for path in copy.iterdir():
        assert path.name in ("releases.jsonl", "run.json") or not stat.S_IMODE(path.stat().st_mode) & 0o077


@pytest.mark.parametrize(
    "more",
    [
        {"release": {"mechanism": "budget", "budget": {"added": 0.2, "share": 0.5, "sigmas": [1.0, 4.0]}}},
        {"release": {"mechanism": "raw"}, "crowd": {"on": True}, "adversary": "crowd"},
        {"release": {"mechanism": "tiered", "tiers": {"city": 1.0, "public": 0.3}}},
        {"timezone": "Europe/Vienna", "thresholds": (0.2, 0.6), "sharpen": False},
        {"totals": ("hour by sensor",), "most_exposed": 3, "delta": 1e-9},
        {"questions": {"at A": {"labels": [{"name": "A", "places": ["A"]}]}}, "also_asked": ("at A",)},
    ],
    ids=["budget", "crowd", "tiers", "clock", "totals", "question"],
)
def test_every_kind_of_deployment_is_copied(topics: TopicsInMemory, tmp_path: Path, more: Any) -> None:
    made = begun(topics, tmp_path, **more)
    copy = tmp_path / "copy"
    for until in (9, STEPS):
        made.publish(until)
        fetch(made.deployment, copy)
    assert_same(copy, made.folder)
    assert replay_run(copy, Settings()).is_same
    for path in made.folder.glob("*-*.jsonl"):  # what each tier receives
        assert path.read_bytes() == (copy / path.name).read_bytes()
    totals = [each / "totals.jsonl" for each in (made.folder, copy)]
    assert totals[0].exists() == totals[1].exists() == ("totals" in more)
    if totals[0].exists():
        assert totals[1].read_bytes() == totals[0].read_bytes()
    logs = [read_run(each) for each in (made.folder, copy)]
    for name in ("summaries", "sensors", "spent", "reasons", "limit", "adversary", "delta", "asked"):
        assert getattr(logs[0], name) == getattr(logs[1], name), name


@pytest.mark.parametrize("has_half", [False, True])
def test_a_kill_at_any_moment_leaves_a_folder_that_the_next_call_completes(
    made: OfARun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_half: bool
) -> None:
    made.publish(6)
    names = (*LOGS, "risks.jsonl")

    def fetched(folder: Path) -> dict[str, bytes]:
        fetch(made.deployment, folder)
        return {name: (folder / name).read_bytes() for name in names}

    expected = fetched(tmp_path / "whole")
    disk = Disk(monkeypatch)
    for number in count(1, 7):
        copy = tmp_path / f"copy{number}"
        if has_half:
            made.topics.log[made.deployment.topics.decisions, 0], rest = (
                made.topics.log[made.deployment.topics.decisions, 0][:3],
                made.topics.log[made.deployment.topics.decisions, 0],
            )
            fetch(made.deployment, copy)
            made.topics.log[made.deployment.topics.decisions, 0] = rest
        disk.operations, disk.crash_at = 0, number
        try:
            fetch(made.deployment, copy)
        except Crash:
            disk.crash_at = -1
            assert fetched(copy) == expected
            assert check_run(copy).faults == ()
            assert len(read_run(copy).changes) == 1
            continue
        break
    disk.crash_at = -1
    assert number > 20
    assert fetched(copy) == expected

"""Releases on a real Mosquitto: retained, followed while a run goes on, nothing but what is public."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from stream_app.exceptions import OutputError
from stream_app.starting.connect.mqtt import BrokerAddress, BrokerSession, RetainedReleases
from stream_app.starting.connect.released import PublishedLog
from tests.stream_app.starting.brokers.mosquitto import Mosquitto, Other, publish_all, session, settings_for
from tests.stream_app.starting.brokers.run_folder import add_steps, noised, released, run_folder
from tests.watching.services import wait_until

UNDER = "tallyguard/default/releases"


@contextmanager
def publishing(broker: Mosquitto, run: Path, place: Path) -> Iterator[tuple[BrokerSession, RetainedReleases]]:
    """A process that publishes the run's releases while the block runs."""
    settings = settings_for(broker, topics=[])
    with session(settings) as opened:
        yield opened, RetainedReleases(opened, BrokerAddress.of(settings).under, run, place)


def test_late_readers_see_the_last_release_of_each_sensor(tmp_path: Path) -> None:
    """Each sensor has a topic with value, noise and interval; the step as it was released has one more."""
    broker, run = Mosquitto(tmp_path), run_folder(tmp_path / "run")
    add_steps(run, 0, (4, 7))
    with broker.running(), publishing(broker, run, tmp_path / "place.json") as (session, releases):
        publish_all(session, releases, 2)
        reader = Other(broker.port, "tallyguard/#")
        wait_until("the retained releases", lambda: len(reader.seen) == 4, 10)
        reader.close()
        mill = json.loads(reader.seen[f"{UNDER}/mill"])
        assert mill == {
            **{"v": 1, "step": 1, "start": "2026-01-01T01:00:00Z", "end": "2026-01-01T02:00:00Z"},
            **noised("mill", 7),
            **{"low": 4, "high": 10, "confidence": 0.95},
        }
        assert json.loads(reader.seen[f"{UNDER}/port"])["mechanism"] == "suppressed"
        assert (
            reader.seen[UNDER] + b"\n" == (run / "releases.jsonl").read_bytes().splitlines(keepends=True)[-1]
        )


def test_a_run_is_followed_and_a_restart_goes_on(tmp_path: Path) -> None:
    """Steps are sent as they are closed, a torn line once it is whole, and none again by a new process."""
    broker, run, place = Mosquitto(tmp_path), run_folder(tmp_path / "run"), tmp_path / "place.json"
    with broker.running():
        reader = Other(broker.port, UNDER)
        with publishing(broker, run, place) as (session, releases):
            releases.advance()
            add_steps(run, 0, (1, 2))
            publish_all(session, releases, 2)
            line = released(2, noised("mill", 3))
            with (run / "releases.jsonl").open("ab") as log:
                log.write(line[:20])
                log.flush()
                releases.advance()
                assert releases.steps == 2
                log.write(line[20:])
            publish_all(session, releases, 3)
        with publishing(broker, run, place) as (session, releases):
            add_steps(run, 3, (4,))
            publish_all(session, releases, 1)
        wait_until("all steps", lambda: len(reader.all) >= 4, 10)
        reader.close()
    assert [json.loads(payload)["step"] for _, payload in reader.all] == [0, 1, 2, 3]


def test_of_tiers_only_what_is_for_everybody_goes_out(tmp_path: Path) -> None:
    """The owner's log holds the values of all tiers; the broker gets the least informed one."""
    run = run_folder(tmp_path / "run")
    tiers = {"public": {"epsilon": 0.1, "value": 5}, "city": {"epsilon": 1.0, "value": 9}}
    entry = {"sensor": "mill", "mechanism": "tiered", "epsilon": 0.1, "value": 5, "tiers": tiers}
    (run / "releases.jsonl").write_bytes(released(0, entry))
    release = PublishedLog(run, None).next()
    assert release is not None
    assert b"9" not in release.line()
    assert release.releases[0].tiers is None
    assert release.releases[0].value == 5


def test_a_log_that_was_cut_is_not_published_from(tmp_path: Path) -> None:
    """Releases only grow; another file in their place ends the connector with a sentence."""
    run = run_folder(tmp_path / "run")
    add_steps(run, 0, (1, 2))
    log = PublishedLog(run, None)
    assert [log.next() is None for _ in range(3)] == [False, False, True]
    (run / "releases.jsonl").write_bytes(b"")
    with pytest.raises(OutputError, match="must only grow"):
        log.next()

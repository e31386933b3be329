"""One person removed: what is left of them on the disks of all three brokers, hour after hour."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import NamedTuple

from stream_app.setup.keys import load_pseudonym_key
from tests.kafka.cluster.brokers import NUMBERS
from tests.rehearsal.cluster.failures import wait_until_working
from tests.rehearsal.cluster.stage import Stage
from tests.rehearsal.images import ROOT
from tests.rehearsal.saying import RehearsalError, wait_until

HOURS = (25, 75)
_CLEAN_SECONDS = 240.0  # a cleaner looks every 15 s, deleted files stay a minute
_COMPACTED = ("persons", "accounts")


class Traces(NamedTuple):
    """On all brokers: names of the person in segments of a topic, and brokers that have any."""

    priors: int
    names: int


class Erased(NamedTuple):
    """Who was removed, by pseudonym, and a step before which they were accounted."""

    pseudonym: str
    step: int


def person_erased(stage: Stage) -> Erased:
    """Remove somebody and let days pass, with the settings that ``topics create`` gives."""
    site = stage.site
    person = site.people.people[0]
    (name,) = load_pseudonym_key(site.deployment.settings).pseudonyms([person])
    before = {topic: traces(stage, topic, name) for topic in _COMPACTED}
    if not before["persons"].priors or not before["accounts"].names:
        raise RehearsalError(f"the person must be on the disks at first, got {before}")
    stage.fact("a person, on three disks, at first", _said(before))
    step = stage.settle()
    site.command("loader", ROOT, "persons", "remove", person)
    stage.settle()
    time.sleep(45.0)  # two snapshots
    for hours in HOURS:
        _let_pass(stage, hours)
        if hours == HOURS[0]:
            wait_until("no prior is left", lambda: _left(stage, name, priors=True) == 0, _CLEAN_SECONDS)
        else:
            wait_until("nothing is left", lambda: _left(stage, name, priors=False) == 0, _CLEAN_SECONDS)
        found = {topic: traces(stage, topic, name) for topic in _COMPACTED}
        stage.fact(f"{hours} hours after `persons remove`", _said(found))
    kept = _bytes(stage, "risks").count(name.encode())
    stage.fact("in `risks`, which are kept for 90 days", f"{kept} records on three disks")
    return Erased(name, step)


def traces(stage: Stage, topic: str, name: str) -> Traces:
    """What stands of somebody in the segments of a topic, on all disks."""
    found = _bytes(stage, topic)
    return Traces(found.count(f'"person":"{name}"'.encode()), found.count(name.encode()))


def _left(stage: Stage, name: str, *, priors: bool) -> int:
    found = [traces(stage, topic, name) for topic in _COMPACTED]
    return found[0].priors + found[1].names if priors else sum(each.names for each in found)


def _bytes(stage: Stage, topic: str) -> bytes:
    """Every segment of a topic on every broker's disk, deleted ones that are still there too.

    All are read again where a broker removes one meanwhile: what it held may stand in another.
    """
    folders = [stage.cluster.brokers[number].folder / "data" for number in NUMBERS]
    pattern = f"{stage.site.deployment.topics.prefix}{topic}-[0-9]*/*.log*"
    while True:
        with suppress(FileNotFoundError):
            return b"".join(file.read_bytes() for folder in folders for file in sorted(folder.glob(pattern)))


def _let_pass(stage: Stage, hours: int) -> None:
    """Everything is stopped and started again with a clock so much later."""
    stage.load.pause()
    for name in ("release", "account-1", "account-2"):
        stage.fleet.stop(name)
    stage.cluster.stop()
    stage.site.clock.hours = hours
    for broker in stage.cluster.brokers.values():
        broker.environment = stage.site.clock.environment
    stage.cluster.start()
    for name in ("account-1", "account-2", "release"):
        stage.fleet.start(name)
    for name in ("account-1", "account-2", "release"):
        wait_until_working(stage, name)
    stage.load.begin(stage.site.deployment.connection, stage.site.deployment.topics)
    stage.settle()


def _said(found: dict[str, Traces]) -> str:
    return ", ".join(f"`{topic}`: {each.priors} priors, {each.names} names" for topic, each in found.items())

"""The committed page: what was done to the cluster, what was found."""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator
from pathlib import Path

from tests.kafka.broker import VERSION
from tests.rehearsal.cluster.comparing import Comparison
from tests.rehearsal.cluster.stage import Event, Stage
from tests.rehearsal.report import table

_ABOUT = """# A cluster as operators run it

Made by `make rehearsal-cluster` on {date}, on {cores} cores shared with other work: three brokers (Kafka
{kafka}, KRaft, each a controller too) as processes on loopback, three copies of every topic,
`min.insync.replicas=2`, TLS, SCRAM and access rules; a release worker and two account workers; {people}
people, 12 sensors, a step a second without an end. The deployment was begun with version `{last}` and
upgraded to this one. Workers that ended by themselves were started again two seconds later, as supervisors
do.

Brokers were cut off by links that pass nothing on and tell nobody. Days passed by clocks of brokers and
workers that were set ahead, with the topics as `tallyguard topics create` makes them. What an operator does
is in [Run a cluster](../../how-to/run-a-cluster.md).
"""


def write(path: Path, stage: Stage, comparison: Comparison, last: str) -> None:
    """The page, from what was found."""
    about = _ABOUT.format(
        date=datetime.datetime.now(datetime.UTC).date(),
        cores=os.cpu_count(),
        kafka=VERSION,
        people=len(stage.site.people),
        last=last,
    )
    path.write_text("\n".join([about, *_events(stage.events), *_facts(stage), *_published(comparison)]))


def _events(events: list[Event]) -> Iterator[str]:
    yield "## What was done, under load\n"
    yield (
        "The longest pause is the longest time in which the public saw no new release, from the event until\n"
        "three more steps than had been sent were published and accounted.\n"
    )
    rows = [
        (
            event.what,
            f"{event.pause_seconds:.1f} s",
            ", ".join(f"{each.worker} ({each.code})" for each in event.ended) or "none",
        )
        for event in events
    ]
    yield table(("event", "longest pause", "workers that ended by themselves (status)"), rows)


def _facts(stage: Stage) -> Iterator[str]:
    yield "## What was found\n"
    yield table(("what", "found"), [(what, found.replace("|", "/")) for what, found in stage.facts])
    said = dict.fromkeys((each.worker, each.said) for each in stage.fleet.ended if each.said)
    if said:
        yield "Workers that ended by themselves said:\n"
        yield table(("worker", "last words"), said)


def _published(comparison: Comparison) -> Iterator[str]:
    yield "## What was published\n"
    rows = [
        ("steps released, each once and in order", f"{comparison.steps:,}"),
        ("releases, byte for byte those of the embedded engine with both epochs of the key", "yes"),
        (f"risks of single people ({comparison.risks:,} records), bit for bit likewise", "yes"),
        (
            "risks the embedded engine has besides: of the erased person, afterwards",
            str(comparison.erased_risks),
        ),
    ]
    yield table(("what", "found"), rows)

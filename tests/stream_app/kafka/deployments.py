"""Deployments without a broker, and people as account workers read and enter them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, MutableMapping
from pathlib import Path
from typing import Any

from models.releases import StepSchedule
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import NoPersonError, PersonEntry, RefusedPerson, person_kind
from stream_app.setup.settings import Settings
from stream_app.steps.policy import Decided
from tests.stream_app.engine_support import NAMES


def deployment_in(folder: Path, names: Iterable[str] = NAMES, **settings: Any) -> Deployment:
    """A deployment with these locations, each of which has a sensor."""
    locations = folder / "locations.txt"
    locations.write_text("".join(f"{name}\n" for name in names))
    given = {"locations": locations, "kafka": {"servers": ("nowhere:9092",)}, **settings}
    return Deployment.of(Settings.model_validate(given))


def deployment_of_regions(folder: Path, region_of: Mapping[str, str], **settings: Any) -> Deployment:
    """The same with a region for each sensor."""
    sensors = folder / "sensors.json"
    rows = [{"name": name, "locations": [name], "region": region_of[name]} for name in NAMES]
    sensors.write_text(json.dumps({"sensors": rows}))
    return deployment_in(folder, **{"sensors": sensors, "step_seconds": 60, "grace": 2, **settings})


def parse_person(key: bytes, value: bytes, digest: str, draws: int = 1) -> PersonEntry:
    """The entry in a record, or the error that it is refused for."""
    kind = person_kind(digest, draws)
    assert kind.finish is not None
    (found,) = kind.finish([kind.parse(key, value)])
    if isinstance(found, NoPersonError):
        raise found
    assert isinstance(found, PersonEntry)
    return found


def parsed(
    records: Mapping[str, bytes] | Iterable[tuple[str, bytes]], digest: str = "d"
) -> dict[str, PersonEntry | None]:
    """The people in these records, by pseudonym."""
    return {name: parse_person(name.encode(), value, digest) for name, value in dict(records).items()}


def enter(
    accounts: PartitionAccounts,
    changes: MutableMapping[str, PersonEntry | None],
    log: list[StepSchedule] | None = None,
) -> tuple[RefusedPerson, ...]:
    """Bring changes into the accounts as a worker does, with the steps logged so far; who was refused."""
    newcomers = accounts.newcomers(changes)
    newcomers.apply(map(Decided, (log or [])[newcomers.next_step : accounts.next_step]), lambda: None)
    accounts.change(newcomers)
    return newcomers.refused

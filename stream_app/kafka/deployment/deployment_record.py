"""What a deployment was begun with: written once to the topic ``deployment``, held against every process.

A certified risk is a function of people, decisions and the settings below. A process with other settings
would account something else than was decided, and nobody would see it. So whoever begins a deployment writes
what it accounts with, and everybody else compares first. Decisions and people carry the digest of it.

What may change while a deployment lives (release policy, schedule, noise key) stands in the same topic, as
in the record of a run: an entry for each change, under a key of its own so that compaction keeps them all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import logging
import time
from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from accounting.settings import OPERATIONS
from models.releases import SensorRegistry
from stream_app.exceptions import RunChangedError
from stream_app.kafka.broker.clients import consuming, records, writing
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.kafka_exceptions import LogError
from stream_app.kafka.broker.topics import MEDIUM_BYTES
from stream_app.kafka.deployment.records import RecordKind, of_model
from stream_app.kafka.deployment.refused_record import RefusedRecord
from stream_app.setup.run_folder.manifest import differences
from stream_app.setup.run_folder.record import Author, Entry, chained, following, head_of
from stream_app.setup.settings import Settings
from stream_app.wire import Version

logger = logging.getLogger(__name__)

_VALUES = (
    *("deployment", "step_seconds", "origin", "first_slot"),
    *("horizon", "mistakes", "thresholds", "sharpen_above"),
)
_ACCOUNTS, _PSEUDONYMS = b"accounts", b"pseudonyms"
_RECORD = b"record-"
HEAD = "record"
"""Under which name whoever decides keeps the record's head, so that entries that are lost are noticed."""
_WAIT_SECONDS = 1.0
_DIGEST_DIGITS = 16


class DeploymentRecord(BaseModel):
    """Values and fingerprints of what must be the same in every process; no secret, nobody's name."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Version = 1
    type: Literal["deployment"] = "deployment"
    digest: str
    basis: Mapping[str, Any]

    @classmethod
    def of(cls, basis: Mapping[str, Any]) -> DeploymentRecord:
        """The record of a basis."""
        return cls(digest=digest_of(basis), basis=json.loads(json.dumps(basis)))


_KIND: RecordKind[DeploymentRecord] = of_model("a deployment record", DeploymentRecord, MEDIUM_BYTES)


def accounts_basis(settings: Settings, registry: SensorRegistry) -> dict[str, Any]:
    """Everything beside people and decisions that a certified risk depends on, in values and fingerprints."""
    return {
        **settings.model_dump(mode="json", include=set(_VALUES)),
        "sharpen": settings.sharpen,
        **_work(settings),
        **_radius(settings),
        **_crowd(settings),
        "partitions": settings.kafka.partitions,
        "locations": _fingerprint(registry.location_names),
        "sensors": _fingerprint([registry.location_names, registry.accounted_facts()]),
    }


def _work(settings: Settings) -> dict[str, int]:
    """The work of refined bounds, where it is not the default: earlier versions had no such setting."""
    is_default = settings.sharpen_operations == OPERATIONS
    return {} if is_default or not settings.sharpen else {"sharpen_operations": settings.sharpen_operations}


def _radius(settings: Settings) -> dict[str, Any]:
    """What ceilings are raised to, and which priors were refuted; nothing where none were."""
    check = settings.priors_check
    if check is None or not check.is_too_low:
        return {}
    return {"priors_check.kappa_min": check.kappa_min, "priors_check.priors": check.priors}


def _crowd(settings: Settings) -> dict[str, Any]:
    """Whom ceilings in the crowd hold against, and whether a budget is kept by them; nothing without them."""
    if not settings.has_crowd:
        return {}
    crowd = settings.crowd.model_dump(mode="json", exclude={"on"})
    return {"adversary": settings.adversary, **{f"crowd.{name}": value for name, value in crowd.items()}}


def digest_of(basis: Mapping[str, Any]) -> str:
    """Sixteen hexadecimal digits: the form in which decisions and people name what they belong to."""
    return _fingerprint(basis)[:_DIGEST_DIGITS]


class DeploymentTopic:
    """The topic as one process reads it, and writes it where nobody has."""

    def __init__(self, connection: Connection, topic: str) -> None:
        self._connection = connection
        self._topic = topic

    def begin(self, basis: Mapping[str, Any]) -> None:
        """Write what is accounted with, if nothing is there; :class:`RunChangedError` for anything else."""
        self._begin(_ACCOUNTS, basis)

    def begin_people(self, pseudonym_key: str) -> None:
        """As :meth:`begin`, for the fingerprint of the key that people are named with."""
        self._begin(_PSEUDONYMS, {"pseudonym_key": pseudonym_key})

    def check(self, basis: Mapping[str, Any]) -> bool:
        """Whether the deployment has begun; :class:`RunChangedError` if with something else than this."""
        return self._check(_ACCOUNTS, basis)

    async def wait(self, basis: Mapping[str, Any]) -> None:
        """Return once somebody has begun the deployment with this; for those who may not begin one."""
        if await asyncio.to_thread(self.check, basis):
            return
        logger.info("waiting for the deployment to begin: `persons load` or the release worker does it")
        while not await asyncio.to_thread(self.check, basis):
            await asyncio.sleep(_WAIT_SECONDS)

    def entries(self) -> tuple[Entry, ...]:
        """The record of rules: what held from which step on, by whom and why; held against each other."""
        with consuming(self._connection) as consumer:
            found = {
                int(each.key.removeprefix(_RECORD)): each.value
                for each in records(consumer, self._topic)
                if each.key is not None and each.key.startswith(_RECORD) and each.value is not None
            }
        return chained((found[number] for number in sorted(found)), self.record_name)

    @property
    def record_name(self) -> str:
        """What messages call the record."""
        return f"the record in topic {self._topic}"

    def hold(self, step: int, facts: Mapping[str, Any], author: Author) -> Mapping[str, Any]:
        """Note durably that ``facts`` hold from ``step`` on, where they are not as before; the record's head.

        For the one process that decides, before it decides the step.
        """
        entries = self.entries()
        entry = following(entries, step, facts, author, time.time())
        if entry is None:
            return head_of(entries)
        with writing(self._connection) as producer:
            key = _RECORD + str(entry.number).encode()
            producer.send(self._topic, entry.line(), key=key, partition=0)
        if (now := self.entries())[: entry.number + 1] != (*entries, entry):
            raise LogError(
                f"{self.record_name} must be written by one process",
                "an entry of another",
                "stop the other one",
            )
        return head_of(now)

    def _begin(self, key: bytes, basis: Mapping[str, Any]) -> None:
        """Write and look again: of two who begin at once with different settings, none goes on unseen."""
        if self._check(key, basis):
            return
        with writing(self._connection) as producer:
            value = DeploymentRecord.of(basis).model_dump_json().encode()
            producer.send(self._topic, value, key=key, partition=0)
        self._check(key, basis)

    def _check(self, key: bytes, basis: Mapping[str, Any]) -> bool:
        found = self._records(key)
        for record in found:
            check_same(record.basis, DeploymentRecord.of(basis).basis)
        return bool(found)

    def _records(self, key: bytes) -> list[DeploymentRecord]:
        """Every record of a key; but for a race there is one."""
        with consuming(self._connection) as consumer:
            return [read_record(each) for each in records(consumer, self._topic) if each.key == key]


def read_record(record: Any) -> DeploymentRecord:
    """What a record of the topic holds; :class:`LogError` where nobody of this version has written it."""
    found = _KIND.read(record)
    if isinstance(found, RefusedRecord):
        raise LogError(
            f"{record.topic} must hold deployment records of this version",
            f"at {found.source}: {found.hint}",
            "run the version that wrote it",
        )
    return found


def check_same(begun: Mapping[str, Any], basis: Mapping[str, Any]) -> None:
    """:class:`RunChangedError` naming everything that differs from what the deployment was begun with."""
    changed = sorted(key for key in begun.keys() | basis.keys() if begun.get(key) != basis.get(key))
    if changed:
        raise RunChangedError(
            "every process must have the settings that the deployment started with",
            differences(changed, begun, basis),
            "restore the settings, files or keys named here; only a deployment that has published nothing "
            "may be begun again, with another kafka.prefix",
        )


def _fingerprint(value: object) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()

"""What every process of one deployment on Kafka shares: settings, sensors, topics, the way to the broker."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from accounting.continuous import HorizonSettings
from accounting.decisions.limit import RiskLimit
from models.sensors import SensorRegistry
from stream_app.exceptions import RunChangedError, SettingsError
from stream_app.kafka.connection import Connection
from stream_app.kafka.topics import Topics, require_topics
from stream_app.policy import BudgetPolicy, policy_from
from stream_app.sensor_files import load_registry
from stream_app.settings import Settings

_FIXED = ("deployment", "step_seconds", "origin", "first_slot")
_REPLACEABLE = frozenset({"release", "noise_key"})


@dataclass(frozen=True)
class Deployment:
    """One deployment as its workers see it; no priors, no keys."""

    settings: Settings
    registry: SensorRegistry
    topics: Topics
    connection: Connection

    @classmethod
    def of(cls, settings: Settings) -> Deployment:
        """Read sensors and locations; :class:`SettingsError` where a file or a server is not named."""
        connection = Connection.of(settings.kafka)
        registry = load_registry(settings.sensors, _location_names(settings))
        return cls(settings, registry, Topics.of(settings), connection)

    @property
    def location_names(self) -> tuple[str, ...]:
        """The ``M`` locations."""
        return self.registry.location_names

    def horizon(self) -> HorizonSettings:
        """What the adversary tries; dear bounds only where they are asked for, so that partitions agree."""
        settings = self.settings
        return HorizonSettings(
            settings.horizon,
            settings.mistakes,
            settings.thresholds,
            settings.first_slot,
            sharpen=bool(settings.sharpen),
            sharpen_above=settings.sharpen_above,
        )

    def limit(self) -> RiskLimit | None:
        """The risk budget, where there is one."""
        policy = policy_from(self.settings.release, self.registry)
        return policy.limit if isinstance(policy, BudgetPolicy) else None

    def basis(self, noise_key_fingerprint: str) -> dict[str, Any]:
        """What the log hangs on: values and fingerprints, no secret."""
        sensors = [[each.name, list(each.locations), each.group] for each in self.registry.sensors]
        fixed = self.settings.model_dump(mode="json", include={*_FIXED, "release"})
        digest = hashlib.sha256(json.dumps([self.location_names, sensors]).encode()).hexdigest()
        return {**fixed, "sensors": digest, "noise_key": noise_key_fingerprint}


def check_basis(stored: Mapping[str, Any], wanted: Mapping[str, Any], *, accept_changes: bool) -> None:
    """Refuse to continue a log with other settings than it was begun with."""
    if not stored:
        return
    replaceable = _REPLACEABLE if accept_changes else frozenset[str]()
    changed = sorted(
        key
        for key in stored.keys() | wanted.keys()
        if stored.get(key) != wanted.get(key) and key not in replaceable
    )
    if changed:
        raise RunChangedError(
            "the release log must be continued with what it was begun with",
            f"other {', '.join(changed)}",
            "restore the settings, or say --accept-changes where release policy or noise key may change",
        )


@contextmanager
def administration(connection: Connection) -> Iterator[Any]:
    """kafka-python's admin client while the block runs; :class:`BrokerError` where the broker refuses."""
    from kafka import KafkaAdminClient

    from stream_app.kafka.broker_errors import broker_errors

    with broker_errors(connection):
        admin = KafkaAdminClient(**connection.kafka_python(), bootstrap_timeout_ms=10_000)
        try:
            yield admin
        finally:
            admin.close()


def check_topics_of(deployment: Deployment) -> None:
    """:class:`TopicError` with everything that is wrong with the broker's topics."""
    with administration(deployment.connection) as admin:
        require_topics(admin, deployment.topics)


def _location_names(settings: Settings) -> tuple[str, ...]:
    """The names in the locations file, one a line."""
    path: Path | None = settings.locations
    if path is None:
        raise SettingsError(
            "locations must name a file on Kafka, where no worker reads the priors file",
            "nothing",
            "write the location names one a line (`tallyguard persons load --locations-file` does it)",
        )
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"locations file {path} must be readable text", error, "check the path"
        ) from error
    if not names or "" in names:
        raise SettingsError(
            f"locations file {path} must have a name in each line", "an empty line", "fill it"
        )
    return names

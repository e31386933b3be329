"""What every process of one deployment on Kafka shares: settings, sensors, topics, the way to the broker."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from accounting.settings import HorizonSettings, RiskBudget
from models.releases import SensorRegistry, StepSchedule
from stream_app.exceptions import RunChangedError, keeping
from stream_app.kafka.broker.connection import Connection
from stream_app.kafka.broker.kafka_exceptions import LogError
from stream_app.kafka.broker.topic_checks import require_topics
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment_record import DeploymentTopic, accounts_basis, digest_of
from stream_app.kafka.deployment.sizes import require_record_sizes
from stream_app.setup.declared import require_most_counts
from stream_app.setup.location_names import location_names as read_names
from stream_app.setup.run_folder.manifest import ACCEPTABLE, differences
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.steps.policy import BudgetPolicy, Decided, designs_of, policy_from
from stream_app.wire import StepDecision, crowds_of, schedule_of

_WHERE = "on Kafka, where no worker reads the priors file"
_REMEDY = "write the location names one a line (`tallyguard persons load --locations-file` does it)"


@dataclass(frozen=True)
class Deployment:
    """One deployment as its workers see it; no priors, no keys."""

    settings: Settings
    registry: SensorRegistry
    topics: Topics
    connection: Connection

    @classmethod
    def of(cls, settings: Settings, location_names: tuple[str, ...] | None = None) -> Deployment:
        """Read sensors and locations; :class:`SettingsError` where a file or a server is not named.

        Who has read the priors gives the locations of those.
        """
        connection = Connection.of(settings.kafka)
        names = location_names or read_names(settings, _WHERE, _REMEDY)
        registry = load_registry(settings.sensors, names)
        registry.refuse_windows("a deployment on Kafka", "run them in one process, with tallyguard run")
        require_most_counts(registry, settings.connect.scaled)
        return cls(settings, registry, Topics.of(settings), connection)

    @property
    def location_names(self) -> tuple[str, ...]:
        """The ``M`` locations."""
        return self.registry.location_names

    def horizon(self) -> HorizonSettings:
        """What the adversary tries."""
        return self.settings.horizon_settings(self.settings.first_slot)

    @cached_property
    def vocabulary(self) -> SensorRegistry:
        """All that logged decisions and schedules name: the sensors, and the deployment's noise design."""
        return self.registry.with_designs(designs_of(self.settings.release))

    def limit(self) -> RiskBudget | None:
        """The risk budget, where there is one."""
        policy = policy_from(self.settings.release, self.registry)
        return policy.limit if isinstance(policy, BudgetPolicy) else None

    @cached_property
    def basis(self) -> dict[str, Any]:
        """What every process accounts with: values and fingerprints, no secret."""
        return accounts_basis(self.settings, self.registry)

    @cached_property
    def digest(self) -> str:
        """The basis in short: what decisions and people carry."""
        return digest_of(self.basis)

    @property
    def record(self) -> DeploymentTopic:
        """Where it stands what the deployment was begun with."""
        return DeploymentTopic(self.connection, self.topics.deployment)

    def schedule_of(self, decision: StepDecision) -> StepSchedule:
        """The schedule of a logged decision; :class:`LogError` if it was made to be accounted otherwise."""
        if decision.deployment not in (None, self.digest):  # None: logged before decisions carried it
            raise LogError(
                f"step {decision.step} of {self.topics.decisions} must belong to deployment {self.digest}",
                decision.deployment,
                "two deployments write to one log, or it was restored beside another one's: "
                "stop the other, restore what belongs together",
            )
        return schedule_of(decision, self.vocabulary)

    def decided(self, decision: StepDecision) -> Decided:
        """The same, with what its counts hide among where risks in the crowd are accounted."""
        crowds = crowds_of(decision) if self.settings.has_crowd else None
        return Decided(self.schedule_of(decision), decision.why, crowds)

    def release_basis(self, noise_key: str | None, schedule: str | None) -> dict[str, Any]:
        """What the release log hangs on besides: policy, and fingerprints of noise key and schedule file."""
        release = self.settings.release.model_dump(mode="json")
        return {**self.basis, "release": release, "noise_key": noise_key, "schedule": schedule}


def check_basis(stored: Mapping[str, Any], wanted: Mapping[str, Any], *, accept_changes: bool) -> None:
    """Refuse to continue a log with other settings than it was begun with.

    What an earlier version did not store cannot be compared.
    """
    replaceable = ACCEPTABLE if accept_changes else frozenset[str]()
    changed = sorted(stored.keys() - replaceable)
    changed = [key for key in changed if stored[key] != wanted.get(key)]
    if changed:
        raise RunChangedError(
            "the release log must be continued with the settings it was started with",
            differences(changed, stored, wanted),
            keeping(changed, ACCEPTABLE),
        )


@contextmanager
def administration(connection: Connection) -> Iterator[Any]:
    """kafka-python's admin client while the block runs; :class:`BrokerError` where the broker refuses."""
    from kafka import KafkaAdminClient

    from stream_app.kafka.broker.broker_errors import broker_errors
    from stream_app.kafka.broker.clients import connected

    class Admin(KafkaAdminClient):  # type: ignore[misc]
        def __init__(self, **arguments: Any) -> None:
            try:
                super().__init__(**arguments)
            except Exception:
                if hasattr(self, "_net"):  # its thread runs, though no broker has answered
                    self._closed = False
                    self.close()
                raise

    with broker_errors(connection):
        admin = connected(Admin, connection)
        try:
            yield admin
        finally:
            admin.close()


def check_topics_of(deployment: Deployment) -> None:
    """:class:`TopicError` with everything that is wrong with the broker's topics."""
    require_record_sizes(deployment.registry, deployment.topics, deployment.settings)
    with administration(deployment.connection) as admin:
        require_topics(admin, deployment.topics)

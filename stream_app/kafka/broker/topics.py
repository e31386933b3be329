"""The topics of a deployment: what each holds, and how it must be configured.

``releases`` and ``decisions`` are logs: one partition, in the order of steps, and nothing is ever removed,
because every risk is rebuilt from them. People are spread over the partitions of ``persons``, which the group
of account workers shares out. Activations and readings have one partition each; the broker's time stamps put
the two in order.

If sensors are in several regions, the public logs and all topics with counts have a partition for each, in
the order of the regions' names: no worker reads the counts of another's region.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from stream_app.exceptions import SettingsError
from stream_app.setup.sensor_files import regions_by_sensor
from stream_app.setup.settings import Settings

FOREVER = "-1"
HOUR_MILLISECONDS = 3600 * 1000
DAY_MILLISECONDS = 24 * HOUR_MILLISECONDS
LARGE_BYTES = 16 * 2**20
"""The largest record that names every sensor of a step, or holds a person's habits."""
MEDIUM_BYTES = 2**20
"""The largest of all other records: no more than brokers accept by default."""

_LARGE = {"max.message.bytes": str(LARGE_BYTES)}
_BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}  # one clock for all: order and latency by it


def _days(days: int) -> dict[str, str]:
    """Kept for some days. Segments are short, because a record is removed with its whole segment."""
    kept = days * DAY_MILLISECONDS
    segment = {"segment.ms": str(min(kept // 4, DAY_MILLISECONDS))}
    size = {"retention.bytes": FOREVER}  # a limit set on the broker would remove unread records
    return {"cleanup.policy": "delete", "retention.ms": str(kept), **size, **segment, **_BROKER_TIME}


_LOG = {
    "cleanup.policy": "delete",
    "retention.ms": FOREVER,
    "retention.bytes": FOREVER,
    **_BROKER_TIME,
    **_LARGE,
}
_ERASED = {  # a deleted person is gone from the disk within two days, however quiet the topic is
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",  # a limit set on the broker would keep deleted people
    "max.compaction.lag.ms": str(DAY_MILLISECONDS),
    "delete.retention.ms": str(DAY_MILLISECONDS),
    "segment.ms": str(DAY_MILLISECONDS),
    "segment.bytes": str(256 * 2**20),
    **_LARGE,
}
_REWRITTEN = {  # rewritten with each transaction; counts of closed steps are gone within the hour
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(HOUR_MILLISECONDS),
    "delete.retention.ms": str(HOUR_MILLISECONDS),
    "segment.ms": str(HOUR_MILLISECONDS // 6),
    "segment.bytes": str(64 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
    **_LARGE,
}
_PASSING = {  # accounts of people, rewritten now and then: none is kept longer than a week
    **_REWRITTEN,
    "cleanup.policy": "compact,delete",
    "retention.ms": str(7 * DAY_MILLISECONDS),
}
_KEPT = {"cleanup.policy": "compact"}
_COPIES_FOR_SAFETY = 3
_MOST_CHARACTERS = 249
_NAME = re.compile(rf"[A-Za-z0-9._-]{{1,{_MOST_CHARACTERS}}}")


def _safety(replication: int) -> dict[str, str]:
    """An acknowledged record survives the loss of a broker: it is in two copies of three."""
    acknowledged = 2 if replication >= _COPIES_FOR_SAFETY else 1
    return {"min.insync.replicas": str(acknowledged), "unclean.leader.election.enable": "false"}


@dataclass(frozen=True)
class TopicPlan:
    """How one topic must be configured; ``holds`` says what is in it, ``readers`` who may read it."""

    name: str
    partitions: int
    configuration: Mapping[str, str]
    holds: str
    readers: str
    replication: int = 1


class _Name:
    """The name of a topic, after the deployment's prefix."""

    def __init__(self, name: str) -> None:
        self._name = name

    def __get__(self, topics: Topics, _: type[Topics]) -> str:
        return f"{topics.prefix}{self._name}"


@dataclass(frozen=True)
class Topics:
    """The names of a deployment's topics, and how they must be configured; ``tiers`` least informed first.

    ``has_revised`` says whether late and corrected counts are published, ``watches_devices`` whether devices
    are watched that may be broken: each has a topic of its own. ``regions`` are those of the sensors in the
    order of their partitions; empty without regions.
    """

    prefix: str = ""
    partitions: int = 4
    replication: int = 1
    tiers: tuple[str, ...] = ()
    has_revised: bool = False
    watches_devices: bool = False
    regions: tuple[str, ...] = ()
    _plans: Mapping[str, TopicPlan] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        safety = _safety(self.replication)
        plans = {
            plan.name: replace(
                plan, configuration={**plan.configuration, **safety}, replication=self.replication
            )
            for plan in self._make_plans()
        }
        object.__setattr__(self, "_plans", plans)  # as the dataclass is frozen

    @classmethod
    def of(cls, settings: Settings) -> Topics:
        """The topics the settings ask for; :class:`SettingsError` for a name that no topic can have."""
        kafka = settings.kafka
        tiers = tuple(settings.release.tiers)
        topics = cls(
            kafka.prefix,
            kafka.partitions,
            kafka.replication,
            tiers,
            has_revised=settings.late > 0,
            watches_devices=settings.quality.watches,
            regions=tuple(sorted(set(regions_by_sensor(settings.sensors).values()))),
        )
        wrong = next((name for name in topics._plans if not _NAME.fullmatch(name)), None)
        if wrong is not None:
            raise SettingsError(
                "kafka.prefix and the names of tiers must be of letters, digits, dots, lines and hyphens, "
                f"as names of topics are, {_MOST_CHARACTERS} in all",
                repr(wrong),
                "rename the tier in release.tiers, or correct the prefix",
            )
        return topics

    activations = _Name("activations")
    """Which sensors will count in a step."""

    readings = _Name("readings")
    """The counts: as secret as the sensors."""

    releases = _Name("releases")
    """The public log."""

    revised = _Name("revised")
    """Late and corrected values of steps that are in the public log."""

    decisions = _Name("decisions")
    """The internal twin of the releases: what is accounted."""

    progress = _Name("progress")
    """Where the release worker, or each region, continues."""

    sealed = _Name("sealed")
    """Which sensors counted in a step of a region, and which of its steps are published; no counts."""

    coordination = _Name("coordination")
    """Where the coordinator of regions continues; no counts."""

    whole = _Name("whole")
    """Which steps every region has published."""

    deployment = _Name("deployment")
    """What everything was begun with."""

    persons = _Name("persons")
    """Priors by pseudonym."""

    accounts = _Name("accounts")
    """Snapshots of people's accounts, from which partitions are taken over."""

    risks = _Name("risks")
    """Certified risks: a summary for each step and partition, single people now and then."""

    rejected = _Name("rejected")
    """Dead letters."""

    quality = _Name("quality")
    """Devices that seem broken, where devices are watched: it depends on counts."""

    proposals = _Name("proposals")
    """What a step might release: a question to every partition of people."""

    answers = _Name("answers")
    """How many people each proposal would put over the budget, by partition."""

    def tier(self, name: str) -> str:
        """The log of one tier of recipients."""
        return f"{self.prefix}releases-{name}"

    def revised_tier(self, name: str) -> str:
        """Late and corrected values for one tier of recipients."""
        return f"{self.prefix}revised-{name}"

    @property
    def of_tiers(self) -> tuple[str, ...]:
        """The logs of all tiers."""
        revised = map(self.revised_tier, self.tiers if self.has_revised else ())
        return (*map(self.tier, self.tiers), *revised)

    @property
    def of_people(self) -> frozenset[str]:
        """Those whose partitions share out the people, as many as the settings say."""
        return frozenset({self.persons, self.accounts, self.risks, self.proposals})

    def plans(self) -> tuple[TopicPlan, ...]:
        """Every topic as it must be."""
        return tuple(self._plans.values())

    def plan(self, name: str) -> TopicPlan:
        """One topic as it must be."""
        return self._plans[name]

    def _make_plans(self) -> Iterator[TopicPlan]:
        people, parts, everybody = self.partitions, max(1, len(self.regions)), "everybody"
        intake, decides = ("intake workers", "coordinator") if self.regions else ("release worker",) * 2
        day, week, month, quarter = _days(1), _days(7), _days(30), _days(90)
        counts, seals = "open steps with counts: secret", "which sensors counted: no counts"
        yield TopicPlan(self.activations, parts, week | _LARGE, "schedule, before any count", intake)
        yield TopicPlan(self.readings, parts, week, "counts: secret", f"{intake} only")
        yield TopicPlan(self.releases, parts, _LOG, "published values", everybody)
        if self.has_revised:
            yield TopicPlan(self.revised, parts, _LOG, "late and corrected values", everybody)
        for tier in self.tiers:
            yield TopicPlan(self.tier(tier), parts, _LOG, f"values for tier {tier}", f"tier {tier}")
            if self.has_revised:
                late = f"late and corrected values for tier {tier}"
                yield TopicPlan(self.revised_tier(tier), parts, _LOG, late, f"tier {tier}")
        decided, readers = "what was decided and accounted", "workers, privacy officer"
        yield TopicPlan(self.decisions, 1, _LOG, decided, readers)
        yield TopicPlan(self.progress, parts, _REWRITTEN, counts, f"{intake} only")
        if self.regions:
            position = "where the coordinator continues"
            yield TopicPlan(self.sealed, parts, month | _LARGE, seals, "coordinator")
            yield TopicPlan(self.coordination, 1, _REWRITTEN, position, "coordinator only")
            yield TopicPlan(self.whole, 1, _LOG, "which steps all regions have published", everybody)
        yield TopicPlan(self.deployment, 1, _KEPT, "what must stay as it was begun", "workers, loader")
        account, priors = "account workers", "movement priors by pseudonym: secret"
        yield TopicPlan(self.persons, people, _ERASED, priors, account)
        snapshots = "priors and risks so far by pseudonym: secret"
        yield TopicPlan(self.accounts, people, _PASSING, snapshots, account)
        yield TopicPlan(self.risks, people, quarter, "risks by pseudonym", "privacy officer, dashboards")
        yield TopicPlan(self.rejected, 1, month, "refused messages, may hold counts: secret", "operator")
        if self.watches_devices:
            suspected = "devices that seem broken, which counts decide: secret"
            yield TopicPlan(self.quality, parts, month, suspected, "operator")
        yield TopicPlan(self.proposals, people, day | _LARGE, "what a step might release", account)
        answers = "people over budget and sums of the crowd, by partition"
        yield TopicPlan(self.answers, 1, day, answers, decides)

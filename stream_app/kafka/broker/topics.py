"""The topics of a deployment: what each holds, and how it must be shaped.

``releases`` and ``decisions`` are logs: one partition, in the order of steps, nothing ever removed, because
everybody's risk is rebuilt from them. ``steps`` holds nothing: its partitions, as many as ``persons`` has,
are what a group of workers shares out. Activations and readings have one partition each, and the broker's own
time stamps put the two in order.

Where sensors lie in several regions, everything with counts and the public logs have a partition for each, in
the order of the regions' names: nobody reads another region's counts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

from stream_app.setup.sensor_files import regions_by_sensor
from stream_app.setup.settings import Settings

FOREVER = "-1"
HOUR_MILLISECONDS = 3600 * 1000
DAY_MILLISECONDS = 24 * HOUR_MILLISECONDS
LARGE_BYTES = 16 * 2**20
"""What a record may have that names every sensor of a step, or holds a person's habits."""
MEDIUM_BYTES = 2**20
"""What any other record may have: no more than brokers take by default."""

_LARGE = {"max.message.bytes": str(LARGE_BYTES)}
_BROKER_TIME = {"message.timestamp.type": "LogAppendTime"}  # one clock for all: order and latency by it


def _days(days: int) -> dict[str, str]:
    """Kept for some days: segments are short beside that, as a record goes with the segment that holds it."""
    kept = days * DAY_MILLISECONDS
    segment = {"segment.ms": str(min(kept // 4, DAY_MILLISECONDS))}
    size = {"retention.bytes": FOREVER}  # a broker's own limit would take away what was not read yet
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
    "min.compaction.lag.ms": "0",  # a broker's own would keep who was deleted
    "max.compaction.lag.ms": str(DAY_MILLISECONDS),
    "delete.retention.ms": str(DAY_MILLISECONDS),
    "segment.ms": str(DAY_MILLISECONDS),
    "segment.bytes": str(256 * 2**20),
    **_LARGE,
}
_REWRITTEN = {  # several records a transaction: clean up behind them, counts of closed steps within the hour
    "cleanup.policy": "compact",
    "min.compaction.lag.ms": "0",
    "max.compaction.lag.ms": str(HOUR_MILLISECONDS),
    "delete.retention.ms": str(HOUR_MILLISECONDS),
    "segment.ms": str(HOUR_MILLISECONDS // 6),
    "segment.bytes": str(64 * 2**20),
    "min.cleanable.dirty.ratio": "0.1",
    **_LARGE,
}
_PASSING = {  # people's accounts now and then: nobody's longer than a week, whatever is written or not
    **_REWRITTEN,
    "cleanup.policy": "compact,delete",
    "retention.ms": str(7 * DAY_MILLISECONDS),
}
_KEPT = {"cleanup.policy": "compact"}
_COPIES_FOR_SAFETY = 3


def _safety(replication: int) -> dict[str, str]:
    """What is acknowledged survives the loss of a broker: two copies of three, never one that lags behind."""
    acknowledged = 2 if replication >= _COPIES_FOR_SAFETY else 1
    return {"min.insync.replicas": str(acknowledged), "unclean.leader.election.enable": "false"}


@dataclass(frozen=True)
class TopicPlan:
    """How one topic must be. ``holds`` says in words what is in it, ``readers`` who may read it."""

    name: str
    partitions: int
    replication: int
    configuration: Mapping[str, str]
    holds: str = ""
    readers: str = ""


@dataclass(frozen=True)
class Topics:
    """The topic names of a deployment; ``tiers`` least informed first.

    ``has_revised``: whether late and corrected counts are published, which have a topic of their own.
    ``regions`` are those of the sensors in the order of their partitions, none where all are together.
    """

    prefix: str = ""
    partitions: int = 4
    replication: int = 1
    tiers: tuple[str, ...] = ()
    has_revised: bool = False
    regions: tuple[str, ...] = ()
    _plans: Mapping[str, TopicPlan] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        safety = _safety(self.replication)
        plans = (replace(plan, configuration={**plan.configuration, **safety}) for plan in self._make_plans())
        object.__setattr__(self, "_plans", {plan.name: plan for plan in plans})

    @classmethod
    def of(cls, settings: Settings) -> Topics:
        """The topics the settings ask for."""
        kafka = settings.kafka
        tiers = tuple(settings.release.tiers)
        return cls(
            kafka.prefix,
            kafka.partitions,
            kafka.replication,
            tiers,
            has_revised=settings.late > 0,
            regions=tuple(sorted(set(regions_by_sensor(settings.sensors).values()))),
        )

    @property
    def activations(self) -> str:
        """Which sensors will count in a step."""
        return f"{self.prefix}activations"

    @property
    def readings(self) -> str:
        """The counts: as secret as the sensors."""
        return f"{self.prefix}readings"

    @property
    def releases(self) -> str:
        """The public log."""
        return f"{self.prefix}releases"

    @property
    def revised(self) -> str:
        """Late and corrected values of steps that the public log has already."""
        return f"{self.prefix}revised"

    def tier(self, name: str) -> str:
        """The log of one tier of recipients."""
        return f"{self.prefix}releases-{name}"

    @property
    def decisions(self) -> str:
        """The internal twin of the releases: what is accounted."""
        return f"{self.prefix}decisions"

    @property
    def steps(self) -> str:
        """Nothing: its partitions stand for those of people, which workers share out."""
        return f"{self.prefix}steps"

    @property
    def progress(self) -> str:
        """Where the release worker continues."""
        return f"{self.prefix}progress"

    @property
    def regions_shared(self) -> str:
        """Nothing: its partitions stand for the regions, which intake workers share out."""
        return f"{self.prefix}regions"

    @property
    def sealed(self) -> str:
        """Which sensors counted in a step of a region, and which steps of it are published; no counts."""
        return f"{self.prefix}sealed"

    @property
    def coordination(self) -> str:
        """Where the coordinator of regions continues; no counts."""
        return f"{self.prefix}coordination"

    @property
    def whole(self) -> str:
        """Which steps every region has published."""
        return f"{self.prefix}whole"

    @property
    def deployment(self) -> str:
        """What everything was begun with."""
        return f"{self.prefix}deployment"

    @property
    def persons(self) -> str:
        """Priors by pseudonym."""
        return f"{self.prefix}persons"

    @property
    def accounts(self) -> str:
        """Snapshots of the accounts of people, to take partitions over from."""
        return f"{self.prefix}accounts"

    @property
    def risks(self) -> str:
        """Certified risks: a summary a step and partition, single people now and then."""
        return f"{self.prefix}risks"

    @property
    def rejected(self) -> str:
        """Dead letters."""
        return f"{self.prefix}rejected"

    @property
    def proposals(self) -> str:
        """What a step might release, asked of every partition of people."""
        return f"{self.prefix}proposals"

    @property
    def answers(self) -> str:
        """How many people each proposal would put over the budget, by partition."""
        return f"{self.prefix}answers"

    def plans(self) -> tuple[TopicPlan, ...]:
        """Every topic as it must be."""
        return tuple(self._plans.values())

    def plan(self, name: str) -> TopicPlan:
        """One topic as it must be."""
        return self._plans[name]

    def _make_plans(self) -> Iterable[TopicPlan]:
        one, people, copies = 1, self.partitions, self.replication
        parts, intake = max(1, len(self.regions)), "intake workers" if self.regions else "release worker"
        week, month, quarter = _days(7), _days(30), _days(90)
        yield TopicPlan(self.activations, parts, copies, week | _LARGE, "schedule, before any count", intake)
        yield TopicPlan(self.readings, parts, copies, week, "counts: secret", f"{intake} only")
        yield TopicPlan(self.releases, parts, copies, _LOG, "published values", "everybody")
        if self.has_revised:
            yield TopicPlan(self.revised, one, copies, _LOG, "late and corrected values", "everybody")
        for tier in self.tiers:
            yield TopicPlan(self.tier(tier), parts, copies, _LOG, f"values for tier {tier}", f"tier {tier}")
        yield TopicPlan(
            self.decisions, one, copies, _LOG, "what was decided and accounted", "workers, privacy officer"
        )
        yield TopicPlan(
            self.steps, people, copies, week | _LARGE, "nothing: workers share its partitions out", "workers"
        )
        yield TopicPlan(
            self.progress, parts, copies, _REWRITTEN, "open steps with counts: secret", f"{intake} only"
        )
        if self.regions:
            yield from self._region_plans(copies)
        yield TopicPlan(
            self.deployment,
            one,
            copies,
            _KEPT,
            "what must stay as it was begun",
            "workers, loader",
        )
        yield TopicPlan(
            self.persons, people, copies, _ERASED, "movement priors by pseudonym: secret", "account workers"
        )
        yield TopicPlan(
            self.accounts,
            people,
            copies,
            _PASSING,
            "priors and risks so far by pseudonym: secret",
            "account workers",
        )
        yield TopicPlan(
            self.risks, people, copies, quarter, "risks by pseudonym", "privacy officer, dashboards"
        )
        yield TopicPlan(
            self.rejected, one, copies, month, "refused messages, may hold counts: secret", "operator"
        )
        yield TopicPlan(
            self.proposals, people, copies, _days(1) | _LARGE, "what a step might release", "account workers"
        )
        yield TopicPlan(
            self.answers,
            one,
            copies,
            _days(1),
            "people over budget and sums of the crowd, by partition",
            "coordinator" if self.regions else "release worker",
        )

    def _region_plans(self, copies: int) -> Iterable[TopicPlan]:
        """What intake workers and their coordinator say to each other."""
        one, parts, week, month = 1, len(self.regions), _days(7), _days(30)
        shared, seals = "nothing: intake workers share its partitions out", "which sensors counted: no counts"
        yield TopicPlan(self.regions_shared, parts, copies, week, shared, "intake workers")
        yield TopicPlan(self.sealed, parts, copies, month | _LARGE, seals, "coordinator")
        yield TopicPlan(
            self.coordination, one, copies, _REWRITTEN, "where the coordinator continues", "coordinator only"
        )
        yield TopicPlan(self.whole, one, copies, _LOG, "which steps all regions have published", "everybody")

"""An intake worker's region without a broker: counts in, sealed steps out; decisions in, values out."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from models.releases import StepSchedule
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import DECISION
from stream_app.kafka.deployment.refused_record import RefusedRecord
from stream_app.kafka.regions.region_records import PublishedStep, RegionProgress, SealedStep
from stream_app.kafka.release.arrival_order import Arrived
from stream_app.kafka.release.core import Core, LogRecord, Taken
from stream_app.kafka.release.progress import KEY, step_records
from stream_app.kafka.release.release_core import receive_message
from stream_app.kafka.release.release_log import StepRecords
from stream_app.steps import Intake, KeyedPublisher, OpenStep, StepClock, refuse_waiting, release_of
from stream_app.watching.events import StepClosed
from stream_app.wire import Reading, Reason, Rejected, StepRelease, reject

logger = logging.getLogger(__name__)

_MOST_UNDECIDED = 1000
"""Steps that may be sealed and not decided: behind a coordinator that is away, inputs wait on the broker."""


@dataclass(frozen=True)
class PublishedPart:
    """What one region published of a step."""

    schedule: StepSchedule
    release: StepRelease
    missing: tuple[str, ...]


@dataclass
class IntakeTaken(Taken):
    """Steps that were sealed and parts that were published."""

    sealed: list[SealedStep] = field(default_factory=list)
    published: list[PublishedPart] = field(default_factory=list)

    @property
    def is_idle(self) -> bool:
        """Whether nothing came of the records that anybody waits for."""
        return super().is_idle and not self.sealed and not self.published


@dataclass(frozen=True)
class RegionPlace:
    """A region's partition, and the names of its three inputs."""

    region: str
    partition: int
    activations: str
    readings: str
    decisions: str


class IntakeCore(Core):
    """The windows of one region; ``intake`` knows the region's sensors only.

    A step is sealed when it would close in a deployment of this region alone. Its counts stay in the window
    until the decision has come. What a decision leaves out because it came without this region is refused:
    counts that nobody decided on are not published.
    """

    def __init__(
        self,
        place: RegionPlace,
        deployment: Deployment,
        intake: Intake,
        publisher: KeyedPublisher,
        progress: RegionProgress,
        basis: Mapping[str, object],
    ) -> None:
        super().__init__(StepClock.of(deployment.settings), progress.offsets)
        self.place = place
        self._deployment = deployment
        self._topics = deployment.topics
        self._intake = intake
        self._window = intake.window
        self._publisher = publisher
        self._basis = dict(basis)
        self._written = StepRecords(deployment.topics, partition=place.partition)
        self._next_publish = progress.next_publish
        self._window.hold_from(self._next_publish)
        self._decided: dict[int, tuple[int, StepSchedule]] = {}  # with the offset of the decision

    @property
    def next_step(self) -> int:
        """The step that is sealed next."""
        return self._window.next_step

    @property
    def watermark(self) -> int:
        """The last step that most of the region's sensors have reached."""
        return self._window.watermark

    @property
    def takes_asides_only(self) -> bool:
        """Whether so many steps wait for a decision that no more counts should be taken in."""
        return self.next_step - self._next_publish > _MOST_UNDECIDED

    def new_taken(self) -> IntakeTaken:
        """Nothing yet."""
        return IntakeTaken()

    def records(self, taken: Taken) -> Iterator[LogRecord]:
        """Sealed steps, published values, dead letters, the open steps that changed, where to continue."""
        partition = self.place.partition
        if isinstance(taken, IntakeTaken):
            for sealed in taken.sealed:
                yield LogRecord(self._topics.sealed, None, sealed.line().rstrip(), partition)
            for part in taken.published:
                yield from self._written.released(part.release)
                line = PublishedStep(step=part.schedule.step).line().rstrip()
                yield LogRecord(self._topics.sealed, None, line, partition)
        yield from self._written.dead_letters(taken.rejected)
        for key, value in step_records(self._window.take_changed()).items():
            yield LogRecord(self._topics.progress, key, value, partition)
        yield LogRecord(self._topics.progress, KEY, self._progress().record(), partition)

    def events(self, taken: Taken, latency_seconds: float) -> Iterator[StepClosed]:
        """The region's part of each step, once its values are out."""
        for part in taken.published if isinstance(taken, IntakeTaken) else ():
            yield StepClosed(
                step=part.schedule.step,
                schedule=part.schedule,
                published=part.release.published,
                missing=part.missing,
                people=0,
                summary=None,
                latency_seconds=latency_seconds,
                lag_steps=max(0, self.watermark + 1 - self._next_publish),
                sensors=frozenset(sensor.name for sensor in self._intake.registry.sensors),
            )

    def _receive(self, record: Arrived, taken: Taken) -> None:
        if record.log != self.place.decisions:
            is_activation = record.log == self.place.activations
            receive_message(self._intake, record, self._clock, is_activation, taken)
            return
        decision = DECISION.read(record, f"{record.log}:{record.offset}")
        if isinstance(decision, RefusedRecord):  # as account workers do: who decided writes nothing else
            logger.warning("%s is not %s: %s", decision.source, DECISION.holds, decision.reason)
        elif decision.step >= self._next_publish:
            self._decided[decision.step] = record.offset, self._deployment.schedule_of(decision)

    def _close_through(self, step: int) -> None:
        self._window.close_through = max(self._window.close_through, step)

    def _close_due(self, taken: Taken) -> None:
        assert isinstance(taken, IntakeTaken)
        while self._window.is_due():
            closed = self._window.close()
            missing = tuple(name for name in closed.sensors if name not in closed.counts)
            taken.sealed.append(SealedStep(step=closed.step, sensors=closed.sensors, missing=missing))
            taken.rejected += (refuse_waiting(closed.step, *entry) for entry in closed.waiting.items())
        while self._next_publish < self.next_step and self._next_publish in self._decided:
            self._publish(taken)

    def _publish(self, taken: IntakeTaken) -> None:
        """Draw the values of the region's sensors in the next step, as was decided."""
        step = self._next_publish
        _, decided = self._decided.pop(step)
        own = tuple(each for each in decided.releases if each.sensor.name in self._intake.registry)
        schedule = StepSchedule(step, own)
        counts = (self._window.closed(step) or OpenStep()).counts
        values = self._publisher.publish(schedule, [counts.get(each.sensor.name) for each in own])
        names = [each.sensor.name for each in own]
        missing = tuple(name for name in names if name not in counts)
        taken.published.append(PublishedPart(schedule, release_of(schedule, values), missing))
        taken.rejected += (
            self._refuse(step, sensor, counts[sensor]) for sensor in sorted(counts.keys() - set(names))
        )
        self._next_publish += 1
        self._window.hold_from(self._next_publish)

    def _refuse(self, step: int, sensor: str, count: int) -> Rejected:
        """The dead letter of a count that nobody decided on."""
        payload = Reading(v=1, step=step, sensor=sensor, count=count).line().rstrip()
        hint = (
            f"step {step} was decided without region {self.place.region!r}, which was not done with it in "
            "time; look why it lags, or raise kafka.seal_seconds"
        )
        return reject(f"{self.place.readings}:", payload, Reason.LATE_READING, hint)

    def _progress(self) -> RegionProgress:
        """Where to continue: decisions that were not followed yet are read again."""
        undecided = [offset for offset, _ in self._decided.values()]
        offsets = self.offsets
        if undecided:
            offsets[self.place.decisions] = min(undecided)
        return RegionProgress(
            next_step=self.next_step,
            next_publish=self._next_publish,
            offsets=offsets,
            window=self._window.save_position(),
            basis=self._basis,
        )

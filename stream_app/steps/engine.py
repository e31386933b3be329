"""The step engine: the walk of a reading from intake to release, without files, clocks or brokers.

Messages go in by :meth:`StepEngine.receive`; :meth:`StepEngine.close_next` then gives closed steps until none
is due. Whoever runs the engine makes a closed step's release durable before anybody is told of it. The same
messages in the same order give the same outputs, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Protocol

from accounting.decisions.what_if import KnownStep
from accounting.ledgers import PrivacyAccount
from models.exceptions import TallyguardError
from models.mechanisms import PublishesTiers, Suppressed
from models.releases import PublishedValue, SensorRelease, StepSchedule, TierValues, in_single_steps
from stream_app.exceptions import AccountingFailedError
from stream_app.setup.run_folder.progress import DECISIONS, RELEASES, REVISED
from stream_app.steps.devices import DeviceWatch
from stream_app.steps.intake import Intake, Receipt, refuse_waiting
from stream_app.steps.policy import Decided, Policy, steps_asked
from stream_app.steps.position import Position, Spent
from stream_app.steps.window import ClosedCounts, Origin, RevisedCount
from stream_app.watching.events import StepClosed
from stream_app.wire import (
    DecisionReason,
    DeviceFinding,
    InputMessage,
    Rejected,
    RiskSummary,
    StepDecision,
    StepRelease,
    TierValue,
    decision_of,
)

if TYPE_CHECKING:
    from accounting.exposure.crowd import StepCrowd

_SUPPRESSED = Suppressed().name


class StepAccounts(Protocol):
    """The people whom a step is accounted for: here, or in account workers, who read it from the log."""

    has_crowd: bool  # whether it is computed what each count hides among

    def ask(self, steps: Sequence[StepSchedule]) -> tuple[KnownStep, ...]:
        """What each count of the next steps would hide among; none without a crowd's account."""

    def apply(self, decided: Decided) -> None:
        """Account one step."""

    def summary(self) -> RiskSummary | None:
        """Everybody's risk after the last step; None where the people are elsewhere."""


class Publisher(Protocol):
    """Turns counts into public values; see :mod:`stream_app.steps.plan`."""

    def publish(
        self, schedule: StepSchedule, counts: Sequence[int | None], version: int = 1
    ) -> Sequence[PublishedValue]:
        """One value per release of the schedule; None for a missing count and where nothing is published."""


@dataclass(frozen=True, slots=True)
class ClosedStep:
    """The results of closing one step.

    ``schedule`` is what was accounted: a missing reading is accounted as if it had been released.
    ``why`` is the reason of a decision under a risk budget. ``summary`` is None where people are elsewhere,
    ``crowds`` where risks in the crowd are not computed. ``revised`` are late and corrected values of earlier
    steps: accounted when those were closed. ``accounted`` is the schedule brought to single steps.
    ``findings`` follow from counts, so they are for the owner only.
    """

    schedule: StepSchedule
    release: StepRelease
    missing: tuple[str, ...]
    summary: RiskSummary | None
    rejected: tuple[Rejected, ...]
    why: DecisionReason | None = None
    crowds: StepCrowd | None = None
    revised: tuple[StepRelease, ...] = ()
    accounted: StepSchedule | None = None
    findings: tuple[DeviceFinding, ...] = ()

    def messages(self, deployment: str | None = None) -> Iterator[tuple[str, StepDecision | StepRelease]]:
        """What is written of it for good, by log: the decision, all that is published, and later values.

        ``deployment``, on Kafka, is the digest that decisions carry.
        """
        yield DECISIONS, decision_of(self.schedule, self.why, deployment, self.crowds)
        yield RELEASES, self.release
        for release in self.revised:
            yield REVISED, release

    def event(self, people: int = 0, latency_seconds: float = 0.0, lag_steps: int = 0) -> StepClosed:
        """What observers are told, with the risks of these ``people``; account workers tell their own."""
        return StepClosed(
            *(self.schedule.step, self.schedule, self.release.published, self.missing),
            *(people, self.summary if people else None, latency_seconds, lag_steps),
            why=self.why,
            crowds=self.crowds,
            accounted=self.accounted,
        )


class StepEngine:
    """Intake, decision, accounting and release of one deployment, strictly step by step."""

    def __init__(
        self,
        intake: Intake,
        policy: Policy,
        publisher: Publisher,
        accounts: StepAccounts,
        *,
        devices: DeviceWatch | None = None,
    ) -> None:
        """``devices`` looks at the counts of every step, and at nothing else."""
        self.devices = devices
        self.spent = Spent(PrivacyAccount(sensor.group for sensor in intake.registry.sensors))
        self.intake = intake
        self.accounts = accounts
        self._policy = policy
        self._publisher = publisher
        self._decided: dict[int, StepSchedule] = {}  # of which more values may come

    @property
    def next_step(self) -> int:
        """The step that closes next."""
        return self.intake.window.next_step

    def position(self) -> dict[str, Any]:
        """The fields of the :class:`Position` that is reached; the steps of its window are taken apart."""
        return {
            "next_step": self.next_step,
            "window": self.intake.window.save_position(),
            "account": self.spent.account.save(),
            "decided": self.spent.decided,
            "devices": {} if self.devices is None else self.devices.save(self.next_step),
        }

    def resume(self, position: Position, spent: Spent) -> None:
        """Continue from a position, and with what was spent; the window was loaded from it."""
        self.spent = spent
        if self.devices is not None:
            self.devices.load(position.devices, self.next_step)

    def recall(self, decided: Iterable[StepSchedule]) -> None:
        """Note what an earlier run decided on the last closed steps, for which late values may still come."""
        self._decided |= {schedule.step: schedule for schedule in decided}

    def receive(self, message: InputMessage, origin: Origin) -> Receipt:
        """Take one message. Steps it makes due are closed by :meth:`close_next`."""
        return self.intake.receive(message, origin)

    def is_due(self) -> bool:
        """Whether :meth:`close_next` would close a step."""
        return self.intake.window.is_due()

    def allow_through(self, step: int) -> None:
        """The ticks of the steps up to this one have come: they may close once all sensors have reported."""
        window = self.intake.window
        window.open_through = max(window.open_through, step)

    def close_through(self, step: int) -> None:
        """The ticks of the steps up to this one have come, and everything sent before them was read."""
        self.intake.window.close_through = max(self.intake.window.close_through, step)

    def finish(self) -> None:
        """The input has ended: all steps that were announced or reported are due."""
        self.intake.window.finish()

    def drain(self) -> tuple[Rejected, ...]:
        """Dead letters of the readings whose activation never came; after the last step was closed."""
        return tuple(refuse_waiting(*entry) for entry in self.intake.window.drain())

    def take_revised(self) -> tuple[StepRelease, ...]:
        """Late and corrected values that came after the last step was closed."""
        return self._revised(self.intake.window.take_revised())

    def close_next(self) -> ClosedStep | None:
        """Close the next step if it is due: decide, account, only then draw values.

        :class:`AccountingFailedError` when it cannot be accounted; nothing of it may be published then, and
        the engine must not continue. Its window is as it was before the step then.
        """
        if not self.intake.window.is_due():
            return None
        closed, registry = self.intake.window.closing(), self.intake.registry
        if registry.regions:  # whose announcements come one by one, in any order
            announced = self.intake.exclusions.active(closed.step, closed.sensors)  # a region may lag behind
            closed = closed._replace(sensors=registry.in_order(announced))
        decided, summary = self._account(self._decide(closed))  # first: what is refused here draws no value
        schedule = decided.schedule
        counts = [closed.counts.get(each.sensor.name) for each in schedule.releases]
        release = release_of(schedule, self._publisher.publish(schedule, counts))
        revised = self._revised(closed.revised)
        self.spent.charge(schedule)
        self.intake.window.close()
        self._decided[closed.step] = schedule
        self._decided.pop(closed.step - max(self.intake.window.late, 1), None)
        return ClosedStep(
            schedule=schedule,
            release=release,
            missing=tuple(name for name in closed.sensors if name not in closed.counts),
            summary=summary,
            rejected=tuple(refuse_waiting(closed.step, *entry) for entry in closed.waiting.items()),
            why=decided.why,
            crowds=decided.crowds,
            revised=revised,
            accounted=decided.accounted,
            findings=self.devices.note(closed.step, closed.sensors, closed.counts) if self.devices else (),
        )

    def _decide(self, closed: ClosedCounts) -> Decided:
        """How the announced sensors of a step are released."""
        known: tuple[KnownStep, ...] = ()
        if self.accounts.has_crowd:
            asked = steps_asked(self._policy, closed.step, closed.sensors, self.intake.registry)
            known = self.accounts.ask(asked)
        decided = self._policy.decide(closed.step, closed.sensors, known)
        return decided._replace(crowds=known[0].crowds if known else None)

    def _revised(self, counts: Sequence[RevisedCount]) -> tuple[StepRelease, ...]:
        return revised_releases(counts, self._decided, self._publisher)

    def _account(self, decided: Decided) -> tuple[Decided, RiskSummary | None]:
        """Account a step as it is in single steps, and say what that means for everybody, or stop everything.

        An attack that proves the ceiling wrong stops it too: nothing is published on a false promise.
        """
        schedule = decided.schedule
        try:
            self._policy.note(schedule)
            decided = decided._replace(single_steps=in_single_steps(schedule, self.intake.registry))
            self.accounts.apply(decided)
            return decided, self.accounts.summary()
        except TallyguardError as error:
            raise AccountingFailedError(
                f"step {schedule.step} must be accounted before it is published",
                error,
                "nothing of it was published; fix the cause and start again with the same output folder",
            ) from error


def revised_releases(
    counts: Sequence[RevisedCount], decided: Mapping[int, StepSchedule], publisher: Publisher
) -> tuple[StepRelease, ...]:
    """The messages of late and corrected counts, as was ``decided`` when their steps were closed.

    They are accounted already: a missing count is accounted as if it had been released, and a sensor that
    declares corrections as if all of them had been. What no decision covers is in none of the messages.
    """
    releases = []
    for (step, version), group in groupby(sorted(counts, key=_by_version), key=_by_version):
        own = {each.sensor: each.people for each in group}
        found = [each for each in decided[step].releases if each.sensor.name in own]
        schedule = StepSchedule(step, tuple(each for each in found if each.mechanism.is_released))
        values = publisher.publish(schedule, [own[each.sensor.name] for each in schedule.releases], version)
        if schedule.releases:
            releases.append(release_of(schedule, values, version))
    return tuple(releases)


def release_of(schedule: StepSchedule, values: Sequence[PublishedValue], version: int = 1) -> StepRelease:
    """The message of a step whose values were drawn: every tier's, where a reading has tiers."""
    entries = []
    for release, value in zip(schedule.releases, values, strict=True):
        entry, window = _sensor_value(release, value), release.sensor.window
        if window is not None and window.steps > 1:
            entry["from_step"] = window.first_of(schedule.step)
        if version > 1:
            entry["version"] = version
        entries.append(entry)
    return StepRelease.model_validate({"step": schedule.step, "releases": tuple(entries)})


_by_version = attrgetter("step", "version")


def _sensor_value(release: SensorRelease, value: PublishedValue) -> dict[str, Any]:
    """The entry of one sensor; without a value it is suppressed. The public one is the least tier's."""
    name, mechanism = release.sensor.name, release.mechanism
    if value is None:
        return {"sensor": name, "mechanism": _SUPPRESSED}
    if not (isinstance(value, TierValues) and isinstance(mechanism, PublishesTiers)):
        return {"sensor": name, "mechanism": mechanism.name, **mechanism.parameters, "value": value}
    tiers = {
        tier: TierValue.of(epsilon, value.drawn[tier], value.released[tier])
        for tier, epsilon in mechanism.tiers
    }
    least = next(iter(tiers.values()))
    public = {"epsilon": least.epsilon, "value": least.value}
    return {"sensor": name, "mechanism": mechanism.name, **public, "tiers": tiers}

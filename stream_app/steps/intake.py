"""Which messages are taken: known sensors, announced steps, no contradiction, neither late nor far ahead.

Everything refused becomes a dead letter with a reason of :class:`stream_app.wire.messages.Reason` and a hint.
"""

from __future__ import annotations

import json
import math
from typing import NamedTuple

from models.exceptions import ScheduleError, SensorError
from models.releases import SensorRegistry, check_window_ends
from stream_app.setup.exclusions import NO_EXCLUSIONS, Exclusions
from stream_app.steps.window import OpenStep, Origin, StepWindow, WaitingReading
from stream_app.wire import (
    MAX_COUNT,
    Activation,
    InputMessage,
    Outcome,
    Reading,
    Readings,
    Reason,
    Rejected,
    parse_fields,
    reject,
)


class Receipt(NamedTuple):
    """What became of one message: the outcomes of readings that it decided, and its dead letters.

    A reading that waits for the activation of its step has no outcome yet.
    """

    outcomes: tuple[Outcome, ...] = ()
    rejected: tuple[Rejected, ...] = ()


MAX_WAITING = 100_000
"""Readings that may wait for the activation of their step; more are refused."""

_TOO_MANY_WAITING = f"{MAX_WAITING} readings wait for the activation of their step; announce steps first"
_ACCEPTED = Receipt((Outcome.ACCEPTED,))
_DUPLICATE = Receipt((Outcome.DUPLICATE,))
_NOTHING = Receipt()


class Intake:
    """Checks messages against the sensors and enters them in the window of open steps.

    Counts of steps after ``over_through`` are refused; the caller sets which steps are over. A sensor is
    never active in a step of its ``exclusions``, whoever announces it.
    """

    def __init__(
        self,
        registry: SensorRegistry,
        window: StepWindow,
        max_ahead: int,
        exclusions: Exclusions = NO_EXCLUSIONS,
    ) -> None:
        self.registry = registry
        self.window = window
        self.exclusions = exclusions
        self.max_ahead = max_ahead
        self.over_through: float = math.inf

    def receive(self, message: InputMessage, origin: Origin) -> Receipt:
        """Take one message; never raises for what a message says."""
        if isinstance(message, Reading):
            return self._reading(message, origin)
        if isinstance(message, Readings):
            return self._readings(message, origin)
        return self._activation(message, origin)

    def _readings(self, batch: Readings, origin: Origin) -> Receipt:
        """Take the plain counts of a batch at once; every other one is handled as a single reading."""
        plain = self._plain(batch)  # nearly all counts of a batch: one message of each would be slow to make
        if plain:
            self.window.accept(batch.step, plain)
        outcomes = [Outcome.ACCEPTED] * len(plain)
        rejected: list[Rejected] = []
        for sensor in batch.counts:
            if sensor not in plain:
                receipt = self._one_of(batch, sensor, origin.source)
                outcomes += receipt.outcomes
                rejected += receipt.rejected
        return Receipt(tuple(outcomes), tuple(rejected))

    def _plain(self, batch: Readings) -> dict[str, int]:
        """The first counts of sensors announced for an open step."""
        first = self.window.next_step
        last = min(first + self.max_ahead - 1, self.over_through)
        if batch.which > 1 or not first <= batch.step <= last:
            return {}
        step = self.window.at(batch.step)
        return {
            sensor: count
            for sensor, count in batch.counts.items()
            if sensor in step.active
            and sensor not in step.counts
            and type(count) is int  # not true or false
            and 0 <= count <= MAX_COUNT
        }

    def _one_of(self, batch: Readings, sensor: str, source: str) -> Receipt:
        """Take or refuse one count of a batch as if it had come alone."""
        fields = batch.single(sensor)
        line = json.dumps(fields, separators=(",", ":")).encode()
        message = parse_fields(fields, line, source)
        if isinstance(message, Rejected):
            return Receipt((), (message,))
        return self.receive(message, Origin(source, line))

    def _reading(self, reading: Reading, origin: Origin) -> Receipt:
        """Take a count, keep it until its step is announced, or refuse it."""
        if reading.sensor not in self.registry:
            return _refused(origin, Reason.UNKNOWN_SENSOR, self._unknown(reading.sensor))
        if (exclusion := self.exclusions.of(reading.step, reading.sensor)) is not None:
            hint = (
                f"sensor {reading.sensor!r} is excluded in step {reading.step} ({exclusion.reason}); nothing "
                "of it is counted or published"
            )
            return _refused(origin, Reason.EXCLUDED, hint)
        if reading.step < self.window.next_step:
            return self._late_reading(reading, origin)
        if reading.step >= self.window.next_step + self.max_ahead:
            return _refused(origin, Reason.TOO_FAR_AHEAD, self._too_far(reading.step))
        if reading.step > self.over_through:
            hint = f"step {reading.step} is not over yet; send its count once it is final, or set the clocks"
            return _refused(origin, Reason.NOT_OVER, hint)
        step = self.window.at(reading.step)
        if step.sensors is None:
            return self._wait(step, reading, origin)
        if reading.sensor not in step.active:
            return _refused(origin, Reason.NO_ACTIVATION, _not_active(reading.step, reading.sensor))
        if reading.which > 1 and not self.window.late:
            return _refused(origin, Reason.UNEXPECTED_VERSION, _not_closed(reading.step))
        known = step.versions(reading.sensor)
        if reading.which <= len(known):
            return _repetition(known[reading.which - 1], reading, origin)
        if reading.which > 1:
            return self._one_more(step, reading, origin)
        self.window.accept(reading.step, {reading.sensor: reading.count})
        return _ACCEPTED

    def _wait(self, step: OpenStep, reading: Reading, origin: Origin) -> Receipt:
        """Keep a reading until its step is announced, unless too many are kept."""
        if reading.which > 1:
            return _refused(origin, Reason.UNEXPECTED_VERSION, _not_closed(reading.step))
        known = step.waiting.get(reading.sensor)
        if known is not None:
            return _repetition(known.count, reading, origin)
        if self.window.waiting_count >= MAX_WAITING:
            return _refused(origin, Reason.TOO_MANY_WAITING, _TOO_MANY_WAITING)
        step.waiting[reading.sensor] = WaitingReading(reading.count, origin.source)
        return _NOTHING

    def _late_reading(self, reading: Reading, origin: Origin) -> Receipt:
        """A reading of a closed step: a repetition, or a value that is still published."""
        closed = self.window.closed(reading.step) or OpenStep()
        known = closed.versions(reading.sensor)
        if reading.which <= len(known):
            return _repetition(known[reading.which - 1], reading, origin)
        if self.window.next_step - reading.step > self.window.late:
            hint = (
                f"step {reading.step} is closed, the next is {self.window.next_step}; send earlier, or raise "
                "grace or late"
            )
            return _refused(origin, Reason.LATE_READING, hint)
        if reading.sensor not in closed.active:
            return _refused(origin, Reason.NO_ACTIVATION, _not_active(reading.step, reading.sensor))
        return self._one_more(closed, reading, origin)

    def _one_more(self, step: OpenStep, reading: Reading, origin: Origin) -> Receipt:
        """A count of a step that has others already, or a late one: the next version, if declared."""
        known, version = step.versions(reading.sensor), reading.which
        most = 1 + self.registry.get(reading.sensor).corrections
        if version > most:
            hint = f"sensor {reading.sensor!r} declares {most - 1} corrections of a step in the sensors file"
            return _refused(origin, Reason.UNEXPECTED_VERSION, hint)
        if version > len(known) + 1:
            hint = (
                f"version {len(known) + 1} of step {reading.step} comes before version {version}; "
                "send it first"
            )
            return _refused(origin, Reason.UNEXPECTED_VERSION, hint)
        self.window.revise(reading.step, reading.sensor, reading.count)
        return _ACCEPTED

    def _activation(self, activation: Activation, origin: Origin) -> Receipt:
        """Announce a step, or refuse the announcement."""
        unknown = next((name for name in activation.sensors if name not in self.registry), None)
        if unknown is not None:
            return _unannounced(origin, Reason.UNKNOWN_SENSOR, self._unknown(unknown))
        if len(set(activation.sensors)) != len(activation.sensors):
            return _unannounced(origin, Reason.REPEATED_SENSOR, "name each sensor once")
        between = self._between_windows(activation)
        if between is not None:
            return _unannounced(origin, Reason.NO_WINDOW_ENDS, between)
        sensors = self.exclusions.active(activation.step, activation.sensors)
        if activation.step < self.window.next_step:
            closed = self.window.closed(activation.step) or OpenStep()
            return _reannounced(closed, activation.step, sensors, origin, Reason.LATE_ACTIVATION)
        if activation.step >= self.window.next_step + self.max_ahead:
            return _unannounced(origin, Reason.TOO_FAR_AHEAD, self._too_far(activation.step))
        step = self.window.at(activation.step)
        if step.sensors is not None:
            return _reannounced(step, activation.step, sensors, origin, Reason.CONTRADICTING_ACTIVATION)
        step.announce(sensors)
        return self._admit_waiting(activation.step, step)

    def _admit_waiting(self, number: int, step: OpenStep) -> Receipt:
        """Decide the readings that came before the activation of their step."""
        if not step.waiting:
            return _NOTHING
        waiting, step.waiting = step.waiting, {}
        outcomes, rejected = [], []
        for sensor, reading in waiting.items():
            if sensor in step.active:
                self.window.accept(number, {sensor: reading.count})
                outcomes.append(Outcome.ACCEPTED)
            else:
                rejected.append(refuse_waiting(number, sensor, reading))
                outcomes.append(Outcome.REJECTED)
        return Receipt(tuple(outcomes), tuple(rejected))

    def _unknown(self, sensor: str) -> str:
        """The closest known sensor names, in words."""
        try:
            self.registry.get(sensor)
        except SensorError as error:
            return f"no sensor {sensor!r}; {error.remedy}"
        return ""

    def _between_windows(self, activation: Activation) -> str | None:
        """What is wrong with announcing a sensor in the middle of a window; None where nothing is."""
        try:
            for name in activation.sensors:
                check_window_ends(self.registry.get(name), activation.step)
        except ScheduleError as error:
            return f"{error.must}, not {error.got}; {error.remedy}"
        return None

    def _too_far(self, step: int) -> str:
        """Why a step far ahead is not believed."""
        return (
            f"step {step} is {self.max_ahead} or more ahead of the next step {self.window.next_step}; "
            "correct the sender's clock, or raise max_ahead after a long silence"
        )


def refuse_waiting(step: int, sensor: str, reading: WaitingReading) -> Rejected:
    """The dead letter of a reading whose activation never came; its payload is made from its fields."""
    payload = Reading(v=1, step=step, sensor=sensor, count=reading.count).line().rstrip()
    return reject(reading.source, payload, Reason.NO_ACTIVATION, _not_active(step, sensor))


def _repetition(known: int, reading: Reading, origin: Origin) -> Receipt:
    """A reading that was sent before changes nothing. Another count becomes a dead letter for the owner only.

    Both have the same outcome in the metrics: otherwise a sender could find the first count by trying values.
    """
    if known == reading.count:
        return _DUPLICATE
    hint = (
        f"sensor {reading.sensor!r} has reported another count for step {reading.step}; the first one stands"
    )
    return _DUPLICATE._replace(rejected=(reject(*origin, Reason.CONTRADICTING_READING, hint),))


def _reannounced(
    known: OpenStep, step: int, sensors: tuple[str, ...], origin: Origin, reason: Reason
) -> Receipt:
    """The same sensors again change nothing, in whatever order."""
    if known.sensors is not None and known.active == set(sensors):
        return _NOTHING
    hint = {
        Reason.CONTRADICTING_ACTIVATION: f"step {step} has been announced with other sensors",
        Reason.LATE_ACTIVATION: f"step {step} is closed; announce steps before their counts",
    }[reason]
    return _unannounced(origin, reason, hint)


def _not_closed(step: int) -> str:
    return f"step {step} is not announced, or late is 0; a corrected count comes after its first one"


def _not_active(step: int, sensor: str) -> str:
    """What to do about a count whose sensor was not announced."""
    return f"sensor {sensor!r} is not announced for step {step}; send its activation first"


def _refused(origin: Origin, reason: Reason, hint: str) -> Receipt:
    """A refused reading."""
    return Receipt((Outcome.REJECTED,), (reject(*origin, reason, hint),))


def _unannounced(origin: Origin, reason: Reason, hint: str) -> Receipt:
    """A refused activation."""
    return Receipt((), (reject(*origin, reason, hint),))

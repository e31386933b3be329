"""The release worker without a broker: records in, transactions out."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from accounting.ledgers import PrivacyAccount
from stream_app.exceptions import restoring
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.records import ACTIVATION, READING, RefusedRecord
from stream_app.kafka.release.core import Arrived, Core, LogRecord, Taken
from stream_app.kafka.release.release_log import StepRecords
from stream_app.steps import ClosedStep, Intake, Origin, StepClock, StepEngine, StepWindow
from stream_app.watching.events import StepClosed
from stream_app.wire import MAX_COUNT, Name, Step, Version, fingerprint_of

# Where the release worker continues: the records it writes with every transaction.
#
# One says the position, one for each open step what is known of it, so that no record grows with the number
# of open steps. The topic is compacted: the last record of each key counts, and none of a step that was
# forgotten.

KEY = b"release"
_STEP_KEY = b"step-"
_Count = Annotated[int, Field(ge=0, le=MAX_COUNT)]


class OpenStepRecord(BaseModel):
    """What is known of one open step, as :meth:`stream_app.steps.window.StepWindow.take_changed` gives it."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    step: Step
    sensors: tuple[Name, ...] | None
    counts: Mapping[Name, _Count]
    waiting: Mapping[Name, tuple[_Count, str]]
    corrected: Mapping[Name, tuple[_Count, ...]] = Field(default_factory=dict)


class Progress(BaseModel):
    """Everything up to here is durable.

    ``offsets`` are the next records of each input topic, ``window`` says where the open steps begin,
    ``basis`` what the log was begun with, in fingerprints. ``account`` is the privacy spent by all steps
    before ``next_step``, ``decided`` the fingerprint of the last of them: with it the record is held against
    the log without reading it. Logs of earlier versions have neither.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Version = 1
    type: Literal["progress"] = "progress"
    next_step: Step = 0
    offsets: Mapping[str, int] = Field(default_factory=dict)
    window: Mapping[str, Any] = Field(default_factory=dict)
    basis: Mapping[str, Any] = Field(default_factory=dict)
    account: Mapping[str, Any] = Field(default_factory=dict)
    decided: str | None = None

    @field_validator("account")
    @classmethod
    def _is_account(cls, account: Mapping[str, Any]) -> Mapping[str, Any]:
        if account:
            PrivacyAccount.load(account)
        return account

    @field_validator("window")
    @classmethod
    def _is_window(cls, window: Mapping[str, Any]) -> Mapping[str, Any]:
        if window:
            StepWindow(grace=0).load({"steps": (), **window})
        return window

    def record(self) -> bytes:
        """The value of the record."""
        return self.model_dump_json().encode()


class Restored(BaseModel):
    """The position and the open steps, as the last transaction left them."""

    model_config = ConfigDict(frozen=True)

    progress: Progress = Progress()
    steps: tuple[OpenStepRecord, ...] = ()

    def window(self) -> dict[str, Any]:
        """What :meth:`stream_app.steps.window.StepWindow.load` continues from; empty at a new beginning."""
        window = dict(self.progress.window)
        if window:
            known = window.get("steps", ())  # versions before this one kept all steps in one record
            window["steps"] = [*known, *(step.model_dump() for step in self.steps)]
        return window


def step_records(changed: Mapping[int, Mapping[str, Any] | None]) -> dict[bytes, bytes | None]:
    """Key and value of each step that has changed; no value where a step was forgotten."""
    return {
        _STEP_KEY + str(step).encode(): None if saved is None else _json(saved)
        for step, saved in changed.items()
    }


def restore(
    latest: Mapping[bytes | None, bytes | None], topic: str, kind: type[Progress] = Progress
) -> Restored:
    """What the last record of each key says; a new beginning where there is none."""
    try:
        progress = latest.get(KEY)
        return Restored(
            progress=kind() if progress is None else kind.model_validate_json(progress),
            steps=tuple(
                OpenStepRecord.model_validate_json(value)
                for key, value in latest.items()
                if value is not None and key is not None and key.startswith(_STEP_KEY)
            ),
        )
    except ValidationError as error:
        raise LogError(
            f"the last records of {topic} must be a progress of this version",
            error.errors(include_url=False, include_input=False)[0]["msg"],
            f"run the version that wrote it, or {restoring(topic)}",
        ) from error


def _json(saved: Mapping[str, Any]) -> bytes:
    return json.dumps(saved, separators=(",", ":")).encode()


class Flush(NamedTuple):
    """``write`` makes durable, and takes out, what was taken so far.

    It is called before a step is decided once those closed since release ``above`` sensors; 0 where deciding
    a step needs the steps before to be known.
    """

    write: Callable[[Taken], None]
    above: int = 0


class DecidingCore(Core):
    """Closes steps by an engine, keeps the privacy account and says where to continue."""

    def __init__(
        self,
        engine: StepEngine,
        clock: StepClock,
        progress: Progress,
        basis: Mapping[str, object],
        flush: Flush | None = None,
    ) -> None:
        super().__init__(clock, progress.offsets)
        self.engine = engine
        self._basis = dict(basis)
        self._account = (
            PrivacyAccount.load(progress.account)
            if progress.account
            else PrivacyAccount(sensor.group for sensor in engine.intake.registry.sensors)
        )
        self._decided = progress.decided
        self._flush = flush

    @property
    def next_step(self) -> int:
        """The step that closes next."""
        return self.engine.next_step

    @property
    def watermark(self) -> int:
        """The last step that most sensors have reached."""
        return self.engine.intake.window.watermark

    def events(self, taken: Taken, latency_seconds: float) -> Iterator[StepClosed]:
        """The closed steps; the account workers write risks."""
        return (self._event(closed, latency_seconds) for closed in taken.closed)

    def _event(self, closed: ClosedStep, latency_seconds: float) -> StepClosed:
        return StepClosed(
            step=closed.schedule.step,
            schedule=closed.schedule,
            published=closed.release.published,
            missing=closed.missing,
            people=0,
            summary=None,
            latency_seconds=latency_seconds,
            lag_steps=max(0, self.watermark + 1 - self.next_step),
            why=closed.why,
            crowds=closed.crowds,
        )

    def _close_through(self, step: int) -> None:
        self.engine.close_through(step)

    def _close_due(self, taken: Taken) -> None:
        while self.engine.is_due():
            if self._flush is not None and taken.closed and taken.releases >= self._flush.above:
                self._flush.write(taken)
            closed = self.engine.close_next()
            if closed is None:
                return
            taken.closed.append(closed)
            self._account.charge(closed.schedule)
            self._decided = fingerprint_of(closed.schedule)
            taken.rejected += closed.rejected

    def _progress(self, offsets: Mapping[str, int], window: Mapping[str, object]) -> bytes:
        """Where to continue behind these records."""
        return Progress(
            next_step=self.engine.next_step,
            offsets=offsets,
            window=window,
            basis=self._basis,
            account=self._account.save(),
            decided=self._decided,
        ).record()


class ReleaseCore(DecidingCore):
    """Engine and positions in the inputs, where one worker takes in, decides and publishes."""

    def __init__(
        self,
        engine: StepEngine,
        clock: StepClock,
        progress: Progress,
        basis: Mapping[str, object],
        flush: Flush | None = None,
        topics: Topics = Topics(),  # noqa: B008 - frozen
        written: StepRecords | None = None,
    ) -> None:
        super().__init__(engine, clock, progress, basis, flush)
        self._topics = topics
        self._written = written or StepRecords(topics)

    def records(self, taken: Taken) -> Iterator[LogRecord]:
        """Closed steps, dead letters, the open steps that changed, and where to continue."""
        for closed in taken.closed:
            yield from self._written.of(closed)
        yield from self._written.dead_letters(taken.rejected)
        window = self.engine.intake.window
        for key, value in step_records(window.take_changed()).items():
            yield LogRecord(self._topics.progress, key, value)
        yield LogRecord(self._topics.progress, KEY, self._progress(self._offsets, window.save_position()))

    def _receive(self, record: Arrived, taken: Taken) -> None:
        is_activation = record.log == self._topics.activations
        receive_message(self.engine.intake, record, self._clock, is_activation, taken)


def receive_message(
    intake: Intake, record: Arrived, clock: StepClock, is_activation: bool, taken: Taken
) -> None:
    """Enter one activation, reading or batch of them; what is none becomes a dead letter.

    Whether a step was over when its count came is seen by the broker's stamp: read again, the record meets
    the same fate.
    """
    source = f"{record.log}:{record.offset}"
    intake.over_through = clock.over_step(record.timestamp)
    message = (ACTIVATION if is_activation else READING).read(record, source)
    if isinstance(message, RefusedRecord):
        taken.rejected.append(message.letter())
        return
    receipt = intake.receive(message, Origin(source, record.value))
    taken.outcomes.update(receipt.outcomes)
    taken.rejected += receipt.rejected

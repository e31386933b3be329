"""Every message that enters or leaves, as JSON: one per line or record, with ``"v": 1`` and a ``"type"``.

Unknown fields, types and versions are refused; :mod:`stream_app.wire.parsing` reads messages.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from enum import StrEnum
from functools import lru_cache
from typing import TYPE_CHECKING, Annotated, Any, Literal, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, model_validator

from accounting.decisions import BudgetReason
from models import mechanisms
from models.mechanisms import MECHANISMS, Designs, Mechanism
from models.releases import OpenWindow, SensorRegistry, SensorRelease, StepSchedule, counting_in

if TYPE_CHECKING:
    from accounting.exposure.crowd import StepCrowd


# What fields of messages may hold, and what all messages share.

MAX_COUNT = 2**40
"""The largest count a reading may carry: far above any crowd, far below what 64-bit noise can overflow."""

MAX_STEP = 2**53
"""The largest step number that every JSON reader keeps exact."""

MAX_INDEX = 2**31 - 1
"""The largest index of a location."""


@lru_cache(1024)  # the same few levels in every summary
def _a_share(text: str) -> str:
    """A threshold or a quantile as JSON names it, "0.05"."""
    if not 0.0 <= float(text) <= 1.0:
        raise ValueError("must be a number from 0 to 1")
    return text


MAX_VERSION = 1000  # of one sensor's count of one step
ReadingVersion = Annotated[int, Field(ge=1, le=MAX_VERSION)]
Version = Annotated[int, Field(ge=1, le=1)]
Step = Annotated[int, Field(ge=0, le=MAX_STEP)]
Name = Annotated[str, Field(min_length=1, max_length=256)]
Probability = Annotated[float, Field(ge=0.0, le=1.0)]
FIRST_FAULT = Field(fail_fast=True)  # of a long list: a million faults would take a gigabyte to report
Finite = Annotated[float, Field(allow_inf_nan=False)]
Level = Annotated[str, Field(pattern=r"^[0-9][0-9.e-]{0,30}$"), AfterValidator(_a_share)]
Index = Annotated[int, Field(ge=0, le=MAX_INDEX)]
Names = Annotated[tuple[Name, ...], FIRST_FAULT]
Numbers = Annotated[tuple[Finite, ...], FIRST_FAULT]
Indices = Annotated[tuple[Index, ...], FIRST_FAULT]


class Exact(BaseModel):
    """A record, or a part of one, as it was written: frozen, strict, nothing unknown."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)


class BaseMessage(Exact):
    """What all messages share, and records between workers too."""

    v: Version = 1

    def line(self) -> bytes:
        """The message as one line of ASCII JSON (no separator a reader could take for a line end)."""
        return self.model_dump_json(exclude_none=True, ensure_ascii=True).encode() + b"\n"


# Inputs: activations, readings, volunteers' true places; and dead letters of what was refused.


class Reason(StrEnum):
    """Why a message became a dead letter; a fixed list, so that it can be a metrics label.

    Those in :data:`PRIVATE_REASONS` are never a label.
    """

    NOT_JSON = "not_json"
    NOT_CSV = "not_csv"
    TOO_LONG = "too_long"
    UNKNOWN_VERSION = "unknown_version"
    UNKNOWN_TYPE = "unknown_type"
    UNKNOWN_FIELD = "unknown_field"
    MISSING_FIELD = "missing_field"
    INVALID_FIELD = "invalid_field"
    UNKNOWN_SENSOR = "unknown_sensor"
    NEGATIVE_COUNT = "negative_count"
    COUNT_NOT_INTEGER = "count_not_integer"
    COUNT_TOO_LARGE = "count_too_large"
    NO_ACTIVATION = "no_activation"
    EXCLUDED = "excluded"
    CONTRADICTING_READING = "contradicting_reading"
    LATE_READING = "late_reading"
    NOT_OVER = "not_over"
    UNEXPECTED_VERSION = "unexpected_version"
    TOO_FAR_AHEAD = "too_far_ahead"
    TOO_MANY_WAITING = "too_many_waiting"
    REPEATED_SENSOR = "repeated_sensor"
    NO_WINDOW_ENDS = "no_window_ends"
    CONTRADICTING_ACTIVATION = "contradicting_activation"
    LATE_ACTIVATION = "late_activation"
    RECORDS_LOST = "records_lost"


PRIVATE_REASONS = frozenset({Reason.CONTRADICTING_READING})
"""Reasons that depend on counts: they are in the dead letters, and in nothing that others see.

A client that may send readings, and sees which of them were repeated and which contradicted, could find the
count that was sent before, guess by guess. So metrics, page and the sums of a run only show that a reading
was sent again, whatever its count.
"""


class Outcome(StrEnum):
    """The outcome of one reading; a duplicate was sent before, with this count or another."""

    ACCEPTED = "accepted"
    DUPLICATE = "duplicate"
    REJECTED = "rejected"


class Activation(BaseMessage):
    """The schedule of one step: which sensors will count, announced before any count."""

    v: Version
    type: Literal["activation"] = "activation"
    step: Step
    sensors: Names


class Reading(BaseMessage):
    """One sensor's count of one step; ``version`` is 2 or more for a corrected count of a closed step."""

    v: Version
    type: Literal["reading"] = "reading"
    step: Step
    sensor: Name
    count: Annotated[int, Field(ge=0, le=MAX_COUNT)]
    version: ReadingVersion | None = None

    @property
    def which(self) -> int:
        """The version's number; the first is 1."""
        return self.version or 1


class Readings(BaseMessage):
    """Counts of one step by sensor; each is accepted or refused as if it were a single reading.

    The intake checks the counts one by one, so that a wrong count does not lose the others. ``version``
    applies to all of them.
    """

    v: Version
    type: Literal["readings"] = "readings"
    step: Step
    counts: Mapping[str, Any]
    version: ReadingVersion | None = None

    @property
    def which(self) -> int:
        """The version's number; the first is 1."""
        return self.version or 1

    def single(self, sensor: str) -> dict[str, object]:
        """The fields of one sensor's reading."""
        version = {} if self.version is None else {"version": self.version}
        fields = {"step": self.step, "sensor": sensor, "count": self.counts[sensor]}
        return {"v": 1, "type": "reading", **fields, **version}


class PlaceReport(BaseMessage):
    """Where a volunteer truly was at a step: in the operator's own file, never published."""

    v: Version
    type: Literal["place"] = "place"
    step: Step
    person: Name
    location: Name


class Rejected(BaseMessage):
    """A dead letter: nothing is dropped silently."""

    type: Literal["rejected"] = "rejected"
    source: str
    payload: str
    reason: Annotated[Reason, Field(strict=False)]
    hint: str


class Suspicion(StrEnum):
    """Why a device seems broken."""

    SILENT = "silent"
    STUCK = "stuck"
    IMPLAUSIBLE = "implausible"


class DeviceFinding(BaseMessage):
    """A device seems broken since the step ``since``, or with ``is_over`` does not any more.

    It depends on true counts, though it has none: it is for the deployment's owner only.
    """

    type: Literal["device"] = "device"
    step: Step
    sensor: Name
    suspicion: Annotated[Suspicion, Field(strict=False)]
    since: Step
    is_over: bool


# Decisions on steps, made before any count is looked at: mechanisms, and the reason for them.

CROWD_SUMS = 15
CrowdSums = Annotated[
    tuple[Annotated[int, Field(ge=-(2**63), lt=2**63)], ...],
    Field(min_length=CROWD_SUMS, max_length=CROWD_SUMS),
]
"""What a count hides among, in units of 1 / 2^32; see ``accounting.exposure.crowd.SensorCrowd``."""


class SensorDecision(Exact):
    """The mechanism decided for a sensor of a step; ``crowd`` says what hides the count."""

    sensor: Name
    mechanism: Name
    parameters: Mapping[str, Finite] = Field(default_factory=dict)
    crowd: CrowdSums | None = None


class DecisionReason(BaseModel):
    """Why a step is released as it is, under a risk budget.

    Counts of people: ``over`` the limit because of releases, now or in the silence after them; over it by
    habit alone in this step's horizon (``natural``); ``allowed`` to be over it. ``cleared`` people are within
    the limit only by the refined bound. ``adversary`` is ``crowd`` if the limit is on ceilings against the
    crowd adversary. In logs ``reason`` is called ``because``, and ``cleared`` is called ``dear``, as in
    earlier versions.
    """

    model_config = ConfigDict(
        extra="forbid", frozen=True, strict=True, validate_by_name=True, serialize_by_alias=True
    )

    reason: Annotated[BudgetReason, Field(alias="because", strict=False)]
    people: int
    allowed: int
    natural: int
    over: int
    cleared: Annotated[int, Field(alias="dear")]
    rounds: int
    adversary: Literal["crowd"] | None = None


class WindowDecision(Exact):
    """How the count of a window will be published with the step ``last``: decided when the window began."""

    sensor: Name
    last: Step
    mechanism: Name
    parameters: Mapping[str, Finite] = Field(default_factory=dict)


class StepDecision(BaseMessage):
    """The internal twin of a release: what was decided from the schedule, before any count was looked at.

    ``why`` is there if a risk budget decided; ``deployment``, on Kafka, is the digest of the accounting
    settings. ``windows`` are those accounted in this step, where a risk budget decides each of them;
    ``crowd_in_windows`` is what the counts of windows hide among in it.
    """

    type: Literal["decision"] = "decision"
    step: Step
    decisions: tuple[SensorDecision, ...]
    why: DecisionReason | None = None
    deployment: Name | None = None
    windows: tuple[WindowDecision, ...] | None = None
    crowd_in_windows: tuple[CrowdSums, ...] | None = None


# Outputs: the values of each step, and those that a tier added later received of earlier steps.


class TierValue(Exact):
    """What one tier of recipients receives, at its privacy level (nats).

    ``drawn`` is the value of the chain if another is released (0 for a negative one): for the owner alone,
    who can only continue the chain from it.
    """

    epsilon: float
    value: int
    drawn: int | None = None

    @classmethod
    def of(cls, epsilon: float, drawn: int, released: int) -> TierValue:
        """A tier's value from the one drawn and the one released."""
        return cls(epsilon=epsilon, value=released, drawn=None if drawn == released else drawn)

    @property
    def on_chain(self) -> int:
        """The value of the chain."""
        return self.value if self.drawn is None else self.drawn


class SensorValue(BaseModel):
    """What one sensor publishes in one step; ``value`` is absent if nothing is published.

    A tiered release has ``tiers``, least informed first, in the log of the deployment, where ``value`` and
    ``epsilon`` are those of the least informed; in a tier's own file it has those of the tier and no
    ``tiers``. ``version`` is that of a corrected value, 2 or more. ``design`` and ``position`` name
    correlated noise and the step's place in its noise window. A count over several steps has the first of
    them as ``from_step``. Further parameters of mechanisms are kept beside these fields.
    """

    model_config = ConfigDict(extra="allow", frozen=True, strict=True)
    __pydantic_extra__: dict[str, Finite] = Field(init=False)

    sensor: Name
    mechanism: Name
    sigma: float | None = None
    epsilon: float | None = None
    design: int | None = None
    position: int | None = None
    value: int | None = None
    version: int | None = None
    from_step: int | None = None
    tiers: Mapping[str, TierValue] | None = None

    def first_step(self, step: int) -> int:
        """The first step covered by a value that is published with ``step``."""
        return step if self.from_step is None else self.from_step

    @model_validator(mode="after")
    def _has_parameters_of_its_mechanism(self) -> Self:
        """Refuse a parameter that the mechanism does not have."""
        if not self.__pydantic_extra__:
            return self
        known = MECHANISMS[self.mechanism].parameter_names if self.mechanism in MECHANISMS else ()
        unknown = sorted(self.__pydantic_extra__.keys() - set(known))
        if unknown:
            raise ValueError(f"{self.mechanism!r} must have no parameter {unknown[0]!r}")
        return self


class StepRelease(BaseMessage):
    """Everything published for one closed step; the public message, one per step, in order, no gap."""

    type: Literal["release"] = "release"
    step: Step
    releases: tuple[SensorValue, ...]

    @property
    def published(self) -> dict[str, int]:
        """The public value of each sensor that has one."""
        return {entry.sensor: entry.value for entry in self.releases if entry.value is not None}


class ContinuedStep(BaseMessage):
    """The values by sensor that a tier added later received of a published step; for the owner."""

    type: Literal["continued"] = "continued"
    step: Step
    tier: Name
    values: Mapping[str, TierValue]


# Risks: of each person, and of all people of a partition.


class PersonRisk(BaseMessage):
    """One person's certified risk at a step, by pseudonym; ``crowd`` is that against the crowd adversary."""

    type: Literal["risk"] = "risk"
    step: Step
    person: Name
    risk: Probability
    baseline: Probability
    added: Probability
    by: Name
    crowd: Probability | None = None
    crowd_by: Name | None = None


class WorstMoment(Exact):
    """The step at which releases added most to one person's risk so far, and the figures at that step."""

    person: Name
    step: Step
    risk: Probability
    baseline: Probability
    added: Probability


class AttackedPart(Exact):
    """A part of ``people``: how much each of ``draws`` raised the success of the guess without releases.

    In 256ths, rising; ``added`` leaves out draws that raised it by nothing.
    """

    people: int
    draws: int
    added: tuple[int, ...]


class Attack(Exact):
    """The mean success over people of an attack tried on drawn trajectories and releases.

    With ``confidence`` it is within ``low..high``. The attack on several partitions has the parts of all of
    them.
    """

    success: Probability
    low: Probability
    high: Probability
    confidence: Probability
    parts: tuple[AttackedPart, ...]

    @property
    def draws(self) -> int:
        """How many draws it rests on."""
        return sum(part.draws for part in self.parts)


class CrowdSummary(Exact):
    """The risks of the same people against the crowd adversary, who does not know where all others are.

    This adversary knows all movements of ``known`` people; ``companions`` always move with the person
    guessed, and a share of the others moves ``alone``. Of each persona's people ``least`` are there in any
    case (all of them without it), and so many ``strangers`` are declared, of all sensors and hours; the share
    ``counted_once`` hides others where a sensor may count a person again. The other fields are as in the
    summary that holds it.
    """

    known: Annotated[int, Field(ge=0)]
    companions: Annotated[int, Field(ge=0)]
    alone: Probability
    least: Probability | None = None
    strangers: Annotated[int, Field(ge=1)] | None = None
    counted_once: Probability | None = None
    at_risk: Mapping[Level, int]
    at_added_risk: Mapping[Level, int]
    risk: Mapping[Level, Finite]
    added: Mapping[Level, Finite]
    mean_risk: Finite
    mean_added: Finite
    most_risk: Finite
    most_added: Finite
    not_reached: int = 0


class OverLimitCounts(Exact):
    """People over the limit of a rule after a step, by the ceilings that the rule applies to.

    ``by_releases`` and ``by_habits`` are over it now, nobody in both; ``ever`` were over it after this step
    or an earlier one of the run, by releases or by habit. The limit is stored with its counts, as a rule may
    change. The figures that a decision foresaw are in :class:`DecisionReason`.
    """

    risk: Probability | None = None
    added: Probability | None = None
    habits_apart: bool = False
    adversary: Literal["crowd"] | None = None
    by_releases: Annotated[int, Field(ge=0)]
    by_habits: Annotated[int, Field(ge=0)]
    ever: Annotated[int, Field(ge=0)]

    @property
    def now(self) -> int:
        """All people over it now."""
        return self.by_releases + self.by_habits


class SampledRisks(Exact):
    """What releases add to people's risk at most after a step, true with ``confidence``.

    ``people`` were looked at by sampling, which is closer than a certain ceiling; the others have theirs.
    ``most_added`` is the highest added risk of anybody now. Of the people who are over the limit of a rule by
    releases ``within_limit`` are within it; None without a rule.
    """

    confidence: Probability
    people: Annotated[int, Field(ge=0)]
    most_added: Finite
    within_limit: Annotated[int, Field(ge=0)] | None = None


class RiskSummary(BaseMessage):
    """The risks of all people of a partition at a step, in counts and quantiles.

    ``at_risk``, ``at_added_risk`` and ``at_baseline`` count the people at or above each threshold, by
    ceiling, by what the releases added, and by habit alone; quantile tables are keyed by the quantile.
    ``most_risk`` and ``most_added`` are the highest of any person at any step so far. ``worst`` are the
    people with the highest added risk so far, if they are to be named. ``assumed`` says what habits rest on
    if nobody was measured: the figures hold for those habits only. Without ``attack`` no attack was tried.
    ``not_reached`` people have the fast bound, because the work allowed for the step did not suffice for the
    tighter one. Risks hold for every chain ``within_nats`` of the prior (over all steps together, from the
    first step of the first horizon); baseline, attack and added risk are the prior's. Each figure is the mean
    over the ``draws`` chains that stand for a person; ``chains`` is their fingerprint. ``crowd`` is there if
    risks against the crowd adversary are computed; all other fields are against an adversary who knows where
    everybody else is. ``over_limit`` is there if a rule is set, ``sampled`` if people are looked
    at by sampling. ``questions`` are the same figures by each further question that is asked, by its name.
    """

    type: Literal["risk_summary"] = "risk_summary"
    step: Step
    partition: int = 0
    people: Annotated[int, Field(ge=0)]
    at_risk: Mapping[Level, int]
    at_added_risk: Mapping[Level, int]
    risk: Mapping[Level, Finite]
    added: Mapping[Level, Finite]
    baseline: Mapping[Level, Finite]
    mean_risk: Finite
    mean_added: Finite
    mean_baseline: Finite
    at_baseline: Mapping[Level, int] = Field(default_factory=dict)
    most_risk: Finite | None = None
    most_added: Finite | None = None
    worst: tuple[WorstMoment, ...] = ()
    assumed: Name | None = None
    attack: Attack | None = None
    not_reached: int = 0
    within_nats: Annotated[float, Field(ge=0.0, allow_inf_nan=False)] = 0.0
    draws: Annotated[int, Field(ge=1)] = 1
    chains: Name | None = None
    crowd: CrowdSummary | None = None
    over_limit: OverLimitCounts | None = None
    sampled: SampledRisks | None = None
    questions: Mapping[Name, RiskSummary] | None = None


# A person's movement prior as a message.


class SparseMatrix(Exact):
    """Transition probabilities by row and column."""

    row: Indices
    col: Indices
    probability: Numbers


Matrix = Annotated[tuple[Numbers, ...], FIRST_FAULT] | SparseMatrix


class PersonMessage(BaseMessage):
    """A person's movement prior, in force from a step on.

    ``deployment`` is the digest of the accounting settings, ``assumed`` says what a prior rests on that was
    not measured, ``weight`` how many people a persona stands for. ``draws`` has a list for each chain that
    the person's data could have given: the probabilities of the prior's moves, in their order. Of people who
    are ``told`` the habits changed at ``effective_from``, where they start from ``initial``; an adversary is
    taken to know that place.
    """

    type: Literal["person"] = "person"
    person: Name
    effective_from: Step = 0
    told: bool = False
    deployment: Name | None = None
    assumed: Name | None = None
    weight: Annotated[float, Field(gt=0.0, allow_inf_nan=False)] | None = None
    places: Indices | None = None
    initial: Numbers | None = None
    transition: Matrix | None = None
    transitions: Annotated[tuple[Matrix, ...], FIRST_FAULT] | None = None
    draws: Annotated[tuple[Numbers, ...], FIRST_FAULT] | None = None

    def record(self) -> dict[str, Any]:
        """The prior as an element of a priors file's ``people``."""
        record: dict[str, Any] = {"person": self.person, "places": self.places, "initial": self.initial}
        if self.weight is not None:
            record["weight"] = self.weight
        if self.places is not None:
            record["places"] = list(self.places)
        if self.transition is not None:
            record["transition"] = _matrix_record(self.transition)
        if self.transitions is not None:
            record["transitions"] = [_matrix_record(matrix) for matrix in self.transitions]
        return record


def _matrix_record(matrix: Matrix) -> Any:
    return matrix.__dict__ if isinstance(matrix, SparseMatrix) else matrix


# Decided schedules as messages and back: the accountant is rebuilt from these.


def decision_of(
    schedule: StepSchedule,
    why: DecisionReason | None = None,
    deployment: str | None = None,
    crowds: StepCrowd | None = None,
) -> StepDecision:
    """The message of a decided step, with the reason of a risk budget.

    ``deployment`` is the digest of the accounting settings, on Kafka; ``crowds`` what each count hides among.
    """
    sums = iter(() if crowds is None else [each.units for each in crowds])
    return StepDecision(
        step=schedule.step,
        decisions=tuple(
            _decided(release, None if crowds is None or release.sensor.window is not None else next(sums))
            for release in schedule.releases
        ),
        why=why,
        deployment=deployment,
        windows=None if schedule.windows is None else window_decisions(schedule.windows),
        crowd_in_windows=tuple(sums) or None,
    )


def window_decisions(windows: Iterable[OpenWindow]) -> tuple[WindowDecision, ...]:
    """The message form of windows that were decided."""
    return tuple(WindowDecision(**_how(each.release), last=each.last) for each in windows)


def windows_of(decisions: Iterable[WindowDecision], registry: SensorRegistry) -> tuple[OpenWindow, ...]:
    """The windows of such messages."""
    return tuple(OpenWindow(_released(each, registry), each.last) for each in decisions)


def schedule_of(decision: StepDecision, registry: SensorRegistry) -> StepSchedule:
    """The schedule of a stored decision, bit for bit the one that was accounted."""
    releases = tuple(_released(item, registry) for item in decision.decisions)
    windows = None if decision.windows is None else windows_of(decision.windows, registry)
    return StepSchedule(decision.step, releases, windows=windows)


def _released(item: SensorDecision | WindowDecision, registry: SensorRegistry) -> SensorRelease:
    parameters = tuple(sorted(item.parameters.items()))
    return SensorRelease(registry.get(item.sensor), _mechanism(item.mechanism, parameters, registry.designs))


def crowds_of(decision: StepDecision, registry: SensorRegistry) -> StepCrowd:
    """What each count of a stored decision hides among; nobody if that is not known."""
    from accounting.exposure.crowd import SensorCrowd

    known = [item for item in decision.decisions if registry.get(item.sensor).window is None]
    sums = [item.crowd for item in known]
    counting = counting_in(decision.step, [registry.get(item.sensor) for item in known], registry) or ()
    sums += decision.crowd_in_windows or [None] * (len(counting) - len(known))
    return tuple(SensorCrowd() if each is None else SensorCrowd(each) for each in sums)


def fingerprint_of(schedule: StepSchedule) -> str:
    """Sixteen digits by which a decided step is recognised."""
    return hashlib.sha256(decision_of(schedule).line()).hexdigest()[:16]


@lru_cache(maxsize=20_000)
def _decided(release: SensorRelease, crowd: tuple[int, ...] | None) -> SensorDecision:
    """Cached, so that all steps share one object per sensor and mechanism."""
    return SensorDecision(**_how(release), crowd=crowd)


def _how(release: SensorRelease) -> dict[str, Any]:
    mechanism = release.mechanism
    parameters = dict(mechanism.parameters)
    return {"sensor": release.sensor.name, "mechanism": mechanism.name, "parameters": parameters}


@lru_cache(maxsize=256)
def _mechanism(name: str, parameters: tuple[tuple[str, float], ...], designs: Designs) -> Mechanism:
    """Cached, so that all steps share one object per mechanism."""
    return mechanisms.parse(name, dict(parameters), designs)

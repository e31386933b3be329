"""What releases reveal about people, as it is recorded: of each person, and of all of a partition."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from stream_app.wire.messages.message_fields import BaseMessage, Finite, Level, Name, Probability, Step


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


class WorstMoment(BaseModel):
    """The step so far at which the releases added most to one person, by pseudonym, and the figures there."""

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    person: Name
    step: Step
    risk: Probability
    baseline: Probability
    added: Probability


class AttackedPart(BaseModel):
    """Of a part of so many ``people``: what so many ``draws`` added to the guess without releases.

    In 256ths, rising; draws that added nothing are left out of ``added``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    people: int
    draws: int
    added: tuple[int, ...]


class Attack(BaseModel):
    """The mean success over people of an attack that was tried on drawn trajectories and releases.

    With ``confidence`` it is in ``low..high``. The ``parts`` of several partitions are the parts of all.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    success: Probability
    low: Probability
    high: Probability
    confidence: Probability
    parts: tuple[AttackedPart, ...]

    @property
    def draws(self) -> int:
        """How many it rests on."""
        return sum(part.draws for part in self.parts)


class CrowdSummary(BaseModel):
    """The same people's risks against an adversary who does not know where the others are, packed.

    Who knows all movements of ``known`` people; ``companions`` always move with whoever is guessed, and of
    the others a share moves ``alone``. The other fields are as those of the summary they stand in.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    known: Annotated[int, Field(ge=0)]
    companions: Annotated[int, Field(ge=0)]
    alone: Probability
    at_risk: Mapping[Level, int]
    at_added_risk: Mapping[Level, int]
    risk: Mapping[Level, Finite]
    added: Mapping[Level, Finite]
    mean_risk: Finite
    mean_added: Finite
    most_risk: Finite
    most_added: Finite
    not_reached: int = 0


class OverLimitCounts(BaseModel):
    """People over the limit of a rule after a step, by the ceilings that the rule is kept by.

    ``by_releases`` and ``by_habits`` are over it now, nobody in both; ``ever`` were over it after this step
    or one before, by releases or by habit, since the run began. The limit stands beside its counts, as a rule
    may change. What a decision foresaw is another figure: see :class:`DecisionReason`.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    risk: Probability | None = None
    added: Probability | None = None
    habits_apart: bool = False
    adversary: Literal["crowd"] | None = None
    by_releases: Annotated[int, Field(ge=0)]
    by_habits: Annotated[int, Field(ge=0)]
    ever: Annotated[int, Field(ge=0)]

    @property
    def now(self) -> int:
        """Everybody over it now."""
        return self.by_releases + self.by_habits


class RiskSummary(BaseMessage):
    """The risks of all people of a partition at a step, packed.

    ``at_risk``, ``at_added_risk`` and ``at_baseline`` count the people at or above each threshold, by
    ceiling, by what the releases added and by habit alone; the quantile tables are keyed by the quantile.
    ``most_risk`` and ``most_added`` are the highest of anybody at any step so far; ``worst`` are the people
    to whom most was added so far, where they are to be named. ``assumed`` says what habits rest on where
    nobody was measured: the figures hold for those habits only. Without an ``attack`` none was measured.
    ``not_reached`` people have the fast bound,
    because the work of the step did not suffice for the tighter one. Risks hold for everybody ``within_nats``
    of the prior (over all steps together, from the first horizon's first on); baseline, attack and what was
    added are the prior's. Each figure is the mean over the ``draws`` chains that stand for a person;
    ``chains`` is their fingerprint. ``crowd`` stands where risks against the crowd adversary are computed
    too; all other fields are against whoever knows where everybody else is. ``over_limit`` stands where a
    rule is set.
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

"""Decisions where accounts are in other processes: a proposal a round, an answer from each partition.

The release worker proposes candidates for a step; each partition answers how many of its people each
candidate would put over the limit. Answers add up, so the decision is the one that a single process finds.
Proposals follow from settings and schedule, answers from priors and accounts: neither depends on a count.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from functools import cached_property, reduce
from itertools import islice
from math import lcm
from operator import add, ge
from typing import Annotated, Literal, Self

from pydantic import ConfigDict, Field, model_validator

from accounting.decisions import Decision, OverLimit, StepDecider, begun_windows
from accounting.decisions.what_if import (
    AnnouncedStep,
    KnownStep,
    NextStep,
    NextStepOfWindows,
    WhatIf,
    crowds_of_sensors,
)
from accounting.exposure.crowd import SensorCrowd, StepCrowd
from accounting.settings import RiskBudget
from models import mechanisms
from models.exceptions import ScheduleError
from models.mechanisms import Mechanism
from models.releases import OpenWindow, Sensor, SensorRegistry, SensorRelease, StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.steps.policy.policies import Decided, undecided_step
from stream_app.wire import (
    MAX_STEP,
    BaseMessage,
    CrowdSums,
    Exact,
    Finite,
    Name,
    Step,
    WindowDecision,
    window_decisions,
    windows_of,
)

MAX_CYCLE = 100_000
"""Slots of a cycle that all partitions have in common, at most: ten weeks of minutes are as many."""

Count = Annotated[int, Field(ge=0, le=MAX_STEP)]


class Option(Exact):
    """A mechanism that a sensor may be released with."""

    mechanism: Name
    parameters: Mapping[str, Finite] = Field(default_factory=dict)


class SensorOptions(Exact):
    """A sensor's options by their places in the proposal; candidates name them by position here."""

    sensor: Name
    options: tuple[Count, ...]


class Limit(Exact):
    """The risk budget that is asked about; see :class:`accounting.settings.RiskBudget`."""

    share: float
    risk: float | None = None
    added: float | None = None
    habits_apart: bool = False
    in_hindsight: bool = False
    reserve: float

    @classmethod
    def of(cls, limit: RiskBudget) -> Limit:
        """The message form of a limit."""
        return cls(**asdict(limit))


class Source(Exact):
    """Who asks: the ``deployment`` by its digest, and a ``session`` that is new after every start."""

    deployment: Name
    session: Name


class _Question(BaseMessage):
    """A message that answers refer to by its digest."""

    @cached_property
    def identity(self) -> str:
        """The digest of everything that is asked and of who asks: answers name it."""
        return hashlib.sha256(self.line()).hexdigest()[:32]


class CountsOfStep(Exact):
    """The sensors announced for a step, and the crowd of each of its counts."""

    sensors: tuple[Name, ...]
    crowd: tuple[CrowdSums, ...]


class Proposal(_Question):
    """Candidates for a step. ``coming`` has the sensors of the later steps that share what is left.

    ``crowd`` is what each of the ``sensors`` hides among, for a limit on risks in the crowd; ``windows`` are
    those open from before, and of a sensor with windows the one is asked about that begins with the step.
    ``known`` are this step and later ones, with what each count of theirs hides among.

    What sensors have in common is listed once in ``options``, so that many sensors fit in a record. A
    partition where more than ``enough`` people are over the limit may answer that all of them are.
    """

    type: Literal["proposal"] = "proposal"
    source: Source
    step: Step
    round: Count
    limit: Limit
    options: tuple[Option, ...]
    sensors: tuple[SensorOptions, ...]
    candidates: tuple[tuple[Count, ...], ...]
    enough: Count | None = None
    coming: tuple[tuple[Name, ...], ...] = ()
    crowd: tuple[CrowdSums, ...] | None = None
    windows: tuple[WindowDecision, ...] | None = None
    known: tuple[CountsOfStep, ...] | None = None

    @model_validator(mode="after")
    def _names_what_there_is(self) -> Self:
        """Candidates and sensors name options that are there."""
        if self.crowd is not None and len(self.crowd) != len(self.sensors):
            raise ValueError("a crowd must be of as many sensors as the proposal")
        if any(k >= len(self.options) for each in self.sensors for k in each.options):
            raise ValueError("options of a sensor must be among those of the proposal")
        counts = [len(each.options) for each in self.sensors]
        for candidate in self.candidates:
            if len(candidate) != len(counts) or any(map(ge, candidate, counts)):
                raise ValueError("a candidate must name one option of each sensor")
        return self

    @property
    def asked(self) -> tuple[object, ...]:
        """What all rounds of one question have in common."""
        about = self.source, self.step, self.options, self.sensors
        return (*about, self.coming, self.crowd, self.windows, self.known)

    @property
    def crowds(self) -> StepCrowd | None:
        """What each of the sensors hides among; None where the limit is not on risks in the crowd."""
        return None if self.crowd is None else tuple(map(SensorCrowd, self.crowd))

    def known_steps(self, registry: SensorRegistry) -> tuple[KnownStep, ...]:
        """This step and later ones, as far as what counts in them is known."""
        steps = enumerate(self.known or (), start=self.step)
        return tuple(
            KnownStep(undecided_step(step, each.sensors, registry), tuple(map(SensorCrowd, each.crowd)))
            for step, each in steps
        )

    def schedules(self, registry: SensorRegistry) -> tuple[StepSchedule, ...]:
        """Each candidate as a step; :class:`ScheduleError` for one that chooses no option of each sensor."""
        options = [
            mechanisms.parse(each.mechanism, dict(each.parameters), registry.designs) for each in self.options
        ]
        try:
            known = [
                [SensorRelease(registry.get(each.sensor), options[k]) for k in each.options]
                for each in self.sensors
            ]
            open_windows = self.open_windows(registry)
            return tuple(
                self._schedule([of[k] for of, k in zip(known, candidate, strict=True)], open_windows)
                for candidate in self.candidates
            )
        except (IndexError, ValueError):
            raise ScheduleError(
                f"each candidate of step {self.step} must choose one of its options for each sensor",
                "another choice",
                "propose again",
            ) from None

    def open_windows(self, registry: SensorRegistry) -> tuple[OpenWindow, ...] | None:
        """The windows that were decided before; None in a deployment without any."""
        return None if self.windows is None else windows_of(self.windows, registry)

    def _schedule(
        self, chosen: Sequence[SensorRelease], open_windows: tuple[OpenWindow, ...] | None
    ) -> StepSchedule:
        if open_windows is None:
            return StepSchedule(self.step, tuple(chosen))
        plain = tuple(each for each in chosen if each.sensor.window is None)
        return StepSchedule(self.step, plain, windows=(*open_windows, *begun_windows(self.step, chosen)))


class Answer(BaseMessage):
    """One partition's counts for the ``proposal`` with this identity.

    See :class:`accounting.decisions.step_decision.OverLimit`; workers of earlier versions know ``cleared`` as
    ``dear``.
    """

    model_config = ConfigDict(validate_by_name=True, serialize_by_alias=True)

    type: Literal["answer"] = "answer"
    proposal: Name
    step: Step
    round: Count
    partition: Count
    people: Count
    natural_now: Count
    natural: Annotated[tuple[Count, ...], Field(max_length=MAX_CYCLE)]
    over: tuple[Count, ...]
    cleared: Annotated[tuple[Count, ...], Field(alias="dear")]
    natural_ahead: Annotated[tuple[Count, ...], Field(max_length=MAX_CYCLE)] | None = None

    @property
    def counts(self) -> OverLimit:
        """The counts alone."""
        over, ahead = (self.over, self.cleared), self.natural_ahead or ()
        return OverLimit(self.people, self.natural_now, self.natural, *over, ahead)


class Respondent:
    """Answers proposals for the people of one partition.

    Make a new one when the partition's accountant is replaced, as when people join or leave.
    """

    def __init__(
        self,
        partition: int,
        what_if: WhatIf,
        registry: SensorRegistry,
        deployment: str,
    ) -> None:
        """``deployment`` is the digest of what these people are accounted with."""
        self._limit = Limit.of(what_if.limit)
        self._partition = partition
        self._what_if = what_if
        self._registry = registry
        self.deployment = deployment
        self._last_question: tuple[Proposal, NextStep | NextStepOfWindows] | None = None

    def answer(self, proposal: Proposal) -> Answer | None:
        """The partition's answer; None for a step that is not next: an answer would be about another state.

        None for another deployment, too. :class:`SettingsError` when the limit is not the one this worker
        was started with.
        """
        if proposal.step != self._what_if.next_step_number:
            return None
        if proposal.source.deployment != self.deployment:
            return None
        if proposal.limit != self._limit:
            raise SettingsError(
                "proposals must ask about the risk budget of this worker's settings",
                proposal.limit,
                "start all workers with the same settings",
            )
        found = self._questions(proposal).count_over(proposal.schedules(self._registry), proposal.enough)
        return Answer(
            proposal=proposal.identity,
            step=proposal.step,
            round=proposal.round,
            partition=self._partition,
            **asdict(found) | {"natural_ahead": found.natural_ahead or None},
        )

    def _questions(self, proposal: Proposal) -> NextStep | NextStepOfWindows:
        """The what-if state of the step, found once for all rounds that one source asks about it."""
        last = self._last_question
        if last is None or proposal.round == 0 or last[0].asked != proposal.asked:
            sensors = [self._registry.get(each.sensor) for each in proposal.sensors]
            coming = [[self._registry.get(name) for name in names] for names in proposal.coming]
            open_windows = proposal.open_windows(self._registry) or ()
            known = proposal.known_steps(self._registry)
            announced = AnnouncedStep(sensors, proposal.crowds, coming, open_windows, known)
            last = self._last_question = proposal, self._what_if.next_step(announced)
        return last[1]


class Negotiation:
    """The decision for one step by proposals and answers; pure, without clock or broker.

    Send :attr:`proposal`, give every answer to :meth:`take`, send the next proposal when it changes, until
    :attr:`decided` is there; :meth:`give_up` when time is over. Repeated and late answers change nothing, nor
    do answers to any other proposal than the one at hand.
    """

    def __init__(
        self,
        decider: StepDecider,
        limit: RiskBudget,
        partitions: int,
        coming: Sequence[Sequence[Sensor]] = (),
        *,
        source: Source,
        known: Sequence[KnownStep] = (),
    ) -> None:
        """``partitions`` must all answer each round, also those without people.

        ``known`` are this step and later ones with their crowds, for a limit on risks in the crowd.
        """
        self._source = source
        crowds = known[0].crowds if known else None
        own = crowds_of_sensors([choice.sensor for choice in decider.choices], crowds)
        self._crowd = None if own is None else tuple(each.units for each in own)
        self._known = tuple(
            CountsOfStep(
                sensors=tuple(each.sensor.name for each in step.releases),
                crowd=tuple(each.units for each in crowds),
            )
            for step, crowds in (known if decider.windows is not None else ())
        )
        self._decider = decider
        self._limit = Limit.of(limit)
        self._partitions = partitions
        self._coming = tuple(tuple(sensor.name for sensor in sensors) for sensors in coming)
        self._counts: dict[int, OverLimit] = {}
        places: dict[Mechanism, int] = {}
        self._sensors = tuple(
            SensorOptions(
                sensor=choice.sensor.name,
                options=tuple(places.setdefault(option, len(places)) for option in choice.options),
            )
            for choice in decider.choices
        )
        self._options = tuple(
            Option(mechanism=each.name, parameters=dict(each.parameters)) for each in places
        )
        self.proposal: Proposal | None = self._propose()

    @property
    def decided(self) -> Decided | None:
        """The decision, once there is one."""
        return None if self._decider.decision is None else self._decided(self._decider.decision)

    @property
    def waiting_for(self) -> frozenset[int]:
        """Partitions that have not answered the current proposal."""
        return frozenset(range(self._partitions)) - self._counts.keys()

    def take(self, answer: BaseMessage) -> None:
        """Note an answer; the last one of a round leads to the next proposal or to the decision.

        Where all have answered that they account nobody, nothing is released.
        """
        proposal = self.proposal
        if proposal is None or not isinstance(answer, Answer) or answer.proposal != proposal.identity:
            return
        if answer.partition not in self.waiting_for or not self._fits(answer, len(proposal.candidates)):
            return
        self._counts[answer.partition] = answer.counts
        if not self.waiting_for:
            whole = reduce(add, (self._counts[partition] for partition in range(self._partitions)))
            self._counts = {}
            if whole.people == 0:  # everything would keep a budget that protects nobody
                self.give_up()
                return
            self._decider.take(whole)
            self.proposal = self._propose()

    def _fits(self, answer: Answer, candidates: int) -> bool:
        """Whether an answer counts people for each candidate, and can be added to the others."""
        cycles = (len(counts.natural) for counts in self._counts.values())
        is_bounded = lcm(len(answer.natural), *cycles) <= MAX_CYCLE
        ahead = {len(counts.natural_ahead) for counts in (*self._counts.values(), answer.counts)}
        return is_bounded and len(ahead) == 1 and len(answer.over) == len(answer.cleared) == candidates

    def give_up(self) -> Decided:
        """Decide without more answers: the best candidate that all have answered for, or release nothing."""
        self.proposal = None
        return self._decided(self._decider.give_up())

    def _decided(self, decision: Decision) -> Decided:
        return Decided.of(decision, in_crowd=self._crowd is not None)

    def _propose(self) -> Proposal | None:
        if self._decider.decision is not None:
            return None
        windows = self._decider.windows
        return Proposal(
            source=self._source,
            step=self._decider.step,
            round=self._decider.round,
            limit=self._limit,
            options=self._options,
            sensors=self._sensors,
            candidates=self._decider.candidates,
            enough=self._decider.enough,
            coming=self._coming,
            crowd=self._crowd,
            windows=None if windows is None else window_decisions(windows.open),
            known=self._known or None,
        )


# What counts hide among where people are held in partitions: one question a step, answered with sums.
#
# The release worker asks with the step's sensors before it decides; each partition answers with sums over
# its people. The totals are part of the decision, so that every account and every replay uses the same ones.
# Sums follow from priors, schedule and public coins: no answer depends on a count, and none names a person.


class CrowdQuestion(_Question):
    """What would counts of these sensors hide among at this step, and of others at the ``coming`` ones?"""

    type: Literal["crowd_question"] = "crowd_question"
    source: Source
    step: Step
    sensors: tuple[Name, ...]
    coming: tuple[tuple[Name, ...], ...] | None = None

    def schedules(self, registry: SensorRegistry) -> tuple[StepSchedule, ...]:
        """The steps before anything is decided of them."""
        each = enumerate((self.sensors, *(self.coming or ())), start=self.step)
        return tuple(undecided_step(step, sensors, registry) for step, sensors in each)


class CrowdAnswer(BaseMessage):
    """One partition's sums, a row for each count of each step, for the ``question`` with this identity."""

    type: Literal["crowd_answer"] = "crowd_answer"
    question: Name
    step: Step
    partition: Annotated[int, Field(ge=0, le=MAX_STEP)]
    sums: tuple[CrowdSums, ...]

    @classmethod
    def of(cls, question: CrowdQuestion, partition: int, crowds: Sequence[StepCrowd]) -> CrowdAnswer:
        """The message form of a partition's sums in each step."""
        return cls(
            question=question.identity,
            step=question.step,
            partition=partition,
            sums=tuple(each.units for step in crowds for each in step),
        )


class CrowdSurvey:
    """The sums of some steps by a question and answers; pure, without clock or broker.

    Give every answer to :meth:`take` until :attr:`proposal` is None, or time is over: :attr:`crowds` are the
    totals of the partitions that have answered; a partition that has not counts as empty, so nobody hides
    among its people. Repeated, late and other answers change nothing.
    """

    def __init__(self, steps: Sequence[StepSchedule], partitions: int, source: Source) -> None:
        """``partitions`` are asked about steps that follow each other."""
        names, *coming = (tuple(release.sensor.name for release in step.releases) for step in steps)
        self._question = CrowdQuestion(
            source=source, step=steps[0].step, sensors=names, coming=tuple(coming) or None
        )
        self._counting = [len(step.counting) for step in steps]
        self._partitions = partitions
        self._sums: dict[int, StepCrowd] = {}

    @property
    def proposal(self) -> CrowdQuestion | None:
        """What is asked; None once all partitions have answered."""
        return self._question if self.waiting_for else None

    @property
    def waiting_for(self) -> frozenset[int]:
        """Partitions that have not answered."""
        return frozenset(range(self._partitions)) - self._sums.keys()

    @property
    def crowds(self) -> tuple[StepCrowd, ...]:
        """What each count of each step hides among, by the answers so far."""
        nobody: Sequence[SensorCrowd] = (SensorCrowd(),) * sum(self._counting)
        found = (sum(each, start=SensorCrowd()) for each in zip(nobody, *self._sums.values(), strict=True))
        return tuple(tuple(islice(found, counts)) for counts in self._counting)

    def take(self, answer: BaseMessage) -> None:
        """Note an answer to the question."""
        if not isinstance(answer, CrowdAnswer) or answer.question != self._question.identity:
            return
        fits = len(answer.sums) == sum(self._counting)
        if fits and answer.partition in self.waiting_for:
            self._sums[answer.partition] = tuple(map(SensorCrowd, answer.sums))

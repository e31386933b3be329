"""What counts hide among where people are held in partitions: a question a step, sums in answer.

The release worker asks with the step's sensors before it decides; each partition answers with sums over its
people, and the totals stand in the decision, so that every account, and every replay, takes the same. Sums
follow from priors, schedule and public coins: no answer knows a count, and none names a person.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import cached_property
from typing import Annotated, Literal

from pydantic import Field

from accounting.exposure.crowd import SensorCrowd, StepCrowd
from models.mechanisms import Raw
from models.releases import SensorRegistry, SensorRelease, StepSchedule
from stream_app.steps.policy.proposals import Source
from stream_app.wire import MAX_STEP, BaseMessage, CrowdSums, Name, Step


class CrowdQuestion(BaseMessage):
    """Among whom would these sensors count at this step."""

    type: Literal["crowd_question"] = "crowd_question"
    source: Source
    step: Step
    sensors: tuple[Name, ...]

    @cached_property
    def identity(self) -> str:
        """The digest of everything that is asked, and by whom: what an answer names."""
        return hashlib.sha256(self.line()).hexdigest()[:32]

    def schedule(self, registry: SensorRegistry) -> StepSchedule:
        """The step before anything is decided of it."""
        sensors = map(registry.get, self.sensors)
        return StepSchedule(self.step, tuple(SensorRelease(sensor, Raw()) for sensor in sensors))


class CrowdAnswer(BaseMessage):
    """One partition's sums, a row a sensor, for the ``question`` with this identity."""

    type: Literal["crowd_answer"] = "crowd_answer"
    question: Name
    step: Step
    partition: Annotated[int, Field(ge=0, le=MAX_STEP)]
    sums: tuple[CrowdSums, ...]

    @classmethod
    def of(cls, question: CrowdQuestion, partition: int, crowds: StepCrowd) -> CrowdAnswer:
        """The message form of a partition's sums."""
        return cls(
            question=question.identity,
            step=question.step,
            partition=partition,
            sums=tuple(each.units for each in crowds),
        )


class CrowdSurvey:
    """The sums of one step by a question and answers; pure, without clock or broker.

    Give every answer to :meth:`take` until :attr:`proposal` is None, or time is over: :attr:`crowds` are the
    totals of those who have answered, and whoever has not hides nobody. Repeated, late and other answers
    change nothing.
    """

    def __init__(self, step: StepSchedule, partitions: int, source: Source) -> None:
        """``partitions`` are asked."""
        names = tuple(release.sensor.name for release in step.releases)
        self._question = CrowdQuestion(source=source, step=step.step, sensors=names)
        self._partitions = partitions
        self._sums: dict[int, StepCrowd] = {}

    @property
    def proposal(self) -> CrowdQuestion | None:
        """What is asked; None once everybody has answered."""
        return self._question if self.waiting_for else None

    @property
    def waiting_for(self) -> frozenset[int]:
        """Partitions that have not answered."""
        return frozenset(range(self._partitions)) - self._sums.keys()

    @property
    def crowds(self) -> StepCrowd:
        """What each count hides among, as far as was heard."""
        nobody: Sequence[SensorCrowd] = (SensorCrowd(),) * len(self._question.sensors)
        return tuple(
            sum(each, start=SensorCrowd()) for each in zip(nobody, *self._sums.values(), strict=True)
        )

    def take(self, answer: BaseMessage) -> None:
        """Note an answer to the question."""
        if not isinstance(answer, CrowdAnswer) or answer.question != self._question.identity:
            return
        fits = len(answer.sums) == len(self._question.sensors)
        if fits and answer.partition in self.waiting_for:
            self._sums[answer.partition] = tuple(map(SensorCrowd, answer.sums))

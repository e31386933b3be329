"""Records between intake workers and their coordinator, and the positions from which each continues.

The topic ``sealed`` has a partition for each region. One record says that a step of the region is over, and
which sensors counted; another that its values are published. No record of it holds a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import Field

from stream_app.kafka.broker.topics import LARGE_BYTES, MEDIUM_BYTES
from stream_app.kafka.deployment.records import RecordKind, of_models
from stream_app.kafka.release.release_log import Progress
from stream_app.wire import BaseMessage, Name, Step


class SealedStep(BaseMessage):
    """A step of a region is over: ``sensors`` were announced for it, ``missing`` of them did not report."""

    type: Literal["sealed"] = "sealed"
    step: Step
    sensors: tuple[Name, ...]
    missing: tuple[Name, ...] = ()


class RegionStepPublished(BaseMessage):
    """The values of a step of a region are published."""

    type: Literal["published"] = "published"
    step: Step


class WholeStep(BaseMessage):
    """Every region that the decision covers has published the step.

    Nothing more of it will come, except late and corrected values in ``revised``.
    """

    type: Literal["whole"] = "whole"
    step: Step
    regions: tuple[Name, ...]


class RegionProgress(Progress):
    """The position of a region: ``next_step`` is sealed next, ``next_publish`` is published next.

    ``revised`` are late and corrected counts of earlier steps, by the sealed step that they are published
    with: step, sensor, version and count of each. They are secret.
    """

    next_publish: Step = 0
    revised: Mapping[int, tuple[tuple[Step, Name, int, int], ...]] = Field(default_factory=dict)


class CoordinatorProgress(Progress):
    """The position of the coordinator: ``next_whole`` is the first step that some region has not published.

    ``left_out`` has the regions that the decision does not cover, by step, for steps that are not whole.
    """

    next_whole: Step = 0
    left_out: Mapping[int, tuple[Name, ...]] = Field(default_factory=dict)


SEALED: RecordKind[SealedStep | RegionStepPublished] = of_models(
    "a sealed step", Annotated[SealedStep | RegionStepPublished, Field(discriminator="type")], LARGE_BYTES
)
WHOLE: RecordKind[WholeStep] = of_models("a whole step", WholeStep, MEDIUM_BYTES)

"""What intake workers and their coordinator say to each other, and where each continues.

``sealed`` has a partition for each region. When a step of a region is over, it says which sensors counted;
when its values are out, that they are. No record of it holds a count.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field

from stream_app.kafka.broker.topics import LARGE_BYTES
from stream_app.kafka.deployment.records import RecordKind, of_models
from stream_app.kafka.release.release_core import Progress
from stream_app.wire import BaseMessage, Name, Step


class SealedStep(BaseMessage):
    """A step of a region is over: ``sensors`` were announced for it, ``missing`` of them did not report."""

    type: Literal["sealed"] = "sealed"
    step: Step
    sensors: tuple[Name, ...]
    missing: tuple[Name, ...] = ()


class PublishedStep(BaseMessage):
    """The values of a step of a region are out."""

    type: Literal["published"] = "published"
    step: Step


class WholeStep(BaseMessage):
    """Every region that was decided on has published a step; nothing more of it will come."""

    type: Literal["whole"] = "whole"
    step: Step
    regions: tuple[Name, ...]


class RegionProgress(Progress):
    """Where a region continues: ``next_step`` is sealed next, ``next_publish`` published next."""

    next_publish: Step = 0


class CoordinatorProgress(Progress):
    """Where the coordinator continues: ``next_whole`` is the first step that some region has not published.

    ``left_out`` has the regions that were not decided on, by step, of steps that are not whole.
    """

    next_whole: Step = 0
    left_out: Mapping[int, tuple[Name, ...]] = Field(default_factory=dict)


class LastPublished(BaseModel):
    """The step of a release, of whatever version."""

    model_config = ConfigDict(frozen=True, strict=True)

    step: Step


SEALED: RecordKind[SealedStep | PublishedStep] = of_models(
    "a sealed step", Annotated[SealedStep | PublishedStep, Field(discriminator="type")], LARGE_BYTES
)

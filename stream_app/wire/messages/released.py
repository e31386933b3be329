"""What goes out: the values of each step, and what a tier added later received of earlier ones."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from models.mechanisms import MECHANISMS
from stream_app.wire.messages.message_fields import BaseMessage, Finite, Name, Step


class TierValue(BaseModel):
    """What one tier of recipients receives, at its privacy level (nats).

    ``drawn`` is what the chain gave where another value is released (0 for a negative one): for the owner
    alone, who can only continue the chain from there.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    epsilon: float
    value: int
    drawn: int | None = None

    @classmethod
    def of(cls, epsilon: float, drawn: int, released: int) -> TierValue:
        """A tier's value, as drawn and as released."""
        return cls(epsilon=epsilon, value=released, drawn=None if drawn == released else drawn)

    @property
    def on_chain(self) -> int:
        """The value as the chain gave it."""
        return self.value if self.drawn is None else self.drawn


class SensorValue(BaseModel):
    """What one sensor publishes in one step; ``value`` is absent where nothing is published.

    A tiered release has ``tiers``, least informed first, in the log of the deployment, where ``value`` and
    ``epsilon`` are those of the least informed; in a tier's own file it has that tier's and no ``tiers``.
    ``version`` is that of a corrected value, 2 and above. ``design`` and ``position`` name correlated noise
    and the step's place in its noise window. A count over several steps has the first of them as
    ``from_step``. Parameters of mechanisms that have no field here stand beside
    them.
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
        """The first step that the value covers, where it is published with ``step``."""
        return step if self.from_step is None else self.from_step

    @model_validator(mode="after")
    def _has_parameters_of_its_mechanism(self) -> Self:
        """Nothing stands in it that the mechanism does not have."""
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
    """What a tier added later received of a step already published; for the owner, by sensor."""

    type: Literal["continued"] = "continued"
    step: Step
    tier: Name
    values: Mapping[str, TierValue]

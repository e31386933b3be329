"""Recipients files: who gets counts, how near they are to their owner, and so which tier each is given.

TOML, e.g.::

    owner = "city"
    distance = "shortest-path"                  # or "resistance": several ways count as nearer
    epsilon = { reciprocal = 1.0 }              # 1.0 / distance; or exponential, or steps
    allowed = { public = 0.2, press = 0.5, partner = 1.0 }
    edges = [["city", "transit"], ["transit", "press", 2.0]]      # the length is 1 if not given

Everybody is rounded down to an allowed tier. No count is looked at.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from models.releases import (
    Level,
    TierAssignment,
    TrustGraph,
    assign_tiers,
    exponential_level,
    reciprocal_level,
    stepwise_level,
)
from models.text import DocumentError, parse_toml
from stream_app.exceptions import SettingsError

Edge = tuple[str, str] | tuple[str, str, float]
Positive = Annotated[float, Field(gt=0, allow_inf_nan=False)]


class _Exponential(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    at_zero: Positive
    length: Positive


class _Epsilon(BaseModel):
    """A falling function of the distance; exactly one is given."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reciprocal: Positive | None = None
    exponential: _Exponential | None = None
    steps: tuple[tuple[float, float], ...] | None = None

    def level(self) -> Level | None:
        """The function; None unless there is exactly one."""
        given: list[Level] = []
        if self.reciprocal is not None:
            given.append(reciprocal_level(self.reciprocal))
        if self.exponential is not None:
            given.append(exponential_level(self.exponential.at_zero, self.exponential.length))
        if self.steps is not None:
            given.append(stepwise_level(self.steps))
        return given[0] if len(given) == 1 else None


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    owner: str
    distance: Literal["shortest-path", "resistance"] = "shortest-path"
    epsilon: _Epsilon
    allowed: Mapping[str, Positive] = Field(min_length=1)
    edges: tuple[Edge, ...] = Field(min_length=1)


def load_recipients(path: Path) -> TierAssignment:
    """The tiers of a recipients file, and each recipient's; None for who is too far away for any.

    :class:`SettingsError` for a file that cannot be read as one,
    :class:`~models.exceptions.MechanismError` for a graph or function that cannot be.
    """
    file = _read(path)
    level = file.epsilon.level()
    if level is None:
        raise SettingsError(
            f"epsilon in {path} must be one function of the distance",
            sorted(file.epsilon.model_fields_set),
            "give reciprocal, exponential or steps",
        )
    lengths = {(edge[0], edge[1]): edge[2] if len(edge) == 3 else 1.0 for edge in file.edges}
    members = dict.fromkeys([file.owner, *(name for pair in lengths for name in pair)])
    distances = TrustGraph(tuple(members), lengths).distances(file.owner, file.distance)
    del distances[file.owner]  # the owner has the counts themselves
    ranked = sorted(file.allowed.items(), key=lambda tier: tier[1])
    return assign_tiers(distances, level, dict(ranked).values(), [name for name, _ in ranked])


def _read(path: Path) -> _File:
    try:
        return _File.model_validate(parse_toml(path.read_text(encoding="utf-8")))
    except (OSError, UnicodeDecodeError, DocumentError) as error:
        raise SettingsError(f"recipients file {path} must be readable TOML", error, "correct it") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(
            f"recipients file {path} must have owner, epsilon, allowed and edges as documented",
            f"{place}: {first['msg']}",
            "see docs/how-to/publish-in-tiers.md",
        ) from error

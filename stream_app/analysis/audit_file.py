"""The JSON of ``tallyguard audit --json``, read again for a report."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError

from models.priors import PLACE
from models.text import DocumentError, parse_json
from stream_app.exceptions import OutputError

Probability = Annotated[float, Field(ge=0.0, le=1.0)]


class _Part(BaseModel):
    model_config = ConfigDict(frozen=True, strict=True)


class TriedAttack(_Part):
    """How often an attack was right."""

    success: Probability


class AuditedRadius(_Part):
    """When ceilings within a radius hold."""

    nats: float
    condition: str


class AuditedPosterior(_Part):
    """Ceilings over drawn chains."""

    mean: Probability
    credible: Probability
    condition: str


class AuditedCondition(_Part):
    """A condition in words: of a check of the priors, or of the crowd adversary."""

    condition: str


class AuditedPerson(_Part):
    """What a report says of one person of an audit."""

    steps: Annotated[int, Field(ge=1)]
    mistakes: Annotated[int, Field(ge=0)]
    baseline: Probability
    certified: Probability
    certified_by: str
    attacks: Mapping[str, TriedAttack | None] | None = None
    certified_radius: Probability | None = None
    radius: AuditedRadius | None = None
    posterior: AuditedPosterior | None = None
    priors_check: AuditedCondition | None = None
    adversary: str = "informed"
    certified_informed: Probability | None = None
    crowd: AuditedCondition | None = None
    question: str = PLACE


_AUDIT = TypeAdapter(Annotated[list[AuditedPerson], Field(min_length=1, fail_fast=True)])


def read_audit(path: Path) -> list[AuditedPerson]:
    """The people of an audit; :class:`OutputError` where the file is none."""
    try:
        audits = _AUDIT.validate_python(parse_json(path.read_bytes()))
    except (DocumentError, ValidationError) as error:
        raise _no_audit(path, "another form" if isinstance(error, ValidationError) else error) from None
    first = audits[0]
    if len({(each.steps, each.mistakes) for each in audits}) > 1:
        raise _no_audit(path, "people of audits with other horizons or mistakes")
    if any(each.question != PLACE for each in audits):
        raise _no_audit(path, "audits of another question than which place, whose tables audit prints itself")
    if any((each.radius is None) != (first.radius is None) for each in audits) or any(
        (each.posterior is None) != (first.posterior is None) for each in audits
    ):
        raise _no_audit(path, "people of audits with other options")
    if first.radius is not None and any(each.certified_radius is None for each in audits):
        raise _no_audit(path, "a radius without its ceilings")
    against_crowd = [each.adversary != "informed" for each in audits]
    shown = [each.crowd is not None and each.certified_informed is not None for each in audits]
    if len(set(against_crowd)) > 1 or (against_crowd[0] and not all(shown)):
        raise _no_audit(path, "ceilings against a crowd without their condition")
    return audits


def _no_audit(path: Path, found: object) -> OutputError:
    return OutputError(
        f"{path} must be the JSON of `tallyguard audit --json`, of at least one person",
        found,
        "make it with audit --json, or name the folder of a run",
    )

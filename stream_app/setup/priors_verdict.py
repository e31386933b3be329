"""The result of checking priors against real traces (``tallyguard priors check``), which raises ceilings."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError
from pydantic_settings import NoDecode

from models.exceptions import TallyguardError
from models.priors import Population
from models.text import DocumentError, parse_json
from stream_app.exceptions import OutputError, SettingsError

Share = Annotated[float, Field(ge=0.0, le=1.0)]
Count = Annotated[int, Field(ge=0)]


class CheckedGroup(BaseModel):
    """Some of the people: what the priors predicted of them, and what happened, with its interval."""

    model_config = ConfigDict(frozen=True)

    people: Annotated[int, Field(ge=1)]
    predicted: Share
    realised: Share
    low: Share
    high: Share
    verdict: str


class PriorsVerdict(BaseModel):
    """A check of the priors whose fingerprint is ``priors``: the best guess by groups, and the verdict.

    The traces refute any radius below ``kappa_min`` nats, the mean of ``KL(person || prior)`` over a group of
    people; nothing in them bounds it from above.
    """

    model_config = ConfigDict(frozen=True)

    priors: Annotated[str, Field(min_length=1)]
    people: Annotated[int, Field(ge=1)]
    steps: Annotated[int, Field(ge=1)]
    mistakes: Count
    verdict: Annotated[str, Field(pattern="^(ceilings too low|ceilings too high|not refuted by .+ people)$")]
    kappa_min: Annotated[float, Field(ge=0.0, lt=100.0, allow_inf_nan=False)]
    everybody: CheckedGroup
    groups: tuple[CheckedGroup, ...] = ()

    @property
    def is_too_low(self) -> bool:
        """Whether ceilings computed with these priors understate the risk."""
        return self.verdict == "ceilings too low"

    @property
    def within_nats(self) -> float:
        """The radius that ceilings are raised to; 0 where none has to be."""
        return self.kappa_min if self.is_too_low else 0.0

    def require(self, population: Population) -> None:
        """:class:`SettingsError` for other priors than those that were checked."""
        if len(population) and population.fingerprint != self.priors:
            raise SettingsError(
                "priors_check must be of the priors that are used",
                "a check of others",
                "check these: tallyguard priors check PRIORS --checkins FILE --json > check.json",
            )


def priors_check_of(run: Mapping[str, Any]) -> PriorsVerdict | None:
    """The check of the priors that a run was last started with, by its ``run.json``."""
    found = run.get("priors_check")
    return None if found is None else PriorsVerdict.model_validate(found)


def is_no_weaker(now: PriorsVerdict | None, before: PriorsVerdict | None) -> bool:
    """Whether ceilings are raised, and readers warned, at least as they were before."""
    strengths = [
        (False, False, 0.0) if check is None else (True, check.is_too_low, check.within_nats)
        for check in (before, now)
    ]
    return strengths[0] <= strengths[1]


def load_priors_check(path: Path) -> PriorsVerdict:
    """A file that ``priors check --json`` wrote; :class:`OutputError` for any other."""
    try:
        return PriorsVerdict.model_validate(parse_json(path.read_bytes()))
    except (OSError, DocumentError, ValidationError) as error:
        found = "another form" if isinstance(error, ValidationError) else error
        raise OutputError(
            f"{path} must be the JSON of `tallyguard priors check --json`", found, "make it with that"
        ) from None


def _loaded(given: object) -> object:
    """The check in a file that a setting names."""
    if not isinstance(given, str | Path):
        return given
    try:
        return load_priors_check(Path(given))
    except TallyguardError as error:
        raise ValueError(f"{error.must}, got {error.got}; {error.remedy}") from None


PriorsCheckSetting = Annotated[PriorsVerdict | None, NoDecode, BeforeValidator(_loaded)]

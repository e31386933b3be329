"""What does not go together, and why: every refusal that follows from configuration alone.

Each stands here once. Runners ask at their start (:func:`refuse`), ``tallyguard check`` asks for all runners
that the settings name (:func:`refusals`), and the table in docs/reference/limits.md is made of this list. To
build what is refused here, or to find another thing that cannot be, change the list.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from models.exceptions import TallyguardError
from models.mechanisms import DrawnPerWindow, Mechanism
from models.releases import Sensor, SensorRegistry
from stream_app.exceptions import SettingsError

if TYPE_CHECKING:
    from stream_app.setup.release_settings import ReleaseSettings
    from stream_app.setup.settings import Settings


class Runner(StrEnum):
    """What a deployment's settings are given to, by its command."""

    RUN = "tallyguard run"  # and backfill
    PLAN = "tallyguard plan"
    RELEASE = "tallyguard worker release"
    INTAKE = "tallyguard worker intake"
    COORDINATOR = "tallyguard worker coordinator"
    ACCOUNT = "tallyguard worker account"
    PERSONS = "tallyguard persons load"
    AUDIT = "tallyguard audit"
    REPORT = "tallyguard report --priors"


class Feature(StrEnum):
    """What a deployment can have."""

    TIERS = "tiers of recipients"
    CORRELATED = "correlated noise"
    BUDGET = "a risk budget"
    CROWD = "ceilings in the crowd"
    PERSONAS = "personas that stand for many"
    NO_PEOPLE = "no priors"
    EVIDENCE = "evidence (posterior draws)"
    PANEL = "a panel of volunteers"
    PASSAGES = "passages: one person counted again in a step"
    CORRECTIONS = "corrected counts"
    LATE = "late counts"
    WINDOWS = "windows and moves"
    CLOCK = "publication by the clock"
    CHECKED = "a check of the priors"
    SCHEDULE = "a schedule (JSON)"
    SCHEDULED_TIERS = "tiers that only the schedule names"
    SCHEDULED_SLOT = "a first slot that only the schedule names"
    ACTIVATIONS = "activations (CSV)"
    ALTERNATIVES = "other habits (`--vary`)"
    REGIONS = "sensors in several regions"
    HINDSIGHT = "a risk budget in hindsight"
    HOLIDAYS = "holidays"
    CHANGED_CLOCK = "a risk budget by a clock that is changed (`timezone`)"
    DEVICES = "limits by which devices are suspected"


class Reason(StrEnum):
    """Why something is refused."""

    MATHEMATICS = "mathematics"
    NOT_BUILT = "not built yet"


EVERYWHERE = frozenset(Runner)
REGION_WORKERS = frozenset({Runner.INTAKE, Runner.COORDINATOR})
WORKERS = REGION_WORKERS | {Runner.RELEASE, Runner.ACCOUNT}
ON_KAFKA = WORKERS | {Runner.PERSONS}


@dataclass(frozen=True)
class Facts:
    """What is known of a deployment. Nothing is refused for what is not known.

    ``people`` are how many have a prior, ``has_personas`` whether some stand for many. ``released`` are
    sensors and the mechanisms that the settings choose for them. ``release`` stands for settings of which no
    more is known.
    """

    settings: Settings | None = None
    release: ReleaseSettings | None = None
    registry: SensorRegistry | None = None
    people: int | None = None
    has_personas: bool = False
    released: Sequence[tuple[Sensor, Mechanism]] = ()

    @property
    def decides(self) -> bool:
        """Whether a risk budget decides how counts are released."""
        release = self.release if self.settings is None else self.settings.release
        return release is not None and release.mechanism == "budget"


@dataclass(frozen=True)
class Refusal:
    """``feature`` does not go with ``beside``, or (None) not with these ``runners`` at all.

    ``refused`` gives the sentence where that is so in the facts.
    """

    feature: Feature
    beside: Feature | None
    runners: frozenset[Runner]
    reason: Reason
    because: str
    refused: Callable[[Facts], TallyguardError | None]


def refusals(runner: Runner | None, facts: Facts) -> Iterator[TallyguardError]:
    """All that a runner refuses of a deployment; for None what every runner does."""
    for each in REFUSALS:
        if runner in each.runners or (runner is None and each.runners == EVERYWHERE):
            error = each.refused(facts)
            if error is not None:
                yield error


def refuse(runner: Runner | None, facts: Facts) -> None:
    """Raise the first of :func:`refusals`."""
    for error in refusals(runner, facts):
        raise error


# The sentences. Each says what must hold, what was found and what to do.


def _designed_noise_in_windows(facts: Facts) -> TallyguardError | None:
    """Refuses noise that several steps share, of sensors with windows or moves."""
    for sensor, mechanism in facts.released:
        if sensor.window is not None and isinstance(mechanism, DrawnPerWindow):
            return SettingsError(
                f"release.sensors.{sensor.name} must be raw, gaussian, tiered or suppressed, having a window "
                "or moves",
                mechanism.name,
                "noise that several steps share is accounted for presence in single steps",
            )
    return None


def _no_people(facts: Facts) -> TallyguardError | None:
    if not facts.decides or facts.people != 0:
        return None
    return SettingsError(
        "a risk budget must have people to protect",
        "no priors",
        "give --priors, or release with a mechanism that needs none: gaussian with sigma",
    )


def _holidays_in_hindsight(facts: Facts) -> TallyguardError | None:
    settings = facts.settings
    if not facts.decides or settings is None or not settings.holidays:
        return None
    limit = settings.release.budget.limit
    if limit is None or not limit.in_hindsight:
        return None
    return SettingsError(
        "a risk budget in hindsight must have no holidays",
        f"{len(settings.holidays)} dates",
        "leave hindsight out, or holidays",
    )


_NOT_BUILT, _MATHEMATICS = Reason.NOT_BUILT, Reason.MATHEMATICS

REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        Feature.WINDOWS,
        Feature.CORRELATED,
        EVERYWHERE,
        _NOT_BUILT,
        "a noise design is accounted for presence in single steps",
        _designed_noise_in_windows,
    ),
    Refusal(
        Feature.NO_PEOPLE,
        Feature.BUDGET,
        frozenset({Runner.RUN, Runner.PLAN}),
        _MATHEMATICS,
        "every release keeps a limit on nobody's risk, so it would protect nobody",
        _no_people,
    ),
    Refusal(
        Feature.HOLIDAYS,
        Feature.HINDSIGHT,
        EVERYWHERE,
        _NOT_BUILT,
        "how much later steps can tell of a place is known while habits keep their law, not on holidays",
        _holidays_in_hindsight,
    ),
)

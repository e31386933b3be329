"""What does not go together, and why: every refusal that follows from configuration alone.

Each stands here once. Runners ask at their start (:func:`refuse`), ``tallyguard check`` asks for all runners
that the settings name (:func:`refusals`), and the table in docs/reference/limits.md is made of this list.
What is refused has no promise that could be kept: what a runner only lacks is built, not listed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

from models.exceptions import TallyguardError
from stream_app.exceptions import SettingsError
from stream_app.setup.option_settings import NewPriors
from stream_app.setup.release_settings import BUDGET

if TYPE_CHECKING:
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
    QUESTIONS = "a question about groups of places, another one beside"
    EXCLUSIONS = "a table of what is not published"
    TOTALS = "totals of hours and days"
    TOLD = "habits that changed at a step (`--new-priors told`)"


EVERYWHERE = frozenset(Runner)
REGION_WORKERS = frozenset({Runner.INTAKE, Runner.COORDINATOR})
WORKERS = REGION_WORKERS | {Runner.RELEASE, Runner.ACCOUNT}


@dataclass(frozen=True)
class Refusal:
    """``feature`` does not go with ``beside``, or (None) not with these ``runners`` at all.

    ``refused`` gives the sentence where settings, and how many people have a prior (None: not known), are so;
    where ``new_priors`` are named, only if those of people who are there are said to mean that.
    """

    feature: Feature
    beside: Feature | None
    runners: frozenset[Runner]
    because: str
    refused: Callable[[Settings, int | None], TallyguardError | None]
    new_priors: NewPriors | None = None


def refusals(
    runner: Runner, settings: Settings, people: int | None = None, new_priors: NewPriors | None = None
) -> Iterator[TallyguardError]:
    """All that a runner refuses of a deployment. Nothing is refused for what is not known."""
    for each in REFUSALS:
        is_asked = runner in each.runners and each.new_priors in (None, new_priors)
        if is_asked and (error := each.refused(settings, people)) is not None:
            yield error


def refuse(
    runner: Runner, settings: Settings, people: int | None = None, new_priors: NewPriors | None = None
) -> None:
    """Raise the first of :func:`refusals`."""
    for error in refusals(runner, settings, people, new_priors):
        raise error


# The sentences. Each says what must hold, what was found and what to do.


def _no_people(settings: Settings, people: int | None) -> TallyguardError | None:
    if settings.release.mechanism != BUDGET or people != 0:
        return None
    return SettingsError(
        "a risk budget must have people to protect",
        "no priors",
        "give --priors, or release with a mechanism that needs none: gaussian with sigma",
    )


def _holidays_in_hindsight(settings: Settings, people: int | None) -> TallyguardError | None:
    if settings.release.mechanism != BUDGET or not settings.holidays:
        return None
    limit = settings.release.budget.limit
    if limit is None or not limit.in_hindsight:
        return None
    return SettingsError(
        "a risk budget in hindsight must have no holidays",
        f"{len(settings.holidays)} dates",
        "leave hindsight out, or holidays",
    )


def _told_in_hindsight(settings: Settings, people: int | None) -> TallyguardError | None:
    if not settings.needs_every_step:
        return None
    return SettingsError(
        "people whose habits changed at a step (--new-priors told) must be accounted without a risk budget "
        "in hindsight",
        "one",
        "leave hindsight out; or give new priors that are true of the whole log (--new-priors redone)",
    )


REFUSALS: tuple[Refusal, ...] = (
    Refusal(
        Feature.NO_PEOPLE,
        Feature.BUDGET,
        frozenset({Runner.RUN, Runner.PLAN}),
        "every release keeps a limit on nobody's risk, so it would protect nobody",
        _no_people,
    ),
    Refusal(
        Feature.HOLIDAYS,
        Feature.HINDSIGHT,
        EVERYWHERE,
        "what is set aside for later steps must suffice for every horizon to come, and after a holiday no "
        "law of a place comes back; 2 added² nats suffice for every law (0.005 where 0.05 may be added), but "
        "one count with sigma 4 can reveal more (1 / (8 sigma²)), so next to nothing would be released",
        _holidays_in_hindsight,
    ),
    Refusal(
        Feature.TOLD,
        Feature.HINDSIGHT,
        frozenset({Runner.RUN, Runner.PERSONS, Runner.ACCOUNT}),
        "such a limit is on the horizons before the change, too. What later counts say of these they say "
        "through the place at the change, which the account takes as told: it can be all of it, and no "
        "silence takes it back",
        _told_in_hindsight,
        NewPriors.TOLD,
    ),
)

"""The people that settings and a priors file give: none without one, with chains drawn from evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from itertools import product
from math import gcd
from pathlib import Path

import numpy as np

from models.calendar import DAY, Calendar, slot_of_cycle
from models.prior_files import load_evidence, load_population
from models.priors import Population, with_draws
from models.releases import SensorRegistry
from stream_app.exceptions import SettingsError
from stream_app.setup.combinations import Runner, refuse
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings

# The names of a deployment's locations in a file of their own, for processes that do not read the priors.


def location_names(settings: Settings, where: str, remedy: str) -> tuple[str, ...]:
    """The names in the file that ``locations`` names, one a line; ``where`` says who needs it.

    :class:`SettingsError` where there is no such file or it is not as it should be.
    """
    path: Path | None = settings.locations
    if path is None:
        raise SettingsError(f"locations must name a file {where}", "nothing", remedy)
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8-sig").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"locations file {path} must be readable text", error, "check the path; save it as UTF-8"
        ) from error
    if names[:1] and names[0][:1] in ("[", "{") and names[-1][-1:] in ("]", "}"):
        raise SettingsError(
            f"locations file {path} must have a name in each line",
            "a JSON document",
            "write the names alone, one a line, without quotes and commas",
        )
    if not names or "" in names:
        raise SettingsError(
            f"locations file {path} must have a name in each line", "an empty line", "fill it"
        )
    if len(set(names)) < len(names):
        raise SettingsError(
            f"locations file {path} must name each once", "a name twice", "rename one of them"
        )
    return names


def declared_sensors(settings: Settings) -> SensorRegistry | None:
    """The deployment's sensors; None where no locations are named, so that they are not known."""
    if settings.locations is None:
        return None
    return load_registry(settings.sensors, location_names(settings, "", ""))


def population_of(settings: Settings, priors: Path | None) -> Population:
    """The people of a priors file; without one no people, at the locations that the settings name.

    :class:`SettingsError` for settings that need people.
    """
    if priors is not None:
        population = load_population(priors)
        refuse(Runner.RUN, settings, len(population))
        return as_set(settings, population)
    refuse(Runner.RUN, settings, 0)
    remedy = "name a file of location names, one a line (`tallyguard init` writes it), or give --priors"
    return Population.pack([], location_names(settings, "where no priors are given", remedy))


PRIORS_REST_ON = "priors_rest_on"
"""In the ``about`` of an entry of the record: what the priors rest on, in words."""


def rests_on(population: Population) -> str | None:
    """What measured priors rest on, with its date; None where nobody is accounted or it is assumed."""
    if not len(population) or population.assumed is not None:
        return None
    if population.fitted is None:
        return "their file does not say what they were fitted to"
    until = datetime.fromtimestamp(population.fitted.until_seconds, UTC)
    return f"fitted to traces until {until:%Y-%m-%d}"


_QUARTERS = (0, 91, 182, 273)  # days, with and without summer time
_CLOCK_CHANGE = 3600  # by which a clock is changed, and windows after it begin at other times
_APART = 0.05  # of a window: steps that begin so soon after one, or before it, are as good as in it


def other_clock(population: Population, settings: Settings, first_slot: int) -> tuple[str, str] | None:
    """In words how steps differ from the windows that the priors were fitted to, and what mends it.

    None where they do not, where it is not known, or where settings say nothing of when steps are.
    """
    fitted, step_seconds = population.fitted, settings.step_seconds
    if fitted is None or not settings.model_fields_set & {"origin", "step_seconds"}:
        return None
    window = fitted.window_seconds
    if window != step_seconds:
        parts, rest = divmod(window, step_seconds)
        finer = f"tallyguard priors finer --parts {parts} makes priors of such steps; or "
        return (
            f"a step lasts {step_seconds:,} s, and the priors were fitted to windows of {window:,} s",
            f"{'' if rest or parts < 2 else finer}fit them with --window-seconds {step_seconds}",
        )
    if "origin" not in settings.model_fields_set:
        return None
    begin, zone = settings.origin_seconds, settings.timezone
    calendar = None if zone is None else Calendar(zone, begin, step_seconds, first_slot)
    cycles = {int(cycle) for cycle in np.unique(population.arrays.slots)} - {1}
    passed = begin - (0 if fitted.origin == "epoch" else int(fitted.origin))
    into = passed % (window if fitted.timezone is None else gcd(window, _CLOCK_CHANGE))
    if cycles and min(into, window - into) > _APART * window:
        return (
            f"steps begin {into:,} s after the windows that the priors were fitted to",
            f"set origin {into:,} s earlier, or fit them again with --origin {begin}",
        )
    for step, cycle in product((day * DAY // step_seconds for day in _QUARTERS), sorted(cycles)):
        if fitted.timezone is None:
            theirs = (passed // step_seconds + step) % cycle
        else:
            by_theirs = Calendar(fitted.timezone, begin, step_seconds).from_monday(cycle)
            theirs = slot_of_cycle(by_theirs.first_slot, step, cycle, by_theirs)
        ours = slot_of_cycle(first_slot, step, cycle, calendar)
        if ours != theirs:
            when = datetime.fromtimestamp(begin + step * step_seconds, UTC)
            clock = "leave timezone out" if fitted.timezone is None else f'set timezone = "{fitted.timezone}"'
            return (
                f"step {step:,}, {when:%Y-%m-%d %H:%M} UTC, is in slot {ours}, and in slot {theirs} of "
                f"{cycle} as the priors were fitted",
                clock if step else f"set first_slot = {theirs}",
            )
    return None


def clock_warning(population: Population, settings: Settings, first_slot: int) -> str | None:
    """The same as a sentence."""
    how, mend = other_clock(population, settings, first_slot) or ("", "")
    return f"{how}: ceilings hold for people who live by these steps; {mend}" if how else None


def as_set(settings: Settings, population: Population) -> Population:
    """The people of a priors file as the settings account them: with chains drawn, where there is evidence.

    :class:`SettingsError` for a check of other priors, :class:`~models.exceptions.PriorError` for evidence of
    others.
    """
    if settings.priors_check is not None:
        settings.priors_check.require(population)
    if settings.evidence is None or not len(population):
        return population
    return with_draws(population, load_evidence(settings.evidence), settings.posterior_draws)


def drawn_from(population: Population) -> dict[str, int | str] | None:
    """What a run records about the chains it accounts; None where they are the priors themselves."""
    if population.chains_named is None:
        return None
    return {"draws": population.draws, "chains": population.chains_named}


def require_locations_of(settings: Settings, population: Population) -> None:
    """:class:`SettingsError` where the file of locations, which workers read, is not that of the priors."""
    if settings.locations is None or not settings.locations.exists():
        return
    names = location_names(settings, "", "")
    if names != population.location_names:
        raise SettingsError(
            f"the locations of the priors must be those in {settings.locations}, in the same order",
            f"{len(population.location_names):,} in the priors, {len(names):,} in the file, not the same",
            "write the file from the priors: tallyguard persons load --locations-file",
        )

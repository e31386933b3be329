"""The people that settings and a priors file give: none without one, with chains drawn from evidence."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

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

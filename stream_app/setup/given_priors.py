"""A run without priors: counts are published and the privacy ledger is kept, but for nobody's risk."""

from __future__ import annotations

from pathlib import Path

from models.prior_files import load_population
from models.priors import Population
from stream_app.exceptions import SettingsError
from stream_app.setup.location_names import location_names
from stream_app.setup.release_settings import BUDGET
from stream_app.setup.settings import Settings


def population_of(settings: Settings, priors: Path | None) -> Population:
    """The people of a priors file; nobody, on the locations that the settings name, without one.

    :class:`SettingsError` as :func:`require_people` says.
    """
    if priors is not None:
        population = load_population(priors)
        require_people(settings, len(population))
        if settings.priors_check is not None:
            settings.priors_check.require(population)
        return population
    require_people(settings, 0)
    remedy = "name a file of location names, one a line (`tallyguard init` writes it), or give --priors"
    return Population.pack([], location_names(settings, "where no priors are given", remedy))


def require_people(settings: Settings, people: int) -> None:
    """Refuse a risk budget that protects nobody: it asks people what each release does to them.

    Without any, everything would keep it.
    """
    if settings.release.mechanism == BUDGET and people == 0:
        raise SettingsError(
            "a risk budget must have people to protect",
            "no priors",
            "give --priors, or release with a mechanism that needs none: gaussian with sigma",
        )

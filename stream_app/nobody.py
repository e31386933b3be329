"""A run without priors: counts are published and the privacy ledger is kept, but for nobody's risk."""

from __future__ import annotations

from pathlib import Path

from models.population import Population
from models.prior_files import load_population
from stream_app.exceptions import SettingsError
from stream_app.location_names import location_names
from stream_app.settings import BUDGET, Settings


def population_of(settings: Settings, priors: Path | None) -> Population:
    """The people of a priors file; nobody, on the locations that the settings name, without one.

    A risk budget asks of people what each release does to them: without any everything would keep it, so
    :class:`SettingsError` refuses the two together.
    """
    if priors is not None:
        return load_population(priors)
    if settings.release.mechanism == BUDGET:
        raise SettingsError(
            "a risk budget must have people to protect",
            "no priors",
            "give --priors, or release with a mechanism that needs none: gaussian with sigma",
        )
    remedy = "name a file of location names, one a line (`tallyguard init` writes it), or give --priors"
    return Population.pack([], location_names(settings, "where no priors are given", remedy))

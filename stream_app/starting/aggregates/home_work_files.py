"""Home-work tables: LODES, INSEE's MOBPRO, or any CSV of origin, destination and people."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from models.fitting.personas import NO_WORK, HomeWork
from stream_app.exceptions import InputError
from stream_app.starting.aggregates.columns import needed, numbers, texts, usual

HOMES = ("h_geocode", "home", "origin", "from", "o", "codgeo", "commune")
WORKS = ("w_geocode", "work", "destination", "to", "d", "dclt")
PEOPLE = (
    "s000",
    "people",
    "flow",
    "flows",
    "count",
    "workers",
    "weight",
    "ipondi",
    "nbflux_c21_actocc15p",
    "nbflux_c20_actocc15p",
    "nbflux_c19_actocc15p",
)
_ARRONDISSEMENT = ("arm",)
_NOBODY = ("", "ZZZZZ")


@dataclass(frozen=True)
class NamedHomeWork:
    """A home-work table by names of zones; an empty work is none."""

    home: Sequence[str]
    work: Sequence[str]
    people: NDArray[np.float64]

    def coarse(self, digits: int) -> NamedHomeWork:
        """Zones by their first digits: blocks of a census become tracts."""
        return NamedHomeWork([z[:digits] for z in self.home], [z[:digits] for z in self.work], self.people)

    def numbered(self, names: Sequence[str]) -> HomeWork:
        """The same by numbers of zones."""
        index = {name: number for number, name in enumerate(names)}
        home = np.array([index[zone] for zone in self.home], dtype=np.int64)
        work = np.array([index[zone] if zone else NO_WORK for zone in self.work], dtype=np.int64)
        return HomeWork(home, work, self.people)


def is_home_work(table: pa.Table) -> bool:
    """Whether a table has columns of homes and of work."""
    return usual(table, HOMES) is not None and usual(table, WORKS) is not None


def read_home_work(path: Path, table: pa.Table) -> NamedHomeWork:
    """The pairs of home and work with their people; rows of one pair are added up later.

    Of MOBPRO's rows, one a person with a weight, the arrondissement counts where there is one (``ARM``).
    """
    home = texts(path, table, needed(path, table, HOMES, "of homes"))
    work = texts(path, table, needed(path, table, WORKS, "of places of work"))
    finer = usual(table, _ARRONDISSEMENT)
    if finer is not None:
        finer_homes = texts(path, table, finer)
        home = [zone if arm in _NOBODY else arm for zone, arm in zip(home, finer_homes, strict=True)]
    people = numbers(path, table, needed(path, table, PEOPLE, "of people"))
    if (people < 0.0).any():
        row = int((people < 0.0).argmax()) + 1
        raise InputError(f"people in {path} must be 0 or more", f"fewer in row {row}", "correct it")
    if not home:
        raise InputError(f"{path} must have a row for each pair of home and work", "none", "fill the table")
    if "" in home:
        raise InputError(
            f"each row of {path} must have a home",
            f"none in row {home.index('') + 1}",
            "fill or drop the row",
        )
    return NamedHomeWork(home, ["" if zone in _NOBODY else zone for zone in work], people)

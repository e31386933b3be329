"""Classes of people: who lives here, works there and has such a day, and how many they are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from models.exceptions import PersonaError
from models.fitting.personas.day_types import DayType

NO_WORK = -1


@dataclass(frozen=True, eq=False)
class HomeWork:
    """``people`` who live in zone ``home`` and work in zone ``work``, :data:`NO_WORK` where they do not."""

    home: NDArray[np.int64]
    work: NDArray[np.int64]
    people: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Classes:
    """Classes (home, work, type of day) and the people in each, (N,); ordered by type, home and work."""

    home: NDArray[np.int64]
    work: NDArray[np.int64]
    day: NDArray[np.int64]
    people: NDArray[np.float64]
    moved: float = 0.0  # people of small classes, added to another of their home and day


def classes_of(table: HomeWork, days: Sequence[DayType], least_people: float = 0.0) -> Classes:
    """The classes of a home-work table: each pair's people times the shares of the days they may have.

    Shares are taken among the days with work for pairs that have one, and among the others else. A class of
    fewer than ``least_people`` is added to the largest of the same home and day: nobody is lost, and nobody
    gets a day that is the average of several.
    """
    _check(table)
    parts = []
    for works in (True, False):
        chosen = (table.work != NO_WORK) == works
        fitting = [number for number, day in enumerate(days) if day.works == works]
        if chosen.any() and not fitting:
            raise PersonaError(
                f"people {'with' if works else 'without'} a place of work must have a type of day",
                "none",
                "give one, or leave these people out of the home-work table",
            )
        total = sum(days[number].share for number in fitting)
        for number in fitting:
            people = table.people[chosen] * (days[number].share / total)
            parts.append((np.full(people.size, number), table.home[chosen], table.work[chosen], people))
    day, home, work, people = (np.concatenate(column) for column in zip(*parts, strict=True))
    return grouped(day, home, work, people, least_people)


def grouped(
    day: NDArray[np.int64],
    home: NDArray[np.int64],
    work: NDArray[np.int64],
    people: NDArray[np.float64],
    least_people: float = 0.0,
) -> Classes:
    """People with a home, a place of work (or none) and a type of day each, as classes; small ones merged."""
    return _merged(_added(day, home, work, people), least_people)


def _check(table: HomeWork) -> None:
    wrong = np.flatnonzero(~((table.people >= 0.0) & (table.people < np.inf)))
    if wrong.size or not table.people.sum() > 0.0:
        raise PersonaError(
            "a home-work table must have a number of people in each row, and somebody in all",
            table.people[wrong[0]] if wrong.size else "nobody",
            "correct the table",
        )


def _added(
    day: NDArray[np.int64], home: NDArray[np.int64], work: NDArray[np.int64], people: NDArray[np.float64]
) -> Classes:
    """Each class once, without those of nobody."""
    kept = people > 0.0
    keys = np.stack([day[kept], home[kept], work[kept]])
    unique, group = np.unique(keys, axis=1, return_inverse=True)
    total = np.bincount(group.ravel(), weights=people[kept], minlength=unique.shape[1]).astype(np.float64)
    return Classes(unique[1], unique[2], unique[0], total)


def _merged(classes: Classes, least: float) -> Classes:
    """Small classes added to the largest of their home and day."""
    by_home = np.lexsort((-classes.people, classes.home, classes.day))
    day, home = classes.day[by_home], classes.home[by_home]
    begins = np.ones(by_home.size, dtype=np.bool_)
    begins[1:] = (day[1:] != day[:-1]) | (home[1:] != home[:-1])
    largest = by_home[np.maximum.accumulate(np.where(begins, np.arange(by_home.size), 0))]
    target = np.empty_like(by_home)
    target[by_home] = np.where(classes.people[by_home] < least, largest, by_home)
    people = np.bincount(target, weights=classes.people, minlength=target.size).astype(np.float64)
    kept = np.unique(target)
    moved = float(classes.people[target != np.arange(target.size)].sum())
    return Classes(classes.home[kept], classes.work[kept], classes.day[kept], people[kept], moved)

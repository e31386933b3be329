"""How the answer moves where habits are otherwise: the same releases, accounted under named alternatives.

An alternative is other priors on the same locations (another survey year, another range of an assumption), or
a radius around the priors at hand. What is released does not change: it was decided for the priors at hand.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.prior_files import load_population
from models.priors import Population
from models.releases import StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import CROWD
from stream_app.setup.settings import Settings
from stream_app.steps import Accounts
from stream_app.steps.policy.people_shards import people_shares
from stream_app.watching.metrics import who_is_over
from stream_app.watching.people import Standing
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.wording import UP, ceiling_in_words, in_a_hundred, significant

AS_GIVEN = "as given"
EXPLAINED = (
    "The same releases, accounted again where habits are otherwise. Guess and ceiling: means over people "
    "and steps. Highest ceiling and highest added risk: over all people and steps; within a radius nothing "
    "bounds the added risk. Over the limit: the most people after any step. The ceilings of each row hold "
    "for its own habits only, and where they are those in the crowd, everybody has these habits."
)


@dataclass(frozen=True)
class Alternative:
    """Habits under a name; ``rests_on`` says what they are, ``names`` (N,) how people are split into shards.

    ``within_nats`` is the radius that ceilings hold within.
    """

    name: str
    rests_on: str
    population: Population
    names: Sequence[str]
    within_nats: float = 0.0

    @classmethod
    def given(cls, population: Population, names: Sequence[str], settings: Settings) -> Alternative:
        """The priors at hand, as all other figures have them."""
        check = settings.priors_check
        within = 0.0 if check is None else check.within_nats
        condition = ceiling_condition(check, population.draws)
        return cls(AS_GIVEN, condition, population, names, within)

    def varied(self, text: str) -> Alternative:
        """``NAME=NATS`` or ``NAME=FILE``; :class:`SettingsError` for anything else, or other locations."""
        name, is_named, value = (part.strip() for part in text.partition("="))
        if not (name and is_named and value) or name == AS_GIVEN:
            raise SettingsError(
                "an alternative must be a name of its own, =, and nats or a priors file",
                repr(text),
                "write --vary 'survey 2019=priors-2019.json' or --vary 'radius=0.1'",
            )
        nats = None
        with suppress(ValueError):
            nats = float(value)
        if nats is not None:
            if not 0.0 <= nats < inf:
                raise SettingsError("a radius must be 0 or more nats", value, "give 0.1, say")
            if nats < self.within_nats:
                least = significant(self.within_nats, 4, UP)
                raise SettingsError(
                    f"a radius must be at least {least} nats: the check refutes any smaller one",
                    value,
                    f"give {least} or more",
                )
            around = "these priors" if self.population.draws == 1 else "what few data leave open"
            rests_on = f"within {nats:g} nats of {around}, over all steps together"
            return replace(self, name=name, rests_on=rests_on, within_nats=nats)
        population = load_population(Path(value))
        if population.location_names != self.population.location_names:
            raise SettingsError(
                "alternative priors must have the same locations, in the same order",
                f"others in {value}",
                "write both files with one list of locations",
            )
        if population.fingerprint == self.population.fingerprint:
            return replace(self, name=name)
        assumed = "" if population.assumed is None else f" (assumed: {population.assumed})"
        certain = ", as if few data left nothing open" if self.population.draws > 1 else ""
        rests_on = f"if habits are as in {Path(value).name}{assumed}{certain}"
        return Alternative(name, rests_on, population, population.people)


@dataclass(frozen=True)
class VariedRisks:
    """What an alternative makes of the releases; probabilities. People count as many as they stand for.

    ``most_added`` is None within a radius. ``over`` are the most people over the limit after any step, and
    ``allowed`` may be; both are None where there is no limit, or none that can be answered.
    """

    name: str
    rests_on: str
    people: float
    mean_guess: float
    mean_ceiling: float
    highest_ceiling: float
    most_added: float | None
    over: float | None
    allowed: float | None

    @property
    def keeps_rule(self) -> bool | None:
        """Whether the limit is kept at every step; None where that cannot be said."""
        return None if self.over is None or self.allowed is None else self.over <= self.allowed

    def in_words(self) -> tuple[str, ...]:
        """The row as terminal and report show it."""
        ceilings = map(ceiling_in_words, (self.mean_ceiling, self.highest_ceiling))
        over = "–" if self.over is None else f"{self.over:,.0f} of {self.people:,.0f}"
        kept = {True: "yes", False: "no", None: "not shown"}[self.keeps_rule]
        added = "not known" if self.most_added is None else ceiling_in_words(self.most_added)
        return self.name, in_a_hundred(self.mean_guess), *ceilings, added, over, kept

    def as_json(self) -> dict[str, Any]:
        """The fields, with the answer."""
        return {**vars(self), "keeps_rule": self.keeps_rule}


def vary(given: Alternative, specs: Sequence[str]) -> tuple[Alternative, ...]:
    """The priors at hand first, then what was asked for; nothing where nothing was."""
    found = (given, *map(given.varied, specs)) if specs else ()
    names = [each.name for each in found]
    if len(set(names)) < len(names):
        raise SettingsError("each alternative must have a name of its own", ", ".join(names), "rename one")
    return found


def answers(
    alternatives: Sequence[Alternative],
    steps: Sequence[StepSchedule],
    settings: Settings,
    first_slot: int,
    progress: Callable[[], None] = lambda: None,
) -> tuple[VariedRisks, ...]:
    """One row an alternative; ``progress`` is called after each step of each."""
    horizon = settings.horizon_settings(first_slot)
    return tuple(_answer(each, steps, horizon, settings, progress) for each in alternatives)


def _answer(
    alternative: Alternative,
    steps: Sequence[StepSchedule],
    horizon: HorizonSettings,
    settings: Settings,
    progress: Callable[[], None],
) -> VariedRisks:
    population, within = alternative.population, alternative.within_nats
    horizon, limit = replace(horizon, within_nats=within), settings.release.budget.limit
    since, names = population.effective_from, alternative.names
    if settings.adversary == CROWD:  # of people who all have the other habits
        accounts = Accounts.of(settings, horizon, population, names, since)
    else:
        shares = people_shares(names, settings.kafka.partitions)
        accounts = Accounts(ContinuousAccountant(population, horizon, since, shares, told=population.told))
    account = accounts.deciding or accounts.informed
    weights = account.people_each
    is_open = limit is None or (within > 0.0 and limit.added is not None)
    guess, ceiling, over = 0.0, 0.0, 0.0
    for step in steps:
        accounts.apply(step)
        standing = Standing.of(account, names)
        guess += _mean(standing.baseline, weights) / len(steps)
        ceiling += _mean(standing.risk, weights) / len(steps)
        if limit is not None and not is_open:
            over = max(over, float(standing.count(np.logical_or(*who_is_over(standing, limit)))))
        progress()
    worst, people = account.worst(), accounts.informed.everybody
    return VariedRisks(
        name=alternative.name,
        rests_on=alternative.rests_on,
        people=float(people),
        mean_guess=guess,
        mean_ceiling=ceiling,
        highest_ceiling=worst.most_risk,
        most_added=None if within > 0.0 else worst.most_added,
        over=None if is_open else over,
        allowed=None if is_open or limit is None else float(limit.allowed(people)),
    )


def _mean(values: NDArray[np.float64], weights: NDArray[np.int64]) -> float:
    return float((values * weights).sum() / weights.sum()) if weights.size else 0.0

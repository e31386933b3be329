"""The running account against an adversary who does not know where the other people are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds import BY_INFORMATION, BY_LEVELS
from accounting.bounds.noised.sandwich_kernel import AS_LOW_AS_MAY_BE
from accounting.bounds.radius import ceilings_within
from accounting.continuous.account_state import digest_of, named, pack_state, taken, unpack_state
from accounting.continuous.accountant import ContinuousAccountant
from accounting.continuous.accounts_kernel import HISTORY, NEGLIGIBLE, Accounts, HorizonRules
from accounting.continuous.cascade import Units
from accounting.continuous.payer import LEAST_GAIN, Due, Payer, decided_with, find_due, is_above, with_vectors
from accounting.continuous.people import (
    ChainPositions,
    RiskFigures,
    RiskSummary,
    WorstMoments,
    join_people,
    no_moments,
    summarise,
    take_people,
)
from accounting.continuous.published import (
    OWN_COUNTS_OPERATIONS,
    Published,
    SeenWindows,
    ceiling_by_own_counts,
    published_in,
)
from accounting.continuous.refine_kernel import (
    CLOSER_VECTORS,
    LEAST_OPERATIONS,
    PER_LOOK,
    RawHorizon,
    count_hits,
    find_operations,
    least_exact_bound,
    noised_past,
    noised_success,
    raw_horizon,
)
from accounting.exceptions import SettingsError, SnapshotError, StepOrderError
from accounting.exposure.crowd import (
    LEVELS,
    CrowdAdversary,
    Others,
    StepCrowd,
    Variances,
    at_level,
    counts_of,
    hidden_count,
    in_crowd,
    variances_at,
    with_strangers,
)
from accounting.exposure.step_information import followed_by, is_whole, nothing_seen_for, seen_release
from accounting.exposure.step_information.likelihood_levels import LevelTables, SeenSteps
from accounting.settings import RiskBudget
from models.calendar import slots_by_the_clock
from models.mechanisms import Raw
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import jit, pjit
from models.priors import Population
from models.releases import Sensor, SensorRelease, StepSchedule

# The bound at levels.
#
# At level ``b`` each count is an erasure channel that reveals more than the channel does with probability
# ``b`` at most (:data:`accounting.exposure.crowd.LEVELS`). With ``f(b)`` the bound through noise of these
# channels at ``b_1 > .. > b_k``, and ``f(1)`` the bound as if all counts were exact, the success is at most
#
#     (1 - b_1) f(b_1) + (b_1 - b_2) f(b_2) + .. + b_k f(1).
#
# ``f`` is smallest at ``b_1``, where counts reveal least. The kernels add the terms from the last one on, so
# that they can stop when ``f(b_1)`` in place of all terms that are missing already decides.

ROUNDING = 1e-12  # relative, of a sum of a few terms: the bound must not be too small


class Levels(NamedTuple):
    """The same steps as their counts are erased at each level, in falling order of probability."""

    probability: tuple[float, ...]
    seen: tuple[SeenSteps, ...]


class LevelHorizon(NamedTuple):
    """One person's horizon; its history begins with ``row`` of what was seen at the levels."""

    raw: RawHorizon
    row: int
    least: float  # the baseline: no bound on the success is below it


@jit
def level_horizon(
    accounts: Accounts, person: int, first: int, labels: Integers32, row: int, least: float
) -> LevelHorizon:
    """The horizon of the steps ``first..``, with the labels of all rows."""
    rows = slice(row, row + HISTORY + accounts.horizon.steps)
    return LevelHorizon(raw_horizon(accounts, person, first, labels[rows]), row, least)


@jit
def success_at_level(
    horizon: HorizonRules,
    person: LevelHorizon,
    levels: Levels,
    k: int,
    known: float,
    shift: Floats,
    enough: float,
) -> tuple[float, float]:
    """The bound through noise, with the counts erased at level ``k``; and the products that it took.

    ``known``, ``shift``, ``enough`` as for :func:`~accounting.continuous.refine_kernel.noised_success`.
    """
    rows = slice(person.row, person.row + HISTORY + horizon.steps)
    whole = levels.seen[k]
    seen = SeenSteps(whole.labels[rows], whole.channel[rows], whole.tables)
    past = noised_past(person.raw, seen, horizon.vectors)
    found = noised_success(person.raw, seen, horizon, past, known, shift, enough)
    return max(found.value, person.least), found.products + past.operations / PER_LOOK


@jit
def success_by_levels(
    horizon: HorizonRules,
    person: LevelHorizon,
    levels: Levels,
    at: Integers,
    everything: float,
    known: float,
) -> tuple[float, float]:
    """The bound on the person's horizon, and its products; ``everything`` is that if all counts were exact.

    ``at`` are the levels that are used, in falling order of probability. 1 as soon as it cannot become lower
    than ``known``, a bound that holds already. Counts reveal least at the first level, so ``f(b_1)`` is a
    lower bound on the terms that are still to be added.
    """
    rest = 1.0, np.empty(0), AS_LOW_AS_MAY_BE
    lowest, products = success_at_level(horizon, person, levels, at[0], *rest)
    highest, smaller, total = everything, 0.0, 0.0
    for k in range(at.size - 1, -1, -1):
        total += (levels.probability[at[k]] - smaller) * highest
        smaller = levels.probability[at[k]]
        if total + (1.0 - smaller) * min(lowest, highest) >= known:
            return 1.0, products
        # An adversary who sees less than at this level does no better: f falls with the level.
        found = lowest
        if k > 0:
            found, more = success_at_level(horizon, person, levels, at[k], *rest)
            products += more
        highest = min(highest, found)
    total += (1.0 - smaller) * highest
    return total * (1.0 + ROUNDING), products


@pjit(lambda accounts, people, *_: people.size)
def find_success_by_levels(
    begin: int,
    end: int,
    accounts: Accounts,
    people: Integers,
    step_number: int,
    levels: Levels,
    at: Integers,
    everything: Floats,
    success: Floats,
    products: Floats,
) -> None:
    """Lower ``success`` (n,), the known bounds on the horizon that ends with ``step_number``.

    ``at`` (k,) are the levels that are used: another tuple of levels would have all compiled once more.
    ``everything`` (n,) are the bounds if all counts were exact. ``products`` (n,) becomes what it took.
    """
    first = step_number - accounts.horizon.steps + 1
    for k in range(begin, end):
        least = accounts.state.baseline[people[k]]
        person = level_horizon(accounts, people[k], first, levels.seen[at[0]].labels, 0, least)
        found, took = success_by_levels(accounts.horizon, person, levels, at, everything[k], success[k])
        success[k], products[k] = min(success[k], found), took


@pjit(lambda accounts, people, *_: people.size)
def find_exact_success(
    begin: int,
    end: int,
    accounts: Accounts,
    people: Integers,
    step_number: int,
    labels: Integers32,
    success: Floats,
) -> None:
    """Fill ``success`` (n,) with the bound if every count were exact; ``labels`` as for ``raw_horizon``."""
    first = step_number - accounts.horizon.steps + 1
    for k in range(begin, end):
        raw = raw_horizon(accounts, people[k], first, labels)
        success[k] = least_exact_bound(raw, accounts.horizon)


class WindowHiding(NamedTuple):
    """What hides sums over windows in the last steps, at each level (L, R, S).

    Of moves apart those out of a step; ``names`` are the sensors', with whether moves leave.
    """

    names: tuple[tuple[str, bool], ...]
    variance: Floats

    def followed_by(self, step: Sequence[Variances]) -> WindowHiding:
        """The rows moved on by one, with this step of each level."""
        names = tuple(dict.fromkeys((*self.names, *(name for each in step for name in each))))
        more = [(0, 0), (0, 1), (0, len(names) - len(self.names))]
        variance = np.pad(self.variance, more)[:, 1:]
        variance[:, -1] = [[each.get(name, 0.0) for name in names] for each in step]
        return WindowHiding(names, variance)

    def of_window(self, sensor: Sensor) -> Floats:
        """What hides the sum that ends with the last step, at each level, (L,)."""
        assert sensor.window is not None
        begin, found = max(0, self.variance.shape[1] - sensor.window.steps), np.zeros(len(self.variance))
        if (sensor.name, False) in self.names:
            found += self.variance[:, begin:, self.names.index((sensor.name, False))].sum(axis=1)
        if (sensor.name, True) in self.names:
            leaving = self.variance[:, max(0, begin - 1) : -1, self.names.index((sensor.name, True))]
            found += leaving.sum(axis=1)
        return found


ALL_LEVELS, ONE_LEVEL = tuple(range(len(LEVELS))), (6,)
"""Positions of the levels that are looked at; fewer give a larger bound.

In the demo's city this one level clears as many people for decisions as three do, in half the time. As a
first look, at everybody in a city of 100,000, it leaves a third of what was added without.
"""

_INFORMED, _INFORMATION, _LEVELS = range(3)


class CrowdRisks(NamedTuple):
    """The figures of the last step, (N,) each; ``by`` is one of the codes above."""

    risk: Floats
    by: NDArray[np.int8]
    reached: Integers
    reached_before: Integers
    is_unreached: Flags


class CrowdAccount:
    """The certified risks of a population whose members hide among each other, moved on by :meth:`apply`.

    ``informed`` is the account against an adversary who knows where all others are. Apply every step to it
    first: an adversary who knows less does no better, so its risks are bounds on these. The fast bound is
    computed from what each count reveals in the crowd. Where it stays high, the bound through noise is
    computed at each of ``LEVELS``, for the highest added risk first, as far as the settings' ``operations``
    go. People above the limit ``decided`` by both accounts get it whatever it costs. Risks hold if the others
    move independently, as their priors say.

    What is revealed of the others follows from priors and announced sensors, so a replay gives the same bits.
    """

    def __init__(
        self,
        informed: ContinuousAccountant,
        adversary: CrowdAdversary | None = None,
        names: Sequence[str] | None = None,
        decided: RiskBudget | None = None,
        weights: Floats | None = None,
    ) -> None:
        """The account before the first step of ``informed``; ``names`` (N,) as for :class:`Others`.

        ``weights`` (N,) are how many people each persona stands for; None where each prior is of one person.

        In a crowd the figures of people depend on more than their priors, so ``informed`` must have a
        separate account for each person.
        """
        if not informed.apart:
            raise SettingsError(
                "the informed accounts of a crowd must be of one person each",
                "people who share an account",
                "make the informed accountant with apart=True",
            )
        if weights is None and informed.holders.stands_for is not None:
            raise SettingsError(
                "the weights of a crowd must be those of its people",
                "none, of personas that stand for many",
                "pass the weights of the population",
            )
        self.informed = informed
        self.adversary = adversary or CrowdAdversary()
        self.settings = replace(informed.settings, decided=decided)
        settings, population, since = self.settings, informed.population, informed.since
        told = informed.told_accounts
        log_start = min(settings.first_step, 0)
        slot, first, least = settings.first_slot, settings.first_step, self.adversary.least
        population = population if weights is None else replace(population, weights=weights)
        self.others = Others(
            *(population, slot, first, since, names, log_start, weights, least, settings.calendar)
        )
        self._everything = informed
        if self.adversary.companions:  # no noise is known to hide a group, so its counts are taken as exact
            everything = population, settings, since, informed.shares
            self._everything = ContinuousAccountant(*everything, apart=True, told=told)
        fast = replace(settings, sharpen=False, decided=None)
        self.fast = ContinuousAccountant(population, fast, since, informed.shares, apart=True, told=told)
        """The account by the fast bound alone, of the steps as this adversary sees them."""
        rows, locations = HISTORY + settings.horizon, population.location_count
        self._seen = [nothing_seen_for(rows, locations) for _ in LEVELS]
        self._published = [Published.plainly(nothing_seen_for(0, locations)) for _ in LEVELS]
        self._hiding = WindowHiding((), np.zeros((len(LEVELS), rows, 0)))
        self._worst = no_moments(len(population))
        risk, nobody = self._everything.prior_risk(), np.zeros(len(population), np.int8)
        reached = self._reached(risk)
        self._risks = CrowdRisks(risk, nobody, reached, reached, nobody.astype(np.bool_))

    @property
    def population(self) -> Population:
        """The people who are accounted."""
        return self.informed.population

    @property
    def next_step(self) -> int:
        """The step that :meth:`apply` expects."""
        return self.fast.next_step

    @property
    def people_each(self) -> Integers:
        """How many people each name stands for, (N,)."""
        return self.informed.people_each

    @property
    def levels(self) -> Levels:
        """What was seen in the last steps, at each level."""
        return Levels(LEVELS, tuple(self._seen))

    def levels_with(self, step: StepSchedule, crowds: StepCrowd, at: Sequence[int]) -> Levels:
        """The last steps and this one, at these levels."""
        probability = tuple(LEVELS[k] for k in at)
        erased = (self.erased(step, crowds, level) for level in probability)
        return Levels(probability, tuple(map(followed_by, (self._seen[k] for k in at), erased)))

    @property
    def units(self) -> Units:
        """The people as a step's work is paid for: each alone, because others are in each one's crowd."""
        everybody = ChainPositions(np.arange(len(self.population)))
        return Units.of(self.informed.holders, self.informed.people_shares.count, everybody, 1)

    def ask(self, step: StepSchedule) -> StepCrowd:
        """The crowd that each release of the next step would hide among; changes nothing.

        It is of these people and the adversary's strangers: of everybody, if all people are accounted here.
        """
        return self.ask_ahead((step,))[0]

    def ask_ahead(self, steps: Sequence[StepSchedule]) -> tuple[StepCrowd, ...]:
        """The same of the next steps, as :meth:`Others.ask_ahead` has it."""
        return tuple(map(self._with_strangers, steps, self.others.ask_ahead(steps)))

    def apply(self, step: StepSchedule, crowds: StepCrowd | None = None) -> StepCrowd:
        """Account one step; steps come in order without gaps, empty ones included.

        ``crowds`` are the sums over all people and strangers, if this account is only of some of them.
        Returns the sums that were used.
        """
        if self.informed.next_step != step.step + 1:
            raise StepOrderError(
                f"the informed account must be at step {step.step + 1}",
                self.informed.next_step,
                "apply each step to it, and then here",
            )
        own = self.others.apply(step)
        crowds = self._with_strangers(step, own) if crowds is None else crowds
        if self._everything is not self.informed:
            self._everything.apply(replace(at_level(step, crowds, self.adversary, 0.0), published=None))
        self.fast.apply(self.seen(step, crowds))
        self._follow(step, crowds)
        self._lower(step.step)
        self._worst.note(step.step, self._risks.risk, self.baseline(), self.informed.since)
        return crowds

    def _follow(self, step: StepSchedule, crowds: StepCrowd) -> None:
        """Take a step into what was seen, and published, at each level."""
        shares, locations = [self._share(step, level) for level in LEVELS], self.population.location_count
        erased = [at_level(step, crowds, self.adversary, share) for share in shares]
        seen = self._seen
        self._seen = [
            followed_by(before, seen_release(own.releases, locations))
            for before, own in zip(seen, erased, strict=True)
        ]
        has_windows = len(self._published[0].plain.labels) > 0
        if step.published is None and not has_windows:
            return
        hidden = [variances_at(step, crowds, self.adversary, share) for share in shares]
        self._hiding = self._hiding.followed_by(hidden)
        before = self._published if has_windows else list(map(Published.plainly, seen))
        ways = zip(before, self._published_at(step, erased), strict=True)
        self._published = [rows.followed_by(published_in(own, locations)) for rows, own in ways]

    def _published_at(
        self, step: StepSchedule, erased: Sequence[StepSchedule]
    ) -> list[tuple[SensorRelease, ...]]:
        """What a step publishes at each level: plain counts, what is not known whole, windows that end."""
        published = step.releases if step.published is None else step.published
        counted = step.releases if step.parts is None else step.parts.plain
        others, companions = published[len(counted) :], self.adversary.companions
        found: list[list[SensorRelease]] = [list(own.published or ()) for own in erased]
        for release in others:
            window = release.sensor.window
            if window is None:
                own = replace(release, mechanism=Raw()) if companions else release
                for each in found:
                    each.append(own)
                continue
            for each, variance in zip(found, self._hiding.of_window(release.sensor).tolist(), strict=True):
                hidden = hidden_count(release.mechanism, release.sensor.most_counts, variance, companions)
                each.append(replace(release, mechanism=hidden))
        return [tuple(each) for each in found]

    def _share(self, step: StepSchedule, level: float) -> float:
        """The probability of a level as it is split among all counts that a refined bound looks at."""
        return level / max(1, counts_of(step)) / (HISTORY + self.settings.horizon)

    def _with_strangers(self, step: StepSchedule, crowds: StepCrowd) -> StepCrowd:
        slots = slots_by_the_clock(self.settings.first_slot, step.step, self.settings.calendar)
        return with_strangers(step, crowds, self.adversary, *slots)

    def seen(self, step: StepSchedule, crowds: StepCrowd) -> StepSchedule:
        """The step as this adversary sees it, for the fast bound."""
        return in_crowd(step, crowds, self.adversary)

    def erased(self, step: StepSchedule, crowds: StepCrowd, level: float) -> SeenSteps:
        """The step at a level."""
        seen = at_level(step, crowds, self.adversary, self._share(step, level))
        return seen_release(seen.releases, self.population.location_count)

    def risk(self) -> Floats:
        """Certified risk of each person against the crowd adversary, within the settings' radius, (N,)."""
        return ceilings_within(self.settings.within_nats, self._risks.risk).copy()

    def baseline(self) -> Floats:
        """Success of the best guess from the prior alone, (N,)."""
        return self.informed.baseline()

    def added(self) -> Floats:
        """Upper bound on what the releases added under the prior, against the crowd adversary, (N,)."""
        return self._risks.risk - self.baseline()

    def information_nats(self) -> Floats:
        """Bound on what everything released reveals to this adversary about the horizon, nats, (N,)."""
        return np.minimum(self.fast.information_nats(), self._everything.information_nats())

    def decided_by(self, person: int) -> str:
        """The bound that gave a person's risk."""
        if self._risks.by[person] == _INFORMED:
            return self._everything.decided_by(person)
        return BY_LEVELS if self._risks.by[person] == _LEVELS else BY_INFORMATION

    def crossings(self) -> Integers:
        """People whose highest reached threshold changed in the last step, increasing."""
        return np.flatnonzero(self._risks.reached != self._risks.reached_before)

    def worst(self) -> WorstMoments:
        """The worst moments of each person since the first step; the highest risk holds within the radius."""
        worst = WorstMoments._make(each.copy() for each in self._worst)
        return worst._replace(highest_risk=ceilings_within(self.settings.within_nats, worst.highest_risk))

    @property
    def not_reached(self) -> int:
        """People whose risk the bound at levels could have lowered if the last step's work had sufficed."""
        return int(self.people_each[self._risks.is_unreached].sum())

    def summary(self) -> RiskSummary:
        """The last step in a few numbers, against the crowd adversary."""
        figures = RiskFigures(self.risk(), self.baseline(), self.added())
        thresholds, people = self.settings.thresholds, self.people_each
        more = {"not_reached": self.not_reached, "within_nats": self.settings.within_nats}
        return summarise(self.next_step - 1, figures, thresholds, self.worst(), people, **more)

    def with_people(self, newcomers: CrowdAccount, informed: ContinuousAccountant) -> CrowdAccount:
        """One account for these people and the newcomers at the same step; ``informed`` is that of all."""
        joined = self._of(informed)
        joined.others = self.others.with_people(newcomers.others, informed.population)
        joined.fast = self.fast.with_people(newcomers.fast)
        if self._everything is not self.informed:
            joined._everything = self._everything.with_people(newcomers._everything)
        joined._risks = join_people(self._risks, newcomers._risks)
        joined._worst = join_people(self._worst, newcomers._worst)
        return joined

    def of_people(self, people: Integers, informed: ContinuousAccountant) -> CrowdAccount:
        """The account of some of the people, by position; ``informed`` is their informed account."""
        chosen = self._of(informed)
        chosen.others = self.others.of_people(people, informed.population)
        chosen.fast = self.fast.of_people(people)
        if self._everything is not self.informed:
            chosen._everything = self._everything.of_people(people)
        chosen._risks = take_people(self._risks, people)
        chosen._worst = take_people(self._worst, people)
        return chosen

    def snapshot(self) -> bytes:
        """The state as bytes, including that of ``informed``; equal for equal histories."""
        kept = {
            name: np.frombuffer(each.snapshot(), dtype=np.uint8) for name, each in self._accountants().items()
        }
        return pack_state(self._basis(), {**self._fixed_arrays(), **self._level_arrays(), **kept})

    def restore(self, snapshot: bytes) -> None:
        """Load the state of a :meth:`snapshot`, including that of ``informed``.

        After a :class:`~accounting.exceptions.SnapshotError` the account must not be used.
        """
        bytes_of = dict.fromkeys(self._accountants(), np.zeros(0, dtype=np.uint8))
        any_length = {**self._level_arrays(), **bytes_of}
        stored = unpack_state(snapshot, self._basis(), self._fixed_arrays(), any_length)
        for name, accountant in self._accountants().items():
            accountant.restore(stored[name].tobytes())
        self._seen, plain = (
            [
                SeenSteps(
                    stored[f"{kind}labels{k}"],
                    stored[f"{kind}channel{k}"],
                    taken(f"{kind}level{k}", LevelTables, stored),
                )
                for k in range(len(LEVELS))
            ]
            for kind in ("", "published")
        )
        self._published = [
            Published(rows, taken(f"window{k}", SeenWindows, stored)) for k, rows in enumerate(plain)
        ]
        names = json.loads(stored["window_names"].tobytes())
        self._hiding = WindowHiding(tuple(map(tuple, names)), stored["window_variance"])
        if not (all(map(is_whole, self._seen)) and all(each.is_whole for each in self._published)):
            raise SnapshotError(
                "a snapshot's arrays must belong together",
                "channels that do not",
                "delete the snapshot; the state is rebuilt from the release log",
            )
        self.others.take_over(stored, self.fast.next_step)
        self._risks = taken("crowd", CrowdRisks, stored)
        self._worst = taken("worst", WorstMoments, stored)

    @property
    def _accounts(self) -> Accounts:
        return self.fast.refining

    def _of(self, informed: ContinuousAccountant) -> CrowdAccount:
        """A copy for other people, still to be filled in."""
        found = copy(self)
        found.informed = informed
        if self._everything is self.informed:
            found._everything = informed
        return found

    def _accountants(self) -> dict[str, ContinuousAccountant]:
        """The accountants that this account consists of, by name."""
        found = {"informed": self.informed, "fast": self.fast}
        return found if self._everything is self.informed else {**found, "everything": self._everything}

    def _basis(self) -> dict[str, object]:
        """Everything that the state follows from besides steps and people."""
        decided, adversary, weights = self.settings.decided, self.adversary, self.others.weights
        counted = {} if weights is None else {"weights": digest_of(weights)}
        return {
            **{name: getattr(adversary, name) for name in ("known", "companions", "alone")},
            **({} if adversary.least == 1.0 else {"least": adversary.least}),
            **({"counted_once": adversary.counted_once} if adversary.counted_once else {}),
            **counted,
            "decided": None if decided is None else asdict(decided),
        }

    def _fixed_arrays(self) -> dict[str, NDArray[Any]]:
        return {**named("crowd", self._risks), **named("worst", self._worst), **self.others.saved()}

    def _level_arrays(self) -> dict[str, NDArray[Any]]:
        names = np.frombuffer(json.dumps(self._hiding.names).encode(), dtype=np.uint8)
        found: dict[str, NDArray[Any]] = {"window_names": names, "window_variance": self._hiding.variance}
        for kind, rows in (("", self._seen), ("published", [each.plain for each in self._published])):
            for k, seen in enumerate(rows):
                found |= {f"{kind}labels{k}": seen.labels, f"{kind}channel{k}": seen.channel}
                found |= named(f"{kind}level{k}", seen.tables)
        for k, published in enumerate(self._published):
            found |= named(f"window{k}", published.windows)
        return found

    def _reached(self, risk: Floats) -> Integers:
        """The highest threshold that each person has reached."""
        within = ceilings_within(self.settings.within_nats, risk)
        return np.searchsorted(np.array(self.settings.thresholds), within, side="right")

    def _lower(self, step: int) -> None:
        """Set each risk to the least of the three bounds; that at levels as far as the step's work goes.

        Of several chains that stand for a person, the mean; the bound is named that gave the highest.
        """
        state, everything = self._accounts.state, self._everything.chain_risk()
        by = np.where(state.risk < everything, _INFORMATION, _INFORMED).astype(np.int8)
        risk = np.minimum(state.risk, everything)
        due, is_unreached = self._due(risk, step), np.zeros(risk.size, dtype=np.bool_)
        if due.chains.size:
            exact = self._if_exact(due, step, everything)
            look = _Look(self._accounts, self.levels, self._published, step, exact, risk, by)
            is_unreached[due.chains] = ~self._looked_at(due, look)
        population = self.population
        first_chains = np.arange(0, risk.size, population.draws)
        highest = first_chains + risk.reshape(-1, population.draws).argmax(axis=1)
        by, is_unreached = by[highest], population.any_draw(is_unreached)
        mean = population.mean_draw(risk)
        reached = self._reached(mean)
        self._risks = CrowdRisks(mean, by, reached, self._risks.reached, is_unreached)

    def _if_exact(self, due: Due, step: int, everything: Floats) -> Floats:
        """Bounds if all counts were exact, (C,); for people owed it refined as decisions are."""
        most, owed = everything.copy(), due.chains[due.is_owed]
        success, accounts = (
            np.empty(owed.size),
            with_vectors(self._accounts, decided_with(self.settings.vectors)),
        )
        find_exact_success(accounts, owed, step, self._seen[0].labels, success)
        most[owed] = np.minimum(most[owed], np.maximum(success, self._accounts.state.baseline[owed]))
        return most

    def _due(self, risk: Floats, step: int) -> Due:
        """Those whom the bound at levels could lower. Each has an account, in the order of the people."""
        state, settings = self._accounts.state, self.settings
        due = self.fast.known_to_refined(find_due(self._accounts, settings), step)
        is_raised = risk > np.maximum(state.baseline, state.guess * (1.0 + NEGLIGIBLE))
        is_due = is_raised[due.chains] & (risk[due.chains] >= self._accounts.horizon.refined_from)
        is_owed = due.is_owed
        if settings.decided is not None:
            both = state._replace(risk=risk)
            is_owed = is_owed & is_above(settings.decided, settings.within_nats, both)[due.chains]
        is_due &= is_owed | any(seen.is_noised for seen in self._seen)
        if not settings.refines:
            is_due[:] = False
        return Due(ChainPositions(due.chains[is_due]), is_owed[is_due])

    def _looked_at(self, due: Due, look: _Look) -> Flags:
        """Who of the due was looked at, (n,): in full all of a share that can pay that.

        Who is owed it is looked at as decisions look, whatever that costs: at one level with few vectors.
        Others at one level with few vectors, at all levels with few, closer, then in full, each as far as the
        work goes and first where most is added, as in :class:`~accounting.continuous.cascade.Cascade`.
        """
        chains, vectors = due.chains, self.settings.vectors
        few, closer = decided_with(vectors), min(CLOSER_VECTORS, vectors)
        rounds = [(few, ONE_LEVEL), *((each, ALL_LEVELS) for each in (few, closer, vectors))]
        payer = Payer(self.informed.people_shares.by_chain(self.population.draws), self.settings.operations)
        owed = due.is_owed
        payer.charge(chains[owed], look.run(chains, *rounds[0], np.flatnonzero(owed)))
        everybody = np.arange(chains.size)
        cost = look.cost(chains, vectors, ALL_LEVELS, everybody)
        is_whole = payer.of_whole_shares(chains, cost)
        payer.charge(chains[is_whole], cost[is_whole])
        look.run(chains, vectors, ALL_LEVELS, np.flatnonzero(is_whole))
        found, is_open = is_whole | owed, ~is_whole & ~owed
        for vectors, at in dict.fromkeys(rounds):
            among, left = np.flatnonzero(is_open), chains[is_open]
            cost_of = partial(look.cost, left, vectors, at)
            run = partial(look.run, left, vectors, at)
            is_done = np.zeros_like(found)
            least = LEAST_OPERATIONS * len(at)
            is_done[among] = payer.spend(left, look.added[left], cost_of, run, least)
            found |= is_done
            is_done |= owed & ~is_whole & ((vectors, at) == rounds[0])
            is_open = is_done & (look.added[chains] > LEAST_GAIN)
        if len(self._published[0].plain.labels):
            left = chains[look.added[chains] > LEAST_GAIN]
            cost_of = partial(look.cost_of_windows, left)
            payer.spend(left, look.added[left], cost_of, partial(look.run_windows, left), LEAST_OPERATIONS)
        return found


class _Look(NamedTuple):
    """Looks at a step by the bound at levels, which lower ``risk`` (C,) and say so in ``by`` (C,)."""

    accounts: Accounts
    levels: Levels
    published: Sequence[Published]  # at each level; no rows where there are no windows
    step: int
    if_exact: Floats  # (C,), bounds if all counts were exact
    risk: Floats
    by: NDArray[np.int8]

    @property
    def added(self) -> Floats:
        """What is added at most, (C,)."""
        return self.risk - self.accounts.state.baseline

    def cost(
        self,
        chains: Integers,
        vectors: int,
        at: Sequence[int],
        some: Integers,
        products: Floats | None = None,
    ) -> Integers:
        """Of a look at ``some`` of the chains at these levels, (n,): of so many ``products``, if known."""
        hits, mean = count_hits(self.levels.seen[0]), None if products is None else products / len(at)
        return len(at) * find_operations(
            self.accounts, ChainPositions(chains[some]), vectors, hits, products is not None, mean
        )

    def run(self, chains: Integers, vectors: int, at: Sequence[int], some: Integers) -> Integers:
        """Look at ``some`` of the chains; what it cost, (n,)."""
        accounts, chosen = with_vectors(self.accounts, vectors), chains[some]
        success, products = self.risk[chosen], np.empty(chosen.size)
        exact, levels = self.if_exact[chosen], np.asarray(at)
        find_success_by_levels(accounts, chosen, self.step, self.levels, levels, exact, success, products)
        self.by[chosen[success < self.risk[chosen]]] = _LEVELS
        self.risk[chosen] = success
        return self.cost(chains, vectors, at, some, products)

    def cost_of_windows(self, chains: Integers, some: Integers) -> Integers:
        """Of a look at ``some`` of the chains by windows as they were published, (n,)."""
        places = np.diff(self.accounts.population.places_start)[chains[some]]
        a_level = OWN_COUNTS_OPERATIONS * places * (self.accounts.horizon.mistakes + 1)
        return np.asarray(len(self.published) * a_level)

    def run_windows(self, chains: Integers, some: Integers) -> Integers:
        """Look at ``some`` of the chains by windows as they were published; what it cost, (n,)."""
        looks = np.empty(some.size, dtype=np.int64)
        for number, chain in enumerate(chains[some].tolist()):
            known = self.risk[chain]
            found, looks[number] = self._by_own_counts(chain, known)
            found = max(found, float(self.accounts.state.baseline[chain]))
            if found < known:
                self.risk[chain], self.by[chain] = found, _LEVELS
        return self.cost_of_windows(chains, some) // len(self.published) * looks

    def _by_own_counts(self, chain: int, known: float) -> tuple[float, int]:
        """The bound at levels by own counts, and how many levels were looked at.

        1 as soon as it cannot become lower than ``known``.
        """
        ceiling = partial(ceiling_by_own_counts, self.accounts, chain, self.step)
        lowest = ceiling(self.published[0])
        if lowest is None:
            return 1.0, 1
        highest, smaller, total = float(self.if_exact[chain]), 0.0, 0.0
        last = len(self.published) - 1
        for k in range(last, -1, -1):
            total += (LEVELS[k] - smaller) * highest
            smaller = LEVELS[k]
            if total + (1.0 - smaller) * min(lowest, highest) >= known:
                return 1.0, 1 + last - k
            found = ceiling(self.published[k]) if k else lowest
            highest = highest if found is None else min(highest, found)
        return (total + (1.0 - smaller) * highest) * (1.0 + ROUNDING), 1 + last

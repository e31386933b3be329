"""A shadow adversary: how often an attack on sampled people succeeds, beside the ceiling and closer to it.

The same drawn logs tell it from above, too: :meth:`Shadow.sampled`.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from math import lcm
from typing import NamedTuple

import numpy as np

from accounting.bounds import Tried
from accounting.bounds.noised.posterior_kernel import (
    DrawWork,
    LogHorizon,
    OwnLog,
    fill_prior_guess,
    new_draw_work,
    success_by_search,
)
from accounting.bounds.noised.sampled import judged_draws, success_of
from accounting.continuous.accountant import ContinuousAccountant
from accounting.continuous.accounts_kernel import HISTORY, Accounts, account_slot, has_initial_distribution
from accounting.continuous.people import PeopleShares, Ranked
from accounting.continuous.refine_kernel import laws_of_horizon
from accounting.exceptions import StepOrderError
from accounting.exposure.drawing import (
    Draws,
    OwnReleases,
    ValueTables,
    begin_stream,
    draw_likelihoods,
    new_walker,
    noise_values,
    uniform,
    walk,
)
from accounting.exposure.prior_constants_kernel import prior_constants
from accounting.exposure.step_information import observe
from accounting.hmm.frontier.search_kernel import affordable_expansions
from accounting.hmm.propagation import marginals
from accounting.numerics import PROVED, mean_interval
from models.mechanisms import Mechanism
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import bare_jit, jit, pjit
from models.priors.chain import ChainView, LocalChain, chain_view, slot_of
from models.releases import SensorRelease, StepSchedule

# The shadow adversary attacks some people after every step and sees no count.
#
# In each draw a trajectory is drawn from the person's prior, releases from the mechanisms that were decided,
# and the attack guesses the last horizon. So what it shows is a function of priors and schedule, like the
# ceiling it is compared with, and reveals nothing about any person. The attack uses the steps of the last
# horizon and as much history before it as the refined bounds follow.
#
# Only what the attack adds is kept of each draw. With ``y`` the drawn releases, ``v(y)`` the posterior
# success of the best guess found and ``z(y)`` that of the best guess made without any release, the attack
# succeeds with
#
#     E max(v, z) = (prior success of the guess without releases) + E max(0, v - z),
#
# and the first term is known exactly, so the draws estimate only the second. An attack need not use
# everything, so it may ignore releases older than the recent log.
#
# Where all steps of the recent log have equal releases, as of sensors that count all day long, what is drawn
# has the same law in every cycle of the chain. Then new draws are made in one cycle of 64 only: their luck
# stays as long, and the others have the same result.

UNITS = 256
"""An added success is rounded at random to a neighbouring 256th, so that its mean stays the same."""

_MOST_DRAWS = 1 << 24  # of one person in one step
_REPEATED = 1 << 38  # beyond all steps: names the streams of repeated steps
_CYCLES = 64  # of a chain with the same draws where steps are repeated
_ROUNDED = 1e-9  # relative difference that rounding makes between two computations of one success


class RecentLog(NamedTuple):
    """The last ``L`` steps as they were decided; row 0 is step ``first_step``.

    Rows of the same ``kind`` are equal, so the releases that count a person are computed once for all of
    them. Outcome ``k`` of row ``r`` is counted by ``sensor[start[o]:start[o + 1]]`` with
    ``o = outcome[r] + k``; ``law`` has the law of each one's noise at the same position.
    """

    first_step: int
    kind: Integers  # (L,) the first row that is equal
    labels: Integers32  # (L, M) outcome of each location
    outcome: Integers  # (L,)
    start: Integers
    sensor: Integers  # numbers within the step
    law: Integers
    values: ValueTables
    is_repeated: bool  # whether all steps have equal releases


class Sampled(NamedTuple):
    """The people who are attacked: ``person[i]`` in the draws ``first[i]..first[i + 1] - 1``.

    ``guess`` is the best guess without any release for each slot in which the horizon begins, where
    ``is_known``.
    """

    person: Integers  # (P,)
    seed: Integers  # (P,)
    first: Integers  # (P + 1,)
    guess: Integers  # (P, slots, T) own places
    is_known: Flags  # (P, slots)


class OwnWindow(NamedTuple):
    """The steps used for a person: ``known`` steps of history from ``earliest`` on, then the horizon."""

    earliest: int
    known: int


@jit
def _own_window(accounts: Accounts, person: int, step: int) -> OwnWindow:
    """The window of the horizon that ends with ``step``; with an initial distribution it begins with that."""
    first, since = step - accounts.horizon.steps + 1, accounts.since[person]
    if has_initial_distribution(accounts.population, person):
        first = max(first, since)
    known = min(max(first - since, 0), HISTORY)
    return OwnWindow(first - known, known)


@jit
def _own_chain(accounts: Accounts, person: int, window: OwnWindow) -> LocalChain:
    """The person's chain from the window's first step on."""
    chain = chain_view(accounts.population, person)
    law, _ = laws_of_horizon(accounts, person, chain, window.earliest, window.earliest + window.known)
    return LocalChain(chain, law, account_slot(accounts, person, window.earliest))


@jit
def _own_rows(accounts: Accounts, person: int, window: OwnWindow, log: RecentLog) -> Integers:
    """The row of each step of the window, -1 where nothing is released that counts for the person."""
    rows = np.empty(window.known + accounts.horizon.steps, np.int64)
    for t in range(rows.size):
        step = window.earliest + t
        row = step - log.first_step
        rows[t] = row if step >= accounts.since[person] and 0 <= row < log.labels.shape[0] else -1
    return rows


@jit
def _own_step(
    log: RecentLog, row: int, places: Integers32, begin: int, law: Integers, counted: Flags, sensor: Integers
) -> int:
    """Fill in the person's releases of one step from position ``begin`` on; returns the end position.

    A release that counts all of the person's places shows the same noise wherever the person is, so it is
    left out. ``sensor`` is scratch.
    """
    end = begin
    for x in range(places.size):
        outcome = log.outcome[row] + log.labels[row, places[x]]
        for j in range(log.start[outcome], log.start[outcome + 1]):
            k = begin
            while k < end and sensor[k] != log.sensor[j]:
                k += 1
            if k == end:
                sensor[k], law[k] = log.sensor[j], log.law[j]
                counted[k] = False
                end += 1
            counted[k, x] = True
    kept = begin
    for k in range(begin, end):
        if not counted[k].all():
            law[kept] = law[k]
            counted[kept] = counted[k]
            kept += 1
    return kept


@jit
def _own_releases(log: RecentLog, rows: Integers, places: Integers32) -> OwnReleases:
    """The releases that distinguish between the person's places."""
    first, most = np.zeros(rows.size + 1, np.int64), 0
    for row in rows:
        for x in range(places.size if row >= 0 else 0):
            outcome = log.outcome[row] + log.labels[row, places[x]]
            most += log.start[outcome + 1] - log.start[outcome]
    law, sensor = np.empty(most, np.int64), np.empty(most, np.int64)
    counted = np.empty((most, places.size), np.bool_)
    found_at = np.full(log.kind.size, -1)  # where in the window a row of each kind came first
    for t in range(rows.size):
        begin = end = first[t]
        if rows[t] >= 0:
            kind = log.kind[rows[t]]
            if found_at[kind] < 0:
                found_at[kind] = t
                end = _own_step(log, rows[t], places, begin, law, counted, sensor)
            else:
                known, end_known = first[found_at[kind]], first[found_at[kind] + 1]
                end = begin + end_known - known
                law[begin:end] = law[known:end_known]
                counted[begin:end] = counted[known:end_known]
        first[t + 1] = end
    return OwnReleases(first, law[: first[-1]], counted[: first[-1]], log.values)


@jit
def _fill_guess(inside: LocalChain, horizon: LogHorizon, known_success: float, work: DrawWork) -> None:
    """Fill ``horizon.guess`` with a guess without any release that is as good as the best one known.

    ``inside`` starts with the horizon. The search's own guess is used unless the known one is better.
    """
    guess, mistakes = horizon.guess, horizon.mistakes
    whole = LogHorizon(0, guess.size - 1, mistakes, guess, horizon.vectors, 0, False)
    success = fill_prior_guess(inside, whole, work.posterior)
    if success < (1.0 - _ROUNDED) * known_success:
        guess[:] = prior_constants(inside, guess.size, mistakes, False).baseline.guess


@bare_jit
def _added_to(log: OwnLog, horizon: LogHorizon, draws: Draws, work: DrawWork) -> int:
    """What the attack adds in one draw, in 256ths."""
    begin_stream(draws, work.stream)
    walk(log.walker, work.stream, work.trace)
    draw_likelihoods(log.releases, work.trace, work.stream, work.likelihood)
    success = success_by_search(log.person, work.likelihood, horizon, work.posterior)
    added = min(1.0, max(0.0, success.attained - success.unmoved))
    return int(added * UNITS + uniform(work.stream))


@pjit(lambda added, sampled, *_: sampled.person.size, least=16)
def attack_people(
    begin: int, end: int, added: Integers, sampled: Sampled, accounts: Accounts, log: RecentLog, step: int
) -> None:
    """Fill ``added`` (draws,) with what the attack adds in each draw to the guess without releases.

    In 256ths. The horizon ends with ``step``, the last that was accounted. The random stream of a draw is
    named by the person's seed, the step (the first like it, where they are repeated) and the draw's number.
    People whose search would take too long are not attacked.
    """
    steps, mistakes, vectors = accounts.horizon.steps, accounts.horizon.mistakes, accounts.horizon.vectors
    is_repeated = log.is_repeated and log.labels.shape[0] == HISTORY + steps
    for i in range(begin, end):
        person, first, last = sampled.person[i], sampled.first[i], sampled.first[i + 1]
        added[first:last] = 0
        window = _own_window(accounts, person, step)
        rows = _own_rows(accounts, person, window, log)
        own = _own_chain(accounts, person, window)
        releases = _own_releases(log, rows, own.chain.places)
        expansions = affordable_expansions(own.chain, steps, mistakes, vectors)
        if releases.first[-1] == 0 or expansions == 0:
            continue
        own_log = OwnLog(own, new_walker(own), releases)
        slot = slot_of(own, window.known)
        horizon = LogHorizon(
            window.known, window.known + steps - 1, mistakes, sampled.guess[i, slot], expansions, 0, False
        )
        work = new_draw_work(own_log, horizon)
        has_start = has_initial_distribution(accounts.population, person)
        if has_start or not sampled.is_known[i, slot]:
            law = own.chain.start[slot]
            if has_start:
                law = marginals(own, window.known + 1)[window.known]
            _fill_guess(LocalChain(own.chain, law, slot), horizon, accounts.state.baseline[person], work)
            sampled.is_known[i, slot] = True
        is_settled = is_repeated and not has_start and window.known == HISTORY
        slots = int(accounts.population.slots[person])
        name = _REPEATED + step - step % (_CYCLES * slots) + step % slots if is_settled else step
        for j in range(first, last):
            draws = Draws(sampled.seed[i], name * _MOST_DRAWS + j - first, 1)
            added[j] = _added_to(own_log, horizon, draws, work)


# A ceiling by sampling is found as in :mod:`accounting.bounds.noised.sampled`: what a search bounds of each
# drawn posterior, less what the guess made without releases succeeds with. The adversary sees the whole
# recent log, and the place in its first step instead of all that was released before: given that place, what
# came before says nothing about later ones.

_SAMPLED_DRAWS = 2000
"""Of a person: what is then said of their added risk is 0.005 above its mean, less where noise is large."""

_SAMPLED_VECTORS = 64  # with which nearly every search ends by itself
_OPERATIONS = 100 * _SAMPLED_DRAWS  # a guessed step, times the cube of one more than may be wrong
_USUAL_MOVES = 50  # 30 moves among 10 places, each of which counts as two more


@jit
def _sampled_question(
    accounts: Accounts, person: int, step: int, log: RecentLog, is_told: bool
) -> tuple[OwnLog, LogHorizon]:
    """The person's recent log, and the horizon that ends with ``step``.

    It has no ``vectors`` where a search is too expensive, or the log does not reach back to its first step.
    """
    steps, mistakes = accounts.horizon.steps, accounts.horizon.mistakes
    window, since = _own_window(accounts, person, step), accounts.since[person]
    own = _own_chain(accounts, person, window)
    releases = _own_releases(log, _own_rows(accounts, person, window, log), own.chain.places)
    vectors = affordable_expansions(own.chain, steps, mistakes, _SAMPLED_VECTORS)
    if max(window.earliest, since) < log.first_step:
        vectors = 0
    last, guess = window.known + steps - 1, np.empty(steps, np.int64)
    shows_start = is_told or window.earliest > since
    horizon = LogHorizon(window.known, last, mistakes, guess, vectors, 0, shows_start)
    return OwnLog(own, new_walker(own), releases), horizon


def _looks(chain: ChainView) -> int:
    """How many people of usual size take as long as one of this chain."""
    slots, places = chain.start.shape
    return -(-(chain.value.size // slots + 2 * places) // _USUAL_MOVES)


class SampledAdded(NamedTuple):
    """What releases add to each person's risk at most, (N,): by sampling where the person was looked at."""

    added: Floats
    is_looked_at: Flags


_RANK_BITS = 56
_MOST_STEPS = 256  # a week of hours, each with sensors of its own, and more


class DrawnPart(NamedTuple):
    """Of a part with ``people`` people, those at ``person`` (P,) are attacked in ``draws`` draws each.

    The draws come from streams named by ``seed`` (P,), which does not depend on which process holds the
    person.
    """

    people: int
    person: Integers
    seed: Integers
    draws: int


def drawn_parts(shares: PeopleShares, draws: int, stands_for: Integers | None = None) -> list[DrawnPart]:
    """Choose the attacked people by rank alone: in each share, those of smallest rank get one draw each.

    Every share has an even part of the draws. If it has fewer people than draws, each person gets the same
    number of draws, which together are about as many. For example ranks 7, 5, 6 of one share: with 2 draws,
    persons 1 and 2 once each; with 8 draws, all three people three times. If names stand for several people
    (``stands_for``, (N,)), the people behind them are chosen.
    """
    each = max(1, draws // shares.count)
    order = np.lexsort((shares.rank, shares.share))
    begins = np.flatnonzero(np.diff(shares.share[order], prepend=-1))
    own = np.split(order, begins)[1:]
    if stands_for is not None:
        return [_part_of_personas(people, shares.rank, stands_for[people], each) for people in own]
    return [
        DrawnPart(people.size, people[:each], shares.rank[people[:each]], max(1, round(each / people.size)))
        for people in own
    ]


def _part_of_personas(personas: Integers, rank: Integers, behind: Integers, draws: int) -> DrawnPart:
    """People at even distances among those behind the personas, in the order of ranks (systematic sampling).

    So a persona is drawn in proportion to the people ``behind`` it. For example 2 draws of the 10 people
    behind personas of 7 and 3: one of the first five people, and the fifth after that one.
    """
    total = int(behind.sum())
    first = int(np.bitwise_xor.reduce(rank[personas]))  # where to begin, in 2^-56 of the distance
    places = [((k << _RANK_BITS) + first) * total // (draws << _RANK_BITS) for k in range(draws)]
    at = np.searchsorted(np.cumsum(behind), np.array(places), side="right")
    again = np.arange(draws) - np.searchsorted(at, at)
    return DrawnPart(total, personas[at], rank[personas[at]] + again, 1)


# The results of attacks, as whole numbers, so that parts of a population add up to the same bits in any
# order.


class AttackedPart(NamedTuple):
    """What each of the ``draws`` of a part with ``people`` people added to the guess without releases.

    ``added`` is in 256ths and rising; draws that added nothing are left out.
    """

    people: int
    draws: int
    added: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MeanAttack:
    """The mean success of the attack over people: the mean guess, plus what the draws added on average.

    The interval ``low..high`` misses the true mean with probability ``1 - confidence`` at most.
    """

    success: float
    low: float
    high: float
    confidence: float
    parts: tuple[AttackedPart, ...]

    @property
    def draws(self) -> int:
        """How many draws it rests on."""
        return sum(part.draws for part in self.parts)


def mean_attack(
    parts: Iterable[AttackedPart],
    guess: float,
    confidence: float,
    ceiling: float | None = None,
    step: int = 0,
) -> MeanAttack | None:
    """The mean success over all people after a step, at most the mean ``ceiling``; None without a draw.

    ``guess`` is the mean success of guesses without releases. Every part counts by its people, and the order
    of parts makes no difference. The interval bets on the draws (:func:`~accounting.numerics.mean_interval`)
    in an order that is independent of what they added.

    An estimate may be above the ceiling by chance; then the ceiling is shown. The true mean may not:
    :class:`~accounting.exceptions.AttackAboveCeilingError` if chance is no explanation. A run computes this
    after every step, so the test at step ``k`` has the share ``1 / ((k + 1) (k + 2))`` of an error
    probability of 1e-9. The shares sum to one, so a run of any length raises a false alarm with probability
    1e-9 at most.
    """
    drawn = tuple(sorted(parts))
    if not drawn:
        return None
    found = _mean_added(drawn, 1.0 - confidence)
    success, low, high = guess + found.mean, guess + found.low, guess + found.high
    most_shown = 1.0 if ceiling is None else ceiling
    if ceiling is not None and low > ceiling:
        share = (1.0 - PROVED) / ((step + 1) * (step + 2))
        proved = guess + _mean_added(drawn, share).low
        Tried("the attack beside the ceiling", proved).refuse_above("the account", ceiling)
    return MeanAttack(
        success=min(most_shown, success),
        low=min(most_shown, low, success),
        high=min(most_shown, max(high, success)),
        confidence=confidence,
        parts=drawn,
    )


class _MeanAdded(NamedTuple):
    """What draws added on average, and the interval of it."""

    mean: float
    low: float
    high: float


@lru_cache(_MOST_STEPS)
def _mean_added(drawn: tuple[AttackedPart, ...], failure_probability: float) -> _MeanAdded:
    """The mean over all people of what was added, and how far it may be off; parts count by their people."""
    people, draws = sum(part.people for part in drawn), sum(part.draws for part in drawn)
    shares = [Fraction(part.people * draws, people * part.draws) for part in drawn]
    most = max(shares)
    each = [_added(part) * float(share / most) for part, share in zip(drawn, shares, strict=True)]
    order = np.random.Generator(np.random.Philox(draws)).permutation(draws)
    found = mean_interval(np.concatenate(each)[order], failure_probability)
    total = sum(Fraction(part.people * sum(part.added), part.draws) for part in drawn)
    mean = float(total / (UNITS * people))
    return _MeanAdded(mean, max(0.0, found.low) * float(most), found.high * float(most))


def _added(part: AttackedPart) -> Floats:
    """What each draw added, first the draws that added something."""
    added = np.zeros(part.draws)
    added[: len(part.added)] = part.added
    return added / UNITS


# The recent log of the shadow adversary. The arrays of a step are made once and joined after each step.


class NotedStep(NamedTuple):
    """One step: ``size[k]`` sensors count outcome ``k``; ``sensor`` has their numbers, outcome after outcome.

    ``law`` is the number of each one's mechanism among the step's ``mechanisms``.
    """

    labels: Integers32  # (M,)
    size: Integers  # (outcomes,)
    sensor: Integers  # (S,)
    law: Integers  # (S,)
    mechanisms: tuple[Mechanism, ...]
    can_be_drawn: bool
    releases: tuple[SensorRelease, ...]


@lru_cache(_MOST_STEPS)
def noted(releases: tuple[SensorRelease, ...], location_count: int) -> NotedStep:
    """The step with these releases; the same object for equal releases, so that repeats are recognised."""
    step = observe(StepSchedule(0, releases), location_count)
    laws: dict[Mechanism, int] = {}
    law = np.array([laws.setdefault(each, len(laws)) for each in step.mechanisms], dtype=np.int64)
    sensor = np.array(list(chain.from_iterable(step.outcomes)), dtype=np.int64)
    size = np.array([len(sensors) for sensors in step.outcomes], dtype=np.int64)
    return NotedStep(step.labels, size, sensor, law[sensor], tuple(laws), step.can_be_drawn, releases)


def is_repeated(steps: Sequence[NotedStep]) -> bool:
    """Whether all of these steps have equal releases."""
    return all(each is steps[0] or each.releases == steps[0].releases for each in steps)


def recent_log(first_step: int, steps: Sequence[NotedStep]) -> RecentLog:
    """These steps, the first of which is ``first_step``, as the kernel reads them."""
    laws: dict[Mechanism, int] = {}
    law, first_of = [], dict[int, int]()
    for row, step in enumerate(steps):
        first_of.setdefault(id(step), row)
        number = np.array([laws.setdefault(each, len(laws)) for each in step.mechanisms], dtype=np.int64)
        law.append(number[step.law])
    size = np.concatenate([step.size for step in steps])
    outcomes = np.array([step.size.size for step in steps], dtype=np.int64)
    return RecentLog(
        first_step,
        np.array([first_of[id(step)] for step in steps], dtype=np.int64),
        np.stack([step.labels for step in steps]),
        np.cumsum(outcomes) - outcomes,
        np.concatenate((np.zeros(1, dtype=np.int64), np.cumsum(size))),
        np.concatenate([step.sensor for step in steps]),
        np.concatenate(law),
        noise_values(tuple(laws)),
        is_repeated(steps),
    )


def recent_step_count(horizon: int) -> int:
    """The number of last steps that the attack uses."""
    return HISTORY + horizon


class Shadow:
    """Attacks ``drawn`` people of an accountant; :meth:`note` every step that the accountant applies.

    ``confidence`` is that of the interval of :meth:`mean`.
    """

    def __init__(
        self, accountant: ContinuousAccountant, drawn: Sequence[DrawnPart], confidence: float = 0.95
    ) -> None:
        self._accountant = accountant
        account_of = accountant.by_account.of
        self._drawn = tuple(part._replace(person=account_of(part.person)) for part in drawn)
        self._begin_stretch()
        self._confidence = confidence
        self._last_step = -1
        self._steps: deque[NotedStep] = deque(maxlen=recent_step_count(accountant.settings.horizon))
        self._found: tuple[AttackedPart, ...] | None = None  # after the last step, once it was attacked
        self._is_attacked = False

    def take_over_log(self, other: Shadow) -> None:
        """Copy the noted steps from the shadow of other people."""
        self._last_step, self._is_attacked = other._last_step, False
        self._steps = other._steps.copy()

    def note(self, step: StepSchedule) -> None:
        """Keep a step for the next attack; steps come in order without gaps. Nothing is attacked yet."""
        if self._steps and step.step != self._last_step + 1:
            raise StepOrderError(
                f"the next step to note must be {self._last_step + 1}",
                step.step,
                "note steps in order, empty ones included",
            )
        self._steps.append(noted(step.releases, self._accountant.population.location_count))
        self._last_step, self._is_attacked = step.step, False

    def mean(self) -> MeanAttack | None:
        """The mean success of the attack over all people, at most the ceiling; None if none was tried.

        :class:`~accounting.exceptions.AttackAboveCeilingError` if it proves the ceiling wrong.
        """
        found = self.attack()
        if found is None:
            return None
        accountant = self._accountant
        guess = Ranked(accountant.account_baseline(), accountant.by_account.people).mean()
        return mean_attack(found, guess, self._confidence, accountant.mean_prior_risk(), self._last_step)

    def attack(self) -> tuple[AttackedPart, ...] | None:
        """The attack after the last step noted, which must be the last one accounted.

        None if steps share noise, which cannot be drawn from one step's law.
        """
        if self._last_step != self._accountant.next_step - 1:
            raise StepOrderError(
                f"the last step noted must be {self._accountant.next_step - 1}, the last accounted",
                self._last_step,
                "note every step that is applied",
            )
        if not self._is_attacked:
            can_be_drawn = self._steps and all(step.can_be_drawn for step in self._steps)
            self._found = self._attack() if can_be_drawn else None
            self._is_attacked = True
        return self._found

    def sampled(self, above: float, is_over: Flags) -> SampledAdded | None:
        """Ceilings by sampling, after the last step, of people to whom more than this may have been added.

        And of those over a limit (N,); in each share the highest added risk first, as far as a quarter of the
        work of a step goes. Where that is too little for one person a share, shares take turns. All hold
        together with the shadow's confidence. None where no step has noise, as certain ceilings are close
        then, and where steps share it.
        """
        is_noised = any(not each.is_exact for step in self._steps for each in step.mechanisms)
        if not is_noised or not all(step.can_be_drawn for step in self._steps):
            return None
        accountant, shares = self._accountant, self._accountant.people_shares
        added, baseline = accountant.added(), accountant.baseline()
        account = accountant.by_account.of(np.arange(added.size))
        together, most = self._sampled_at_most(added.size)
        chosen = np.flatnonzero((added > above) | is_over)
        chosen = chosen[np.lexsort((shares.rank[chosen], -added[chosen], shares.share[chosen]))]
        groups = shares.share[chosen] * len(accountant.population) + account[chosen]
        _, first, group = np.unique(groups, return_index=True, return_inverse=True)
        found = SampledAdded(added.copy(), np.zeros(added.size, np.bool_))
        log = recent_log(self._last_step - len(self._steps) + 1, self._steps)
        failure = (1.0 - self._confidence) / max(1, together)
        looked_at = np.zeros(shares.count, np.int64)
        chains, draws = accountant.view().accounts.population, accountant.population.draws
        for place in np.sort(first):
            person = chosen[place]
            share = shares.share[person]
            work = looked_at[share] + _looks(chain_view(chains, int(account[person]) * draws))
            is_first = looked_at[share] == 0 and most[share] > 0
            if not is_first and work > most[share]:
                continue
            looked_at[share] = work
            success = self._sampled_success(log, account[person], int(shares.rank[person]), failure)
            alike = chosen[group == group[place]]
            found.is_looked_at[alike] = True
            found.added[alike] = np.clip(success - baseline[alike], 0.0, added[alike])
        return found

    def _sampled_at_most(self, people: int) -> tuple[int, Floats]:
        """How many are looked at together, and so many people of usual size in each share, (shares,)."""
        settings, count = self._accountant.settings, self._accountant.people_shares.count
        if settings.operations is None:
            return people * count, np.full(count, np.inf)
        each = _OPERATIONS * settings.horizon * (settings.mistakes + 1) ** 3
        together = settings.operations // (4 * each)
        turn = (np.arange(count) - self._last_step * together) % count
        return together, together // count + (turn < together % count).astype(np.float64)

    def _sampled_success(self, log: RecentLog, account: int, rank: int, failure: float) -> float:
        """What no adversary exceeds at the person's horizon, by sampling; 1 where that is not found.

        Each draw is of one of the chains that stand for the person, whose mean this bounds.
        """
        accountant = self._accountant
        accounts, chains, step = accountant.view().accounts, accountant.population.draws, self._last_step
        is_told = bool(accountant.told_accounts[account])
        if is_told and step - accountant.settings.horizon + 1 < accounts.since[account * chains]:
            return 1.0  # the horizon begins before anything is known of the person
        drawn = np.random.Generator(np.random.Philox([rank, step])).integers(0, chains, _SAMPLED_DRAWS)
        without, added = 0.0, np.empty(_SAMPLED_DRAWS)
        for number in range(chains):
            own, horizon = _sampled_question(accounts, account * chains + number, step, log, is_told)
            if horizon.vectors == 0:
                return 1.0
            is_own = drawn == number
            seed = int(np.random.SeedSequence([rank, step, number]).generate_state(1, np.uint64)[0] >> 1)
            judged = judged_draws(own, horizon, int(is_own.sum()), seed)
            without += judged.without / chains
            added[is_own] = judged.added
        return success_of(without, added, failure)

    def _begin_stretch(self) -> None:
        """Forget what depends on the slots: guesses, and what attacks on repeated steps found."""
        population = self._accountant.view().accounts.population
        self._sampled, self._stretch = _sampled(self._drawn, self._accountant), self._accountant.stretch
        attacked = self._sampled.person
        self._slots = np.unique(population.slots[attacked])
        self._is_stationary = bool((np.diff(population.initial_start)[attacked] == 0).all())
        self._repeated: dict[int, tuple[NotedStep, bytes, tuple[AttackedPart, ...]]] = {}

    def _is_settled(self) -> bool:
        """Whether only the slot distinguishes the last horizon of those attacked from the one before."""
        if not self._is_stationary or len(self._steps) < (self._steps.maxlen or 0):
            return False
        since = self._accountant.view().accounts.since[self._sampled.person]
        begin = self._last_step - len(self._steps) + 1
        return bool((since <= begin).all()) and is_repeated(self._steps)

    def _attack(self) -> tuple[AttackedPart, ...]:
        if self._stretch != self._accountant.stretch:
            self._begin_stretch()
        slot, is_settled = self._last_step % lcm(*self._slots.tolist()), self._is_settled()
        cycles, last = (self._last_step // (_CYCLES * self._slots)).tobytes(), self._steps[-1]
        if is_settled and slot in self._repeated:
            step, of_cycles, found = self._repeated[slot]
            if step is last and of_cycles == cycles:
                return found
        sampled = self._sampled
        added = np.zeros(int(sampled.first[-1]), np.int64)
        log = recent_log(self._last_step - len(self._steps) + 1, self._steps)
        attack_people(added, sampled, self._accountant.view().accounts, log, self._last_step)
        ends = np.cumsum([part.person.size * part.draws for part in self._drawn])
        found = tuple(
            AttackedPart(part.people, own.size, tuple(np.sort(own[own > 0]).tolist()))
            for part, own in zip(self._drawn, np.split(added, ends), strict=False)
        )
        if is_settled:
            self._repeated[slot] = last, cycles, found
        return found


def _sampled(parts: Sequence[DrawnPart], accountant: ContinuousAccountant) -> Sampled:
    """The draws of each part; those of a person are spread over the chains that stand for the person.

    With 3 chains, 5 draws and seed 7, the person's chains 1, 2 and 0 are drawn 2, 2 and 1 times.
    """
    person, seed, draws = [], [], []
    chains = accountant.population.draws
    for part in parts:
        drawn = np.arange(min(chains, part.draws))
        chain = (part.seed[:, np.newaxis] + drawn) % chains
        person.append((part.person[:, np.newaxis] * chains + chain).reshape(-1))
        seed.append((part.seed[:, np.newaxis] * chains + chain).reshape(-1))
        each = part.draws // drawn.size + (drawn < part.draws % drawn.size)
        draws.append(np.tile(each, part.person.size))
    attacked = np.concatenate([np.empty(0, np.int64), *person])
    slots = int(accountant.view().accounts.population.slots[attacked].max(initial=1))
    return Sampled(
        attacked,
        np.concatenate([np.empty(0, np.int64), *seed]),
        np.concatenate([[0], *draws]).cumsum().astype(np.int64),
        np.zeros((attacked.size, slots, accountant.settings.horizon), np.int64),
        np.zeros((attacked.size, slots), np.bool_),
    )

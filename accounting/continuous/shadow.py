"""A shadow adversary: what an attack on drawn people achieves while a run goes on, beside the ceiling."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import chain
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds import Tried
from accounting.bounds.noised.posterior_kernel import (
    DrawWork,
    LogHorizon,
    OwnLog,
    fill_prior_guess,
    new_draw_work,
    success_by_search,
)
from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.continuous.accounts_kernel import HISTORY, Accounts, account_slot, has_initial_distribution
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
from models.numerics.jit import bare_jit, jit, pjit
from models.priors.chain import LocalChain, chain_view, slot_of
from models.releases import SensorRelease, StepSchedule

# One attack a draw: a trajectory from the prior, releases as they were decided, a guess of the horizon.
#
# Of each draw only what the attack adds is kept. With ``y`` the drawn releases, ``v(y)`` the posterior
# success of the best guess found and ``z(y)`` that of the best guess made without any release, the attack
# succeeds with
#
#     E max(v, z) = (prior success of that guess) + E max(0, v - z),
#
# and the first of the two is known exactly. Releases older than the recent log are not seen, and those that
# are due after the horizon have not been made: an attack may do without.

UNITS = 256
"""An added success is kept as one of its two neighbours among the 256ths, drawn so that its mean is kept."""

_MOST_DRAWS = 1 << 24  # of one person in one step
_ROUNDED = 1e-9  # what rounding can make of the difference between two ways to one success


class RecentLog(NamedTuple):
    """The last ``L`` steps as they were decided; row 0 is step ``first_step``.

    Rows of the same ``kind`` are equal: what concerns a person in one of them does so in all.
    Outcome ``k`` of row ``r`` is counted by ``sensor[start[o]:start[o + 1]]`` with ``o = outcome[r] + k``;
    the noise of each of them has the law ``law`` of the same position.
    """

    first_step: int
    kind: NDArray[np.int64]  # (L,) the first row that is equal
    labels: NDArray[np.int32]  # (L, M) outcome of each location
    outcome: NDArray[np.int64]  # (L,)
    start: NDArray[np.int64]
    sensor: NDArray[np.int64]  # numbers within the step
    law: NDArray[np.int64]
    values: ValueTables


class Sampled(NamedTuple):
    """Who is attacked: ``person[i]`` in the draws ``first[i]..first[i + 1] - 1``.

    ``guess`` is the one made without any release, by the slot in which the horizon begins, once it is known.
    """

    person: NDArray[np.int64]  # (P,)
    seed: NDArray[np.int64]  # (P,)
    first: NDArray[np.int64]  # (P + 1,)
    guess: NDArray[np.int64]  # (P, slots, T) own places
    is_known: NDArray[np.bool_]  # (P, slots)


class OwnWindow(NamedTuple):
    """What of the log concerns a person: so many ``known`` steps from ``earliest``, then the horizon."""

    earliest: int
    known: int


@jit
def _own_window(accounts: Accounts, person: int, step: int) -> OwnWindow:
    """The horizon that ends with ``step``; an initial distribution's never begins before the person's own."""
    first, since = step - accounts.horizon.steps + 1, accounts.since[person]
    if has_initial_distribution(accounts.population, person):
        first = max(first, since)
    known = min(max(first - since, 0), HISTORY)
    return OwnWindow(first - known, known)


@jit
def _own_chain(accounts: Accounts, person: int, window: OwnWindow) -> LocalChain:
    """The person's chain from the window's first step on."""
    chain = chain_view(accounts.population, person)
    slot = account_slot(accounts, person, window.earliest)
    start = chain.start[slot]
    if has_initial_distribution(accounts.population, person):
        own = accounts.population.initial_start[person]
        now = accounts.nonstationary
        law = now.earliest if window.known > 0 else now.first
        start = law[own : own + start.size]
    return LocalChain(chain, start, slot)


@jit
def _own_rows(accounts: Accounts, person: int, window: OwnWindow, log: RecentLog) -> NDArray[np.int64]:
    """The row of each step of the window, -1 where nothing is released that counts for the person."""
    rows = np.empty(window.known + accounts.horizon.steps, np.int64)
    for t in range(rows.size):
        step = window.earliest + t
        row = step - log.first_step
        rows[t] = row if step >= accounts.since[person] and 0 <= row < log.labels.shape[0] else -1
    return rows


@jit
def _own_step(
    log: RecentLog,
    row: int,
    places: NDArray[np.int32],
    begin: int,
    law: NDArray[np.int64],
    counted: NDArray[np.bool_],
    sensor: NDArray[np.int64],
) -> int:
    """Those of one step, from number ``begin`` on; the number behind the last. ``sensor`` is scratch."""
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
def _own_releases(log: RecentLog, rows: NDArray[np.int64], places: NDArray[np.int32]) -> OwnReleases:
    """The releases that tell the places apart; one that counts all of them shows the same noise anywhere."""
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
    """Fill ``horizon.guess`` with a guess made without any release that is as good as the best one known.

    ``inside`` starts with the horizon.
    """
    guess, mistakes = horizon.guess, horizon.mistakes
    whole = LogHorizon(0, guess.size - 1, mistakes, guess, horizon.vectors, 0)
    success = fill_prior_guess(inside, whole, work.posterior)
    if success < (1.0 - _ROUNDED) * known_success:
        guess[:] = prior_constants(inside, guess.size, mistakes, False).baseline.guess


@bare_jit
def _added_to(log: OwnLog, horizon: LogHorizon, draws: Draws, work: DrawWork) -> int:
    """What the attack adds in one draw, in units."""
    begin_stream(draws, work.stream)
    walk(log.walker, work.stream, work.trace)
    draw_likelihoods(log.releases, work.trace, work.stream, work.likelihood)
    success = success_by_search(log.person, work.likelihood, horizon, work.posterior)
    added = min(1.0, max(0.0, success.attained - success.unmoved))
    return int(added * UNITS + uniform(work.stream))


@pjit(lambda added, sampled, *_: sampled.person.size, least=16)
def attack_people(
    begin: int,
    end: int,
    added: NDArray[np.int64],
    sampled: Sampled,
    accounts: Accounts,
    log: RecentLog,
    step: int,
) -> None:
    """Fill ``added`` (draws,) with what the attack adds to the guess in each draw, in units.

    The horizon ends with ``step``, the last that was accounted. A draw's stream is named by the person's
    seed, the step and its number among the person's. Whose search would take too long is not attacked.
    """
    steps, mistakes, vectors = accounts.horizon.steps, accounts.horizon.mistakes, accounts.horizon.vectors
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
            window.known, window.known + steps - 1, mistakes, sampled.guess[i, slot], expansions, 0
        )
        work = new_draw_work(own_log, horizon)
        has_start = has_initial_distribution(accounts.population, person)
        if has_start or not sampled.is_known[i, slot]:
            law = own.chain.start[slot]
            if has_start:
                law = marginals(own, window.known + 1)[window.known]
            _fill_guess(LocalChain(own.chain, law, slot), horizon, accounts.state.baseline[person], work)
            sampled.is_known[i, slot] = True
        for j in range(first, last):
            draws = Draws(sampled.seed[i], step * _MOST_DRAWS + j - first, 1)
            added[j] = _added_to(own_log, horizon, draws, work)


# The shadow adversary of a run: it attacks drawn people after every step, and sees no count.
#
# Trajectories are drawn from people's priors, releases from the schedule and its mechanisms as they were
# decided. So what it shows is a function of priors and schedule, like the ceiling it stands beside, and
# reveals nothing about anybody. Its memory are the steps of the last horizon and of as much history before
# as the refined bounds follow; what was released earlier it does not use.

# Whom the shadow adversary attacks, and how often: chosen by name, whatever else is known of anybody.

_RANK_BITS = 56


class DrawnPart(NamedTuple):
    """Of a part of so many ``people`` those at ``person`` (P,), each attacked in so many ``draws``.

    The draws come from streams named by ``seed`` (P,), which belongs to a person wherever the person is held.
    """

    people: int
    person: NDArray[np.int64]
    seed: NDArray[np.int64]
    draws: int


def drawn_parts(
    shares: PeopleShares, draws: int, stands_for: NDArray[np.int64] | None = None
) -> list[DrawnPart]:
    """An even part of the draws for every share: its people of smallest rank, one draw each.

    If a share has fewer people than draws, everybody is drawn equally often, so that all draws together are
    about as many. For example ranks 7, 5, 6 of one share: with 2 draws persons 1 and 2 once each, with 8
    draws all three people three times. Where a person ``stands_for`` (N,) several, the people behind are
    drawn.
    """
    each = max(1, draws // shares.count)
    order = np.lexsort((shares.rank, shares.share))
    begins = np.flatnonzero(np.diff(shares.share[order], prepend=-1))
    own = np.split(order, begins)[1:]
    if stands_for is not None:
        return [_part_of_personas(people, shares.rank, stands_for[people], each) for people in own]
    return [_part(people, shares.rank, each) for people in own]


def _part(people: NDArray[np.int64], rank: NDArray[np.int64], draws: int) -> DrawnPart:
    chosen = people[:draws].copy()
    return DrawnPart(people.size, chosen, rank[chosen], max(1, round(draws / people.size)))


def _part_of_personas(
    personas: NDArray[np.int64], rank: NDArray[np.int64], behind: NDArray[np.int64], draws: int
) -> DrawnPart:
    """People behind the personas at even distances, in the order of ranks; the ranks decide where to begin.

    So a persona is drawn in proportion to the people ``behind`` it. For example 2 draws of the 10 people
    behind personas of 7 and 3: one of the first five people and the fifth after that one.
    """
    total = int(behind.sum())
    first = int(np.bitwise_xor.reduce(rank[personas]))  # of 2^56: which part of the way to the next one
    places = [((k << _RANK_BITS) + first) * total // (draws << _RANK_BITS) for k in range(draws)]
    at = np.searchsorted(np.cumsum(behind), np.array(places), side="right")
    again = np.arange(draws) - np.searchsorted(at, at)
    return DrawnPart(total, personas[at], rank[personas[at]] + again, 1)


# How drawn attacks went, in whole numbers, so that parts of a population add up to the same bits.

_HALF = 20
_EXACT = float(1 << 2 * _HALF)  # sums of people's rounded shares are exact


class AttackedPart(NamedTuple):
    """Of a part of so many ``people``: what so many ``draws`` added to the guess without releases.

    In 256ths, rising; draws that added nothing are left out of ``added``.
    """

    people: int
    draws: int
    added: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class MeanAttack:
    """The mean success of the attack over people: the mean guess, and what the draws say is added to it.

    ``low..high`` misses it with probability ``1 - confidence`` at most.
    """

    success: float
    low: float
    high: float
    confidence: float
    parts: tuple[AttackedPart, ...]

    @property
    def draws(self) -> int:
        """How many it rests on."""
        return sum(part.draws for part in self.parts)


class MeanCeiling(NamedTuple):
    """The mean over the same people of what no method exceeds under the prior, after a step."""

    value: float
    step: int


class PriorGuesses(NamedTuple):
    """How often guesses without releases succeed, (G,), of so many ``people`` (G,) each."""

    baseline: NDArray[np.float64]
    people: NDArray[np.int64]

    @property
    def mean(self) -> float:
        """Over people; the same bits in whatever order and groups they come."""
        rounded = np.rint(self.baseline * _EXACT).astype(np.int64)
        high, low = rounded >> _HALF, rounded & ((1 << _HALF) - 1)  # so that no product is beyond 64 bits
        total = (int((high * self.people).sum()) << _HALF) + int((low * self.people).sum())
        return total / (_EXACT * int(self.people.sum()))


def mean_attack(
    parts: Iterable[AttackedPart],
    guesses: PriorGuesses,
    confidence: float,
    ceiling: MeanCeiling | None = None,
) -> MeanAttack | None:
    """The mean over all people, at most the ``ceiling``; None without a draw.

    Every part counts by its people; in which order they come makes no difference. The interval is a bet on
    the draws in an order that has nothing to do with them.

    An estimate may be above the ceiling by luck, the truth may not: what is shown is then the ceiling. But
    :class:`~accounting.exceptions.AttackAboveCeilingError` where luck is no explanation. A run asks this
    after every step, so step ``k`` has the share ``1 / ((k + 1) (k + 2))`` of a probability of 1e-9: they
    sum to one, and one run in a thousand million, however long, raises a false alarm.
    """
    drawn = tuple(sorted(parts))
    if not drawn:
        return None
    people, draws = sum(part.people for part in drawn), sum(part.draws for part in drawn)
    shares = [Fraction(part.people * draws, people * part.draws) for part in drawn]
    most = max(shares)
    each = [_added(part) * float(share / most) for part, share in zip(drawn, shares, strict=True)]
    order = np.random.Generator(np.random.Philox(draws)).permutation(draws)
    values = np.concatenate(each)[order]
    found = mean_interval(values, 1.0 - confidence)
    guess = guesses.mean
    total = sum(Fraction(part.people * sum(part.added), part.draws) for part in drawn)
    success = guess + float(total / (UNITS * people))
    low, high = guess + max(0.0, found.low) * float(most), guess + found.high * float(most)
    most_shown = 1.0 if ceiling is None else ceiling.value
    if ceiling is not None and low > ceiling.value:
        share = (1.0 - PROVED) / ((ceiling.step + 1) * (ceiling.step + 2))
        proved = guess + max(0.0, mean_interval(values, share).low) * float(most)
        Tried("the attack beside the ceiling", proved).refuse_above("the account", ceiling.value)
    return MeanAttack(
        success=min(most_shown, success),
        low=min(most_shown, low, success),
        high=min(most_shown, max(high, success)),
        confidence=confidence,
        parts=drawn,
    )


def _added(part: AttackedPart) -> NDArray[np.float64]:
    """What each draw added, those that added something first."""
    added = np.zeros(part.draws)
    added[: len(part.added)] = part.added
    return added / UNITS


# The recent log of the shadow adversary: arrays made once a step, and put together after each.

_MOST_STEPS = 256  # a week of hours, each with sensors of its own, and more


class NotedStep(NamedTuple):
    """One step: ``size[k]`` sensors count outcome ``k``, numbered in ``sensor``, one outcome after the other.

    ``law`` is the number of each one's noise among the step's ``mechanisms``.
    """

    labels: NDArray[np.int32]  # (M,)
    size: NDArray[np.int64]  # (outcomes,)
    sensor: NDArray[np.int64]  # (S,)
    law: NDArray[np.int64]  # (S,)
    mechanisms: tuple[Mechanism, ...]
    can_be_drawn: bool


@lru_cache(_MOST_STEPS)
def noted(releases: tuple[SensorRelease, ...], location_count: int) -> NotedStep:
    """A step with these releases; the same object when they come again."""
    step = observe(StepSchedule(0, releases), location_count)
    laws: dict[Mechanism, int] = {}
    law = np.array([laws.setdefault(each, len(laws)) for each in step.mechanisms], dtype=np.int64)
    sensor = np.array(list(chain.from_iterable(step.outcomes)), dtype=np.int64)
    size = np.array([len(sensors) for sensors in step.outcomes], dtype=np.int64)
    return NotedStep(step.labels, size, sensor, law[sensor], tuple(laws), step.can_be_drawn)


def recent_log(first_step: int, steps: Sequence[NotedStep]) -> RecentLog:
    """These steps, the first of which is ``first_step``, in the form the kernel reads."""
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
    )


def recent_step_count(horizon: int) -> int:
    """How many of the last steps the attack uses."""
    return HISTORY + horizon


class Shadow:
    """Attacks ``drawn`` people of an accountant; :meth:`note` every step that the accountant applies.

    ``confidence`` is that of the interval of :meth:`mean`.
    """

    def __init__(
        self, accountant: ContinuousAccountant, drawn: Sequence[DrawnPart], confidence: float = 0.95
    ) -> None:
        self._accountant = accountant
        whose = accountant.by_account
        self._drawn = tuple(part._replace(person=whose.of(part.person)) for part in drawn)  # their accounts
        self._sampled = _sampled(self._drawn, accountant)
        self._confidence = confidence
        self._last_step = -1
        self._steps: deque[NotedStep] = deque(maxlen=recent_step_count(accountant.settings.horizon))
        self._found: tuple[AttackedPart, ...] | None = None  # after the last step, once it was attacked
        self._is_attacked = False

    def take_over_log(self, other: Shadow) -> None:
        """Take over the steps that the shadow of other people has noted."""
        self._last_step, self._is_attacked = other._last_step, False
        self._steps = other._steps.copy()

    def note(self, step: StepSchedule) -> None:
        """Remember a step; steps come in order without gaps. Nothing is attacked yet."""
        if self._steps and step.step != self._last_step + 1:
            raise StepOrderError(
                f"the next step to remember must be {self._last_step + 1}",
                step.step,
                "note steps in order, empty ones included",
            )
        self._steps.append(noted(step.releases, self._accountant.population.location_count))
        self._last_step, self._is_attacked = step.step, False

    def mean(self) -> MeanAttack | None:
        """The mean success of the attack over everybody, at most the ceiling; None where none was tried.

        :class:`~accounting.exceptions.AttackAboveCeilingError` where it proves the ceiling wrong.
        """
        found = self.attack()
        if found is None:
            return None
        guesses = self._accountant.account_baseline(), self._accountant.by_account.people
        ceiling = MeanCeiling(self._accountant.mean_prior_risk(), self._last_step)
        return mean_attack(found, PriorGuesses(*guesses), self._confidence, ceiling)

    def attack(self) -> tuple[AttackedPart, ...] | None:
        """How the attack goes after the last step noted, which is the last one accounted.

        None where noise is shared by steps, which cannot be drawn from one step's law.
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

    def _attack(self) -> tuple[AttackedPart, ...]:
        sampled = self._sampled
        added = np.zeros(int(sampled.first[-1]), np.int64)
        log = recent_log(self._last_step - len(self._steps) + 1, self._steps)
        attack_people(added, sampled, self._accountant.view().accounts, log, self._last_step)
        ends = np.cumsum([part.person.size * part.draws for part in self._drawn])
        return tuple(
            AttackedPart(part.people, own.size, tuple(np.sort(own[own > 0]).tolist()))
            for part, own in zip(self._drawn, np.split(added, ends), strict=False)
        )


def _sampled(parts: Sequence[DrawnPart], accountant: ContinuousAccountant) -> Sampled:
    """The draws of each part; a person's are spread over the chains that stand for the person.

    With 3 chains and 5 draws of the person whose stream is 7, chains 1, 2 and 0 are drawn 2, 2 and 1 times.
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
    whose = np.concatenate([np.empty(0, np.int64), *person])
    slots = int(accountant.population.accounted.arrays.slots[whose].max(initial=1))
    return Sampled(
        whose,
        np.concatenate([np.empty(0, np.int64), *seed]),
        np.concatenate([[0], *draws]).cumsum().astype(np.int64),
        np.zeros((whose.size, slots, accountant.settings.horizon), np.int64),
        np.zeros((whose.size, slots), np.bool_),
    )

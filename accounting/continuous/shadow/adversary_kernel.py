"""One attack a draw: a trajectory from the prior, releases as they were decided, a guess of the horizon.

Of each draw only what the attack adds is kept. With ``y`` the drawn releases, ``v(y)`` the posterior success
of the best guess found and ``z(y)`` that of the best guess made without any release, the attack succeeds with

    E max(v, z) = (prior success of that guess) + E max(0, v - z),

and the first of the two is known exactly. Releases older than the recent log are not seen, and
those that are due after the horizon have not been made: an attack may do without.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.posterior_kernel import (
    DrawWork,
    LogHorizon,
    OwnLog,
    fill_prior_guess,
    new_draw_work,
    success_by_search,
)
from accounting.continuous.accounts_kernel import HISTORY, Accounts, account_slot, has_initial_distribution
from accounting.exposure.drawing.noised_steps_kernel import OwnReleases, ValueTables, draw_likelihoods
from accounting.exposure.drawing.random_draws_kernel import Draws, begin_stream, new_walker, uniform, walk
from accounting.exposure.prior_constants_kernel import prior_constants
from accounting.hmm.frontier.search_kernel import affordable_expansions
from accounting.hmm.local_chain_kernel import LocalChain, slot_of
from accounting.hmm.propagation import marginals
from models.numerics.jit import bare_jit, jit, pjit
from models.priors.chain import chain_view

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
def _added(log: OwnLog, horizon: LogHorizon, draws: Draws, work: DrawWork) -> int:
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
                law = marginals(own.chain, own.start, own.first_slot, window.known + 1)[window.known]
            _fill_guess(LocalChain(own.chain, law, slot), horizon, accounts.state.baseline[person], work)
            sampled.is_known[i, slot] = True
        for j in range(first, last):
            draws = Draws(sampled.seed[i], step * _MOST_DRAWS + j - first, 1)
            added[j] = _added(own_log, horizon, draws, work)

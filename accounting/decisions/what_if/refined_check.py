"""Refined bounds, as far as the work of a step goes, for people whom the fast bound puts over the limit."""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.continuous import AccountantView, ChainPositions, UnitPositions, Units
from accounting.continuous.accounts_kernel import HISTORY, MEMORY, UNITS_PER_NAT, Accounts, account_slot
from accounting.continuous.crowd import (
    ONE_LEVEL,
    CrowdAccount,
    Levels,
    decided_with,
    is_within_by_levels,
    level_horizon,
    with_vectors,
)
from accounting.continuous.payer import Payer
from accounting.continuous.refine_kernel import (
    LEAST_OPERATIONS,
    count_hits,
    exact_divergence,
    find_operations,
    least_exact_bound,
    raw_horizon,
)
from accounting.decisions.what_if.limits_kernel import (
    BEYOND_FAST,
    UNLIMITED,
    Limits,
    ProposedTerms,
    look_ahead,
    look_back,
    new_outlook,
)
from accounting.exposure.crowd import StepCrowd
from accounting.exposure.step_information import followed_by, observe, seen_exactly
from accounting.exposure.step_information.likelihood_levels import SeenSteps
from accounting.numerics import packed_positions
from accounting.settings import RiskBudget
from models.numerics.jit import inline, pjit
from models.releases import StepSchedule

# The refined bounds in advance, for people whom the fast bound puts over a limit.
#
# Unlike the fast bound, the refined bounds may rise in silence: a horizon that slides on may lose its least
# certain step. So every horizon from now on is checked, as if silence followed, with the same bound that the
# accountant will compute for it then.
#
# For example horizon T = 2, a limit of 100 units or a risk of 0.2, a step with ``c = u = 50``, a cycle of one
# slot:
#     {last, next}:        70 units in silence and 50 more: refined, risk 0.15 with both steps raw: within the
#     limit {next, next + 1}:    it carries 30, which makes 80 with the 50: cleared by the fast bound {next +
#     1, ..}:      it carries at most 40: cleared, and so are all later horizons
# The headroom is unlimited, because no horizon was cleared by its ``c``. If {last, next} were refined to 0.25
# only, the headroom would be -1: over the limit.


class Unclear(NamedTuple):
    """The horizons that the fast bound does not clear, by how many steps after the next one they begin."""

    ahead: NDArray[np.int64]  # (n,) steps
    carried: NDArray[np.float64]  # (n,) carried information, units
    headroom: (
        int  # the largest ``c`` of the next step that keeps all other horizons within their limits, or -1
    )


@inline
def unclear_horizons(
    accounts: Accounts, limits: Limits, next_step: int, terms: ProposedTerms, k: int
) -> Unclear:
    """The coming horizons that the fast bound does not clear for person ``k`` of ``terms``.

    The step has the terms ``c`` and ``u``, and silence follows. Once the whole followed history is silence,
    horizons differ only by their slot and by what they carry, which never rises. So one cycle of them is
    enough.
    """
    person, conditional, unconditioned = terms.people[k], terms.conditional[k], terms.unconditioned[k]
    state, constants, horizon = accounts.state, accounts.constants, accounts.horizon.steps
    slots, cycle = int(accounts.population.slots[person]), limits.ahead[person]
    first = next_step - horizon + 1
    outlook = new_outlook(horizon, HISTORY + cycle + 1)
    look_back(state, outlook, next_step, person)
    running, known, headroom = state.running[person], state.information[person], UNLIMITED
    ahead_of = np.empty(horizon + HISTORY + cycle, np.int64)
    carried_by = np.empty(ahead_of.size)
    count, is_changed = 0, False
    for ahead in range(ahead_of.size):
        position = MEMORY + ahead
        slot = (accounts.horizon.first_slot + first + ahead) % slots
        phase = constants.phase_start[person] + slot
        is_changed |= limits.is_changed[slot]
        entropy = float(constants.entropy_units[phase])
        look_ahead(outlook, constants, phase, position, entropy, float(unconditioned))
        carried, limit = outlook.carried[position], limits.information[phase]
        if ahead < horizon - 1:
            running -= state.conditional[(first + ahead) % horizon, person]
            known = min(known, int(min(carried + outlook.unconditioned[position], entropy)) + running)
            if known + conditional <= limit:
                headroom = min(headroom, limit - known)
                continue
        else:
            carried = min(outlook.line[position] + outlook.slope[position] * unconditioned, entropy)
            revealed = unconditioned if position == outlook.now else 0
            amount = min(carried + revealed, entropy)
            if is_changed and ahead == ahead_of.size - 1 and amount > limits.later[person]:
                headroom = -1
            if amount <= limit:
                continue
        ahead_of[count], carried_by[count] = ahead, carried
        count += 1
    return Unclear(ahead_of[:count], carried_by[:count], headroom)


@inline
def refined_headroom(
    accounts: Accounts,
    limits: Limits,
    next_step: int,
    labels: NDArray[np.int32],
    terms: ProposedTerms,
    k: int,
) -> int:
    """The largest ``c`` of the next step that keeps all coming horizons of person ``k`` within their limits.

    -1 if the ``c`` and ``u`` in ``terms`` are already too much. ``labels`` (2 HISTORY + 2 T + C, M) are those
    of the last horizon and its history without the earliest step, of the next step, and of silence.
    """
    person, horizon = terms.people[k], accounts.horizon.steps
    first = next_step - horizon + 1
    unclear = unclear_horizons(accounts, limits, next_step, terms, k)
    if unclear.headroom < 0:
        return -1
    for j in range(unclear.ahead.size):
        ahead = unclear.ahead[j]
        phase = accounts.constants.phase_start[person] + account_slot(accounts, person, first + ahead)
        limit = limits.risk[phase]
        if limit < accounts.horizon.refined_from:  # the accountant will not refine a risk this low
            return -1
        window = labels[ahead : ahead + HISTORY + horizon]
        raw = raw_horizon(accounts, person, first + ahead, window)
        divergence = exact_divergence(accounts, person, raw, unclear.carried[j] / UNITS_PER_NAT)
        if min(least_exact_bound(raw, accounts.horizon), divergence) > limit:
            return -1
    return unclear.headroom


@pjit(lambda accounts, limits, terms, *_: terms.people.size)
def find_refined_headroom(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    terms: ProposedTerms,
    next_step: int,
    labels: NDArray[np.int32],
    headroom: NDArray[np.int64],
) -> None:
    """Fill ``headroom`` (n,) with the :func:`refined_headroom` of each of the people of ``terms``."""
    for k in range(begin, end):
        headroom[k] = refined_headroom(accounts, limits, next_step, labels, terms, k)


# The same against the crowd adversary, with the bound at levels (:mod:`accounting.continuous.crowd`).


@inline
def is_within(
    accounts: Accounts, limits: Limits, next_step: int, levels: Levels, terms: ProposedTerms, k: int
) -> bool:
    """Whether all coming horizons of person ``k`` of ``terms`` keep their limits.

    ``levels`` are those of the last horizon and its history without the earliest step, of the next step, and
    of silence.
    """
    person, first = terms.people[k], next_step - accounts.horizon.steps + 1
    unclear = unclear_horizons(accounts, limits, next_step, terms, k)
    if unclear.headroom < 0:
        return False
    for j in range(unclear.ahead.size):
        ahead = unclear.ahead[j]
        begin = first + ahead
        phase = accounts.constants.phase_start[person] + account_slot(accounts, person, begin)
        limit = limits.risk[phase]
        if limit < accounts.horizon.refined_from:
            return False
        least = accounts.constants.baseline[phase]
        horizon = level_horizon(accounts, person, begin, levels, ahead, least)
        if not is_within_by_levels(accounts.horizon, horizon, levels, limit):
            return False
    return True


@pjit(lambda accounts, limits, terms, *_: terms.people.size)
def find_within(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    terms: ProposedTerms,
    next_step: int,
    levels: Levels,
    found: NDArray[np.bool_],
) -> None:
    """Fill ``found`` (n,) with :func:`is_within` of each of the people of ``terms``."""
    for k in range(begin, end):
        found[k] = is_within(accounts, limits, next_step, levels, terms, k)


def _some(terms: ProposedTerms, chosen: NDArray[Any]) -> ProposedTerms:
    """The terms of some of the people, by position or mask."""
    return ProposedTerms(*(array[chosen] for array in terms))


class _Evaluation(NamedTuple):
    """What an evaluation showed: within the limit up to these terms, or over it from these terms on.

    ``is_paid`` (n,) are the units of the account that paid for it; only they may use the answer.
    """

    is_within: bool
    conditional: int
    unconditioned: int
    is_paid: NDArray[np.bool_]

    def answer(self, conditional: int, unconditioned: int) -> bool | None:
        """Whether these terms are within the limit; None if the evaluation does not tell.

        Smaller terms are within the limit if larger ones are, and the other way round.
        """
        if self.is_within and conditional <= self.conditional and unconditioned <= self.unconditioned:
            return True
        beyond = conditional >= self.conditional and unconditioned >= self.unconditioned
        return False if not self.is_within and beyond else None


class _Asked(NamedTuple):
    """The accounts in question, one of each set of equal ones, and the units that may pay for each."""

    at: NDArray[np.int64]  # (n,) position of the account among the terms
    key: list[tuple[int, bytes]]  # under which its evaluations are kept
    unit: NDArray[np.int64]  # (u,) the units, account by account
    first: NDArray[np.int64]  # (n + 1,) where the units of each account begin
    owner: NDArray[np.int64]  # (u,) each unit's account, as a position among the n


class RefinedCheck:
    """Clears people, by the refined bounds, whom the fast bound puts over the limit at a step's candidates.

    The refined bounds depend on which of a person's places are counted, not on the noise, so one evaluation
    serves many candidates. People with equal priors and starts are evaluated once, and each share with such
    people pays for it once. People of a share that can pay no more stay over the limit.

    A person cleared by the refined bounds is checked again at every later step, because noise does not lower
    those bounds. So a step could clear the person now and leave only silence later. To prevent that, a step
    that leaves no headroom by the fast bound must be *sustainable*: the horizons that contain it must stay
    within the limit even if the ``coming`` steps are raw, or if more steps like it follow where none are
    announced.
    """

    def __init__(
        self,
        view: AccountantView,
        limits: Limits,
        step: int,
        coming: NDArray[np.int32],
        units: Units,
        operations: int | None,
    ) -> None:
        """``coming`` (L, M) are the outcomes of the announced steps after this one; L = 0 if none are.

        All candidates of the step together may cost this many ``operations`` (None: any number), an even part
        for each share of the ``units``.
        """
        self._view = view
        self._limits = limits
        self._step = step
        self._coming = coming
        self._units = units
        self._payer = Payer(units.shares, operations)
        self._known: dict[tuple[int, bytes], list[_Evaluation]] = {}
        self._by_chain = np.argsort(units.chain, kind="stable")
        chains = np.arange(units.alike.size + 1)
        self._start = np.searchsorted(units.chain[self._by_chain], chains)
        least = LEAST_OPERATIONS * view.accounts.horizon.steps
        self.most_cleared = units.most_people(None if operations is None else operations // least)

    def cleared(
        self,
        step: StepSchedule,
        terms: ProposedTerms,
        excess: NDArray[np.int64],
        leaves_headroom: NDArray[np.bool_],
    ) -> NDArray[np.int64]:
        """How many people of each of these accounts, over the limit by the fast bound, are cleared, (n,).

        ``excess`` (n,) is by how much the step's terms are too large; accounts with the least are evaluated
        first. ``leaves_headroom`` (n,) are accounts whose horizons after this step keep their limits by the
        fast bound.
        """
        labels = observe(step, self._view.labels.shape[1]).labels
        asked = self._asked(terms.people, labels)
        cost = self._operations(ChainPositions(terms.people[asked.at]), labels)
        is_within, is_known = self._known_answers(asked, terms)
        paid, is_open = np.zeros_like(is_known), np.flatnonzero(~is_known)
        unit, owner = asked.unit[is_open], asked.owner[is_open]
        is_paid = self._payer.pay_in_order(unit, cost[owner], excess[asked.at][owner])
        self._payer.close(unit[~is_paid])  # a share that cannot pay for one pays for none later
        paid[is_open[is_paid]] = True
        due = np.flatnonzero(np.bincount(asked.owner[paid], minlength=asked.at.size))
        if due.size:
            chosen = asked.at[due]
            headroom = self._evaluate(_some(terms, chosen), leaves_headroom[chosen], labels)
            for i, largest in zip(due.tolist(), headroom.tolist(), strict=True):
                own = slice(asked.first[i], asked.first[i + 1])
                most = int(terms.conditional[asked.at[i]]), int(terms.unconditioned[asked.at[i]])
                outcome = _Evaluation(largest >= 0, max(most[0], largest), most[1], paid[own])
                self._known.setdefault(asked.key[i], []).append(outcome)
                is_within[own] |= paid[own] & (largest >= 0)
        return self._units.people_of(UnitPositions(asked.unit[is_within]))[terms.people]

    def _asked(self, people: NDArray[np.int64], labels: NDArray[np.int32]) -> _Asked:
        """The accounts to be evaluated: of equal ones the first."""
        chain, at = np.unique(self._units.alike[people], return_index=True)
        size = self._start[chain + 1] - self._start[chain]
        unit = self._by_chain[packed_positions(self._start, chain)]
        first = np.concatenate(([0], np.cumsum(size)))
        key = [(int(each), self._pattern(int(each), labels)) for each in chain]
        return _Asked(at, key, unit, first, np.repeat(np.arange(chain.size), size))

    def _known_answers(
        self, asked: _Asked, terms: ProposedTerms
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Which units earlier evaluations show to be within the limit, and about which they tell, (u,)."""
        is_within, is_known = (np.zeros(asked.unit.size, dtype=np.bool_) for _ in range(2))
        for i, key in enumerate(asked.key):
            own, at = slice(asked.first[i], asked.first[i + 1]), asked.at[i]
            for outcome in self._known.get(key, ()):
                answer = outcome.answer(int(terms.conditional[at]), int(terms.unconditioned[at]))
                if answer is not None:
                    is_within[own] |= outcome.is_paid & ~is_known[own] & answer
                    is_known[own] |= outcome.is_paid
        return is_within, is_known

    def _pattern(self, person: int, labels: NDArray[np.int32]) -> bytes:
        """Which of the person's places are counted, as a key."""
        begin, end = self._view.accounts.population.places_start[person : person + 2]
        return (labels[self._view.accounts.population.places[begin:end]] > 0).tobytes()

    def _operations(self, chains: ChainPositions, labels: NDArray[np.int32]) -> NDArray[np.int64]:
        """The cost of evaluating each account, (n,): all horizons that contain the step."""
        rows = np.concatenate((self._view.labels[1:], labels[np.newaxis]))
        horizon = self._view.accounts.horizon
        hits = count_hits(seen_exactly(rows))
        cost = find_operations(self._view.accounts, chains, horizon.vectors, hits)
        return cost * horizon.steps

    def _evaluate(
        self, terms: ProposedTerms, leaves_headroom: NDArray[np.bool_], labels: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """The largest ``c`` within the limit of each account, (n,); -1 if over it or not sustainable."""
        silence = np.zeros((0, labels.size), dtype=np.int32)
        headroom = self._headroom(terms, labels, silence)
        last = np.flatnonzero((terms.unconditioned > 0) & ~leaves_headroom & (headroom >= 0))
        headroom[last[~self._is_sustainable(_some(terms, last), labels)]] = -1
        return headroom

    def _is_sustainable(self, terms: ProposedTerms, labels: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Whether each account stays within the limit if the coming steps are raw, too, (n,)."""
        coming = self._coming
        if not len(coming):
            coming = np.repeat(labels[np.newaxis], self._view.accounts.horizon.steps - 1, axis=0)
        beyond = terms._replace(conditional=np.full(terms.people.size, BEYOND_FAST))
        return self._headroom(beyond, labels, coming) >= 0

    def _headroom(
        self, terms: ProposedTerms, labels: NDArray[np.int32], coming: NDArray[np.int32]
    ) -> NDArray[np.int64]:
        """The largest ``c`` of each account, (n,), if the ``coming`` steps and silence follow."""
        accounts = self._view.accounts
        headroom = np.full(terms.people.size, -1)
        longest = int(self._limits.ahead[terms.people].max(initial=1))
        after = np.zeros((accounts.horizon.steps + HISTORY + longest, labels.size), dtype=np.int32)
        after[: len(coming)] = coming[: len(after)]
        rows = np.concatenate((self._view.labels[1:], labels[np.newaxis], after))
        find_refined_headroom(accounts, self._limits, terms, self._step, rows, headroom)
        return headroom


_Case = tuple[int, bytes, int, int]


class CrowdCheck:
    """Clears people, by the bound at levels, whom the crowd's fast bound puts over the limit.

    What a count reveals in the crowd depends on its noise, so people are evaluated for each candidate, except
    those about whom it reveals the same as an earlier one. Where work is limited they are looked at with few
    vectors, so that it reaches many: with all, candidates that are rejected would take what others need.
    People who are not evaluated stay over the limit. The accounts look in both ways at whoever is above it by
    the fast bound, whatever that costs.

    Each share of the people has an even part of the work. If a share cannot pay for so many people that at
    most twice the limit's part of the share stays over it, the candidate gets none of its work: it would be
    rejected anyway, and the work is left for candidates that reveal less.

    A step that leaves no headroom by the fast bound must be sustainable, as for :class:`RefinedCheck`: the
    horizons that contain it must stay within the limit if more steps like it follow.
    """

    def __init__(
        self,
        account: CrowdAccount,
        crowds: StepCrowd,
        accounts: Accounts,
        limits: Limits,
        budget: RiskBudget,
        operations: int | None,
    ) -> None:
        """``accounts`` are those of the fast bound, as they are looked at for the ``limits``.

        All candidates of the step together may cost this many ``operations`` (None: any number).
        """
        self._account = account
        self._crowds = crowds
        self._limits = limits
        vectors = accounts.horizon.vectors if operations is None else decided_with(accounts.horizon.vectors)
        self._accounts = with_vectors(accounts, vectors)
        self._shares = account.informed.people_shares
        self._payer = Payer(self._shares, operations)
        sizes = np.bincount(self._shares.share, minlength=self._shares.count)
        self._allowed = np.array([budget.allowed(size) for size in sizes.tolist()])
        people, horizon = self._accounts.since.size, self._accounts.horizon.steps
        self._is_lost = np.zeros(people, dtype=np.bool_)
        least = LEAST_OPERATIONS * horizon * len(ONE_LEVEL)
        self.most_cleared = people if operations is None else min(people, operations // least)
        self._known: dict[_Case, bool] = {}
        self._shown: dict[bytes, int] = {}  # what a count reveals at all levels: its number

    def look_at_silence(self, step: StepSchedule, people: NDArray[np.int64]) -> None:
        """Evaluate these people for a ``step`` without releases before any work goes to candidates.

        People who are over the limit even then stay over it whatever is released.
        """
        nothing = np.zeros(people.size, dtype=np.int64)
        is_sustainable = np.ones(people.size, dtype=np.bool_)
        terms = ProposedTerms(people, nothing, nothing)
        cases = self._look(step, terms, nothing, is_sustainable, may_refuse=False)
        self._is_lost[people] = [not self._known.get(case, False) for case in cases]

    def cleared(
        self,
        step: StepSchedule,
        terms: ProposedTerms,
        excess: NDArray[np.int64],
        leaves_headroom: NDArray[np.bool_],
    ) -> NDArray[np.bool_]:
        """Which of these people, over the limit by the fast bound, the bound at levels clears, (n,).

        ``excess`` (n,) is by how much the terms are too large; people with the least are evaluated first.
        ``leaves_headroom`` (n,) are people whose horizons after this step keep their limits by the fast
        bound.
        """
        possible = ~self._is_lost[terms.people]
        some = _some(terms, possible)
        found = np.zeros(terms.people.size, dtype=np.bool_)
        sustainable = leaves_headroom[possible]
        cases = self._look(step, some, excess[possible], sustainable, may_refuse=True)
        found[possible] = [self._known.get(case, False) for case in cases]
        return found

    def _look(
        self,
        step: StepSchedule,
        terms: ProposedTerms,
        excess: NDArray[np.int64],
        is_sustainable: NDArray[np.bool_],
        *,
        may_refuse: bool,
    ) -> list[_Case]:
        """Evaluate these people as far as the work goes; returns the case under which each answer is stored.

        If the step ``is_sustainable`` for a person, later steps like it are not checked. A share that
        ``may_refuse`` spends nothing where too many people would stay over the limit.
        """
        levels = self._with_step(step)
        keys = self._cases(terms, levels)
        due = np.array([k for k, key in enumerate(keys) if key not in self._known], dtype=np.int64)
        cost = self._operations(ChainPositions(terms.people[due]), levels)
        people = terms.people[due]
        # Twice the cost: with silence after it, and with steps like it.
        is_worth = partial(self._is_worth, people) if may_refuse else None
        is_paid = self._payer.pay_in_order(people, 2 * cost, excess[due], is_worth)
        paid, cost = due[is_paid], cost[is_paid]
        if paid.size:
            some = _some(terms, paid)
            found = np.zeros(paid.size, dtype=np.bool_)
            self._find_within(some, self._followed_by_silence(levels), found)
            last = np.flatnonzero(found & ~is_sustainable[paid] & (some.unconditioned > 0))
            if last.size:
                again = _some(some, last)._replace(conditional=np.full(last.size, BEYOND_FAST))
                is_lasting = np.zeros(last.size, dtype=np.bool_)
                self._find_within(again, self._followed_by_silence(self._repeated(levels)), is_lasting)
                found[last] = is_lasting
            cost[last] = 0
            self._payer.charge(some.people, -cost)  # whom steps like it were not checked for
            answers = zip(paid.tolist(), found.tolist(), strict=True)
            self._known |= {keys[k]: is_within for k, is_within in answers}
        return keys

    def _find_within(self, terms: ProposedTerms, levels: Levels, found: NDArray[np.bool_]) -> None:
        find_within(self._accounts, self._limits, terms, self._account.next_step, levels, found)

    def _repeated(self, levels: Levels) -> Levels:
        """The levels followed by the last step again, as often as a horizon with it has later steps."""
        times = self._accounts.horizon.steps - 1
        repeated = []
        for seen in levels.seen:
            labels, channel = (np.repeat(rows[-1:], times, axis=0) for rows in (seen.labels, seen.channel))
            labels, channel = np.concatenate((seen.labels, labels)), np.concatenate((seen.channel, channel))
            repeated.append(SeenSteps(labels, channel, seen.tables))
        return Levels(levels.probability, tuple(repeated))

    def _with_step(self, step: StepSchedule) -> Levels:
        """The last steps and this one, (HISTORY + T rows) at each level."""
        levels = self._account.levels
        probability = tuple(levels.probability[k] for k in ONE_LEVEL)
        erased = [self._account.erased(step, self._crowds, each) for each in probability]
        before = (levels.seen[k] for k in ONE_LEVEL)
        return Levels(probability, tuple(map(followed_by, before, erased)))

    def _followed_by_silence(self, levels: Levels) -> Levels:
        """The levels followed by as many steps without a count as any coming horizon may contain."""
        longest = int(self._limits.ahead.max(initial=1))
        rows = ((0, HISTORY + self._accounts.horizon.steps + longest), (0, 0))
        silent = (
            SeenSteps(np.pad(seen.labels, rows), np.pad(seen.channel, rows, constant_values=-1), seen.tables)
            for seen in levels.seen
        )
        return Levels(levels.probability, tuple(silent))

    def _cases(self, terms: ProposedTerms, levels: Levels) -> list[_Case]:
        """Each person's case: what the last rows of all levels reveal at the person's places, and terms."""
        places, start = self._accounts.population.places, self._accounts.population.places_start
        last = self._revealed(levels)
        rows = zip(*(array.tolist() for array in terms), strict=True)
        return [
            (person, last[places[start[person] : start[person + 1]]].tobytes(), conditional, unconditioned)
            for person, conditional, unconditioned in rows
        ]

    def _revealed(self, levels: Levels) -> NDArray[np.int32]:
        """A number for what the last row's counts reveal at each location, (M,); equal if that is equal."""
        rows = [seen.channel[-1] for seen in levels.seen]
        found = np.full(rows[0].size, -1, dtype=np.int32)
        labels = levels.seen[0].labels[-1]
        for location in np.flatnonzero(rows[0] >= 0).tolist():
            tables = (
                array[row[location]].tobytes()
                for row, seen in zip(rows, levels.seen, strict=True)
                for array in seen.tables
            )
            what = b"".join((int(labels[location]).to_bytes(4), *tables))
            found[location] = self._shown.setdefault(what, len(self._shown))
        return found

    def _operations(self, chains: ChainPositions, levels: Levels) -> NDArray[np.int64]:
        """The cost of evaluating once all horizons that contain the step, (n,)."""
        vectors = self._accounts.horizon.vectors
        cost = find_operations(self._accounts, chains, vectors, count_hits(levels.seen[0]))
        return cost * self._accounts.horizon.steps * len(levels.probability)

    def _is_worth(self, people: NDArray[np.int64], found: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Whether work is spent on each (n,): no share's in which too many people would stay over the limit.

        ``found`` (n,) are those whom the work suffices for.
        """
        share = self._shares.share
        unpaid = np.bincount(share[people[~found]], minlength=self._shares.count)
        lost = np.bincount(share[self._is_lost], minlength=self._shares.count)
        is_worth = (unpaid == 0) | (unpaid + lost <= 2 * self._allowed)
        return np.asarray(is_worth[share[people]])

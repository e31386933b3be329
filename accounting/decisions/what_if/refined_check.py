"""Refined bounds, as far as the work of a step goes, for people whom the fast bound puts over the limit."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.noised.apart_kernel import normal_shifts
from accounting.continuous import ChainPositions, UnitPositions, Units
from accounting.continuous.accounts_kernel import HISTORY, MEMORY, UNITS_PER_NAT, Accounts, account_slot
from accounting.continuous.crowd import ROUNDING, Levels, level_horizon, success_at_level
from accounting.continuous.payer import Payer, decided_with, with_vectors
from accounting.continuous.refine_kernel import (
    LEAST_OPERATIONS,
    WORTH_MORE,
    count_hits,
    exact_divergence,
    find_operations,
    least_exact_bound,
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
from accounting.exposure.step_information.likelihood_levels import SeenSteps, seen_exactly
from accounting.numerics import packed_positions
from accounting.settings import RiskBudget
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import inline, pjit
from models.releases import StepSchedule

# The refined bounds in advance, for people whom the fast bound puts over a limit.
#
# Unlike the fast bound, the refined bounds may rise in silence: a horizon that slides on may lose its least
# certain step. So every horizon from now on is checked, as if silence followed, with the same bounds that the
# accountant will compute for it then, of so many vectors and from the same figures on.
#
# For example horizon T = 2, a limit of 100 units or a risk of 0.2, a step with ``c = u = 50``, a cycle of one
# slot:
#     {last, next}:        70 units in silence and 50 more: refined, risk 0.15: within the limit
#     {next, next + 1}:    it carries 30, which makes 80 with the 50: cleared by the fast bound
#     {next + 1, ..}:      it carries at most 40: cleared, and so are all later horizons
# The headroom is unlimited, because no horizon was cleared by its ``c``. If {last, next} were refined to 0.25
# only, the headroom would be -1: over the limit.


class Unclear(NamedTuple):
    """The horizons that the fast bound does not clear, by how many steps after the next one they begin."""

    ahead: Integers  # (n,) steps
    carried: Floats  # (n,) carried information, units
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


class Refined(NamedTuple):
    """What the refined bounds found of some people, (n,) each."""

    headroom: Integers  # the largest ``c`` of the next step that keeps all limits; -1 over one
    looks: Integers  # horizons that were looked at
    products: Floats  # that their bounds through noise took


@inline
def refined_headroom(
    accounts: Accounts,
    limits: Limits,
    next_step: int,
    levels: Levels,
    is_exact: bool,
    is_informed: bool,
    shift: Floats,
    terms: ProposedTerms,
    k: int,
    found: Refined,
) -> None:
    """Fill in what is ``found`` of person ``k`` of ``terms``.

    ``is_exact``: as if every count were exact, and with no other bound. ``is_informed``: as against who knows
    where all others are; ``shift`` as for :func:`~accounting.continuous.refine_kernel.noised_success`.
    """
    person, horizon = terms.people[k], accounts.horizon
    first = next_step - horizon.steps + 1
    unclear = unclear_horizons(accounts, limits, next_step, terms, k)
    found.headroom[k], found.looks[k], found.products[k] = -1, 0, 0.0
    if unclear.headroom < 0:
        return
    for j in range(unclear.ahead.size):
        ahead = unclear.ahead[j]
        begin = first + ahead
        phase = accounts.constants.phase_start[person] + account_slot(accounts, person, begin)
        limit, least = limits.risk[phase], accounts.constants.baseline[phase]
        if limit < horizon.refined_from:  # the accountant will not refine a risk this low
            return
        found.looks[k] += 1
        part = level_horizon(accounts, person, begin, levels.seen[0].labels, ahead, least)
        exact = lowest = least_exact_bound(part.raw, horizon)
        if is_informed:
            carried = unclear.carried[j] / UNITS_PER_NAT
            lowest = min(exact, exact_divergence(accounts, person, part.raw, carried))
        if max(lowest, least) * (1.0 + ROUNDING) <= limit:
            continue
        if is_exact or limit < least + WORTH_MORE:  # nor look through its noise
            return
        # In a crowd what counts show is the exact count with this probability, else what is seen (crowd.py).
        shown = levels.probability[0]
        at_most = shown * max(exact, least)
        enough = (limit / (1.0 + 2.0 * ROUNDING) - at_most) / (1.0 - shown)
        known = exact if is_informed else 1.0
        success, products = success_at_level(horizon, part, levels, 0, known, shift, max(enough, 0.0))
        found.products[k] += products
        if (at_most + (1.0 - shown) * success) * (1.0 + ROUNDING) > limit:
            return
    found.headroom[k] = unclear.headroom


@pjit(lambda accounts, limits, terms, *_: terms.people.size)
def find_refined_headroom(
    begin: int,
    end: int,
    accounts: Accounts,
    limits: Limits,
    terms: ProposedTerms,
    next_step: int,
    levels: Levels,
    is_exact: bool,
    is_informed: bool,
    found: Refined,
) -> None:
    """Fill in what is ``found`` of each of the people of ``terms``, who have these terms at the next step.

    ``levels`` are those of the last horizon and its history without the earliest step, of the next step, and
    of what follows it (2 HISTORY + 2 T + C rows).
    """
    shift = normal_shifts(levels.seen[0].tables)
    for k in range(begin, end):
        refined_headroom(accounts, limits, next_step, levels, is_exact, is_informed, shift, terms, k, found)


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
    is_paid: Flags

    def answer(self, conditional: int, unconditioned: int) -> bool | None:
        """Whether these terms are within the limit; None if the evaluation does not tell.

        Smaller terms are within the limit if larger ones are, and the other way round.
        """
        if self.is_within and conditional <= self.conditional and unconditioned <= self.unconditioned:
            return True
        beyond = conditional >= self.conditional and unconditioned >= self.unconditioned
        return False if not self.is_within and beyond else None


_Key = tuple[int, bool, bytes]


class _Look(NamedTuple):
    """How a step is looked at: by these accounts' bounds, as it was seen, as if all counts were exact or not.

    A share that ``may_refuse`` spends nothing where too many people would stay over the limit.
    """

    accounts: Accounts
    levels: Levels
    is_exact: bool
    may_refuse: bool

    def cost(self, chains: Integers, looks: Refined | None = None) -> Integers:
        """What these looks at each of the chains did cost, (n,); without them what they may."""
        rules, hits = self.accounts.horizon, count_hits(self.levels.seen[0])
        times = 2 * rules.steps if looks is None else looks.looks  # silence follows, and then steps like it
        each = np.full(chains.size, np.nan) if looks is None else looks.products / np.maximum(times, 1)
        products = np.full(chains.size, -1.0) if self.is_exact else each
        operations = find_operations(
            self.accounts, ChainPositions(chains), rules.vectors, hits, False, products
        )
        return np.asarray(operations * times)


class _Asked(NamedTuple):
    """The accounts in question, one of each set of equal ones, and the units that may pay for each."""

    terms: ProposedTerms  # of the n accounts
    excess: Integers  # (n,)
    leaves_headroom: Flags  # (n,)
    key: list[_Key]  # under which their evaluations are kept
    unit: Integers  # (u,) the units, account by account
    first: Integers  # (n + 1,) where the units of each account begin
    owner: Integers  # (u,) each unit's account, as a position among the n


class RefinedCheck:
    """Clears people, by the refined bounds, whom the fast bound puts over the limit at a step's candidates.

    First as if every count were exact: that depends on which of a person's places are counted, not on the
    noise, so one evaluation serves many candidates. Whom this leaves over the limit is looked at through the
    noise of each candidate, except where it reveals the same as an earlier one at the person's places.

    Both with few vectors, so that the work reaches many: with all, candidates that are rejected would take
    what others need. People who are not evaluated stay over the limit. The accounts look in the same way at
    whoever is above it by the fast bound, whatever that costs.

    Accounts that are alike are evaluated once, and each share with such people pays for it once. Each share
    has an even part of the work. If a share cannot pay for so many people that at most twice the limit's part
    of the share stays over it, the candidate gets none of its work: it would be rejected anyway, and the work
    is left for candidates that reveal less.

    A person cleared here is checked again at every later step. So a step could clear the person now and leave
    only silence later. To prevent that, a step that leaves no headroom by the fast bound must be
    *sustainable*: the horizons that contain it must stay within the limit if more steps like it follow.
    """

    def __init__(
        self,
        seen_with: Callable[[StepSchedule], Levels],
        accounts: Accounts,
        limits: Limits,
        step: int,
        units: Units,
        budget: RiskBudget,
        operations: int | None,
        *,
        is_informed: bool,
    ) -> None:
        """``seen_with`` a candidate are the last steps with it, (HISTORY + T rows) at each level.

        ``accounts`` are those of the fast bound, as they are looked at for the ``limits``. All candidates of
        the step together may cost this many ``operations`` (None: any number), an even part for each share of
        the ``units``.
        """
        self._seen_with, self._is_informed = seen_with, is_informed
        few = decided_with(accounts.horizon.vectors)
        self._accounts, self._limits, self._step = with_vectors(accounts, few), limits, step
        self._units, self._payer = units, Payer(units.shares, operations)
        self._known: dict[_Key, list[_Evaluation]] = {}
        self._shown: dict[bytes, int] = {}  # what a count reveals at all levels: its number
        self._by_chain = np.argsort(units.chain, kind="stable")
        chains = np.arange(units.alike.size + 1)
        self._start = np.searchsorted(units.chain[self._by_chain], chains)
        self._people = units.people
        share = units.shares.share
        everybody = np.bincount(share, self._people, minlength=units.shares.count)
        self._allowed = np.array([budget.allowed(int(people)) for people in everybody.tolist()])
        self._is_lost = np.zeros(share.size, dtype=np.bool_)

    def look_at_silence(self, step: StepSchedule, people: Integers) -> None:
        """Evaluate these accounts for a ``step`` without releases before any work goes to candidates.

        People who are over the limit even then stay over it whatever is released.
        """
        nothing = np.zeros(people.size, dtype=np.int64)
        terms, is_sustainable = ProposedTerms(people, nothing, nothing), nothing == 0
        is_within, asked = self._looked_at(step, terms, nothing, is_sustainable, may_refuse=False)
        self._is_lost[asked] = ~is_within[asked]

    def cleared(
        self, step: StepSchedule, terms: ProposedTerms, excess: Integers, leaves_headroom: Flags
    ) -> Integers:
        """How many people of each of these accounts, over the limit by the fast bound, are cleared, (n,).

        ``excess`` (n,) is by how much the step's terms are too large; accounts with the least are evaluated
        first. ``leaves_headroom`` (n,) are accounts whose horizons after this step keep their limits by the
        fast bound.
        """
        is_within, _ = self._looked_at(step, terms, excess, leaves_headroom, may_refuse=True)
        return self._units.people_of(UnitPositions(np.flatnonzero(is_within)))[terms.people]

    def _looked_at(
        self,
        step: StepSchedule,
        terms: ProposedTerms,
        excess: Integers,
        leaves_headroom: Flags,
        *,
        may_refuse: bool,
    ) -> tuple[Flags, Integers]:
        """Which units are within the limit, (U,), and the units that were asked about."""
        levels, is_within = self._seen_with(step), np.zeros(self._people.size, dtype=np.bool_)
        exact = Levels((0.0,), (seen_exactly(levels.seen[0].labels),))
        has_noise = any(seen.is_noised for seen in levels.seen)
        looks = (exact, levels) if has_noise or self._accounts.population.label.size else (exact,)
        asked = np.zeros(0, dtype=np.int64)
        for seen in looks:
            look = _Look(self._accounts, seen, seen is exact, may_refuse)
            among = self._asked(terms, excess, leaves_headroom, look)
            self._evaluate(look, among, is_within)
            asked = among.unit
        return is_within, asked

    def _asked(self, terms: ProposedTerms, excess: Integers, leaves_headroom: Flags, look: _Look) -> _Asked:
        """The accounts to be evaluated, of equal ones the first, and what the step reveals of each."""
        chain, at = np.unique(self._units.alike[terms.people], return_index=True)
        size = self._start[chain + 1] - self._start[chain]
        unit = self._by_chain[packed_positions(self._start, chain)]
        first = np.concatenate(([0], np.cumsum(size)))
        places, start = self._accounts.population.places, self._accounts.population.places_start
        last = look.levels.seen[0].labels[-1] > 0 if look.is_exact else self._revealed(look.levels)
        key = [
            (each, look.is_exact, last[places[start[each] : start[each + 1]]].tobytes())
            for each in chain.tolist()
        ]
        owner = np.repeat(np.arange(chain.size), size)
        return _Asked(_some(terms, at), excess[at], leaves_headroom[at], key, unit, first, owner)

    def _evaluate(self, look: _Look, asked: _Asked, is_within: Flags) -> None:
        """Mark the units that are known, or found as far as work goes, to be within the limit."""
        answered, chains = self._known_answers(asked, is_within), asked.terms.people
        due = np.flatnonzero(~(answered | is_within[asked.unit] | self._is_lost[asked.unit]))
        unit, owner, at_most = asked.unit[due], asked.owner[due], look.cost(chains)
        headroom, cost = np.full(chains.size, -1), np.full(chains.size, -1)

        def run(paid: Integers) -> Integers:
            new = np.unique(owner[paid])
            new = new[cost[new] < 0]
            found = self._find(look, asked, new)
            headroom[new], cost[new] = found.headroom, look.cost(chains[new], found)
            return cost[owner[paid]]

        def is_worth(could: Flags) -> Flags:
            share, people = self._units.shares.share, self._people
            over = np.zeros((2, self._allowed.size), dtype=np.int64)
            np.add.at(over[0], share[unit[~could]], people[unit[~could]])
            np.add.at(over[1], share[self._is_lost], people[self._is_lost])
            return np.asarray(((over[0] == 0) | (over.sum(axis=0) <= 2 * self._allowed))[share[unit]])

        cost_of = lambda some: at_most[owner[some]]  # noqa: E731
        least, may = LEAST_OPERATIONS * self._accounts.horizon.steps, is_worth if look.may_refuse else None
        is_paid = np.zeros(asked.unit.size, dtype=np.bool_)
        is_paid[due] = self._payer.spend(unit, -asked.excess[owner], cost_of, run, least, may)
        is_within[asked.unit[is_paid]] |= headroom[asked.owner[is_paid]] >= 0
        for i in np.unique(asked.owner[is_paid]).tolist():
            largest, own = int(headroom[i]), slice(asked.first[i], asked.first[i + 1])
            conditional, unconditioned = int(asked.terms.conditional[i]), int(asked.terms.unconditioned[i])
            outcome = _Evaluation(largest >= 0, max(conditional, largest), unconditioned, is_paid[own])
            self._known.setdefault(asked.key[i], []).append(outcome)

    def _known_answers(self, asked: _Asked, is_within: Flags) -> Flags:
        """About which units earlier evaluations tell, (u,); those within the limit are marked as such."""
        answered = np.zeros(asked.unit.size, dtype=np.bool_)
        for i, key in enumerate(asked.key):
            own = slice(asked.first[i], asked.first[i + 1])
            for outcome in self._known.get(key, ()):
                answer = outcome.answer(int(asked.terms.conditional[i]), int(asked.terms.unconditioned[i]))
                if answer is not None:
                    is_within[asked.unit[own][outcome.is_paid]] |= answer
                    answered[own] |= outcome.is_paid
        return answered

    def _find(self, look: _Look, asked: _Asked, chosen: Integers) -> Refined:
        """What the refined bounds say of these; -1 also where it is not sustainable."""
        terms = _some(asked.terms, chosen)
        found = self._refined(look, terms, look.levels)
        is_last = (terms.unconditioned > 0) & ~asked.leaves_headroom[chosen] & (found.headroom >= 0)
        last = np.flatnonzero(is_last)
        if last.size:
            again = _some(terms, last)._replace(conditional=np.full(last.size, BEYOND_FAST))
            later = self._refined(look, again, self._repeated(look.levels))
            found.headroom[last[later.headroom < 0]] = -1
            found.looks[last] += later.looks
            found.products[last] += later.products
        return found

    def _refined(self, look: _Look, terms: ProposedTerms, levels: Levels) -> Refined:
        """The same of these levels, followed by silence."""
        size, levels = terms.people.size, self._followed_by_silence(levels, terms.people)
        found = Refined(np.empty(size, np.int64), np.empty(size, np.int64), np.empty(size))
        rules = look.is_exact, self._is_informed
        find_refined_headroom(look.accounts, self._limits, terms, self._step, levels, *rules, found)
        return found

    def _repeated(self, levels: Levels) -> Levels:
        """The levels followed by the last step again, as often as a horizon with it has later steps."""
        times = self._accounts.horizon.steps - 1
        repeated = []
        for seen in levels.seen:
            labels, channel = (np.repeat(rows[-1:], times, axis=0) for rows in (seen.labels, seen.channel))
            labels, channel = np.concatenate((seen.labels, labels)), np.concatenate((seen.channel, channel))
            repeated.append(SeenSteps(labels, channel, seen.tables))
        return Levels(levels.probability, tuple(repeated))

    def _followed_by_silence(self, levels: Levels, people: Integers) -> Levels:
        """The levels followed by as many steps without a count as a coming horizon of these may contain."""
        longest = int(self._limits.ahead[people].max(initial=1))
        rows = ((0, HISTORY + self._accounts.horizon.steps + longest), (0, 0))
        silent = (
            SeenSteps(np.pad(seen.labels, rows), np.pad(seen.channel, rows, constant_values=-1), seen.tables)
            for seen in levels.seen
        )
        return Levels(levels.probability, tuple(silent))

    def _revealed(self, levels: Levels) -> Integers32:
        """A number for what the last row's counts reveal at each location, (M,); equal if that is equal."""
        rows, seen_by = [seen.channel[-1] for seen in levels.seen], dict[tuple[int, ...], bytes]()
        found = np.full(rows[0].size, -1, dtype=np.int32)
        labels = levels.seen[0].labels[-1]
        for location in np.flatnonzero(rows[0] >= 0).tolist():
            channels = tuple(int(row[location]) for row in rows)
            if channels not in seen_by:
                each = zip(channels, levels.seen, strict=True)
                seen_by[channels] = b"".join(
                    a[channel].tobytes() for channel, seen in each for a in seen.tables
                )
            what = int(labels[location]).to_bytes(4) + seen_by[channels]
            found[location] = self._shown.setdefault(what, len(self._shown))
        return found

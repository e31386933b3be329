"""The continuous accountant: every person's reconstruction risk over the last ``T`` steps, step by step.

Its state is a pure function of the priors and of the released schedule; counts never reach it. So a replay of
the release log gives the same state, bit for bit, and what it shows reveals nobody's movements.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, dataclass, field
from math import lcm
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from accounting.bounds.radius import bound_for, ceilings_within
from accounting.continuous.account_figures import AccountFigures
from accounting.continuous.accounts_kernel import (
    HISTORY,
    Accounts,
    Constants,
    HorizonRules,
    Nonstationary,
    advance_marginals,
    empty_constants,
    empty_state,
    fill_constants,
)
from accounting.continuous.cascade import Cascade, SeenHorizon, Units, alike_chains, find_due
from accounting.continuous.horizon_kernel import KnownTerms, Transition, advance
from accounting.continuous.people import (
    AccountPositions,
    Cells,
    Groups,
    Holders,
    PeopleShares,
    PersonPositions,
    Spread,
    equal_accounts,
    join_people,
    joined_names,
    take_people,
)
from accounting.continuous.refine_kernel import find_operations
from accounting.continuous.saved_state import RunningAccount, digest_of
from accounting.exceptions import SettingsError, StepOrderError
from accounting.exposure.own_counts import RevealedInformation
from accounting.exposure.step_information import (
    followed_by,
    nothing_seen,
    nothing_seen_for,
    seen_exactly,
    seen_release,
    view_of,
)
from accounting.exposure.step_information.observation import StepView
from accounting.numerics import packed_positions
from accounting.settings import HorizonSettings
from models.arguments import checked
from models.exceptions import ArgumentError
from models.priors import Population, PopulationArrays
from models.releases import StepSchedule, without_coins

# Accounts before the first step: everybody's constants, and what a guess from the prior alone achieves.


def open_accounts(
    population: Population, settings: HorizonSettings, since: NDArray[np.int64], groups: Groups
) -> RunningAccount:
    """Accounts before ``settings.first_step`` of these priors, one each, which count from ``since`` (A,) on.

    ``groups`` say who has the same figures, which are still to be filled in.
    """
    arrays, draws, locations = population.accounted.arrays, population.draws, population.location_count
    horizon = HorizonRules(
        settings.horizon,
        settings.mistakes,
        settings.vectors,
        bound_for(settings.within_nats, float(settings.refined_from)),
        settings.first_slot,
    )
    accounts = Accounts(
        arrays,
        empty_constants(arrays),
        Nonstationary(*(arrays.initial.copy() for _ in Nonstationary._fields)),
        empty_state(since.size * draws, horizon.steps),
        np.repeat(since, draws),
        horizon,
    )
    fill_constants(accounts, np.arange(since.size * draws), settings.first_step, True)
    nonstationary = np.flatnonzero(np.diff(arrays.initial_start))
    if nonstationary.size:
        fill_constants(accounts, nonstationary, settings.first_step, False)
    seen = nothing_seen_for(HISTORY + horizon.steps, locations)
    return RunningAccount(accounts, settings.first_step, nothing_seen(locations), seen, groups)


def show_prior(accounts: Accounts, first_step: int) -> None:
    """Before the first step nobody does better than the bound on a guess from the prior."""
    population, constants, state = accounts.population, accounts.constants, accounts.state
    slot = accounts.horizon.first_slot
    starts_itself = np.diff(population.initial_start) > 0
    start = np.where(starts_itself, slot + accounts.since, slot + first_step - accounts.horizon.steps)
    phase = constants.phase_start[:-1] + start % population.slots
    state.baseline[:] = constants.baseline[phase]
    state.bound[:] = constants.guess[phase]
    state.risk[:] = np.maximum(state.bound, state.baseline)


# People join and leave: the accountant's arrays put together and taken apart, number by number the same.

Arrays = TypeVar("Arrays", bound=Any)  # a NamedTuple of arrays whose last axis is people


def join_running(first: RunningAccount, second: RunningAccount, population: Population) -> RunningAccount:
    """Both accounts after the same step, without groups; ``population`` has those of ``first`` first."""
    return first._replace(
        accounts=join_accounts(first.accounts, second.accounts, population.accounted.arrays)
    )


def take_running(
    running: RunningAccount, accounts: AccountPositions, population: Population
) -> RunningAccount:
    """These accounts, by position, without groups; ``population`` has their priors."""
    chains = population.chains_of(accounts)
    return running._replace(accounts=take_accounts(running.accounts, chains, population.accounted.arrays))


def same_accounts(first: RunningAccount, second: RunningAccount, population: Population) -> AccountPositions:
    """For each account of ``second`` the equal one of ``first``, -1 where there is none, (A,).

    ``population`` are the accounts of ``first``, then those of ``second``. Equal are priors, starts, first
    steps and the whole state after the steps so far.
    """
    count, draws = first.accounts.since.size // population.draws, population.draws
    since = np.concatenate((first.accounts.since, second.accounts.since))[::draws]
    first_like = equal_accounts(population, since)[count:]  # of accounts here, one chain or more each
    found = AccountPositions(np.where(first_like < count, first_like, -1))
    chosen = np.flatnonzero(found >= 0)
    if not chosen.size:
        return found
    here, there = population.chains_of(found[chosen]), population.chains_of(chosen)
    is_same = np.ones(here.size, dtype=np.bool_)
    states: zip[tuple[NDArray[Any], NDArray[Any]]] = zip(
        first.accounts.state, second.accounts.state, strict=True
    )
    for own, other in states:
        is_same &= (own[..., here] == other[..., there]).reshape(-1, here.size).all(axis=0)
    found[chosen[~is_same.reshape(-1, draws).all(axis=1)]] = -1
    return found


def join_accounts(first: Accounts, second: Accounts, population: PopulationArrays) -> Accounts:
    """The accounts of both, those of the first before those of the second; ``population`` is everybody."""
    return Accounts(
        population,
        join_constants(first.constants, second.constants),
        join_people(first.nonstationary, second.nonstationary),
        join_people(first.state, second.state),
        np.concatenate((first.since, second.since)),
        first.horizon,
    )


def take_accounts(accounts: Accounts, people: NDArray[np.int64], population: PopulationArrays) -> Accounts:
    """The accounts of these people, by position; ``population`` has their priors."""
    return Accounts(
        population,
        take_constants(accounts.constants, people),
        take_packed(accounts.nonstationary, accounts.population.initial_start, people),
        take_people(accounts.state, people),
        accounts.since[people],
        accounts.horizon,
    )


def take_packed(arrays: Arrays, start: NDArray[np.int64], people: NDArray[np.int64]) -> Arrays:
    """Flat arrays in which person ``i`` owns ``[start[i], start[i + 1])``: the slices of these people."""
    index = packed_positions(start, people)
    return type(arrays)(*(array[index] for array in arrays))


def join_constants(first: Constants, second: Constants) -> Constants:
    """Everybody's constants, those of the first before those of the second."""
    joined = {
        name: np.concatenate((getattr(first, name), getattr(second, name)))
        for name in Constants._fields
        if name != "phase_start"
    }
    start = np.concatenate((first.phase_start, first.phase_start[-1] + second.phase_start[1:]))
    return Constants(phase_start=start, **joined)


def take_constants(constants: Constants, people: NDArray[np.int64]) -> Constants:
    """The constants of these people."""
    index = packed_positions(constants.phase_start, people)
    taken = {name: getattr(constants, name)[index] for name in Constants._fields if name != "phase_start"}
    lengths = np.diff(constants.phase_start)[people]
    start = np.concatenate(([0], np.cumsum(lengths))).astype(constants.phase_start.dtype)
    return Constants(phase_start=start, **taken)


# What a step that comes again reveals about everybody, kept from the last time.
#
# Sensors that count all day long make the same step again and again. What such a step reveals about a
# person is the same each time in the same slot of the person's chain, so it is computed once; what it adds
# up to with the steps around it is not kept here.

MOST_BYTES = 96 * 2**20
_MOST_KEYS = 1024  # steps of which only the occurrence is kept
_UNKNOWN = -1

Key = tuple[int, int, int]


class RepeatedSteps:
    """Terms by step, step before and slot, those used last first; of people who start like their chain.

    A step is recognised by its view being the same object, which
    :func:`accounting.exposure.step_information.observation.view_of` sees to. ``slots`` (N,) are the slots of
    each person's chain.
    """

    def __init__(self, slots: NDArray[np.int32], most_bytes: int = MOST_BYTES) -> None:
        self._people = slots.size
        self._period = lcm(*np.unique(slots).tolist())
        self._most = max(1, most_bytes // max(1, 16 * slots.size))
        self._seen: OrderedDict[Key, tuple[StepView, StepView]] = OrderedDict()
        self._kept: OrderedDict[Key, KnownTerms] = OrderedDict()
        self._nothing = KnownTerms(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        """How many steps' terms are kept."""
        return len(self._kept)

    def terms(self, before: StepView, step: StepView, step_number: int) -> KnownTerms:
        """Where the kernel finds what is known, and leaves what it finds; empty for a step seen first."""
        hangs_on_before = step.is_raw and before.is_raw
        key = (id(step), id(before) if hangs_on_before else 0, step_number % self._period)
        if key not in self._seen:
            self._seen[key] = (before, step)  # kept alive, so that no other view gets their identity
            if len(self._seen) > _MOST_KEYS:
                self._kept.pop(self._seen.popitem(last=False)[0], None)
            return self._nothing
        self._seen.move_to_end(key)
        if key not in self._kept:
            self._kept[key] = KnownTerms(
                *(np.full(self._people, _UNKNOWN, dtype=np.int64) for _ in KnownTerms._fields)
            )
            if len(self._kept) > self._most:
                self._kept.popitem(last=False)
        self._kept.move_to_end(key)
        return self._kept[key]


_MORE_THAN_ANYTHING = 1 << 50  # units: a thousand nats


class AccountantView(NamedTuple):
    """What decisions read of an accountant; views of its state, never to be written to."""

    accounts: Accounts
    last_step: StepView
    labels: NDArray[np.int32]  # (HISTORY + T, M) outcomes of the locations in the last horizon and before it
    most_places: int


@checked(SettingsError, leave=("population",))
@dataclass
class ContinuousAccountant(AccountFigures):
    """Certified risk of a population, moved on one step at a time by :meth:`apply`.

    ``effective_from[i]`` is the step from which person ``i``'s releases count (default: the first step).
    ``shares`` split the work of a step among people (default: one share); give them where people are held in
    several places that must agree.

    People with an equal prior and start, accounted from the same step on, have *one account*: what a step
    reveals is found once for all of them, and figures of people are the account's. ``population`` then has
    one prior an account, that of the first of its ``people`` (N,), and no weights. With ``apart`` each person
    has an account of their own, needed where people with equal priors still differ. Figures do not change. A
    persona of the population's ``weights`` counts for all people behind it, as if each were listed under a
    name.

    Where a population has chains drawn from what few data leave open, each chain is accounted as a person of
    its own, and every figure of a person is its mean over the chains: no adversary does better on average,
    not even one who knows which chain is the person's.
    Cost: O(sensors at the person's places) per account and step, no more than silence for a step that comes
    again; about 300 bytes an account besides the priors, and 16 for each step that comes again, within
    limits; 20 bytes a person besides the name.
    """

    population: Population
    settings: HorizonSettings = field(default_factory=HorizonSettings)
    effective_from: NDArray[np.int64] | None = None
    shares: PeopleShares | None = None
    apart: bool = False
    people: tuple[str, ...] = field(init=False, repr=False)
    _found_units: Units | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Find who has the same account, and compute everybody's constants; nothing is released yet."""
        if not isinstance(self.population, Population):
            raise SettingsError(
                "those accounted must be a Population",
                type(self.population).__name__,
                "pack priors with Population.pack([prior])",
            )
        first_step, self.people = self.settings.first_step, self.population.people
        people = len(self.people)
        since = (
            np.full(people, first_step) if self.effective_from is None else np.asarray(self.effective_from)
        )
        if since.shape != (people,):
            raise SettingsError(
                f"effective_from must have one step for each of {people} people",
                since.shape,
                "pass one value a person",
            )
        since = np.maximum(since, first_step).astype(np.int64)
        account = np.arange(people) if self.apart else equal_accounts(self.population, since)
        opened, account = np.unique(account, return_inverse=True)
        self._chains_named = self.population.chains_named
        people_each = self.population.stands_for
        # From here on the population is of accounts: how many people are behind a name, the holders know.
        self.population = self.population.unweighted
        if opened.size < people:
            self.population = self.population.subset(opened)
        accounts = AccountPositions(account.reshape(-1))
        self._holders = Holders.of(accounts, self._cell_shares, people_each)
        groups = Groups.whole(opened.size, self._holders.account, self.population.draws)
        self._running = open_accounts(self.population, self.settings, since[opened], groups)
        self._has_revealed = False
        self._index_people()
        show_prior(self._accounts, first_step)
        figures = groups.figures._replace(risk=self._state.risk[groups.chains()])
        reached = self._threshold_index(groups._replace(figures=figures))
        figures = figures._replace(reached=reached, reached_before=reached)
        self._running = self._running._replace(groups=groups._replace(figures=figures))

    @checked(ArgumentError)
    def apply(self, step: StepSchedule) -> None:
        """Account one step; steps come in order without gaps, empty ones included."""
        before = self._running
        if step.step != before.next_step:
            raise StepOrderError(
                f"the next step must be {before.next_step}",
                step.step,
                "apply steps in order, empty ones included",
            )
        locations = len(self.population.location_names)
        view = view_of(step.releases if step.revealed is None else without_coins(step.releases), locations)
        self._advance_nonstationary(step.step)
        advance(
            before.accounts,
            Transition(step.step, before.view_before, view),
            self._repeated.terms(before.view_before, view, step.step),
            self._most_places,
        )
        self._add_revealed(step)
        seen = followed_by(before.seen, seen_release(step.releases, locations))
        groups = self._refined(SeenHorizon(step.step, seen))
        since = self._accounts.since[:: self.population.draws][groups.account]
        groups.worst.note(step.step, groups.mean_risk, self._baseline[groups.account], since)
        reached = self._threshold_index(groups)
        figures = groups.figures._replace(reached=reached, reached_before=groups.figures.reached)
        self._running = before._replace(
            next_step=step.step + 1,
            view_before=view,
            seen=seen,
            groups=groups._replace(figures=figures),
        )
        if groups.of_cell is not before.groups.of_cell:
            self._index_groups()

    def apply_all(self, steps: Iterable[StepSchedule]) -> None:
        """Account several steps, as after a restart."""
        for step in steps:
            self.apply(step)

    @property
    def people_shares(self) -> PeopleShares:
        """How the work of a step is split among people."""
        return PeopleShares.single(len(self.people)) if self.shares is None else self.shares

    @property
    def by_account(self) -> Spread:
        """Who has which account."""
        return self._by_account

    @property
    def units(self) -> Units:
        """For whom a share of the work pays together; found once somebody is refined."""
        if self._found_units is None:
            alike = alike_chains(self.population, self._accounts.since)
            count = self._cell_shares.count
            self._found_units = Units.of(self._holders, count, alike, self.population.draws)
        return self._found_units

    def most_operations(self, is_counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """What refining takes where these locations, (M,), are counted exactly in every step, (N,)."""
        chains = len(self.population.accounted)
        seen = seen_exactly(np.tile(is_counted.astype(np.int32), (len(self._running.seen.labels), 1)))
        found = find_operations(self._accounts, np.arange(chains), self.settings.vectors, seen)
        return self._by_account.each(found.reshape(-1, self.population.draws).sum(axis=1))

    @property
    def holders(self) -> Holders:
        """Which account each person has."""
        return self._holders

    def held_by(self, people: tuple[str, ...], cells: Cells, shares: PeopleShares) -> ContinuousAccountant:
        """These accounts before any step, held by these people in the cells of a snapshot's holders."""
        held = copy(self)
        held.people, held.shares = people, shares
        held._holders = Holders.in_cells(cells, held._cell_shares)
        groups = Groups.whole(len(self.population), held._holders.account, self.population.draws)
        held._running = self._running._replace(groups=groups)
        held._index_people()
        return held

    def view(self) -> AccountantView:
        """The state after the last step, for what-if questions; read only."""
        accounts, last_step, labels = self._accounts, self._running.view_before, self._running.seen.labels
        return AccountantView(accounts, last_step, labels, self._most_places)

    def snapshot(self) -> bytes:
        """The state as bytes, equal for equal histories; a cache, the release log remains the truth."""
        return self._running.packed(self._basis())

    @checked(ArgumentError)
    def restore(self, snapshot: bytes) -> None:
        """Take over the state of :meth:`snapshot` of an accountant with the same population and settings.

        :class:`~accounting.exceptions.SnapshotError` otherwise; nothing was taken over then.
        """
        self._running = self._running.restored(snapshot, self._basis())
        self._index_groups()
        self._fill_nonstationary(self._nonstationary_people, self.next_step - 1)

    def _basis(self) -> dict[str, object]:
        """Everything but the steps that the state follows from."""
        settings = asdict(self.settings)
        del settings["first_step"]  # counts by whose releases count from when
        shares, stands_for = self.people_shares, self._holders.stands_for
        weighed = {} if stands_for is None else {"stands_for": digest_of(stands_for)}
        return {
            **settings,
            "since": digest_of(self._accounts.since),
            "people": [self.population.accounted.unweighted_fingerprint, digest_of(self._holders.cell)],
            **weighed,
            "draws": self.population.draws,
            "shares": [shares.count, digest_of(shares.share), digest_of(shares.rank)],
        }

    def with_people(self, newcomers: ContinuousAccountant) -> ContinuousAccountant:
        """This accountant and one of other people, brought to the same step, as one; bit for bit the same.

        ``newcomers`` must have the same settings but for ``first_step``, and the same locations.
        """
        if newcomers.next_step != self.next_step:
            raise StepOrderError(
                f"people who join must be accounted up to step {self.next_step}",
                newcomers.next_step,
                "apply the steps since they came",
            )
        known = self._known_accounts(newcomers)
        new = AccountPositions(np.flatnonzero(known < 0))
        account = AccountPositions(known.copy())
        account[new] = len(self.population) + np.arange(new.size)
        others = newcomers.population.subset(new)
        joined = copy(self)
        joined.people = joined_names(self.people, newcomers.people)
        joined.population = Population.concatenate([self.population, others])
        joined._chains_named = joined.population.chains_named
        is_split = self.shares is not None and newcomers.shares is not None
        joined.shares = self.people_shares.join(newcomers.people_shares) if is_split else None
        groups = self._groups.join(newcomers._groups, account)
        joined._holders, cells = self._holders.join(
            newcomers._holders, account, joined._cell_shares, groups.of_cell
        )
        running = join_running(
            self._running, take_running(newcomers._running, new, others), joined.population
        )
        joined._running = running._replace(groups=groups.merged(cells))
        joined._index_people()
        return joined

    def of_people(self, people: NDArray[np.int64]) -> ContinuousAccountant:
        """The same accountant for some of the people, by position, as if there had been no others."""
        chosen = copy(self)
        chosen.people = tuple(self.people[person] for person in people)
        chosen.shares = None if self.shares is None else self.shares.take(people)
        taken = self._holders.take(PersonPositions(people), chosen._cell_shares)
        population = self.population.subset(taken.accounts)
        first = tuple(self.people[person] for person in taken.first)
        chosen.population = population if population.people == first else population.renamed(first)
        chosen._chains_named = chosen.population.chains_named
        running = take_running(self._running, taken.accounts, chosen.population)
        chosen._holders = taken.holders
        chosen._running = running._replace(groups=self._groups.take(taken.cells, taken.holders.account))
        chosen._index_people()
        return chosen

    def _known_accounts(self, newcomers: ContinuousAccountant) -> AccountPositions:
        """For each account of the newcomers the same one here, or -1."""
        if self.apart or newcomers.apart:
            return AccountPositions(np.full(len(newcomers.population), -1))
        both = Population.concatenate([self.population, newcomers.population])
        return same_accounts(self._running, newcomers._running, both)

    @property
    def _cell_shares(self) -> PeopleShares:
        """The shares that people of one account may fare differently in: none where all work is done."""
        if self.shares is None or self.settings.operations is None or not self.settings.refines:
            return PeopleShares.single(len(self.people))
        return self.shares

    def _index_people(self) -> None:
        """What follows from who is there."""
        arrays = self._accounts.population
        self._most_places = int(np.diff(arrays.places_start).max(initial=1))
        self._nonstationary_people = np.flatnonzero(np.diff(arrays.initial_start))
        self._repeated = RepeatedSteps(arrays.slots)
        self._revealed = RevealedInformation(arrays, len(self.population.location_names))
        # What is revealed of windows is carried beside exact counts, for which that bound does not allow.
        self._unbounded = np.full_like(self._state.carried, _MORE_THAN_ANYTHING)
        self._by_account = Spread(self._holders, self._holders.account, len(self.population))
        self._index_groups()
        self._found_units = None

    def _index_groups(self) -> None:
        """What follows from who has the same figures."""
        groups = self._groups
        self._by_group = Spread(self._holders, groups.of_cell, groups.account.size)

    def _advance_nonstationary(self, step: int) -> None:
        """Move the marginals on of those with an initial distribution, and the constants that follow."""
        people = self._nonstationary_people
        if people.size:
            is_changed = np.zeros(people.size, dtype=np.bool_)
            advance_marginals(self._accounts, people, step, is_changed)
            self._fill_nonstationary(people[is_changed], step)

    def _fill_nonstationary(self, people: NDArray[np.int64], step: int) -> None:
        if people.size:
            fill_constants(self._accounts, people, step, False)

    def _add_revealed(self, step: StepSchedule) -> None:
        """Add what counts of windows and moves reveal in this step to its terms, and to what is known."""
        if step.revealed is None:
            return
        self._has_revealed = True
        before = self._accounts.nonstationary.before
        nats = self._revealed.nats(step.revealed, self.settings.first_slot + step.step - 1, before)
        self._running.add_revealed(step.step, self.settings.horizon, nats)

    def _refined(self, horizon: SeenHorizon) -> Groups:
        """Look again, with the refined bounds, at those whose fast bound is high, as far as the work goes."""
        groups, accounts, chains = self._groups, self._accounts, self._groups.chains()
        due = find_due(accounts, self.settings)
        if self.settings.refines and due.people.size:
            if self._has_revealed:
                accounts = accounts._replace(state=accounts.state._replace(carried=self._unbounded))
            cascade = Cascade(accounts, horizon, due, self.units)
            cascade.refine(self.settings.operations)
            return cascade.settle(groups)
        figures = groups.figures._replace(
            risk=accounts.state.risk[chains],
            decided_by=accounts.state.decided_by[chains],
            is_unreached=np.zeros(chains.shape, dtype=np.bool_),
        )
        return groups._replace(figures=figures)

    def _threshold_index(self, groups: Groups) -> NDArray[np.int64]:
        risk = ceilings_within(self.settings.within_nats, groups.mean_risk)
        return np.searchsorted(np.array(self.settings.thresholds), risk, side="right")

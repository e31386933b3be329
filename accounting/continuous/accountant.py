"""The continuous accountant: every person's reconstruction risk over the last ``T`` steps, step by step.

Its state is a pure function of the priors and of the released schedule; counts never reach it. So a replay of
the release log gives the same state, bit for bit, and showing the figures reveals no person's movements.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, dataclass, field, fields, replace
from math import lcm
from typing import NamedTuple

import numpy as np

from accounting.bounds import deciding_bound
from accounting.bounds.radius import ceilings_within
from accounting.continuous.account_state import MORE_THAN_ANYTHING, RunningAccount, digest_of
from accounting.continuous.accounts_kernel import (
    HISTORY,
    UNITS_PER_NAT,
    Accounts,
    HorizonState,
    advance_marginals,
    fill_constants,
)
from accounting.continuous.cascade import Cascade, RepeatedWindows, Units, alike_chains
from accounting.continuous.horizon_kernel import KnownTerms, Transition, advance
from accounting.continuous.payer import Due, find_due
from accounting.continuous.people import (
    AccountPositions,
    Cells,
    ChainPositions,
    FiguresByPerson,
    Groups,
    Holders,
    PeopleShares,
    PersonPositions,
    Ranked,
    RiskFigures,
    RiskSummary,
    WorstMoments,
    equal_accounts,
    summarise,
    take_people,
)
from accounting.continuous.published import Published, published_in
from accounting.continuous.refine_kernel import count_hits, find_operations
from accounting.continuous.stretches import Stretch
from accounting.exceptions import SettingsError, StepOrderError
from accounting.exposure.own_counts import RevealedInformation
from accounting.exposure.step_information import followed_by, observe, seen_exactly, seen_step, view_of
from accounting.exposure.step_information.likelihood_levels import SeenSteps
from accounting.exposure.step_information.observation import StepView
from accounting.settings import HorizonSettings
from models.arguments import checked
from models.exceptions import ArgumentError, PriorError
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.priors import Population
from models.priors.unrolled import settled_laws
from models.releases import StepSchedule, without_coins

# The terms of steps that are repeated, kept from the first time they were computed.
#
# Sensors that count all day long release the same step again and again. The terms of such a step (what it
# reveals about each person) are the same whenever it falls in the same slot of the person's chain, so they
# are computed once. How terms of several steps add up is not kept here.

MOST_BYTES = 96 * 2**20
_MOST_KEYS = 1024  # steps of which it is only known that they occurred
_UNKNOWN = -1

Key = tuple[int, int, int]


class RepeatedSteps:
    """A cache of terms by step, step before and slot, for people whose chain starts stationary.

    Steps are compared by the identity of their views:
    :func:`accounting.exposure.step_information.observation.view_of` returns the same object for equal
    releases. ``slots`` (N,) are the slots of each person's chain. The entries used least recently are dropped
    first.
    """

    def __init__(self, slots: Integers32, most_bytes: int = MOST_BYTES) -> None:
        self._people = slots.size
        self._period = lcm(*np.unique(slots).tolist())
        self._most = max(1, most_bytes // max(1, 16 * slots.size))
        self._seen: OrderedDict[Key, tuple[StepView, StepView]] = OrderedDict()
        self._kept: OrderedDict[Key, KnownTerms] = OrderedDict()
        self._nothing = KnownTerms(np.empty(0, dtype=np.int64), np.empty(0, dtype=np.int64))

    def __len__(self) -> int:
        """The number of steps whose terms are kept."""
        return len(self._kept)

    def terms(self, before: StepView, step: StepView, step_number: int) -> KnownTerms:
        """The terms that are known, to which the kernel adds what it computes; empty for a new step."""
        # Under noise the terms do not depend on the step before.
        depends_on_before = step.is_raw and before.is_raw
        key = (id(step), id(before) if depends_on_before else 0, step_number % self._period)
        if key not in self._seen:
            self._seen[key] = (before, step)  # kept alive so that no other view gets the same id
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


class AccountantView(NamedTuple):
    """The state of an accountant as decisions read it: the accountant's own arrays, not to be written to."""

    accounts: Accounts
    last_step: StepView
    seen: SeenSteps  # (HISTORY + T rows) of the last horizon and before it
    most_places: int


class PersonRisks(NamedTuple):
    """The figures of some people, (n,) each; ``by`` are the bounds that gave the risks."""

    risk: Floats
    baseline: Floats
    added: Floats
    by: tuple[str, ...]


@checked(SettingsError, leave=("population",))
@dataclass
class ContinuousAccountant:
    """Certified risk of a population, moved on one step at a time by :meth:`apply`.

    ``effective_from[i]`` is the step from which person ``i``'s releases count (default: the first step).
    ``shares`` split the work of a step among people (default: one share); pass them if people are held in
    several processes that must agree.

    People with equal priors and starts who are accounted from the same step on have *one account*: what a
    step reveals is computed once for all of them. ``population`` then has one prior an account, that of the
    first of its ``people`` (N,), and no weights. With ``apart`` each person has a separate account, which is
    needed where people with equal priors still differ; their figures are the same either way. A persona of
    the population's ``weights`` counts as all the people behind it, as if each had a name.

    ``told`` (N,) are people whose habits changed at their step ``effective_from``, where they start from the
    ``initial`` law of their prior. The adversary is told where they were then, and what was released about
    earlier steps is dropped: given that place it is independent of everything later. So ceilings hold against
    any earlier releases. A horizon that begins before that step has ceiling 1.

    Where a population has several chains drawn for each person, because few data leave the chain open, each
    chain is accounted as if it were a person, and each figure of a person is the mean over the chains. No
    adversary does better on average, not even one who knows which chain is the person's.

    Cost: O(sensors at the person's places) an account and step, for a repeated step no more than for one
    without releases; about 300 bytes an account besides the priors, 16 more for each repeated step (within
    limits), and 20 bytes a person besides the name.
    """

    population: Population
    settings: HorizonSettings = field(default_factory=HorizonSettings)
    effective_from: Integers | None = None
    shares: PeopleShares | None = None
    apart: bool = False
    told: Flags | None = None
    people: tuple[str, ...] = field(init=False, repr=False)
    _found_units: Units | None = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        """Find people with equal accounts and compute their constants; nothing is released yet."""
        if not isinstance(self.population, Population):
            raise SettingsError(
                "those accounted must be a Population",
                type(self.population).__name__,
                "pack priors with Population.pack([prior])",
            )
        self.population = self.settings.asked_of(self.population)
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
        told = self._checked_told(people)
        account = np.arange(people) if self.apart else equal_accounts(self.population, 2 * since + told)
        opened, account = np.unique(account, return_inverse=True)
        self._told = told[opened]
        self._chains_named = self.population.chains_named
        people_each = self.population.stands_for
        # From here on the population has one entry an account; the holders know how many people a name has.
        self.population = self.population.unweighted
        if opened.size < people:
            self.population = self.population.subset(opened)
        calendar = self.settings.calendar
        if calendar is not None and calendar.holidays:
            positions = self.settings.first_slot + since[opened]
            self.population = settled_laws(self.population, calendar, positions)
        accounts = AccountPositions(account.reshape(-1))
        self._holders = Holders.of(accounts, self._cell_shares, people_each)
        groups = Groups.whole(opened.size, self._holders.account, self.population.draws)
        self._running = RunningAccount.opened(self.population, self.settings, since[opened], groups)
        self._has_revealed = False
        self._index_people()
        figures = groups.figures._replace(risk=self._state.risk[groups.chains()])
        reached = self._threshold_index(groups._replace(figures=figures))
        figures = figures._replace(reached=reached, reached_before=reached)
        self._running = self._running._replace(groups=groups._replace(figures=figures))

    def __setattr__(self, name: str, value: object) -> None:
        """Refuse other settings once there is an account, but for how hard people are looked at.

        All that was computed rests on the others.
        """
        if name == "settings" and "_running" in vars(self):
            now = self.settings
            if not isinstance(value, HorizonSettings):
                raise SettingsError(
                    "settings must be HorizonSettings", type(value).__name__, "see tg.HorizonSettings"
                )
            as_now = replace(value, sharpen=now.sharpen, operations=now.operations)
            others = [
                each.name for each in fields(now) if getattr(as_now, each.name) != getattr(now, each.name)
            ]
            if others:
                raise SettingsError(
                    "settings of accounts that were opened may be changed in sharpen and operations only",
                    f"others in {', '.join(others)}",
                    "open new accounts with them and apply the steps to these",
                )
        super().__setattr__(name, value)

    def _checked_told(self, people: int) -> Flags:
        """Who is told, (N,); :class:`~accounting.exceptions.SettingsError` where that cannot be accounted."""
        if self.told is None:
            return np.zeros(people, dtype=np.bool_)
        told = np.asarray(self.told, dtype=np.bool_)
        has_no_law = np.diff(self.population.accounted.arrays.initial_start) == 0
        if told.shape != (people,) or (told & self.population.any_draw(has_no_law)).any():
            raise SettingsError(
                "people whose place is told must have an initial distribution",
                "others",
                "give their law at the step",
            )
        return told

    @checked(ArgumentError)
    def apply(self, step: StepSchedule, among: Flags | None = None) -> None:
        """Account one step; steps come in order without gaps, empty ones included.

        Only people ``among`` (N,) are refined (default: all); others keep the fast bound, which is valid.
        """
        before = self._running
        if step.step != before.next_step:
            raise StepOrderError(
                f"the next step must be {before.next_step}",
                step.step,
                "apply steps in order, empty ones included",
            )
        locations = len(self.population.location_names)
        observation = observe(step, locations)
        coins = step.revealed is not None
        view = view_of(without_coins(step.releases), locations) if coins else observation.view
        self._follow_clock(step.step)
        before = self._running
        self._advance_nonstationary(step.step)
        advance(
            before.accounts,
            Transition(step.step, before.view_before, view),
            self._repeated.terms(before.view_before, view, step.step),
            self._most_places,
        )
        self._add_revealed(step)
        if self._told.any():
            now = np.flatnonzero(self.is_told & (self._accounts.since == step.step))
            before.tell(step.step, self.settings.horizon, now)
        seen, published = self._followed_by(step, seen_step(observation))
        groups = self._refined(step.step, seen, published, among)
        since = self._accounts.since[:: self.population.draws][groups.account]
        groups.worst.note(step.step, groups.mean_risk, self._baseline[groups.account], since)
        reached = self._threshold_index(groups)
        figures = groups.figures._replace(reached=reached, reached_before=groups.figures.reached)
        self._running = before._replace(
            next_step=step.step + 1,
            view_before=view,
            seen=seen,
            published=published,
            groups=groups._replace(figures=figures),
        )
        if groups.of_cell is not before.groups.of_cell:
            self._index_groups()

    def _followed_by(self, schedule: StepSchedule, step: SeenSteps) -> tuple[SeenSteps, Published]:
        """What was seen until this step, and published; they become those of the window that is refined."""
        seen, published, steps = self._running.seen, self._running.published, self._windows.steps
        own = None
        if schedule.published is not None or len(published.plain.labels):
            releases = schedule.releases if schedule.published is None else schedule.published
            own = published_in(releases, len(self.population.location_names))
            before = published if len(published.plain.labels) else Published.plainly(seen)
            published = before.followed_by(own)
        self._windows.steps = (*steps[1 - len(seen.labels) :], (step, own))
        is_settled = len(steps) == len(seen.labels) and all(each is step for each, _ in steps)
        return (seen if is_settled else followed_by(seen, step)), published

    def apply_all(self, steps: Iterable[StepSchedule]) -> None:
        """Account several steps, as after a restart."""
        for step in steps:
            self.apply(step)

    @property
    def people_shares(self) -> PeopleShares:
        """How the work of a step is split among the people."""
        return PeopleShares.single(len(self.people)) if self.shares is None else self.shares

    @property
    def by_account(self) -> FiguresByPerson:
        """Looks up figures of accounts by person."""
        return self._by_account

    @property
    def has_told(self) -> bool:
        """Whether the place of some people is told at their first step."""
        return bool(self._told.any())

    @property
    def told_accounts(self) -> Flags:
        """Whether the place is told at the first step, by account, (A,)."""
        return self._told

    @property
    def is_told(self) -> Flags:
        """The same by chain, (A,) times the draws."""
        return np.repeat(self._told, self.population.draws)

    @property
    def units(self) -> Units:
        """The units that are refined and paid for together; computed when the first person is refined."""
        if self._found_units is None:
            alike = alike_chains(self.population, 2 * self._accounts.since + self.is_told)
            count = self._cell_shares.count
            self._found_units = Units.of(self._holders, count, alike, self.population.draws)
        return self._found_units

    def most_operations(self, is_counted: Flags) -> Integers:
        """The cost of refining each person if these locations (M,) are counted exactly at each step, (N,)."""
        chains = len(self.population.accounted)
        seen = seen_exactly(np.tile(is_counted.astype(np.int32), (len(self._running.seen.labels), 1)))
        everybody = ChainPositions(np.arange(chains))
        found = find_operations(self._accounts, everybody, self.settings.vectors, count_hits(seen))
        return self._by_account.each(found.reshape(-1, self.population.draws).sum(axis=1))

    @property
    def holders(self) -> Holders:
        """The people by name, and the account of each."""
        return self._holders

    def held_by(self, people: tuple[str, ...], cells: Cells, shares: PeopleShares) -> ContinuousAccountant:
        """These accounts, before any step, for the people and cells of a snapshot."""
        held = copy(self)
        held.people, held.shares = people, shares
        held._holders = Holders.in_cells(cells, held._cell_shares)
        groups = Groups.whole(len(self.population), held._holders.account, self.population.draws)
        held._running = self._running._replace(groups=groups)
        held._index_people()
        return held

    def view(self) -> AccountantView:
        """The state after the last step, for what-if questions; not to be written to."""
        running = self._running
        return AccountantView(running.accounts, running.view_before, running.seen, self._most_places)

    @property
    def refining(self) -> Accounts:
        """The accounts as refined bounds read them; not to be written to.

        With counts of windows the carried information is no bound for the refinement.
        """
        accounts = self._accounts
        if not self._has_revealed:
            return accounts
        return accounts._replace(state=accounts.state._replace(carried=self._unbounded))

    def settled_accounts(self) -> Accounts:
        """The accounts with chains, slots and constants as priors say, whatever the clock does."""
        arrays, running = self.population.accounted.arrays, self._running
        horizon = running.accounts.horizon._replace(first_slot=self.settings.first_slot)
        return running.accounts._replace(population=arrays, constants=running.settled, horizon=horizon)

    def snapshot(self) -> bytes:
        """The state as bytes, equal for equal histories: a cache of what the release log says."""
        return self._running.packed(self._basis())

    @checked(ArgumentError)
    def restore(self, snapshot: bytes) -> None:
        """Load the :meth:`snapshot` of an accountant with the same population and settings.

        :class:`~accounting.exceptions.SnapshotError` if it is another's; this accountant is unchanged then.
        """
        self._running = self._running.restored(snapshot, self._basis())
        self._windows = RepeatedWindows(self._accounts)  # what the steps before were called is not known
        self._index_groups()
        self._follow_clock(self.next_step - 1)
        self._fill_nonstationary(self._nonstationary_people, self.next_step - 1)

    def _basis(self) -> dict[str, object]:
        """Everything that the state follows from besides the steps."""
        settings = asdict(self.settings)
        del settings["first_step"]  # "since" says from which step on each person's releases count
        del settings["calendar"], settings["question"]
        if self.settings.question is not None:
            settings["question"] = self.settings.question.in_words()
        if self.settings.calendar is not None:
            settings["calendar"] = self.settings.calendar.in_words()
        shares, stands_for = self.people_shares, self._holders.stands_for
        weighed = {} if stands_for is None else {"stands_for": digest_of(stands_for)}
        if self._told.any():
            weighed["told"] = digest_of(self._told)
        return {
            **settings,
            "since": digest_of(self._accounts.since),
            "people": [self.population.accounted.unweighted_fingerprint, digest_of(self._holders.cell)],
            **weighed,
            "draws": self.population.draws,
            "shares": [shares.count, digest_of(shares.share), digest_of(shares.rank)],
        }

    def with_people(self, newcomers: ContinuousAccountant) -> ContinuousAccountant:
        """One accountant for these people and the newcomers, both at the same step; no bit changes.

        ``newcomers`` must have the same settings except ``first_step``, and the same locations.
        """
        if newcomers.next_step != self.next_step:
            raise StepOrderError(
                f"people who join must be accounted up to step {self.next_step}",
                newcomers.next_step,
                "apply to them the steps since they joined",
            )
        known = self._known_accounts(newcomers)
        new = AccountPositions(np.flatnonzero(known < 0))
        account = AccountPositions(known.copy())
        account[new] = len(self.population) + np.arange(new.size)
        others = newcomers.population.subset(new)
        joined = copy(self)
        twice = set(newcomers.people).intersection(self.people)
        if twice:
            raise PriorError(
                "each person must have one prior", f"{min(twice)!r} twice", "keep one of the two"
            )
        joined.people = self.people + newcomers.people
        joined.population = Population.concatenate([self.population, others])
        joined._told = np.concatenate((self._told, newcomers._told[new]))
        joined._chains_named = joined.population.chains_named
        is_split = self.shares is not None and newcomers.shares is not None
        joined.shares = self.people_shares.join(newcomers.people_shares) if is_split else None
        groups = self._groups.join(newcomers._groups, account)
        joined._holders, cells = self._holders.join(
            newcomers._holders, account, joined._cell_shares, groups.of_cell
        )
        running = self._running.join(newcomers._running.take(new, others), joined.population)
        joined._running = running._replace(groups=groups.merged(cells))
        joined._index_people()
        return joined

    def of_people(self, people: Integers) -> ContinuousAccountant:
        """The accountant of some of the people, by position, as if there had never been others."""
        chosen = copy(self)
        chosen.people = tuple(self.people[person] for person in people)
        chosen.shares = None if self.shares is None else self.shares.take(people)
        taken = self._holders.take(PersonPositions(people), chosen._cell_shares)
        population = self.population.subset(taken.accounts)
        first = tuple(self.people[person] for person in taken.first)
        chosen.population = population if population.people == first else population.renamed(first)
        chosen._told = self._told[taken.accounts]
        chosen._chains_named = chosen.population.chains_named
        running = self._running.take(taken.accounts, chosen.population)
        chosen._holders = taken.holders
        chosen._running = running._replace(groups=self._groups.take(taken.cells, taken.holders.account))
        chosen._index_people()
        return chosen

    def _known_accounts(self, newcomers: ContinuousAccountant) -> AccountPositions:
        """For each account of the newcomers the position of the equal one here, or -1."""
        if self.apart or newcomers.apart:
            return AccountPositions(np.full(len(newcomers.population), -1))
        both = Population.concatenate([self.population, newcomers.population])
        told = np.concatenate((self._told, newcomers._told))
        return self._running.equal_to(newcomers._running, both, told)

    @property
    def _cell_shares(self) -> PeopleShares:
        """The shares that may be refined differently: one if all work is done in any case."""
        if self.shares is None or self.settings.operations is None or not self.settings.refines:
            return PeopleShares.single(len(self.people))
        return self.shares

    def _index_people(self) -> None:
        """Set what follows from the people and accounts."""
        arrays = self._accounts.population
        self._most_places = int(np.diff(arrays.places_start).max(initial=1))
        self._nonstationary_people = np.flatnonzero(np.diff(arrays.initial_start))
        self._index_chains()
        # With counts of windows the carried information is no bound for the refinement, so it gets this
        # instead.
        self._unbounded = np.full_like(self._state.carried, MORE_THAN_ANYTHING)
        self._by_account = FiguresByPerson(self._holders, self._holders.account, len(self.population))
        self._index_groups()
        self._found_units = None

    def _index_chains(self) -> None:
        """Set what follows from the chains of this stretch of time."""
        arrays = self._accounts.population
        steps = self._windows.steps if hasattr(self, "_windows") else ()
        self._windows = RepeatedWindows(self._accounts, steps)
        self._repeated = RepeatedSteps(arrays.slots)
        self._revealed = RevealedInformation(arrays, len(self.population.location_names))

    def _follow_clock(self, step: int) -> None:
        """Take the chains, slots and constants of the stretch of time in which a step lies."""
        before = self._running
        self._running = before.in_stretch(Stretch.of(self.settings, step), self.population)
        if self._running is not before:
            self._index_chains()
            self._fill_nonstationary(self._nonstationary_people, step)

    def _index_groups(self) -> None:
        """Set what follows from the groups."""
        groups = self._groups
        self._by_group = FiguresByPerson(self._holders, groups.of_cell, groups.account.size)

    def _advance_nonstationary(self, step: int) -> None:
        """Advance the marginals of people with an initial distribution, and the constants that follow."""
        people = self._nonstationary_people
        if people.size:
            is_changed = np.zeros(people.size, dtype=np.bool_)
            advance_marginals(self._accounts, people, step, is_changed)
            self._fill_nonstationary(people[is_changed], step)

    def _fill_nonstationary(self, people: Integers, step: int) -> None:
        if people.size:
            fill_constants(self._accounts, people, step, False)

    def _add_revealed(self, step: StepSchedule) -> None:
        """Add what this step's counts of windows and moves reveal to its terms and to the information."""
        if step.revealed is None:
            return
        self._has_revealed = True
        before = self._accounts.nonstationary.before
        nats = self._revealed.nats(step.revealed, self._accounts.horizon.first_slot + step.step - 1, before)
        self._running.add_revealed(step.step, self.settings.horizon, nats)

    def _refined(self, step: int, seen: SeenSteps, published: Published, among: Flags | None) -> Groups:
        """The groups after refining the accounts whose fast bound is high, as far as the step's work goes."""
        groups, accounts, chains = self._groups, self._accounts, self._groups.chains()
        if self.settings.refines:
            due = find_due(accounts, self.settings)
            if among is not None:
                is_chosen = np.zeros((len(self.population), self.population.draws), dtype=np.bool_)
                is_chosen[self._by_account.of(np.flatnonzero(among))] = True
                due = due.of(is_chosen.reshape(-1)[due.chains])
            due = self.known_to_refined(due, step)
            if due.chains.size:
                cascade = Cascade(self.refining, step, seen, published, due, self.units, self._windows)
                cascade.refine(self.settings.operations)
                return cascade.settle(groups)
        figures = groups.figures._replace(
            risk=accounts.state.risk[chains],
            decided_by=accounts.state.decided_by[chains],
            is_unreached=np.zeros(chains.shape, dtype=np.bool_),
        )
        return groups._replace(figures=figures)

    def known_to_refined(self, due: Due, step: int) -> Due:
        """Those of the due of whom refined bounds know all that the fast one does after a step.

        What was told is in the fast bound, and in the others once it is so long ago that these have the
        adversary shown a later place.
        """
        if not self.has_told:
            return due
        is_recent = step - self.settings.horizon + 1 - self._accounts.since <= HISTORY
        return due.of(~(self.is_told & is_recent)[due.chains])

    def _threshold_index(self, groups: Groups) -> Integers:
        risk = ceilings_within(self.settings.within_nats, groups.mean_risk)
        return np.searchsorted(np.array(self.settings.thresholds), risk, side="right")

    # Figures of people after the last step: those of their groups and accounts, looked up by person.

    @property
    def next_step(self) -> int:
        """The step that :meth:`apply` expects."""
        return self._running.next_step

    @property
    def stretch(self) -> Stretch:
        """The stretch of time of the last step: the same chains and slots as long as it is the same."""
        return self._running.stretch

    @property
    def since(self) -> Integers:
        """The step from which each person's releases count, (N,)."""
        return self._by_account.each(self._accounts.since[:: self.population.draws])

    @property
    def everybody(self) -> int:
        """The number of people, including all those behind personas."""
        return int(self._by_account.people.sum())

    @property
    def people_each(self) -> Integers:
        """How many people each name stands for, (N,): one, except for personas."""
        return self._by_account.holders.people_each

    @property
    def not_reached(self) -> int:
        """People whose risk the refined bounds could have lowered if the last step's work had sufficed."""
        is_unreached = self._groups.figures.is_unreached.any(axis=0)
        return int(self._by_group.people[is_unreached].sum())

    def risk(self) -> Floats:
        """Certified risk of each person over the horizon that ends with the last step, shape (N,).

        It holds within the radius of the settings, like every risk that is shown.
        """
        return self._by_group.each(self._shown_figures().risk)

    def prior_risk(self) -> Floats:
        """Certified risk of each person under the prior itself, whatever the radius, (N,)."""
        return self._by_group.each(self._groups.mean_risk)

    def chain_risk(self) -> Floats:
        """Certified risk by chain, (N,) times the draws, of people who are accounted apart."""
        found = np.empty(len(self.population.accounted))
        found[self._groups.chains()] = self._groups.figures.risk
        return found

    def mean_prior_risk(self) -> float:
        """The mean of :meth:`prior_risk` over people; 0 if there are none."""
        return Ranked(self._groups.mean_risk, self._by_group.people).mean()

    def baseline(self) -> Floats:
        """Exact success of the best known guess from the prior alone on the same horizon, shape (N,)."""
        return self._by_account.each(self._baseline)

    def account_baseline(self) -> Floats:
        """The baseline of each account, (A,)."""
        return self._baseline.copy()

    def added(self) -> Floats:
        """Upper bound on what the releases added under the prior: risk less baseline, shape (N,)."""
        return self._by_group.each(self._shown_figures().added)

    def risks_of(self, people: Integers) -> PersonRisks:
        """The figures of some people, by position."""
        group = self._by_group.of(people)
        risk, baseline, added = (values[group] for values in self._shown_figures())
        return PersonRisks(risk, baseline, added, self._decided_by(group))

    def median_guess(self) -> float:
        """The median over people of how often the guess from habits is right (mean over the cycle)."""
        settled = self._running.settled
        first, last = settled.phase_start[:-1], settled.phase_start[1:]
        if first.size == 0:
            return 0.0
        each = np.add.reduceat(settled.baseline, first) / (last - first)
        return Ranked(self.population.mean_draw(each), self._by_account.people).median()

    def information_nats(self) -> Floats:
        """Bound on what everything released reveals about the horizon, nats, shape (N,)."""
        return self._by_account.each(self.population.mean_draw(self._state.information / UNITS_PER_NAT))

    def worst(self) -> WorstMoments:
        """The worst moments of each person since the first step; the highest risk holds within the radius."""
        groups = np.arange(self._by_group.groups)
        return take_people(self._worst_of_groups(), self._by_group.each(groups))

    def most_exposed(self, count: int) -> tuple[Integers, WorstMoments]:
        """The positions and worst moments of the ``count`` people with most added risk so far, ties included.

        Positions increase. People without added risk are left out.
        """
        worst = self._worst_of_groups()
        people = self._by_group.people_with(worst.is_most_added(count, self._by_group.people))
        return people, take_people(worst, self._by_group.of(people))

    def decided_by(self, person: int) -> str:
        """The bound that gave a person's risk; of several chains, that of the chain with the highest risk."""
        return self._decided_by(self._by_group.of(np.array([person])))[0]

    def crossings(self) -> Integers:
        """People whose highest reached threshold changed in the last step, increasing."""
        figures = self._groups.figures
        return self._by_group.people_with(figures.reached != figures.reached_before)

    def summary(self) -> RiskSummary:
        """The last step in a few numbers."""
        return summarise(
            self.next_step - 1,
            self._shown_figures(),
            self.settings.thresholds,
            self._worst_of_groups(),
            self._by_group.people,
            not_reached=self.not_reached,
            within_nats=self.settings.within_nats,
            draws=self.population.draws,
            chains=self._chains_named,
        )

    @property
    def _groups(self) -> Groups:
        return self._running.groups

    @property
    def _accounts(self) -> Accounts:
        return self._running.accounts

    @property
    def _state(self) -> HorizonState:
        return self._accounts.state

    @property
    def _baseline(self) -> Floats:
        """The baseline of each account, (A,)."""
        return self.population.mean_draw(self._state.baseline)

    def _shown_figures(self) -> RiskFigures:
        """The figures of each group; risks hold within the radius."""
        risk, baseline = self._groups.mean_risk, self._baseline[self._groups.account]
        return RiskFigures(ceilings_within(self.settings.within_nats, risk), baseline, risk - baseline)

    def _worst_of_groups(self) -> WorstMoments:
        """The worst moments of each group, to be read only; the highest risk holds within the radius."""
        worst = self._groups.worst
        return worst._replace(highest_risk=ceilings_within(self.settings.within_nats, worst.highest_risk))

    def _decided_by(self, group: Integers) -> tuple[str, ...]:
        """The bound that gave the risk of each of these groups, as :meth:`decided_by`."""
        figures = self._groups.figures
        chain = np.argmax(figures.risk[:, group], axis=0)
        codes = figures.decided_by[chain, group].tolist()
        names = {code: deciding_bound(code, self.settings.mistakes) for code in set(codes)}
        return tuple([names[code] for code in codes])

"""The continuous accountant: every person's reconstruction risk over the last ``T`` steps, step by step.

Its state is a pure function of the priors and of the released schedule; counts never reach it. So a replay of
the release log gives the same state, bit for bit, and what it shows tells nothing about anybody's movements.
"""

from __future__ import annotations

from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds import deciding_bound
from accounting.bounds.radius import bound_for, ceilings_within
from accounting.continuous.accounts_kernel import (
    HISTORY,
    UNITS_PER_NAT,
    Accounts,
    Horizon,
    HorizonState,
    Nonstationary,
    empty_state,
)
from accounting.continuous.cascade import Cascade, SeenHorizon, alike_accounts, find_due
from accounting.continuous.constants_kernel import empty_constants, fill_constants
from accounting.continuous.horizon_kernel import Transition, advance
from accounting.continuous.membership import join_running, take_running
from accounting.continuous.nonstationary_kernel import advance_marginals
from accounting.continuous.people_shares import PeopleShares
from accounting.continuous.refine_kernel import find_operations
from accounting.continuous.repeated_steps import RepeatedSteps
from accounting.continuous.risk_summary import RiskSummary, summarise
from accounting.continuous.saved_state import RunningAccount, digest_of
from accounting.continuous.worst_moments import WorstMoments, no_moments
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
from accounting.exposure.step_information.step_terms_kernel import StepView
from accounting.settings import HorizonSettings
from models.priors import Population
from models.releases import StepSchedule, without_coins

_MORE_THAN_ANYTHING = 1 << 50  # units: a thousand nats


class AccountantView(NamedTuple):
    """What decisions read of an accountant; views of its state, never to be written to."""

    accounts: Accounts
    last_step: StepView
    labels: NDArray[np.int32]  # (HISTORY + T, M) outcomes of the locations in the last horizon and before it
    most_places: int


@dataclass
class ContinuousAccountant:
    """Certified risk of a population, moved on one step at a time by :meth:`apply`.

    ``effective_from[i]`` is the step from which person ``i``'s releases count (default: the first step).
    ``shares`` split the work of a step among people (default: one share); give them where people are held in
    several places that must agree.

    Where a population has chains drawn from what few data leave open, each chain is accounted as a person of
    its own, and every figure of a person is its mean over the chains: no adversary does better on average,
    not even one who knows which chain is the person's.
    Cost: O(sensors at the person's places) per person and step, no more than silence for a step that comes
    again; about 300 bytes a person besides the priors, and 16 for each step that comes again, within limits.
    """

    population: Population
    settings: HorizonSettings = field(default_factory=HorizonSettings)
    effective_from: NDArray[np.int64] | None = None
    shares: PeopleShares | None = None

    def __post_init__(self) -> None:
        """Compute everybody's constants; nothing is released yet."""
        people, chains = len(self.population), self.population.accounted
        first_step = self.settings.first_step
        since = (
            np.full(people, first_step) if self.effective_from is None else np.asarray(self.effective_from)
        )
        if since.shape != (people,):
            raise SettingsError(
                f"effective_from must have one step for each of {people} people",
                since.shape,
                "pass one value a person",
            )
        arrays, horizon = chains.arrays, self.settings.horizon
        accounts = Accounts(
            arrays,
            empty_constants(arrays),
            Nonstationary(*(arrays.initial.copy() for _ in Nonstationary._fields)),
            empty_state(len(chains), horizon),
            np.repeat(np.maximum(since, first_step).astype(np.int64), self.population.draws),
            _kernel_horizon(self.settings),
        )
        locations = len(self.population.location_names)
        self._running = RunningAccount(
            accounts,
            first_step,
            nothing_seen(locations),
            nothing_seen_for(HISTORY + horizon, locations),
            no_moments(people),
            np.zeros(people, dtype=np.int64),
            np.zeros(people, dtype=np.int64),
            np.zeros(len(chains), dtype=np.bool_),
        )
        self._has_revealed = False
        self._index_people()
        fill_constants(accounts, np.arange(len(chains)), first_step, True)
        self._fill_nonstationary(self._nonstationary_people, first_step)
        self._show_prior()

    @property
    def next_step(self) -> int:
        """The step that :meth:`apply` expects."""
        return self._running.next_step

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
        is_unreached = self._refine(SeenHorizon(step.step, seen))
        before.worst.note(step.step, self.population.mean_draw(self._state.risk), self.baseline(), self.since)
        self._running = before._replace(
            next_step=step.step + 1,
            view_before=view,
            seen=seen,
            reached=self._threshold_index(),
            reached_before=before.reached,
            is_unreached=is_unreached,
        )

    def apply_all(self, steps: Iterable[StepSchedule]) -> None:
        """Account several steps, as after a restart."""
        for step in steps:
            self.apply(step)

    @property
    def since(self) -> NDArray[np.int64]:
        """The step from which each person's releases count, (N,)."""
        return self._accounts.since[:: self.population.draws]

    @property
    def people_shares(self) -> PeopleShares:
        """How the work of a step is split among people."""
        return self._people_shares

    @property
    def not_reached(self) -> int:
        """People whom the refined bounds could have lowered, had the work of the last step sufficed."""
        return int(np.count_nonzero(self.population.any_draw(self._running.is_unreached)))

    def most_operations(self, is_counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """What refining takes where these locations, (M,), are counted exactly in every step, (N,)."""
        chains = len(self.population.accounted)
        found = np.zeros(chains, dtype=np.int64)
        seen = seen_exactly(np.tile(is_counted.astype(np.int32), (len(self._running.seen.labels), 1)))
        find_operations(self._accounts, np.arange(chains), self.settings.vectors, seen, found)
        return found.reshape(-1, self.population.draws).sum(axis=1)

    def risk(self) -> NDArray[np.float64]:
        """Certified risk of each person over the horizon that ends with the last step, shape (N,).

        Like every risk that is shown, within the radius of the settings.
        """
        return ceilings_within(self.settings.within_nats, self.population.mean_draw(self._state.risk)).copy()

    def baseline(self) -> NDArray[np.float64]:
        """Exact success of the best known guess from the prior alone on the same horizon, shape (N,)."""
        return self.population.mean_draw(self._state.baseline).copy()

    def added(self) -> NDArray[np.float64]:
        """Upper bound on what the releases added under the prior: its risk less baseline, shape (N,)."""
        return self.population.mean_draw(self._state.risk) - self.population.mean_draw(self._state.baseline)

    def median_guess(self) -> float:
        """How often habits alone tell half of the people or more, mean over the cycle."""
        first, last = self._accounts.constants.phase_start[:-1], self._accounts.constants.phase_start[1:]
        if first.size == 0:
            return 0.0
        each = np.add.reduceat(self._accounts.constants.baseline, first) / (last - first)
        return float(np.median(self.population.mean_draw(each)))

    def information_nats(self) -> NDArray[np.float64]:
        """Bound on what everything released tells about the horizon, nats, shape (N,)."""
        return self.population.mean_draw(self._state.information / UNITS_PER_NAT)

    def worst(self) -> WorstMoments:
        """Everybody's worst moments since the first step; the highest risk is within the radius."""
        worst = self._running.worst.copy()
        return worst._replace(highest_risk=ceilings_within(self.settings.within_nats, worst.highest_risk))

    def decided_by(self, person: int) -> str:
        """Which bound gave a person's risk; of several chains, the highest one's."""
        draws = self.population.draws
        chain = person * draws + int(np.argmax(self._state.risk[person * draws : (person + 1) * draws]))
        return deciding_bound(int(self._state.decided_by[chain]), self.settings.mistakes)

    def crossings(self) -> NDArray[np.int64]:
        """People whose highest reached threshold changed in the last step, increasing."""
        return np.flatnonzero(self._running.reached != self._running.reached_before)

    def summary(self) -> RiskSummary:
        """The last step in a few numbers."""
        figures = self.risk(), self.baseline(), self.added()
        found = summarise(self.next_step - 1, *figures, self.settings.thresholds, self.worst())
        return replace(
            found,
            not_reached=self.not_reached,
            within_nats=self.settings.within_nats,
            draws=self.population.draws,
            chains=self.population.chains_named,
        )

    def view(self) -> AccountantView:
        """The state after the last step, for what-if questions; read only."""
        accounts, last_step, labels = self._accounts, self._running.view_before, self._running.seen.labels
        return AccountantView(accounts, last_step, labels, self._most_places)

    def snapshot(self) -> bytes:
        """The state as bytes, equal for equal histories; a cache, the release log remains the truth."""
        return self._running.packed(self._basis())

    def restore(self, snapshot: bytes) -> None:
        """Take over the state of :meth:`snapshot` of an accountant with the same population and settings.

        :class:`~accounting.exceptions.SnapshotError` otherwise; nothing was taken over then.
        """
        self._running = self._running.restored(snapshot, self._basis())
        self._fill_nonstationary(self._nonstationary_people, self.next_step - 1)

    def _basis(self) -> dict[str, object]:
        """Everything but the steps that the state follows from."""
        settings = asdict(self.settings)
        del settings["first_step"]  # counts by whose releases count from when
        shares = self._shares
        return {
            **settings,
            "since": digest_of(self._accounts.since),
            "people": self.population.accounted.fingerprint,
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
        joined = copy(self)
        joined.population = Population.concatenate([self.population, newcomers.population])
        joined._running = join_running(self._running, newcomers._running, joined.population)
        joined.effective_from = joined.since
        is_split = self.shares is not None and newcomers.shares is not None
        joined.shares = self.people_shares.join(newcomers.people_shares) if is_split else None
        joined._index_people()
        return joined

    def of_people(self, people: NDArray[np.int64]) -> ContinuousAccountant:
        """The same accountant for some of the people, by position, as if there had been no others."""
        chosen = copy(self)
        chosen.population = self.population.subset(people)
        chosen._running = take_running(self._running, people, chosen.population)
        chosen.effective_from = chosen.since
        chosen.shares = None if self.shares is None else self.shares.take(people)
        chosen._index_people()
        return chosen

    @property
    def _accounts(self) -> Accounts:
        return self._running.accounts

    @property
    def _state(self) -> HorizonState:
        return self._accounts.state

    def _index_people(self) -> None:
        """What follows from who is there."""
        arrays = self._accounts.population
        self._most_places = int(np.diff(arrays.places_start).max(initial=1))
        self._nonstationary_people = np.flatnonzero(np.diff(arrays.initial_start))
        self._repeated = RepeatedSteps(arrays.slots)
        self._revealed = RevealedInformation(arrays, len(self.population.location_names))
        # What is revealed of windows is carried beside exact counts, for which that bound does not allow.
        self._unbounded = np.full_like(self._state.carried, _MORE_THAN_ANYTHING)
        shares = PeopleShares.single(len(self.population)) if self.shares is None else self.shares
        self._people_shares, self._shares = shares, shares.of_draws(self.population.draws)
        self._alike: NDArray[np.int64] | None = None  # found once somebody is refined

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

    def _refine(self, horizon: SeenHorizon) -> NDArray[np.bool_]:
        """Look again, with the refined bounds, at those whose fast bound is high, as far as the work goes.

        Which chains were due and could not be reached.
        """
        accounts, settings = self._accounts, self.settings
        is_unreached = np.zeros(accounts.since.size, dtype=np.bool_)
        due = find_due(accounts, settings)
        if settings.refines and due.people.size:
            if self._alike is None:
                self._alike = alike_accounts(self.population, accounts.since)
            if self._has_revealed:
                accounts = accounts._replace(state=accounts.state._replace(carried=self._unbounded))
            cascade = Cascade(accounts, horizon, due, self._shares, self._alike)
            is_unreached[cascade.refine(settings.operations)] = True
        return is_unreached

    def _show_prior(self) -> None:
        """Before the first step nobody does better than the bound on a guess from the prior."""
        first = self.settings.first_slot + self.settings.first_step - self.settings.horizon
        population, constants = self._accounts.population, self._accounts.constants
        starts_itself = np.diff(population.initial_start) > 0
        start = np.where(starts_itself, self.settings.first_slot + self._accounts.since, first)
        phase = constants.phase_start[:-1] + start % population.slots
        self._state.baseline[:] = constants.baseline[phase]
        self._state.bound[:] = constants.guess[phase]
        self._state.risk[:] = np.maximum(self._state.bound, self._state.baseline)
        reached = self._threshold_index()
        self._running = self._running._replace(reached=reached, reached_before=reached)

    def _threshold_index(self) -> NDArray[np.int64]:
        return np.searchsorted(np.array(self.settings.thresholds), self.risk(), side="right")


def _kernel_horizon(settings: HorizonSettings) -> Horizon:
    return Horizon(
        settings.horizon,
        settings.mistakes,
        settings.vectors,
        bound_for(settings.within_nats, float(settings.refined_from)),
        settings.first_slot,
    )

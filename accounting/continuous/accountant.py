"""The continuous accountant: every person's reconstruction risk over the last ``T`` steps, step by step.

Its state is a pure function of the priors and of the released schedule; counts never reach it. So a replay of
the release log gives the same state, bit for bit, and what it shows tells nothing about anybody's movements.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable
from copy import copy
from dataclasses import asdict, dataclass, field, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds import deciding_bound
from accounting.bounds.radius import bound_for, ceilings_within
from accounting.continuous import membership
from accounting.continuous.accounts_kernel import (
    HISTORY,
    UNITS_PER_NAT,
    Accounts,
    Horizon,
    HorizonState,
    Nonstationary,
    empty_state,
)
from accounting.continuous.cascade import Cascade, SeenHorizon, find_due
from accounting.continuous.constants_kernel import empty_constants, fill_constants
from accounting.continuous.horizon_kernel import Transition, advance
from accounting.continuous.nonstationary_kernel import advance_marginals
from accounting.continuous.people_shares import PeopleShares
from accounting.continuous.refine_kernel import find_operations
from accounting.continuous.repeated_steps import RepeatedSteps
from accounting.continuous.risk_summary import RiskSummary, summarise
from accounting.continuous.saved_state import REMEDY, named, pack_state, taken, unpack_state
from accounting.continuous.worst_moments import WorstMoments, no_moments
from accounting.exceptions import SettingsError, SnapshotError, StepOrderError
from accounting.exposure.step_information import (
    followed_by,
    is_whole,
    nothing_seen,
    nothing_seen_for,
    seen_exactly,
    seen_release,
    view_of,
)
from accounting.exposure.step_information.seen_steps_kernel import LevelTables, SeenSteps
from accounting.exposure.step_information.step_terms_kernel import StepView
from accounting.settings import HorizonSettings
from models.priors import Population
from models.releases import StepSchedule


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
        self._accounts = Accounts(
            arrays,
            empty_constants(arrays),
            Nonstationary(*(arrays.initial.copy() for _ in Nonstationary._fields)),
            empty_state(len(chains), horizon),
            np.repeat(np.maximum(since, first_step).astype(np.int64), self.population.draws),
            _kernel_horizon(self.settings),
        )
        self._index_people()
        fill_constants(self._accounts, np.arange(len(chains)), first_step, True)
        self._worst = no_moments(people)
        self._view_before = nothing_seen(len(self.population.location_names))
        self._seen = nothing_seen_for(HISTORY + horizon, len(self.population.location_names))
        self._next_step = first_step
        self._reached_before = np.zeros(people, dtype=np.int64)
        self._reached = np.zeros(people, dtype=np.int64)
        self._is_unreached = np.zeros(len(chains), dtype=np.bool_)
        self._fill_nonstationary(self._nonstationary_people, first_step)
        self._show_prior()

    @property
    def next_step(self) -> int:
        """The step that :meth:`apply` expects."""
        return self._next_step

    def apply(self, step: StepSchedule) -> None:
        """Account one step; steps come in order without gaps, empty ones included."""
        if step.step != self._next_step:
            raise StepOrderError(
                f"the next step must be {self._next_step}",
                step.step,
                "apply steps in order, empty ones included",
            )
        view = view_of(step.releases, len(self.population.location_names))
        self._advance_nonstationary(step.step)
        advance(
            self._accounts,
            Transition(step.step, self._view_before, view),
            self._repeated.terms(self._view_before, view, step.step),
            self._most_places,
        )
        self._view_before = view
        self._seen = followed_by(self._seen, seen_release(step.releases, len(self.population.location_names)))
        self._refine(step.step)
        self._worst.note(step.step, self._mean(self._state.risk), self.baseline(), self.since)
        self._next_step = step.step + 1
        self._reached_before = self._reached
        self._reached = self._threshold_index()

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
        return int(np.count_nonzero(self.population.any_draw(self._is_unreached)))

    def most_operations(self, is_counted: NDArray[np.bool_]) -> NDArray[np.int64]:
        """What refining takes where these locations, (M,), are counted exactly in every step, (N,)."""
        chains = len(self.population.accounted)
        found = np.zeros(chains, dtype=np.int64)
        seen = seen_exactly(np.tile(is_counted.astype(np.int32), (len(self._seen.labels), 1)))
        find_operations(self._accounts, np.arange(chains), self.settings.vectors, seen, found)
        return found.reshape(-1, self.population.draws).sum(axis=1)

    def risk(self) -> NDArray[np.float64]:
        """Certified risk of each person over the horizon that ends with the last step, shape (N,).

        Like every risk that is shown, within the radius of the settings.
        """
        return ceilings_within(self.settings.within_nats, self._mean(self._state.risk)).copy()

    def baseline(self) -> NDArray[np.float64]:
        """Exact success of the best known guess from the prior alone on the same horizon, shape (N,)."""
        return self._mean(self._state.baseline).copy()

    def added(self) -> NDArray[np.float64]:
        """Upper bound on what the releases added under the prior: its risk less baseline, shape (N,)."""
        return self._mean(self._state.risk) - self._mean(self._state.baseline)

    def median_guess(self) -> float:
        """How often habits alone tell half of the people or more, mean over the cycle."""
        first, last = self._accounts.constants.phase_start[:-1], self._accounts.constants.phase_start[1:]
        if first.size == 0:
            return 0.0
        each = np.add.reduceat(self._accounts.constants.baseline, first) / (last - first)
        return float(np.median(self._mean(each)))

    def information_nats(self) -> NDArray[np.float64]:
        """Bound on what everything released tells about the horizon, nats, shape (N,)."""
        return self._mean(self._state.information / UNITS_PER_NAT)

    def worst(self) -> WorstMoments:
        """Everybody's worst moments since the first step; the highest risk is within the radius."""
        worst = self._worst.copy()
        return worst._replace(highest_risk=ceilings_within(self.settings.within_nats, worst.highest_risk))

    def decided_by(self, person: int) -> str:
        """Which bound gave a person's risk; of several chains, the highest one's."""
        draws = self.population.draws
        chain = person * draws + int(np.argmax(self._state.risk[person * draws : (person + 1) * draws]))
        return deciding_bound(int(self._state.decided_by[chain]), self.settings.mistakes)

    def crossings(self) -> NDArray[np.int64]:
        """People whose highest reached threshold changed in the last step, increasing."""
        return np.flatnonzero(self._reached != self._reached_before)

    def summary(self) -> RiskSummary:
        """The last step in a few numbers."""
        figures = self.risk(), self.baseline(), self.added()
        found = summarise(self._next_step - 1, *figures, self.settings.thresholds, self.worst())
        return replace(
            found,
            not_reached=self.not_reached,
            within_nats=self.settings.within_nats,
            draws=self.population.draws,
            chains=self.population.chains_named,
        )

    def view(self) -> AccountantView:
        """The state after the last step, for what-if questions; read only."""
        return AccountantView(self._accounts, self._view_before, self._seen.labels, self._most_places)

    def snapshot(self) -> bytes:
        """The state as bytes, equal for equal histories; a cache, the release log remains the truth."""
        seen = {**named("view", self._view_before), **named("channel", self._seen.tables)}
        return pack_state(self._basis(), {**self._fixed_arrays(), **seen})

    def restore(self, snapshot: bytes) -> None:
        """Take over the state of :meth:`snapshot` of an accountant with the same population and settings.

        :class:`~accounting.exceptions.SnapshotError` otherwise; nothing was taken over then.
        """
        view = named("view", nothing_seen(len(self.population.location_names)))
        fixed = {**self._fixed_arrays(), "view_labels": view.pop("view_labels")}
        stored = unpack_state(snapshot, self._basis(), fixed, {**view, **named("channel", self._seen.tables)})
        seen = SeenSteps(stored["labels"], stored["channel"], taken("channel", LevelTables, stored))
        if not is_whole(seen):
            raise SnapshotError("a snapshot's arrays must belong together", "channels that do not", REMEDY)
        self._seen, before = seen, taken("view", StepView, stored)
        self._view_before = before._replace(is_disjoint=bool(before.is_disjoint), is_raw=bool(before.is_raw))
        self._accounts = self._accounts._replace(
            state=taken("state", HorizonState, stored),
            nonstationary=taken("own", Nonstationary, stored),
        )
        self._next_step = int(stored["next_step"])
        self._reached, self._reached_before = stored["reached"], stored["reached_before"]
        self._is_unreached = stored["is_unreached"]
        self._worst = taken("worst", WorstMoments, stored)
        self._fill_nonstationary(self._nonstationary_people, self._next_step - 1)

    def _basis(self) -> dict[str, object]:
        """Everything but the steps that the state follows from."""
        settings = asdict(self.settings)
        del settings["first_step"]  # counts by whose releases count from when
        shares = self._shares
        return {
            **settings,
            "since": _digest(self._accounts.since),
            "people": self.population.accounted.fingerprint,
            "draws": self.population.draws,
            "shares": [shares.count, _digest(shares.share), _digest(shares.rank)],
        }

    def _fixed_arrays(self) -> dict[str, NDArray[Any]]:
        """The state but for the last step's view, whose lengths differ from step to step."""
        return {
            "next_step": np.array(self._next_step),
            **named("state", self._state),
            **named("own", self._accounts.nonstationary),
            **named("worst", self._worst),
            "reached": self._reached,
            "reached_before": self._reached_before,
            "is_unreached": self._is_unreached,
            "labels": self._seen.labels,
            "channel": self._seen.channel,
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
        joined._accounts = membership.join_accounts(
            self._accounts, newcomers._accounts, joined.population.accounted.arrays
        )
        joined.effective_from = joined.since
        joined._worst = membership.join_people(self._worst, newcomers._worst)
        joined._reached = np.concatenate((self._reached, newcomers._reached))
        joined._reached_before = np.concatenate((self._reached_before, newcomers._reached_before))
        joined._is_unreached = np.concatenate((self._is_unreached, newcomers._is_unreached))
        is_split = self.shares is not None and newcomers.shares is not None
        joined.shares = self.people_shares.join(newcomers.people_shares) if is_split else None
        joined._index_people()
        return joined

    def of_people(self, people: NDArray[np.int64]) -> ContinuousAccountant:
        """The same accountant for some of the people, by position, as if there had been no others."""
        chosen = copy(self)
        chosen.population = self.population.subset(people)
        chains = self.population.chains_of(people)
        chosen._accounts = membership.take_accounts(
            self._accounts, chains, chosen.population.accounted.arrays
        )
        chosen.effective_from = chosen.since
        chosen._worst = membership.take_people(self._worst, people)
        chosen._reached = self._reached[people]
        chosen._reached_before = self._reached_before[people]
        chosen._is_unreached = self._is_unreached[chains]
        chosen.shares = None if self.shares is None else self.shares.take(people)
        chosen._index_people()
        return chosen

    @property
    def _state(self) -> HorizonState:
        return self._accounts.state

    def _index_people(self) -> None:
        """What follows from who is there."""
        arrays = self._accounts.population
        self._most_places = int(np.diff(arrays.places_start).max(initial=1))
        self._nonstationary_people = np.flatnonzero(np.diff(arrays.initial_start))
        self._repeated = RepeatedSteps(arrays.slots)
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

    def _refine(self, step: int) -> None:
        """Look again, with the refined bounds, at those whose fast bound is high, as far as the work goes."""
        settings = self.settings
        self._is_unreached = np.zeros(self._accounts.since.size, dtype=np.bool_)
        due = find_due(self._accounts, settings)
        if settings.refines and due.people.size:
            if self._alike is None:
                self._alike = self._find_alike()
            horizon = SeenHorizon(step, self._seen)
            cascade = Cascade(self._accounts, horizon, due, self._shares, self._alike)
            self._is_unreached[cascade.refine(settings.operations)] = True

    def _find_alike(self) -> NDArray[np.int64]:
        """Each one's first person with an equal prior, accounted from the same step on, (N,)."""
        steps, since = np.unique(self._accounts.since, return_inverse=True)
        key = self.population.accounted.alike * steps.size + since.reshape(-1)
        _, first, alike = np.unique(key, return_index=True, return_inverse=True)
        return first[alike.reshape(-1)].astype(np.int64)

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
        self._reached = self._reached_before = self._threshold_index()

    def _mean(self, figures: NDArray[np.float64]) -> NDArray[np.float64]:
        """Everybody's mean over the chains that stand for each, (N,); in one order, for the same bits."""
        draws = self.population.draws
        if draws == 1:
            return figures
        total = figures[::draws].copy()
        for number in range(1, draws):
            total += figures[number::draws]
        return total / draws

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


def _digest(array: NDArray[Any]) -> str:
    return hashlib.sha256(array.tobytes()).hexdigest()

"""What an accountant's state says of people: risks, worst moments, crossings, summaries."""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.bounds import deciding_bound
from accounting.bounds.radius import ceilings_within
from accounting.continuous.accounts_kernel import UNITS_PER_NAT, Accounts, HorizonState
from accounting.continuous.people import (
    Groups,
    Ranked,
    RiskFigures,
    RiskSummary,
    Spread,
    WorstMoments,
    summarise,
    take_people,
)
from accounting.continuous.saved_state import RunningAccount
from accounting.settings import HorizonSettings
from models.priors import Population


class PersonRisks(NamedTuple):
    """What an account says of some people, (n,) each; ``by`` are the bounds that gave the risks."""

    risk: NDArray[np.float64]
    baseline: NDArray[np.float64]
    added: NDArray[np.float64]
    by: tuple[str, ...]


class AccountFigures:
    """Figures of people after the last step: those of their accounts and groups, looked up by person.

    ``_by_account`` and ``_by_group`` say whose are whose, ``_chains_named`` which chains were drawn.
    """

    population: Population
    settings: HorizonSettings
    _chains_named: str | None
    _running: RunningAccount
    _by_account: Spread
    _by_group: Spread

    @property
    def next_step(self) -> int:
        """The step that :meth:`apply` expects."""
        return self._running.next_step

    @property
    def since(self) -> NDArray[np.int64]:
        """The step from which each person's releases count, (N,)."""
        return self._by_account.each(self._accounts.since[:: self.population.draws])

    @property
    def everybody(self) -> int:
        """How many people there are, all those behind personas included."""
        return int(self._by_account.people.sum())

    @property
    def people_each(self) -> NDArray[np.int64]:
        """How many people each name stands for, (N,): one, but for personas."""
        return self._by_account.holders.people_each

    @property
    def not_reached(self) -> int:
        """People whom the refined bounds could have lowered, had the work of the last step sufficed."""
        is_unreached = self._groups.any_chain(self._groups.figures.is_unreached)
        return int(self._by_group.people[is_unreached].sum())

    def risk(self) -> NDArray[np.float64]:
        """Certified risk of each person over the horizon that ends with the last step, shape (N,).

        Like every risk that is shown, within the radius of the settings.
        """
        return self._by_group.each(self._shown_figures().risk)

    def prior_risk(self) -> NDArray[np.float64]:
        """The same under the prior itself, (N,)."""
        return self._by_group.each(self._groups.mean_risk)

    def mean_prior_risk(self) -> float:
        """The mean of that over people, 0 of nobody."""
        return Ranked(self._groups.mean_risk, self._by_group.people).mean()

    def baseline(self) -> NDArray[np.float64]:
        """Exact success of the best known guess from the prior alone on the same horizon, shape (N,)."""
        return self._by_account.each(self._baseline)

    def account_baseline(self) -> NDArray[np.float64]:
        """The same of each account, (A,)."""
        return self._baseline.copy()

    def added(self) -> NDArray[np.float64]:
        """Upper bound on what the releases added under the prior: its risk less baseline, shape (N,)."""
        return self._by_group.each(self._shown_figures().added)

    def risks_of(self, people: NDArray[np.int64]) -> PersonRisks:
        """What there is to say of some people, by position."""
        group = self._by_group.of(people)
        risk, baseline, added = (values[group] for values in self._shown_figures())
        return PersonRisks(risk, baseline, added, self._decided_by(group))

    def median_guess(self) -> float:
        """How often the guess from habits is right for half of the people or more, mean over the cycle."""
        first, last = self._accounts.constants.phase_start[:-1], self._accounts.constants.phase_start[1:]
        if first.size == 0:
            return 0.0
        each = np.add.reduceat(self._accounts.constants.baseline, first) / (last - first)
        return Ranked(self.population.mean_draw(each), self._by_account.people).median()

    def information_nats(self) -> NDArray[np.float64]:
        """Bound on what everything released reveals about the horizon, nats, shape (N,)."""
        return self._by_account.each(self.population.mean_draw(self._state.information / UNITS_PER_NAT))

    def worst(self) -> WorstMoments:
        """Everybody's worst moments since the first step; the highest risk is within the radius."""
        groups = np.arange(self._by_group.groups)
        return take_people(self._worst_of_groups(), self._by_group.each(groups))

    def most_exposed(self, count: int) -> tuple[NDArray[np.int64], WorstMoments]:
        """The ``count`` people to whom most was added so far, and all who tie with the last; their worst.

        By position, increasing; nobody to whom nothing was added.
        """
        worst = self._worst_of_groups()
        people = self._by_group.whose(worst.is_first(count, self._by_group.people))
        return people, take_people(worst, self._by_group.of(people))

    def decided_by(self, person: int) -> str:
        """Which bound gave a person's risk; of several chains, the highest one's."""
        return self._decided_by(self._by_group.of(np.array([person])))[0]

    def crossings(self) -> NDArray[np.int64]:
        """People whose highest reached threshold changed in the last step, increasing."""
        figures = self._groups.figures
        return self._by_group.whose(figures.reached != figures.reached_before)

    def summary(self) -> RiskSummary:
        """The last step in a few numbers."""
        found = summarise(
            self.next_step - 1,
            self._shown_figures(),
            self.settings.thresholds,
            self._worst_of_groups(),
            self._by_group.people,
        )
        return replace(
            found,
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
    def _baseline(self) -> NDArray[np.float64]:
        """Of each account."""
        return self.population.mean_draw(self._state.baseline)

    def _shown_figures(self) -> RiskFigures:
        """Of each group; risks within the radius."""
        risk, baseline = self._groups.mean_risk, self._baseline[self._groups.account]
        return RiskFigures(ceilings_within(self.settings.within_nats, risk), baseline, risk - baseline)

    def _worst_of_groups(self) -> WorstMoments:
        """Of each group, copied; the highest risk is within the radius."""
        worst = self._groups.worst.copy()
        return worst._replace(highest_risk=ceilings_within(self.settings.within_nats, worst.highest_risk))

    def _decided_by(self, group: NDArray[np.int64]) -> tuple[str, ...]:
        """Which bound gave the risk of each of these groups; of several chains, the highest one's."""
        figures = self._groups.figures
        chain = np.argmax(figures.risk[:, group], axis=0)
        code, number = np.unique(figures.decided_by[chain, group], return_inverse=True)
        names = [deciding_bound(each, self.settings.mistakes) for each in code.tolist()]
        return tuple([names[each] for each in number.reshape(-1).tolist()])

"""``tg.plan`` and ``tg.ledger``: what a risk budget allows, and what differential privacy guarantees."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import isfinite
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError

from accounting.ledgers import (
    DpStatement,
    Neighbours,
    OracleEpsilons,
    ReleaseLog,
    oracle_epsilons,
    read_differential_privacy,
)
from models.arguments import checked
from models.exceptions import ArgumentError
from models.priors import Question
from models.releases import Schedule
from models.text import number_of
from stream_app.analysis.plan_figure import draw_risk
from stream_app.analysis.planning import ReleasePlan, plan_schedule
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import BUDGET
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import settings_error
from stream_app.watching.prior_notes import basis_note
from stream_app.watching.wording import WHOLE_LOG, epsilon_in_words, why_no_epsilon
from tallyguard.audits import questions_of
from tallyguard.results import People, Table, new_axes, noted, seen_under

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class Plan(Table):
    """What is released of a schedule under a risk budget; ``details`` has every step and its risks."""

    def __init__(
        self,
        details: ReleasePlan,
        mistakes: int,
        horizon: int,
        note: str | None = None,
        questions: Sequence[Question] = (),
    ) -> None:
        self.details = details
        self.note = note
        self.questions = tuple(questions)
        """First what the budget is about; none where it is which place in every step."""
        asked = "".join(f" (question {each.name}: {each.what})" for each in self.questions[:1])
        self._of = f"in at least {horizon - mistakes} of any {horizon} steps in a row{asked}"

    def caption(self) -> str:
        """How much of the schedule is released, for how many people."""
        sensors = self.details.sensors()
        asked = sum(each.steps for each in sensors)
        out = sum(each.released for each in sensors)
        people = number_of(self.details.people, "person")
        return (
            f"{out:,} of {number_of(asked, 'count')} released for {people}, whose chance of being traced "
            f"{self._of} keeps the budget, if habits are as the priors say{noted(self.note)}"
        )

    def shown(self) -> Mapping[str, Sequence[str]]:
        """Each sensor's share."""
        sensors = self.details.sensors()
        return {
            "sensor": [each.sensor for each in sensors],
            "steps": [f"{each.steps:,}" for each in sensors],
            "released": [f"{each.released:,}" for each in sensors],
            "raw": [f"{each.raw:,}" for each in sensors],
            "mean error": ["-" if each.mean_error is None else f"{each.mean_error:.2f}" for each in sensors],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a sensor."""
        sensors = self.details.sensors()
        names = ("sensor", "steps", "released", "raw", "mean_error")
        return {name: [getattr(each, name) for each in sensors] for name in names}

    @property
    def by_question(self) -> Mapping[str, Mapping[str, float | None]]:
        """Of each of several questions guess, attack, ceiling and added risk, by name.

        Each is a mean over people at the step where releases added most to that question.
        """
        return {
            each.name: {figure.kind.name: figure.value for figure in each.figures}
            for each in self.details.view.by_question
        }

    def plot(self, axes: Axes | None = None) -> Axes:
        """The people's ceilings, attack and guess after each step; needs matplotlib."""
        axes = new_axes() if axes is None else axes
        draw_risk(self.details, axes)
        axes.set_xlabel("step")
        return axes


@checked(ArgumentError, leave=("people", "schedule"))
def plan(
    people: People,
    schedule: Schedule,
    mistakes: int = 1,
    *,
    horizon: int = 10,
    question: Question | Sequence[Question] | None = None,
    **budget: Any,
) -> Plan:
    """What a run would release of the schedule under a risk budget, with the least error.

    ``budget`` are the settings of ``[release.budget]``, such as ``added=0.05`` or ``risk=0.5, share=0.01``;
    the schedule's mechanisms are the best there may be. With a ``question`` the budget is about that, and of
    several about the first; each has its figures in ``by_question``. :class:`TallyguardError` without a
    limit.
    """
    population, asked = seen_under(schedule, people), questions_of(question)
    release = {"mechanism": BUDGET, "budget": budget}
    given: dict[str, Any] = {"release": release, "horizon": horizon, "mistakes": mistakes}
    if asked:
        tables = {
            each.name: {"groups": each.groups, "weights": each.weights or ()}
            for each in asked
            if each != Question()
        }
        given |= {"question": asked[0].name, "also_asked": [each.name for each in asked[1:]]}
        given["questions"] = tables
    try:
        settings = Settings.model_validate(given)
        details = plan_schedule(settings, schedule, population)
    except ValidationError as error:
        raise _of_arguments(settings_error(error)) from None
    except SettingsError as error:
        raise _of_arguments(error) from None
    note = basis_note(len(population), population.assumed, draws=population.draws)
    return Plan(details, mistakes, horizon, note, asked)


def _of_arguments(error: SettingsError) -> SettingsError:
    """An error about a settings file in the words of this function's arguments."""

    def said_of(text: str) -> str:
        return (
            text.removeprefix("setting ").replace("release.budget.", "").replace("release.budget", "a plan")
        )

    return SettingsError(said_of(error.must), said_of(str(error.got)), said_of(error.remedy))


class Ledger(Table):
    """What differential privacy guarantees for a schedule; ``statement`` has the costs behind it."""

    def __init__(self, statement: DpStatement, oracle: OracleEpsilons | None = None) -> None:
        self.statement = statement
        self.oracle = oracle
        """The second opinion of Google's dp_accounting, where it was asked for."""

    def caption(self) -> str:
        """The guarantee that holds."""
        found = self.statement
        neighbours = f"neighbouring data sets: {found.neighbours} in the {WHOLE_LOG}"
        if not isfinite(found.epsilon):
            return f"no differential privacy guarantee: {why_no_epsilon(found, found.delta)}; {neighbours}"
        return (
            f"({epsilon_in_words(found.epsilon)}, {found.delta:.3g})-differential privacy by "
            f"{found.certified_by}; {neighbours}"
        )

    def shown(self) -> Mapping[str, Sequence[str]]:
        """Each way of accounting, the paper's classical formula last: it is no guarantee."""
        rows = self.columns()
        return {
            "accounting": rows["accounting"],
            "epsilon": ["-" if value is None else epsilon_in_words(value) for value in rows["epsilon"]],
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """Epsilon in nats by each way of accounting; None where one does not apply."""
        found = self.statement
        ways = {
            "zcdp": found.zcdp_epsilon,
            "pure": float(found.pure_epsilon),
            "exact gaussian": found.exact_epsilon,
            "paper's formula": found.paper_epsilon,
        }
        if self.oracle is not None:
            ways = {
                **{"dp_accounting, rdp": self.oracle.rdp, "dp_accounting, pld": self.oracle.pld},
                **ways,  # the formula that is no guarantee stays last
            }
        return {"accounting": list(ways), "epsilon": list(ways.values())}


@checked(ArgumentError)
def ledger(
    schedule: Schedule,
    delta: float = 1e-6,
    neighbours: Neighbours = Neighbours.ADD_REMOVE,
    oracle: bool = False,
) -> Ledger:
    """What differential privacy guarantees for the whole schedule, whatever the priors; epsilon in nats.

    With ``oracle`` Google's dp_accounting is asked too, for adding or removing a person: a second opinion.
    :class:`TallyguardError` where it is not installed, and for schedules that it cannot compose.
    """
    log = ReleaseLog.of(schedule.steps)
    statement = read_differential_privacy(log, delta, neighbours=neighbours)
    second = oracle_epsilons(log, delta) if oracle else None
    if oracle and second is None:
        raise ArgumentError(
            "dp_accounting must be installed for a second opinion", "none", "pip install 'tallyguard[oracle]'"
        )
    return Ledger(statement, second)

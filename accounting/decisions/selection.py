"""Which sensors to switch on: the set of most use within a risk budget, and how far it is from the best.

``use`` is what releasing saves compared with silence: weight times (cost of silence - expected error).
If a set keeps the budget, so does each of its sensors by itself, since by the fast bound fewer sensors never
reveal more. So the ``most`` largest single uses, added up, bound the use of every admissible set.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from heapq import nlargest

from accounting.decisions.choices import Assignment, SensorChoice, schedule_of
from accounting.decisions.search import SearchSettings
from accounting.decisions.step_decision import Ask, Decision, StepDecider, decide
from accounting.settings import RiskBudget


@dataclass(frozen=True, slots=True)
class Selection:
    """The decision, the sensors it switches on, what they are of use, and the most that any set could be."""

    decision: Decision
    sensors: tuple[str, ...]
    use: float
    bound: float


def select_sensors(
    step: int,
    choices: Sequence[SensorChoice],
    limit: RiskBudget,
    most: int,
    ask: Ask,
    settings: SearchSettings | None = None,
) -> Selection:
    """The best set of at most ``most`` sensors found; exact where all assignments can be tried.

    ``ask`` must count people over the limit by the fast bound; otherwise ``bound`` is not a bound.
    """
    chosen = replace(settings or SearchSettings(), most_released=most)
    decision = decide(StepDecider(step, choices, limit, chosen), ask)
    on = tuple(r.sensor.name for r in decision.schedule.releases if r.mechanism.is_released)
    silence = sum(choice.costs[-1] for choice in choices)
    return Selection(decision, on, silence - decision.cost, _bound(step, choices, limit, most, ask))


def _bound(step: int, choices: Sequence[SensorChoice], limit: RiskBudget, most: int, ask: Ask) -> float:
    """The best admissible use of each sensor on its own, the largest ``most`` of them added up."""
    silence: Assignment = tuple(len(choice.options) - 1 for choice in choices)
    single = [
        (k, option, (*silence[:k], option, *silence[k + 1 :]))
        for k, choice in enumerate(choices)
        for option in range(len(choice.options) - 1)
    ]
    counts = ask([schedule_of(step, choices, assignment) for _, _, assignment in single], None)
    best = [0.0] * len(choices)
    for (k, option, _), is_admissible in zip(single, counts.is_admissible(limit), strict=True):
        if is_admissible:
            best[k] = max(best[k], choices[k].costs[-1] - choices[k].costs[option])
    return sum(nlargest(most, best))

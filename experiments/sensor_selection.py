"""Which sensor to switch on next: a risk budget's choice beside fixed and random selections at equal risk.

``python -m experiments.sensor_selection --data FOLDER``

The same sensors are installed all the time, and each is on (its raw count is published) or off in each step.
All selections keep the same limit at every step, by the certified bound. *Adaptive* is the policy ``budget``
with raw counts or silence as its only options: each step it asks what every candidate set would add to
everybody's risk, from schedule and priors, and switches on the most sensors that keep the limit. *Fixed* has
the same sensors on in every step, *random* draws as many anew for each; of both the most sensors that keep
the limit count, in the best of several draws. No count is needed, so nothing is simulated.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.decisions import SensorChoice
from accounting.decisions.step_decision import schedule_of
from accounting.exposure.crowd import StepCrowd
from accounting.settings import RiskBudget
from experiments.decisions import (
    LOOK_AHEAD,
    SILENCE,
    Choose,
    Row,
    Setting,
    budgeted,
    check_ins,
    informed,
    measured,
    simulated_city,
)
from experiments.held_out import find_data
from experiments.measure import markdown, options
from models.mechanisms import Raw
from models.releases import StepSchedule
from stream_app.steps import Accounts

SHARES = (0.01, 0.05)
WAYS = ("fixed", "random", "adaptive", "adaptive, looking ahead")


def rows_of(setting: Setting, share: float, draws: int) -> Iterator[Row]:
    """Each selection of one setting, the largest that keeps the limit."""
    limit = RiskBudget(share, added=setting.added, habits_apart=True)
    orders = np.random.default_rng(1).random((draws, len(setting.steps), len(setting.steps[0])))
    yield largest(setting, limit, "fixed", np.repeat(orders[:, :1], len(setting.steps), axis=1))
    yield largest(setting, limit, "random", orders)
    for way, ahead in (("adaptive", 0), ("adaptive, looking ahead", LOOK_AHEAD)):
        accounts = informed(setting, limit)
        yield measured(setting, limit, way, accounts, on_or_off(budgeted(setting, limit, accounts, ahead)))


def largest(setting: Setting, limit: RiskBudget, way: str, orders: np.ndarray) -> Row:
    """The most sensors on in every step that keep the limit; the lowest of ``orders[draw, step]``."""
    best = _ranked(setting, limit, way, orders[0], 0)
    for order in orders:
        for on in range(1, order.shape[1] + 1):
            row = _ranked(setting, limit, way, order, on)
            if row.over > limit.share:
                break
            best = max(best, row, key=lambda each: each.released)
    return best


def _ranked(setting: Setting, limit: RiskBudget, way: str, order: np.ndarray, on: int) -> Row:
    """So many sensors on in every step, those of the lowest numbers."""
    ranks = order.argsort(axis=1, kind="stable").argsort(axis=1, kind="stable")

    def choose(step: int, choices: Sequence[SensorChoice], crowds: StepCrowd | None) -> StepSchedule:
        silence = [len(choice.options) - 1 for choice in choices]
        return schedule_of(step, choices, tuple(np.where(ranks[step] < on, 0, silence).tolist()))

    return measured(
        setting, limit, way, Accounts(ContinuousAccountant(setting.population, setting.horizon)), choose
    )


def on_or_off(choose: Choose) -> Choose:
    """The same choice among raw counts and nothing."""

    def chosen(step: int, choices: Sequence[SensorChoice], crowds: StepCrowd | None) -> StepSchedule:
        either = [SensorChoice.of(c.sensor, [Raw()], weight=1.0, cost_of_silence=SILENCE) for c in choices]
        return choose(step, either, crowds)

    return chosen


def installed(setting: Setting) -> Setting:
    """The sensors of the first step in every step."""
    return replace(setting, steps=(setting.steps[0],) * len(setting.steps))


def table(rows: Sequence[Row]) -> str:
    """Share of sensor-hours published, with the people over the limit, as Markdown."""
    lines = []
    for first in range(0, len(rows), len(WAYS)):
        each = rows[first : first + len(WAYS)]
        cells = [f"{each[0].data_set}, {each[0].people}", f"{each[0].share_allowed:.0%}"]
        lines.append(cells + [f"{row.released:.1%} ({row.over:.1%} over)" for row in each])
    return markdown(["people of", "may be over", *WAYS], lines, words=2)


_PAGE = """# Which sensor to switch on next

Made by `python -m experiments.sensor_selection --data ../shared/data`. Share of sensor-hours whose raw count
is published ({schedules}; every sensor could be on in every step), where at most the given share of people
gains more than {added} at any step by the certified bound. In brackets: the largest share over it.

{table}

- **fixed**: the same sensors in every step. **random**: as many sensors, drawn anew for each step. Of both:
  the most sensors that keep the limit, in the best of {draws} draws. The draw is picked afterwards, which
  favours both: who must choose beforehand does worse.
- **adaptive**: [the policy `budget`](../../explanation/decisions.md) with raw counts or silence as its
  options. What each set of sensors would add to everybody's risk decides, step by step, from schedule and
  priors, never from counts. **looking ahead**: the next {ahead} steps are taken as announced.
"""


def main() -> None:
    """Print the table; write the page to the results folder."""
    parser = options(__doc__, "sensor-selection.md")
    parser.add_argument("--people", type=int, default=300, help="people of the simulated city")
    parser.add_argument("--steps", type=int, default=24, help="steps of each schedule")
    parser.add_argument("--draws", type=int, default=4, help="draws of the fixed and random selections")
    arguments = parser.parse_args()
    drawn = [
        check_ins(name, find_data(arguments.data), arguments.steps, 8) for name in ("foursquare", "gowalla")
    ]
    settings = [installed(each) for each in (*drawn, simulated_city(arguments.people, arguments.steps, 8))]
    rows = [row for each in settings for share in SHARES for row in rows_of(each, share, arguments.draws)]
    print(table(rows))
    if arguments.results:
        schedules = "; ".join(
            f"{each.name}: {len(each.steps)} steps, {len(each.steps[0])} sensors, "
            f"T = {each.horizon.horizon}, s = {each.horizon.mistakes}"
            for each in settings
        )
        page = _PAGE.format(
            schedules=schedules,
            added=settings[0].added,
            table=table(rows),
            draws=arguments.draws,
            ahead=LOOK_AHEAD,
        )
        (arguments.results / "sensor-selection.md").write_text(page)


if __name__ == "__main__":
    main()

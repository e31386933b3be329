"""Utility against risk: one noise for everything beside the least noise that a risk budget allows.

``python -m experiments.decisions --data FOLDER`` (or ``make decisions DATA=FOLDER``)

For check-ins (priors as in Koga, Meehan, Chaudhuri) and the simulated city a schedule is drawn: some sensors
a step at random places. It is released raw, with each fixed noise, and under a risk budget, first come first
served and looking ahead. A release is judged by the most people over the limit after any step, by the
certified bound, by the share of counts released and by their expected error; silence counts as the error of
the largest noise. No count is needed, so nothing is simulated.
"""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.continuous.accounts_kernel import NEGLIGIBLE
from accounting.continuous.crowd import CrowdAccount
from accounting.decisions import SensorChoice, StepDecider, decide
from accounting.decisions.step_decision import schedule_of
from accounting.decisions.what_if import AnnouncedStep, WhatIf
from accounting.exposure.crowd import StepCrowd
from accounting.settings import OPERATIONS, HorizonSettings, RiskBudget
from experiments.drawing import grid, save
from experiments.held_out import DATA_SETS, NOWHERE_SENSOR, find_data
from experiments.measure import markdown, options, write_csv
from models.fitting import PAPER, fit_priors, read_checkins
from models.mechanisms import Gaussian, Mechanism, Raw
from models.priors import Population
from models.releases import Sensor, SensorRegistry, SensorRelease, StepSchedule
from stream_app.city import CityOptions, build_city
from stream_app.steps import Accounts
from stream_app.steps.policy.people_shards import people_shares

SIGMAS = (0.5, 1.0, 2.0, 4.0, 8.0)
SILENCE = Gaussian(SIGMAS[-1]).expected_absolute_error()
LOOK_AHEAD = 9
PARTITIONS = 4
SHARES = (0.0, 0.01, 0.05, 0.1)
IN_CROWD = "budget in the crowd"
SHARE_IN_CROWD = 0.05
CITIES_IN_CROWD, STEPS_IN_CROWD = (600, 2000), 12


@dataclass(frozen=True)
class Setting:
    """A population, what is counted when, and the limit."""

    name: str
    population: Population
    horizon: HorizonSettings
    steps: tuple[tuple[Sensor, ...], ...]
    added: float


@dataclass(frozen=True)
class Row:
    """One way of releasing one setting.

    ``over`` is the largest share of people over the limit at any step, ``error`` that of what is released (in
    people, 0 where nothing is), ``loss`` with silence as the error of the largest noise.
    """

    data_set: str
    people: int
    added_limit: float
    way: str
    share_allowed: float
    over: float
    released: float
    error: float
    loss: float


Choose = Callable[[int, Sequence[SensorChoice], StepCrowd | None], StepSchedule]


def check_ins(name: str, folder: Path, steps: int = 60, sensors: int = 3) -> Setting:
    """Fitted priors, and so many random sensors a step; the whole trace of five steps is to be guessed."""
    population = fit_priors(read_checkins(folder / DATA_SETS[name]), PAPER).population
    registry = SensorRegistry.one_per_location(population.location_names)
    known = [sensor for sensor in registry.sensors if sensor.name != NOWHERE_SENSOR]
    return Setting(name, population, HorizonSettings(5, 0), _drawn(known, steps, sensors), 0.1)


def simulated_city(people: int = 1000, steps: int = 72, sensors: int = 6) -> Setting:
    """Everybody's week in the city of the demo, an hour a step, random sensors of all kinds."""
    city = build_city(CityOptions(people=people))
    horizon = HorizonSettings(10, 2)
    return Setting("city", city.population, horizon, _drawn(city.registry.sensors, steps, sensors), 0.1)


def _drawn(known: Sequence[Sensor], steps: int, sensors: int) -> tuple[tuple[Sensor, ...], ...]:
    random = np.random.default_rng(1)
    return tuple(
        tuple(known[k] for k in np.sort(random.choice(len(known), sensors, replace=False)))
        for _ in range(steps)
    )


def rows_of(setting: Setting, shares: Sequence[float]) -> Iterator[Row]:
    """Every way of releasing a setting."""
    limit = RiskBudget(0.0, added=setting.added, habits_apart=True)
    for option, way in enumerate(["raw", *(f"sigma {sigma:g}" for sigma in SIGMAS)]):
        accounts = Accounts(ContinuousAccountant(setting.population, setting.horizon))
        yield measured(setting, limit, way, accounts, fixed(option))
    for share in shares:
        for way, ahead in (("budget", 0), ("budget, looking ahead", LOOK_AHEAD)):
            budget = RiskBudget(share, added=setting.added, habits_apart=True)
            accounts = informed(setting, budget)
            yield measured(setting, budget, way, accounts, budgeted(setting, budget, accounts, ahead))


def rows_against_each(setting: Setting, share: float) -> Iterator[Row]:
    """The same budget kept against whoever knows where everybody is, and against whoever does not."""
    budget = RiskBudget(share, added=setting.added, habits_apart=True)
    for way, accounts in (("budget", informed(setting, budget)), (IN_CROWD, in_crowd(setting, budget))):
        yield measured(setting, budget, way, accounts, budgeted(setting, budget, accounts, 0))


def informed(setting: Setting, limit: RiskBudget) -> Accounts:
    """Accounts that keep the limit against an adversary who knows where everybody else is."""
    horizon = replace(setting.horizon, operations=OPERATIONS, decided=limit)
    shares = people_shares(setting.population.people, PARTITIONS)
    return Accounts(ContinuousAccountant(setting.population, horizon, shares=shares))


def fixed(option: int) -> Choose:
    """Always the same option."""
    return lambda step, choices, crowds: schedule_of(step, choices, (option,) * len(choices))


def in_crowd(setting: Setting, limit: RiskBudget) -> Accounts:
    """Accounts of which those against an adversary who does not know where anybody is keep the limit."""
    population = setting.population
    shares = people_shares(population.people, PARTITIONS)
    horizon = replace(setting.horizon, operations=OPERATIONS, decided=limit)
    beside = ContinuousAccountant(population, horizon, shares=shares, apart=True)
    return Accounts(beside, CrowdAccount(beside, decided=limit), decides=True)


def budgeted(setting: Setting, limit: RiskBudget, accounts: Accounts, ahead: int) -> Choose:
    """The least error that keeps the limit."""
    what_if = WhatIf(accounts.informed, limit, accounts.deciding)

    def choose(step: int, choices: Sequence[SensorChoice], crowds: StepCrowd | None) -> StepSchedule:
        coming = setting.steps[step + 1 : step + 1 + ahead]
        question = what_if.next_step(AnnouncedStep([choice.sensor for choice in choices], crowds, coming))
        decider = StepDecider(step, choices, limit, people=len(setting.population))
        return decide(decider, question.count_over).schedule

    return choose


def measured(setting: Setting, limit: RiskBudget, way: str, accounts: Accounts, choose: Choose) -> Row:
    """Decide, account and look at everybody after each step."""
    losses, errors, most = [], [], 0
    for step, sensors in enumerate(setting.steps):
        asked = StepSchedule(step, tuple(SensorRelease(each, Raw()) for each in sensors))
        crowds = accounts.ask((asked,))[0].crowds if accounts.crowd is not None else None
        decided = choose(step, [_choice(sensor) for sensor in sensors], crowds)
        accounts.apply(decided, crowds)
        most = max(most, int(over_limit(accounts, setting.added).sum()))
        for release in decided.releases:
            mechanism = release.mechanism
            error = mechanism.expected_absolute_error() if mechanism.is_released else None
            losses.append(SILENCE if error is None else error)
            errors += [] if error is None else [error]
    people = len(setting.population)
    return Row(
        setting.name,
        people,
        setting.added,
        way,
        limit.share,
        most / people,
        len(errors) / len(losses),
        float(np.mean(errors)) if errors else 0.0,
        float(np.mean(losses)),
    )


def _choice(sensor: Sensor) -> SensorChoice:
    options: list[Mechanism] = [Raw(), *map(Gaussian, SIGMAS)]
    return SensorChoice.of(sensor, options, weight=1.0, cost_of_silence=SILENCE)


def over_limit(accounts: Accounts, added: float) -> np.ndarray:
    """Who gained more than the limit, (N,): over the baseline, or over the guess where that is above it."""
    account = accounts.informed
    limit, guess = account.baseline() + added, account.by_account.each(account.view().accounts.state.guess)
    return accounts.whole.risk() > np.where(guess * (1 + NEGLIGIBLE) >= limit, guess + added, limit)


def best_fixed(rows: Sequence[Row], budget: Row) -> Row | None:
    """The fixed way with the least loss that keeps what a budget promises."""
    within = [
        row
        for row in rows
        if row.data_set == budget.data_set and not is_budget(row) and row.over <= budget.share_allowed
    ]
    return min(within, key=lambda row: row.loss, default=None)


def is_budget(row: Row) -> bool:
    """Whether a budget decided."""
    return row.way.startswith("budget")


Before = Mapping[tuple[str, str, str], tuple[float, float]]
"""Released and loss, by data set, way and share allowed, of an earlier capture."""


def read_before(path: Path) -> Before:
    """An earlier capture's figures; none where there is no file."""
    if not path.is_file():
        return {}
    with path.open(newline="") as lines:
        return {
            (row["data_set"], row["way"], row["share_allowed"]): (float(row["released"]), float(row["loss"]))
            for row in csv.DictReader(lines)
        }


def table(rows: Sequence[Row], before: Before) -> str:
    """The budgets beside the best fixed noise within the same limit, and before, as Markdown."""
    head = [
        "data set",
        "people",
        "may be over",
        "way",
        "over",
        "released",
        "error",
        "loss",
        "best fixed",
        "loss",
        "released before",
        "loss before",
    ]
    lines = []
    for row in filter(is_budget, rows):
        fixed_way = best_fixed(rows, row)
        cells = [row.data_set, str(row.people), f"{row.share_allowed:.0%}", row.way, f"{row.over:.1%}"]
        cells += [f"{row.released:.0%}", f"{row.error:.2f}", f"{row.loss:.2f}"]
        cells += ["none", ""] if fixed_way is None else [fixed_way.way, f"{fixed_way.loss:.2f}"]
        earlier = before.get((row.data_set, row.way, f"{row.share_allowed:g}"))
        cells += ["", ""] if earlier is None else [f"{earlier[0]:.0%}", f"{earlier[1]:.2f}"]
        lines.append(cells)
    return markdown(head, lines)


def table_in_crowd(rows: Sequence[Row]) -> str:
    """The budget against each adversary side by side, as Markdown."""
    head = ["data set", "people", "may be over"]
    for column in ("over", "released", "error", "loss"):
        head += [column, f"{column}, in the crowd"]
    lines = []
    for own, other in zip(rows[::2], rows[1::2], strict=True):
        cells = [own.data_set, str(own.people), f"{own.share_allowed:.0%}"]
        cells += [f"{own.over:.1%}", f"{other.over:.1%}", f"{own.released:.0%}", f"{other.released:.0%}"]
        cells += [f"{own.error:.2f}", f"{other.error:.2f}", f"{own.loss:.2f}", f"{other.loss:.2f}"]
        lines.append(cells)
    return markdown(head, lines)


_PAGE = """# Risk budgets beside fixed noise

Made by `make decisions`. Some sensors a step at random places ({schedules}). A budget lets a share of people
gain more than {added} by the certified bound; the best fixed noise is the one of least loss that lets no more
people gain that much at any step. No count is needed for any of it.

{table}

![loss against people over the limit](decisions.png)

- **over**: largest share of people over the limit after any step. **released**: share of counts published.
- **error**: mean expected absolute error of the published counts, in people. **loss**: the same with silence
  counted as the error of the largest noise, {silence:.2f} people. All choose among raw and sigma {sigmas}.
- Whoever is over the limit by habit alone is over it here when releases add {added} to the bound with nothing
  released (`habits = "apart"`).
- **before**: the same without frontier bound and tight bound on the prior guess (`decisions_before.csv`).

## Kept against the crowd

The first {steps} hours of the same city, with the same limit and sensors, first come first served, and the
budget kept against [who does not know where the others are](../../explanation/crowd.md) (`known = 0`).
**in the crowd**: of that budget, with people over the limit by that adversary's ceilings.

{crowd}

Both depend on work, since who is not looked at in time counts as over, and of more people each gets less:
decisions may take a quarter of `sharpen_operations`, here as set by default.
"""


def report(rows: Sequence[Row], settings: Sequence[Setting], before: Before, crowd: Sequence[Row]) -> str:
    """The page for ``docs/results/tables``."""
    schedules = "; ".join(
        f"{each.name}: {len(each.steps)} steps of {len(each.steps[0])} sensors, T = {each.horizon.horizon}, "
        f"s = {each.horizon.mistakes}"
        for each in settings
    )
    sigmas = ", ".join(f"{sigma:g}" for sigma in SIGMAS)
    added = settings[0].added
    tables = {"table": table(rows, before), "crowd": table_in_crowd(crowd), "steps": STEPS_IN_CROWD}
    return _PAGE.format(schedules=schedules, added=added, silence=SILENCE, sigmas=sigmas, **tables)


def draw(rows: Sequence[Row], output: Path) -> None:
    """Loss against people over the limit, a panel a data set; lower and further left is better."""
    names = list(dict.fromkeys(row.data_set for row in rows))
    figure, axes_of = grid(len(names), len(names), 4.2, 2.9)
    for axes, name in zip(axes_of, names, strict=True):
        for label, chosen, style in _series([row for row in rows if row.data_set == name]):
            axes.plot([100 * row.over for row in chosen], [row.loss for row in chosen], label=label, **style)
        axes.set(title=name, xlabel="people over the limit, %", xlim=(-1, None), ylim=(-0.2, None))
    axes_of[0].set_ylabel("loss, people")
    figure.legend(*axes_of[0].get_legend_handles_labels(), loc="outside lower center", ncols=3)
    save(figure, output)


def _series(rows: Sequence[Row]) -> Iterator[tuple[str, list[Row], dict[str, str]]]:
    """The three lines of a panel."""
    yield "raw, one sigma", [r for r in rows if not is_budget(r)], {"color": "#999999", "marker": "s"}
    for way, colour, marker in (("budget", "#0072B2", "o"), ("budget, looking ahead", "#009E73", "^")):
        yield way, [row for row in rows if row.way == way], {"color": colour, "marker": marker}


def main() -> None:
    """Print the table; write page, figures and picture to the results folder."""
    parser = options(__doc__, "decisions.md, .csv and .png")
    parser.add_argument("--people", type=int, default=600, help="people of the simulated city")
    arguments = parser.parse_args()
    settings = [
        *(check_ins(name, find_data(arguments.data)) for name in DATA_SETS),
        simulated_city(arguments.people),
    ]
    rows = [row for setting in settings for row in rows_of(setting, SHARES)]
    before = read_before(arguments.results / "decisions_before.csv") if arguments.results else {}
    cities = [simulated_city(people, STEPS_IN_CROWD) for people in CITIES_IN_CROWD]
    crowd = [row for city in cities for row in rows_against_each(city, SHARE_IN_CROWD)]
    print(table(rows, before), table_in_crowd(crowd), sep="\n\n")
    if arguments.results:
        write_csv(rows, arguments.results / "decisions.csv")
        write_csv(crowd, arguments.results / "decisions_crowd.csv")
        (arguments.results / "decisions.md").write_text(report(rows, settings, before, crowd))
        draw(rows, arguments.results / "decisions.png")


if __name__ == "__main__":
    main()

"""Priors fitted to real check-ins, held against the windows they were not fitted to.

``python -m experiments.prior_check --data FOLDER`` (or ``make prior-check``)

Windows of 20 days, T = 5 held-out windows of which s = 1 may be wrong, nothing released: is the best guess
from the priors right as often as they say? Beside what the fitted chains predict stands what they predict
once it is taken into account that they were fitted to few moves: the mean, and each person's 90 % quantile,
over chains drawn from the posterior (every row from its Dirichlet law).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from accounting.audit.calibration import (
    CheckSettings,
    GroupCheck,
    GroupedCheck,
    PriorsCheck,
    RecordedPeople,
    Sharpness,
    check_priors,
    sharpness,
)
from accounting.exposure import Exposure, baseline
from experiments.held_out import DATA_SETS, MISTAKES, draw_sensors, find_data, released_from
from experiments.measure import markdown, options, write_csv
from models.fitting import (
    PAPER,
    FitOptions,
    FitResult,
    fit_priors,
    read_checkins,
    training_surprise,
)
from models.fitting.checkins import Checkins
from models.mechanisms import parse
from models.priors import Evidence, Lists, MovementPrior, Population, posterior_draws
from models.releases import Schedule, SensorRegistry, StepSchedule
from stream_app.analysis.plan_figure import draw_check

DRAWS = 200
QUANTILE = 0.9
FEW_DRAWS = 20
RECENCY = 0.7
FREQUENCIES = 10.0
"""Moves that a person's recent place frequencies count for in each row."""
_SMOOTHED = 0.1  # added to each place's weight
EARLIER_WINDOWS = 5
_SETTINGS = CheckSettings(mistakes=MISTAKES)


@dataclass(frozen=True)
class Row:
    """One group of people of one way of fitting, attacked in one way; ``group`` 0 is everybody."""

    data_set: str
    fitted: str
    attack: str
    group: int
    people: int
    predicted: float
    realised: float
    low: float
    high: float
    p_higher: float
    p_lower: float | None
    kappa_min: float
    verdict: str


@dataclass(frozen=True)
class Case:
    """One data set fitted in one way: the checks, and what the posterior predicts.

    ``surprise`` is of every held-out move, the one from the last fitted window included; ``credible_of_few``
    is the mean quantile of few draws. ``evidence`` is None where it is not known.
    """

    data_set: str
    fitted: str
    fit: FitResult
    check: PriorsCheck
    posterior_mean: float
    posterior_error: float
    credible: float
    credible_of_few: float
    surprise: Sharpness
    evidence: float | None

    @cached_property
    def raw(self) -> PriorsCheck:
        """The check with a raw sensor a step; it takes longest, and is made when somebody asks."""
        registry = SensorRegistry.one_per_location(self.fit.population.location_names)
        sensors = released_from(self.fit, draw_sensors(self.fit, registry, (0, 0)), parse("raw", {}))
        return check_priors(self.fit.population, held_out_people(self.fit), sensors, _SETTINGS)


def cases(data_set: str, checkins: Checkins, draws: int) -> list[Case]:
    """The paper's way; the same one horizon earlier; without looking ahead; recent windows weighted more."""
    paper = fit_priors(checkins, PAPER)
    recent = fit_priors(checkins, replace(PAPER, recency=RECENCY))
    return [
        case(data_set, "as in the paper", paper, draws),
        case(data_set, "5 windows earlier", earlier(checkins, paper), draws),
        case(data_set, "without looking ahead", fit_priors(checkins, FitOptions()), draws),
        case(data_set, f"recency {RECENCY}", recent, draws),
        case(data_set, f"recency {RECENCY}, frequencies", towards_frequencies(recent), draws),
    ]


def earlier(checkins: Checkins, paper: FitResult) -> FitResult:
    """The same people at the same places, fitted and held out five windows earlier."""
    length = PAPER.window_seconds
    first = int(checkins.time_seconds.min())
    windows = (int(checkins.time_seconds.max()) - first) // length + 1
    people = np.isin(checkins.user_names, paper.population.people)[checkins.user]
    places = np.isin(checkins.location_names, paper.population.location_names)[checkins.location]
    before = checkins.time_seconds < first + (windows - EARLIER_WINDOWS) * length
    kept = people & places & before
    known = replace(
        checkins,
        user=checkins.user[kept],
        time_seconds=checkins.time_seconds[kept],
        location=checkins.location[kept],
    )
    return fit_priors(known, replace(PAPER, origin=first, min_windows=0))


def towards_frequencies(fit: FitResult, weight: float = FREQUENCIES) -> FitResult:
    """The same traces, rows drawn towards the person's recent place frequencies instead of smoothed.

    Row ``x`` is ``(n(x, y) + w f(y)) / (n(x) + w)``; moves and visits fade by the fit's recency. No option of
    the fit: its evidence in training is not known.
    """
    locations, windows = fit.population.location_count, fit.training.shape[1]
    fading = fit.options.recency ** np.arange(windows)[::-1]
    priors, evidence = [], []
    for person, trace in enumerate(fit.training):
        places = fit.population.chain(person).places
        moves, visits = np.zeros((locations, locations)), np.full(locations, _SMOOTHED)
        np.add.at(moves, (trace[:-1], trace[1:]), fading[1:])
        np.add.at(visits, trace, fading)
        rows = moves[np.ix_(places, places)] + weight * visits[places] / visits[places].sum()
        total = rows.sum(axis=1, keepdims=True)
        priors.append(MovementPrior.from_dense(fit.population.people[person], rows / total, places=places))
        evidence.append(total[:, 0])
    population = Population.pack(priors, fit.population.location_names)
    known = Evidence(fit.evidence.people, Lists(fit.evidence.rows.start, np.concatenate(evidence)))
    return replace(
        fit,
        population=population,
        evidence=known,
        options=replace(fit.options, smoothing="none", never_left="stay"),
    )


def case(data_set: str, fitted: str, fit: FitResult, draws: int) -> Case:
    """Check one fit against its held-out windows: nothing released, and a raw sensor a step."""
    recorded, steps = held_out_people(fit), fit.held_out.shape[1]
    drawn = drawn_guesses(fit, draws)
    parts = [drawn[first : first + FEW_DRAWS] for first in range(0, draws, FEW_DRAWS)]
    with_first = np.column_stack([fit.training[:, -1], fit.held_out])
    return Case(
        data_set,
        fitted,
        fit,
        check_priors(fit.population, recorded, steps, _SETTINGS),
        float(drawn.mean()),
        float(drawn.mean(axis=1).std() / np.sqrt(draws)),
        float(np.quantile(drawn, QUANTILE, axis=0).mean()),
        float(np.mean([np.quantile(part, QUANTILE, axis=0).mean() for part in parts])),
        sharpness(
            fit.population, RecordedPeople(recorded.positions, with_first, fit.held_out_first_slot - 1)
        ),
        training_surprise(fit).surprise,
    )


def held_out_people(fit: FitResult) -> RecordedPeople:
    """Everybody's held-out windows."""
    return RecordedPeople(np.arange(len(fit.population)), fit.held_out, fit.held_out_first_slot)


def drawn_guesses(fit: FitResult, draws: int) -> NDArray[np.float64]:
    """The exact success of everybody's best guess (draws, people), under chains of their own posterior."""
    population, steps = fit.population, fit.held_out.shape[1]
    empty = Schedule(tuple(map(StepSchedule, range(steps))), fit.held_out_first_slot)
    found = np.empty((draws, len(population)))
    for person in range(len(population)):
        chains = posterior_draws(population, person, fit.evidence, draws)
        for draw in range(draws):
            exposure = Exposure.of(chains.chain(draw), empty, population.location_count)
            found[draw, person] = baseline(exposure, MISTAKES).success
    return found


def rows(case: Case) -> list[Row]:
    """Every figure of one case."""
    return [
        *guess_rows(case),
        *_rows(case, f"{case.check.attack_name}, nothing released", case.check.attack),
        *_rows(case, f"{case.raw.attack_name}, raw counts", case.raw.attack),
    ]


def guess_rows(case: Case) -> list[Row]:
    """Those of the best guess, for which nothing is released."""
    return _rows(case, "best guess", case.check.guess)


def _rows(case: Case, attack: str, grouped: GroupedCheck) -> list[Row]:
    """Everybody, and each group."""
    groups = enumerate((grouped.everybody, *grouped.groups))
    return [_row(case, attack, number, group) for number, group in groups]


def _row(case: Case, attack: str, number: int, group: GroupCheck) -> Row:
    """One line of the CSV."""
    return Row(
        case.data_set,
        case.fitted,
        attack,
        number,
        group.people,
        group.predicted,
        group.realised,
        group.low,
        group.high,
        group.p_higher,
        group.p_lower,
        group.kappa_min,
        group.verdict,
    )


def table(found: Sequence[Case]) -> str:
    """One line a case, as a Markdown table."""
    head = ["data set", "fitted", "people", "plug-in", "posterior mean", "90 % quantile", "realised", "p"]
    head += ["by quarter, predicted/realised", "z of surprise", "unknown moves", "κ_min", "verdict"]
    lines = []
    for case in found:
        everybody, surprise = case.check.guess.everybody, case.surprise
        quarters = " ".join(f"{q.predicted:.2f}/{q.realised:.2f}" for q in case.check.guess.groups)
        cells = [case.data_set, case.fitted, str(everybody.people), f"{everybody.predicted:.3f}"]
        cells += [
            f"{case.posterior_mean:.3f} ± {case.posterior_error:.4f}",
            f"{case.credible:.3f} ({case.credible_of_few:.3f})",
        ]
        cells += [f"{everybody.realised:.3f}", _p_value(everybody), quarters]
        cells += [f"{surprise.z or 0.0:+.1f} ({surprise.z_by_person or 0.0:+.1f})"]
        cells += [f"{surprise.unknown / (surprise.moves + surprise.unknown):.0%}"]
        cells += [f"{everybody.kappa_min:.3f}", case.check.guess.refuted.value]
        lines.append(cells)
    return markdown(head, lines)


def attack_table(found: Sequence[Case]) -> str:
    """The attack that sees raw counts, against certified ceilings."""
    head = ["data set", "fitted", "ceiling", "realised", "p", "by quarter, ceiling/realised", "κ_min"]
    head += ["largest κ_min of a quarter", "surprise, nats a move", "evidence in training"]
    lines = []
    for case in found:
        everybody, groups = case.raw.attack.everybody, case.raw.attack.groups
        quarters = " ".join(f"{q.predicted:.2f}/{q.realised:.2f}" for q in groups)
        cells = [case.data_set, case.fitted, f"{everybody.predicted:.3f}", f"{everybody.realised:.3f}"]
        cells += [_p_value(everybody), quarters, f"{everybody.kappa_min:.3f}"]
        cells += [f"{max(group.kappa_min for group in groups):.3f}"]
        evidence = "–" if case.evidence is None else f"{case.evidence:.2f}"
        cells += [f"{case.check.sharpness.surprise:.2f}", evidence]
        lines.append(cells)
    return markdown(head, lines)


def habits(data_set: str, checkins: Checkins) -> list[str]:
    """Lines of a table: which habit each length of window chooses, by evidence in training."""
    lines = []
    for days, recency in ((20, 1.0), (20, RECENCY), (7, 1.0), (1, 1.0)):
        held_out = PAPER.held_out_windows * 20 // days
        windows = replace(PAPER, window_seconds=86_400 * days, held_out_windows=held_out, recency=recency)
        fit = fit_priors(checkins, replace(windows, order=2, dwell=True))
        found = training_surprise(fit)
        cells = [data_set, f"{days}, {recency:g}", str(len(fit.population)), f"{found.moves:,}"]
        cells += [f"{found.by_habit[kind]:.4f}" for kind in ("places", "second order", "stays")]
        lines.append("| " + " | ".join([*cells, fit.habit.kind]) + " |")
    return lines


def _p_value(group: GroupCheck) -> str:
    """The smaller of both directions, and which."""
    if group.p_lower is not None and group.p_lower < group.p_higher:
        return f"{group.p_lower:.1g} (fewer)"
    return f"{group.p_higher:.1g} (more)"


_PAGE = """# Priors held against real traces

Made by `make prior-check`; every group of every case is in [prior-check.csv](prior-check.csv). Windows of 20
days, T = {steps} held-out windows of which s = {mistakes} may be wrong.
[What follows for an officer](../../explanation/prior-quality.md).

## The best guess, with nothing released

{table}

![Foursquare: predicted against realised success by quarter](prior-check-foursquare.png)
![Gowalla: predicted against realised success by quarter](prior-check-gowalla.png)

- **plug-in**: what the fitted chains predict, exactly. **posterior mean**, **90 % quantile** (each person's,
  then the mean over people): the same over {draws} chains drawn from what so few moves leave open. They are
  figures with an error of sampling, no certificates. In brackets the quantile of {few} draws: between so few,
  interpolation (numpy's) finds it too low.
- **realised**: how often that guess was right. **p**: the probability of so many hits or more (or fewer) if
  the priors were right, exact for independent people. People share seasons, so a small p means that the joint
  prior is wrong.
- **by quarter**: people by what is predicted of them, a quarter each.
- **z of surprise**: of `-ln P(move)` against what the rows expect, in standard deviations; in brackets with
  the spread between people. Every held-out move counts, the one out of the last fitted window, too, which
  `priors check` leaves out: it looks at windows only that were not fitted. **unknown moves** are impossible
  by the priors; their surprise is infinite, so they are left out of z.
- **κ_min**: over everybody; the data refute any smaller radius (nats). **verdict**: the worst quarter's, or
  everybody's where that is worse.
- **as in the paper**: people and places are chosen by all windows, the held-out ones included, which biases
  the check. **5 windows earlier**: the same people and places. **without looking ahead**: the defaults.
  **recency {recency}**: `priors fit --recency`. **frequencies**: rows are also drawn towards the person's
  recent place frequencies, which count for {frequencies:g} moves; no option of `priors fit`, as it repairs no
  verdict.

## An attack that sees raw counts

Likeliest place of every step given one raw sensor a step at a random place, against certified ceilings.

{attacks}

- **surprise**: of held-out moves that are possible. **evidence in training**: surprise of each training move
  for who knows the moves before it.

## More states a place

`priors fit --order 2 --dwell` on the same check-ins: surprise of each training move for who knows the moves
before it, nats a move, by the present place, by the last two, and by the place and the stay so far. The least
is used.

| data set | days a window, recency | people | moves | places | second order | stays | used |
|---|---|---|---|---|---|---|---|
{habits}

## What this says

{findings}
"""


def findings(found: Sequence[Case]) -> str:
    """What the figures say, as far as sentences can be computed."""
    lines = []
    for case in found:
        grouped, everybody = case.check.guess, case.check.guess.everybody
        low = grouped.groups[0]
        lines.append(
            f"- {case.data_set}, {case.fitted}: {grouped.refuted.value}. Everybody {everybody.predicted:.2f} "
            f"predicted, {everybody.realised:.2f} realised; those shown as safest {low.predicted:.2f} and "
            f"{low.realised:.2f}."
        )
    return "\n".join(lines)


def page(found: Sequence[Case], draws: int, of_habits: Sequence[str] = ()) -> str:
    """The page for ``docs/results/tables``."""
    return _PAGE.format(
        steps=found[0].check.steps,
        mistakes=found[0].check.mistakes,
        draws=draws,
        few=FEW_DRAWS,
        recency=RECENCY,
        frequencies=FREQUENCIES,
        table=table(found),
        attacks=attack_table(found),
        habits="\n".join(of_habits),
        findings=findings(found),
    )


def main() -> None:
    """Print the tables, and write page, figures and pictures to the results folder."""
    parser = options(__doc__, "prior-check.md, .csv and .png")
    parser.add_argument("--draws", type=int, default=DRAWS, help="chains drawn from the posterior")
    arguments = parser.parse_args()
    found: list[Case] = []
    of_habits: list[str] = []
    for data_set, file in DATA_SETS.items():
        checkins = read_checkins(find_data(arguments.data) / file)
        found += cases(data_set, checkins, arguments.draws)
        of_habits += habits(data_set, checkins)
    print(table(found), attack_table(found), *of_habits, sep="\n\n")
    if arguments.results:
        write_csv([row for case in found for row in rows(case)], arguments.results / "prior-check.csv")
        (arguments.results / "prior-check.md").write_text(page(found, arguments.draws, of_habits))
        for case in found:
            if case.fitted == "as in the paper":
                draw_check(case.check, arguments.results / f"prior-check-{case.data_set}.png")


if __name__ == "__main__":
    main()

"""The bounds on real check-ins, beside what attacks achieve under the prior and on the real traces.

``python -m experiments.real_checkins --data FOLDER`` (or ``make real-checkins``)

Priors as in Koga, Meehan, Chaudhuri, section 4.1, with the choices it leaves open as documented in
``models.fitting.fit_options``; five held-out windows of which one may be wrong, one raw sensor a step at a
random place. Every bound is computed for every person, under several draws of the sensors.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from accounting.attacks import RecordedResult, attack_recorded
from accounting.audit import AttackSettings, Audit, audit_population
from accounting.exposure import Exposure
from experiments.held_out import DATA_SETS, draw_sensors, find_data, released_from
from experiments.measure import ATTACKS, attack_successes, options, write_csv
from models.fitting import PAPER, FitResult, fit_priors, read_checkins
from models.mechanisms import Mechanism, parse
from models.releases import Schedule, SensorRegistry

MISTAKES = 1
SCHEDULES = 5
SAYS_NOTHING = 1.0 - 1e-9
BOUNDS = ("loose", "tight", "divergence", "moment", "certified")


@dataclass(frozen=True)
class Row:
    """One figure of one data set under one draw of the sensors.

    ``mean`` is over people; ``says_nothing`` the share of them whose bound is 1, 0 for what is no bound.
    """

    data_set: str
    schedule: int
    figure: str
    mean: float
    says_nothing: float = 0.0


class MissingDataError(Exception):
    """The check-ins are not where they were looked for."""


def load(data_set: str, folder: Path | None) -> FitResult:
    """The fitted priors and held-out traces; :class:`MissingDataError` says where the file was expected."""
    file = find_data(folder) / DATA_SETS[data_set]
    if not file.exists():
        raise MissingDataError(
            f"{data_set}: no {file.name} in {file.parent}; the check-ins are not part of this repository: "
            "name their folder with --data, or the folder above it in TALLYGUARD_SHARED"
        )
    return fit_priors(read_checkins(file), PAPER)


def random_schedules(fit: FitResult, count: int, mechanism: Mechanism | None = None) -> list[Schedule]:
    """Schedules of one sensor a step; number ``i`` has the same sensors for every mechanism."""
    registry = SensorRegistry.one_per_location(fit.population.location_names)
    released = mechanism or parse("raw", {})
    return [released_from(fit, draw_sensors(fit, registry, (0, index)), released) for index in range(count)]


def replay(
    fit: FitResult, schedule: Schedule, mistakes: int, draws: int
) -> list[Mapping[str, RecordedResult]]:
    """Every attack on everybody's real held-out trace."""
    results: list[Mapping[str, RecordedResult]] = []
    for person in range(len(fit.population)):
        seen = Exposure.of(fit.population.chain(person), schedule, fit.population.location_count)
        trace = fit.held_out[person]
        results.append(attack_recorded(seen, trace, mistakes, draws, seed=person))
    return results


def lucky_constant(fit: FitResult, mistakes: int, nowhere: int | None) -> float:
    """The paper's constant attack on real traces: one place for everybody, chosen with hindsight.

    The largest share, over all places but "somewhere else", of people who were there in all steps but
    ``mistakes``.
    """
    steps = fit.held_out.shape[1]
    shares = [
        float(((fit.held_out == place).sum(axis=1) >= steps - mistakes).mean())
        for place in range(fit.population.location_count)
        if place != nowhere
    ]
    return max(shares)


def elsewhere(fit: FitResult) -> int | None:
    """The location that stands for "somewhere else", if there is one."""
    names = fit.population.location_names
    return names.index(fit.options.elsewhere_name) if fit.options.elsewhere_name in names else None


def measure(data_set: str, fit: FitResult, schedules: int) -> list[Row]:
    """Every figure of one data set under every draw of the sensors."""
    rows = []
    for number, schedule in enumerate(random_schedules(fit, schedules)):
        audits = list(audit_population(fit.population, schedule, MISTAKES, attacks=AttackSettings()))
        figures = [*_bounds(audits), *_attacks(audits), *_replayed(fit, schedule)]
        rows += [Row(data_set, number, name, mean, nothing) for name, mean, nothing in figures]
    return rows


def _bounds(audits: Sequence[Audit]) -> list[tuple[str, float, float]]:
    """Name, mean and share of people whose bound says nothing."""
    found = []
    for name in BOUNDS:
        values = np.array([_bound(audit, name) for audit in audits])
        found.append((name, float(values.mean()), float((values >= SAYS_NOTHING).mean())))
    return found


def _bound(audit: Audit, name: str) -> float:
    value = audit.certified if name == "certified" else getattr(audit.bounds, name)
    return 1.0 if value is None else float(value)


def _attacks(audits: Sequence[Audit]) -> list[tuple[str, float, float]]:
    """Success under the prior, and of each person's best attack."""
    tried = [attack_successes(audit) for audit in audits]
    successes = np.array([[attacks[name] for name in ATTACKS] for attacks in tried])
    means = dict(zip(ATTACKS, successes.mean(axis=0), strict=True))
    means |= {"best": successes.max(axis=1).mean(), "baseline": np.mean([audit.baseline for audit in audits])}
    return [(f"under the prior: {name}", float(mean), 0.0) for name, mean in means.items()]


def _replayed(fit: FitResult, schedule: Schedule) -> list[tuple[str, float, float]]:
    """Success on the real traces, and the share of traces that the prior excludes."""
    results = replay(fit, schedule, MISTAKES, draws=1)
    means = {name: float(np.mean([result[name].success for result in results])) for name in ATTACKS}
    means["lucky constant"] = lucky_constant(fit, MISTAKES, elsewhere(fit))
    means["excluded"] = float(np.mean([result["map"].impossible > 0 for result in results]))
    return [(f"on real traces: {name}", mean, 0.0) for name, mean in means.items()]


def table(rows: Sequence[Row]) -> str:
    """Means over the draws of the sensors, with the range over them, as a Markdown table."""
    sets = list(dict.fromkeys(row.data_set for row in rows))
    lines = ["| | " + " | ".join(f"{name} | says nothing" for name in sets) + " |"]
    lines.append("|---|" + "---:|" * (2 * len(sets)))
    for figure in dict.fromkeys(row.figure for row in rows):
        cells = [figure]
        for name in sets:
            cells += _cells([row for row in rows if (row.data_set, row.figure) == (name, figure)])
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def _cells(rows: Sequence[Row]) -> list[str]:
    """Mean with range, and the share that says nothing where the figure is a bound."""
    values = [row.mean for row in rows]
    spread = f" ({min(values):.3f} to {max(values):.3f})" if max(values) - min(values) > 5e-4 else ""
    nothing = np.mean([row.says_nothing for row in rows])
    return [f"{np.mean(values):.4f}{spread}", f"{nothing:.1%}" if rows[0].figure in BOUNDS else ""]


_PAGE = """# Real check-ins: every bound for every person

Made by `make real-checkins`; the figures are in [real-checkins.csv](real-checkins.csv), one line a draw of
the sensors. {people}.

T = 5 held-out windows of 20 days, at most s = 1 of them wrong, one raw sensor a step at a random place. Mean
over all people and {schedules} draws of the sensors, in brackets the range over the draws; **says nothing**
is the share of people whose bound is 1 (at least 1 - 1e-9).

{table}

- **loose, tight**: the bounds of Koga, Meehan and Chaudhuri. **divergence**: binary divergence with exact
  information. **moment**: hit patterns, order 4. **certified**: the smallest of all, the true optimum by
  enumeration where a person has few places.
- **under the prior**: exact success of each attack if the person moves as the prior says; **best** is the
  best of the four for each person, **baseline** the best guess that sees no count. The bounds are about
  these.
- **on real traces**: share of people whose real held-out trace the attack gets right. Real traces do not come
  from the fitted prior, so an attack that does better than a bound contradicts the prior, not the bound.
  **excluded**: the prior calls the observations impossible, and the attack guesses from the prior alone.
  **lucky constant** is the paper's: one place for everybody, chosen with hindsight, "somewhere else" not
  allowed; **constant** is chosen for each person, "somewhere else" allowed.
- Choices: windows begin at the earliest check-in; the most frequent place stands for a window, ties by the
  latest check-in; smoothing 0.1 between the person's visited places.
{notes}
"""


def report(rows: Sequence[Row], fits: Mapping[str, FitResult]) -> str:
    """The page for ``docs/results/tables``."""
    people = ", ".join(f"{name.capitalize()} {len(fit.population)} people" for name, fit in fits.items())
    notes = [f"- {name}: {note}." for name, fit in fits.items() for note in fit.options.looks_ahead]
    schedules = len({row.schedule for row in rows})
    return _PAGE.format(people=people, schedules=schedules, table=table(rows), notes="\n".join(notes))


def main() -> None:
    """Print the table, and write page and CSV to the results folder."""
    parser = options(__doc__, "real-checkins.md and .csv")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="draws of the sensors")
    arguments = parser.parse_args()
    try:
        fits = {name: load(name, arguments.data) for name in DATA_SETS}
    except MissingDataError as missing:
        parser.error(str(missing))
    rows = [row for name, fit in fits.items() for row in measure(name, fit, arguments.schedules)]
    print(table(rows))
    if arguments.results:
        write_csv(rows, arguments.results / "real-checkins.csv")
        (arguments.results / "real-checkins.md").write_text(report(rows, fits))


if __name__ == "__main__":
    main()

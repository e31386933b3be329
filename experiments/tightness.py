"""How far the certified bound is from what an adversary surely achieves, on the paper's synthetic sweep.

``python -m experiments.tightness`` (or ``make tightness``)

Raw counts, one sensor a step at a random place, so every attack's success is exact. The target: certified at
most 1.3 times the best attack wherever that is above 1 %.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import process_time

import numpy as np

from accounting.audit import AttackSettings, Audit, audit_exposure
from accounting.audit.audit import AttackReport
from experiments.measure import markdown, options, write_csv
from experiments.papers.koga import koga_exposure

PLACES = (10, 30, 100, 300)
STEPS = (6, 10)
MISTAKES = (0, 2, 5, 8)
SCHEDULES = 30
TARGET_RATIO = 1.3
SERIOUS = 0.01  # an attack above this is held to the target


@dataclass(frozen=True)
class Row:
    """One cell of the sweep: means over the schedules; ``attack`` is the best of all, schedule by schedule.

    ``attack_low`` and ``attack_high`` are the means of its interval's ends, equal to it where it is exact.
    ``worst_ratio`` is the largest certified / attack over the schedules whose attack is above 1 %, 0 if none.
    """

    places: int
    steps: int
    mistakes: int
    loose: float
    tight: float
    certified: float
    attack: float
    attack_low: float
    attack_high: float
    baseline: float
    serious: int  # schedules with an attack above 1 %
    missed: int  # of these, certified above the target
    worst_ratio: float
    seconds: float  # of one core, an audit with its attacks; the mean but for the first, which may compile

    @property
    def ratio(self) -> float:
        """Mean certified over mean attack."""
        return self.certified / self.attack

    @property
    def paper_ratio(self) -> float:
        """Mean tight over mean attack."""
        return self.tight / self.attack


def cells() -> Iterator[tuple[int, int, int]]:
    """Places, steps and mistakes of the sweep; an adversary must get at least one step right."""
    for places in PLACES:
        for steps in STEPS:
            yield from ((places, steps, mistakes) for mistakes in MISTAKES if mistakes < steps)


def measure_cell(places: int, steps: int, mistakes: int, schedules: int) -> Row:
    """One row of the table."""
    audits, times = [], [process_time()]
    for seed in range(schedules):
        exposure = koga_exposure(places, steps, seed=seed)
        audits.append(audit_exposure(exposure, mistakes, attacks=AttackSettings(seed=seed)))
        times.append(process_time())
    best = [max(_attacks(audit), key=lambda attack: attack.success) for audit in audits]
    success = np.array([attack.success for attack in best])
    certified = np.array([audit.certified for audit in audits])
    serious = success > SERIOUS
    ratios = (certified / success)[serious]
    return Row(
        places,
        steps,
        mistakes,
        loose=float(np.mean([audit.bounds.loose for audit in audits])),
        tight=float(np.mean([audit.bounds.tight for audit in audits])),
        certified=float(certified.mean()),
        attack=float(success.mean()),
        attack_low=float(np.mean([attack.low for attack in best])),
        attack_high=float(np.mean([attack.high for attack in best])),
        baseline=float(np.mean([audit.baseline for audit in audits])),
        serious=int(ratios.size),
        missed=int((ratios > TARGET_RATIO).sum()),
        worst_ratio=float(ratios.max(initial=0.0)),
        seconds=(times[-1] - times[1]) / max(1, schedules - 1),
    )


def _attacks(audit: Audit) -> list[AttackReport]:
    """The attacks that were asked for."""
    return [report for report in (audit.attacks or {}).values() if report is not None]


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    head = ["M", "T", "s", "loose", "tight", "certified", "best attack", "prior alone"]
    head += ["tight / attack", "certified / attack", "worst where attack > 1 %", "seconds"]
    lines = []
    for row in rows:
        cells = [str(row.places), str(row.steps), str(row.mistakes)]
        cells += [_number(v) for v in (row.loose, row.tight, row.certified)]
        cells += [_interval(row), _number(row.baseline), _number(row.paper_ratio), _number(row.ratio)]
        cells += [f"{row.worst_ratio:.2f} ({row.serious})" if row.serious else "", f"{row.seconds:.2f}"]
        lines.append(cells)
    return markdown(head, lines, words=0)


def _interval(row: Row) -> str:
    if row.attack_low == row.attack_high:
        return _number(row.attack)
    return f"{_number(row.attack)} ({_number(row.attack_low)} to {_number(row.attack_high)})"


def _number(value: float) -> str:
    return f"{value:.3g}"


def verdict(rows: Sequence[Row]) -> str:
    """Whether the target was met, and where it was not."""
    serious = sum(row.serious for row in rows)
    missed = [row for row in rows if row.missed]
    if not missed:
        worst = max(row.worst_ratio for row in rows)
        return f"The target is met in all {serious} of them: the largest ratio is {worst:.2f}."
    where = "; ".join(
        f"M = {row.places}, T = {row.steps}, s = {row.mistakes} ({row.missed} of {row.serious}, "
        f"worst {row.worst_ratio:.2f})"
        for row in missed
    )
    return f"The target is missed in {sum(row.missed for row in missed)} of them: {where}."


_PAGE = """# Tightness on the paper's synthetic sweep

Made by `make tightness`; the figures are in [tightness.csv](tightness.csv). One synthetic person (M places on
a line, moves with probability proportional to `exp(-|x - y| / (0.1 M))`, stationary start), T steps with one
raw sensor each at a random place, at most s steps guessed wrong. Means over {schedules} draws of the sensors.

**Target:** certified at most {target} times the best attack wherever that is above 1 %. {serious} of the
{total} audits have such an attack. {verdict}

{table}

- **loose, tight**: the bounds of Koga, Meehan and Chaudhuri. **certified**: the smallest of all bounds, valid
  for any adversary, with the default effort.
- **best attack**: the best [attack](../../explanation/attacks.md), chosen for each draw of the sensors;
  nearly always `searched`, the best guess that a search finds for what is seen. Its success is computed
  exactly, so its interval is one number; where it is not, the interval is shown. **prior alone**: the best
  guess that does not look at the counts, exact.
- **worst**: the largest certified / attack among the draws with an attack above 1 %, and how many they are.
- **seconds**: of one core, for one audit: all bounds, with the counts and without, and all attacks.
- The true optimum lies between attack and certified, so a ratio is the slack of both together. Where s = 0
  the certified bound is the optimum itself, which is the MAP attack.
- The largest mean ratio of all cells, attacks far below 1 % included, is {largest:.3g}.
"""


def report(rows: Sequence[Row], schedules: int) -> str:
    """The page for ``docs/results/tables``."""
    return _PAGE.format(
        schedules=schedules,
        target=TARGET_RATIO,
        serious=sum(row.serious for row in rows),
        total=len(rows) * schedules,
        verdict=verdict(rows),
        table=table(rows),
        largest=max(row.ratio for row in rows),
    )


def main() -> None:
    """Print the table, and write page and CSV to the results folder."""
    parser = options(__doc__, "tightness.md and tightness.csv", of_check_ins=False)
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="draws of the sensors a cell")
    arguments = parser.parse_args()
    rows = [measure_cell(*cell, arguments.schedules) for cell in cells()]
    print(table(rows), verdict(rows), sep="\n\n")
    if arguments.results:
        write_csv(rows, arguments.results / "tightness.csv")
        (arguments.results / "tightness.md").write_text(report(rows, arguments.schedules))


if __name__ == "__main__":
    main()

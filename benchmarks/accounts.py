"""Claim: people who share priors cost what the priors cost, and each of them a name; weights cost nothing.

Everybody is accounted for steps of ten noised sensors, by account and with everybody apart; both by the fast
bound, which is computed for all. Each row is a process of its own. Run by name, it takes gigabytes:
``python -m benchmarks.accounts``, ``--results FOLDER`` writes ``accounts.md``.
"""

from __future__ import annotations

import argparse
import json
import resource
import statistics
import subprocess
import sys
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from accounting.continuous import ContinuousAccountant, PeopleShares
from accounting.settings import HorizonSettings
from benchmarks.continuous import stationary, steps_with
from benchmarks.forward_viterbi import random_population
from benchmarks.harness import show
from experiments.measure import markdown
from models.mechanisms import Gaussian
from models.priors import Population

PLACES, EXITS, SENSORS, SHARES = 10, 3, 10, 64
APART, NAMED, WEIGHED = "everybody apart", "named", "weights"
PIECE = 1_000_000
"""People who are packed and joined at once, so that nobody else is held with a prior of their own."""
CASES = (
    (10_000, 10_000, APART),
    (10_000, 10_000, NAMED),
    (100_000, 10_000, APART),
    (100_000, 10_000, NAMED),
    (1_000_000, 10_000, NAMED),
    (100_000, 100_000, NAMED),
    (1_000_000, 100_000, NAMED),
    (1_000_000, 100_000, WEIGHED),
    (1_000_000, 1_000_000, NAMED),
    (10_000_000, 100_000, NAMED),
    (10_000_000, 100_000, WEIGHED),
)


@dataclass(frozen=True)
class Case:
    """So many people of so many priors, listed one by one or as the weights of personas.

    ``APART`` everybody has an account alone.
    """

    people: int
    priors: int
    how: str

    def accountant(self, kinds: Population) -> ContinuousAccountant:
        """Before the first step; the people come in pieces, as into a partition."""
        if self.how == WEIGHED:
            number = np.arange(self.priors)
            personas = replace(kinds, weights=np.full(self.priors, self.people / self.priors))
            return self._accountant(personas.renamed(_names(number)), number)
        found = self._piece(kinds, 0)
        for first in range(PIECE, self.people, PIECE):
            found = found.with_people(self._piece(kinds, first))
        return found

    def _piece(self, kinds: Population, first: int) -> ContinuousAccountant:
        number = np.arange(first, min(first + PIECE, self.people))
        return self._accountant(kinds.subset(number % self.priors).renamed(_names(number)), number)

    def _accountant(self, people: Population, number: np.ndarray) -> ContinuousAccountant:
        shares = PeopleShares(SHARES, number * 7919 % SHARES, number)
        settings = HorizonSettings(sharpen=False)
        return ContinuousAccountant(people, settings, shares=shares, apart=self.how == APART)


def _names(number: np.ndarray) -> list[str]:
    return [f"{each:016x}" for each in number.tolist()]


def measured(case: Case) -> dict[str, float]:
    """Seconds and bytes of one case."""
    kinds = stationary(random_population(case.priors, PLACES, EXITS))
    steps = steps_with(4, SENSORS, Gaussian(1.0), come_again=False)
    case_of_few = Case(min(case.people, 100), min(case.priors, 100), case.how)
    case_of_few.accountant(kinds.subset(np.arange(case_of_few.priors))).apply(steps[0])  # kernels are loaded
    began = time.perf_counter()
    accountant = case.accountant(kinds)
    made, took, shown = time.perf_counter() - began, [], []
    held = sum(held_bytes(accountant).values())
    for step in steps:
        began = time.perf_counter()
        accountant.apply(step)
        took.append(time.perf_counter() - began)
        began = time.perf_counter()
        accountant.summary()
        accountant.crossings()
        shown.append(time.perf_counter() - began)
    return {
        "made": made,
        "held": float(held),
        "peak": 1024.0 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss,
        "step": statistics.median(took),
        "summary": statistics.median(shown),
        "mean_risk": accountant.summary().mean_risk,
        "accounts": float(len(accountant.population)),
    }


def held_bytes(what: object) -> dict[int, int]:
    """Of all arrays and names that are reached from an object, by where they lie."""
    found: dict[int, int] = {}
    left = [what]
    while left:
        each = left.pop()
        if isinstance(each, np.ndarray):
            whole = each if each.base is None or not isinstance(each.base, np.ndarray) else each.base
            found[id(whole)] = whole.nbytes
        elif isinstance(each, tuple) and id(each) not in found:
            found[id(each)] = sys.getsizeof(each)
            left.extend(each)
        elif isinstance(each, str):
            found[id(each)] = sys.getsizeof(each)
        elif type(each).__module__.split(".")[0] in ("accounting", "models") and id(each) not in found:
            found[id(each)] = 0
            left.extend(vars(each).values() if hasattr(each, "__dict__") else ())
    return found


def in_a_process(case: Case) -> dict[str, float]:
    """Measured where nothing else was allocated."""
    given = json.dumps([case.people, case.priors, case.how])
    done = subprocess.run(
        [sys.executable, "-m", "benchmarks.accounts", "--case", given], check=True, stdout=subprocess.PIPE
    )
    return dict(json.loads(done.stdout.splitlines()[-1]))


def row(case: Case, found: dict[str, float]) -> list[str]:
    """One line of the table."""
    return [
        f"{case.people:,}",
        f"{case.priors:,}",
        case.how if case.how == APART else f"{int(found['accounts']):,}, {case.how}",
        f"{found['made']:.1f}",
        f"{1e3 * found['step']:.0f}",
        f"{1e3 * found['summary']:.0f}",
        f"{found['held'] / 1e6:,.0f}",
        f"{found['held'] / case.people:,.0f}",
        f"{found['peak'] / 1e6:,.0f}",
    ]


COLUMNS = [
    *("people", "priors", "accounts", "made, s", "step, ms"),
    *("summary, ms", "held, MB", "bytes a person", "peak, MB"),
]
HEAD = f"""# People by account

`python -m benchmarks.accounts`, two cores: people who share priors of {PLACES} places
with {EXITS} exits each, steps of {SENSORS} noised sensors of 100, horizon 10, the fast bound. People come in
pieces of {PIECE:,} and are compared, prior by prior, with who is there (*made*). *Step* is the median of 20
steps, *summary* what is said of all people after it (counts over thresholds, quantiles, means, crossings).
*Held* are the arrays of the accounts with their priors, and of each person a name of 16 letters (73 bytes),
share and rank; *peak* is the memory of the whole process, a piece of people with priors of their own
included. With *everybody apart* each person has an account, as it was for all before; *named* people are
listed one by one; of *weights* each persona is listed once and counts for as many people. Figures are the
same, bit for bit. Only *made* grows with named people: each is compared once, and the priors of each piece
are looked at again. Nothing else was running.

"""


def main() -> None:
    """Measure, show, and write where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--results", type=Path)
    parser.add_argument("--case")
    parser.add_argument("--most-people", type=int, default=10_000_000)
    given = parser.parse_args()
    if given.case:
        print(json.dumps(measured(Case(*json.loads(given.case)))))
        return
    rows = []
    risks: dict[Any, Any] = {}
    for case in (Case(*each) for each in CASES if each[0] <= given.most_people):
        found = in_a_process(case)
        known = risks.setdefault((case.people, case.priors), found["mean_risk"])
        assert known == found["mean_risk"], "by account the figures are those of people accounted alone"
        rows.append(row(case, found))
        print(*rows[-1], sep=" | ", flush=True)
    show("People by account", COLUMNS, rows)
    if given.results:
        (given.results / "accounts.md").write_text(f"{HEAD}{markdown(COLUMNS, rows, words=0)}\n")


if __name__ == "__main__":
    main()

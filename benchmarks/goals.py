"""Claim: what people wait for is as fast as we promise: *work, now, limit or peer, goal*, in one run.

Processor time on one thread, medians; a limit is what the machine or the same code without that work takes, a
peer is what an engineer would write, compiled and run in turn with us. Each row is measured in a process of
its own. ``python -m benchmarks.goals [--results FOLDER] [row ...]`` (minutes; by name only)
"""

from __future__ import annotations

import os

os.environ |= {"NUMBA_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "POLARS_MAX_THREADS": "1"}

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import process_time
from typing import NamedTuple

import numpy as np

from benchmarks.harness import show, taken
from experiments.measure import markdown
from models.releases import Schedule, StepSchedule


class Row(NamedTuple):
    """Seconds of processor time of some work, or (``ratio``) how many times as fast as the peer it is."""

    work: str
    now: float
    peer: str  # or limit
    theirs: float
    goal: float
    ratio: bool = False

    @property
    def cells(self) -> list[str]:
        """As the table has them."""
        there = f"{self.peer} {seconds(self.theirs)}" if self.peer else ""
        if self.ratio:
            ratio, goal = self.theirs / self.now, f">= {self.goal:g} x"
            is_met = ratio >= self.goal
        else:
            ratio, goal = self.now / (self.theirs or 1.0), f"<= {seconds(self.goal)}"
            is_met = self.now <= self.goal
        times = f"{ratio:.2f} x" if self.peer else ""
        return [self.work, seconds(self.now), there, times, goal, "yes" if is_met else "no"]


def seconds(value: float) -> str:
    """Three digits: 1.23 ms."""
    for unit, size in (("s", 1.0), ("ms", 1e-3), ("us", 1e-6)):
        if value >= size:
            return f"{value / size:.3g} {unit}"
    return f"{value / 1e-9:.3g} ns"


def embedded() -> Iterator[Row]:
    """A run of 100 people, the same 20 sensors of sigma 2 in each step: the 61st to 160th on average."""
    from benchmarks.engine_run import SEED, draw_population, write_messages
    from stream_app.embedded import RunOptions, run
    from stream_app.setup.settings import Settings
    from stream_app.watching.events import Observer, StepClosed

    class Clock(Observer):
        def __init__(self) -> None:
            self.at: list[float] = []

        def closed(self, event: StepClosed) -> None:
            self.at.append(process_time())

    people = draw_population(np.random.default_rng(SEED), 100, 10)
    profiles: Mapping[str, dict[str, object]] = {
        "without refinement": {"sharpen": False},
        "neither": {"sharpen": False, "attack_draws": 0},
        "as settings are": {},
    }
    with tempfile.TemporaryDirectory() as name:
        source = Path(name) / "readings.jsonl"
        write_messages(np.random.default_rng(SEED), source, 160, 20)

        def clock_of(kind: str, turn: int, steps: int = 160) -> list[float]:
            keys = {key: Path(name) / f"{kind} {turn} {key}" for key in ("noise_key", "pseudonym_key")}
            settings = Settings.model_validate({**profiles[kind], **keys, "release": {"sigma": 2.0}})
            folder, few = Path(name) / f"{kind} {turn}", Path(name) / "few.jsonl"
            few.write_bytes(b"".join(source.read_bytes().splitlines(keepends=True)[: 21 * steps]))
            clock = Clock()
            run(settings, RunOptions(folder, few, create_keys=True), people, observer=clock)
            return clock.at

        def each(kind: str) -> float:
            clocks = [clock_of(kind, turn) for turn in range(4)][1:]
            return statistics.median((at[159] - at[59]) / 100 for at in clocks)

        bare, attacked = each("neither"), each("without refinement")
        at = clock_of("as settings are", 0, 12)
    limit = "without attack and refinement"
    yield Row("step, 100 people, no refinement", attacked, limit, bare, 2e-3)
    yield Row("the 12th step, 100 people, all defaults", at[11] - at[10], limit, bare, 0.15)


def audits() -> Iterator[Row]:
    """People of the demo's city, one after the other, everything the audit looks at but attacks: the mean."""
    from accounting.audit import audit_exposure
    from accounting.exposure import Exposure
    from experiments.ceilings import schedule_of
    from models.mechanisms import Gaussian, Raw
    from stream_app.city import CityOptions, build_city

    city = build_city(CityOptions(people=500))
    population = city.population.subset(list(range(0, 120, 3)))
    for mechanism, what, sizes in (
        (Gaussian(1.0), "noised", ((24, 0.03), (192, 0.5))),
        (Raw(), "raw", ((192, 0.5),)),
    ):
        for steps, goal in sizes:
            hours = schedule_of(city, mechanism).steps
            schedule = Schedule(tuple(StepSchedule(t, hours[t % len(hours)].releases) for t in range(steps)))

            def audit(person: int, schedule: Schedule = schedule) -> None:
                chain, initial = population.chain(person), population.initial(person)
                audit_exposure(Exposure.of(chain, schedule, population.location_count, initial), 1)

            people = len(population) if steps < 100 else 10
            found = taken({str(person): partial(audit, person) for person in range(people)}, 3)
            yield Row(
                f"audit of a person, {what}, {steps} steps", statistics.mean(found.values()), "", 0.0, goal
            )


def refining() -> Iterator[Row]:
    """A person of the demo's city through noise, with their part of the work of 100,000 and of 5,000."""
    from accounting.settings import HORIZON, OPERATIONS, HorizonSettings
    from experiments.ceilings import limited, schedule_of
    from models.mechanisms import Gaussian
    from stream_app.city import CityOptions, build_city

    city = build_city(CityOptions(people=80))
    hours = schedule_of(city, Gaussian(1.0))
    for people, goal in ((100_000, 1e-3), (5_000, 8e-3)):
        part = OPERATIONS * len(city.population) // people
        settings = HorizonSettings(HORIZON, 1, sharpen_above=0.0, operations=part)
        took = statistics.median(limited(city.population, settings, hours)[2] for _ in range(5))
        yield Row(f"refining a person, sigma 1, s = 1, as among {people:,}", took / 1e3, "", 0.0, goal)


def decoding() -> Iterator[Row]:
    """Forward, Viterbi and path, beside a plain loop in C++ for this very CPU."""
    from benchmarks.beside_peers import ours, random_traces
    from benchmarks.forward_viterbi import STEPS
    from benchmarks.peers.decoding import cpp_by_columns, cpp_loop, numba_loop

    for people, places, exits, goal in ((20_000, 10, 3, 2.6), (4_000, 40, 5, 1.5), (300, 100, 100, 1.5)):
        traces = random_traces(people, places, exits)
        runs = {"C++ by rows": cpp_loop(traces), "C++ by columns": cpp_by_columns(traces)}
        found = taken({"ours": ours(traces), "numba loop": numba_loop(traces), **runs}, 7)
        work = f"decoding, {places} places, {exits} exits, a person and step"
        for peer in runs:
            yield Row(
                work, found["ours"] / people / STEPS, peer, found[peer] / people / STEPS, goal, ratio=True
            )


def opening() -> Iterator[Row]:
    """Accounts of people with sparse priors of their own, stationary start, before the first step."""
    from accounting.continuous import ContinuousAccountant
    from accounting.settings import HorizonSettings
    from benchmarks.continuous import stationary
    from benchmarks.forward_viterbi import random_population

    def one(people: int, places: int, horizon: int, mistakes: int) -> Callable[[], object]:
        population = stationary(random_population(people, places, 3))
        settings = HorizonSettings(horizon, mistakes, sharpen=False)
        return lambda: ContinuousAccountant(population, settings)

    sizes = {
        (10, 10, 1): (3_000, 1e-5),
        (10, 10, 5): (1_000, 1e-4),
        (80, 10, 1): (300, 1e-4),
        (10, 40, 1): (2_000, 4e-5),
        (10, 160, 1): (500, 1.6e-4),
        (10, 40, 10): (300, 2e-4),
        (10, 40, 20): (200, 4e-4),
    }
    found = taken({str(size): one(people, *size) for size, (people, _) in sizes.items()}, 3)
    for size, (people, goal) in sizes.items():
        work = "opening an account, {} places, T = {}, s = {}".format(*size)
        yield Row(work, found[str(size)] / people, "", 0.0, goal)


def loading() -> Iterator[Row]:
    """A million people: a Parquet file of priors read, everybody's pseudonym and share of the work."""
    import pyarrow.parquet as pq

    from benchmarks.engine_run import SEED, draw_population
    from models.keys import Pseudonymiser
    from models.prior_files import load_population, save_population
    from stream_app.steps.policy.people_shards import people_shares

    people = 60_000
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "priors.parquet"
        save_population(draw_population(np.random.default_rng(SEED), people, 10), path)
        population, key = load_population(path), Pseudonymiser(b"k" * 32)
        names = key.pseudonyms(population.people)
        found = taken(
            {
                "file": lambda: load_population(path),
                "bytes": lambda: pq.read_table(path, use_threads=False),
                "names": lambda: key.pseudonyms(population.people),
                "shares": lambda: people_shares(names, 4),
            },
            3,
        )
    each = (found["file"] + found["names"] + found["shares"]) / people
    yield Row(
        "loading 10^6 listed people, without accounts",
        each * 1e6,
        "Parquet",
        found["bytes"] / people * 1e6,
        10.0,
    )


def calibration() -> Iterator[Row]:
    """An entry of a slot's matrix in a sweep, 3,000 and 20,000 personas."""
    from benchmarks.personas import SLOTS, city, classes, day, world
    from models.fitting.calibration import _Sweeping
    from models.fitting.personas import classes_of, personas

    around = city()
    for count in (3_000, 20_000):
        table = classes(count, 1)
        made = personas(classes_of(table, [day(1)]), [day(1)], around)
        flows = world(around, table)
        assert made.weights is not None
        constraints = flows.constraints(float(made.weights.sum()), made.location_names, SLOTS)
        sweeping = _Sweeping(made, constraints, None)

        def sweep(sweeping: _Sweeping = sweeping) -> None:
            sweeping.sweep()

        found = taken({"sweep": sweep}, 3)["sweep"]
        yield Row(
            f"calibration, {count:,} personas, an entry and sweep",
            found / made.arrays.value.size,
            "",
            0.0,
            1e-8,
        )


def archives() -> Iterator[Row]:
    """Two years of hours of sixty sensors to messages, and check-ins to priors, beside polars."""
    from benchmarks.archive import SENSORS, write_archive, write_by_polars, write_ours
    from benchmarks.peers.streaming import fit_by_polars, write_checkins
    from models.fitting import FitOptions, fit_priors, read_checkins
    from models.numerics.memory import keep_memory
    from models.prior_files import save_population

    keep_memory()  # as in every command
    with tempfile.TemporaryDirectory() as folder:
        path, messages, checkins = (
            Path(folder) / name for name in ("archive.csv", "messages.jsonl", "rows.parquet")
        )
        rows = write_archive(path, SENSORS)
        own, polars = (partial(each, path, messages) for each in (write_ours, write_by_polars))
        found = taken({"ours": own, "polars": polars}, 7)
        yield Row(
            "archive to messages, a row",
            found["ours"] / rows,
            "polars",
            found["polars"] / rows,
            1.5,
            ratio=True,
        )
        write_checkins(checkins, 186_000)
        options = FitOptions(
            window_seconds=3600, slots=24, origin="epoch", held_out_windows=0, elsewhere="skip"
        )

        def fit() -> None:
            save_population(
                fit_priors(read_checkins(checkins), options).population, Path(folder) / "priors.parquet"
            )

        runs = {"ours": fit, "polars": lambda: fit_by_polars(checkins, Path(folder) / "polars.parquet")}
        found = taken(runs)
        yield Row(
            "priors of 186,000 check-ins, 24 slots", found["ours"], "polars", found["polars"], 0.5, ratio=True
        )


def account_steps() -> Iterator[Row]:
    """Steps of the same 500 sensors of sigma 2 for 100,000 people, with the attack and all that is said."""
    from accounting.settings import HorizonSettings
    from benchmarks.continuous import stationary, steps_with
    from benchmarks.forward_viterbi import random_population
    from models.mechanisms import Gaussian
    from stream_app.setup.settings import Settings
    from stream_app.steps.accounts import Accounts, PeopleAccounts
    from stream_app.steps.policy import Decided

    drawn = stationary(random_population(100_000, 10, 3))
    people = drawn.renamed([f"{number:016x}" for number in range(len(drawn))])
    step = steps_with(3, 100, Gaussian(2.0), come_again=True)[0]
    again = [
        replace(each, sensor=replace(each.sensor, name=f"{each.sensor.name} {k}"))
        for k in range(5)
        for each in step.releases
    ]
    found, few = {}, {"sharpen": True, "sharpen_operations": 6_000_000}
    for kind, chosen in {"all": {}, "neither": {"attack_draws": 0}, "a few refined": few}.items():
        settings = Settings.model_validate({"sharpen": False, "release": {"sigma": 2.0}, **chosen})
        horizon = HorizonSettings(sharpen=settings.sharpen, operations=settings.sharpen_operations)
        accounts = Accounts.of(settings, horizon, people, people.people)
        held, took = PeopleAccounts(settings, accounts, most_exposed=10), []
        for number in range(120):
            began = process_time()
            held.apply(Decided(StepSchedule(number, tuple(again))))
            if kind != "neither":
                held.named(held.summary())
            took.append(process_time() - began)
        found[kind] = statistics.mean(took[60:])
    work = "account step, 10^5 people, 500 sensors"
    yield Row(work, found["all"], "without summary and attack", found["neither"], 0.025)
    yield Row("the same, some people refined", found["a few refined"], "nobody", found["all"], 0.05)


ROWS: Mapping[str, Callable[[], Iterator[Row]]] = {
    each.__name__: each
    for each in (embedded, refining, audits, decoding, opening, loading, calibration, archives, account_steps)
}
COLUMNS = ["work", "now", "limit or peer", "times", "goal", "met"]
HEAD = """# What people wait for

`python -m benchmarks.goals`: processor time on one thread, medians of one run, each part in a process of its
own. A *limit* is what the same takes without that work, or the machine; a *peer* is what an engineer would
write, compiled and run in turn with us. *Times* is ours over a limit, or how many times as fast as a peer we
are. Two cores, nothing else running.

"""


def main() -> None:
    """Measure the rows named, or all, and write them where asked."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("rows", nargs="*", metavar="row", help=", ".join(ROWS))
    parser.add_argument("--results", type=Path)
    parser.add_argument("--json", action="store_true", help="one part in this process")
    given = parser.parse_args()
    for unknown in set(given.rows) - set(ROWS):
        parser.error(f"rows must be of {', '.join(ROWS)}, got {unknown}")
    if given.json:
        print(json.dumps([row.cells for name in given.rows for row in ROWS[name]()]))
        return
    cells: list[list[str]] = []
    for name in given.rows or ROWS:
        command = [sys.executable, "-m", "benchmarks.goals", "--json", name]
        done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
        cells += json.loads(done.stdout.splitlines()[-1])
        print(*(" | ".join(row) for row in cells[-8:]), sep="\n", file=sys.stderr)
    show("What people wait for", COLUMNS, cells)
    if given.results:
        (given.results / "goals.md").write_text(f"{HEAD}{markdown(COLUMNS, cells, words=1)}\n")


if __name__ == "__main__":
    main()

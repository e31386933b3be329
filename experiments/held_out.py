"""The paper's summary on real check-ins: fitted priors, held-out traces, the engine, bounds and attacks.

``python -m experiments.held_out --data FOLDER`` (or ``make held-out DATA=FOLDER``)

Priors are fitted as in Koga, Meehan, Chaudhuri, "Measuring Privacy Loss in Distributed Spatio-Temporal Data"
(20-day windows, 100 places and somewhere else). The held-out windows become activations and readings of one
randomly chosen sensor a step, the engine runs over them raw and with sigma 1, and every attack is tried on
the real held-out traces. Figures are means over people and over several draws of the sensors.
"""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np

from accounting.attacks import attack_recorded
from accounting.audit import audit_population
from accounting.exposure import Exposure
from experiments.measure import markdown, options
from models.fitting import PAPER, FitResult, fit_priors, read_checkins
from models.mechanisms import Mechanism, parse
from models.releases import Schedule, SensorRegistry, SensorRelease, StepSchedule
from stream_app import embedded
from stream_app.setup.release_settings import ReleaseSettings
from stream_app.setup.settings import Settings
from stream_app.watching.events import Observer, StepClosed
from stream_app.wire.messages import Activation, Reading, RiskSummary

DATA_SETS = {
    "foursquare": "foursquare_us_tist2015_5k.parquet",
    "gowalla": "gowalla_global_1000users.parquet",
}
WAYS: tuple[tuple[str, Mechanism], ...] = (
    ("raw", parse("raw", {})),
    ("sigma 1", parse("gaussian", {"sigma": 1.0})),
)
MISTAKES = 1
SCHEDULES = 10
NOISE_DRAWS = 20
SAYS_NOTHING = 0.999  # a bound at or above this excludes nothing
NOWHERE_SENSOR = "elsewhere"  # the location where no sensor can stand


@dataclass(frozen=True)
class Row:
    """One data set, one way of releasing: means over people and sensor draws."""

    data_set: str
    released: str
    people: int
    steps: int
    mistakes: int
    baseline: float
    loose: float
    tight: float
    certified: float
    certified_says_nothing: float  # share of people
    tight_says_nothing: float
    running_risk: float  # the engine's own, at the last step
    attacks: dict[str, float]  # success on the real held-out traces
    impossible: float  # share of traces whose observations the prior excludes


def summarise(data_set: str, fit: FitResult, schedules: int, seed: int = 0) -> list[Row]:
    """The rows of one data set."""
    registry = SensorRegistry.one_per_location(fit.population.location_names)
    drawn = [draw_sensors(fit, registry, (seed, index)) for index in range(schedules)]
    return [
        _summarise_way(data_set, fit, name, [released_from(fit, sensors, mechanism) for sensors in drawn])
        for name, mechanism in WAYS
    ]


def draw_sensors(fit: FitResult, registry: SensorRegistry, seed: tuple[int, int]) -> list[int]:
    """One sensor a step, uniformly among the places that can have one."""
    places = [i for i, name in enumerate(registry.location_names) if name != NOWHERE_SENSOR]
    random = np.random.default_rng(seed)
    return [int(random.choice(places)) for _ in range(fit.held_out.shape[1])]


def released_from(fit: FitResult, sensors: Sequence[int], mechanism: Mechanism) -> Schedule:
    """The held-out steps with one of ``sensors`` (location indices) each."""
    registry = SensorRegistry.one_per_location(fit.population.location_names)
    steps = tuple(
        StepSchedule(step, (SensorRelease(registry.sensors[sensor], mechanism),))
        for step, sensor in enumerate(sensors)
    )
    return Schedule(steps, fit.held_out_first_slot)


def _summarise_way(data_set: str, fit: FitResult, released: str, schedules: Sequence[Schedule]) -> Row:
    audits = [
        audit for schedule in schedules for audit in audit_population(fit.population, schedule, MISTAKES)
    ]
    certified = np.array([audit.certified for audit in audits])
    tight = np.array([audit.bounds.tight for audit in audits])
    attacks, impossible = _attack_held_out(fit, schedules)
    return Row(
        data_set=data_set,
        released=released,
        people=len(fit.population),
        steps=fit.held_out.shape[1],
        mistakes=MISTAKES,
        baseline=float(np.mean([audit.baseline for audit in audits])),
        loose=float(np.mean([audit.bounds.loose for audit in audits])),
        tight=float(tight.mean()),
        certified=float(certified.mean()),
        certified_says_nothing=float((certified >= SAYS_NOTHING).mean()),
        tight_says_nothing=float((tight >= SAYS_NOTHING).mean()),
        running_risk=float(np.mean([run_engine(fit, schedule).mean_risk for schedule in schedules])),
        attacks=attacks,
        impossible=impossible,
    )


def _attack_held_out(fit: FitResult, schedules: Sequence[Schedule]) -> tuple[dict[str, float], float]:
    """Share of people and sensor draws with each attack right on the real trace, and of excluded traces."""
    successes: dict[str, list[float]] = {}
    impossible: list[float] = []
    for schedule in schedules:
        for person in range(len(fit.population)):
            exposure = Exposure.of(fit.population.chain(person), schedule, fit.population.location_count)
            results = attack_recorded(exposure, fit.held_out[person], MISTAKES, NOISE_DRAWS, person)
            for name, result in results.items():
                successes.setdefault(name, []).append(result.success)
            impossible.append(max(result.impossible / result.draws for result in results.values()))
    return {name: float(np.mean(values)) for name, values in successes.items()}, float(np.mean(impossible))


class _LastSummary(Observer):
    """Keeps the risks of the last step."""

    summary: RiskSummary

    def closed(self, event: StepClosed) -> None:
        """A step was closed."""
        if event.summary is not None:
            self.summary = event.summary


def run_engine(fit: FitResult, schedule: Schedule) -> RiskSummary:
    """The real counts through the embedded engine; the risks after the last step."""
    mechanism = schedule.steps[0].releases[0].mechanism
    settings = Settings(
        horizon=len(schedule.steps),
        mistakes=MISTAKES,
        first_slot=schedule.first_slot,
        release=ReleaseSettings(mechanism=mechanism.name, sigma=mechanism.parameters.get("sigma")),
    )
    last = _LastSummary()
    with tempfile.TemporaryDirectory() as folder:
        options = embedded.RunOptions(output=Path(folder) / "out", create_keys=True)
        embedded.run(settings, options, fit.population, observer=last, chunks=messages(fit, schedule))
    return last.summary


def messages(fit: FitResult, schedule: Schedule) -> Iterator[bytes]:
    """The held-out windows as a deployment would have sent them."""
    for step in schedule.steps:
        sensors = [release.sensor for release in step.releases]
        yield Activation(v=1, step=step.step, sensors=tuple(sensor.name for sensor in sensors)).line()
        for sensor in sensors:
            count = int(np.isin(fit.held_out[:, step.step], sensor.locations).sum())
            yield Reading(v=1, step=step.step, sensor=sensor.name, count=count).line()


def table(rows: Sequence[Row]) -> str:
    """The rows as a Markdown table."""
    attacks = list(rows[0].attacks)
    head = ["data set", "released", "people", "best guess", "paper loose", "paper tight", "says nothing"]
    head += ["certified", "says nothing", "running", *(f"attack: {name}" for name in attacks), "excluded"]
    lines = []
    for row in rows:
        cells = [row.data_set, row.released, str(row.people), f"{row.baseline:.3f}", f"{row.loose:.3f}"]
        cells += [f"{row.tight:.3f}", f"{row.tight_says_nothing:.0%}", f"{row.certified:.3f}"]
        cells += [f"{row.certified_says_nothing:.0%}", f"{row.running_risk:.3f}"]
        cells += [f"{row.attacks[name]:.3f}" for name in attacks] + [f"{row.impossible:.0%}"]
        lines.append(cells)
    return markdown(head, lines)


_PAGE = """# Held-out check-ins: bounds and attacks

Made by `make held-out`. T = {steps} held-out windows of 20 days, at most s = {mistakes} of them wrong, one
randomly chosen sensor a step; means over all people and {schedules} draws of the sensors.

{table}

- **best guess**: exact success of the best guess from the prior alone. **paper loose, tight**: the bounds
  of Koga, Meehan and Chaudhuri. **certified**: the smallest of all bounds. **running**: the streaming
  engine's own bound after the last step.
- **says nothing**: share of people whose bound is {says_nothing} or more.
- **attack**: share of people whose real held-out trace the attack gets right within the allowed mistakes. The
  bounds hold under the fitted prior; real traces do not come from it, so an attack may do better or worse.
- **excluded**: share of real traces whose observations the prior excludes (a place never seen in training);
  the attack then guesses from the prior alone.
{notes}
"""


def misfits(rows: Sequence[Row]) -> list[str]:
    """A sentence for each row whose real traces are easier to guess than the prior says."""
    return [
        f"{row.data_set}, {row.released}: an attack is right on {max(row.attacks.values()):.3f} of the real "
        f"traces, where the prior allows {row.certified:.3f}: the held-out windows are more predictable than "
        "the fitted priors, so here the bound understates what an adversary achieves."
        for row in rows
        if max(row.attacks.values()) > row.certified
    ]


def report(rows: Sequence[Row], notes: Sequence[str], schedules: int) -> str:
    """The page for ``docs/results/tables``."""
    return _PAGE.format(
        steps=rows[0].steps,
        mistakes=rows[0].mistakes,
        schedules=schedules,
        table=table(rows),
        says_nothing=SAYS_NOTHING,
        notes="\n".join(f"- {note}" for note in [*misfits(rows), *notes]),
    )


def find_data(given: Path | None) -> Path:
    """The folder with the check-ins: as given, else ``$TALLYGUARD_SHARED/data``, else beside the checkout."""
    if given is not None:
        return given
    beside = Path(__file__).resolve().parents[2] / "shared"
    return Path(os.environ.get("TALLYGUARD_SHARED", beside)) / "data"


def main() -> None:
    """Print the table, and write page and figures to the results folder."""
    parser = options(__doc__, "held-out.md and held-out.json")
    parser.add_argument("--schedules", type=int, default=SCHEDULES, help="draws of the sensors")
    arguments = parser.parse_args()
    rows: list[Row] = []
    notes: list[str] = []
    for data_set, file in DATA_SETS.items():
        fit = fit_priors(read_checkins(find_data(arguments.data) / file), PAPER)
        notes += [f"{data_set}: {note}." for note in fit.options.looks_ahead]
        rows += summarise(data_set, fit, arguments.schedules)
    print(table(rows))
    if arguments.results:
        arguments.results.mkdir(parents=True, exist_ok=True)
        document = json.dumps([asdict(row) for row in rows], indent=1)
        (arguments.results / "held-out.json").write_text(document + "\n")
        (arguments.results / "held-out.md").write_text(report(rows, notes, arguments.schedules))


if __name__ == "__main__":
    main()

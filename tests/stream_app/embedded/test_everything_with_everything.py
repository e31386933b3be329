"""A random deployment through everything: checked, planned, run, killed, restarted, replayed, audited.

Every ceiling that its files have of one person is compared with the best adversary by enumeration.
"""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

from models.keys import Pseudonymiser
from models.mechanisms import Correlated
from models.prior_files import save_population
from models.priors import Population
from models.releases import Sensor
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.planning import plan_releases
from stream_app.analysis.preflight import check_files
from stream_app.analysis.report import load_priors, make_report
from stream_app.embedded import RunOptions, run
from stream_app.embedded.replay import replay_run
from stream_app.setup.combinations import Runner, refusals
from stream_app.setup.settings import Settings
from stream_app.steps.policy import BudgetPolicy, designs_of
from tests.accounting.combinations.deployments import (
    ADVERSARIES,
    COUNTED,
    DECIDED,
    SHARED,
    TIERED,
    Cell,
    Deployment,
    audits,
    compare,
    draw,
)
from tests.stream_app.embedded.test_journal import Crash, Disk
from tests.stream_app.engine_support import (
    NOISE_SECRET,
    PSEUDONYM_SECRET,
    TickingClock,
    everything_in,
    json_lines,
    lines_of,
    reading,
    settings,
)
from tests.toml_file import toml_of
from tests.volume import randoms, some


def files_of(folder: Path, drawn: Deployment, cell: Cell | None = None) -> tuple[Settings, Path]:
    """The settings and the schedule of a deployment that was drawn; of a cell often activations."""
    folder.mkdir(parents=True)
    sensors, schedule = folder / "sensors.json", folder / "schedule.json"
    rows = [row_of(each) for each in drawn.registry.sensors]
    sensors.write_text(json.dumps({"counts": "passages", "sensors": rows}))
    mechanism = {} if drawn.limit is None else {"mechanism": "raw"}
    steps = [{"sensors": list(names), **mechanism} for names in drawn.announced]
    release = release_of(drawn, cell)
    if drawn.limit is None:  # the mechanism of each sensor is in the settings
        steps = [step_of(drawn, number) for number in range(drawn.steps)]
    schedule.write_text(json.dumps({"steps": steps}))
    if cell is not None and cell.decided != "schedule":
        schedule = folder / "activations.csv"
        rows_of = [f"{step},{name}\n" for step, names in enumerate(drawn.announced) for name in names]
        schedule.write_text("".join(["step,sensor\n", *rows_of]))
    np.save(folder / "covariance.npy", SHARED.covariance)
    if any(isinstance(each, Correlated) for each in drawn.mechanisms.values()):
        release["covariance"] = folder / "covariance.npy"
    crowd: dict[str, Any] = {} if drawn.adversary is None else {"crowd": {"on": True}}
    chosen = settings(
        sensors=sensors,
        release=release,
        adversary="crowd" if drawn.in_crowd else "informed",
        horizon=drawn.settings.horizon,
        mistakes=drawn.settings.mistakes,
        sharpen=drawn.settings.sharpen,
        sharpen_above=0.0,
        risk_every=1,
        listen="",
        attack_draws=16,
        sampled_above=0.1,
        sharpen_operations=100_000_000,  # of which a quarter looks at a few people by sampling
        snapshot_seconds=1e-9,
        **crowd,
    )
    return chosen, schedule


def as_file(chosen: Settings) -> dict[str, Any]:
    """What a settings file says, without keys."""
    return chosen.model_dump(
        mode="json", exclude_unset=True, exclude={"noise_key_secret", "pseudonym_key_secret"}
    )


def problems_of(folder: Path, chosen: Settings, schedule: Path, population: Population) -> list[str]:
    """What `tallyguard check` finds in the same as files."""
    keys = {"noise_key": NOISE_SECRET, "pseudonym_key": PSEUDONYM_SECRET}
    for name, secret in keys.items():
        (folder / name).write_text(secret)
        (folder / name).chmod(0o600)
    config, priors = folder / "t.toml", folder / "priors.json"
    config.write_text(toml_of({**as_file(chosen), **{name: str(folder / name) for name in keys}}))
    save_population(population, priors)
    found = check_files(config=config, priors=priors, schedule=schedule)
    return [each.sentence for each in found if each.level == "problem"]


def row_of(sensor: Sensor) -> dict[str, Any]:
    window = sensor.window
    counted = {"most_counts": sensor.most_counts, "corrections": sensor.corrections, "name": sensor.name}
    if not sensor.is_sum and window is None:
        del counted["most_counts"]
        return {**counted, "locations": list(sensor.locations), "counts": "occupied"}
    if window is None:
        return {**counted, "locations": list(sensor.locations)}
    counted["first_step"] = window.first_step
    if window.moves:
        moves = [[str(start), str(end)] for start, end, _ in window.moves]
        return {**counted, "moves": moves, "window": window.steps}
    return {**counted, "locations": list(sensor.locations), "window": window.steps}


def release_of(drawn: Deployment, cell: Cell | None = None) -> dict[str, Any]:
    if isinstance(drawn.policy, BudgetPolicy):
        assert drawn.limit is not None
        budget = {
            "added": float(drawn.limit.added or 0.0),
            "share": 0.0,
            "sigmas": [0.7, 1.5, 4.0],
            "hindsight": drawn.limit.in_hindsight,
        }
        if not has_own_noise(cell):
            return {"mechanism": "budget", "budget": {**budget, "look_ahead": 2 if cell else 0}}
        own = {"s0": mechanism_of(drawn.mechanisms["s0"])}
        return {"mechanism": "budget", "budget": budget, "tiers": dict(TIERED.tiers), "sensors": own}
    own = {name: mechanism_of(each) for name, each in drawn.mechanisms.items()}
    return {"mechanism": "raw", "tiers": {"public": 0.4, "partner": 1.3}, "sensors": own}


def has_own_noise(cell: Cell | None) -> bool:
    """Whether the first sensor has a mechanism of its own, also where a budget decides about the others."""
    return cell is not None and cell.counted in ("tiers", "correlated")


def mechanism_of(mechanism: Any) -> dict[str, Any]:
    return {
        "mechanism": mechanism.name,
        **({"sigma": mechanism.sigma} if mechanism.name == "gaussian" else {}),
    }


def step_of(drawn: Deployment, number: int) -> dict[str, Any]:
    own = {
        name: Correlated.of(each.noise, number) if isinstance(each, Correlated) else each
        for name, each in drawn.mechanisms.items()
    }
    releases = [
        {"sensor": name, "mechanism": own[name].name, **dict(own[name].parameters)}
        for name in drawn.announced[number]
    ]
    return {"releases": releases}


class Compared(NamedTuple):
    """How many ceilings of a run, and of audits of what it published, were compared with the truth."""

    running: int
    audited: int


def through_everything(
    folder: Path, drawn: Deployment, rng: np.random.Generator, disk: Disk, cell: Cell | None = None
) -> Compared:
    """Every file of a run that is killed and goes on, and what its ceilings say, against the truth."""
    chosen, schedule = files_of(folder, drawn, cell)
    population, out = drawn.population, folder / "out"
    assert not any(list(refusals(runner, chosen, len(drawn.population))) for runner in Runner)
    assert not problems_of(folder, chosen, schedule, population)
    plan = plan_releases(chosen, schedule, population)
    registry = drawn.registry.with_designs(designs_of(chosen.release))
    counts = [
        reading(step, name, int(rng.integers(9)))
        for step, names in enumerate(drawn.announced)
        for name in names
    ]

    def run_in(name: str) -> None:
        options = RunOptions(folder / name, schedule=schedule)
        run(chosen, options, population, clock=TickingClock(), chunks=[lines_of(counts)])

    disk.operations, disk.crash_at = 0, -1
    run_in("out")
    disk.operations, disk.crash_at = 0, int(rng.integers(3, disk.operations))
    with pytest.raises(Crash):
        run_in("killed")
    disk.crash_at = -1
    run_in("killed")
    assert everything_in(folder / "killed") == everything_in(out)
    decided = read_decisions(out / "decisions.jsonl", registry)
    assert [each.decided.schedule for each in plan.steps] == decided[: len(plan.steps)]
    (name, *_) = Pseudonymiser.parse(PSEUDONYM_SECRET).pseudonyms(population.people[:1])
    lines = [each for each in json_lines(out / "risks.jsonl") if each["type"] == "risk"]
    own: list[dict[str, Any]] = [each for each in lines if each["person"] == name]
    assert replay_run(out, Settings()).is_same
    assert make_report(out, priors=load_priors(out, chosen, population)).startswith("<!doctype html>")
    announced = drawn.announced[: len(decided)]  # a run on activations ends with the last of them
    found = replace(drawn, announced=announced, decided=decided, informed=[each["risk"] for each in own])
    if has_own_noise(cell):  # which no budget limits
        found = replace(found, limit=None)
    if drawn.adversary is not None:
        found = replace(found, crowd=[each["crowd"] for each in own])
    running = compare(found)
    assert not running.wrong, (sorted(drawn.features), running.wrong)
    return Compared(running.ceilings, audited(found))


def audited(found: Deployment) -> int:
    """An audit of what was published, against both adversaries; how many ceilings were compared."""
    mistakes = min(found.settings.mistakes, found.steps - 1)
    both = list(audits(replace(found, settings=replace(found.settings, mistakes=mistakes))))
    for best, ceiling in both:
        assert best <= ceiling + 1e-9, sorted(found.features)
    return len(both)


def check(folder: Path, seed: int, number: int, patch: pytest.MonkeyPatch) -> int:
    disk, compared = Disk(patch), 0
    for case, rng in enumerate(randoms(seed, number)):
        compared += sum(through_everything(folder / str(case), draw(rng), rng, disk))
    return compared


def test_a_handful_of_combinations_goes_through_everything(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert check(tmp_path, 60, 12, monkeypatch)


CELLS = [Cell(*each) for each in product(COUNTED, ADVERSARIES, DECIDED)]


_ATTEMPTS = 100


def drawn_for(cell: Cell, rng: np.random.Generator, folder: Path, *, announced: int = 1) -> Deployment:
    """The first deployment of the cell that can be compared with the truth; so many steps announce something.

    ``folder`` gets the files of all that were tried.
    """
    for attempt in range(_ATTEMPTS):
        drawn = draw(rng, cell)
        if sum(map(bool, drawn.announced)) < announced:
            continue
        chosen, schedule = files_of(folder / str(attempt), drawn, cell)
        plan = plan_releases(chosen, schedule, drawn.population)
        decided = [each.decided.schedule for each in plan.steps]
        planned = replace(drawn, decided=decided, announced=drawn.announced[: len(decided)])
        if is_comparable(planned, cell):
            return drawn
    raise AssertionError(f"nothing of {cell} can be compared")


def is_comparable(planned: Deployment, cell: Cell) -> bool:
    """Whether what the cell counts is published within a whole horizon, and the truth can be written down.

    Of noise that steps share, two values are published.
    """
    until = planned.steps - 1
    own = [each for each in planned.shown(until) if each.sensor.name == "s0"]
    if not own or planned.steps < planned.settings.horizon:
        return False
    windows = [each.step // each.correlated.noise.steps for each in own if each.correlated is not None]
    if cell.counted == "correlated" and len(set(windows)) == len(windows):
        return False
    return planned.optimum((0, until), until, among=cell.adversary == "crowd") is not None


@pytest.mark.parametrize("number", some(len(CELLS)))
def test_each_cell_of_the_matrix_goes_through_everything(
    number: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What is counted, with which adversary, and who decides: a part of all cells a day, and all in four.

    Of each, ceilings of the run and of the audits are compared with the best adversary.
    """
    cell, rng = CELLS[number], np.random.default_rng([62, number])
    drawn = drawn_for(cell, rng, tmp_path / "drawn")
    compared = through_everything(tmp_path / "cell", drawn, rng, Disk(monkeypatch), cell)
    assert min(compared) > 0


@pytest.mark.slow
def test_many_combinations_go_through_everything(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert check(tmp_path, 61, 240, monkeypatch) > 20

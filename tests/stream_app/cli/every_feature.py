"""Small deployments with any features together, and their runners until they start.

A feature says what it adds to settings, sensors, priors and schedule. Sensors A to D count at a place each:
what a feature declares of sensors it declares of one of them, so that features can stand side by side.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.prior_files import save_evidence, save_population
from models.priors import Evidence, Lists
from stream_app.analysis.preflight import check_files
from stream_app.kafka import workers
from stream_app.kafka.tools import person_loading
from stream_app.setup.combinations import REGION_WORKERS, Feature, Runner
from tests.hex_keys import hex_key
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.engine_support import NAMES, population
from tests.stream_app.watching.test_refuted_priors import verdict
from tests.toml_file import toml_of

STEPS, STEP_SECONDS = 4, 600
TIERS = {"public": 0.2, "partner": 1.0}
REACHED = "the broker is needed now"
OF_SENSORS: dict[Feature, tuple[str, dict[str, Any]]] = {
    Feature.WINDOWS: ("A", {"window": 2}),
    Feature.PASSAGES: ("B", {"counts": "passages", "most_counts": 3}),
    Feature.CORRECTIONS: ("C", {"corrections": 1}),
}
FILES = {Feature.SCHEDULE, Feature.SCHEDULED_TIERS, Feature.SCHEDULED_SLOT, Feature.ACTIVATIONS}


@dataclass(frozen=True)
class Made:
    """The files of one deployment."""

    folder: Path
    features: frozenset[Feature]
    priors: Path | None
    schedule: Path | None

    @property
    def config(self) -> Path:
        return self.folder / "t.toml"

    @property
    def sensors(self) -> Path:
        return self.folder / "sensors.json"

    def options(self, *left_out: str) -> list[str]:
        """Of a command that takes all files."""
        given = {"--config": self.config, "--priors": self.priors, "--schedule": self.schedule}
        return [
            str(part)
            for name, path in given.items()
            if path is not None and name not in left_out
            for part in (name, path)
        ]

    def problems(self) -> list[str]:
        """The sentences of `tallyguard check`."""
        found = check_files(config=self.config, priors=self.priors, schedule=self.schedule)
        return [each.sentence for each in found if each.level == "problem"]


def with_implied(features: Iterable[Feature]) -> frozenset[Feature]:
    """What looks back is a budget, and so is one that goes by a clock."""
    chosen = frozenset(features)
    return chosen | {Feature.BUDGET} if {Feature.HINDSIGHT, Feature.CHANGED_CLOCK} & chosen else chosen


def make(folder: Path, features: Iterable[Feature], *, on_kafka: bool, **changes: Any) -> Made:
    """A deployment with these features; ``changes`` go into the settings before everything else."""
    chosen = with_implied(features)
    folder.mkdir(parents=True)
    for name in ("noise", "pseudonym"):
        (folder / f"{name}.key").write_text(hex_key("ab"))
        (folder / f"{name}.key").chmod(0o600)
    (folder / "locations.txt").write_text("".join(f"{name}\n" for name in NAMES))
    rows: dict[str, dict[str, Any]] = {name: {"name": name, "locations": [name]} for name in NAMES}
    for feature, (name, declared) in OF_SENSORS.items():
        if feature in chosen:
            rows[name] |= declared
    if Feature.REGIONS in chosen:
        for name, row in rows.items():
            row["region"] = "north" if name in "AB" else "south"
    (folder / "sensors.json").write_text(json.dumps({"sensors": list(rows.values())}))
    start = (int(time.time()) // STEP_SECONDS - 2 * STEPS) * STEP_SECONDS
    settings: dict[str, Any] = {
        "horizon": 3,
        "step_seconds": STEP_SECONDS,
        "origin": start,
        "listen": "",
        "attack_draws": 16,
        "sampled_above": 0.9,  # of hardly anybody: draws take a tenth of a second a person
        "sharpen": False,
        "noise_key": "noise.key",
        "pseudonym_key": "pseudonym.key",
        "locations": "locations.txt",
        "sensors": "sensors.json",
        **changes,
    }
    for feature in sorted(chosen):
        for name, value in _settings(folder, feature).items():
            settings[name] = {**settings.get(name, {}), **value} if isinstance(value, dict) else value
    settings["release"] = _release(folder, chosen) | changes.get("release", {})
    if on_kafka:
        settings["kafka"] = {"servers": ["nowhere:9092"]}
    schedule = _schedule(folder, chosen)
    if on_kafka and schedule is not None:
        settings["kafka"]["schedule"] = schedule.name
    (folder / "t.toml").write_text(toml_of(settings))
    return Made(folder, chosen, _priors(folder, chosen), schedule)


def _settings(folder: Path, feature: Feature) -> dict[str, Any]:
    """What a feature adds to the settings, beside how counts are released."""
    if feature is Feature.EVIDENCE:
        people = population()
        rows = [people.chain(person).start.size for person in range(len(people))]
        start = np.concatenate(([0], np.cumsum(rows)))
        evidence = Evidence(people.people, Lists(start, np.full(start[-1], 6.0)))
        save_evidence(evidence, folder / "evidence.parquet")
        return {"evidence": "evidence.parquet", "posterior_draws": 2}
    if feature is Feature.CHECKED:
        (folder / "check.json").write_text(verdict().model_dump_json())
        return {"priors_check": "check.json"}
    if feature is Feature.PANEL:
        (folder / "panel.jsonl").touch(mode=0o600)
        return {"panel": "panel.jsonl"}
    if feature is Feature.EXCLUSIONS:
        (folder / "exclusions.csv").write_text("sensor,from,to,reason\nA,2100-01-01T00:00Z,,maintenance\n")
        return {"quality": {"exclusions": "exclusions.csv"}}
    if feature is Feature.QUESTIONS:
        asked = {"half": {"groups": {"one": list(NAMES[:2]), "other": list(NAMES[2:])}}}
        return {"question": "half", "also_asked": ["place"], "questions": asked}
    return {
        Feature.CROWD: {"adversary": "crowd"},
        Feature.LATE: {"late": 2},
        Feature.CLOCK: {"grace_seconds": 1.0},
        Feature.CHANGED_CLOCK: {"timezone": "Europe/Vienna"},
        Feature.HOLIDAYS: {"timezone": "Europe/Vienna", "holidays": ["2026-12-25"]},
        Feature.DEVICES: {"quality": {"silent_steps": 3}},
        Feature.TOTALS: {"totals": ["hour by sensor", "day by sensor"]},
    }.get(feature, {})


def _release(folder: Path, features: frozenset[Feature]) -> dict[str, Any]:
    """Budget, correlated noise, tiers: the first of them decides, another one is sensor D's own."""
    kinds = {Feature.BUDGET: "budget", Feature.CORRELATED: "correlated", Feature.TIERS: "tiered"}
    named = [kind for feature, kind in kinds.items() if feature in features]
    release: dict[str, Any] = {"mechanism": named[0] if named else "gaussian"}
    if len(named) > 1:
        release["sensors"] = {"D": {"mechanism": named[1]}}
    if Feature.BUDGET in features:
        release["budget"] = {"added": 0.5, "share": 0.5, "sigmas": [1.0, 4.0]}
        release["budget"]["hindsight"] = Feature.HINDSIGHT in features
    if Feature.TIERS in features:
        release["tiers"] = TIERS
    if Feature.CORRELATED in features:
        np.save(folder / "covariance.npy", np.array([[4.0, 1.0], [1.0, 4.0]]))
        release["covariance"] = "covariance.npy"
    return release


def _priors(folder: Path, features: frozenset[Feature]) -> Path | None:
    if Feature.NO_PEOPLE in features:
        return None
    people = population()
    if Feature.PERSONAS in features:
        people = replace(people, weights=np.full(len(people), 2.0))
    save_population(people, folder / "priors.json")
    return folder / "priors.json"


def counted(step: int, features: frozenset[Feature]) -> list[str]:
    """The sensors of a step: one with a window in the last step of each."""
    return [name for name in NAMES if name != "A" or Feature.WINDOWS not in features or step % 2]


def _schedule(folder: Path, features: frozenset[Feature]) -> Path | None:
    if not FILES & features:
        return None
    if Feature.ACTIVATIONS in features:
        lines = [f"{step},{name}\n" for step in range(STEPS) for name in counted(step, features)]
        (folder / "schedule.csv").write_text("".join(["step,sensor\n", *lines]))
        return folder / "schedule.csv"
    steps: list[dict[str, Any]] = [
        {"sensors": counted(step, features), "mechanism": "gaussian", "sigma": 1.0} for step in range(STEPS)
    ]
    if Feature.SCHEDULED_TIERS in features:
        steps[0] = {"sensors": ["D"], "mechanism": "tiered", **{f"epsilon_{n}": e for n, e in TIERS.items()}}
    document: dict[str, Any] = {"steps": steps}
    if Feature.SCHEDULED_SLOT in features:
        document["first_slot"] = 1
    (folder / "schedule.json").write_text(json.dumps(document))
    return folder / "schedule.json"


# Runners, by the commands that start them.


def runners(made: Made, *, on_kafka: bool) -> list[Runner]:
    """Those that `tallyguard check` asks."""
    asked = [Runner.RUN]
    if on_kafka:
        deciding = sorted(REGION_WORKERS) if Feature.REGIONS in made.features else [Runner.RELEASE]
        asked = [*deciding, Runner.ACCOUNT]
        if made.priors is not None:
            asked.append(Runner.PERSONS)
    if made.priors is not None and made.schedule is not None:
        asked.append(Runner.PLAN)
    return asked


def refused_by(runner: Runner, made: Made, tallyguard: Tallyguard, patch: pytest.MonkeyPatch) -> str | None:
    """The sentence with which the command refuses to start; None where it starts.

    A run publishes all its steps; a worker is made, and stops where it would wait for the broker.
    """
    started: list[object] = []

    def reached(*given: object) -> int:
        started.append(given)
        return 0

    patch.setattr(workers, "run_worker", reached)
    patch.setattr(person_loading, "check_topics_of", _reach(started))
    result = tallyguard(*_COMMANDS[runner](made))
    said = result.err.split("tallyguard: ")[-1].strip()
    if runner in (Runner.RUN, Runner.PLAN):
        if result.code == 0:
            assert runner is Runner.PLAN or len(_lines(made.folder / "out" / "releases.jsonl")) >= STEPS
            return None
        assert not (made.folder / "out").exists()
    elif started:
        return None
    assert result.code == 1, (runner, result)
    return said


def _reach(started: list[object]) -> Callable[[object], None]:
    def reached(deployment: object) -> None:
        started.append(deployment)
        raise SystemExit(0)

    return reached


def _lines(path: Path) -> list[str]:
    return path.read_text().splitlines()


def _run(made: Made) -> list[str]:
    lines: list[dict[str, object]] = []
    for step in range(STEPS):
        sensors = counted(step, made.features)
        if made.schedule is not None and Feature.SCHEDULED_TIERS in made.features and step == 0:
            sensors = ["D"]
        if made.schedule is None:
            lines.append({"v": 1, "type": "activation", "step": step, "sensors": sensors})
        lines += ({"v": 1, "type": "reading", "step": step, "sensor": name, "count": 5} for name in sensors)
    (made.folder / "day.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    day, out = str(made.folder / "day.jsonl"), str(made.folder / "out")
    return ["run", *made.options(), "--input", day, "--output", out]


_COMMANDS: Mapping[Runner, Callable[[Made], list[str]]] = {
    Runner.RUN: _run,
    Runner.PLAN: lambda made: ["plan", str(made.schedule), *made.options("--schedule")],
    Runner.RELEASE: lambda made: ["worker", "release", *made.options("--priors")],
    Runner.COORDINATOR: lambda made: ["worker", "coordinator", *made.options("--priors")],
    Runner.INTAKE: lambda made: ["worker", "intake", *made.options("--priors", "--schedule")],
    Runner.ACCOUNT: lambda made: ["worker", "account", *made.options("--priors", "--schedule")],
    Runner.PERSONS: lambda made: [
        *("persons", "load", str(made.priors)),
        *made.options("--priors", "--schedule"),
    ],
}

"""The files of a demo deployment, as an operator has them: priors, sensors, messages, settings, keys."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from accounting.settings import HORIZON
from models.prior_files import save_population
from models.private_files import PRIVATE_FILE, open_kept, private_file
from stream_app.city import City, sensors_json
from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.durable import make_folder, replace_file

MARKER = "demo.json"
HOME_GROUPS = ("homes north", "homes south")
HOME_SIGMA = 1.0
RAW = {"mechanism": "raw"}
MISTAKES = 1
OPERATIONS = 300_000_000
DRAWS = 500
ORIGIN = "2026-03-02T00:00:00Z"
AUDITED_FROM = 8  # the hour at which the schedule for an audit begins: the working day


@dataclass(frozen=True)
class Scenario:
    """Where everything of a demo lies."""

    folder: Path

    @property
    def priors(self) -> Path:
        """Everybody's movement prior."""
        return self.folder / "priors.parquet"

    @property
    def sensors(self) -> Path:
        """The city's sensors."""
        return self.folder / "sensors.json"

    @property
    def messages(self) -> Path:
        """Activations and readings as they were sent."""
        return self.folder / "messages.jsonl"

    @property
    def settings(self) -> Path:
        """Settings of the deployment."""
        return self.folder / "tallyguard.toml"

    @property
    def schedule(self) -> Path:
        """What is released over the first working day, to audit."""
        return self.folder / "working-day.json"

    @property
    def report(self) -> Path:
        """The report on the run, one HTML file."""
        return self.folder / "report.html"

    @property
    def output(self) -> Path:
        """What the engine writes."""
        return self.folder / "output"


def prepare(folder: Path, city: City) -> Scenario:
    """Write the deployment's files to a fresh folder.

    A folder that an earlier demo made is replaced; any other that is not empty is an :class:`OutputError`.
    """
    if folder.exists() and any(folder.iterdir()):
        if not (folder / MARKER).is_file():
            raise OutputError(
                "the demo's folder must be new or its own", folder, "choose another with --output"
            )
        shutil.rmtree(folder)
    make_folder(folder)
    replace_file(folder / MARKER, f"{json.dumps(vars(city.options))}\n".encode())
    scenario = Scenario(folder)
    save_population(city.population, scenario.priors)
    replace_file(scenario.sensors, sensors_json(city).encode())
    replace_file(scenario.settings, _settings(city).encode())
    for name in ("noise", "pseudonym"):
        _write_key(folder / f"{name}.key", f"tallyguard demo {name} {city.options.seed}")
    return scenario


def paced_messages(scenario: Scenario, city: City, steps: int, pause: Callable[[], None]) -> Iterator[bytes]:
    """The city's messages as the engine's input, one chunk a step, kept in a file as well."""
    with os.fdopen(open_kept(scenario.messages, os.O_WRONLY | os.O_TRUNC, PRIVATE_FILE), "wb") as kept:
        for step in city.steps(steps):
            chunk = b"".join(message.line() for message in step.messages())
            kept.write(chunk)
            kept.flush()
            yield chunk
            pause()


def write_audit_schedule(scenario: Scenario, city: City, steps: int) -> None:
    """A schedule file of the ten hours of the first working day, for ``tallyguard audit``."""
    first = min(AUDITED_FROM, max(steps - HORIZON, 0))
    days = [step for step in city.steps(min(first + HORIZON, steps)) if step.step >= first]
    releases = [
        {"releases": [_release(sensor.name, sensor.group) for sensor in step.active]} for step in days
    ]
    document = {"first_slot": first % city.options.slots, "steps": releases}
    replace_file(scenario.schedule, f"{json.dumps(document, indent=1)}\n".encode())


def _release(sensor: str, group: str) -> dict[str, object]:
    noised = {"mechanism": "gaussian", "sigma": HOME_SIGMA}
    return {"sensor": sensor, **(noised if group in HOME_GROUPS else RAW)}


def _settings(city: City) -> str:
    """Raw counts, as many cities publish them today, but noise where people live."""
    lines = [
        "# What the demo ran with; every setting: tallyguard config show --config tallyguard.toml",
        'deployment = "demo"',
        "step_seconds = 3600",
        f"mistakes = {MISTAKES}  # asks for at least {HORIZON - MISTAKES} of the last {HORIZON} hours",
        f"sharpen_operations = {OPERATIONS:_}  # under half a second of one core an hour: to be quick",
        f"attack_draws = {DRAWS}",
        f"origin = {ORIGIN}  # a Monday; without an origin steps are shown by number",
        'sensors = "sensors.json"',
        'noise_key = "noise.key"  # made from the demo\'s seed: never use it elsewhere',
        'pseudonym_key = "pseudonym.key"',
        "",
        "[release]",
        'mechanism = "raw"',
        "",
    ]
    for sensor in city.registry.sensors:
        if sensor.group in HOME_GROUPS:
            lines += [
                f'[release.sensors."{sensor.name}"]',
                'mechanism = "gaussian"',
                f"sigma = {HOME_SIGMA}",
                "",
            ]
    return "\n".join(lines)


def _write_key(path: Path, label: str) -> None:
    """A key that repeats with the seed, so that the demo does: known to everybody, fit for a demo only."""
    with private_file(path) as file:
        file.write(f"{hashlib.sha256(label.encode()).hexdigest()}\n".encode())

"""What a run says of itself, so that whoever reads it needs nothing but its log.

A description has what the facts of the record (``run.json``) have no room for: locations and sensors in full,
the other settings, which designs of correlated noise the log names. It stands in the record, in the entry
from whose step on it holds (``about.description``), and only where it is not as before: so it is chained by
digest, append-only, and says for every step under which description it was published. It has no secret, no
count, no person, and of a file only its name. The covariance of a design is too large for an entry; a copy
lies in the run's folder (:func:`keep_named`).

Worked example: a run begins, and continues after 15 steps with another ``grace``. The record has

    number 0, begun,     step 0,  about {description: {settings: {grace: 2, …}, …}, …}
    number 1, described, step 15, about {description: {settings: {grace: 5, …}, …}, …}

and steps 0 to 14 are described by the first, those from 15 on by the second.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from textwrap import shorten
from typing import Any, get_args

from pydantic import BaseModel, ConfigDict, SecretStr, ValidationError

from models.exceptions import MechanismError, SensorError
from models.mechanisms import Designs
from models.noise import CorrelatedNoise
from models.priors import Population
from models.releases import Sensor, SensorRegistry
from stream_app.exceptions import OutputError, RunChangedError, first_fault
from stream_app.setup.run_folder.durable import SECRET_MODE, replace_file
from stream_app.setup.run_folder.facts import NETWORK, Change, Network, changes_between, per_day_in_words
from stream_app.setup.run_folder.manifest import ACCOUNTED_WITH
from stream_app.setup.run_folder.people_record import change_in_words, keep
from stream_app.setup.run_folder.record import (
    DESCRIPTION,
    RECORD,
    Entry,
    RecordDamagedError,
    last_description,
    read_entries,
)
from stream_app.setup.sensor_files import degrees_of, read_sensors, registry_of
from stream_app.setup.settings import Settings

UNDESCRIBED = (
    "the run is of a version that kept no description of its sensors, locations and noise designs: name its "
    "settings file with --config, its sensors file with --sensors, its covariances with --covariance"
)
"""What is missing in a folder without a description, and what to do."""

_NOT_OF_THE_RUN = frozenset(
    {
        *ACCOUNTED_WITH,
        *("release", "priors_check", "crowd"),  # which the facts have, too
        *("listen", "listen_names", "page_token", "page_token_file", "connect", "log", "kafka", "panel"),
        *("noise_key", "key_record", "snapshot_key", "snapshot_seconds", "sensors", "locations"),
    }
)
"""Settings that a description leaves out: facts, those of the machine, and files whose content it has."""


FILES = ("evidence", "pseudonym_key")
"""Settings that a description has the file names of: what ``report --priors`` needs beside the run."""


class Description(BaseModel):
    """One description. ``settings`` has what no fact has; ``sensors`` is the sensors file as one document.

    ``sensors`` is None where each location has a sensor of its own name. ``designs`` are SHA-256 of the
    designs of correlated noise by their numbers.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: int = 1
    settings: Mapping[str, Any]
    locations: tuple[str, ...]
    sensors: Mapping[str, Any] | None
    designs: Mapping[str, str]

    @classmethod
    def of(cls, settings: Settings, registry: SensorRegistry) -> Description:
        """What is in force; :class:`SensorError` where the sensors file is not what ``registry`` is of.

        Sensors stand in the order of the registry.
        """
        sensors = None if settings.sensors is None else read_sensors(settings.sensors)
        if sensors is not None:
            order = {each.name: number for number, each in enumerate(registry.sensors)}
            sensors["sensors"].sort(key=lambda row: order.get(row.get("name"), len(order)))
        made = cls(
            settings=_of_the_run(settings),
            locations=registry.location_names,
            sensors=sensors,
            designs={str(each.design): _digest(each) for each in registry.designs.noises},
        )
        if made.registry().accounted_facts() != registry.accounted_facts():
            raise SensorError(
                f"sensors file {settings.sensors} must stay as it is while a run starts",
                "another content than a moment ago",
                "start again",
            )
        return made

    @classmethod
    def read(cls, stored: object) -> Description:
        """The description in an entry; :class:`OutputError` where this version cannot read it."""
        try:
            found = cls.model_validate_json(json.dumps(stored))
        except ValidationError as error:
            raise OutputError(
                f"each description in {RECORD} must be one of this version",
                first_fault(error),
                "read the run with the version that wrote it",
            ) from error
        return found

    def document(self) -> dict[str, Any]:
        """As an entry holds it."""
        found: dict[str, Any] = self.model_dump(mode="json")
        return found

    def plain_settings(self) -> dict[str, Any]:
        """The settings without those that name a file, which is not here."""
        return {name: value for name, value in self.settings.items() if name not in FILES}

    def registry(self) -> SensorRegistry:
        """The sensors, without designs and without the mechanisms of windows."""
        if self.sensors is None:
            return SensorRegistry.one_per_location(self.locations)
        return registry_of(self.sensors, self.locations)

    def degrees(self) -> dict[str, tuple[float, float]]:
        """Longitude and latitude of the sensors that have both."""
        return {} if self.sensors is None else degrees_of(self.sensors)


def changes_in(entries: Sequence[Entry]) -> tuple[tuple[Change, ...], ...]:
    """What each entry says otherwise than the one before, in words and without a fingerprint.

    Nothing of the first one and of an end.
    """
    found: list[tuple[Change, ...]] = []
    facts: Mapping[str, Any] | None = None
    description: Description | None = None
    for entry in entries:
        own: list[Change] = []
        if entry.kind != "ended":
            new = Description.read(entry.about[DESCRIPTION]) if _has(entry) else description
            if facts is not None:
                words = change_in_words(entry)
                if words is not None:
                    own.append(Change(kind="people", words=words))
                own += changes_between(facts, entry.facts, says_people=words is None)
                own += _changes(description, new, says_sensors=NETWORK in entry.facts)
            facts, description = entry.facts, new
        found.append(tuple(own))
    return tuple(found)


def _changes(was: Description | None, now: Description | None, *, says_sensors: bool) -> Iterator[Change]:
    """What the facts do not say; they do of sensors and places where they have the network."""
    if now is None or was == now:
        return
    if was is None:
        yield Change(kind="setting", words="described for the first time")
        return
    yield from changes_between(was.settings, now.settings)
    if not says_sensors and was.locations != now.locations:
        words = f"other locations: were {len(was.locations):,}, are {len(now.locations):,}"
        yield Change(kind="place", words=words)
    if was.sensors != now.sensors:
        difference = _other_sensor(was.registry(), now.registry())
        if difference is None or not says_sensors:
            yield Change(kind="sensor", words=difference or "sensors lie elsewhere, or say more")
    if was.designs != now.designs:
        yield Change(kind="setting", words="another design of correlated noise")


def description_of(entries: Sequence[Entry]) -> Description | None:
    """The description that holds now; None where an earlier version kept none."""
    last = last_description(entries)
    return None if last is None else Description.read(last)


def description_in(folder: Path) -> Description | None:
    """The same of a run's folder; None, too, where its record is damaged, which ``verify`` says."""
    try:
        return description_of(read_entries(folder / RECORD))
    except RecordDamagedError:
        return None


def _has(entry: Entry) -> bool:
    return DESCRIPTION in entry.about


def _of_the_run(settings: Settings) -> dict[str, Any]:
    """The settings to describe, as JSON values; no secret, and the names of files only."""
    secret = {
        name for name, field in Settings.model_fields.items() if SecretStr in get_args(field.annotation)
    }
    # as descriptions of versions without them are
    unsaid = [name for name in ("totals", "occupancy", "total_of") if not getattr(settings, name)]
    shown: dict[str, Any] = settings.model_dump(mode="json", exclude={*_NOT_OF_THE_RUN, *secret, *unsaid})
    return {name: Path(value).name if name in FILES and value else value for name, value in shown.items()}


# Designs of correlated noise: the log names them by number, their covariances lie in the folder.


def keep_named(folder: Path, population: Population | None, settings: Settings) -> None:
    """Make durable in the run's folder what its record names: a copy of these people, and a covariance."""
    if population is not None:
        keep(folder, population)
    if settings.release.covariance is not None:
        design = CorrelatedNoise.load(settings.release.covariance).design
        path, content = folder / design_file(design), settings.release.covariance.read_bytes()
        if not path.is_file() or path.read_bytes() != content:
            replace_file(path, content, SECRET_MODE)


def design_file(number: int | str) -> str:
    """The name of the file with a design's covariance."""
    return f"design-{number}.npy"


def designs_in(folder: Path) -> Designs:
    """The designs that the run has used, as far as its folder holds them."""
    files = sorted(folder.glob(design_file("*")))
    return Designs(tuple(CorrelatedNoise.load(path) for path in files if path.is_file()))


def faults_of_designs(folder: Path, entries: Iterable[Entry]) -> Iterator[str]:
    """Designs that a description names, and that the folder does not hold as they were."""
    for entry in entries:
        if not _has(entry):
            continue
        for number, digest in Description.read(entry.about[DESCRIPTION]).designs.items():
            path = folder / design_file(number)
            try:
                found = _digest(CorrelatedNoise.load(path)) if path.is_file() else None
            except MechanismError:
                found = ""
            if found is None:
                yield f"{path.name} is missing: the covariance of noise that was used"
            elif found != digest:
                yield f"{path.name} is not the covariance of the noise that was used"


def _digest(noise: CorrelatedNoise) -> str:
    return hashlib.sha256(noise.factor.astype(">f8").tobytes()).hexdigest()


# Sensors that somebody names, beside those that the run describes.


def check_sensors(described: Description, given: SensorRegistry) -> None:
    """:class:`RunChangedError` that says in words which sensor is not as the run describes it."""
    own = described.registry()
    if (difference := _other_sensor(own, Network.of(own).arranged(given))) is not None:
        raise RunChangedError(
            "the sensors must be those of the run", difference, "leave sensors out: the run describes its own"
        )


def _other_sensor(run: SensorRegistry, given: SensorRegistry) -> str | None:
    """The first difference that accounts depend on, in words."""
    own, others = ({each.name: each for each in one.sensors} for one in (run, given))
    for name in sorted(own.keys() ^ others.keys()):
        return f"sensor {name!r}, which the run has not" if name in others else f"none named {name!r}"
    for name, was in own.items():
        before, after = _in_words(was, run), _in_words(others[name], given)
        for what in before:
            if before[what] != after[what]:
                return f"another {what} of sensor {name!r}: the run has {before[what]}, not {after[what]}"
    return None if run.accounted_facts() == given.accounted_facts() else "the same in another order"


def _in_words(sensor: Sensor, registry: SensorRegistry) -> dict[str, str]:
    """What accounts and noise depend on, as a sentence shows it."""
    names, window = registry.location_names, sensor.window
    return {
        "place": shorten(", ".join(names[each] for each in sensor.locations), 80, placeholder=" ..."),
        "list of places": repr(sensor.locations),
        "group": repr(sensor.group),
        "most_counts": str(sensor.most_counts),
        "corrections": str(sensor.corrections),
        "window": "none" if window is None else f"one of {window.steps} steps",
        "kind of window": repr(window),
        "device": repr(sensor.part_of),
        "bound over a day": per_day_in_words(sensor.per_day),
        "region": repr(sensor.region) if registry.regions else "none",
    }

"""What a run was made with, for every command that reads its folder: settings, people and sensors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from accounting.ledgers import PrivacyAccount
from models.mechanisms import parse
from models.priors import Population
from models.releases import Sensor, SensorRegistry
from stream_app.exceptions import OutputError, RunChangedError, restoring
from stream_app.setup.given_priors import drawn_from
from stream_app.setup.priors_verdict import PriorsVerdict, is_no_weaker, priors_check_of
from stream_app.setup.release_settings import BudgetSettings
from stream_app.setup.run_folder.durable import load_document
from stream_app.setup.run_folder.facts import NETWORK, Network, Registries
from stream_app.setup.run_folder.manifest import UNSAID
from stream_app.setup.run_folder.progress import load_progress
from stream_app.setup.run_folder.record import RECORD, held, last_facts, read_entries
from stream_app.setup.settings import Settings

ACCOUNTED_WITH = (
    *("deployment", "step_seconds", "origin", "first_slot"),
    *("horizon", "mistakes", "thresholds", "sharpen", "sharpen_above", "sharpen_operations", "delta"),
)
"""Settings that accounts depend on: recorded in ``run.json``, and taken from there by readers of the run."""

_MOST_STEP_SECONDS = 10**10  # 317 years
_FORMS: dict[str, Callable[[Any], Any]] = {"origin": datetime.fromisoformat, "thresholds": tuple}


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without a time zone")
    return text


class _Part(BaseModel):
    model_config = ConfigDict(strict=True, frozen=True)


class _RecordedRelease(_Part):
    mechanism: str = "gaussian"
    covariance: str | None = None
    budget: BudgetSettings = BudgetSettings()


class _RecordedDraws(_Part):
    draws: Annotated[int, Field(ge=2)]
    chains: str


class _RecordedCounts(_Part):
    most_counts: Annotated[int, Field(ge=1)]
    corrections: Annotated[int, Field(ge=0)]


class _RecordedWindow(_Part):
    mechanism: str
    parameters: dict[str, float]
    most_counts: Annotated[int, Field(ge=1)]


class _Recorded(_Part):
    """What every reader of a run needs of ``run.json``."""

    deployment: Annotated[str, Field(min_length=1)]
    step_seconds: Annotated[int, Field(ge=1, le=_MOST_STEP_SECONDS)]
    origin: Annotated[str, AfterValidator(_time)]
    horizon: Annotated[int, Field(ge=1)]
    mistakes: Annotated[int, Field(ge=0)]
    thresholds: list[Annotated[float, Field(ge=0.0, le=1.0)]] = []
    release: _RecordedRelease = _RecordedRelease()
    first_slot: Annotated[int, Field(ge=0)] = 0
    delta: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    people: Annotated[int, Field(ge=0)] = 1
    assumed_habits: str | None = None
    priors_check: PriorsVerdict | None = None
    drawn: _RecordedDraws | None = None
    sharpen: bool | None = None
    sharpen_above: float | None = None
    sharpen_operations: int | None = None
    windows: dict[str, _RecordedWindow] = {}
    counted_again: dict[str, _RecordedCounts] = {}


def load_run(folder: Path) -> dict[str, Any]:
    """``run.json`` of an output folder; :class:`OutputError` for a folder that is none of a run."""
    if not (folder / "run.json").is_file():
        raise OutputError(
            f"{folder} must be the output folder of a run", "no run.json in it", "name the folder of --output"
        )
    run = load_document(folder / "run.json")
    try:
        _Recorded.model_validate(run)
    except ValidationError as error:
        fault = error.errors(include_url=False, include_input=False)[0]
        member = ".".join(map(str, fault["loc"][:3]))
        raise OutputError(
            f"{member!r} in {folder / 'run.json'} must be as it was written",
            fault["msg"],
            restoring("run.json"),
        ) from None
    return run


def load_account(folder: Path) -> PrivacyAccount | None:
    """What a run has spent on privacy up to its last commit; None where it did not record all of it."""
    saved = load_progress(folder).get("account")
    try:
        account = PrivacyAccount.load(saved) if saved else None
    except ValueError:
        return None
    return account if account is not None and account.is_of_this_version else None


def settings_of_run(folder: Path, given: Settings) -> Settings:
    """The given settings, with the values that the run was accounted with in place of their own.

    :class:`RunChangedError` where file, environment or flags contradict the run: the answer would not be
    about this run. What the run did not record is left as given.
    """
    run = load_run(folder)
    stored = {
        name: value
        for name, value in run.items()
        if name in ACCOUNTED_WITH and not (name in UNSAID and value is None)
    }
    values = given.model_dump(mode="json", include=set(stored))
    said = set(given.model_fields_set)
    if given.first_slot == 0:  # says nothing: it may come from a schedule file
        said.discard("first_slot")
    for name in ACCOUNTED_WITH:
        if name in stored and name in said and values[name] != stored[name]:
            raise RunChangedError(
                f"{name} must be what {folder} was made with, {json.dumps(stored[name])}",
                json.dumps(values[name]),
                f"leave {name} out of flags, environment and settings file: the run recorded it; "
                "to ask about other settings, give a schedule instead of the run",
            )
    recorded = {name: _FORMS[name](value) if name in _FORMS else value for name, value in stored.items()}
    known = priors_check_of(run)
    if given.priors_check is None:  # else what was found out since
        recorded["priors_check"] = known
    elif not is_no_weaker(given.priors_check, known):
        raise RunChangedError(
            f"priors_check must raise ceilings as far as that of {folder}, or further",
            "one that raises them less",
            "leave priors_check out: the run recorded it",
        )
    return given.model_copy(update=recorded)


def check_belongs(folder: Path, population: Population, registry: SensorRegistry) -> None:
    """:class:`RunChangedError` for other people or sensors than the run was accounted for."""
    stored, known = load_run(folder), recorded_network(folder)
    if stored.get("priors") not in (None, population.fingerprint):
        raise RunChangedError("the priors must be those of the run", "others", "name the file the run had")
    if stored.get("drawn") != drawn_from(population):
        raise RunChangedError(
            "evidence and posterior_draws must be those of the run, whose ceilings are means over chains"
            if stored.get("drawn")
            else "evidence must be left out: the run had none",
            "others",
            "name the run's settings file with --config; with it, numpy is another version than the run had, "
            "whose random numbers differ",
        )
    given = registry if known is None else known.arranged(registry)
    if stored.get("sensors") not in (None, sensors_fingerprint(given)):
        now = None if known is None else Network.of(SensorRegistry(known.places, known.present))
        said = "" if now is None else "; ".join(each.words for each in now.changes_to(Network.of(given)))
        raise RunChangedError(
            "the sensors must be those of the run",
            said or "others",
            "name the run's settings file with --config",
        )


def mechanisms_of_windows(registry: SensorRegistry) -> dict[str, dict[str, Any]]:
    """How the counts of sensors with windows are published, by name; fixed for the life of a run."""
    return {
        name: {
            "mechanism": mechanism.name,
            "parameters": dict(mechanism.parameters),
            "most_counts": registry.get(name).most_counts,
        }
        for name, mechanism in registry.in_windows.items()
    }


def counted_again(sensors: Iterable[Sensor]) -> dict[str, dict[str, int]]:
    """How often sensors count one person, and correct a count, at most, where that is not once and never."""
    return {
        each.name: {"most_counts": each.most_counts, "corrections": each.corrections}
        for each in sensors
        if each.most_counts > 1 or each.corrections
    }


def with_recorded_windows(folder: Path, registry: SensorRegistry) -> SensorRegistry:
    """The registry with the mechanisms of sensors with windows that the run recorded."""
    recorded = load_run(folder).get("windows") or {}
    return registry.with_windows(
        {name: parse(own["mechanism"], own["parameters"], registry.designs) for name, own in recorded.items()}
    )


def recorded_network(folder: Path) -> Network | None:
    """The places and sensors of a run that has released something; None where it recorded none, or is new."""
    logs = (folder / "decisions.jsonl", *folder.glob("releases*.jsonl"))
    if not any(log.exists() and log.stat().st_size for log in logs):
        return None
    facts = last_facts(read_entries(folder / RECORD))
    if facts is None and (folder / "run.json").is_file():
        facts = load_document(folder / "run.json")
    return Network.load(facts[NETWORK]) if facts and NETWORK in facts else None


def differs_in_places_only(folder: Path, population: Population, known: Network | None) -> frozenset[str]:
    """``{"priors"}`` where the people are those of the run, with other names of places or more of them."""
    if known is None or known.places == population.location_names:
        return frozenset()
    among = replace(population, location_names=known.places)
    facts = last_facts(read_entries(folder / RECORD)) or {}
    return frozenset({"priors"}) if facts.get("priors") == among.fingerprint else frozenset()


def registries_of(folder: Path, registry: SensorRegistry) -> Registries:
    """The sensors of a run at each of its steps; those of the next step are given."""
    return Registries(registry, held(read_entries(folder / RECORD)))


def sensors_fingerprint(registry: SensorRegistry) -> str:
    """By which a run knows its sensors again."""
    return hashlib.sha256(json.dumps(registry.accounted_facts()).encode()).hexdigest()

"""What a run was made with, for every command that reads its folder: settings, people and sensors."""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from accounting.ledgers import PrivacyAccount
from models.calendar import Calendar, Days, zone_of
from models.mechanisms import Designs
from models.prior_files import load_population
from models.priors import PLACE, Population, Question
from models.releases import Sensor, SensorRegistry
from models.text import number_of
from stream_app.exceptions import OutputError, RunChangedError, restoring
from stream_app.setup.given_priors import as_set, drawn_from, location_names
from stream_app.setup.keys import key_folder
from stream_app.setup.priors_verdict import PriorsVerdict, is_no_weaker, priors_check_of
from stream_app.setup.release_settings import BudgetSettings, CrowdSettings, ReleaseSettings
from stream_app.setup.run_folder.description import (
    FILES,
    UNDESCRIBED,
    Description,
    check_sensors,
    description_in,
    design_file,
    designs_in,
)
from stream_app.setup.run_folder.durable import load_document
from stream_app.setup.run_folder.facts import (
    NETWORK,
    WINDOWS,
    Network,
    Registries,
    differences,
    mechanisms_of,
)
from stream_app.setup.run_folder.manifest import ACCOUNTED_WITH, PARTITIONS, UNSAID
from stream_app.setup.run_folder.people_record import is_kept
from stream_app.setup.run_folder.progress import has_released, load_progress
from stream_app.setup.run_folder.record import RECORD, held, last_facts, read_entries
from stream_app.setup.sections import QuestionSettings
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings

logger = logging.getLogger(__name__)

_MOST_STEP_SECONDS = 10**10  # 317 years
_WITHOUT_CLOCK: dict[str, Any] = {"timezone": None, "holidays": []}
_WHICH_PLACE: dict[str, Any] = {"question": PLACE, "also_asked": [], "questions": {}}
UNLESS_SET = _WITHOUT_CLOCK | _WHICH_PLACE
"""What runs without a time zone, and about places, do not record."""


def _dates(written: Sequence[str]) -> tuple[date, ...]:
    return tuple(map(date.fromisoformat, written))


FORMS: dict[str, Callable[[Any], Any]] = {
    "origin": datetime.fromisoformat,
    "thresholds": tuple,
    "holidays": _dates,
    "also_asked": tuple,
    "questions": lambda stored: {
        name: QuestionSettings.model_validate(each) for name, each in stored.items()
    },
}
"""How values of settings that were recorded as JSON become those of settings."""


def _time(text: str) -> str:
    if datetime.fromisoformat(text).tzinfo is None:
        raise ValueError("a time without a time zone")
    return text


def _offset(text: str | None) -> str | None:
    zone_of(text if text is None or text[:1] in "+-" else f"+{text}")
    return text


def _date(text: str) -> str:
    return date.fromisoformat(text).isoformat()


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


class _TakenOver(_Part):
    from_step: Annotated[int, Field(ge=0)]
    reason: str


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
    timezone: str | None = None
    offset: Annotated[str | None, AfterValidator(_offset)] = None
    holidays: list[Annotated[str, AfterValidator(_date)]] = []
    question: str = PLACE
    also_asked: list[str] = []
    questions: dict[str, dict[str, Any]] = {}
    delta: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.5
    people: Annotated[int, Field(ge=0)] = 1
    assumed_habits: str | None = None
    priors_check: PriorsVerdict | None = None
    drawn: _RecordedDraws | None = None
    sharpen: bool | None = None
    sharpen_above: float | None = None
    sharpen_operations: int | None = None
    partitions: Annotated[int | None, Field(alias=PARTITIONS, ge=1)] = None
    windows: dict[str, _RecordedWindow] = {}
    counted_again: dict[str, _RecordedCounts] = {}
    taken_over: list[_TakenOver] = []


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


def calendar_of_run(run: Mapping[str, Any]) -> Calendar | None:
    """What slots of a run followed, from its ``run.json``; None where they just counted on."""
    if run.get("timezone") is None:
        return None
    origin = int(datetime.fromisoformat(run["origin"]).timestamp())
    days, first_slot = _dates(run.get("holidays", ())), run.get("first_slot", 0)
    calendar = Calendar(run["timezone"], origin, run["step_seconds"], first_slot, days)
    return None if calendar.is_regular else calendar


def days_of_run(run: Mapping[str, Any]) -> Days:
    """The dates of a run's clock, from its ``run.json``."""
    origin = datetime.fromisoformat(run["origin"]) if "origin" in run else datetime.fromtimestamp(0, UTC)
    return Days(int(origin.timestamp()), int(run.get("step_seconds", 3600)), run.get("timezone"))


class RunTimes:
    """When the steps of a run begin, as ``run.json`` records it; each ends where the next one begins."""

    def __init__(self, folder: Path) -> None:
        run = load_run(folder)
        self.deployment = str(run["deployment"])
        self.step_seconds = int(run["step_seconds"])
        self._origin = datetime.fromisoformat(run["origin"]).astimezone(UTC)

    def start(self, step: int) -> datetime:
        """The beginning of a step, in UTC."""
        return self._origin + timedelta(seconds=step * self.step_seconds)

    def text(self, step: int) -> str:
        """The same in ISO 8601."""
        return f"{self.start(step):%Y-%m-%dT%H:%M:%SZ}"


def facts_if_set(settings: Settings) -> dict[str, Any]:
    """What a run or deployment with a time zone, or another question, is recorded with besides."""
    found: dict[str, Any] = {}
    if settings.timezone is not None:
        found |= settings.model_dump(mode="json", include=set(_WITHOUT_CLOCK))
    asked = {
        name: settings.questions[name].model_dump(mode="json", exclude_defaults=True)
        for name in (settings.question, *settings.also_asked)
        if name != PLACE
    }
    if settings.question != PLACE:
        found["question"] = settings.question
    if settings.also_asked:
        found["also_asked"] = list(settings.also_asked)
    return found | ({"questions": asked} if asked else {})


def questions_of_run(run: Mapping[str, Any]) -> tuple[Question, ...]:
    """What a run was asked, from its ``run.json``: first what its ceilings and its rule are about."""
    return tuple(
        Question()
        if name == PLACE
        else QuestionSettings.model_validate(run["questions"][name]).asked(name, run["step_seconds"])
        for name in (run.get("question", PLACE), *run.get("also_asked", ()))
    )


def load_account(folder: Path) -> PrivacyAccount | None:
    """What a run has spent on privacy up to its last commit; None where it did not record all of it."""
    saved = load_progress(folder).get("account")
    try:
        account = PrivacyAccount.load(saved) if saved else None
    except ValueError:
        return None
    return account if account is not None and account.is_of_this_version else None


def settings_of_run(folder: Path, given: Settings) -> Settings:
    """The given settings, with the values that the run recorded in place of their own.

    :class:`RunChangedError` where file, environment or flags contradict what it was accounted with: the
    answer would not be about this run. Of the release policy, which may change for steps to come, the run's
    own counts, and a warning says what is given instead. What the run did not record is left as given.
    """
    run = load_run(folder)
    stored = {
        name: value
        for name, value in (UNLESS_SET | run).items()
        if name in ACCOUNTED_WITH and not (name in UNSAID and value is None)
    }
    values = given.model_dump(mode="json", include=set(stored)) | _WHICH_PLACE | facts_if_set(given)
    values[PARTITIONS] = given.kafka.partitions
    said = set(given.model_fields_set)
    if "partitions" in given.kafka.model_fields_set:
        said.add(PARTITIONS)
    if given.question == PLACE and not given.also_asked:  # others may be defined without being asked
        said.discard("questions")
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
    recorded = as_settings(stored, given)
    recorded["questions"] = {**given.questions, **recorded["questions"]}
    if "offset" in run:  # the clock that times are shown by
        recorded["origin"] = recorded["origin"].astimezone(zone_of(run["offset"]))
    known = priors_check_of(run)
    if given.priors_check is None:  # else what was found out since
        recorded["priors_check"] = known
    elif not is_no_weaker(given.priors_check, known):
        raise RunChangedError(
            f"priors_check must raise ceilings as far as that of {folder}, or further",
            "one that raises them less",
            "leave priors_check out: the run recorded it",
        )
    return given.model_copy(update={**recorded, **_described(folder, run, given)})


def as_settings(recorded: Mapping[str, Any], given: Settings) -> dict[str, Any]:
    """Values of settings that were recorded as JSON, to be put in place of those of the given ones."""
    found = {name: FORMS[name](value) if name in FORMS else value for name, value in recorded.items()}
    if partitions := found.pop(PARTITIONS, None):
        found["kafka"] = given.kafka.model_copy(update={"partitions": partitions})
    return found


def crowd_of_run(facts: Mapping[str, Any]) -> CrowdSettings:
    """What a run was recorded with of the crowd; not on where no ceilings in it were computed."""
    crowd = facts.get("crowd") or {}
    known = {name: crowd[name] for name in crowd if name in CrowdSettings.model_fields}
    return CrowdSettings.model_validate({**known, "on": bool(crowd)})


def _described(folder: Path, run: dict[str, Any], given: Settings) -> dict[str, Any]:
    """The release policy and the crowd of a run, and where the files lie that its description names."""
    said, description = given.model_fields_set, description_in(folder)
    found: dict[str, Any] = {}
    given_crowd = {name: getattr(given.crowd, name) for name in given.crowd.model_fields_set}
    found["crowd"] = crowd_of_run(run).model_copy(update=given_crowd)
    if "release" in run:
        found["release"] = _release_of_run(folder, run["release"], description, given)
    if description is None:
        return found
    for name in FILES:
        file = description.settings.get(name)
        places = (folder.resolve().parent, key_folder(folder))
        path = next((each / file for each in places if file and (each / file).is_file()), None)
        if path is not None and name not in said and f"{name}_secret" not in said:
            found[name] = path
    if run.get("drawn") and "posterior_draws" not in said:
        found["posterior_draws"] = run["drawn"]["draws"]
    return found


def _release_of_run(
    folder: Path, recorded: dict[str, Any], description: Description | None, given: Settings
) -> ReleaseSettings:
    """The policy; its covariance is the copy in the folder, or else what the run or the caller had."""
    own = [] if description is None else [folder / design_file(each) for each in description.designs]
    places = [*own, *(Path(each) for each in (recorded.get("covariance"),) if each is not None)]
    covariance = next((each for each in places if each.is_file()), given.release.covariance)
    plain = {**recorded, "covariance": None, "recipients": None}  # tiers are recorded as they are
    release = ReleaseSettings.model_validate(plain)
    wanted = given.release.model_copy(update={"covariance": None, "recipients": None})
    if "release" in given.model_fields_set and wanted != release:
        both = ({"release": each.model_dump(mode="json")} for each in (release, wanted))
        logger.warning(
            "the policy that %s was released with counts, not the one given: %s",
            *(folder, differences(["release"], *both)),
        )
    return release.model_copy(update={"covariance": covariance})


def people_of_run(folder: Path, settings: Settings, priors: Path | None) -> Population:
    """The people of the run's priors; without them nobody, at the locations that the run describes.

    A file of the run's own copy is as good as the one it was given. :class:`OutputError` where the run
    describes no locations, and no file of them is named.
    """
    if priors is not None:
        given = load_population(priors)
        return given if is_kept(folder, given) else as_set(settings, given)
    description = description_in(folder)
    if description is not None:
        return Population.pack([], description.locations)
    return Population.pack([], location_names(settings, "or --priors be given", UNDESCRIBED))


def sensors_of_run(folder: Path, settings: Settings, names: Sequence[str]) -> SensorRegistry:
    """The sensors of a run as it describes them, with its designs of noise; others at locations ``names``.

    :class:`RunChangedError` says what differs where a sensors file is given that has other ones.
    """
    description = description_in(folder)
    if description is not None:
        registry = description.registry()
        if "sensors" in settings.model_fields_set:
            check_sensors(description, load_registry(settings.sensors, names))
    else:
        registry = load_registry(settings.sensors, names)
    return registry.with_designs(designs_of_run(folder))


def designs_of_run(folder: Path) -> Designs:
    """The noise designs that a run's log may name: its own copies, and the file that the run recorded."""
    covariance = load_run(folder).get("release", {}).get("covariance")
    recorded = [Path(covariance)] if covariance is not None and Path(covariance).exists() else []
    return designs_in(folder).with_designs(Designs.load(recorded))


def check_belongs(folder: Path, population: Population, registry: SensorRegistry) -> None:
    """:class:`RunChangedError` for other people or sensors than the run was accounted for."""
    stored, known = load_run(folder), recorded_network(folder)
    is_known = stored.get("priors") in (None, population.fingerprint) or is_kept(folder, population)
    if len(population) and not is_known:
        raise RunChangedError(
            f"the priors must be those of the run, {priors_in_words(folder, stored)}",
            f"others, of {number_of(population.everybody, 'person')}",
            "name the file the run had",
        )
    if len(population) and stored.get("drawn") != drawn_from(population):
        raise RunChangedError(
            "evidence and posterior_draws must be those of the run, whose ceilings are means over chains"
            if stored.get("drawn")
            else "evidence must be left out: the run had none",
            "others",
            "put its evidence next to the folder of the run, or name the run's settings file with --config; "
            "with it, numpy is another version than the run had, whose random numbers differ",
        )
    given = registry if known is None else known.arranged(registry)
    if stored.get("sensors") not in (None, sensors_fingerprint(given)):
        raise RunChangedError(
            "the sensors must be those of the run", "others", "name the run's settings file with --config"
        )


def priors_in_words(folder: Path, run: Mapping[str, Any]) -> str:
    """What a run says of its priors: the file's name, if it had one, and how many people they stand for."""
    files = [each.about.get("priors_file") for each in read_entries(folder / RECORD)]
    named = next((name for name in reversed(files) if name), None)
    people = number_of(run["people"], "person") if "people" in run else "people of a number it did not record"
    return f"{named} with {people}" if named else f"a file with {people}"


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


def counted_in_a_step(registry: SensorRegistry) -> int | None:
    """How often all sensors together count one person in a step, at most; None where some count over windows.

    A report holds the sum of a step's counts against it.
    """
    most = max((sensor.most_counts for sensor in registry.sensors), default=1)
    return None if registry.windowed else registry.most_at_one_place() * most


def with_recorded_windows(folder: Path, registry: SensorRegistry) -> SensorRegistry:
    """The registry with the mechanisms of sensors with windows that the run recorded.

    Those that were removed are in it, too, for the steps before.
    """
    recorded: dict[str, Any] = {}
    gone: dict[str, tuple[int, Sensor]] = {}
    for step, facts in held(read_entries(folder / RECORD)):
        recorded |= facts.get(WINDOWS) or {}
        if NETWORK in facts:
            network = Network.load(facts[NETWORK])
            removed = (each for each in network.sensors if each.name in network.removed)
            gone = {each.name: (step, each) for each in removed if each.window is not None} | gone
    recorded |= load_run(folder).get(WINDOWS) or {}
    return replace(
        registry,
        sensors=(*registry.sensors, *(each for _, each in gone.values() if each.name not in registry)),
        in_windows=mechanisms_of(recorded, registry.designs),
        removed={name: step for name, (step, _) in gone.items()},
    )


def recorded_network(folder: Path) -> Network | None:
    """The places and sensors of a run that has released something; None where it recorded none, or is new."""
    if not has_released(folder):
        return None
    facts = last_facts(read_entries(folder / RECORD))
    if facts is None and (folder / "run.json").is_file():
        facts = load_document(folder / "run.json")
    return Network.load(facts[NETWORK]) if facts and NETWORK in facts else None


def with_known_names(folder: Path, population: Population) -> Population:
    """The people at the places of the run, by whose names they are known, where their file names none.

    Such places are called by their number. Where there are more or fewer than the run has, they stay so, and
    the run refuses them.
    """
    known = recorded_network(folder)
    numbers = tuple(map(str, range(population.location_count)))
    if known is None or population.location_names != numbers or len(known.places) != len(numbers):
        return population
    drawn = population.drawn and replace(population.drawn, location_names=known.places)
    return replace(population, location_names=known.places, drawn=drawn)


def registries_of(folder: Path, registry: SensorRegistry) -> Registries:
    """The sensors of a run at each of its steps; those of the next step are given."""
    return Registries(registry, held(read_entries(folder / RECORD)))


def sensors_fingerprint(registry: SensorRegistry) -> str:
    """By which a run knows its sensors again."""
    return hashlib.sha256(json.dumps(registry.accounted_facts()).encode()).hexdigest()

"""What would lower the risk of a run's most exposed people: which sensors told most, and what less would do.

Their last steps are accounted again as they were and with other decisions, from priors and decisions alone:
no count is looked at, so the answer releases nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from accounting.audit import audit_exposure
from accounting.explain import ReleaseShare, explain
from accounting.exposure import Exposure
from models.mechanisms import Gaussian, Mechanism, Suppressed
from models.population import Population
from models.schedule import Schedule, SensorRelease, StepSchedule
from models.sensors import SensorRegistry
from stream_app.decisions import schedule_of
from stream_app.exceptions import RunChangedError
from stream_app.keys import load_keys
from stream_app.manifest import load_document
from stream_app.messages import PersonRisk, StepDecision
from stream_app.people import NATS_PER_BIT
from stream_app.policy import policy_from
from stream_app.report.run_log import RunLog
from stream_app.sensor_files import load_registry
from stream_app.settings import Settings

EXPLAINED_PEOPLE = 10
NAMED_SENSORS = 3
SIGMAS = (1.0, 3.0, 10.0)


@dataclass(frozen=True)
class Priors:
    """Whose horizons can be accounted again: the run's people, their pseudonyms in order, its sensors."""

    population: Population
    registry: SensorRegistry
    pseudonyms: Sequence[str]


@dataclass(frozen=True)
class SensorShare:
    """What a sensor told about the people looked at: ``bits`` for all, ``share`` of everything told."""

    sensor: str
    mechanism: str
    releases: int
    people: int
    bits: float
    share: float


@dataclass(frozen=True)
class ReleaseTold:
    """One release and its ``share`` of all information about the people looked at."""

    sensor: str
    step: int
    share: float


@dataclass(frozen=True)
class Change:
    """Other decisions for these people's steps: means of ceiling and added risk, and a count's error.

    ``error`` is the expected absolute error of a changed count, in people; None where nothing would be
    published, or nothing changes.
    """

    name: str
    ceiling: float
    added: float
    error: float | None


@dataclass(frozen=True)
class Lowering:
    """The answer: sensors and ``releases`` by what they told, most first; ``changes`` begin with none."""

    people: int
    steps: int
    shares: tuple[SensorShare, ...]
    releases: tuple[ReleaseTold, ...]
    changes: tuple[Change, ...]


@dataclass(frozen=True)
class _Window:
    """One person's last steps before the record that exposed them most."""

    population: Population
    person: int
    steps: tuple[StepSchedule, ...]
    first_slot: int
    mistakes: int

    def exposure(self, steps: Sequence[StepSchedule]) -> Exposure:
        """The person's exposure to these steps, from the habitual start."""
        schedule = Schedule(tuple(steps), self.first_slot)
        return Exposure.of(self.population.chain(self.person), schedule, self.population.location_count)

    def under(self, change: Callable[[SensorRelease], SensorRelease]) -> tuple[float, float]:
        """Ceiling and baseline with every release changed."""
        changed = [
            replace(step, releases=tuple(change(release) for release in step.releases)) for step in self.steps
        ]
        audit = audit_exposure(self.exposure(changed), self.mistakes)
        return audit.certified, audit.baseline


def load_priors(folder: Path, settings: Settings, population: Population) -> Priors:
    """What a run had, as its settings name it; :class:`RunChangedError` when the priors are others."""
    stored = load_document(folder / "run.json").get("priors")
    if stored not in (None, population.fingerprint):
        raise RunChangedError("the priors must be those of the run", "others", "name the file the run had")
    registry = load_registry(settings.sensors, population.location_names)
    policy_from(settings.release, registry)  # makes a noise design known that the log names by number
    return Priors(population, registry, load_keys(settings, folder).pseudonyms.pseudonyms(population.people))


def lowering(folder: Path, log: RunLog, priors: Priors, people: int = EXPLAINED_PEOPLE) -> Lowering | None:
    """Take the most exposed people's horizons apart; None where the log has no record of single people.

    :class:`RunChangedError` when the priors do not know a person of the log.
    """
    exposed = log.exposed[:people]
    if not exposed:
        return None
    windows = _windows(folder, log, priors, exposed)
    told = [
        (number, share)
        for number, window in enumerate(windows)
        for share in explain(window.exposure(window.steps), window.steps, window.mistakes).shares
    ]
    shares = _by_sensor(told)
    steps = int(log.settings["horizon"])
    return Lowering(len(windows), steps, shares, _by_release(told), _changes(windows, shares))


def _windows(folder: Path, log: RunLog, priors: Priors, exposed: Sequence[PersonRisk]) -> list[_Window]:
    """Each person's horizon, read from the log of decisions."""
    horizon, first_slot = int(log.settings["horizon"]), int(log.settings.get("first_slot", 0))
    index = {pseudonym: person for person, pseudonym in enumerate(priors.pseudonyms)}
    unknown = [record.person[:12] for record in exposed if record.person not in index]
    if unknown:
        raise RunChangedError(
            "priors and pseudonym key must be those of the run",
            f"they know nobody with the pseudonym {unknown[0]}",
            "name the priors and the configuration the run had",
        )
    wanted = {step for record in exposed for step in range(record.step - horizon + 1, record.step + 1)}
    steps = _steps(folder / "decisions.jsonl", wanted, priors.registry)
    windows = []
    for record in exposed:
        first = max(0, record.step - horizon + 1)
        own = tuple(steps[step] for step in range(first, record.step + 1))
        mistakes = min(int(log.settings["mistakes"]), len(own) - 1)
        windows.append(_Window(priors.population, index[record.person], own, first_slot + first, mistakes))
    return windows


def _steps(path: Path, wanted: set[int], registry: SensorRegistry) -> dict[int, StepSchedule]:
    """The decided schedules of some steps; line ``k`` of the log is step ``k``."""
    with path.open("rb") as lines:
        return {
            step: schedule_of(StepDecision.model_validate_json(line), registry)
            for step, line in enumerate(lines)
            if step in wanted
        }


def _by_sensor(told: Sequence[tuple[int, ReleaseShare]]) -> tuple[SensorShare, ...]:
    """What each sensor told about all windows; ``told`` are pairs of a window's number and a release."""
    of_sensor: dict[str, list[tuple[int, ReleaseShare]]] = defaultdict(list)
    for number, share in told:
        of_sensor[share.sensor].append((number, share))
    whole = _whole(told)
    rows = (
        SensorShare(
            sensor,
            ", ".join(sorted({share.mechanism for _, share in own})),
            len({share.step for _, share in own}),
            len({number for number, _ in own}),
            sum(share.information_nats for _, share in own) / NATS_PER_BIT,
            sum(share.information_nats for _, share in own) / whole,
        )
        for sensor, own in of_sensor.items()
    )
    return tuple(sorted(rows, key=lambda row: (-row.share, row.sensor)))


def _by_release(told: Sequence[tuple[int, ReleaseShare]]) -> tuple[ReleaseTold, ...]:
    """What each single release told about all windows it belongs to."""
    nats: dict[tuple[str, int], float] = defaultdict(float)
    for _, share in told:
        nats[share.sensor, share.step] += share.information_nats
    whole = _whole(told)
    rows = (ReleaseTold(sensor, step, own / whole) for (sensor, step), own in nats.items())
    return tuple(sorted(rows, key=lambda row: (-row.share, row.step, row.sensor)))


def _whole(told: Sequence[tuple[int, ReleaseShare]]) -> float:
    return sum(share.information_nats for _, share in told) or 1.0


def _changes(windows: Sequence[_Window], shares: Sequence[SensorShare]) -> tuple[Change, ...]:
    """As it was, less of the sensors that told most, and noise at all sensors."""
    most = [share.sensor for share in shares[:NAMED_SENSORS]]
    rows = [_change("as it was", windows, {}, None)]
    for sensor in most:
        rows.append(_change(f"{sensor} suppressed", windows, {sensor: Suppressed()}, None))
    if len(most) > 1:
        together = f"these {len(most)} sensors"
        rows.append(_change(f"{together} suppressed", windows, dict.fromkeys(most, Suppressed()), None))
        for sigma in SIGMAS:
            noise = dict.fromkeys(most, Gaussian(sigma))
            rows.append(_change(f"{together} with sigma {sigma:g}", windows, noise, None))
    rows += [_change(f"all with sigma {sigma:g}", windows, {}, Gaussian(sigma)) for sigma in SIGMAS]
    return tuple(rows)


def _change(
    name: str, windows: Sequence[_Window], chosen: Mapping[str, Mechanism], others: Mechanism | None
) -> Change:
    """Means over the windows when some sensors, or all, are released otherwise: never with less noise."""

    def changed(release: SensorRelease) -> SensorRelease:
        wanted = chosen.get(release.sensor.name, others)
        if wanted is None or wanted.zcdp_rho() >= release.mechanism.zcdp_rho():
            return release
        return replace(release, mechanism=wanted)

    results = [window.under(changed) for window in windows]
    ceiling = sum(certified for certified, _ in results) / len(results)
    added = sum(certified - baseline for certified, baseline in results) / len(results)
    mechanism = others or next(iter(chosen.values()), None)
    is_noised = mechanism is not None and mechanism.is_released
    error = mechanism.expected_absolute_error() if mechanism is not None and is_noised else None
    return Change(name, ceiling, added, error)

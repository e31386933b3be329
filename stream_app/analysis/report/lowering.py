"""What would lower the risk of a run's most exposed people: what revealed most, and what less would do.

Every step of the run is accounted again for them with other decisions, as a run with these would: what is
promised is what that run's report says of them. No count is looked at, so the answer releases nothing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import starmap
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.audit import InformationShare, information_shares
from accounting.continuous import ContinuousAccountant
from accounting.exposure import Exposure
from accounting.settings import HorizonSettings
from models.mechanisms import NO_DESIGNS, Designs, Gaussian, Mechanism, Suppressed, public_error
from models.priors import Population
from models.releases import (
    Schedule,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    counts_in,
    in_single_steps,
)
from stream_app.analysis.run_log import RunLog
from stream_app.exceptions import RunChangedError
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.run_folder.people_record import as_accounted, is_kept
from stream_app.setup.run_folder.run_settings import check_belongs, sensors_of_run, with_recorded_windows
from stream_app.setup.settings import Settings
from stream_app.steps.policy import designs_of
from stream_app.watching.people import NATS_PER_BIT
from stream_app.wire import WorstMoment

EXPLAINED_PEOPLE = 10
NAMED_SENSORS = 3
SIGMAS = (1.0, 3.0, 10.0)


@dataclass(frozen=True)
class Priors:
    """Who can be accounted again: people, their pseudonyms in order, sensors.

    ``is_own`` where they are the run's own copy: whom that does not know has left since.
    """

    population: Population
    registry: SensorRegistry
    pseudonyms: Sequence[str]
    is_own: bool = False

    def still_there(self, exposed: Sequence[WorstMoment]) -> tuple[WorstMoment, ...]:
        """Of the people of a log those that the run still has; all where the priors are of a file."""
        there = set(self.pseudonyms)
        return tuple(each for each in exposed if not self.is_own or each.person in there)


class RevealedBySensor(NamedTuple):
    """What a sensor revealed about the people looked at: ``bits`` for all, ``share`` of what all revealed."""

    sensor: str
    mechanism: str
    releases: int
    people: int
    bits: float
    share: float


class RevealedByRelease(NamedTuple):
    """One release and its ``share`` of all information about the people looked at."""

    sensor: str
    step: int
    share: float


class Change(NamedTuple):
    """Other decisions in every step: ceiling and added risk, means over people, each at one moment.

    The moments are those at which most was added as it was published, the same for every change: so two
    changes differ by what they change only. ``most_added`` is that of the most affected at any step.
    ``error`` is the expected absolute error of a changed count, in people; None where nothing would be
    published, or nothing changes.
    """

    name: str
    ceiling: float
    added: float
    most_added: float
    error: float | None


class Lowering(NamedTuple):
    """The answer: sensors and ``releases`` by what they revealed, most first; ``changes`` begin with none."""

    people: int
    steps: int
    shares: tuple[RevealedBySensor, ...]
    releases: tuple[RevealedByRelease, ...]
    changes: tuple[Change, ...]


def load_priors(
    folder: Path, settings: Settings, population: Population | None = None, designs: Designs = NO_DESIGNS
) -> Priors:
    """What a run had, as its settings name it, or as its folder keeps it where no population is given.

    :class:`RunChangedError` for other priors or sensors, :class:`OutputError` for a folder without a copy.
    """
    people = as_accounted(folder) if population is None else population
    registry = sensors_of_run(folder, settings, people.location_names)
    check_belongs(folder, people, registry)
    registry = registry.with_designs(designs_of(settings.release)).with_designs(designs)
    registry = with_recorded_windows(folder, registry)
    is_own = is_kept(folder, people)
    pseudonyms = people.people if is_own else load_pseudonym_key(settings, folder).pseudonyms(people.people)
    own = people if population is None else as_accounted(folder, people)
    asked = settings.asked(settings.question).asked_of(own)
    return Priors(asked, registry, pseudonyms, is_own)


def lowering(
    log: RunLog, priors: Priors, steps: Sequence[StepSchedule], people: int = EXPLAINED_PEOPLE
) -> Lowering | None:
    """Take the most exposed people's horizons in the run's ``steps`` apart; None where the log names nobody.

    :class:`RunChangedError` when the priors do not know a person of the log.
    """
    exposed = log.exposed[:people]
    if not exposed:
        return None
    index = positions(priors, exposed)
    revealed = [
        (number, share)
        for number, (record, person) in enumerate(zip(exposed, index, strict=True))
        for share in _revealed(log, priors, record.step, person, steps)
    ]
    whole = sum(share.information_nats for _, share in revealed) or 1.0
    shares = _by_sensor(revealed, whole)
    exposed_people = replace(priors, population=priors.population.subset(index))
    moments = np.array([record.step for record in exposed])
    changes = _changes(exposed_people, moments, steps, log.horizon(), shares)
    releases = _by_release(revealed, whole)
    return Lowering(len(exposed), int(log.settings["horizon"]), shares, releases, changes)


def positions(priors: Priors, exposed: Sequence[WorstMoment]) -> list[int]:
    """Who in the priors the people of the log are; :class:`RunChangedError` for somebody they do not know."""
    index = {pseudonym: person for person, pseudonym in enumerate(priors.pseudonyms)}
    unknown = [record.person[:12] for record in exposed if record.person not in index]
    if unknown:
        raise RunChangedError(
            "priors and pseudonym key must be those of the run",
            f"they know nobody with the pseudonym {unknown[0]}",
            "name the priors and the configuration the run had; where people were left out since, leave "
            "--priors out",
        )
    return [index[record.person] for record in exposed]


def _revealed(
    log: RunLog, priors: Priors, last: int, person: int, steps: Sequence[StepSchedule]
) -> Iterator[InformationShare]:
    """What each release of the horizon that ends at ``last`` revealed, from the habitual start of one person.

    Of several chains each has its part of the mean.
    """
    first = max(0, last - int(log.settings["horizon"]) + 1)
    own, horizon = steps[first : last + 1], log.horizon()
    accounted = tuple(in_single_steps(step, priors.registry) for step in own)
    parts = tuple(map(counts_in, accounted))
    schedule = Schedule(accounted, horizon.first_slot + first, horizon.calendar)
    chains, draws = priors.population.accounted, priors.population.draws
    for chain in priors.population.chains_of(np.array([person])):
        exposure = Exposure.of(chains.chain(chain), schedule, chains.location_count)
        for share in information_shares(exposure, parts):
            yield replace(share, information_nats=share.information_nats / draws)


def _by_sensor(
    revealed: Sequence[tuple[int, InformationShare]], whole: float
) -> tuple[RevealedBySensor, ...]:
    """What each sensor revealed in all windows; ``revealed`` are pairs of a window's number and a release."""
    of_sensor: dict[str, list[tuple[int, InformationShare]]] = defaultdict(list)
    for number, share in revealed:
        of_sensor[share.sensor].append((number, share))

    def row(sensor: str, own: Sequence[tuple[int, InformationShare]]) -> RevealedBySensor:
        nats = sum(share.information_nats for _, share in own)
        mechanisms = ", ".join(sorted({share.mechanism for _, share in own}))
        steps, people = len({share.step for _, share in own}), len({number for number, _ in own})
        return RevealedBySensor(sensor, mechanisms, steps, people, nats / NATS_PER_BIT, nats / whole)

    return tuple(sorted(starmap(row, of_sensor.items()), key=lambda row: (-row.share, row.sensor)))


def _by_release(
    revealed: Sequence[tuple[int, InformationShare]], whole: float
) -> tuple[RevealedByRelease, ...]:
    """What each single release revealed in all windows it belongs to."""
    nats: dict[tuple[str, int], float] = defaultdict(float)
    for _, share in revealed:
        nats[share.sensor, share.step] += share.information_nats
    rows = (RevealedByRelease(sensor, step, own / whole) for (sensor, step), own in nats.items())
    return tuple(sorted(rows, key=lambda row: (-row.share, row.step, row.sensor)))


def _changes(
    exposed: Priors,
    moments: NDArray[np.int64],
    steps: Sequence[StepSchedule],
    horizon: HorizonSettings,
    shares: Sequence[RevealedBySensor],
) -> tuple[Change, ...]:
    """As it was, less of the sensors that revealed most, and noise at all sensors.

    What would change nothing, as there was so much noise already, is left out.
    """
    most = [share.sensor for share in shares[:NAMED_SENSORS]]
    noises: dict[str, Mechanism] = {f"with at least sigma {sigma:g}": Gaussian(sigma) for sigma in SIGMAS}
    tried: list[tuple[str, Mapping[str, Mechanism], Mechanism | None]]
    tried = [(f"{sensor} suppressed", {sensor: Suppressed()}, None) for sensor in most]
    if len(most) > 1:
        for how, mechanism in ({"suppressed": Suppressed()} | noises).items():
            tried.append((f"these {len(most)} sensors {how}", dict.fromkeys(most, mechanism), None))
    tried += [(f"all {how}", {}, mechanism) for how, mechanism in noises.items()]
    windows = (each.release for step in steps for each in step.windows or ())
    released = [*(each for step in steps for each in step.releases), *windows]
    change = partial(_change, exposed, moments, steps, horizon)
    return (
        change("as it was", {}, None),
        *(
            change(name, chosen, others)
            for name, chosen, others in tried
            if any(
                _less(chosen, others, each.sensor.name, each.mechanism) is not each.mechanism
                for each in released
            )
        ),
    )


def _less(
    chosen: Mapping[str, Mechanism], others: Mechanism | None, sensor: str, mechanism: Mechanism
) -> Mechanism:
    """What is proposed for a sensor; its own mechanism where that has as much noise."""
    wanted = chosen.get(sensor, others)
    return mechanism if wanted is None or wanted.zcdp_rho() >= mechanism.zcdp_rho() else wanted


def _change(
    exposed: Priors,
    moments: NDArray[np.int64],
    steps: Sequence[StepSchedule],
    horizon: HorizonSettings,
    name: str,
    chosen: Mapping[str, Mechanism],
    others: Mechanism | None,
) -> Change:
    """The risk of these people if some sensors, or all, are released otherwise: never with less noise."""
    less = partial(_less, chosen, others)

    def changed(release: SensorRelease) -> SensorRelease:
        return replace(release, mechanism=less(release.sensor.name, release.mechanism))

    def less_of(step: StepSchedule) -> StepSchedule:
        windows = step.windows
        if windows is not None:
            windows = tuple(replace(each, release=changed(each.release)) for each in windows)
        return replace(step, releases=tuple(map(changed, step.releases)), windows=windows)

    in_windows = exposed.registry.in_windows
    registry = exposed.registry.with_windows({name: less(name, own) for name, own in in_windows.items()})
    shown = [in_single_steps(less_of(step), registry) for step in steps]
    at = moments, np.arange(moments.size)
    among = np.zeros((len(shown), moments.size), dtype=np.bool_)
    among[at] = True
    risk, added = _figures(exposed.population, shown, horizon, among)
    if (among := added > added[at].max()).any():  # only there the highest added risk at any step may be
        added = np.minimum(added, _figures(exposed.population, shown, horizon, among)[1])
    mechanism = others or next(iter(chosen.values()), None)
    is_noised = mechanism is not None and mechanism.is_released
    error = public_error(mechanism) if mechanism is not None and is_noised else None
    return Change(name, float(risk[at].mean()), float(added[at].mean()), float(added.max()), error)


def _figures(
    population: Population, steps: Sequence[StepSchedule], horizon: HorizonSettings, among: NDArray[np.bool_]
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Risk and added risk after each step, (T, N) each; refined ``among`` (T, N), fast bounds for others."""
    accountant = ContinuousAccountant(population, horizon, population.effective_from, told=population.told)
    risk, added = np.zeros(among.shape), np.zeros(among.shape)
    for row, step in enumerate(steps):
        accountant.apply(step, among[row])
        counts = accountant.since <= step.step
        risk[row, counts], added[row, counts] = accountant.risk()[counts], accountant.added()[counts]
    return risk, added

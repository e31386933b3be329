"""A broad sample of results that people are shown or that workers compare, each as a digest of its bits.

``python -m tests.bits.sample`` prints them as one JSON object; :mod:`tests.bits.test_same_bits` compares
those of processes that see different CPUs.
"""

from __future__ import annotations

# Before numpy, as in every command: it pins the linear algebra.
import stream_app  # noqa: F401  # isort: skip

import hashlib
import json
import tempfile
from collections.abc import Callable
from dataclasses import asdict, is_dataclass
from pathlib import Path
from unittest.mock import patch

import numpy as np

from accounting.audit import AttackSettings, audit_exposure, audit_population, posterior_ceiling
from accounting.bounds import Effort
from accounting.bounds.certified import horizon_risk
from accounting.bounds.noised import sampled_success
from accounting.bounds.radius import Radius
from accounting.continuous import ContinuousAccountant
from accounting.exposure import Exposure
from accounting.exposure.crowd import CrowdAdversary
from accounting.exposure.step_information import SensorInformation
from accounting.ledgers import (
    ReleaseLog,
    SecretQuestion,
    epsilon_from_zcdp,
    read_differential_privacy,
    read_inferential,
)
from accounting.ledgers.bayesian import Declared, read_bayesian
from accounting.settings import HorizonSettings
from models.fitting import FitOptions, fit_priors
from models.fitting.checkins import Checkins
from models.gaussian_process import RBF, GaussianProcessPrior, White, fit_kernel
from models.mechanisms import Correlated, Gaussian, Mechanism, Raw, Tiered
from models.noise import CorrelatedNoise
from models.noise_design import DesignProblem, design_noise
from models.priors import Evidence, Lists, posterior_draws
from models.priors.stationary import spectral_gap, stationary_distribution
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.city import City, CityOptions, build_city
from stream_app.starting.aggregates import PersonaQuestions, make_personas
from stream_app.starting.demo import run_demo
from tests.accounting.crowd.both import BothAccounts

STEPS = 8
LAGS = np.subtract.outer(np.arange(24), np.arange(24)) / 3.0
NOISE = CorrelatedNoise.of_covariance(40.0 / (1.0 + LAGS**2) + np.diag(np.linspace(0.3, 4.0, 24)))
TIERS = Tiered((("public", 0.3), ("partner", 1.1)))
MECHANISMS: dict[str, Mechanism] = {
    "raw": Raw(),
    "sharp": Gaussian(0.4),
    "gaussian": Gaussian(1.7),
    "wide": Gaussian(130.0),
    "tiered": TIERS,
    "correlated": Correlated.of(NOISE, 3),
}


def schedule(city: City, mechanism: Mechanism | None) -> Schedule:
    """Four sensors a step, by turns; without a mechanism all of them by turns."""
    kinds = list(MECHANISMS.values())
    sensors = city.registry.sensors
    return Schedule(
        tuple(
            StepSchedule(
                step,
                tuple(
                    SensorRelease(sensors[(5 * step + k) % len(sensors)], mechanism or kinds[(step + k) % 6])
                    for k in range(4)
                ),
            )
            for step in range(STEPS)
        )
    )


def audits(city: City) -> object:
    """Bounds, information and attacks of three people under every mechanism."""
    found = []
    for name, mechanism in (*MECHANISMS.items(), ("mixed", None)):
        planned = schedule(city, mechanism)
        for person in range(3):
            exposure = Exposure.of(city.population.chain(person), planned, city.population.location_count)
            attacks = AttackSettings(draws=200) if exposure.has_independent_noise and person == 0 else None
            audit = audit_exposure(exposure, 1, effort=Effort(order=2, patterns=64), attacks=attacks)
            found.append((name, audit.model_dump_json()))
            effort = Effort(order=2, patterns=64, draws=50 * person)
            risk = horizon_risk(exposure, 2, 5, 1, in_hindsight=True, effort=effort)
            found.append((name, asdict(risk), sampled_success(exposure, (2, 5), 1, effort)))
    return found


def unsure(city: City) -> object:
    """Distances between people's chains, ceilings raised by them, and ceilings of drawn chains."""
    planned, population = schedule(city, MECHANISMS["gaussian"]), city.population
    rows = np.diff(population.arrays.distribution_start)
    evidence = Evidence(population.people, Lists(np.append(0, rows.cumsum()), np.full(rows.sum(), 1e3)))
    others = posterior_draws(population, 0, evidence, 3, 4)
    own, *drawn_ones = [
        Exposure.of(people.chain(person), planned, population.location_count)
        for people, person in ((population, 0), (others, 0), (others, 2))
    ]
    near = [Radius.between(own, other) for other in drawn_ones]
    drawn = posterior_ceiling(population, 0, planned, 1, evidence, draws=5)
    return near, [radius.ceilings(0.3) for radius in near], drawn


def accountant(city: City) -> object:
    """Everybody's account after a horizon of mixed releases, refined bounds included."""
    own = ContinuousAccountant(city.population, HorizonSettings(horizon=5, mistakes=1))
    figures = []
    for step in schedule(city, None).steps:
        own.apply(step)
        figures.append((own.risk(), own.baseline(), own.summary()))
    return figures, own.snapshot()


def crowd(city: City) -> object:
    """What the others hide, everybody's account among them, and one person's ceiling."""
    own, planned, figures = (
        BothAccounts(city.population, settings=HorizonSettings(5, 1)),
        schedule(city, None),
        [],
    )
    for step in planned.steps:
        own.apply(step)
        figures.append(([each.units for each in own.crowds], own.risk(), own.information_nats()))
    (audit,) = audit_population(city.population, planned, 1, people=[0], adversary=CrowdAdversary(known=1))
    return figures, audit.model_dump_json()


def mechanisms(city: City) -> object:
    """What accountants ask of each mechanism, and what it publishes."""
    share = np.concatenate(([0.0, 1e-9, 1.0], np.linspace(0.01, 0.99, 57)))
    words = np.random.default_rng(3).integers(0, 2**64, size=(500, 2), dtype=np.uint64)
    counts = np.arange(500)
    information = SensorInformation(city.population)
    return [
        (
            own.information(share),
            own.divergence(),
            own.reveal_probability(),
            own.zcdp_rho(),
            own.expected_absolute_error(),
            own.publish(counts, words),
            information.of_step(schedule(city, own).steps[1]),
        )
        for own in MECHANISMS.values()
    ]


def ledgers(city: City) -> object:
    """Differential, Bayesian and inferential privacy of a log."""
    log = ReleaseLog.of(schedule(city, TIERS).steps)
    series = ReleaseLog.of(
        StepSchedule(step, (SensorRelease(city.registry.sensors[0], Correlated.of(NOISE, step)),))
        for step in range(24)
    )
    name = city.registry.sensors[0].name
    return (
        repr(read_differential_privacy(log, 1e-6)),
        repr(read_differential_privacy(series, 1e-6)),
        asdict(read_bayesian(log, Declared(independent_tuples=True), 1e-6)),
        asdict(read_inferential(series, SecretQuestion(name, (5, 6), RBF(4.0)))),
        [epsilon_from_zcdp(rho, 1e-6) for rho in (1e-3, 0.1, 2.0)],
    )


def fits(city: City) -> object:
    """Priors from check-ins, a kernel from series, designs of noise."""
    random = np.random.default_rng(8)
    rows = [
        (f"user {user}", 3600 * hour + int(random.integers(3600)), f"place {int(random.integers(4 + user))}")
        for user in range(6)
        for hour in range(80)
    ]
    options = FitOptions(window_seconds=3600, top_places=4, held_out_windows=8, min_windows=2)
    population = fit_priors(
        Checkins.from_rows((user, time, place) for user, time, place in rows), options
    ).population
    times = np.arange(20.0)
    walks = np.cumsum(random.normal(size=(3, 20)), axis=1)
    prior = GaussianProcessPrior.at_steps(RBF(3.0), 16).covariance()
    kernel = fit_kernel(RBF(2.0) + White(0.1), times, walks, ["left.length_scale"])
    designs = [
        design_noise(DesignProblem(prior, (7, 8), 1.0), method).covariance
        for method in ("exact", "sdp-a", "uniform")
    ]
    return tuple(population.arrays), kernel.log_likelihood_nats, dict(kernel.fitted), designs


def personas(city: City) -> object:
    """Personas of a home-work table and assumed days on a map, calibrated with and without a penalty."""
    with tempfile.TemporaryDirectory() as folder:
        table, zones, flows = (Path(folder) / name for name in ("od.csv", "zones.csv", "flows.csv"))
        table.write_text("origin,destination,flow\na,b,40\nb,c,12.5\nc,b,9\na,,30\n")
        zones.write_text("name,lat,lon\na,48.1,2.3\nb,48.117,2.31\nc,48.12,2.35\n")
        flows.write_text("slot,origin,destination,people\n7,a,b,13\n17,b,a,9.7\n17,b,c,2\n")
        made = [
            make_personas(table, PersonaQuestions(zones=zones, flows=flows, penalty=penalty, most_sweeps=40))
            for penalty in (None, 3.0)
        ]
    return [(tuple(each.population.arrays), each.population.weights) for each in made]


def chains(city: City) -> object:
    """The city itself, and where its chains settle."""
    people = [city.population.chain(person) for person in range(5)]
    settled = [stationary_distribution(chain).probabilities for chain in people]
    return tuple(city.population.arrays), settled, [spectral_gap(chain) for chain in people]


def demo(city: City) -> object:
    """The tables at the demo's end; its report is not among them."""
    with tempfile.TemporaryDirectory() as folder, patch("stream_app.starting.demo.write_report"):
        output = Path(folder) / "demo"
        report = run_demo(
            output=output, steps=12, people=30, seconds_per_step=0.0, listen="", announce=lambda text: None
        )
    return [asdict(row) for row in (*report.exposed, *report.ways_of_life, *report.alternatives)]


SAMPLES: tuple[Callable[[City], object], ...] = (
    chains,
    mechanisms,
    audits,
    unsure,
    accountant,
    crowd,
    ledgers,
    fits,
    personas,
    demo,
)


def feed(digest: hashlib._Hash, value: object) -> None:
    """Every bit of a result, however it is nested."""
    if isinstance(value, np.ndarray):
        digest.update(np.ascontiguousarray(value).tobytes())
    elif isinstance(value, bytes):
        digest.update(value)
    elif isinstance(value, float):
        digest.update(value.hex().encode())
    elif isinstance(value, dict):
        feed(digest, list(value.items()))
    elif isinstance(value, list | tuple):
        for each in value:
            feed(digest, each)
    elif is_dataclass(value) and not isinstance(value, type):
        feed(digest, asdict(value))
    else:
        digest.update(str(value).encode())


def main() -> None:
    """Print the digest of each sample."""
    city = build_city(CityOptions(people=40, sensors=12, active=4, seed=7))
    digests = {}
    for sample in SAMPLES:
        digest = hashlib.sha256()
        feed(digest, sample(city))
        digests[sample.__name__] = digest.hexdigest()
    print(json.dumps(digests))


if __name__ == "__main__":
    main()

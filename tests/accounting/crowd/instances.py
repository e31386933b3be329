"""Random small crowds: a target, others of every kind, and what is counted of them."""

from __future__ import annotations

from copy import copy
from dataclasses import dataclass

import numpy as np

from accounting.bounds.certified import SeenInCrowd
from accounting.exposure import Exposure
from accounting.exposure.crowd import CrowdAdversary, Others, StepCrowd
from models.mechanisms import Mechanism
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import KIND_SHARES, KINDS, random_matrix
from tests.accounting.crowd.collective import Chain, Count, collective_optimum, joint_law, others_law
from tests.accounting.enumeration import Floats
from tests.accounting.exposures import RAW, gaussian

MOST_COUNTS = 4  # of which the joint law is written down
_LIKELY = 5  # values of noise on each side that are told apart


class TargetApart(CrowdAdversary):
    """Where the target is not among those who are asked, nobody is taken off the sums."""

    @property
    def not_counted(self) -> int:
        """Only who is known, or comes along."""
        return self.companions + self.known


@dataclass(frozen=True)
class Instance:
    """The target and ``others``, all from step 0 on, and the schedule; some sensors may overlap."""

    target: Chain
    others: list[Chain]
    schedule: Schedule
    population: Population  # the others, or the target and them
    has_own_law: bool

    @property
    def steps(self) -> int:
        return len(self.schedule.steps)

    def crowds(self) -> list[StepCrowd]:
        """Of everybody in the population."""
        others = Others(self.population)
        return [others.apply(step) for step in self.schedule.steps]

    def seen(self, adversary: CrowdAdversary) -> SeenInCrowd:
        return SeenInCrowd(self.schedule.steps, self.crowds(), adversary)

    def exposure(self) -> Exposure:
        """The target's."""
        start, matrices = self.target
        person = Population.pack([prior_of("target", (start, matrices), True)], _names(start.size))
        return Exposure.of(person.chain(0), self.schedule, start.size, start)

    def counts(self) -> list[Count]:
        places = self.target[0].size
        found = []
        for step in self.schedule.steps:
            for release in step.releases:
                cover = np.isin(np.arange(places), release.sensor.locations)
                found.append(Count(step.step, cover, noise_of(release.mechanism)))
        return found

    def optimum(self, window: tuple[int, int], mistakes: int, until: int | None = None) -> float:
        """The best that any adversary can do who knows where nobody is, at once or at step ``until``."""
        counts = [each for each in self.counts() if until is None or each.step <= until]
        law = others_law(self.others, counts, self.steps)
        return collective_optimum(joint_law(self.target, counts, law, window), mistakes)


def noise_of(mechanism: Mechanism) -> Floats:
    """Masses around zero; those far out put together, by which the adversary loses."""
    law = mechanism.noise_law()
    assert law is not None
    middle = law.probabilities.size // 2
    if middle <= _LIKELY:
        return law.probabilities
    kept = law.probabilities[middle - _LIKELY : middle + _LIKELY + 1].copy()
    kept[[0, -1]] += (1.0 - kept.sum()) / 2
    return np.asarray(kept)


def prior_of(name: str, chain: Chain, has_own_law: bool) -> MovementPrior:
    start, matrices = chain
    moves = matrices if len(matrices) > 1 else matrices[0]
    return MovementPrior.from_dense(name, moves, initial=start if has_own_law else None)


def population_of(chains: list[Chain], has_own_law: bool) -> Population:
    """One person a chain; a chain that several have is checked once."""
    made: dict[int, MovementPrior] = {}
    people = []
    for number, chain in enumerate(chains):
        if id(chain) not in made:
            made[id(chain)] = prior_of("anybody", chain, has_own_law)
        person = copy(made[id(chain)])
        object.__setattr__(person, "person", f"p{number}")
        people.append(person)
    return Population.pack(people, _names(chains[0][0].size))


def _names(places: int) -> list[str]:
    return [str(place) for place in range(places)]


def random_chain(rng: np.random.Generator, places: int, cycle: int) -> Chain:
    kinds = rng.choice(KINDS, size=cycle, p=KIND_SHARES)
    matrices = np.stack([random_matrix(rng, places, kind) for kind in kinds])
    return rng.dirichlet(np.full(places, 1.5)), matrices


def large_instance(rng: np.random.Generator) -> Instance:
    """Up to 70 others who move a lot, the target among them, and up to three counts in up to five steps."""
    places, steps = int(rng.integers(2, 4)), int(rng.integers(2, 6))
    start = np.full(places, 1.0 / places)
    pool = [(start, rng.dirichlet(np.full(places, 4.0), size=places)[None]) for _ in range(3)]
    target = pool[0] if rng.random() < 0.5 else random_chain(rng, places, 1)
    chains = [target, *(pool[k % 3] for k in range(int(rng.integers(25, 71))))]
    population = population_of(chains, False)
    chains = [(population.chain(k).start[0].copy(), moves) for k, (_, moves) in enumerate(chains)]
    at = set(rng.permutation(steps)[:3].tolist())
    found = []
    for t in range(steps):
        cover = (int(rng.integers(places)),)
        mechanism = RAW if rng.random() < 0.8 else gaussian(0.7)
        release = (SensorRelease(Sensor("s0", cover), mechanism),) if t in at else ()
        found.append(StepSchedule(t, release))
    return Instance(chains[0], chains[1:], Schedule(tuple(found)), population, False)


def random_instance(rng: np.random.Generator, *, target_among: bool) -> Instance:
    """Up to four steps and places, up to 24 others; half of the crowds are of people who are alike."""
    places = int(rng.integers(2, 4))
    steps = int(rng.integers(1, 4 if places == 3 else 5))
    cycle = int(rng.integers(1, 3))
    alike = rng.random() < 0.6
    size = int(rng.integers(2, 25 if alike else 8))
    pool = [random_chain(rng, places, cycle) for _ in range(2 if alike else size)]
    others = [pool[k % len(pool)] for k in range(size)]
    target = random_chain(rng, places, cycle)
    has_own_law = bool(rng.random() < 0.4)
    schedule = random_schedule(rng, places, steps)
    counted = [target, *others] if target_among else others
    population = population_of(counted, has_own_law)
    if not has_own_law:
        habitual = [population.chain(k).start[0].copy() for k in range(len(counted))]
        counted = [(start, matrices) for start, (_, matrices) in zip(habitual, counted, strict=True)]
        target = counted[0] if target_among else target
        others = counted[len(counted) - size :]
    return Instance(target, others, schedule, population, has_own_law)


def random_schedule(rng: np.random.Generator, places: int, steps: int) -> Schedule:
    """Sensors of one place or several, overlapping or not, raw or noised."""
    found, left = [], MOST_COUNTS
    for t in range(steps):
        releases = []
        for j in range(min(left, int(rng.choice(3, p=[0.15, 0.55, 0.3])))):
            cover = np.flatnonzero(rng.random(places) < 0.4).tolist() or [int(rng.integers(places))]
            mechanism: Mechanism = RAW if rng.random() < 0.75 else gaussian(0.7)
            releases.append(SensorRelease(Sensor(f"s{j}", tuple(cover)), mechanism))
        left -= len(releases)
        found.append(StepSchedule(t, tuple(releases)))
    if left == MOST_COUNTS:
        found[-1] = StepSchedule(steps - 1, (SensorRelease(Sensor("s0", (0,)), RAW),))
    return Schedule(tuple(found))

"""Small random deployments from the product of all features, and the slow truth about one of their people.

A deployment draws what its sensors count (presence, passages, sums over windows, moves, counts that a device
limits), their noise (raw, noised, tiered, correlated, decided under a risk budget with or without hindsight),
corrections and adversary; drawn widely, also what is asked, how much work may be done, what is said of the
crowd, and whose habits change at a step. It is decided and accounted step by step, as a run does it. Then
every movement of everybody is written down, and the best adversary compared with each ceiling. The truth
shares no code with what it tests.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations, product
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import stats

from accounting.audit import audit_population
from accounting.continuous import ContinuousAccountant
from accounting.continuous.crowd import CrowdAccount
from accounting.continuous.shadow import Shadow
from accounting.decisions import SearchSettings
from accounting.decisions.what_if import KnownStep, WhatIf
from accounting.exposure import prior_guess, window_of
from accounting.exposure.crowd import CrowdAdversary, StepCrowd, Strangers
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import Correlated, Gaussian, Mechanism, Raw, Tiered
from models.noise import CorrelatedNoise
from models.priors import MovementPrior, Population, Question
from models.releases import (
    CountingWindow,
    Counts,
    Schedule,
    Sensor,
    SensorRegistry,
    StepSchedule,
    in_single_steps,
)
from stream_app.steps.policy import BudgetPolicy, FixedPolicy, steps_asked
from stream_app.steps.policy.policies import CorrelatedSteps, SensorWishes
from tests.accounting.chains import KIND_SHARES, KINDS, random_matrix
from tests.accounting.crowd.test_strangers import chances
from tests.accounting.decisions.deciding import bound
from tests.accounting.enumeration import Floats, all_paths, within

TIERED = Tiered((("public", 0.4), ("partner", 1.3)))
NOISES: tuple[Mechanism, ...] = (Gaussian(0.7), Gaussian(1.5), TIERED)
_LIKELY = 5  # values of noise on each side that are told apart
_MOST_CELLS, _MOST_OUTCOMES = 4e6, 1e7
_SHORT, _LONG = 5, 7  # steps
_SURE = 1.0 - 1e-6  # so sure are ceilings by sampling
_MANY = 20  # people, of whom few counts can be written down


Chain = tuple[Floats, Floats]
"""Start (K,) at step 0 and matrices (C, K, K)."""


@dataclass(frozen=True)
class Shown:
    """One published value: each path adds at most ``most`` to it; ``noise`` are the masses at -n..n.

    What is counted in the step ``missed`` of a window is not in it. Where noise is ``correlated``, each value
    of a count (number ``again``) has a noise vector of its own.
    """

    sensor: Sensor
    step: int
    most: int
    noise: Floats
    missed: int = -1
    correlated: Correlated | None = None
    again: int = 0

    def added(self, paths: NDArray[np.int64]) -> NDArray[np.int64]:
        """What each path (N, T) adds."""
        sensor, window = self.sensor, self.sensor.window
        if window is None:
            return np.isin(paths[:, self.step], sensor.locations) * self.most
        total = np.zeros(len(paths), dtype=np.int64)
        for t in range(window.first_of(self.step), self.step + 1):
            if t == self.missed:
                continue
            if not window.moves:
                total += np.isin(paths[:, t], sensor.locations)
            for start, end, times in window.moves:
                total += times * ((paths[:, t - 1] == start) & (paths[:, t] == end))
        return np.minimum(total, self.most)


@dataclass(frozen=True)
class Renewed:
    """People whose habits change at a ``step``: ``after`` are all, as they are accounted from it on."""

    step: int
    is_renewed: NDArray[np.bool_]
    after: Population

    @classmethod
    def drawn(cls, rng: np.random.Generator, chains: list[Chain], steps: int, step: int) -> Renewed:
        """Some of the people; ``chains`` becomes what they really move by, a matrix for each step."""
        places = chains[0][0].size
        is_renewed = rng.random(len(chains)) < 0.6
        is_renewed[0] |= rng.random() < 0.5
        kind = str(rng.choice(KINDS, p=KIND_SHARES))
        new = np.stack([random_matrix(rng, places, kind) for _ in range(int(rng.integers(1, 3)))])
        if len(chains) >= _MANY:
            new = rng.dirichlet(np.full(places, 4.0), size=(len(new), places))
        joined: dict[int, Floats] = {}
        priors = []
        for number, (start, old) in enumerate(chains):
            moves, law = old, start
            if is_renewed[number]:
                for t in range(step):
                    law = law @ old[t % len(old)]
                whole = [old[t % len(old)] if t < step else new[t % len(new)] for t in range(steps)]
                chains[number] = start, joined.setdefault(id(old), np.stack(whole))
                moves = new
            given = moves if len(moves) > 1 else moves[0]
            priors.append(MovementPrior.from_dense(f"p{number}", given, initial=law / law.sum()))
        after = Population.pack(priors, [str(place) for place in range(places)])
        since = np.where(is_renewed, step, 0)
        return cls(step, is_renewed, replace(after, effective_from=since, told=is_renewed))


@dataclass
class Deployment:
    """Everything that was drawn; ``decided`` and the figures of person 0 fill up as it is run."""

    chains: list[Chain]  # of everybody
    population: Population
    registry: SensorRegistry
    announced: list[tuple[str, ...]]
    settings: HorizonSettings
    policy: FixedPolicy | BudgetPolicy
    limit: RiskBudget | None
    adversary: CrowdAdversary | None
    in_crowd: bool  # whether the limit holds against that adversary
    features: frozenset[str]
    mechanisms: dict[str, Mechanism]  # of each sensor, where no budget decides
    others: list[Chain]  # everybody beside person 0 who is really there, strangers at the end
    strangers: int = 0
    renewed: Renewed | None = None
    held_from: int = 0  # the horizons that a limit holds for begin there or later
    decided: list[StepSchedule] = field(default_factory=list)
    informed: list[float] = field(default_factory=list)
    crowd: list[float] = field(default_factory=list)
    sampled: float | None = None  # ceiling after the last step, by sampling

    @property
    def steps(self) -> int:
        return len(self.announced)

    @property
    def schedule(self) -> Schedule:
        """What was decided."""
        return Schedule(tuple(self.decided))

    def run(self) -> None:
        """Decide and account every step, as runs do; where habits change, as a run that goes on then."""
        accountant, crowd, what_if = self._accounts(self.population)
        past: list[tuple[StepSchedule, StepCrowd | None]] = []
        shadow = Shadow(accountant, (), _SURE)
        for number, names in enumerate(self.announced):
            if self.renewed is not None and number == self.renewed.step:
                after = replace(self.renewed.after, weights=self.population.weights)
                accountant, crowd, what_if = self._accounts(after)
                shadow = Shadow(accountant, (), _SURE)
                for accounted, crowds in past:
                    accountant.apply(accounted)
                    shadow.note(accounted)
                    if crowd is not None:
                        crowd.apply(accounted, crowds)
                if crowd is not None:
                    crowd.others.reveal_next(np.flatnonzero(self.renewed.is_renewed))
                if what_if is not None and self.renewed.is_renewed[0]:
                    self.held_from = int(what_if.prospects.of(number).limits.held_from[0])
            asked = steps_asked(self.policy, number, names, self.registry)
            known = () if crowd is None else tuple(map(KnownStep, asked, crowd.ask_ahead(asked)))
            crowds = known[0].crowds if known else None
            step = self.policy.decide(number, names, known).schedule
            if what_if is not None:
                what_if.note(step, crowds)
            self.policy.note(step)
            accounted = in_single_steps(step, self.registry)
            accountant.apply(accounted)
            shadow.note(accounted)
            self.informed.append(float(accountant.risk()[0]))
            if crowd is not None:
                crowd.apply(accounted, crowds)
                self.crowd.append(float(crowd.risk()[0]))
            self.decided.append(step)
            past.append((accounted, crowds))
        sampled = shadow.sampled(1.0, np.arange(len(accountant.people)) == 0)
        if sampled is not None and sampled.is_looked_at[0]:
            self.sampled = float(accountant.baseline()[0] + sampled.added[0])

    def _accounts(
        self, population: Population
    ) -> tuple[ContinuousAccountant, CrowdAccount | None, WhatIf | None]:
        """The accounts of these people before the first step, and what decisions ask."""
        apart = self.adversary is not None
        accountant = ContinuousAccountant(
            population, self.settings, population.effective_from, apart=apart, told=population.told
        )
        crowd, what_if = None, None
        if self.adversary is not None:
            decided = self.limit if self.in_crowd else None
            weights = population.weights
            crowd = CrowdAccount(accountant, self.adversary, decided=decided, weights=weights)
        if isinstance(self.policy, BudgetPolicy):
            in_crowd, has_windows = crowd if self.in_crowd else None, bool(self.registry.windowed)
            what_if = bound(self.policy, accountant, in_crowd, has_windows=has_windows)
        return accountant, crowd, what_if

    def shown(self, until: int) -> list[Shown]:
        """What was published up to a step: of a sensor with corrections, all its values."""
        found = []
        for step in self.decided[: until + 1]:
            for release in step.releases:
                if release.mechanism.is_released:
                    sensor = release.sensor
                    values = 1 + (0 if release.mechanism.is_exact else sensor.corrections)
                    shared = release.mechanism if isinstance(release.mechanism, Correlated) else None
                    noise = noise_of(release.mechanism)
                    own = Shown(sensor, step.step, sensor.most_counts, noise, correlated=shared)
                    late = replace(own, missed=sensor.window.first_of(step.step)) if sensor.window else own
                    found.append(own)
                    found += [replace(late if step.step % 2 else own, again=n) for n in range(1, values)]
        return found

    def optimum(self, horizon: tuple[int, int], until: int, *, among: bool) -> float | None:
        """The best of any adversary about person 0, ``among`` the others; None where it is too much.

        In the crowd the adversary may know where some of the others are, or some may go with person 0.
        """
        shown, mistakes, asked = self.shown(until), self.settings.mistakes, self._asked()
        if not among:
            return optimum_of(self.chains[:1], shown, self.steps, horizon, mistakes, asked=asked)
        assert self.adversary is not None
        companions, known = self.adversary.companions, self.adversary.known
        if any(each.sensor.counts is Counts.OCCUPIED for each in shown):
            known = 0  # whoever is known to be there says more than whoever is not there
        priors = self.others[: len(self.others) - self.strangers]
        vouched = self.others[len(priors) :]
        gone = min(companions + known, len(priors))
        found = [
            optimum_of(
                [self.chains[0], *rest],
                shown,
                self.steps,
                horizon,
                mistakes,
                vouched=vouched,
                together=1 + companions,
                alone=self.adversary.alone,
                once=self.adversary.counted_once,
                asked=asked,
            )
            for rest in ((priors[gone:], priors[: len(priors) - gone]) if gone else (priors,))
        ]
        return None if None in found else max(each for each in found if each is not None)

    def _asked(self) -> Asked | None:
        """The label of each place, and what a wrong one costs in each step."""
        question = self.settings.question
        if question is None:
            return None
        names = self.population.location_names
        groups = list(question.groups.values()) if question.groups else [[name] for name in names]
        labels = [next((k for k, own in enumerate(groups, 1) if name in own), 0) for name in names]
        weights = question.weights or (1,)
        costs = [weights[step % len(weights)] for step in range(self.steps)]
        return Asked(np.array(labels), np.array(costs))


@dataclass(frozen=True)
class Asked:
    """What is to be guessed: ``labels`` (K,) of the places, and ``costs`` (T,) of each step's wrong one."""

    labels: NDArray[np.int64]
    costs: NDArray[np.int64]

    def right(self, traces: NDArray[np.int64], horizon: tuple[int, int], mistakes: int) -> Floats:
        """1 where a guess of labels (row) costs at most so much in a trace (column)."""
        costs, own = self.costs[horizon[0] : horizon[1] + 1], self.labels[traces]
        known = [np.unique(self.labels) if cost else [0] for cost in costs]
        guesses = np.array(list(product(*known)))
        return ((guesses[:, None] != own[None]) @ costs <= mistakes).astype(float)


def optimum_of(
    people: Sequence[Chain],
    shown: list[Shown],
    steps: int,
    horizon: tuple[int, int],
    mistakes: int,
    mixed: Sequence[Sequence[Chain]] = (),
    *,
    vouched: Sequence[Chain] = (),
    together: int = 1,
    alone: float = 1.0,
    once: float = 0.0,
    asked: Asked | None = None,
) -> float | None:
    """The best of any adversary about the first of the ``people`` who knows where none of the others is.

    Each of the ``mixed`` is one more person, who moves by one of these chains with even chances. The first
    person is in a group of so many who go ``together``. Each of the other people moves ``alone`` with that
    chance, or makes every move of all others who live alike and are not alone; the ``vouched`` all do. Who
    moves alone is counted ``once`` with that chance in each count of passages, else as often as may be.
    """
    others = len(people) - 1 + len(mixed) + len(vouched) + together
    sizes = [1 + each.most * others + each.noise.size for each in shown]
    most = _MOST_CELLS / (20 if others > _MANY or any(each.correlated for each in shown) else 1)
    cells = float(np.prod(np.array(sizes, dtype=np.float64)))
    if not shown or cells > most:
        return None
    everything = all_paths(*people[0], steps)
    paths = everything.paths
    bits = together * np.stack([each.added(paths) for each in shown], axis=1)
    added, added_of = np.unique(bits, axis=0, return_inverse=True)
    if len(added) * cells > _MOST_OUTCOMES:
        return None
    law = np.ones((1,) * len(shown))
    for each_law in _laws_of_groups(shown, people[1:], steps, alone, once):
        law = _sum_of(each_law, law) if each_law.size < law.size else _sum_of(law, each_law)
    for each_law in _laws_of_groups(shown, vouched, steps, 1.0, once):
        law = _sum_of(each_law, law) if each_law.size < law.size else _sum_of(law, each_law)
    for chains in mixed:
        mean = [_law_of(shown, own.paths, own.probability) for own in (all_paths(*c, steps) for c in chains)]
        law = _sum_of(law, np.mean(mean, axis=0))
    for axis, each in enumerate(shown):
        law = _anybody(law, axis) if each.sensor.counts is Counts.OCCUPIED else law
    trace, trace_of = np.unique(paths[:, horizon[0] : horizon[1] + 1], axis=0, return_inverse=True)
    likely = np.zeros((len(trace), len(added)))
    np.add.at(likely, (trace_of.ravel(), added_of.ravel()), everything.probability)
    room = [each.most * together for each in shown]
    outcomes = np.zeros((len(added), *(n + most for n, most in zip(law.shape, room, strict=True))))
    for row, own in zip(outcomes, added, strict=True):
        row[tuple(slice(k, k + n) for k, n in zip(own, law.shape, strict=True))] = law
    for axis, each in enumerate(shown, start=1):
        outcomes = _anybody(outcomes, axis) if each.sensor.counts is Counts.OCCUPIED else outcomes
    for numbers, noise in _independent_noise(shown):
        outcomes = _noised(outcomes, [1 + number for number in numbers], noise)
    close = within(trace, trace, mistakes) if asked is None else asked.right(trace, horizon, mistakes)
    right = np.unique(close @ likely, axis=0)
    return float((right @ outcomes.reshape(len(added), -1)).max(axis=0).sum())


def _laws_of_groups(
    shown: list[Shown], people: Sequence[Chain], steps: int, alone: float, once: float
) -> Iterator[Floats]:
    """The law of what all who live alike add to the values, of each group of them."""
    groups: dict[tuple[bytes, int], list[Chain]] = {}
    for start, matrices in people:
        groups.setdefault((start.tobytes(), id(matrices)), []).append((start, matrices))
    for group in groups.values():
        theirs = all_paths(*group[0], steps)
        law = _law_of(shown, theirs.paths, theirs.probability, once)
        if alone == 1.0:
            yield _sum_of_equal(law, len(group))
            continue
        found, one = (
            np.zeros([1 + each.most * len(group) for each in shown]),
            _law_of(shown, theirs.paths, theirs.probability),
        )
        for path in np.argwhere(one > 0.0):  # of all who are not alone
            each_law = alone * law
            each_law[tuple(path)] += 1.0 - alone
            found += one[tuple(path)] * _sum_of_equal(each_law, len(group))
        yield found


def _sum_of_equal(one: Floats, number: int) -> Floats:
    """The law of a sum of so many of the same law."""
    found = one
    for _ in range(number - 1):
        found = _sum_of(found, one)
    return found


def noise_of(mechanism: Mechanism) -> Floats:
    """Masses around zero; those far out are left out, by which the adversary loses."""
    if mechanism.is_exact:
        return np.ones(1)
    law = mechanism.noise_law()
    assert law is not None
    middle = law.probabilities.size // 2
    if middle <= _LIKELY:
        return law.probabilities
    return np.asarray(law.probabilities[middle - _LIKELY : middle + _LIKELY + 1])


def _law_of(shown: list[Shown], paths: NDArray[np.int64], probability: Floats, once: float = 0.0) -> Floats:
    """What a person adds who is counted ``once`` with this chance, wherever that may be more often."""
    law = np.zeros([each.most + 1 for each in shown])
    may_be = [(False, True) if each.sensor.window is None and each.most > 1 else (False,) for each in shown]
    for is_once in product(*may_be):
        chance = 1.0
        for may, single in zip(may_be, is_once, strict=True):
            chance *= once if single else 1.0 - once * (len(may) - 1)
        often = (
            each.added(paths) // (each.most if single else 1)
            for each, single in zip(shown, is_once, strict=True)
        )
        np.add.at(law, tuple(often), chance * probability)
    return law


def _anybody(law: Floats, axis: int) -> Floats:
    """The law where a sensor says only whether its count is above 0."""
    nobody, more = np.split(law, [1], axis)
    return np.concatenate((nobody, more.sum(axis, keepdims=True)), axis)


def _independent_noise(shown: list[Shown]) -> Iterator[tuple[list[int], Floats]]:
    """The numbers of the values whose noise is of one draw, with its law: of most values each has its own."""
    vectors: dict[tuple[str, int, int], list[int]] = {}
    for number, each in enumerate(shown):
        if each.correlated is None:
            yield [number], each.noise
        else:
            vector = each.sensor.name, each.step // each.correlated.noise.steps, each.again
            vectors.setdefault(vector, []).append(number)
    for numbers in vectors.values():
        if len(numbers) == 1:
            yield numbers, shown[numbers[0]].noise
        else:
            one, other = (shown[number].correlated for number in numbers)
            assert one is not None and other is not None
            positions = np.ix_(*[[one.position, other.position]] * 2)
            yield numbers, law_of_two(one.noise.covariance[positions])


def law_of_two(covariance: Floats) -> Floats:
    """Masses of two correlated Gaussian numbers, both rounded; those far out are left out."""
    edges = np.arange(-_LIKELY, _LIKELY + 2) - 0.5
    nodes, weights = np.polynomial.legendre.leggauss(40)
    one = edges[:-1, None] + 0.5 * (1.0 + nodes)
    density = 0.5 * weights * stats.norm.pdf(one, scale=np.sqrt(covariance[0, 0]))
    middle = covariance[0, 1] / covariance[0, 0] * one[..., None]
    sigma = np.sqrt(covariance[1, 1] - covariance[0, 1] ** 2 / covariance[0, 0])
    below = stats.norm.cdf(edges, loc=middle, scale=sigma)
    return np.asarray(np.einsum("in,inj->ij", density, np.diff(below)))


def _noised(law: Floats, axes: list[int], noise: Floats) -> Floats:
    """The law of the values with this noise, of one draw, added along some axes."""
    shape = list(law.shape)
    for axis, size in zip(axes, noise.shape, strict=True):
        shape[axis] += size - 1
    found, where = np.zeros(shape), [slice(None)] * law.ndim
    for first, probability in np.ndenumerate(noise):
        for axis, begin in zip(axes, first, strict=True):
            where[axis] = slice(begin, begin + law.shape[axis])
        found[tuple(where)] += probability * law
    return found


def _sum_of(one: Floats, other: Floats) -> Floats:
    found = np.zeros([a + b - 1 for a, b in zip(one.shape, other.shape, strict=True)])
    for where in np.argwhere(other > 0.0):
        found[tuple(slice(k, k + n) for k, n in zip(where, one.shape, strict=True))] += (
            other[tuple(where)] * one
        )
    return found


# What is drawn.


COUNTED = (
    *("presence", "passages", "moves", "sum", "limited", "occupied"),
    *("corrections", "correlated", "tiers"),
)
"""What the first sensor of a cell of the matrix counts, or how it is published."""
ADVERSARIES = ("informed", "crowd")
DECIDED = ("fixed", "schedule", "budget", "hindsight")
SHARED = CorrelatedNoise.of_covariance(np.array([[2.0, 0.8], [0.8, 2.0]]))


class Cell(NamedTuple):
    """One combination of the matrix."""

    counted: str
    adversary: str
    decided: str


def draw(rng: np.random.Generator, cell: Cell | None = None, *, longest: int = _SHORT) -> Deployment:
    """Two to three places, three to ``longest`` steps, one to three sensors, up to six others.

    Of a ``cell`` the first sensor, the adversary and who decides are those of the cell.
    """
    places, steps = int(rng.integers(2, 4)), int(rng.integers(3, longest + 1))
    if places == 3:
        steps = min(steps, (longest + 3) // 2)
    has_crowd = rng.random() < 0.5 if cell is None else cell.adversary == "crowd"
    adversary = CrowdAdversary() if has_crowd else None
    is_large = adversary is not None and rng.random() < 0.6  # where a crowd really hides somebody
    size = 1 if adversary is None else int(rng.integers(20, 61)) if is_large else int(rng.integers(2, 8))
    chains, population = _people(rng, places, size)
    how = str(rng.choice(["fixed", "budget", "hindsight"], p=[0.5, 0.35, 0.15]))
    if cell is not None:
        how = "fixed" if cell.decided == "schedule" else cell.decided
    sensors = _sensors(rng, places, cell)
    mechanisms = {each.name: _mechanism(rng) for each in sensors}
    if longest > _SHORT:
        sensors = [_rarer(rng, each) for each in sensors]
        shared = [name for name in mechanisms if rng.random() < 0.08]
        mechanisms |= {name: Correlated.of(SHARED, 0) for name in shared}
    if cell is not None and cell.counted in ("tiers", "correlated"):
        mechanisms["s0"] = TIERED if cell.counted == "tiers" else Correlated.of(SHARED, 0)
    sensors = [_with_corrections(rng, each) for each in sensors]
    if cell is not None and cell.counted == "corrections":
        sensors[0] = replace(sensors[0], corrections=1)
    registry = SensorRegistry(population.location_names, tuple(sensors))
    announced = _announced(rng, sensors, steps, 2 if size >= _MANY else 4)
    horizon = int(rng.integers(1, min(steps, 3) + 1))
    mistakes = int(rng.integers(min(horizon, 2)))
    limit = None
    policy: FixedPolicy | BudgetPolicy
    if how == "fixed":
        steps_of = {
            n: CorrelatedSteps(m.noise) if isinstance(m, Correlated) else m for n, m in mechanisms.items()
        }
        policy = FixedPolicy(registry, Raw(), steps_of)
        registry = registry.with_windows(policy.in_windows())
    else:
        limit = RiskBudget(added=float(rng.choice([0.05, 0.15, 0.4])), in_hindsight=how == "hindsight")
        wishes = SensorWishes(noised=(Gaussian(0.7), Gaussian(1.5), Gaussian(4.0)), max_sigma=4.0)
        knows = cell is not None or rng.random() < 0.5
        policy = BudgetPolicy(
            *(registry, wishes, {}, limit, SearchSettings()),
            dict(enumerate(announced)) if knows else None,
            look_ahead=int(rng.integers(0, 3)) if knows else 0,
        )
    settings = HorizonSettings(horizon, mistakes, sharpen=bool(rng.random() < 0.7), sharpen_above=0.0)
    in_crowd = adversary is not None and limit is not None and bool(cell is not None or rng.random() < 0.6)
    features = {how, "crowd" if adversary is not None else "informed"}
    features |= {_kind(each) for each in sensors} | {"corrections" for each in sensors if each.corrections}
    if how == "fixed":
        features |= {each.name for each in mechanisms.values()}
    if any(each.window is not None and each.window.most_sensors for each in sensors):
        features.add("few sensors a window")
    return Deployment(
        *(chains, population, registry, announced, settings, policy, limit, adversary, in_crowd),
        frozenset(features | ({"budget in the crowd"} if in_crowd else set())),
        mechanisms,
        chains[1:],
    )


def draw_widely(rng: np.random.Generator) -> Deployment:
    """One that also has any of: up to seven steps and two mistakes, a limit on the work, a question.

    Its adversary may know people or have companions, and its crowd personas, people in step, or strangers.
    """
    drawn = _hidden(rng) if rng.random() < 0.2 else draw(rng, longest=_LONG)
    names = set(drawn.features)
    settings = drawn.settings
    if "hidden" not in names and rng.random() < 0.6:
        horizon = int(rng.integers(2, drawn.steps + 1))
        settings = replace(settings, horizon=horizon, mistakes=int(rng.integers(min(horizon, 3))))
    if rng.random() < 0.4:
        operations = int(10.0 ** rng.uniform(0.0, 6.0))
        settings = replace(settings, operations=operations, sharpen=True)
        names.add("limited work")
    if rng.random() < 0.3:
        settings = replace(settings, question=random_question(rng, drawn))
        names.add("question")
    if "hidden" not in names and "hindsight" not in names and rng.random() < 0.4:
        chains = list(drawn.chains)
        renewed = Renewed.drawn(rng, chains, drawn.steps, int(rng.integers(1, drawn.steps)))
        drawn = replace(drawn, chains=chains, others=chains[1:], renewed=renewed)
        names |= {"renewed"} if renewed.is_renewed[0] else {"others renewed"}
    names |= {f"{settings.mistakes} mistakes"} | ({"long horizon"} if settings.horizon > 3 else set())
    drawn = replace(drawn, settings=settings, features=frozenset(names))
    return drawn if drawn.adversary is None else _in_a_wider_crowd(rng, drawn)


def _hidden(rng: np.random.Generator) -> Deployment:
    """One count or two of half of many people who move alone: a ceiling in the crowd is near the truth."""
    moves = rng.dirichlet([8.0, 8.0], size=(1, 2))
    start = rng.dirichlet([8.0, 8.0])
    count, steps = int(rng.integers(10, 41)), int(rng.integers(2, 4))
    priors = [MovementPrior.from_dense(f"p{number}", moves[0], initial=start) for number in range(count)]
    population = Population.pack(priors, ["0", "1"])
    sensor = Sensor("s0", (0,))
    registry = SensorRegistry(population.location_names, (sensor,))
    shown = rng.permutation(steps)[: int(rng.integers(1, 3))]
    announced = [("s0",) if step in shown else () for step in range(steps)]
    mechanism = Raw() if rng.random() < 0.7 else Gaussian(0.7)
    return Deployment(
        [(start, moves)] * count,
        population,
        registry,
        announced,
        HorizonSettings(1, 0, sharpen_above=0.0),
        FixedPolicy(registry, mechanism, {}),
        None,
        CrowdAdversary(),
        False,
        frozenset({"fixed", "crowd", "presence", mechanism.name, "hidden"}),
        {"s0": mechanism},
        [(start, moves)] * (count - 1),
    )


def random_question(rng: np.random.Generator, drawn: Deployment) -> Question:
    """One group of places or two, or each place; now and then only some steps of a cycle, or weights."""
    names = list(drawn.population.location_names)
    first = {"a": [names[rng.integers(len(names))]]}
    groups = [{}, first, {"a": names[:1], "b": names[1:]}][rng.integers(3)]
    weights = None
    if rng.random() < 0.5 or not groups:
        length = drawn.chains[0][1].shape[0] * int(rng.integers(1, 3))
        weights = rng.integers(0, 3, length)
        weights[rng.integers(length)] = 1
    return Question("asked", groups, weights)


def _in_a_wider_crowd(rng: np.random.Generator, drawn: Deployment) -> Deployment:
    """With any of the things that may be said of a crowd, and those who are really there."""
    names, others, population = set(drawn.features), list(drawn.others), drawn.population
    adversary = CrowdAdversary()
    if rng.random() < 0.3:
        adversary = replace(adversary, known=int(rng.integers(1, len(others) + 1)))
        names.add("known")
    if rng.random() < 0.3:
        adversary = replace(adversary, companions=int(rng.integers(1, 3)))
        names.add("companions")
    if rng.random() < 0.3:
        adversary = replace(adversary, alone=float(rng.choice([0.3, 0.7, 0.9])))
        names.add("in step")
    if "passages" in names and rng.random() < 0.7:
        adversary = replace(adversary, counted_once=float(rng.choice([0.5, 0.8, 1.0])))
        names.add("counted once")
    if rng.random() < 0.4 and len(drawn.chains) < _MANY:
        adversary = replace(adversary, least=float(rng.choice([1.0, 0.9, 0.6])))
        weights = rng.integers(1, 9, len(drawn.chains)).astype(np.float64)
        there = np.ceil(weights * adversary.least - 1e-9).astype(int)
        there[0] -= 1
        others = [chain for chain, number in zip(drawn.chains, there, strict=True) for _ in range(number)]
        population = replace(population, weights=weights)
        names |= {"personas"} | ({"at least"} if adversary.least < 1.0 else set())
    strangers: list[Chain] = []
    if rng.random() < 0.4:
        lines, strangers = _strangers(rng, drawn)
        adversary = replace(adversary, strangers=lines)
        names |= {"strangers"} if lines else set()
    return replace(
        drawn,
        adversary=adversary,
        population=population,
        others=[*others, *strangers],
        strangers=len(strangers),
        features=frozenset(names),
    )


def _strangers(rng: np.random.Generator, drawn: Deployment) -> tuple[tuple[Strangers, ...], list[Chain]]:
    """Up to 30 who live by one chain, and what is true of them at the first sensor whatever else counts."""
    sensor, *others = drawn.registry.sensors
    if sensor.window is not None or sensor.most_counts != 1 or not sensor.is_sum:
        return (), []
    places = drawn.chains[0][0].size
    chain = rng.dirichlet(np.full(places, 1.5)), rng.dirichlet(np.full(places, 3.0), size=places)[None]
    people = int(rng.integers(1, 31 if len(drawn.chains) < _MANY else 11))
    cover = np.isin(np.arange(places), sensor.locations)
    lines = []
    for step in range(drawn.steps):
        if rng.random() < 0.7:
            covers = [np.isin(np.arange(places), each.locations) for each in others]
            counted = [np.any([cover, *some], axis=0) for some in _subsets(covers)]
            each = [chances(chain, step, drawn.steps, cover, anywhere) for anywhere in counted]
            least, most = min(low for low, _ in each), max(high for _, high in each)
            lines.append(Strangers(sensor.name, step, step + 1, 24, people, least, most))
    return tuple(lines), [chain] * people if lines else []


def _subsets(covers: Sequence[NDArray[np.bool_]]) -> Iterator[tuple[NDArray[np.bool_], ...]]:
    """Those of the other sensors that may count in a step."""
    for size in range(len(covers) + 1):
        yield from combinations(covers, size)


def _people(
    rng: np.random.Generator, places: int, count: int
) -> tuple[list[tuple[Floats, Floats]], Population]:
    cycle, names = int(rng.integers(1, 3)), [str(place) for place in range(places)]
    pool = []
    for _ in range(min(count, 2)):
        kinds = rng.choice(KINDS, size=cycle, p=KIND_SHARES)
        moves = np.stack([random_matrix(rng, places, kind) for kind in kinds])
        if count >= _MANY:
            moves = rng.dirichlet(np.full(places, 4.0), size=(cycle, places))
        pool.append(moves)
    has_own = bool(rng.random() < 0.4) and count < _MANY
    priors, chains = [], []
    for number in range(count):
        moves = pool[number % len(pool)]
        start = rng.dirichlet(np.full(places, 1.5)) if has_own else None
        given = moves if cycle > 1 else moves[0]
        priors.append(MovementPrior.from_dense(f"p{number}", given, initial=start))
    population = Population.pack(priors, names)
    for number in range(count):
        own = population.initial(number)
        start = population.chain(number).start[0].copy() if own is None else own
        chains.append((start, pool[number % len(pool)]))
    return chains, population


def _sensors(rng: np.random.Generator, places: int, cell: Cell | None) -> list[Sensor]:
    found: list[Sensor] = []
    for number in range(int(rng.choice([1, 2, 3], p=[0.4, 0.4, 0.2]))):
        name = f"s{number}"
        where = tuple(np.flatnonzero(rng.random(places) < 0.4).tolist()) or (int(rng.integers(places)),)
        kind = str(
            rng.choice(["presence", "passages", "sum", "limited", "moves"], p=[0.3, 0.15, 0.25, 0.1, 0.2])
        )
        length = int(rng.integers(1, 4))
        since = int(rng.choice([0, 0, 1, 2])) if length > 1 else 0
        if cell is not None and number == 0:
            kind = cell.counted if cell.counted in COUNTED[:6] else "presence"
            if cell.counted in ("correlated", "corrections"):
                kind = str(rng.choice(["presence", "sum", "limited", "moves"]))
        if kind == "presence":
            found.append(Sensor(name, where))
        elif kind == "occupied":
            found.append(Sensor(name, where, counts=Counts.OCCUPIED))
        elif kind == "passages":
            found.append(Sensor(name, where, most_counts=2))
        elif kind == "sum":
            found.append(
                Sensor(name, where, most_counts=length, window=CountingWindow(length, first_step=since))
            )
        elif kind == "limited":
            found.append(
                Sensor(name, where, most_counts=1, window=CountingWindow(max(length, 2), first_step=since))
            )
        else:
            ends = rng.permutation(places)[:2].tolist()
            moves = [(ends[0], ends[1], 1)] + ([(ends[1], ends[0], 1)] if rng.random() < 0.5 else [])
            window = CountingWindow(length, tuple(sorted(moves)), first_step=since)
            found.append(Sensor(name, tuple(sorted(ends)), most_counts=length, window=window))
    return found


def _rarer(rng: np.random.Generator, sensor: Sensor) -> Sensor:
    """Now and then whether anybody is there, or a window in which few sensors can count one person."""
    if sensor.window is not None:
        most = int(rng.integers(1, 3)) if rng.random() < 0.3 else None
        return replace(sensor, window=replace(sensor.window, most_sensors=most))
    if sensor.most_counts == 1 and rng.random() < 0.15:
        return replace(sensor, counts=Counts.OCCUPIED)
    return sensor


def _kind(sensor: Sensor) -> str:
    window = sensor.window
    if window is None and not sensor.is_sum:
        return "occupied"
    if window is None:
        return "presence" if sensor.most_counts == 1 else "passages"
    if window.moves:
        return "moves"
    return "sum" if sensor.most_counts >= window.steps else "limited"


def _mechanism(rng: np.random.Generator) -> Mechanism:
    return Raw() if rng.random() < 0.45 else NOISES[int(rng.integers(len(NOISES)))]


def _with_corrections(rng: np.random.Generator, sensor: Sensor) -> Sensor:
    return replace(sensor, corrections=1) if rng.random() < 0.15 else sensor


def _announced(
    rng: np.random.Generator, sensors: list[Sensor], steps: int, most: int
) -> list[tuple[str, ...]]:
    """At most so many values, so that they can be written down."""
    left, found = most, []
    for step in range(steps):
        names = []
        for sensor in sensors:
            ends = sensor.window is None or sensor.window.ends_with(step)
            values = 1 + sensor.corrections
            if ends and values <= left and rng.random() < 0.75:
                names.append(sensor.name)
                left -= values
        found.append(tuple(names))
    return found


class Compared(NamedTuple):
    """How many ceilings were compared with the truth, and what is wrong, in words.

    ``least`` is by how much a ceiling is above the best adversary at least.
    """

    ceilings: int
    wrong: list[str]
    least: float


def compare(found: Deployment) -> Compared:
    """Each horizon's ceilings, and limits, with the best adversary who has seen all that was published."""
    compared, wrong, least = 0, [], np.inf
    horizon = found.settings.horizon
    for last in range(horizon - 1, found.steps):
        window = (last - horizon + 1, last)
        for among, figures in ((False, found.informed), (True, found.crowd)):
            if not figures:
                continue
            best = found.optimum(window, last, among=among)
            if best is None:
                continue
            compared += 1
            least = min(least, figures[last] - best)
            if best > figures[last] + 1e-9:
                wrong.append(f"{window} among={among}: optimum {best} above {figures[last]}")
            has_company = among and found.adversary is not None and found.adversary.companions > 0
            is_last = last == found.steps - 1 and not has_company
            if found.sampled is not None and is_last and best > found.sampled + 1e-9:
                wrong.append(f"{window} among={among}: optimum {best} above {found.sampled} by sampling")
            if found.limit is not None and among == found.in_crowd:
                most = _most(found, window)
                if most is not None and best > most + 1e-9:
                    wrong.append(f"{window}: optimum {best} above the limit {most}")
                if most is not None and found.limit.in_hindsight:
                    later = found.optimum(window, found.steps - 1, among=among)
                    if later is not None and later > most + 1e-9:
                        wrong.append(f"{window}: in hindsight {later} above the limit {most}")
    return Compared(compared, wrong, least)


def audits(found: Deployment) -> Iterator[tuple[float, float]]:
    """Of what was published what the best adversary wins, and the ceiling, in all steps together.

    Against the informed adversary, and against that of the crowd where there is one. None where habits
    changed: what is audited is one prior a person.
    """
    if found.renewed is not None:
        return
    schedule = Schedule(tuple(replace(each, windows=None) for each in found.decided))
    mistakes, until = found.settings.mistakes, found.steps - 1
    question = found.settings.question
    population = found.population if question is None else question.asked_of(found.population)
    for adversary in dict.fromkeys((None, found.adversary)):
        best = found.optimum((0, until), until, among=adversary is not None)
        if best is not None:
            (audit,) = audit_population(population, schedule, mistakes, people=[0], adversary=adversary)
            yield best, audit.certified


def _most(found: Deployment, window: tuple[int, int]) -> float | None:
    """The limit of person 0; None where habits alone are above it, or may be by their bound.

    None, too, of horizons before a place that was told is forgotten, and where a window was open then.
    """
    from accounting.exposure import Exposure, baseline

    people, begin, (start, _) = found.population, 0, found.chains[0]
    if found.renewed is not None and found.renewed.is_renewed[0] and window[1] >= found.renewed.step:
        people, begin = found.renewed.after, found.renewed.step
        if window[0] < found.held_from or found.registry.windowed:
            return None
        law = people.initial(0)
        assert law is not None
        start = law
    nothing = Schedule(tuple(StepSchedule(step) for step in range(found.steps - begin)), begin)
    question = found.settings.question
    person = people if question is None else question.asked_of(people)
    exposure = Exposure.of(person.chain(0), nothing, start.size, start)
    horizon = window_of(exposure, window[0] - begin, window[1] - begin)
    mistakes = found.settings.mistakes
    assert found.limit is not None and found.limit.added is not None
    most = baseline(horizon, mistakes).success + found.limit.added
    return None if prior_guess(horizon, mistakes).best >= most - 1e-6 else most

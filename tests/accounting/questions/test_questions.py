"""Ceilings about labels against the best adversary by enumeration, and against reference numbers.

States share places, and a question may be about groups of places, about some slots, or weigh them. Chains
have zeros and closed classes; sensors are of several places, overlapping, raw, noised or suppressed.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import tallyguard as tg
from accounting.audit import AttackSettings, audit_exposure
from accounting.bounds import Effort, horizon_risk
from accounting.continuous import ContinuousAccountant
from accounting.exposure import Exposure
from accounting.settings import HorizonSettings
from models.exceptions import PriorError
from models.mechanisms import BoundedNoise, Raw
from models.priors import MovementPrior, Population, Question
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import random_case
from tests.accounting.enumeration import all_paths
from tests.accounting.questions.enumeration import labelled_optimum
from tests.accounting.random_runs import MECHANISMS, channel, random_step, start_of
from tests.volume import randoms

REFERENCE = json.loads((Path(__file__).parent / "labels.json").read_text())["cases"]
_MOST_ENTRIES = 2e5


class Log:
    """One random person whose states share places, a question, and a schedule short enough to enumerate."""

    def __init__(self, rng: np.random.Generator, longest: int = 5) -> None:
        case = random_case(rng, largest=4, longest=longest)
        states, steps = case.matrices.shape[1], len(case.labels)
        names = [str(location) for location in range(3)]
        places = np.sort(rng.integers(0, 3, states))
        own_start = bool(rng.random() < 0.5)
        prior = MovementPrior.from_dense(
            "p", case.matrices, places=places, initial=case.start if own_start else None
        )
        self.question = random_question(rng, len(case.matrices))
        population = Population.pack([prior], names)
        self.population = self.question.asked_of(population)
        self.steps, self.states = steps, states
        self.start, self.first_slot = start_of(population, case.first_slot), case.first_slot
        size, self.schedule, self.channels = float(states**steps), [], []
        for t in range(steps):
            is_small = size < _MOST_ENTRIES / 20
            step = random_step(rng, t, 3, MECHANISMS if is_small and rng.random() < 0.5 else (Raw(),))
            self.schedule.append(step)
            self.channels.append(channel(3, step)[places])
            size *= self.channels[-1].shape[1]
        groups = self.question.groups or {name: [name] for name in names}
        group = [next((k for k, own in enumerate(groups.values(), 1) if each in own), 0) for each in names]
        weights = self.question.weights or (1,)
        slots = (self.first_slot + np.arange(steps)) % len(weights)
        self.labels = np.tile(np.array(group)[places], (steps, 1))
        self.cost = np.array(weights)[slots]
        self.paths = all_paths(self.start, case.matrices, steps, self.first_slot)

    def optimum(self, window: tuple[int, int], mistakes: int, seen: int) -> float:
        """Of whoever saw the first so many steps."""
        shown = [each if t < seen else np.ones((self.states, 1)) for t, each in enumerate(self.channels)]
        return labelled_optimum(self.paths, shown, window, self.labels, self.cost, mistakes)

    def exposure(self) -> Exposure:
        schedule = Schedule(tuple(self.schedule), self.first_slot)
        population = self.population
        return Exposure.of(population.chain(0), schedule, population.location_count, population.initial(0))


def random_question(rng: np.random.Generator, cycle: int) -> Question:
    """Places, one group or two of them; now and then only some slots of the cycle, or weights."""
    groups = [{}, {"clinic": ["1"]}, {"north": ["0"], "south": ["1", "2"]}][rng.integers(3)]
    weights = None
    if rng.random() < 0.5:
        length = cycle * int(rng.integers(1, 3))
        weights = rng.integers(0, 3, length)
        weights[rng.integers(length)] = 1
    return Question("asked", groups, weights)


EFFORTS = (Effort(patterns=0, vectors=1), Effort(vectors=0), Effort(vectors=2), Effort(vectors=16))


def check(rng: np.random.Generator) -> None:
    """One log: every bound of an audit, a window within the log, and the running account."""
    log = Log(rng)
    exposure, last = log.exposure(), log.steps - 1
    mistakes = int(rng.integers(log.steps))
    effort = EFFORTS[rng.integers(len(EFFORTS))]
    optimum, guess = (log.optimum((0, last), mistakes, seen) for seen in (log.steps, 0))
    audit = audit_exposure(exposure, mistakes, effort=effort, attacks=AttackSettings(50))
    bounds = {name: value for name, value in audit.bounds.model_dump().items() if value is not None}
    low = {name: value for name, value in bounds.items() if value < optimum * (1 - 1e-9)}
    assert not low, (low, optimum)
    assert audit.baseline <= guess * (1 + 1e-9)
    assert audit.prior_guess.best >= guess * (1 - 1e-9)
    first = int(rng.integers(log.steps))
    until = int(rng.integers(first, log.steps))
    wrong = int(rng.integers(until - first + 1))
    for is_hindsight, seen in ((False, until + 1), (True, log.steps)):
        risk = horizon_risk(exposure, first, until, wrong, in_hindsight=is_hindsight, effort=effort)
        assert risk.certified >= log.optimum((first, until), wrong, seen) * (1 - 1e-9)
    horizon = int(rng.integers(1, log.steps + 1))
    allowed = int(rng.integers(horizon))
    settings = HorizonSettings(
        horizon, allowed, (0.01,), log.first_slot, sharpen_above=0.0, vectors=int(rng.choice([1, 8]))
    )
    accountant = ContinuousAccountant(log.population, settings)
    for step in log.schedule:
        accountant.apply(step)
        window = step.step - horizon + 1, step.step
        if window[0] >= 0:
            best = log.optimum(window, allowed, step.step + 1)
            assert accountant.risk()[0] >= best * (1 - 1e-9)
            assert accountant.baseline()[0] <= log.optimum(window, allowed, 0) * (1 + 1e-9)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(2))
def test_no_adversary_who_guesses_labels_beats_a_ceiling(seed: int) -> None:
    """States that share a place, districts, hours, weights: audits, windows of a log, running accounts."""
    for number in range(40):
        check(np.random.default_rng([seed, number]))


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_who_guesses_labels_beats_a_ceiling_on_two_thousand_logs() -> None:
    for rng in randoms(43, 2_000):
        check(rng)


@dataclass(frozen=True)
class UpToThree(BoundedNoise):
    """Discrete Gaussian noise on -3..3: that of the reference."""

    sigma: float
    name = "up to three"

    def law(self) -> np.ndarray:
        return np.exp(-(np.arange(-3, 4) ** 2) / (2.0 * self.sigma**2))


class Reference:
    """A case of the reference: its steps are the slots of a cycle that is gone through once.

    Each state is a place, twice: the device that may miss a person of it reads (the second), or does not.
    """

    def __init__(self, case: dict) -> None:
        states, steps = len(case["start"]), len(case["labels"])
        moves = case["moves"] * (steps - 1 if len(case["moves"]) == 1 else 1)
        misses = [[each["d"] for each in sensors if each["kind"] == "miss"] for sensors in case["sensors"]]
        reads = np.array([[max(own, default=0.0), 1.0 - max(own, default=0.0)] for own in misses])
        twice = [np.kron(move, np.tile(reads[t], (2, 1))) for t, move in enumerate(moves, 1)]
        prior = MovementPrior.from_dense(
            "p", np.array([*twice, np.eye(2 * states)]), initial=np.kron(case["start"], reads[0])
        )
        names = [f"{state} {device}" for state in range(states) for device in ("off", "on")]
        (label,) = {tuple(own) for own in case["labels"] if own is not None}
        groups: dict[str, list[str]] = {str(each): [] for each in sorted(set(label))}
        for number, name in enumerate(names):
            groups[str(label[number // 2])].append(name)
        asked = Question("asked", groups, [int(own is not None) for own in case["labels"]])
        self.population = asked.asked_of(Population.pack([prior], names))
        self.schedule = [
            StepSchedule(t, tuple(self.release(t, k, each) for k, each in enumerate(sensors)))
            for t, sensors in enumerate(case["sensors"])
        ]

    @staticmethod
    def release(step: int, number: int, sensor: dict) -> SensorRelease:
        """What a sensor publishes; those of one step that miss people cover different states."""
        mechanism = UpToThree(sensor["sigma"]) if sensor["kind"] == "noise" else Raw()
        if sensor["kind"] == "noise":
            assert mechanism.noise_law().probabilities == pytest.approx(sensor["pmf"], abs=1e-12)
        counted = (1,) if sensor["kind"] == "miss" else (0, 1)
        places = sorted(2 * state + each for state in sensor["cover"] for each in counted)
        return SensorRelease(Sensor(f"{step} {number}", tuple(places)), mechanism)

    def exposure(self) -> Exposure:
        population = self.population
        return Exposure.of(
            population.chain(0),
            Schedule(tuple(self.schedule)),
            population.location_count,
            population.initial(0),
        )

    def running_ceiling(self, mistakes: int) -> float:
        """After the last step, of the horizon that is the whole log."""
        settings = HorizonSettings(len(self.schedule), mistakes, sharpen_above=0.0)
        accountant = ContinuousAccountant(self.population, settings)
        accountant.apply_all(self.schedule)
        return float(accountant.risk()[0])


def kinds_of(case: dict) -> set[str]:
    return {sensor["kind"] for sensors in case["sensors"] for sensor in sensors}


@pytest.mark.parametrize("case", REFERENCE, ids=[each["name"] for each in REFERENCE])
def test_the_reference_cases(case: dict) -> None:
    """Second order, stages of a stay, clinic, districts, hidden days, phones that are off, misses, noise.

    Without noise the ceiling is the optimum, also of devices that miss; with noise it is near it. A running
    account is near it either way.
    """
    expected, mistakes = case["expected"], case["mistakes"]
    reference, has_noise = Reference(case), "noise" in kinds_of(case)
    exposure, best = reference.exposure(), expected["optimum"]
    audit = audit_exposure(exposure, mistakes)
    assert audit.baseline == pytest.approx(expected["guess"], rel=1e-9)
    assert audit.prior_guess.best == pytest.approx(expected["guess"], rel=1e-9)
    assert best - 1e-9 <= audit.certified <= best * (1.004 if has_noise else 1.0 + 1e-9)
    assert best - 1e-9 <= reference.running_ceiling(mistakes) <= best * 1.008
    bounds = {name: each for name, each in audit.bounds.model_dump().items() if each is not None}
    assert min(bounds.values()) >= best - 1e-9
    carried = audit_exposure(exposure, mistakes, effort=Effort(patterns=0, vectors=16)).bounds
    for bound in (carried.sandwich, *([] if has_noise else [carried.levels])):
        assert best * (1 - 1e-9) <= bound <= 1.01 * best
    if "told_at_hits" in expected:  # whoever is shown the state at each hit
        assert carried.frontier == pytest.approx(expected["told_at_hits"], rel=1e-4)


WITHOUT_NOISE = [each for each in REFERENCE if "raw_optimum" in each["expected"]]


@pytest.mark.parametrize("case", WITHOUT_NOISE, ids=[each["name"] for each in WITHOUT_NOISE])
def test_the_reference_cases_without_their_noise_and_misses(case: dict) -> None:
    """The optimum is that of raw counts, above that of the same with noise and misses."""
    raw = [[{"kind": "raw", "cover": each["cover"]} for each in own] for own in case["sensors"]]
    audit = audit_exposure(Reference({**case, "sensors": raw}).exposure(), case["mistakes"])
    assert audit.certified == pytest.approx(case["expected"]["raw_optimum"], rel=1e-9)
    assert audit.certified >= case["expected"]["optimum"] - 1e-9


WITH_NOISE = [each for each in REFERENCE if "divergence_states" in each["expected"]]


@pytest.mark.parametrize("case", WITH_NOISE, ids=[each["name"] for each in WITH_NOISE])
def test_what_the_reference_cases_tell_of_states(case: dict) -> None:
    """Each step's information about states, and the bound that follows from it.

    Where a device misses people, what it reads is asked here, too: that is more than where they are.
    """
    audit = audit_exposure(Reference(case).exposure(), case["mistakes"])
    expected = case["expected"]
    assert audit.bounds.divergence == pytest.approx(expected["divergence_states"], rel=2e-5)
    assert audit.bounds.divergence >= expected["divergence_states"] - 1e-9
    for sensors, nats, wanted in zip(
        case["sensors"], audit.information.per_step, expected["terms_states"], strict=True
    ):
        assert nats >= wanted - 1e-9
        if all(each["kind"] != "miss" for each in sensors):
            assert nats == pytest.approx(wanted, rel=1e-4)
    assert sum(audit.information.per_step) >= expected["information_states"] - 1e-9


STAY = {(0, 0): 0.05, (0, 1): 0.7, (1, 0): 0.3, (1, 1): 0.9}
"""How likely somebody who was at the second of two places before and now is at the first or second next."""


def second_order() -> np.ndarray:
    """States are (place before, place now)."""
    moves = np.zeros((4, 4))
    for (before, now), chance in STAY.items():
        moves[2 * before + now, 2 * now + 1] = chance
        moves[2 * before + now, 2 * now] = 1.0 - chance
    return moves


def test_states_of_one_place_are_asked_as_that_place_and_not_as_places_of_their_own() -> None:
    """The obvious way round, a place for each state, gives 0.852 where the best adversary wins 0.913."""
    moves, seen = second_order(), [[1], [], [1]]
    prior = tg.Prior.from_dense("x", moves, places=[0, 1, 0, 1])
    start = Population.pack([prior]).chain(0).start[0]
    paths = all_paths(start, moves[[0, 2, 1, 3]][:, [0, 2, 1, 3]][None], 3)
    labels = np.tile([0, 0, 1, 1], (3, 1))
    shown, nothing = np.eye(2)[[0, 0, 1, 1]], np.ones((4, 1))
    for mistakes in (0, 1):
        best = labelled_optimum(
            paths, [shown, nothing, shown], (0, 2), labels, np.ones(3, np.int64), mistakes
        )
        found = tg.audit(prior, tg.Schedule.raw(seen), mistakes)["x"]
        assert found.certified == pytest.approx(best, rel=1e-9)
        assert best == pytest.approx((0.913, 1.0)[mistakes], abs=5e-4)
        pseudo = tg.audit(
            tg.Prior.from_dense("x", moves), tg.Schedule.raw([[(1, 3)], [], [(1, 3)]]), mistakes, draws=0
        )
        if mistakes == 0:
            assert pseudo["x"].certified == pytest.approx(0.852, abs=5e-4), "what a place a state would say"


def test_a_plan_is_about_the_first_of_several_questions_and_says_what_it_does_to_each() -> None:
    """Its schedule is that of the first alone, and the figures of each are the running account's of it."""
    ada = tg.Prior.from_dense("ada", [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.25, 0.25, 0.5]])
    asked = tg.Question("clinic", {"clinic": ["1"]}), tg.Question(), tg.Question("late", weights=[0, 1])
    counts = tg.Schedule.raw([[1], [2], [1], [2]])
    several = tg.plan(ada, counts, 0, horizon=2, question=asked, risk=0.9)
    assert several.table() == tg.plan(ada, counts, 0, horizon=2, question=asked[0], risk=0.9).table()
    assert several.table() != tg.plan(ada, counts, 0, horizon=2, risk=0.9).table()
    assert "question clinic: whether a person was at clinic" in several.caption()
    assert list(several.by_question) == ["clinic", "place", "late"]
    for question in asked:
        settings = HorizonSettings(2, 0, question=None if question.is_place else question)
        account, found = (
            ContinuousAccountant(Population.pack([ada]), settings),
            several.by_question[question.name],
        )
        worst = (-1.0, 0.0)
        for step in several.details.schedule.steps:
            account.apply(step)
            worst = max(worst, (account.added()[0], account.risk()[0]), key=lambda each: each[0])
        assert (found["added"], found["ceiling"]) == pytest.approx(worst, abs=1e-12)
    with pytest.raises(tg.TallyguardError, match="names of their own"):
        tg.plan(ada, counts, 0, horizon=2, question=[asked[0], asked[0]], risk=0.9)


def test_a_question_that_is_which_place_changes_no_bit_and_labels_of_their_own_change_no_bound() -> None:
    """Each place as a group of its own is the same question by the other way through every kernel."""
    prior = tg.Prior.from_dense("x", [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.25, 0.25, 0.5]])
    schedule = tg.Schedule.gaussian([[1], [2], [1], []], 1.0)
    population = Population.pack([prior], ["0", "1", "2"])
    assert Question().asked_of(population) is population
    each = Question("each", {"a": ["0"], "b": ["1"], "c": ["2"]})
    plain, asked = (
        tg.audit(population, schedule, 1, question=question, draws=0)["x"] for question in (None, each)
    )
    assert asked.baseline == pytest.approx(plain.baseline, rel=1e-12)
    assert asked.bounds.exact == pytest.approx(plain.bounds.exact, rel=1e-12)
    assert asked.bounds.frontier == pytest.approx(plain.bounds.frontier, rel=1e-6)
    assert asked.bounds.levels == pytest.approx(plain.bounds.levels, rel=1e-6)
    assert plain.bounds.sandwich * 0.99 <= asked.bounds.sandwich <= plain.bounds.sandwich + 1e-9
    assert asked.asked == asked.steps == 4


def test_several_questions_have_a_guess_an_attack_and_a_ceiling_each() -> None:
    prior = tg.Prior.from_dense("x", second_order(), places=[0, 1, 0, 1])
    questions = [
        tg.Question(),
        tg.Question("home", {"home": ["0"]}),
        tg.Question("noon", weights=[0, 1, 0]),
        tg.Question("north", {"a": ["0"], "b": ["1"]}),
    ]
    found = tg.audit(prior, tg.Schedule.gaussian([[1], [], [1]], 1.0), 0, question=questions, draws=300)
    assert [each.question for each in found] == ["place", "home", "noon", "north"]
    for each in found:
        attacks = [tried.success for tried in each.attacks.values() if tried is not None]
        assert each.baseline <= max(attacks) <= each.certified
    place, home, noon, north = found
    assert home.certified == pytest.approx(place.certified, rel=1e-9), "two places: to be at one or not"
    assert north.certified == pytest.approx(home.certified, rel=1e-9)
    assert noon.asked == 1
    assert noon.certified > place.certified, "fewer steps to be wrong in"
    assert found.of("noon")["x"] is noon
    said = repr(found)
    assert "whether a person was at home in at least 3 of 3 steps" in said
    assert "where a person was in at least 1 of 1 steps that are asked about" in said


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"groups": {"a": ["0"], "b": ["0"]}}, "each place must be in one group"),
        ({"groups": {"a": []}}, "group 'a' of question 'q' must have places"),
        ({"weights": [0, 0]}, "weights of question 'q' must be whole numbers"),
        ({"weights": [0.5]}, "weights must be a list, each a whole number"),
        ({"weights": [101]}, "weights of question 'q' must be whole numbers in 0..100"),
        ({"groups": {"a": ["7"]}}, "places of group 'a' must be among the 2 locations, got '7'"),
        ({"weights": [1, 0, 0]}, "weights of question 'q' must be as many as slots of the priors' cycle"),
    ],
)
def test_what_is_no_question_is_refused_in_a_sentence(wrong: dict, said: str) -> None:
    matrix = [[0.5, 0.5], [0.5, 0.5]]
    people = Population.pack([MovementPrior.from_dense("x", [matrix, matrix])], ["0", "1"])
    with pytest.raises(PriorError, match=said):
        Question("q", **wrong).asked_of(people)


def test_an_account_keeps_its_question_through_a_snapshot_and_takes_no_other() -> None:
    prior = MovementPrior.from_dense("x", second_order(), places=[0, 1, 0, 1])
    people = Population.pack([prior], ["0", "1"])
    step = StepSchedule(0, (SensorRelease(Sensor("s", (1,)), Raw()),))
    accounts = {}
    for name, question in (("place", None), ("noon", Question("noon", weights=[1, 0]))):
        accounts[name] = ContinuousAccountant(people, HorizonSettings(3, 1, question=question))
        accounts[name].apply(step)
    assert accounts["place"].population.chain(0).label.tolist() == [[0, 0, 2, 2, 1]]
    assert accounts["noon"].population.chain(0).label.tolist() == [[0, 0, 2, 2, 1], [0, 0, 2, 2, 0]]
    again = ContinuousAccountant(people, accounts["noon"].settings)
    again.restore(accounts["noon"].snapshot())
    assert again.risk().tolist() == accounts["noon"].risk().tolist()
    with pytest.raises(tg.TallyguardError):
        again.restore(accounts["place"].snapshot())

"""The attack beside the ceiling: against enumeration, the same bits anywhere, silent where it cannot draw."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numba
import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.continuous import ContinuousAccountant, PeopleShares, Ranked
from accounting.continuous.shadow import (
    AttackedPart,
    MeanAttack,
    Shadow,
    attack_people,
    drawn_parts,
    mean_attack,
    recent_log,
    recent_step_count,
)
from accounting.exceptions import StepOrderError
from accounting.settings import HorizonSettings
from models.mechanisms import Correlated, Mechanism, Raw, Suppressed, Tiered
from models.noise import CorrelatedNoise
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.bounds.test_bounds_sampled import Exact
from tests.accounting.chains import Case
from tests.accounting.exposures import gaussian, step_of

PLACES, STEPS, DRAWS = 3, 4, 30_000
NARROW = gaussian(0.3)
STATION, STREET = Sensor("station", (0,)), Sensor("street", (0, 2))
LOG = (
    (SensorRelease(STATION, gaussian(0.5)),),
    (SensorRelease(STREET, Raw()), SensorRelease(STATION, Suppressed())),
    (SensorRelease(STATION, NARROW), SensorRelease(STREET, NARROW)),
    (SensorRelease(STREET, Tiered((("all", 1.0), ("partner", 4.0)))),),
)


def log_of(steps: Sequence[tuple[SensorRelease, ...]]) -> tuple[StepSchedule, ...]:
    return tuple(StepSchedule(step, releases) for step, releases in enumerate(steps))


def channel_of(releases: tuple[SensorRelease, ...]) -> NDArray[np.float64]:
    """How likely each outcome of a step is at each place; tiers show their best informed."""
    channel = np.ones((PLACES, 1))
    for release in releases:
        law = release.mechanism.noise_law()
        if law is not None:
            own = np.zeros((PLACES, law.probabilities.size + 1))
            for place in range(PLACES):
                shift = int(place in release.sensor.locations)
                own[place, shift : shift + law.probabilities.size] = law.probabilities
            likely = own.max(axis=0) > 1e-5
            own = np.hstack([own[:, likely], own[:, ~likely].sum(axis=1, keepdims=True)])
            channel = (channel[:, :, None] * own[:, None, :]).reshape(PLACES, -1)
    return channel


def prior_of(person: int, *, has_start: bool) -> tuple[MovementPrior, NDArray[np.float64]]:
    """A chain of one or two slots, with a start of its own or the (cyclo-)stationary one."""
    rng = np.random.default_rng(person)
    matrices = rng.dirichlet(np.full(PLACES, 0.5), size=(1 + person % 2, PLACES))
    start = rng.dirichlet(np.ones(PLACES)) if has_start else None
    return MovementPrior.from_dense(f"p{person}", matrices, np.arange(PLACES), start), matrices


def attacked(
    priors: Sequence[MovementPrior],
    since: Sequence[int],
    settings: HorizonSettings,
    steps: Sequence[StepSchedule],
    draws: int = DRAWS,
) -> tuple[ContinuousAccountant, Shadow, MeanAttack]:
    """Everybody attacked after the last of the steps."""
    accountant = ContinuousAccountant(Population.pack(priors, ["a", "b", "c"]), settings, np.array(since))
    ranks = np.arange(7, 7 + len(priors))
    shadow = Shadow(accountant, drawn_parts(PeopleShares(1, ranks * 0, ranks), draws), 0.999)
    for step in steps:
        accountant.apply(step)
        shadow.note(step)
    mean = shadow.mean()
    assert mean is not None
    return accountant, shadow, mean


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("vectors", [1, 16])
@pytest.mark.parametrize("has_start", [False, True])
@pytest.mark.parametrize(("since", "mistakes"), [(0, 0), (0, 1), (2, 1), (3, 0)])
def test_the_attack_is_as_good_as_the_best_adversary(
    since: int, mistakes: int, *, has_start: bool, vectors: int
) -> None:
    """Every output of every person written down: history, joining late, own starts, several sensors."""
    people, horizon, steps = 4, 2, log_of(LOG)
    first = STEPS - horizon
    log = [channel_of(step.releases) for step in steps]
    if has_start and since > first:  # their horizon begins with them, and ends with steps to come
        log, first = [*log[since:], np.ones((PLACES, 1))], 0
    else:
        log = [np.ones((PLACES, 1)) if t < since else each for t, each in enumerate(log)]
        log, first = (log[since:], first - since) if has_start else (log, first)
    begin = since if has_start else 0
    optimum, priors = [], []
    for person in range(people):
        prior, matrices = prior_of(person, has_start=has_start)
        chain = Population.pack([prior], ["a", "b", "c"])
        own, slot = chain.arrays, begin % len(matrices)
        stationary = own.distribution.reshape(len(matrices), PLACES)[slot]
        start = own.initial if has_start else stationary
        case = Case(start, matrices, np.zeros((len(log), PLACES), np.int32), slot)
        optimum.append(Exact(case, log, (first, first + horizon - 1), mistakes).optimum)
        priors.append(prior)
    settings = HorizonSettings(horizon, mistakes, vectors=vectors)
    accountant, shadow, mean = attacked(priors, [since] * people, settings, steps)
    sampled = shadow.sampled(0.0, np.ones(people, np.bool_))
    assert sampled is not None
    ceiling = accountant.baseline() + sampled.added
    assert sampled.is_looked_at.any()
    assert (ceiling >= np.array(optimum) - 1e-9).all()
    assert (ceiling <= np.array(optimum) + 0.03).all()
    assert mean.low <= np.mean(optimum) <= mean.high or vectors == 1
    assert accountant.baseline().mean() - 1e-9 <= mean.low <= np.mean(optimum)
    assert mean.success == pytest.approx(np.mean(optimum), abs=0.01 if vectors == 16 else 0.05)
    assert mean.success <= accountant.risk().mean() + (mean.high - mean.success)
    assert mean.high - mean.low < 0.03


def town(people: int = 24) -> Population:
    rng = np.random.default_rng(3)
    priors = []
    for i in range(people):
        matrix = rng.dirichlet(np.full(5, 0.3), size=5)
        start = rng.dirichlet(np.ones(5)) if i % 3 == 0 else None
        priors.append(MovementPrior.from_dense(f"p{i}", matrix, initial=start))
    return Population.pack(priors, list("abcde"))


def hours(count: int, mechanism: Mechanism) -> list[StepSchedule]:
    return [
        StepSchedule(t, step_of([t % 5, (t + 2) % 5], [mechanism, Raw() if t % 2 else mechanism]).releases)
        for t in range(count)
    ]


TOWN, SINCE = town(), np.arange(24) % 5
SETTINGS = HorizonSettings(4, 1, sharpen=False)  # the attack needs no ceilings


def shares_of(people: Sequence[int], parts: Sequence[Sequence[int]]) -> PeopleShares:
    """Parts by position; a person's rank goes with the person."""
    share = [next(i for i, part in enumerate(parts) if at in part) for at in range(len(people))]
    return PeopleShares(len(parts), np.array(share), np.array([1000 + each for each in people]))


def run(
    people: Sequence[int], parts: Sequence[Sequence[int]], steps: Sequence[StepSchedule], draws: int = 80
) -> Shadow:
    """These people of the town attacked after the last of the steps."""
    accountant = ContinuousAccountant(TOWN.subset(people), SETTINGS, SINCE[list(people)])
    shadow = Shadow(accountant, drawn_parts(shares_of(people, parts), draws))
    for step in steps:
        accountant.apply(step)
        shadow.note(step)
    return shadow


def found_by(shadow: Shadow) -> tuple[AttackedPart, ...]:
    found = shadow.attack()
    assert found is not None
    return found


def test_parts_threads_and_the_order_of_people_do_not_change_a_bit() -> None:
    """Two partitions of 16 and 8 people: in one process, apart, and with their people turned round."""
    steps = hours(9, NARROW)
    whole = run(range(24), [range(16), range(16, 24)], steps)
    apart = [found_by(run(part, [range(len(part))], steps, 40)) for part in (range(16), range(16, 24))]
    assert whole.attack() == (*apart[0], *apart[1])
    turned = run(range(23, -1, -1), [range(7, -1, -1), range(23, 7, -1)], steps)
    assert whole.mean() == turned.mean()
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert run(range(24), [range(16), range(16, 24)], steps).attack() == whole.attack()
    finally:
        numba.set_num_threads(threads)


def test_no_more_people_are_sampled_than_the_work_reaches_and_shares_take_turns() -> None:
    """In six shares of four people: work for four, seven and none, a fourth of it for sampling."""
    each, people = 100 * 2000 * SETTINGS.horizon * 2**3, np.ones(24, np.bool_)
    parts = [range(first, first + 4) for first in range(0, 24, 4)]
    for affordable in (4, 7, 0):
        settings = replace(SETTINGS, operations=4 * each * affordable + each)
        accountant = ContinuousAccountant(TOWN, settings, SINCE * 0, shares=shares_of(range(24), parts))
        shadow, reached = Shadow(accountant, ()), np.zeros(6, np.int64)
        for step in hours(12, NARROW):
            accountant.apply(step)
            shadow.note(step)
            sampled = shadow.sampled(0.0, people)
            assert sampled is not None
            assert sampled.is_looked_at.sum() == affordable
            reached += sampled.is_looked_at.reshape(6, 4).sum(axis=1)
        assert reached.tolist() == [2 * affordable] * 6


def test_a_restart_in_the_middle_does_not_change_a_bit() -> None:
    """The accounts from a snapshot, and the steps the attack remembers from the log."""
    steps = hours(70, NARROW)
    without = run(range(24), [range(24)], steps)
    before = run(range(24), [range(24)], steps[:66])
    accountant = ContinuousAccountant(TOWN, SETTINGS, SINCE)
    accountant.restore(before._accountant.snapshot())
    again = Shadow(accountant, before._drawn)
    for step in steps[66 - recent_step_count(4) : 66]:
        again.note(step)
    assert again.attack() == before.attack()
    for step in steps[66:]:
        accountant.apply(step)
        again.note(step)
    assert again.attack() == without.attack()


def test_what_is_kept_from_step_to_step_does_not_change_a_bit() -> None:
    """Guesses by slot and releases of equal steps, against an attack that has kept nothing."""
    steps = hours(70, NARROW)
    kept = run(range(24), [range(24)], steps[:60])
    for step in steps[60:]:
        kept._accountant.apply(step)
        kept.note(step)
        kept.attack()
    anew = Shadow(kept._accountant, kept._drawn)
    for step in steps[70 - recent_step_count(4) :]:
        anew.note(step)
    log = recent_log(anew._last_step - len(anew._steps) + 1, anew._steps)
    assert np.unique(log.kind).size == 10
    added = np.zeros(int(anew._sampled.first[-1]), np.int64)
    apart = log._replace(kind=np.arange(log.kind.size))
    attack_people(added, anew._sampled, anew._accountant.view().accounts, apart, anew._last_step)
    assert sorted(added[added > 0]) == list(found_by(kept)[0].added)


def test_people_who_join_are_attacked_as_if_they_had_been_there() -> None:
    """Turned to more people, the attack remembers the steps before."""
    steps = hours(9, NARROW)
    some, others = (run(part, [range(12)], steps, 40) for part in (range(12), range(12, 24)))
    accountant = some._accountant.with_people(others._accountant)
    together = Shadow(accountant, drawn_parts(shares_of(range(24), [range(12), range(12, 24)]), 80))
    together.take_over_log(some)
    assert together.attack() == (*found_by(some), *found_by(others))


def test_every_step_and_draw_has_a_stream_of_its_own() -> None:
    """Else the same luck would come again and again, and an interval would promise too much."""
    steps = [StepSchedule(t, step_of([0], [NARROW]).releases if t else ()) for t in range(52)]
    found = [found_by(run([1], [[0]], steps[:count]))[0].added for count in (50, 51, 52)]
    assert len(set(found)) == 3
    assert found_by(run([1], [[0]], steps, draws=1))[0].draws == 1


def test_repeated_steps_share_draws_for_64_cycles() -> None:
    """Equal horizons need no new draws; kept or not, the bits are the same. Then there are others."""
    steps = [StepSchedule(t, step_of([0], [NARROW]).releases) for t in range(140)]
    kept, found = run([1], [[0]], steps[:51]), []
    for step in steps[51:]:
        kept._accountant.apply(step)
        kept.note(step)
        found.append(found_by(kept)[0].added)
        if step.step in (60, 127, 128, 139):
            anew = Shadow(kept._accountant, kept._drawn)
            for known in steps[max(0, step.step + 1 - recent_step_count(4)) : step.step + 1]:
                anew.note(known)
            assert found_by(anew)[0].added == found[-1]
    assert len(kept._repeated) == len(set(found[64 - 51 : 128 - 51])) == 1
    assert found[127 - 51] != found[128 - 51] == found[139 - 51]
    other = StepSchedule(140, step_of([1], [NARROW]).releases)
    kept._accountant.apply(other)
    kept.note(other)
    assert found_by(kept)[0].added != found[-1]


def test_nothing_is_said_where_steps_share_noise() -> None:
    """Until the last of them is behind the memory: then there is an attack again."""
    noise = CorrelatedNoise.of_covariance(np.array([[2.0, 0.5], [0.5, 2.0]]))
    shared = StepSchedule(1, step_of([0], [Correlated(noise, 0)]).releases)
    steps = hours(recent_step_count(4) + 2, NARROW)
    steps[1] = shared
    shadow = run(range(24), [range(24)], steps[:-1])
    assert shadow.attack() is None
    assert shadow.mean() is None
    assert run(range(24), [range(24)], steps).mean() is not None


def test_without_releases_nothing_is_added() -> None:
    """The mean attack is then the mean guess, and so is the lower end."""
    shadow = run(range(24), [range(24)], [StepSchedule(t, ()) for t in range(5)])
    mean = shadow.mean()
    assert mean is not None
    assert mean.parts == (AttackedPart(24, 72, ()),)
    assert mean.success == mean.low == pytest.approx(shadow._accountant.baseline().mean(), abs=1e-12)


def test_steps_are_noted_as_they_are_accounted() -> None:
    shadow = run(range(24), [range(24)], hours(3, NARROW))
    with pytest.raises(StepOrderError, match="must be 3, got 5"):
        shadow.note(StepSchedule(5, ()))
    shadow._accountant.apply(StepSchedule(3, ()))
    shadow.note(StepSchedule(3, ()))
    shadow.note(StepSchedule(4, ()))
    with pytest.raises(StepOrderError, match="must be 3, the last accounted, got 4"):
        shadow.attack()


def test_people_are_drawn_equally_often_or_at_most_once() -> None:
    """Two shares: of the first the three of smallest rank, of the second both people twice."""
    share, rank = np.array([5, 2, 2, 5, 2, 2]), np.array([10, 17, 12, 19, 15, 11])
    parts = drawn_parts(PeopleShares(8, share, rank), 31)
    assert [(part.people, part.person.tolist(), part.draws) for part in parts] == [
        (4, [5, 2, 4], 1),
        (2, [0, 3], 2),
    ]
    assert [part.seed.tolist() for part in parts] == [[11, 12, 15], [10, 19]]
    assert [part.draws for part in drawn_parts(PeopleShares(8, share, rank), 64)] == [2, 4]
    assert drawn_parts(PeopleShares(8, share[:0], rank[:0]), 64) == []


def test_parts_count_by_their_people() -> None:
    """Ten people drawn a hundred times each, and a thousand drawn once: the few count for little."""
    rng = np.random.default_rng(5)
    misses = 0
    guess = Ranked(np.array([0.05, 0.05]), np.array([10, 1000])).mean()
    for _ in range(40):
        few, many = rng.random(1000) < 0.9, rng.random(1000) < 0.2
        parts = [
            AttackedPart(people, 1000, (256,) * int(hit.sum())) for people, hit in ((10, few), (1000, many))
        ]
        mean = mean_attack(parts, guess, 0.9)
        assert mean is not None
        assert mean == mean_attack(parts[::-1], guess, 0.9)
        assert mean.success == pytest.approx(0.05 + (10 * few.mean() + 1000 * many.mean()) / 1010, abs=1e-12)
        truth = 0.05 + (10 * 0.9 + 1000 * 0.2) / 1010
        misses += not mean.low <= truth <= mean.high
        assert mean.high - mean.low < 0.12
    assert misses <= 4
    assert mean_attack([], 0.0, 0.9) is None

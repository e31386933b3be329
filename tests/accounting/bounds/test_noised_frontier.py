"""The frontier bound through noise: levels of evidence, laws that cover a history, against enumeration."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from accounting.bounds.noised.sandwich_kernel import history_laws
from accounting.bounds.patterns.frontier_kernel import FrontierEffort, FrontierQuestion, frontier_of
from accounting.bounds.patterns.raw_success_kernel import Outside, future_ends
from accounting.exposure.step_information import followed_by, nothing_seen_for, seen_release
from accounting.exposure.step_information.likelihood_levels import (
    THREE,
    TWO,
    WAYS,
    WHOLE,
    WIDE,
    SeenSteps,
    levels_of,
    own_channels,
    own_signals,
)
from accounting.hmm.propagation import marginals
from models.mechanisms import ErasureCoin, Mechanism, Tiered
from models.priors.chain import LocalChain
from models.releases import Sensor, SensorRelease, StepSchedule
from tests.accounting.chains import Case, random_case
from tests.accounting.enumeration import all_paths, window_optimum
from tests.accounting.exposures import RAW, gaussian
from tests.volume import randoms

UNLIMITED = 1 << 40
MECHANISMS = (RAW, gaussian(0.3), gaussian(0.5), gaussian(0.8), Tiered((("public", 1.0),)))


def counted_with(mechanism: Mechanism) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Laws of the published value without and with the person; what hardly ever comes is put together."""
    law = mechanism.noise_law()
    assert law is not None
    both = np.stack([np.append(law.probabilities, 0.0), np.append(0.0, law.probabilities)])
    likely = both.max(axis=0) > 1e-10
    absent, present = np.column_stack([both[:, likely], both[:, ~likely].sum(axis=1)])
    return absent, present


@pytest.mark.parametrize("way", range(WAYS))
@pytest.mark.parametrize(
    "mechanism",
    [*MECHANISMS, gaussian(0.05), gaussian(3.0), gaussian(40.0), Tiered((("a", 0.1), ("b", 3.0)))],
)
def test_levels_reveal_at_least_as_much_as_the_count(mechanism: Mechanism, way: int) -> None:
    """For any prior odds, and any price of either mistake, whoever sees the level decides no worse."""
    tables = levels_of(mechanism)
    absent, present = counted_with(mechanism)
    size = tables.size[0, way]
    for price in np.exp(np.linspace(-8, 8, 161)):
        best = np.maximum(absent, price * present).sum()
        by_level = np.maximum(tables.absent[0, way, :size], price * tables.present[0, way, :size]).sum()
        assert by_level + price * tables.shown[0, way] >= best - 1e-9 * price
    assert tables.absent[0, way, :size].sum() == pytest.approx(1.0, abs=1e-9)
    assert size == {WHOLE: 1, WIDE: 2, TWO: 2, THREE: 3}[way] or mechanism in (RAW, gaussian(0.05))


def test_a_coin_of_a_window_is_an_erasure_channel() -> None:
    shown = 0.3
    tables = levels_of(ErasureCoin((gaussian(1.0),), shown, shown))
    assert tables.absent[0, THREE].tolist() == [shown, 1.0 - shown, 0.0]
    assert tables.present[0, THREE].tolist() == [0.0, 1.0 - shown, 0.0]
    assert tables.shown[0].tolist() == [shown] * WAYS


class Log:
    """A small log with up to two sensors a step, each at one or two places, raw or noised."""

    def __init__(self, rng: np.random.Generator, most_outputs: int = 100) -> None:
        self.case = random_case(rng, largest=3, longest=5)
        self.seen = nothing_seen_for(len(self.case.labels), len(self.case.start))
        self.channels = []
        outputs = 1
        for _ in self.case.labels:
            step, channel = self._step(rng, outputs < most_outputs)
            outputs *= channel.shape[1]
            self.channels.append(channel)
            self.seen = followed_by(self.seen, seen_release(step.releases, len(self.case.start)))

    def _step(
        self, rng: np.random.Generator, may_be_noised: bool
    ) -> tuple[StepSchedule, NDArray[np.float64]]:
        """One step and what it shows, (K, outputs)."""
        places = len(self.case.start)
        channel, releases = np.ones((places, 1)), []
        for number in range(int(rng.choice(3, p=[0.25, 0.6, 0.15]))):
            where = tuple(int(x) for x in rng.permutation(places)[: int(rng.integers(1, 3))])
            mechanism = MECHANISMS[rng.integers(len(MECHANISMS))] if may_be_noised and number == 0 else RAW
            releases.append(SensorRelease(Sensor(f"s{number}", tuple(sorted(where))), mechanism))
            absent, present = counted_with(mechanism)
            law = np.tile(absent, (places, 1))
            law[list(where)] = present
            channel = (channel[:, :, None] * law[:, None, :]).reshape(places, -1)
        return StepSchedule(0, tuple(releases)), channel[:, channel.any(axis=0)]


class Hard(NamedTuple):
    """How hard a bound is searched."""

    vectors: int
    laws: int  # of the history
    leaves: int
    expansions: int = UNLIMITED
    shown_once: int = -1  # expansions of each search that lowers a completion


def bound_of(
    case: Case,
    seen: SeenSteps,
    window: tuple[int, int],
    mistakes: int,
    effort: Hard,
    is_hindsight: bool = False,
) -> float:
    """The noised frontier bound of a window; in hindsight as if later counts were exact."""
    first, last = window
    marginal = marginals(case.person, len(case.labels))
    hits = (seen.labels[:, case.view.places] > 0) & (marginal > 0.0)
    person = case.person
    before, left_out = own_signals(case.view, hits[:first], marginal[:first], seen, 0, True)
    laws = history_laws(person, before, case.start[np.newaxis], first, marginal, effort.laws)
    start = LocalChain(case.view, marginal[first], (case.first_slot + first) % case.matrices.shape[0])
    inside = slice(first, last + 1)
    channels = own_channels(case.view, hits[inside], marginal[inside], seen, first, effort.leaves)
    searched = FrontierEffort(effort.vectors, 1e-6, effort.expansions, effort.shown_once)
    after = hits[last + 1 :] if is_hindsight else hits[:0]
    ends = future_ends(person, last, after, marginal[last], effort.laws)
    outside = Outside(laws, np.zeros(len(case.start)), ends)
    found = frontier_of(FrontierQuestion(start, marginal[inside], mistakes, outside, searched), channels)
    return min(1.0, found + left_out)


def check(rng: np.random.Generator) -> float:
    """One random log and window; how far above the optimum the bound is."""
    log = Log(rng)
    steps = len(log.channels)
    first = int(rng.integers(steps))
    last = int(rng.integers(first, steps))
    mistakes = int(rng.integers(last - first + 1))
    is_hindsight = bool(rng.random() < 0.3)
    shown = steps if is_hindsight else last + 1
    everything = all_paths(log.case.start, log.case.matrices, shown, log.case.first_slot)
    best = window_optimum(everything, log.channels[:shown], (first, last), mistakes)
    effort = Hard(int(rng.choice([1, 4, 16])), int(rng.choice([1, 2, 8])), int(rng.choice([1, 4, 100])))
    if rng.random() < 0.2:
        effort = effort._replace(expansions=int(rng.choice([0, 3, 30])))
    lowered = effort._replace(shown_once=int(rng.choice([-1, 0, 1, 20])))
    found = bound_of(log.case, log.seen, (first, last), mistakes, lowered, is_hindsight)
    assert best * (1 - 1e-8) <= found <= 1.0
    return found / best if effort == Hard(16, 8, 100) and not is_hindsight else 1.0


@pytest.mark.slow
@pytest.mark.indices
@pytest.mark.parametrize("seed", range(3))
def test_no_adversary_beats_the_bound(seed: int) -> None:
    """Raw and noised sensors, of several places, overlapping; history and future; every ``s``."""
    rng = np.random.default_rng(seed)
    ratios = np.array([check(rng) for _ in range(150)])
    assert ratios.mean() < 1.02


@pytest.mark.thorough
@pytest.mark.slow
def test_no_adversary_beats_the_bound_on_three_thousand_logs() -> None:
    ratios = np.array([check(rng) for rng in randoms(2026, 3_000)])
    assert ratios.mean() < 1.02


def test_exact_counts_have_the_bound_of_exact_counts() -> None:
    """Where nothing is noised the tree has one sequence of levels: the recursion over hits."""
    rng = np.random.default_rng(3)
    for _ in range(40):
        case = random_case(rng, largest=3, longest=4)
        seen = nothing_seen_for(len(case.labels), len(case.start))
        for row in case.labels:
            where = np.flatnonzero(row).tolist()
            releases = tuple(SensorRelease(Sensor(f"s{x}", (x,)), RAW) for x in where)
            seen = followed_by(seen, seen_release(releases, len(row)))
        window = (0, len(case.labels) - 1)
        everything = all_paths(case.start, case.matrices, len(case.labels), case.first_slot)
        exact = [np.eye(row.max() + 1)[row] for row in case.labels]
        mistakes = int(rng.integers(len(case.labels)))
        best = window_optimum(everything, exact, window, mistakes)
        found = bound_of(case, seen, window, mistakes, Hard(64, 16, 1))
        assert best * (1 - 1e-10) <= found <= best * 1.2

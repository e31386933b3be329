"""One person under one schedule: what every bound, attack and amount of information is computed from."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from math import inf
from typing import TypeVar, cast

import numpy as np
from scipy.special import entr

from accounting.exceptions import HorizonError
from accounting.exposure.prior_constants_kernel import (
    CONSTANT_GUESS,
    FRONTIER_GUESS,
    MAP_GUESS,
    MARGINAL_GUESS,
    PriorConstants,
    prior_constants,
    shared_powers,
)
from accounting.exposure.step_information import StepObservation, nothing_seen, observe
from accounting.exposure.step_information.contraction_kernel import dense_matrix
from accounting.exposure.step_information.observation import StepTerms, person_noised_terms, person_terms
from accounting.exposure.step_information.renewal_kernel import renewal_information, surprise
from accounting.hmm.propagation import marginals
from models.mechanisms import Mechanism
from models.numerics.arrays import Flags, Floats, Integers, Integers32
from models.numerics.jit import jit
from models.priors import ChainView
from models.priors.chain import LocalChain
from models.priors.unrolled import chain_on_the_clock
from models.releases import Schedule, StepSchedule, WindowRelease, published_window, schedule_in_single_steps

# Entropy of a law, and of each move of a chain.


def entropy_nats(probabilities: Floats) -> float:
    """Shannon entropy of a law, any shape, with ``0 ln 0 = 0``; never below 0, however the law rounds."""
    return max(0.0, float(entr(probabilities).sum()))


@jit
def row_entropies(chain: ChainView) -> Floats:
    """``H(X_{t+1} | X_t = x)`` for each slot and place, nats, shape (C, K)."""
    entropies = np.zeros(chain.start.shape)
    for slot in range(chain.start.shape[0]):
        for j in range(chain.column_start[slot, 0], chain.column_start[slot, -1]):
            entropies[slot, chain.row[j]] += surprise(chain.value[j])
    return entropies


T = TypeVar("T")

_OF_THE_PRIOR = ("marginal", "entropy_nats", "powers", "_constants")
"""What is computed once for all releases to a person over a horizon."""


@dataclass(frozen=True, eq=False)
class PublishedWindows:
    """The counts over windows of a horizon as they are published, and the ``others`` of each step, (T,).

    An exposure's observations stand for both and reveal at least as much; an attack sees no more than these.
    """

    releases: tuple[WindowRelease, ...]
    others: tuple[StepObservation, ...]

    @classmethod
    def of(cls, steps: Sequence[StepSchedule], location_count: int) -> PublishedWindows | None:
        """Those of a schedule, in steps counted from its first; None where it has no windows."""
        windows, others = [], []
        since = steps[0].step if steps else 0
        for step in steps:
            plain = tuple(each for each in step.releases if each.sensor.window is None)
            others.append(observe(StepSchedule(step.step, plain), location_count))
            for release in step.releases:
                if release.sensor.window is not None and release.mechanism.is_released:
                    windows.append(published_window(release, step.step, since))
        if not windows:
            return None
        local = tuple(replace(each, first=each.first - since, last=each.last - since) for each in windows)
        return cls(local, tuple(others))


@dataclass(frozen=True, eq=False)
class Exposure:
    """A chain on ``K`` own places, the law ``start`` (K,) of its first place, and ``T`` observed steps.

    Step ``t`` is in slot ``(first_slot + t) % C`` of the chain's cycle. Times and places are local: index 0
    is the first step of the horizon, place ``x`` is location ``chain.places[x]``. Of an *unrolled* chain the
    cycle is gone through once, so nothing is known of steps before or after. Counts over ``windows`` are
    among the observations in the form of single steps.
    """

    chain: ChainView
    start: Floats
    first_slot: int
    observations: tuple[StepObservation, ...]
    is_unrolled: bool = False
    windows: PublishedWindows | None = None

    def __post_init__(self) -> None:
        """:class:`HorizonError` when there is no step or the start is not a law on the chain's places."""
        if not self.observations:
            raise HorizonError("a horizon must have at least one step", 0, "add steps, empty ones if need be")
        if self.start.shape != self.chain.places.shape:
            raise HorizonError(
                f"the start must have one probability for each of {self.chain.places.size} places",
                self.start.shape,
                "pass the law of the first step's place",
            )

    @classmethod
    def of(
        cls, chain: ChainView, schedule: Schedule, location_count: int, start: Floats | None = None
    ) -> Exposure:
        """The exposure to a schedule; without ``start`` from the chain's (cyclo-)stationary distribution.

        Where the schedule's calendar changes the clock or has a holiday, the exposure's chain has a slot for
        each step. Each window that the schedule publishes is brought to the steps it covers.
        """
        steps = len(schedule.steps)
        given = chain
        chain, first_slot = chain_on_the_clock(chain, schedule.calendar, schedule.first_slot, steps)
        shown = schedule_in_single_steps(schedule.steps)
        observations = tuple(observe(step, location_count) for step in shown)
        law = chain.start[first_slot] if start is None else start
        windows = PublishedWindows.of(schedule.steps, location_count)
        return cls(chain, law, first_slot, observations, chain is not given, windows)

    @property
    def steps(self) -> int:
        """``T``."""
        return len(self.observations)

    @property
    def has_independent_noise(self) -> bool:
        """Whether no two steps share noise."""
        return all(observation.has_independent_noise for observation in self.observations)

    @property
    def can_be_drawn(self) -> bool:
        """Whether what is published can be drawn, step by step."""
        return all(observation.can_be_drawn for observation in self.observations)

    @property
    def place_count(self) -> int:
        """``K``, the person's own places."""
        return int(self.chain.places.size)

    def slot(self, step: int) -> int:
        """The slot of a step in the chain's cycle; its matrix moves on to the next step."""
        return int((self.first_slot + step) % self.chain.start.shape[0])

    @cached_property
    def labels(self) -> Integers32:
        """Outcome of each own place in each step, (T, K); 0 is "counted nowhere"."""
        return np.stack([observation.labels[self.chain.places] for observation in self.observations])

    @cached_property
    def moves(self) -> Floats:
        """``Pr[X_{t+1} = y | X_t = x]`` of each step but the last, (T - 1, K, K)."""
        found = np.empty((self.steps - 1, self.place_count, self.place_count))
        for t in range(self.steps - 1):
            found[t] = dense_matrix(self.chain, self.slot(t))
        return found

    @property
    def released(self) -> tuple[tuple[tuple[Flags, Mechanism], ...], ...]:
        """What each step shows: for each count at which own places (K,) one is in it, and its noise."""
        outcomes = [
            [np.array([k in own for own in seen.outcomes]) for k in range(len(seen.mechanisms))]
            for seen in self.observations
        ]
        return tuple(
            tuple((of[labels], own) for of, own in zip(counted, seen.mechanisms, strict=True))
            for counted, labels, seen in zip(outcomes, self.labels, self.observations, strict=True)
        )

    @property
    def is_labelled(self) -> bool:
        """Whether something else is to be guessed than the place, or not in every step."""
        return len(self.chain.label) > 0

    @cached_property
    def guessed(self) -> Integers:
        """What is to be guessed in each state and step, (T, K); 0 where nothing is asked."""
        if not self.is_labelled:
            return np.tile(np.arange(self.place_count), (self.steps, 1))
        return np.where(self.cost[:, np.newaxis] > 0, self._label_rows[:, :-1], 0).astype(np.int64)

    @cached_property
    def cost(self) -> Integers:
        """What a wrong guess costs in each step, (T,); 0 where nothing is asked."""
        if not self.is_labelled:
            return np.ones(self.steps, np.int64)
        return self._label_rows[:, -1].astype(np.int64)

    @property
    def _label_rows(self) -> Integers32:
        return self.chain.label[[self.slot(step) for step in range(self.steps)]]

    @cached_property
    def marginal(self) -> Floats:
        """``Pr[X_t = x]``, (T, K)."""
        return marginals(self.person, self.steps)

    @cached_property
    def hits(self) -> Flags:
        """Where the person can be and is counted by some sensor, (T, K)."""
        return (self.labels > 0) & (self.marginal > 0.0)

    @cached_property
    def pattern_count(self) -> float:
        """How many sequences of hits there are; infinite beyond floating point."""
        with np.errstate(over="ignore"):
            return float(np.prod(1.0 + self.hits.sum(axis=1)))

    @cached_property
    def is_raw(self) -> bool:
        """Whether everything released is exact; suppressed sensors are no release."""
        return all(observation.is_raw for observation in self.observations)

    @cached_property
    def is_refined(self) -> bool:
        """Whether a count can leave open at which of several own places the person is.

        Renewals then do not apply; what uses them treats each place as an outcome of its own,
        which reveals more, and so bounds from above (data processing).
        """
        for t in range(self.steps):
            seen = self.labels[t][self.hits[t]]
            if np.unique(seen).size < seen.size:
                return True
        return False

    @cached_property
    def renewal_nats(self) -> Floats:
        """``H(Y_t | Y_1..Y_{t-1})`` of the raw version of the schedule, (T,); see :attr:`is_refined`."""
        return self.of_raw_version(
            "renewal_nats", lambda: renewal_information(self.person, self.hits, self.marginal)
        )

    @cached_property
    def entropy_nats(self) -> float:
        """``H(X) = H(X_1) + sum_t H(X_t | X_{t-1})`` (Koga et al., section 3.3.1)."""
        moves = row_entropies(self.chain)
        slots = [self.slot(t) for t in range(self.steps - 1)]
        return entropy_nats(self.start) + float((self.marginal[:-1] * moves[slots]).sum())

    @cached_property
    def guessed_entropy_nats(self) -> float:
        """At most the entropy of what is to be guessed: ``sum_t H(L_t | S_{t-1})`` over the steps asked."""
        total, labels = 0.0, np.arange(int(self.guessed.max()) + 1)
        for t in np.flatnonzero(self.cost).tolist():
            of_label = (self.guessed[t][:, np.newaxis] == labels).astype(float)
            law = self.start[np.newaxis] if t == 0 else dense_matrix(self.chain, self.slot(t - 1))
            before = np.ones(1) if t == 0 else self.marginal[t - 1]
            chance = (law[:, :, np.newaxis] * of_label[np.newaxis]).sum(axis=1)
            total += float((before * entr(chance).sum(axis=1)).sum())
        return total

    @property
    def person(self) -> LocalChain:
        """The chain and where it starts, as kernels take them."""
        return LocalChain(self.chain, self.start, self.first_slot)

    @cached_property
    def powers(self) -> Floats:
        """Powers of one full matrix up to ``T - 1``; empty for sparse chains and cycles."""
        return shared_powers(self.chain, self.steps - 1)

    @property
    def no_powers(self) -> Floats:
        """For what looks at one time alone."""
        return shared_powers(self.chain, 0)

    @cached_property
    def _constants(self) -> dict[int, PriorConstants]:
        return {}

    def prior_constants(self, mistakes: int) -> PriorConstants:
        """``q`` and the baseline; :class:`HorizonError` unless ``0 <= s < T``."""
        check_mistakes(mistakes, self.steps)
        if mistakes not in self._constants:
            found = prior_constants(self.person, self.steps, mistakes, True)
            self._constants[mistakes] = found
        return self._constants[mistakes]

    @cached_property
    def nothing_released(self) -> Exposure:
        """The same person and horizon without any release."""
        empty = StepObservation(np.zeros_like(self.observations[0].labels), ((),), ())
        return self.under((empty,) * self.steps)

    def under(
        self, observations: tuple[StepObservation, ...], windows: PublishedWindows | None = None
    ) -> Exposure:
        """The same person and horizon under other releases, those over ``windows`` among them.

        What the prior alone says is kept; and what the raw version of the releases says, where that is the
        same.
        """
        other = Exposure(self.chain, self.start, self.first_slot, observations, windows=windows)
        if other.steps == self.steps:
            vars(other).update({name: vars(self)[name] for name in _OF_THE_PRIOR if name in vars(self)})
            if np.array_equal(other.labels, self.labels):
                vars(other).update(_of_raw_version=self._of_raw_version)
        return other

    def of_raw_version(self, what: Hashable, compute: Callable[[], T]) -> T:
        """``compute()``, which must not depend on noise, computed once for each ``what``.

        Exposures of one person to the same counts with other noise share it, see :meth:`under`.
        """
        if what not in self._of_raw_version:
            self._of_raw_version[what] = compute()
        return cast(T, self._of_raw_version[what])

    @cached_property
    def _of_raw_version(self) -> dict[Hashable, object]:
        return {}


def check_mistakes(mistakes: int, steps: int) -> None:
    """:class:`HorizonError` unless ``0 <= s < T``."""
    if not 0 <= mistakes < steps:
        raise HorizonError(
            f"mistakes must lie in 0..{steps - 1} (below the horizon's {steps} steps)",
            mistakes,
            "lower the mistakes or lengthen the schedule",
        )


# How likely a guess from the prior alone is: ``q >= max_xhat Pr[d(X, xhat) <= s]``.


@dataclass(frozen=True, slots=True)
class PriorGuess:
    """Upper bounds on the success of any guess from the prior alone, at most 1.

    ``koga`` is Koga et al. eq. (5), None where subset maxima are too expensive; ``best`` the smallest of it,
    ``C(T, s) A_{T-s}``, Markov's inequality and the frontier search.
    """

    koga: float | None
    best: float


def prior_guess(exposure: Exposure, mistakes: int) -> PriorGuess:
    """``q`` of one person's horizon; :class:`~accounting.exceptions.HorizonError` unless ``0 <= s < T``."""
    bounds = exposure.prior_constants(mistakes).guess
    koga = None if bounds.koga == inf else min(1.0, bounds.koga)
    return PriorGuess(koga, min(1.0, *bounds))


# How much the releases reveal about one person's trajectory: upper bounds on ``I(X; Y_1..Y_T)``, nats.
#
# All are valid, the smallest counts. Raw releases: Koga et al.'s sum and the exact value by renewals
# (beyond the paper). Noised ones: pairwise divergences, the exact information of each count, and data
# processing.


@dataclass(frozen=True, slots=True)
class Information:
    """Information released about one person over a horizon, nats.

    ``koga`` is the paper's bound, None unless each step has exactly one released sensor. ``exact`` is
    ``I(X; Y)``, None for noised releases, for counts over windows and where a count leaves open which of
    several own places was meant.
    ``best`` is the smallest valid bound; ``per_step`` (T,) adds up to a valid bound, and to ``exact`` where
    that exists (chain rule).
    """

    koga: float | None
    exact: float | None
    best: float
    per_step: tuple[float, ...]

    @property
    def paper(self) -> float:
        """What the paper's bounds are given: ``koga``, else ``exact``, else the best there is."""
        if self.koga is not None:
            return self.koga
        return self.best if self.exact is None else self.exact


def person_step_terms(exposure: Exposure, step: int) -> StepTerms:
    """Information of one step, as the accountant of a population computes it; see :class:`StepTerms`."""
    before = max(0, step - 1)
    view = exposure.observations[step].view
    view_before = exposure.observations[before].view if step else nothing_seen(view.labels.size)
    marginals_of_both = exposure.marginal[before], exposure.marginal[step]
    return person_terms(exposure.chain, exposure.slot(before), *marginals_of_both, view_before, view)


def pairwise_information(exposure: Exposure, step: int) -> float:
    """Koga et al. eq. (4) for any sensors, mechanisms and sigmas, on a noised step."""
    view = exposure.observations[step].view
    return float(person_noised_terms(exposure.chain.places, exposure.marginal[step], view).pairwise)


def koga_information(exposure: Exposure) -> float | None:
    """The paper's sum over steps; None unless each step has exactly one released sensor.

    A raw step counts as ``H(Y_t | Y_{t-1})``, ``H(Y_t)`` in the first step and after a noised one (section
    3.3, here for any number of sensors).
    """
    if any(len(observation.mechanisms) != 1 for observation in exposure.observations):
        return None
    return sum(
        person_step_terms(exposure, t).conditional
        if observation.is_raw
        else pairwise_information(exposure, t)
        for t, observation in enumerate(exposure.observations)
    )


def released_information(exposure: Exposure) -> Information:
    """All bounds on the information of one person's horizon and the smallest of them."""
    koga = koga_information(exposure)
    shares = exposure.renewal_nats
    raw = min(float(shares.sum()), exposure.entropy_nats)  # the sum may round to just above
    if exposure.is_raw and not exposure.is_refined:
        exact = raw if exposure.windows is None else None  # a window's count says less than its places
        return Information(koga, exact, raw, tuple(shares.tolist()))
    terms = [person_step_terms(exposure, t).conditional for t in range(exposure.steps)]
    # A noised release reveals no more than the raw one (data processing).
    best = min(sum(terms), raw) if koga is None else min(sum(terms), raw, koga)
    shown = terms if sum(terms) <= raw else shares.tolist()
    return Information(koga, None, best, tuple(shown))


# What anyone can do without the releases: the exact success of the best guess from the prior alone.

GUESS_NAMES = {
    MAP_GUESS: "prior",
    MARGINAL_GUESS: "marginal",
    CONSTANT_GUESS: "constant",
    FRONTIER_GUESS: "frontier",
}


@dataclass(frozen=True, slots=True, eq=False)
class BaselineGuess:
    """The best of the most likely path (``"prior"``), the marginals' maxima, the constant guesses, and what
    the frontier search finds (``"frontier"``).

    ``success`` is ``Pr[d(X, guess) <= s]`` exactly; ``guess`` (T,) holds own places.
    """

    success: float
    name: str
    guess: Integers


def baseline(exposure: Exposure, mistakes: int) -> BaselineGuess:
    """The baseline of one person's horizon; ties go to the earlier in ``GUESS_NAMES``."""
    best = exposure.prior_constants(mistakes).baseline
    return BaselineGuess(float(best.success), GUESS_NAMES[best.kind], best.guess)

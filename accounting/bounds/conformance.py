"""Tries a bound of one's own against small cases whose best adversary is written down; says where it fails.

Passing proves nothing: a bound that fails is refuted, one that passes was not refuted by these cases.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import product
from typing import NamedTuple

import numpy as np

from accounting.bounds.protocol import Effort, Question
from accounting.bounds.registry import ALL_BOUNDS, is_probability, own_bound, question
from accounting.exposure import Exposure
from models.arguments import checked
from models.exceptions import ArgumentError
from models.mechanisms import Gaussian, Mechanism, Raw
from models.numerics.arrays import Floats
from models.priors import MovementPrior, Population
from models.releases import Schedule, Sensor, SensorRelease, StepSchedule

Compute = Callable[[Question], float | None]

_ROUNDING = 1e-8  # of both sides, and of values so unlikely that they are written down as one
_RARE = 1e-10
_MOST_NOISED = 2  # counts of a case: what two of them may show is a few hundred pairs of values


@dataclass(frozen=True)
class BoundCheck:
    """What came of a bound in ``questions`` small cases, of which it ``answered`` some.

    ``failures`` says in a sentence each where it is below the best adversary, or no probability. It can be
    printed; ``is_sound`` is for an assertion.
    """

    name: str
    questions: int
    answered: int
    failures: tuple[str, ...]

    @property
    def is_sound(self) -> bool:
        """Whether no case refutes it, and it answers some."""
        return self.answered > 0 and not self.failures

    def __str__(self) -> str:
        """In words, with the first three failures."""
        head = (
            f"bound {self.name!r}, asked {self.questions} times about small cases, answered {self.answered}"
        )
        if not self.failures:
            return f"{head} and was never below the best adversary" if self.answered else head
        more = len(self.failures) - 3
        left = [f"and {more} more"] if more > 0 else []
        return "\n".join([f"{head} and failed {len(self.failures)} times:", *self.failures[:3], *left])


class _Case(NamedTuple):
    exposure: Exposure
    matrices: Floats  # (slots, K, K)
    start: Floats
    counted: list[list[tuple[tuple[int, ...], Mechanism]]]  # places and mechanism of each step's sensors

    def in_words(self, mistakes: int) -> str:
        """Everything that it is made of."""
        shown = "; ".join(
            ", ".join(f"{mechanism!r} at {list(places)}" for places, mechanism in step) or "nothing"
            for step in self.counted
        )
        start, moves = np.round(self.start, 3).tolist(), np.round(self.matrices, 3).tolist()
        return f"start {start}, moves {moves}, released in each step: {shown}; mistakes={mistakes}"


@checked(ArgumentError, leave=("compute",))
def check_bound(
    compute: Compute, *, cases: int = 60, name: str = "own", effort: Effort | None = None
) -> BoundCheck:
    """Compare a bound with the best adversary of ``cases`` random small cases, for every number of mistakes.

    It is asked with the ``effort``; nothing is registered by it.

    ``compute`` is what :func:`~accounting.bounds.register_bound` takes. The cases have up to 3 places and 4
    steps, matrices with zeros, places that are never left and cycles of two slots, with raw and noised
    counts; all trajectories, outputs and guesses are written down. The same cases each time.
    :class:`~models.exceptions.ArgumentError` for something that cannot be called, or fewer than one case.
    """
    if not callable(compute):
        raise ArgumentError(
            "a bound must be a function of a question", f"a {type(compute).__name__}", "write one"
        )
    if cases < 1:
        raise ArgumentError("cases must be at least 1", cases, "take 60")
    questions = answered = 0
    failures = []
    for seed in range(cases):
        case = _random_case(np.random.default_rng(seed))
        steps = case.exposure.steps
        for mistakes, best in enumerate(_best_successes(case)):
            questions += 1
            try:
                value = compute(question(case.exposure, mistakes, effort or Effort()))
            except Exception as error:
                failures.append(f"it raised {type(error).__name__}: {error} ({case.in_words(mistakes)})")
                continue
            if value is None:
                continue
            answered += 1
            if not is_probability(value):
                failures.append(f"it says {value!r}, no number in 0..1 ({case.in_words(mistakes)})")
            elif value < best - _ROUNDING:
                right = f"at least {steps - mistakes} of {steps} steps"
                failures.append(
                    f"it says {value:.6f}, and the best adversary tells {right} with probability {best:.6f} "
                    f"({case.in_words(mistakes)})"
                )
    return BoundCheck(name, questions, answered, tuple(failures))


@checked(ArgumentError, leave=("compute",))
def register_bound(name: str, compute: Compute, *, is_vouched: bool = False) -> None:
    """Show a bound of your own in every audit, under its ``name``; in place of an earlier one of that name.

    ``compute(question)`` bounds ``Pr[at most question.mistakes steps guessed wrong]`` of whoever sees all
    releases, knows where the others are, and the prior: a number in 0..1, or None where it does not apply. Of
    ``question.exposure`` it may use ``start`` (K,), ``moves`` (T - 1, K, K) and ``released``, for each step
    what each count shows: which own places it counts (K,), and its mechanism. ``question.information.best``
    (nats), and ``question.guess.best``, the chance of a guess from the prior, are bounds to build on. It is
    not asked about labels, nor where steps share noise.

    Audits, ``certify`` and what is said in hindsight ask it. Running accounts and plans have ours alone: they
    must give the same bits in every process that reads the log, with or without the package of a bound, and
    a horizon of theirs follows earlier releases, which the start of a question knows nothing of.

    It never lowers a ceiling unless it ``is_vouched`` for: then it must pass :func:`check_bound`, which
    refutes many wrong bounds and proves none. A package offers one as an entry point of the group
    ``tallyguard.bounds``; nobody vouches for it until this function is called for it.
    :class:`~models.exceptions.ArgumentError` for a name of ours, and where the check finds a fault.
    """
    if is_vouched:
        checked_bound = check_bound(compute, name=name)
        if not checked_bound.is_sound:
            raise ArgumentError(
                f"a bound that is vouched for must pass tallyguard.check_bound, and {name!r} must answer",
                "; ".join(str(checked_bound).splitlines()[:2]),
                "correct it, or register it without is_vouched to see it beside the ceiling",
            )
    ALL_BOUNDS.register(name, own_bound(name, compute, is_vouched))


def _random_case(rng: np.random.Generator) -> _Case:
    places, steps, slots = int(rng.integers(1, 4)), int(rng.integers(1, 5)), int(rng.integers(1, 3))
    matrices = rng.random((slots, places, places)) * (rng.random((slots, places, places)) < 0.7)
    for row in range(places):
        if rng.random() < 0.2 or not matrices[:, row].sum(axis=1).all():
            matrices[:, row] = np.eye(places)[row]  # never left
    matrices /= matrices.sum(axis=2, keepdims=True)
    start = rng.random(places) * (rng.random(places) < 0.7)
    start = np.eye(places)[0] if start.sum() == 0.0 else start / start.sum()
    counted: list[list[tuple[tuple[int, ...], Mechanism]]] = []
    noised = 0
    for _ in range(steps):
        step: list[tuple[tuple[int, ...], Mechanism]] = []
        for _ in range(int(rng.integers(0, 3))):
            where = np.flatnonzero(rng.random(places) < 0.5).tolist()
            is_noised = noised < _MOST_NOISED and steps < 4 and rng.random() < 0.4
            noised += is_noised
            if where:
                mechanism = Gaussian(float(rng.choice([0.4, 0.8, 1.5]))) if is_noised else Raw()
                step.append((tuple(where), mechanism))
        counted.append(step)
    schedule = Schedule(
        tuple(
            StepSchedule(
                t, tuple(SensorRelease(Sensor(f"{k}", where), own) for k, (where, own) in enumerate(step))
            )
            for t, step in enumerate(counted)
        )
    )
    prior = MovementPrior.from_dense("case", matrices, initial=start)
    people = Population.pack([prior], [str(place) for place in range(places)])
    exposure = Exposure.of(people.chain(0), schedule, places, people.initial(0))
    return _Case(exposure, matrices, start, counted)


def _best_successes(case: _Case) -> list[float]:
    """``E_y max_xhat Pr[d(X, xhat) <= s | y]`` for each ``s`` below ``T``, by writing everything down."""
    steps, places = len(case.counted), case.start.size
    paths = np.array(list(product(range(places), repeat=steps)))
    joint = case.start[paths[:, 0]]
    for t in range(steps - 1):
        joint = joint * case.matrices[t % len(case.matrices)][paths[:, t], paths[:, t + 1]]
    joint = joint[:, np.newaxis]
    for t, step in enumerate(case.counted):
        for where, mechanism in step:
            shown = _channel(places, where, mechanism)[paths[:, t]]
            joint = (joint[:, :, np.newaxis] * shown[:, np.newaxis, :]).reshape(len(paths), -1)
            joint = joint[:, joint.any(axis=0)]
    wrong = (paths[:, np.newaxis] != paths).sum(axis=2)
    return [float(((wrong <= mistakes) @ joint).max(axis=0).sum()) for mistakes in range(steps)]


def _channel(places: int, where: Sequence[int], mechanism: Mechanism) -> Floats:
    """What a count, less the others in it, shows of each place (K, values); unlikely values are one."""
    law = mechanism.noise_law()
    assert law is not None, "nothing is suppressed in these cases"
    absent, present = np.append(law.probabilities, 0.0), np.insert(law.probabilities, 0, 0.0)
    is_likely = np.maximum(absent, present) > _RARE
    rows = [[*law_of[is_likely], law_of[~is_likely].sum()] for law_of in (absent, present)]
    return np.array([rows[int(place in where)] for place in range(places)])

"""The theorems of Zhao, "Composition Properties of Bayesian Differential Privacy", by enumeration.

Random databases of two and three tuples and random channels whose inputs, as in the theorems, depend on what
came out before. Leakages are exact. The paper proves the first theorem
for any correlation; its proof multiplies probabilities of outputs that depend on the same unknown tuples.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from accounting.ledgers.bayesian import FiniteDatabase, compose, leakage
from experiments.drawing import grid, save
from experiments.measure import write_csv
from experiments.papers import Claim

Floats = NDArray[np.float64]
CASES = 400
UNLIKE = [[0.05, 0.89], [0.04, 0.02]]  # two people who are seldom alike
FIRST, SECOND = [[0.17, 0.12], [0.77, 0.22]], [[0.08, 0.06], [0.35, 0.08]]  # Pr(1) of two releases of both


@dataclass(frozen=True)
class Case:
    """One random database: what the theorem promises and what leaks together, nats."""

    theorem: int
    tuples: str
    promised: float
    together: float


def database(random: np.random.Generator, independent: bool) -> FiniteDatabase:
    """Two or three tuples of two values; correlated ones from strongly to hardly."""
    tuples = int(random.integers(2, 4))
    if not independent:
        weight = random.dirichlet(np.full(2**tuples, 0.5))
        return FiniteDatabase(weight.reshape((2,) * tuples))
    law = np.ones(())
    for _ in range(tuples):
        law = np.multiply.outer(law, random.dirichlet(np.ones(2)))
    return FiniteDatabase(law)


def channel(random: np.random.Generator, shape: tuple[int, ...], sees: tuple[int, ...]) -> Floats:
    """Probabilities [x_1, ..., x_n, (earlier,) output] of two outputs that depend on the tuples ``sees``."""
    own = random.dirichlet(np.ones(2), size=[size if axis in sees else 1 for axis, size in enumerate(shape)])
    return np.array(np.broadcast_to(own, (*shape, 2)))


def worst_input(of: FiniteDatabase, adaptive: Floats) -> float:
    """The leakage of a channel for the worst of its auxiliary inputs."""
    return max(leakage(of, adaptive[..., earlier, :]).epsilon for earlier in range(adaptive.shape[-2]))


def first_theorem(random: np.random.Generator, independent: bool) -> Case:
    """Two algorithms of the whole database, near the counterexample; the second sees what the first gave."""
    law = np.array(UNLIKE) * np.exp(0.3 * random.standard_normal((2, 2)))
    law /= law.sum()
    of = FiniteDatabase(np.outer(law.sum(axis=1), law.sum(axis=0)) if independent else law)
    odds = [np.log(np.array(ones) / (1.0 - np.array(ones))) for ones in (FIRST, SECOND, SECOND)]
    one, low, high = (
        _bit(1.0 / (1.0 + np.exp(-each - 0.3 * random.standard_normal((2, 2))))) for each in odds
    )
    two = np.stack([low, high], axis=-2)
    promised = leakage(of, one).epsilon + worst_input(of, two)
    return Case(1, _name(independent), promised, leakage(of, compose(one, two)).epsilon)


def second_theorem(random: np.random.Generator, independent: bool) -> Case:
    """One algorithm sees the first tuple, the other the rest and what came out of the first."""
    of = database(random, independent)
    rest = tuple(range(1, of.law.ndim + 1))
    one, two = channel(random, of.law.shape, (0,)), channel(random, (*of.law.shape, 2), rest)
    promised = max(leakage(of, one).epsilon, worst_input(of, two))
    return Case(2, _name(independent), promised, leakage(of, compose(one, two)).epsilon)


def third_theorem(random: np.random.Generator, independent: bool) -> Case:
    """A random function of what came out."""
    of = database(random, independent)
    one = random.dirichlet(np.ones(4), size=of.law.shape)
    after = leakage(of, one @ random.dirichlet(np.ones(3), size=4)).epsilon
    return Case(3, _name(independent), leakage(of, one).epsilon, after)


def _name(independent: bool) -> str:
    return "independent" if independent else "correlated"


THEOREMS: Mapping[int, tuple[str, Callable[[np.random.Generator, bool], Case]]] = {
    1: ("releases one after the other leak at most the sum", first_theorem),
    2: ("releases about disjoint tuples leak at most the largest", second_theorem),
    3: ("a function of what came out leaks no more", third_theorem),
}


def draw_theorems(figures: Path, cases: int) -> list[Claim]:
    """``composition.csv`` and ``composition.png``: what leaks together against what is promised."""
    found = [
        prove(np.random.default_rng((theorem, independent, number)), independent)
        for theorem, (_, prove) in THEOREMS.items()
        for independent in (True, False)
        for number in range(cases)
    ]
    write_csv(found, figures / "composition.csv")
    figure, axes_of = grid(3, 3)
    claims = []
    for (theorem, (said, _)), axes in zip(THEOREMS.items(), axes_of, strict=True):
        for kind, colour in (("correlated", "#D55E00"), ("independent", "#0072B2")):
            own = [case for case in found if (case.theorem, case.tuples) == (theorem, kind)]
            axes.scatter([c.promised for c in own], [c.together for c in own], s=4, color=colour, label=kind)
            over = [case.together - case.promised for case in own if case.together > case.promised + 1e-9]
            held = f"{len(over)} of {len(own)} above it" + (
                f", by up to {max(over):.2f} nats" if over else ""
            )
            claims.append(Claim(f"theorem {theorem}", f"{said}, {kind} tuples", "always", held,
                                "no" if over else "yes"))  # fmt: skip
        most = max(case.promised for case in found if case.theorem == theorem)
        axes.plot([0, most], [0, most], color="#000000", linewidth=0.8)
        axes.set(xlabel="promised, nats", ylabel="leaked together, nats", title=f"theorem {theorem}")
        axes.legend(frameon=False, fontsize=8, title="tuples")
    save(figure, figures / "composition.png")
    return claims


def counterexamples(_figures: Path, _data: Path | None) -> list[Claim]:
    """The smallest ones for theorems 1 and 2: two people with one bit each."""
    unlike = FiniteDatabase(np.array(UNLIKE))
    first, second = _bit(np.array(FIRST)), _bit(np.array(SECOND))
    alone = leakage(unlike, first).epsilon, leakage(unlike, second).epsilon
    both = leakage(unlike, compose(first, second)).epsilon
    equal = FiniteDatabase(np.diag([0.5, 0.5]))
    bit = np.array([[0.2, 0.2], [0.8, 0.8]])
    own = _bit(bit), _bit(bit.T)
    largest = max(leakage(equal, each).epsilon for each in own)
    pair = leakage(equal, compose(*own)).epsilon
    return [
        Claim("theorem 1", "two people who are seldom alike", f"at most {sum(alone):.3f}",
              f"{both:.3f}, of {alone[0]:.3f} and {alone[1]:.3f}", "no"),
        Claim("theorem 2", "two people who are always alike", f"at most {largest:.3f} (ln 4)",
              f"{pair:.3f} = {pair / math.log(4):.0f} ln 4", "no"),
    ]  # fmt: skip


def _bit(ones: Floats) -> Floats:
    """A channel of one bit from its probability of 1."""
    return np.stack([1.0 - ones, ones], axis=-1)


PARTS: Mapping[str, Callable[[Path, Path | None], list[Claim]]] = {
    "theorems": lambda figures, _: draw_theorems(figures, CASES),
    "counterexamples": counterexamples,
}

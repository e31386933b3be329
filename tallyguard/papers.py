"""What the papers beside Koga's compute: noise designs, inferential privacy, Bayesian leakage, diffusion.

Each function takes arrays and a schedule; what is computed is in :mod:`models.noise_design`,
:mod:`accounting.ledgers` and :mod:`models.noise`. Information and losses are in nats.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from accounting.bounds import Effort
from accounting.exceptions import LedgerError
from accounting.exposure.crowd import CrowdAdversary
from accounting.ledgers import (
    CipStatement,
    InferentialLoss,
    ReleaseLog,
    SecretQuestion,
    read_inferential,
    release_loss,
)
from accounting.ledgers import bayesian as exact
from accounting.ledgers.bayesian import BdpStatement, Declared, FiniteDatabase, Leakage
from models.arguments import checked
from models.exceptions import ArgumentError
from models.gaussian_process import GaussianProcessPrior
from models.keys import UniformStream
from models.noise import continued_value
from models.noise.continuous_process import Grid, PrivateProcess, jump_vector, publish_tiers
from models.noise_design import DesignProblem, NoiseDesign, design_noise
from models.priors import Question
from models.releases import Schedule
from tallyguard.audits import Audits, advantage, certify
from tallyguard.results import People, Table, ceiling_in_100, in_100


@checked(ArgumentError, leave=("prior",))
def design(
    prior: GaussianProcessPrior | ArrayLike,
    noise_budget: float,
    secret: Sequence[int] | None = None,
    method: str = "exact",
    solver: str = "auto",
) -> NoiseDesign:
    """Noise of the trace ``noise_budget`` that hides ``secret`` best: ``.covariance`` (n, n).

    ``prior`` is a Gaussian process or a covariance (n, n) of n values, in the square of their unit; the
    budget is the sum of n noise variances. ``secret`` are positions that are one secret; None makes each
    position one, for the methods ``multiple`` and ``multiple-exact``. The others are ``exact``,
    ``unrestricted``, ``sdp-a``, ``uniform`` and ``concentrated``. Meehan and Chaudhuri, "Location Trace
    Privacy Under Conditional Priors", theorem 3.4 and algorithm 1; ``unrestricted`` is beyond the paper.
    ``CorrelatedNoise.of_covariance`` makes noise of it, ``Correlated.of`` its mechanism for a step.
    :class:`TallyguardError` for a matrix that is no covariance, and a method or secret that does not fit.
    """
    problem = DesignProblem(_covariance(prior), None if secret is None else tuple(secret), noise_budget)
    return design_noise(problem, method, solver)


@checked(ArgumentError, leave=("prior", "noise"))
def inferential_loss(
    prior: GaussianProcessPrior | ArrayLike,
    noise: ArrayLike,
    secret: Sequence[int],
    order: float = 5.0,
    radius: float = 1.0,
) -> InferentialLoss:
    """The conditional inferential privacy loss of a release, ``.epsilon`` in nats.

    ``prior`` and ``noise`` are covariances (n, n); ``secret`` are positions, whose values differ by at most
    ``radius`` (in their unit); ``order`` is Renyi's. Meehan and Chaudhuri, theorem 3.4, for any noise; inf
    where the release determines the secret. :class:`TallyguardError` for matrices that are no covariances,
    an order not above 1, a radius not above 0.
    """
    return release_loss(_covariance(prior), _matrix(noise, "noise"), secret, order, radius)


@checked(ArgumentError)
def inferential_ledger(schedule: Schedule, question: SecretQuestion) -> CipStatement:
    """What all releases of one sensor's series reveal of its secret steps, ``.loss_nats``.

    They are evaluated together (Meehan and Chaudhuri, corollary 3.4.1): losses of parts are no bound on the
    whole. :class:`TallyguardError` for a sensor without releases, and noise that is not Gaussian.
    """
    return read_inferential(ReleaseLog.of(schedule.steps), question)


@checked(ArgumentError, leave=("law",))
def leakage(law: ArrayLike, channels: Sequence[ArrayLike]) -> Leakage:
    """The Bayesian differential privacy leakage of one release or of several together: ``.epsilon``, nats.

    ``law[x_1, .., x_n]`` is the joint probability of the tuples, which may depend on each other, and each
    ``channel[x_1, .., x_n, output]`` has coins of its own. One with an axis more sees what came out
    before, ``channel[x_1, .., x_n, earlier, output]``: the adaptive input of Zhao's theorems ("Composition
    Properties of Bayesian Differential Privacy", section III). Exact, over all adversaries that know some
    tuples and want another; inf where an output rules a value out. :class:`TallyguardError` for laws that are
    none, shapes that do not fit, and more work than is affordable.
    """
    database = FiniteDatabase(_matrix(law, "law"))
    given = [_matrix(each, "channel") for each in channels]
    shape = database.law.shape
    earlier = 1
    for each in given:
        adaptive = (*shape, earlier)
        if each.shape[:-1] not in ((shape,) if each is given[0] else (shape, adaptive)):
            raise LedgerError(
                f"a channel must have a law of outputs for each of the databases {shape}, or after each of "
                f"{earlier} earlier outputs",
                each.shape,
                "give channel[x_1, .., x_n, output]",
            )
        earlier *= each.shape[-1]
    if not given:
        raise LedgerError("there must be something released", "no channel", "give channel[x_1, .., output]")
    return exact.leakage(database, exact.compose(*given))


@checked(ArgumentError)
def summed_leakage(epsilons: Sequence[float], declared: Declared) -> float:
    """The sum of Bayesian leakages (nats), where what is declared makes it a bound (Zhao, theorem 1).

    :class:`CompositionError` says which condition is missing, and what two releases can leak without it: the
    theorem does not hold as stated for tuples that depend on each other.
    """
    return exact.summed(epsilons, declared)


@checked(ArgumentError)
def largest_leakage(epsilons: Sequence[float], declared: Declared) -> float:
    """The largest of Bayesian leakages (nats) about people apart, where that is a bound (Zhao, theorem 2).

    :class:`CompositionError` as for :func:`summed_leakage`.
    """
    return exact.largest(epsilons, declared)


@checked(ArgumentError)
def bayesian_ledger(schedule: Schedule, declared: Declared, delta: float = 1e-6) -> BdpStatement:
    """What a schedule leaks about anybody's whole trace to whoever knows the others', ``.epsilon`` in nats.

    :class:`CompositionError` unless it is declared that people move independently of each other.
    """
    return exact.read_bayesian(ReleaseLog.of(schedule.steps), declared, delta)


@checked(ArgumentError, leave=("value",))
def pass_on(value: ArrayLike, level: float, lower: float, seed: bytes) -> NDArray[np.float64]:
    """What somebody who got ``value`` (n,) at privacy ``level`` passes on at a ``lower`` one, hop by hop.

    No access to the data is needed: from a level to a lower one independent noise is added (Koufogiannis and
    Pappas, "Diffusing Private Data over Networks", theorem 3), so whoever is further away, and everybody on
    the way together, learns no more than the first level allows. Levels are nats per unit of the data;
    ``seed`` (16 bytes or more) is secret and another one for each hop. The result is the value with Laplace
    noise of density ``exp(-lower ||v||)`` around the data. :class:`TallyguardError` for a level that rises.
    """
    given = np.atleast_1d(_matrix(value, "value"))
    if given.ndim != 1 or not 0.0 < lower <= level:
        raise ArgumentError(
            "what is passed on must be numbers (n,), at a level in (0, the own one]",
            f"shape {given.shape}, {lower:g} of {level:g}",
            "give the recipient the same level or a lower one",
        )
    stream, passed = UniformStream(seed), given.copy()
    while True:
        level *= float(np.exp(-stream.exponential() / (given.size + 1)))
        if level < lower:
            return passed
        passed += jump_vector(given.size, level, stream)


@checked(ArgumentError, leave=("value",))
def real_tiers(value: ArrayLike, levels: Sequence[float], seed: bytes) -> NDArray[np.float64]:
    """Real values (n,) for tiers of recipients at these privacy ``levels``: (tiers, n), in their order.

    All are read from one path of noise, so that recipients who put theirs together learn no more than the
    highest level allows (Koufogiannis and Pappas, theorem 3 and algorithm 1). Levels are nats per unit of the
    value; values are rounded to a grid a thousand times finer than the noise, whose cost
    :meth:`models.noise.continuous_process.Grid.epsilon` has. The same secret ``seed`` (16 bytes or more)
    gives the same path. :class:`TallyguardError` without a level, or for one that is not above 0.
    """
    given = np.atleast_1d(_matrix(value, "value"))
    if given.ndim != 1 or not levels or min(levels) <= 0.0:
        raise ArgumentError(
            "values must be numbers (n,), for one level above 0 or more",
            f"shape {given.shape}, levels {levels}",
            "give each tier its epsilon",
        )
    highest = max(levels)
    process = PrivateProcess(given.size, highest, UniformStream(seed))
    return publish_tiers(given, process, levels, Grid.for_level(highest))


@checked(ArgumentError)
def pass_on_count(values: Mapping[float, int], lower: float, seed: bytes) -> int:
    """What whoever got a count at some levels passes on at one more, not above theirs; hop by hop.

    ``values`` is the published count by epsilon (nats), as :class:`tallyguard.Tiered` publishes it. The new
    value has its law given these, whoever puts them together (Koufogiannis and Pappas, theorem 3, for
    integers). ``seed`` (16 bytes or more) is secret, and another one for each hop.
    :class:`TallyguardError` for a level above all of ``values``, or a shorter seed.
    """
    high, low = (int(each * 2.0**64) for each in UniformStream(seed).uniforms(2))
    return continued_value(values, lower, high << 64 | low)


class SideBySide(Table):
    """The ceilings of the same people against several adversaries: ``found.of("crowd")`` are the audits."""

    def __init__(self, found: Mapping[str, Audits]) -> None:
        self._found = dict(found)

    def of(self, adversary: str) -> Audits:
        """The audits against the adversary of this name; ``KeyError`` for another."""
        return self._found[adversary]

    def caption(self) -> str:
        """What each adversary knows."""
        return "\n".join(f"{name}: {audits.caption()}" for name, audits in self._found.items())

    def shown(self) -> Mapping[str, Sequence[str]]:
        """The guess without releases, and each adversary's ceiling."""
        first = next(iter(self._found.values()))
        return {
            "person": [each.person for each in first],
            "guess": [in_100(each.baseline) for each in first],
            **{
                name: [ceiling_in_100(each.certified) for each in audits]
                for name, audits in self._found.items()
            },
        }

    def columns(self) -> Mapping[str, Sequence[Any]]:
        """One row a person; chances in 0..1, and each adversary's advantage over the guess."""
        first = next(iter(self._found.values()))
        found: dict[str, Sequence[Any]] = {
            "person": [each.person for each in first],
            "guess": [each.baseline for each in first],
        }
        for name, audits in self._found.items():
            found[f"ceiling_{name}"] = [each.certified for each in audits]
            found[f"advantage_{name}"] = [advantage(each.certified, each.baseline) for each in audits]
        return found


@checked(ArgumentError, leave=("people", "schedule"))
def side_by_side(
    people: People,
    schedule: Schedule,
    adversaries: Mapping[str, CrowdAdversary | None],
    mistakes: int = 1,
    *,
    effort: Effort | None = None,
    question: Question | None = None,
) -> SideBySide:
    """The ceilings against several adversaries by name, as :func:`tallyguard.certify` has them for each.

    None is the informed one, who knows where all others are. :class:`TallyguardError` without any.
    """
    if not adversaries:
        raise ArgumentError(
            "there must be an adversary to compare",
            "none",
            'write {"informed": None, "crowd": CrowdAdversary()}',
        )
    given = {"effort": effort, "question": question}
    return SideBySide(
        {
            name: certify(people, schedule, mistakes, adversary=each, **given)  # type: ignore[arg-type]
            for name, each in adversaries.items()
        }
    )


def _covariance(prior: object) -> NDArray[np.float64]:
    return prior.covariance() if isinstance(prior, GaussianProcessPrior) else _matrix(prior, "prior")


def _matrix(given: object, name: str) -> NDArray[np.float64]:
    """An array of finite numbers; :class:`ArgumentError` for anything else."""
    try:
        found = np.asarray(given)
    except (TypeError, ValueError):
        found = np.array(None)
    if np.ma.is_masked(given) or found.dtype.kind not in "iuf" or not np.isfinite(found).all():
        raise ArgumentError(f"{name} must be finite numbers", type(given).__name__, "give an array of them")
    return found.astype(np.float64)

"""The others, step by step: what each released count hides among them, from priors and schedule alone."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import product
from math import expm1, floor, inf, isfinite, lcm, log, log1p, log2, prod, sqrt
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from accounting.exceptions import SettingsError, StepOrderError
from accounting.exposure.crowd.evidence import Outputs, outputs_among
from accounting.exposure.crowd.strangers import Strangers, strangers_in
from accounting.exposure.crowd.variance_kernel import (
    COINS,
    COLUMNS,
    FREE,
    MOST_STEPS_BACK,
    NOBODY,
    NOT_YET,
    NOT_YET_LATE,
    PEOPLE_A_BLOCK,
    RATES,
    SEVERAL,
    TRANSFORMS,
    UNITS,
    VARIANCE,
    Asked,
    Crowd,
    Ends,
    add_up_crowd,
    advance_laws,
    difference_masses,
)
from accounting.numerics import packed_positions
from models.arguments import checked
from models.calendar import Calendar
from models.mechanisms import (
    Composite,
    ErasureCoin,
    Mechanism,
    NoiseFamily,
    NoiseLaw,
    NoiseShare,
    Raw,
    SeenRelease,
    Tabulated,
    computed_once,
    counted_again,
    revealed_by_shift,
    shares_noise,
)
from models.noise import InformationTable, least_information, scaled_entropy_table
from models.numerics.arrays import Flags, Floats, Integers
from models.priors import Population, PopulationArrays
from models.priors.unrolled import unrolled_arrays
from models.releases import (
    MoveEnd,
    RevealedAmount,
    RevealedMove,
    Sensor,
    SensorRelease,
    ShownPlaces,
    StepSchedule,
    together,
)

# What a crowd hides of one count: from sums over the others to what is left of a release.

# A released count seen by an adversary who does not know where the others are.


@dataclass(frozen=True, slots=True)
class Crowded(SeenRelease):
    """The release ``inner`` as seen by the crowd adversary, who does not know the others' places.

    It reveals at most ``share`` of the entropy of being counted.

    - With ``is_erased`` it is an erasure channel: the person's bit with probability ``share``, else nothing;
      where ``hiding`` is above 0, what a count says among others of this variance.
    - Otherwise only :meth:`information` takes the crowd into account, because a mean over what is revealed of
      the others bounds information and nothing more. Everything else is that of ``inner``.

    A person who is there is counted up to ``most_counts`` times. Differential privacy does not depend on a
    crowd: its figures are those of ``inner``.
    """

    share: float
    is_erased: bool
    hiding: float = 0.0
    most_counts: int = 1
    name: ClassVar[str] = "crowded"

    @property
    def alone(self) -> Mechanism:
        """The release if the others were known."""
        return counted_again(self.inner, self.most_counts)

    def reveal_probability(self) -> float:
        """The erasure's probability, or that of the noise alone."""
        return self.share if self.is_erased else self.alone.reveal_probability()

    def outputs(self) -> Outputs | None:
        """What a count among the others says; None where they are known by ``share`` alone."""
        if self.hiding <= 0.0:
            return None
        noise = self.inner.noise_law() if self.inner.noise_family in _SYMMETRIC else None
        return outputs_among(self.hiding, noise, self.share, self.most_counts)

    @computed_once(4096)
    def information_table(self) -> InformationTable:
        """The smaller of what the crowd leaves and what the noise does."""
        hidden, alone = scaled_entropy_table(self.share), self.alone
        if self.is_erased or not isinstance(alone, Tabulated):
            return hidden
        return least_information(hidden, alone.information_table())


LEVELS = (0.5, 0.3, 0.15, 0.05, 0.02, 0.005, 1e-3, 1e-4)
"""Probabilities of what is revealed of the others where one of the counts hides less than its level says."""

_EXACT = Raw()
_ROUNDING = 1e-11  # relative, of what is computed from the sums
_LEAST_HIDING = 0.01  # of a variance; below, a count shows the exact number now and then
_SYMMETRIC = (NoiseFamily.DISCRETE_GAUSSIAN, NoiseFamily.GEOMETRIC)  # characteristic function not negative


@checked(SettingsError, infinite=("alone", "least", "counted_once"), leave=("strangers",))
@dataclass(frozen=True, slots=True)
class CrowdAdversary:
    """Knows all priors, the schedule, every release, and all movements of any ``known`` people.

    ``companions`` always move with the person whose trace is guessed. ``alone`` is the share of people, at
    every sensor, who move independently of each other and of that person, or the chance that each of them
    does; the others count for nothing. The known people are fixed without a look at where anybody went.

    ``least`` is the share of a persona's people who are there in any case: with 0.8, of a persona that stands
    for 200 people at least 160 live like it. ``strangers`` are people without a prior beside them.

    ``counted_once`` is about sensors that may count one person again: the least chance with which each of the
    people who move alone, and are where such a sensor counts, is counted exactly once in the step: whoever it
    is, wherever else they are, however often others are counted. A share is not enough: if regulars are
    counted once and visitors twice, an adversary who knows the regulars learns from an odd count that the
    target is there.
    """

    known: int = 0
    companions: int = 0
    alone: float = 1.0
    least: float = 1.0
    strangers: tuple[Strangers, ...] = ()
    counted_once: float = 0.0

    def __post_init__(self) -> None:
        """:class:`SettingsError` names what is out of range."""
        for name in ("known", "companions"):
            if getattr(self, name) < 0:
                raise SettingsError(f"{name} must not be negative", getattr(self, name), "use 0 for nobody")
        given = self.strangers
        if not isinstance(given, tuple) or not all(isinstance(each, Strangers) for each in given):
            raise SettingsError("strangers must be a tuple of Strangers", type(given), "use () for none")
        shares = (
            ("the share of people who move alone", self.alone),
            ("the share of a persona's people who are there", self.least),
            ("the chance that a person is counted exactly once", self.counted_once),
        )
        for name, share in shares:
            if not (isfinite(share) and 0.0 <= share <= 1.0):
                raise SettingsError(f"{name} must lie in 0..1", share, "use 1 for everybody")

    @property
    def not_counted(self) -> int:
        """How many people of the population hide nothing: the target, companions and the known."""
        return 1 + self.companions + self.known

    def at(self, most_counts: int) -> CrowdAdversary:
        """At a sensor that may count one person so often: whoever it may count again hides nobody."""
        return self if most_counts == 1 else replace(self, alone=self.alone * self.counted_once)


@dataclass(frozen=True, slots=True)
class SensorCrowd:
    """Sums over everybody at one sensor and step, in units of 1 / 2^32: ``(V, mu, transforms ..)``."""

    units: tuple[int, ...] = (0,) * COLUMNS

    def __add__(self, other: SensorCrowd) -> SensorCrowd:
        """The sums of two groups of people together; exact."""
        return SensorCrowd(tuple(a + b for a, b in zip(self.units, other.units, strict=True)))

    def variance(self, adversary: CrowdAdversary) -> float:
        """Mean of ``V`` over what is revealed, of the people who hide the target from this adversary."""
        return max(0.0, self._of_independent(VARIANCE, adversary) - 0.25 * adversary.not_counted)

    def coins(self, adversary: CrowdAdversary) -> float:
        """Mean number of fair coins in the count."""
        return max(0.0, self._of_independent(COINS, adversary) - adversary.not_counted)

    def variance_at(self, probability: float, adversary: CrowdAdversary) -> float:
        """The value that ``V`` falls below with at most this ``probability`` (Chernoff); 0 for probability 0.

        ``Pr[V < v] <= e^(rate v) E e^(-rate V)`` at each rate.
        """
        if probability <= 0.0:
            return 0.0
        likely = log(probability)
        found = max((likely + self._transform(index, adversary)) / rate for index, rate in enumerate(RATES))
        return max(0.0, found * (1.0 - _ROUNDING) - 0.25 * adversary.not_counted)

    def _transform(self, index: int, adversary: CrowdAdversary) -> float:
        """Minus the logarithm of the mean of ``e^(-rate V)`` of those who move alone, or less.

        Of a person with ``l`` who moves alone with the chance ``a`` it is ``-ln(1 - a + a e^-l)``: concave in
        ``l``, which is at most ``rate / 4``, and so at least its chord up to there.
        """
        lost = self.units[TRANSFORMS + index] / UNITS
        if adversary.alone == 1.0:
            return lost
        most = 0.25 * RATES[index]
        return lost * (-log1p(adversary.alone * expm1(-most)) / most) * (1.0 - _ROUNDING)

    def _of_independent(self, column: int, adversary: CrowdAdversary) -> float:
        """A sum's part of the people who move alone, rounded down."""
        share, whole = adversary.alone.as_integer_ratio()
        return (self.units[column] * share // whole) / UNITS


StepCrowd = tuple[SensorCrowd, ...]
"""What each count of a step hides among, in the order of what is ``counting`` in it."""


def revealed(variance: float, mechanism: Mechanism, companions: int = 0, most_counts: int = 1) -> float:
    """The largest probability of a value of the others' sum plus the noise, from above: the erasure's delta.

    With companions, or where one person is counted more often, the largest probability of as many consecutive
    values. Noise is added to the crowd only if it is symmetric with a known law; other noise is left out,
    which is safe because it only hides more. A window's share of noise, which need not be symmetric, hides by
    itself or not at all.
    """
    noise = mechanism if mechanism.noise_family in _SYMMETRIC else _EXACT
    found = min(1.0, most_counts * (1 + companions) * _mode(variance, noise))  # type: ignore[arg-type]
    if companions:
        return found
    if most_counts > 1:
        return min(found, revealed_by_shift(mechanism, most_counts))
    return min(found, mechanism.reveal_probability()) if isinstance(mechanism, NoiseShare) else found


@lru_cache(1 << 16)
def _mode(variance: float, mechanism: Mechanism) -> float:
    """``sum_k f(k) e^-V I_k(V)`` and what is cut off the noise's table."""
    law = mechanism.noise_law()
    if law is None or mechanism.is_exact:
        return float(difference_masses(variance, 0)[0])
    masses = difference_masses(variance, max(-law.first, law.first + law.probabilities.size - 1))
    total = 0.0
    for k, probability in enumerate(law.probabilities.tolist(), start=law.first):
        total += probability * float(masses[abs(k)])
    return min(1.0, total * (1.0 + _ROUNDING) + 3.0 * law.truncated_mass)


def with_strangers(
    step: StepSchedule,
    crowds: StepCrowd,
    adversary: CrowdAdversary,
    slot: int,
    beside: tuple[int, int] | None = None,
) -> StepCrowd:
    """The ``crowds`` of all people of a step, and the strangers beside them; ``slot`` counts on and on.

    ``beside`` are the slots of the steps before and after, where clocks are changed.

    Strangers hide nobody at a sensor that counts at a place of another one: they would change both counts.
    """
    found = list(crowds)
    covers = [set(each.locations) for each in step.counting]
    for name, units in strangers_in(adversary.strangers, slot, beside):
        for number, own in enumerate(step.counting):
            others = (cover for k, cover in enumerate(covers) if k != number)
            is_hiding = own.name == name and own.is_sum
            if is_hiding and all(map(covers[number].isdisjoint, others)):
                found[number] += SensorCrowd(units)
    return tuple(found)


def left_of_entropy(coins: float, most_counts: int = 1) -> float:
    """``(1 - e^-mu) / mu >= E 1 / (M + 1)``: what ``M`` fair coins leave of any information about a bit.

    A bit that is counted ``L`` times is as ``L`` counts, each among coins of its own: every coin is dealt to
    one of them by chance. So ``L`` times as much is left, each time of ``mu / L`` coins.
    """
    each = coins / most_counts
    return 1.0 if each < 1e-9 else min(1.0, -most_counts * expm1(-each) / each * (1.0 + _ROUNDING))


def in_crowd(step: StepSchedule, crowds: StepCrowd, adversary: CrowdAdversary) -> StepSchedule:
    """The step as this adversary sees it, for bounds on information.

    With companions the noise by itself is not known to hide the group. A count then counts as exact,
    and the noise as part of its crowd.
    """
    hiding = _Hiding(step, crowds, adversary, None)
    revealed = None if adversary.companions else hiding.revealed()
    return replace(hiding.seen(), revealed=revealed, published=None)


def at_level(
    step: StepSchedule, crowds: StepCrowd, adversary: CrowdAdversary, probability: float
) -> StepSchedule:
    """The step as erasure channels, each with the ``probability`` that more is revealed than it says."""
    found = _Hiding(step, crowds, adversary, probability).seen()
    return replace(found, revealed=None if adversary.companions else step.revealed)


@dataclass(frozen=True, slots=True)
class HiddenCount(SeenRelease):
    """A count over a window among others: the own count is shown with this probability, else nothing."""

    shown: float
    name: ClassVar[str] = "hidden count"

    def reveal_probability(self) -> float:
        """That the own count is shown."""
        return self.shown

    def information_table(self) -> InformationTable:
        """That of an erasure channel."""
        return scaled_entropy_table(self.shown)

    def noise_law(self) -> NoiseLaw | None:
        """That of the release, which stands for one: nothing else than the own count is shown."""
        return self.inner.noise_law()


Variances = Mapping[tuple[str, bool], float]
"""What hides each sum over a window in one step, by its sensor: of moves apart those out of it (True)."""


def variances_at(
    step: StepSchedule, crowds: StepCrowd, adversary: CrowdAdversary, probability: float
) -> Variances:
    """What hides sums over windows in a step, each with the ``probability`` that less does."""
    sums: dict[tuple[str, bool], SensorCrowd] = {}
    for each, crowd in zip(step.counting, crowds, strict=True):
        if each.window is None:
            key = each.name, isinstance(each, MoveEnd) and each.leaves
            sums[key] = sums.get(key, SensorCrowd()) + crowd
    return {key: crowd.variance_at(probability, adversary) for key, crowd in sums.items()}


def crowds_by_sensor(
    step: StepSchedule, crowds: StepCrowd, adversary: CrowdAdversary
) -> Mapping[str, HidingCrowd]:
    """What each sensor's count hides among; of moves that of the end which hides less, in the step of both.

    Nobody where a count may be corrected: it is charged as if others were known. Without windows that a crowd
    is not known to hide anybody in.
    """
    ends: dict[str, dict[bool, HidingCrowd]] = {}
    for each, crowd in zip(step.counting, crowds, strict=True):
        if each.window is None:
            own = ends.setdefault(each.name, {})
            leaves = isinstance(each, MoveEnd) and each.leaves
            is_known = isinstance(each, Sensor) and each.corrections > 0
            before = own[leaves].crowd if leaves in own else SensorCrowd()
            found = before + (SensorCrowd() if is_known else crowd)
            own[leaves] = HidingCrowd(found, adversary, each.most_counts)
    return {name: min(own.values(), key=lambda each: each.variance) for name, own in ends.items()}


class HidingCrowd(NamedTuple):
    """The crowd of a count that has one person in it so often at most."""

    crowd: SensorCrowd
    adversary: CrowdAdversary
    most_counts: int = 1

    @property
    def variance(self) -> float:
        """Mean of ``V`` over what is revealed, of those who hide a person."""
        return self.crowd.variance(self.adversary.at(self.most_counts))

    @property
    def shown(self) -> float:
        """The probability that a raw count shows how often it has the person in it."""
        return revealed(self.variance, _EXACT, self.adversary.companions, self.most_counts)

    @property
    def left(self) -> float:
        """What is left of a raw count's information."""
        coins = self.crowd.coins(self.adversary.at(self.most_counts))
        return min(self.shown, left_of_entropy(coins, self.most_counts))

    @property
    def sigma(self) -> float:
        """Scale of Gaussian noise that hides the person no better than the crowd does; 0 if it hides nobody.

        Of the continuous noise with the same total variation under a shift by as many counts, rounded down.
        """
        from scipy.special import ndtri

        share = self.shown
        if not 0.0 < share < 1.0:
            return inf if share <= 0.0 else 0.0
        return 0.5 * self.most_counts / float(ndtri(0.5 * (1.0 + share)))


def variance_of_window(name: str, steps: Sequence[Variances]) -> float:
    """What hides a sum over ``steps``, of moves from the first one's places to the last one's.

    All bits that are left of a count are independent given what is told of the others.
    """
    leaving = sum(each.get((name, True), 0.0) for each in steps[:-1])
    is_moves = any((name, True) in each for each in steps)
    return leaving + sum(each.get((name, False), 0.0) for each in steps[is_moves:])


def hidden_count(mechanism: Mechanism, most_counts: int, variance: float, companions: int) -> Mechanism:
    """A count over a window of somebody who is counted so often at most, among others of this variance.

    So many values in a row come at most so many times as often as the likeliest one.
    """
    noise = _EXACT if shares_noise(mechanism) else mechanism
    among = revealed(variance, noise, companions, most_counts)
    if companions:
        return HiddenCount(_EXACT, among) if among < 1.0 else _EXACT
    return HiddenCount(mechanism, among) if among < revealed_by_shift(mechanism, most_counts) else mechanism


def counts_of(step: StepSchedule) -> int:
    """How many counts of a step :func:`at_level` takes what they hide among from."""
    if step.parts is None:
        return sum(each.mechanism.is_released for each in step.releases)
    plain, shown, _ = step.parts
    ends = sum(len(part.ends) or not _is_known(SensorRelease(part.sensor, part.mechanism)) for part in shown)
    return ends + sum(each.mechanism.is_released for each in plain)


@dataclass(frozen=True)
class _Hiding:
    """A step whose counts hide a person, each with the ``probability`` that it does less; None on average.

    A crowd is not known to hide a person in the difference of several values of one count, nor in a window's
    count that one coin stands for, unless it is a sum of moves; at a sensor that can count a person twice
    only among people whom it is declared to count once. For releases in which it is not, noise is not known
    to hide a group either, so what it leaves of single people does not bound what a group reveals. Windows
    are seen in their single steps alone.
    """

    step: StepSchedule
    crowds: StepCrowd
    adversary: CrowdAdversary
    probability: float | None

    def seen(self) -> StepSchedule:
        """The step with other mechanisms; what is not released stays as it is. Published are plain counts."""
        if self.step.parts is None:
            pairs = zip(self.step.releases, self.crowds, strict=True)
            own = tuple(self._seen(*pair) for pair in pairs)
            return replace(self.step, releases=own, published=own)
        counting = zip(self.step.counting, self.crowds, strict=True)
        sums = ((each, crowd) for each, crowd in counting if isinstance(each, Sensor) and each.window is None)
        by_places = {each.locations: crowd for each, crowd in sums}  # where two count, none hides anybody
        plain, shown, _ = self.step.parts
        own = tuple(self._seen(each, by_places.get(each.sensor.locations, SensorCrowd())) for each in plain)
        parts = []
        for part in shown:
            if self._is_revealed(part):
                continue
            release = SensorRelease(part.sensor, part.mechanism)
            crowd = by_places.get(part.places.locations, SensorCrowd())
            mechanism = self._coin(part) if part.ends else self._seen(release, crowd).mechanism
            parts.append(replace(part, mechanism=mechanism))
        return replace(self.step, releases=(*own, *together(own, tuple(parts))), published=own, parts=None)

    def _seen(self, own: SensorRelease, crowd: SensorCrowd) -> SensorRelease:
        is_known = _is_known(own, self.adversary.counted_once)
        if not own.mechanism.is_released or (is_known and not self.adversary.companions):
            return own
        if is_known:
            return replace(own, mechanism=_EXACT)
        often = own.sensor.most_counts if own.sensor.window is None else 1
        hiding = HidingCrowd(crowd, self.adversary, often)
        if self.probability is None:
            seen = _hidden(own.mechanism, hiding)
        else:
            seen = _erased(own.mechanism, hiding, self.probability)
        sensor = own.sensor if often == 1 else replace(own.sensor, most_counts=1)  # which is in what is seen
        return SensorRelease(sensor, seen)

    @cached_property
    def _of_ends(self) -> Mapping[MoveEnd, SensorCrowd]:
        counting = zip(self.step.counting, self.crowds, strict=True)
        return {each: crowd for each, crowd in counting if isinstance(each, MoveEnd)}

    def _coin(self, part: ShownPlaces) -> Mechanism:
        """What shows the places of moves: each count of moves shows both of its ends, or none.

        So does a coin at each end, with the root of the probability. Each end's crowd alone hides the count,
        so that their geometric mean does. The mean of what several counts show is at most the sum.
        """
        coin, companions = part.mechanism, self.adversary.companions
        assert isinstance(coin, ErasureCoin)
        of_ends = [self._of_ends.get(end, SensorCrowd()) for end in part.ends]
        if self.probability is None:
            each = (revealed(crowd.variance(self.adversary), _EXACT, companions) for crowd in of_ends)
            shown = min(1.0, sum(each) * (1.0 + _ROUNDING))
            if not (coin.is_exact or companions):
                return replace(coin, revealed=min(coin.revealed, shown))
            exact = replace(coin, shown=1.0, revealed=1.0)
            return Crowded(_EXACT, shown, False) if shown < 1.0 else exact
        variances = (crowd.variance_at(self.probability, self.adversary) for crowd in of_ends)
        each = (sqrt(revealed(variance, _EXACT, companions)) for variance in variances)
        shown = min(1.0, (1.0 - prod(1.0 - chance for chance in each)) * (1.0 + _ROUNDING))
        return replace(coin, shown=shown if companions else min(coin.shown, shown))

    def _is_revealed(self, part: ShownPlaces) -> bool:
        """Whether :meth:`revealed` has these exact counts of moves, which noise alone would not hide."""
        is_on_average = self.probability is None and not self.adversary.companions
        return (
            is_on_average and self.step.revealed is not None and bool(part.ends) and part.mechanism.is_exact
        )

    def revealed(self) -> tuple[RevealedMove | RevealedAmount, ...] | None:
        """What counts of moves reveal: whether the person made one, to whom the others' counts add up."""
        if self.step.revealed is None:
            return None
        moves: dict[str, list[tuple[tuple[int, ...], tuple[int, ...]]]] = {}
        sums: dict[str, SensorCrowd] = {}
        for end, crowd in self._of_ends.items():
            if not end.leaves:
                moves.setdefault(end.name, []).append((end.beyond, end.locations))
                sums[end.name] = sums.get(end.name, SensorCrowd()) + crowd
        by_moves = {tuple(pairs): sums[name] for name, pairs in moves.items()}
        noised = (
            replace(
                each, mechanism=_hidden(each.mechanism, HidingCrowd(by_moves[each.counted], self.adversary))
            )
            if isinstance(each, RevealedMove) and each.counted in by_moves
            else each
            for each in self.step.revealed
        )
        return (*noised, *self._exact_moves())

    def _exact_moves(self) -> Iterator[RevealedMove]:
        """Of exact counts of moves, what those that lead into this step reveal."""
        arriving: dict[str, list[MoveEnd]] = {}
        for part in () if self.step.parts is None else self.step.parts.shown:
            for end in part.ends if self._is_revealed(part) else ():
                if not end.leaves:
                    arriving.setdefault(end.name, []).append(end)
        for ends in arriving.values():
            crowd = sum((self._of_ends.get(end, SensorCrowd()) for end in ends), start=SensorCrowd())
            left = HidingCrowd(crowd, self.adversary).left
            yield RevealedMove(
                tuple((end.beyond, end.locations) for end in ends), Crowded(_EXACT, left, False)
            )


def _is_known(release: SensorRelease, counted_once: float = 0.0) -> bool:
    """Whether a release is charged as if the others' places were known."""
    sensor, mechanism = release.sensor, release.mechanism
    if isinstance(mechanism, ErasureCoin | NoiseShare):  # of a window
        return isinstance(mechanism, ErasureCoin) and not mechanism.is_exact
    may_hide = sensor.most_counts == 1 or (sensor.window is None and counted_once > 0.0)
    return not may_hide or sensor.corrections > 0 or isinstance(mechanism, Composite)


def _hidden(mechanism: Mechanism, hiding: HidingCrowd) -> Mechanism:
    crowd, adversary, often = hiding
    variance, coins = hiding.variance, crowd.coins(adversary.at(often))
    share = revealed(variance, mechanism, adversary.companions, often)
    if adversary.companions:
        return Crowded(_EXACT, share, False) if share < 1.0 else _EXACT
    share = min(share, left_of_entropy(coins, often))
    is_hiding = variance + coins > 0.0 and share < 1.0
    return Crowded(mechanism, share, False, 0.0, often) if is_hiding else counted_again(mechanism, often)


def _erased(mechanism: Mechanism, hiding: HidingCrowd, probability: float) -> Mechanism:
    crowd, adversary, often = hiding
    variance = crowd.variance_at(probability, adversary.at(often))
    if variance > _LEAST_HIDING:  # one of few, so that few channels are computed
        variance = min(variance, 2.0 ** (floor(32 * log2(variance)) / 32))
    share = revealed(variance, mechanism, adversary.companions, often)
    if adversary.companions:
        return Crowded(_EXACT, share, True) if share < 1.0 else _EXACT
    if variance <= 0.0 or share >= 1.0:
        return counted_again(mechanism, often)
    is_noise_alone = isinstance(mechanism, NoiseShare) and mechanism.reveal_probability() <= share
    hiding_variance = 0.0 if is_noise_alone or variance <= _LEAST_HIDING else variance
    return Crowded(mechanism, share, True, hiding_variance, often)


COIN = "tallyguard crowd"
"""Public: the first bit of SHA-256 of this, a zero byte and the person's name is the coin."""

_MOST_BYTES = 64 * 2**20  # of steps that are kept

_BLOCK = 64  # steps that share the work of laying out the moves where clocks are changed

_Key = tuple[object, ...]


class _KnownStep(NamedTuple):
    """The sums of a step, and the state after it of all who are asked."""

    sums: Integers  # (S, COLUMNS)
    state: NDArray[np.int8]  # (E,)


class _Unrolled(NamedTuple):
    """Everybody's chain in a block of steps near a change of clocks, with a slot for each step."""

    block: int
    arrays: PopulationArrays


class _StepAnswer(NamedTuple):
    """The crowds of the next step for these sensors, and the state after it of all who are asked."""

    counting: bytes
    crowds: StepCrowd
    state: NDArray[np.int8]  # (E,)


@dataclass
class Others:
    """All people of a population as a crowd; :meth:`apply` gives the crowd of one step after the other.

    Where several chains stand for a person, each is a prior of that part of a person: whoever knows which
    chain it is does no worse, and the chance of each adds up (:meth:`_units_of` of the kernel). ``weights``
    (N,) are how many people live like each prior, by default those of the population; ``least`` is the share
    of them that are there for certain. Half of a persona's people toss the other coin; a part of
    a person counts as one who is there with that chance.

    ``since[i]`` is the first step at which person ``i`` is part of the crowd, by default ``first_step``.
    ``names`` (N,) toss the coins, by default the population's; give the same names wherever answers must
    agree. A person who comes after ``log_start``, by default ``first_step``, is revealed at the first step
    they are seen in, because it may follow a free step under the prior that this one replaces. Nothing is
    ever revised: what a step hides depends on that step, earlier ones and the next move. A step with the same
    sensors, slot and states as an earlier one is looked up. Answers of groups of people add up. Slots follow
    the ``calendar``, if any, in which step 0 has the position ``first_slot``.
    """

    population: Population
    first_slot: int = 0
    first_step: int = 0
    since: Integers | None = None
    names: Sequence[str] | None = None
    log_start: int | None = None
    weights: Floats | None = None
    least: float = 1.0
    calendar: Calendar | None = None

    def __post_init__(self) -> None:
        """Toss everybody's coin. :class:`SettingsError` for too many people."""
        whole, self._draws = self.population, self.population.draws
        names = whole.people if self.names is None else self.names
        weights = whole.weights if self.weights is None else self.weights
        since = np.full(len(whole), self.first_step) if self.since is None else self.since
        self.population = whole.accounted
        self.weights = self._by_chain(weights)
        self._since = np.repeat(since, self._draws)
        arrays = self.population.arrays
        self._next_step = self.first_step
        self._now, self._before = arrays.initial.copy(), arrays.initial.copy()
        self._laws_of = self.first_step
        self._last_answer: _StepAnswer | None = None
        self._index_people()
        coins = np.repeat(_coins(names), self._draws)
        is_late = self._since > (self.first_step if self.log_start is None else self.log_start)
        prior, is_second = self._asked.prior, np.zeros(self._asked.prior.size, dtype=np.bool_)
        is_second[self._asked.start[:-1]] = True
        is_second = ~is_second  # of the persona's two halves, the one that tosses the other coin
        waits = (coins[prior] != is_second) | is_late[prior]
        self._state = np.where(waits, NOT_YET_LATE, NOT_YET).astype(np.int8)

    def ask(self, step: StepSchedule) -> StepCrowd:
        """The crowds of the next step, a sensor each of its ``counting``, without moving on.

        A suppressed sensor counts as if it were released, which reveals more. So no crowd depends on what is
        decided for a step.
        """
        if step.step != self._next_step:
            raise StepOrderError(
                f"the next step must be {self._next_step}", step.step, "apply steps in order, empty ones too"
            )
        counting = _Counting.of(step.counting, self._locations)
        answer = self._last_answer
        if answer is None or answer.counting != counting.key:
            answer = self._last_answer = self._answer(counting, step)
        return answer.crowds

    def ask_ahead(self, steps: Sequence[StepSchedule]) -> tuple[StepCrowd, ...]:
        """The crowds of the next steps, one after the other, without moving on.

        :meth:`apply` gives the same later, if until then these sensors count and people stay as they are.
        """
        if len(steps) < 2:
            return tuple(map(self.ask, steps))
        self.ask(steps[0])
        ahead = copy(self)  # laws are moved on where they are
        ahead._before, ahead._now = self._before.copy(), self._now.copy()
        return tuple(map(ahead.apply, steps))

    def apply(self, step: StepSchedule) -> StepCrowd:
        """:meth:`ask`, then move on to the step after it; steps come in order, empty ones included."""
        crowds = self.ask(step)
        if self._last_answer is not None:
            self._state = self._last_answer.state
        self._last_answer = None
        self._next_step += 1
        return crowds

    def reveal_next(self, people: Integers) -> None:
        """Reveal these people, by position, in the next step: they may have been free in the last one.

        For people whose prior changes now: under the old prior other steps were free.
        """
        self._state[packed_positions(self._asked.start, self._chains_of(people))] = FREE
        self._index_people()

    def with_people(self, newcomers: Others, population: Population) -> Others:
        """One crowd of these people and of newcomers at the same step; ``population`` is all of them."""
        joined = self._of(population)
        if self.weights is not None or newcomers.weights is not None:
            joined.weights = np.concatenate((self._people_each, newcomers._people_each))
        joined._since = np.concatenate((self._since, newcomers._since))
        joined._state = np.concatenate((self._state, newcomers._state))
        joined._now, joined._before = (
            np.concatenate(pair) for pair in zip(self._laws(), newcomers._laws(), strict=True)
        )
        joined._index_people()
        return joined

    def of_people(self, people: Integers, population: Population) -> Others:
        """The crowd of some of these people, by position; ``population`` is theirs."""
        chosen, people = self._of(population), self._chains_of(people)
        chosen.weights = None if self.weights is None else self.weights[people]
        chosen._since = self._since[people]
        chosen._state = self._state[packed_positions(self._asked.start, people)]
        own = packed_positions(self.population.arrays.initial_start, people)
        chosen._now, chosen._before = (laws[own] for laws in self._laws())
        chosen._index_people()
        return chosen

    def saved(self) -> Mapping[str, NDArray[Any]]:
        """The state after the steps so far, as arrays."""
        now, before = self._laws()
        return {"revealed": self._state, "law_now": now, "law_before": before}

    def take_over(self, saved: Mapping[str, NDArray[Any]], next_step: int) -> None:
        """Continue before ``next_step`` from what :meth:`saved` gave there."""
        self._state = saved["revealed"]
        self._now, self._before = saved["law_now"], saved["law_before"]
        self._next_step = self._laws_of = next_step
        self._last_answer = None

    @property
    def next_step(self) -> int:
        """The step whose crowds come next."""
        return self._next_step

    def _of(self, population: Population) -> Others:
        """A copy for other people, to be filled in."""
        found = copy(self)
        found.population, found.names, found.since, found.weights = population.accounted, None, None, None
        found._draws = population.draws  # of nobody, with whom a partition begins, none are known
        found._laws_of = self._next_step
        return found

    def _chains_of(self, people: Integers) -> Integers:
        """The positions of their chains."""
        return (people[:, np.newaxis] * self._draws + np.arange(self._draws)).reshape(-1)

    def _by_chain(self, weights: Floats | None) -> Floats | None:
        """How many people each chain stands for; None where each is a person's only one."""
        if self._draws == 1:
            return weights
        people = np.ones(len(self.population) // self._draws) if weights is None else weights
        return np.repeat(people / self._draws, self._draws)

    def _index_people(self) -> None:
        """Recompute what depends on which people there are."""
        arrays = self.population.arrays
        self._has_initial = np.diff(arrays.initial_start) > 0
        self._period = lcm(*np.unique(arrays.slots).tolist())
        self._asked = _asked_of(self._people_each * self.least)
        self._is_here, self._habitual = 0, np.empty(0, dtype=np.int64)
        self._known: OrderedDict[_Key, _KnownStep] = OrderedDict()
        self._last_answer = None
        self._unrolled: _Unrolled | None = None

    @property
    def _people_each(self) -> Floats:
        """How many people live like each prior, (N,)."""
        return np.ones(len(self.population)) if self.weights is None else self.weights

    def _laws(self) -> tuple[Floats, Floats]:
        """Place laws at the next step and the one before it, of people with an initial distribution."""
        if self._laws_of < self._next_step:
            self._advance_laws(self._next_step)
        return self._now, self._before

    def _answer(self, counting: _Counting, step: StepSchedule) -> _StepAnswer:
        here, state = self._since <= step.step, self._state.copy()
        self._laws()
        has_initial = (here & self._has_initial)[self._asked.prior]
        sums = self._look_up(counting, here, state)
        sums = sums + self._ask(counting, np.flatnonzero(has_initial), state)
        return _StepAnswer(counting.key, tuple(SensorCrowd(tuple(row)) for row in sums.tolist()), state)

    @property
    def _locations(self) -> int:
        return self.population.location_count

    def _advance_laws(self, step: int) -> None:
        """Move on the laws of people with an initial distribution, from their second step on."""
        self._laws_of = step
        moving = np.flatnonzero(self._has_initial & (self._since < step))
        if moving.size:
            arrays, slot = self._moves_at(step - 1)
            advance_laws(arrays, moving, slot, self._before, self._now)

    def _moves_at(self, step: int) -> tuple[PopulationArrays, int]:
        """Everybody's chain, and the slot in it of a step, up to whose next move all slots count on."""
        if self.calendar is None:
            return self.population.arrays, self.first_slot + step
        block = step // _BLOCK
        begin, steps = block * _BLOCK - MOST_STEPS_BACK - 1, _BLOCK + MOST_STEPS_BACK + 2
        regular = self.calendar.regular_position(self.first_slot + begin, steps)
        if regular is not None:
            return self.population.arrays, regular + step - begin
        if self._unrolled is None or self._unrolled.block != block:
            arrays = unrolled_arrays(self.population.arrays, self.calendar, self.first_slot + begin, steps)
            self._unrolled = _Unrolled(block, arrays)
        return self._unrolled.arrays, step - begin

    def _look_up(self, counting: _Counting, here: Flags, state: NDArray[np.int8]) -> Integers:
        """The sums of people without an initial distribution; looked up where step and states are known."""
        arrays, slot = self._moves_at(self._next_step)
        when = slot % self._period
        if arrays is not self.population.arrays:  # where moves are laid out no slot comes twice
            when = -1 - self._next_step
        if int(here.sum()) != self._is_here:  # the number tells: people come and never leave
            self._is_here = int(here.sum())
            self._habitual = np.flatnonzero((here & ~self._has_initial)[self._asked.prior])
        people = self._habitual
        key = (when, counting.key, _digest(state[people]))
        if key not in self._known:
            sums = self._ask(counting, people, state)
            self._known[key] = _KnownStep(sums, state[people])
            most = max(1, _MOST_BYTES // max(1, people.size))
            if len(self._known) > most:
                self._known.popitem(last=False)
        self._known.move_to_end(key)
        known = self._known[key]
        state[people] = known.state
        return known.sums

    def _ask(self, counting: _Counting, people: Integers, state: NDArray[np.int8]) -> Integers:
        """Sums (S, COLUMNS) of these of the asked, whose ``state`` moves on."""
        blocks = -(-people.size // PEOPLE_A_BLOCK)
        sums = np.zeros((blocks, counting.number, COLUMNS), dtype=np.int64)
        arrays, slot = self._moves_at(self._next_step)
        crowd = Crowd(arrays, self._asked, people, slot, *counting[:3], self._before, self._now)
        add_up_crowd(crowd, state, sums)
        return sums.sum(axis=0)


MOST_PEOPLE = 100_000_000
"""Of a crowd: their sums in fixed point must fit in 64 bits."""


def _asked_of(people: Floats) -> Asked:
    """Who is asked together where so many people (N,) live like each prior.

    For example 5.3 people: three whole ones with a chance of 0.3 of one more, and two with the other coin.
    """
    if float(people.sum()) > MOST_PEOPLE:
        raise SettingsError(
            f"a crowd must be of at most {MOST_PEOPLE:,} people",
            f"{people.sum():,.0f} behind {people.size:,} priors",
            "correct the weights of the personas",
        )
    whole = np.floor(people).astype(np.int64)
    second = whole // 2
    start = np.concatenate(([0], np.cumsum(1 + (second > 0)))).astype(np.int64)
    prior = np.repeat(np.arange(people.size), np.diff(start))
    number, chance = second[prior], np.zeros(prior.size)
    number[start[:-1]] = whole - second
    chance[start[:-1]] = people - whole
    return Asked(start, prior, number, chance)


class _Counting(NamedTuple):
    """What counts in a step, location by location."""

    sensor: Integers  # (M,) the one that counts there; ``SEVERAL`` where people are revealed
    arriving: Ends
    leaving: Ends
    number: int  # how many counts

    @classmethod
    def of(cls, counting: Sequence[Sensor | MoveEnd], locations: int) -> _Counting:
        """Of the ``counting`` of a step.

        People are also revealed at places whose counts are no sums over the people there: a person who is not
        revealed is at none.
        """
        sole = np.full(locations, NOBODY, dtype=np.int64)
        ends: list[list[tuple[int, int, int]]] = [[], []]
        for number, each in enumerate(counting):
            if isinstance(each, MoveEnd):
                ends[each.leaves] += [(*pair, number) for pair in product(each.locations, each.beyond)]
                continue
            for location in each.locations:
                sole[location] = number if sole[location] == NOBODY and each.is_sum else SEVERAL
        arriving, leaving = (_ends_by_location(own, locations) for own in ends)
        return cls(sole, arriving, leaving, len(counting))

    @property
    def key(self) -> bytes:
        """Equal for equal ones."""
        arrays = (self.sensor, *self.arriving, *self.leaving)
        return b"".join(map(_digest, arrays)) + self.number.to_bytes(4)


def _ends_by_location(ends: list[tuple[int, int, int]], locations: int) -> Ends:
    here, beyond, number = np.array(sorted(ends), dtype=np.int64).reshape(-1, 3).T
    start = np.concatenate(([0], np.cumsum(np.bincount(here, minlength=locations))))
    return Ends(start, np.ascontiguousarray(beyond), np.ascontiguousarray(number))


def _coins(people: Sequence[str]) -> Flags:
    tossed = (hashlib.sha256(f"{COIN}\0{person}".encode()).digest()[0] & 1 for person in people)
    return np.fromiter(tossed, dtype=np.bool_, count=len(people))


def _digest(array: Integers | NDArray[np.int8]) -> bytes:
    return hashlib.blake2b(array.tobytes(), digest_size=16).digest()

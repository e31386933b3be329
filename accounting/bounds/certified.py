"""All bounds of one person's horizon and the smallest of them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from pydantic import BaseModel, ConfigDict, model_validator

from accounting.bounds.noised.own_counts_bound import (
    Asked,
    OwnPattern,
    own_counts_success,
    success_by_pattern,
)
from accounting.bounds.noised.shared_noise_bound import success_by_shared_noise
from accounting.bounds.patterns import EXACT, MOST_LAWS
from accounting.bounds.patterns.raw_success_kernel import future_ends
from accounting.bounds.protocol import Effort, LogQuestion, Question
from accounting.bounds.registry import ALL_BOUNDS, BOUNDS, question
from accounting.exceptions import AttackAboveCeilingError
from accounting.exposure import (
    Exposure,
    PublishedWindows,
    baseline,
    check_mistakes,
    horizon_information,
    prior_guess,
    released_information,
    window_of,
)
from accounting.exposure.crowd import (
    LEVELS,
    CrowdAdversary,
    StepCrowd,
    Variances,
    at_level,
    hidden_count,
    in_crowd,
    variance_of_window,
    variances_at,
)
from accounting.exposure.crowd.joint_law import CountsAmong, FewCounts
from accounting.exposure.own_counts import own_count, own_window
from accounting.exposure.step_information import observe
from accounting.numerics import divergence_root, most_moved
from models.releases import StepSchedule, WindowRelease

ROUNDING = 1e-9
"""How much rounding may take from either side of a comparison; most sums lose 1e-13."""


class Bounds(BaseModel):
    """Upper bounds on the success of any adversary, a field for each certain one of the registry.

    Those from outside too: what nobody vouches for may be anything, and is no part of the ceiling.

    None where one does not apply or was too expensive. ``loose`` and ``tight`` are the paper's, from its own
    information and prior guess where these exist.
    """

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, float | None]

    loose: float
    tight: float
    divergence: float

    @model_validator(mode="before")
    @classmethod
    def _with_every_bound(cls, values: Mapping[str, Any]) -> Mapping[str, Any]:
        known = [bound.name for bound in ALL_BOUNDS.values() if bound.is_certain]
        unknown = sorted(values.keys() - set(known))
        if unknown:
            raise ValueError(f"bounds must be among {known}, got {unknown}; add new ones to the registry")
        return {name: values.get(name) for name in known}


@dataclass(frozen=True, slots=True)
class Certified:
    """The smallest bound, which one it was, and with what probability it holds."""

    value: float
    by: str
    confidence: float


class Tried(NamedTuple):
    """An attack that was tried, and how often it is right at the very least."""

    attack: str
    proved: float

    def is_above(self, ceiling: float) -> bool:
        """Whether that refutes a ceiling: by more than rounding."""
        return self.proved > ceiling + ROUNDING

    def refuse_above(self, by: str, ceiling: float) -> None:
        """An :class:`AttackAboveCeilingError` if it refutes the ceiling that the bound ``by`` gives."""
        if self.is_above(ceiling):
            raise AttackAboveCeilingError(self.attack, self.proved, by, ceiling)


def all_bounds(question: Question) -> Bounds:
    """Every bound that holds with certainty, and those that nobody vouches for."""
    return Bounds.model_validate(question.values() | question.values(vouched=False))


def certify(question: Question, baseline: float, tried: Tried | None = None) -> Certified:
    """The minimum of all bounds; none that the baseline, or the attack that was ``tried``, refutes.

    Where somebody vouches for one from outside, the best adversary of exact counts, whose success is computed
    on short horizons, may refute it, too.
    """
    bounds = question.values() | question.values(certain=False)
    exposure, optimum = question.exposure, bounds.get(EXACT.name)
    is_optimum = exposure.is_raw and not exposure.is_refined and exposure.windows is None
    if optimum is not None and is_optimum and bounds.keys() & ALL_BOUNDS.own.keys():
        best = Tried("the best adversary, written down", optimum)
        tried = best if tried is None or tried.proved < optimum else tried
    return smallest(bounds, baseline, question.effort, tried)


def smallest(
    bounds: Mapping[str, float], baseline: float, effort: Effort, tried: Tried | None = None
) -> Certified:
    """The least of some bounds by name, of equal ones the first, raised to the baseline.

    No rounding may undercut that: it is the exact success of the best guess without the releases. What is
    below it, or below what was ``tried``, by more than rounding is no bound. A sampled one misses now and
    then, as its confidence says, and is left out;
    :class:`~accounting.exceptions.AttackAboveCeilingError` for any other.
    """
    by = min(bounds, key=bounds.__getitem__)
    is_sampled = any(by == bound.name for bound in BOUNDS if not bound.is_certain)
    guess = Tried("the best guess without the releases", baseline)
    best = max([guess, *([] if tried is None else [tried])], key=lambda each: each.proved)
    if is_sampled and len(bounds) > 1 and best.is_above(bounds[by]):
        left = {name: value for name, value in bounds.items() if name != by}
        return smallest(left, baseline, effort, tried)
    best.refuse_above(by, bounds[by])
    return Certified(min(1.0, max(bounds[by], baseline)), by, effort.confidence if is_sampled else 1.0)


def baseline_bound(question: Question) -> float:
    """The smallest bound with nothing released: what of a certified bound is the bounds' own slack."""
    silent = replace(question, exposure=question.exposure.nothing_released)
    return min(silent.values().values())


def with_whole_windows(asked: Question, by_steps: Certified) -> Certified:
    """The smaller of the ceiling by single steps, which show more of a window, and the one by own counts.

    Few counts that share noise are looked at together, too.
    """
    windows, exposure = asked.exposure.windows, asked.exposure
    if windows is None:
        whole = success_by_shared_noise(exposure, asked.mistakes, asked.effort.vectors)
    else:
        plain = exposure.under(windows.others)
        owns = [own_count(plain, release) for release in windows.releases]
        horizon = 0, exposure.steps - 1
        whole = own_counts_success(plain, owns, horizon, asked.mistakes, asked.effort.vectors)
    if whole is None or whole >= by_steps.value:
        return by_steps
    return smallest({"own_counts": whole}, baseline(exposure, asked.mistakes).success, asked.effort)


# Certified success against one horizon of a longer log, at the moment or in hindsight.
#
# What was released before and after the horizon enters every bound in a way that holds for any history:
#
# - the information of :mod:`accounting.exposure.history` under the binary divergence;
# - the bounds of the horizon on its own plus ``sqrt(I / 2)``, ``I`` what the outside says about the ends:
#   the law of the trace moves by no more in total variation on average (Pinsker, Jensen), and with it any
#   success;
# - every bound of the registry that can take in history and future (``Bound.within_log``).


@dataclass(frozen=True, slots=True)
class HorizonRisk:
    """``certified`` bounds any adversary's success; ``by`` names the bound that gave it."""

    first: int
    last: int
    in_hindsight: bool
    information_nats: float
    certified: float
    by: str
    confidence: float
    baseline: float


def horizon_risk(
    exposure: Exposure,
    first: int,
    last: int,
    mistakes: int,
    *,
    in_hindsight: bool = False,
    effort: Effort | None = None,
) -> HorizonRisk:
    """Risk of the steps ``first..last`` of a log whose every step is in ``exposure``.

    :class:`~accounting.exceptions.HorizonError` for a window outside the log or ``mistakes`` beyond it.
    """
    effort = effort or Effort()
    window = window_of(exposure, first, last)
    check_mistakes(mistakes, window.steps)
    released = horizon_information(exposure, first, last)
    before, after = released.carried, released.later if in_hindsight else 0.0
    information = released.in_hindsight if in_hindsight else released.at_the_moment
    within = certify(question(window, mistakes, replace(effort, draws=0)), 0.0)
    bounds = {
        "divergence": float(divergence_root(information, prior_guess(window, mistakes).best)),
        "shifted": min(1.0, within.value + most_moved(before + after)),
    }
    asked = log_question(exposure, (first, last), mistakes, in_hindsight, effort)
    for bound in BOUNDS:
        value = None if bound.within_log is None else bound.within_log(asked)
        if value is not None:
            bounds[bound.name] = value
    without = baseline(window, mistakes).success
    least = smallest(bounds, without, effort)
    return HorizonRisk(
        first=first,
        last=last,
        in_hindsight=in_hindsight,
        information_nats=information,
        certified=least.value,
        by=least.by,
        confidence=least.confidence,
        baseline=without,
    )


def log_question(
    exposure: Exposure, horizon: tuple[int, int], mistakes: int, in_hindsight: bool, effort: Effort
) -> LogQuestion:
    """The question for bounds that can use the log before and, in hindsight, after the ``horizon``."""
    first, last = horizon
    seen = exposure.steps if in_hindsight else last + 1
    after = exposure.hits[last + 1 : seen]
    ends = future_ends(exposure.person, last, after, exposure.marginal[last], MOST_LAWS)
    return LogQuestion(exposure, first, last, seen, mistakes, ends, effort)


# Certified success of an adversary who does not know where the others are; see ``exposure.crowd``.
#
# There are two ways; the informed adversary does no worse than either says:
#
# - *information*: each count is worth the mean of what it reveals over all that may be revealed of the
#   others. Terms add up, and the binary divergence follows.
# - *levels*: what is revealed decides how much every count reveals, of all steps at once, so means may not
#   be put into a bound on success. But with a probability of at least ``1 - b`` no count that can see the
#   person reveals more than ``delta(b)`` (a share of ``b`` for each), and for smaller ``b`` these events
#   are wider. So ``(1 - b_1) f(delta(b_1)) + (b_1 - b_2) f(delta(b_2)) + .. + b_k f(1)``, with ``f`` any
#   bound of counts erased but for these probabilities.
#
# Beyond the papers: Koga, Meehan and Chaudhuri name this adversary as future work.

BY_INFORMATION, BY_LEVELS, BY_ALL_COUNTS = "crowd_divergence", "crowd_levels", "crowd_counts"


@dataclass(frozen=True, slots=True)
class SeenInCrowd:
    """A log of steps as the crowd adversary sees it: each step, its crowd, and what the adversary knows.

    ``windows`` are the counts over windows that are published, in steps counted from the first.
    """

    steps: Sequence[StepSchedule]
    crowds: Sequence[StepCrowd]
    adversary: CrowdAdversary
    windows: Sequence[WindowRelease] = ()
    few: FewCounts | None = None  # all counts, where there are few
    whole: CountsAmong | None = None  # these as one person's

    def of_person(self, person: int) -> SeenInCrowd:
        """With all counts together, where there are few, of one of those who live like this prior."""
        return self if self.few is None else replace(self, whole=self.few.among(person))

    def until(self, steps: int) -> SeenInCrowd:
        """The first so many steps."""
        return replace(
            self, steps=self.steps[:steps], crowds=self.crowds[:steps], windows=(), few=None, whole=None
        )

    def for_information(self, exposure: Exposure) -> Exposure:
        """The person under the steps as this adversary sees them, for bounds on information alone."""
        pairs = zip(self.steps, self.crowds, strict=True)
        return self._under(exposure, [in_crowd(*pair, self.adversary) for pair in pairs])

    def at_level(self, exposure: Exposure, level: float) -> Exposure:
        """The person under counts of which any reveals more with a probability of ``level`` at most."""
        # Rounded up to a power of two, so that people share what is computed for a share.
        counts = counts_that_see(exposure) * most_at_one_place(self.steps)
        share = level / (1 << max(0, counts - 1).bit_length())
        pairs = zip(self.steps, self.crowds, strict=True)
        steps = [at_level(*pair, self.adversary, share) for pair in pairs]
        return self._under(exposure, steps, self._windows_at(steps, share))

    def of_everything(self, exposure: Exposure) -> Exposure:
        """The person under the steps as the informed adversary sees them; noise hides no companions."""
        return self.at_level(exposure, 0.0)

    def _windows_at(self, steps: Sequence[StepSchedule], share: float) -> Sequence[WindowRelease]:
        """The counts over windows, in steps counted from the first, of which any reveals more so seldom."""
        hidden = [
            variances_at(step, crowds, self.adversary, share)
            for step, crowds in zip(self.steps, self.crowds, strict=True)
        ]
        return [self._hidden(each, hidden) for each in self.windows]

    def _hidden(self, own: WindowRelease, hidden: Sequence[Variances]) -> WindowRelease:
        variance = variance_of_window(own.sensor.name, hidden[own.earliest_place : own.last + 1])
        mechanism = hidden_count(own.mechanism, own.most_counts, variance, self.adversary.companions)
        return replace(own, mechanism=mechanism)

    def _under(
        self, exposure: Exposure, steps: Sequence[StepSchedule], windows: Sequence[WindowRelease] = ()
    ) -> Exposure:
        locations = exposure.observations[0].labels.size
        seen = tuple(observe(step, locations) for step in steps)
        if not windows:
            return exposure.under(seen)
        plain = (replace(step, releases=step.published or ()) for step in steps)
        others = tuple(observe(step, locations) for step in plain)
        return exposure.under(seen, PublishedWindows(tuple(windows), others))


def counts_that_see(exposure: Exposure) -> int:
    """How many counts of the exposure can count the person."""
    found = 0
    for observation, labels, hits in zip(exposure.observations, exposure.labels, exposure.hits, strict=True):
        outcomes = np.unique(labels[hits]).tolist()
        found += len({sensor for outcome in outcomes for sensor in observation.outcomes[outcome]})
    return found


def most_at_one_place(steps: Sequence[StepSchedule]) -> int:
    """How many counts that hide by themselves the steps show as one."""
    ends = Counter[tuple[int, tuple[int, ...]]]()
    for step in steps:
        for part in () if step.parts is None else step.parts.shown:
            ends[step.step, part.places.locations] += len(part.ends)
    return max(1, *ends.values(), 1)


def over_levels(ceiling: Callable[[float], float], everything: float) -> float:
    """``(1 - b_1) f(b_1) + .. + b_k f(1)`` of a bound ``ceiling(b)``; ``everything``: of all counts."""
    total, smaller, least = LEVELS[-1] * everything, LEVELS[-1], everything
    for level, larger in zip(reversed(LEVELS), (*reversed(LEVELS[:-1]), 1.0), strict=True):
        least = min(least, ceiling(level))  # an adversary who sees less does no better
        total += (larger - smaller) * least
        smaller = larger
    return total


def certify_in_crowd(
    exposure: Exposure, seen: SeenInCrowd, mistakes: int, effort: Effort, baseline: float
) -> Certified:
    """The smallest ceiling against the crowd adversary, raised to the baseline; holds with certainty."""
    certain = replace(effort, draws=0)
    everything = certify(question(seen.of_everything(exposure), mistakes, certain), baseline)
    nats = released_information(seen.for_information(exposure)).best
    guess = prior_guess(exposure, mistakes).best
    found = {BY_INFORMATION: float(divergence_root(nats, guess))}
    if everything.value > baseline:

        def ceiling(level: float) -> float:
            asked = question(seen.at_level(exposure, level), mistakes, certain)
            found = certify(asked, baseline)
            return (with_whole_windows(asked, found) if seen.windows else found).value

        found[BY_LEVELS] = over_levels(ceiling, everything.value)
    together = None if seen.whole is None else success_among(exposure, seen.whole, mistakes, effort.vectors)
    if together is not None:
        found[BY_ALL_COUNTS] = together
    if min(found.values()) >= everything.value:
        return everything
    return smallest(found, baseline, certain)


def success_among(exposure: Exposure, counts: CountsAmong, mistakes: int, wanted: int) -> float | None:
    """Success of any adversary who sees these counts of the person of ``exposure`` and of all others."""
    windows = tuple(own_window(exposure, each) for each in counts.releases)
    asked = Asked(exposure.start, exposure.moves, exposure.guessed, exposure.cost, 0, False, mistakes)
    found = success_by_pattern(asked, OwnPattern(windows, counts.seen), wanted)
    return None if found is None else min(1.0, found + counts.left_out)


def horizon_risk_in_crowd(
    exposure: Exposure,
    seen: SeenInCrowd,
    window: tuple[int, int],
    mistakes: int,
    *,
    in_hindsight: bool = False,
    effort: Effort | None = None,
) -> HorizonRisk:
    """Risk of the steps ``first..last`` of a log against the crowd adversary; otherwise as ``horizon_risk``.

    ``seen`` is the log, whose every step is in ``exposure``. What is revealed of the others is revealed of
    the whole log at once, so history and future enter as they do for the informed adversary.
    """
    first, last = window
    shown = exposure.steps if in_hindsight else last + 1
    exposure, seen = exposure.under(exposure.observations[:shown]), seen.until(shown)

    def risk(of: Exposure) -> HorizonRisk:
        least = replace(effort or Effort(), draws=0)
        return horizon_risk(of, first, last, mistakes, in_hindsight=in_hindsight, effort=least)

    everything = risk(seen.of_everything(exposure))
    revealed = horizon_information(seen.for_information(exposure), first, last)
    nats = revealed.in_hindsight if in_hindsight else revealed.at_the_moment
    guess = prior_guess(window_of(exposure, first, last), mistakes).best
    found = {BY_INFORMATION: float(divergence_root(nats, guess))}
    if everything.certified > everything.baseline:
        found[BY_LEVELS] = over_levels(
            lambda level: risk(seen.at_level(exposure, level)).certified, everything.certified
        )
    if min(found.values()) >= everything.certified:
        return everything
    least = smallest(found, everything.baseline, effort or Effort())
    return replace(
        everything,
        certified=least.value,
        by=least.by,
        information_nats=min(nats, everything.information_nats),
    )

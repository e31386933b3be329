"""Certified success against a horizon of a log whose releases count over windows of fine steps.

Every bound holds for any adversary; the least counts:

- ``shown``: the places of all windows, raw (:mod:`accounting.bounds.windows.shown_places`);
- ``erasure`` and ``large_counts``: noised windows as coins (:mod:`accounting.bounds.windows.kept_windows`);
- ``divergence``: the information of all own counts under the binary divergence;
- ``shifted``: without the windows, plus ``sqrt(I / 2)`` for what their own counts reveal (Pinsker, Jensen).

Releases of one step's presence stay as they are in all of them; a log of such releases alone has the risk of
:func:`accounting.bounds.certified_horizon`, bit for bit.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from accounting.bounds import HorizonRisk, horizon_risk, smallest
from accounting.bounds.protocol import Effort
from accounting.bounds.windows.kept_windows import (
    MOST_COINS,
    by_the_spread,
    coin_groups,
    expected_success,
    success_of_sets,
    with_large_counts_charged,
)
from accounting.bounds.windows.shown_places import shown_schedule
from accounting.exceptions import HorizonError
from accounting.exposure import Exposure, baseline, check_mistakes, prior_guess, window_of
from accounting.exposure.own_counts import OwnCount, own_count, window_information
from accounting.exposure.step_information import observe
from accounting.numerics.divergence_root_kernel import divergence_root, most_moved
from models.releases import StepSchedule, WindowRelease


@dataclass(frozen=True, slots=True)
class WindowRisk:
    """``certified`` bounds any adversary's success about the steps ``first..last``, counted in fine steps.

    ``bounds`` has every bound that was computed, ``by`` names the least of them; ``baseline`` is the best
    guess without any release. ``own_counts`` (one a release, in the order given) has the laws of what the
    person adds. ``information_nats`` is what all own counts reveal about the horizon, at most.
    """

    first: int
    last: int
    in_hindsight: bool
    certified: float
    by: str
    confidence: float
    baseline: float
    bounds: Mapping[str, float]
    information_nats: float
    own_counts: tuple[OwnCount, ...]


def window_risk(
    exposure: Exposure,
    releases: Sequence[WindowRelease],
    horizon: tuple[int, int],
    mistakes: int,
    *,
    in_hindsight: bool = False,
    effort: Effort | None = None,
) -> WindowRisk:
    """Risk of the steps ``horizon`` (first and last, inclusive) of the person of ``exposure``.

    ``exposure`` says how many fine steps the log has; its own releases are not looked at. At the moment only
    windows that have ended with the horizon count, in hindsight all.
    :class:`~accounting.exceptions.HorizonError` for windows or a horizon outside the log.
    """
    effort = effort or Effort()
    first, last = horizon
    check_mistakes(mistakes, window_of(exposure, first, last).steps)
    for release in releases:
        if release.last >= exposure.steps:
            raise HorizonError(
                f"windows must end in steps of the log, 0..{exposure.steps - 1}",
                release.last,
                "lengthen the log, or leave the release out",
            )
    owns = tuple(own_count(exposure, release) for release in releases)
    published = [
        own
        for own in owns
        if own.release.mechanism.is_released and (in_hindsight or own.release.last <= last)
    ]
    question = _WindowQuestion(
        exposure, (first, last), mistakes, in_hindsight, effort, tuple(published), owns
    )
    bounds = question.bounds()
    without = baseline(window_of(exposure, first, last), mistakes).success
    least = smallest(bounds, without, effort)
    return WindowRisk(
        first=first,
        last=last,
        in_hindsight=in_hindsight,
        certified=least.value,
        by=least.by,
        confidence=least.confidence,
        baseline=without,
        bounds=bounds,
        information_nats=window_information(exposure, published, first, last).total,
        own_counts=owns,
    )


@dataclass(frozen=True)
class _WindowQuestion:
    """A horizon, and the own counts of what the adversary has seen."""

    exposure: Exposure
    horizon: tuple[int, int]
    mistakes: int
    in_hindsight: bool
    effort: Effort
    seen: tuple[OwnCount, ...]
    all: tuple[OwnCount, ...]  # those to come too: the risk of steps leaves them out where it must

    def bounds(self) -> dict[str, float]:
        """Every bound by its name."""
        steps = [own.release for own in self.all if own.release.as_step is not None]
        windows = [own for own in self.seen if own.release.as_step is None and not own.is_constant]
        if not windows:
            found = self._step_risk(shown_schedule(self.exposure.steps, (), steps), self.effort)
            return {found.by: found.certified}
        effort = replace(self.effort, draws=0)
        raw = [own for own in windows if own.release.mechanism.is_exact]
        noised = [own for own in windows if not own.release.mechanism.is_exact]
        groups = coin_groups(noised, min(MOST_COINS, max(0, effort.patterns.bit_length() - 1)))

        def success(shown: Sequence[int]) -> float:
            kept = [noised[each].release for k in shown for each in groups[k]]
            places = shown_schedule(self.exposure.steps, [own.release for own in raw] + kept, steps)
            return self._step_risk(places, effort).certified

        without = self._step_risk(shown_schedule(self.exposure.steps, (), steps), effort).certified
        revealed = sum(own.information_nats for own in windows)  # given the steps' releases: not carried
        bounds = {
            "divergence": self._by_information(),
            "shifted": min(1.0, without + most_moved(revealed)),
            "shown": success(range(len(groups))),
        }
        if groups:
            values = success_of_sets(len(groups), success)
            shown, _ = by_the_spread(noised)
            bounds["erasure"] = expected_success(values, groups, shown)
            shown, charged = with_large_counts_charged(noised)
            bounds["large_counts"] = min(1.0, charged + expected_success(values, groups, shown))
        return bounds

    def _by_information(self) -> float:
        information = window_information(self.exposure, self.seen, *self.horizon)
        guess = prior_guess(window_of(self.exposure, *self.horizon), self.mistakes)
        return float(divergence_root(information.total, guess.best))

    def _step_risk(self, schedule: Sequence[StepSchedule], effort: Effort) -> HorizonRisk:
        locations = self.exposure.observations[0].labels.size
        seen = self.exposure.under(tuple(observe(step, locations) for step in schedule))
        first, last = self.horizon
        return horizon_risk(seen, first, last, self.mistakes, in_hindsight=self.in_hindsight, effort=effort)

"""How much the releases reveal about one person's trajectory: upper bounds on ``I(X; Y_1..Y_T)``, nats.

All are valid, the smallest counts. Raw releases: Koga et al.'s sum and the exact value by renewals (beyond
the paper). Noised ones: pairwise divergences, the exact information of each count, and data processing.
"""

from __future__ import annotations

from dataclasses import dataclass

from accounting.exposure.exposure import Exposure
from accounting.exposure.step_information import nothing_seen
from accounting.exposure.step_information.step_terms_kernel import (
    StepTerms,
    person_noised_terms,
    person_terms,
)


@dataclass(frozen=True, slots=True)
class Information:
    """Information released about one person over a horizon, nats.

    ``koga`` is the paper's bound, None unless each step has exactly one released sensor. ``exact`` is
    ``I(X; Y)``, None for noised releases and where a count leaves open which of several own places was meant.
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
    return StepTerms(
        *person_terms(
            exposure.chain,
            exposure.slot(before),
            exposure.marginal[before],
            exposure.marginal[step],
            exposure.observations[before].view if step else nothing_seen(view.labels.size),
            view,
        )
    )


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
        return Information(koga, raw, raw, tuple(shares.tolist()))
    terms = [person_step_terms(exposure, t).conditional for t in range(exposure.steps)]
    # A noised release reveals no more than the raw one (data processing).
    best = min(sum(terms), raw) if koga is None else min(sum(terms), raw, koga)
    shown = terms if sum(terms) <= raw else shares.tolist()
    return Information(koga, None, best, tuple(shown))

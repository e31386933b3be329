"""The check while an engine runs: evidence against the priors that may be looked at after every guess."""

from __future__ import annotations

from math import log, log1p

from accounting.exceptions import SettingsError

STAKE = 0.5
"""Of the evidence at each guess; from 0.3 to 1 the same faults are found within a few guesses."""


class RunningCheck:
    """Evidence that guesses succeed more often than ceilings say: ``M = prod(1 + stake (a_i - b_i))``.

    While every ``b_i`` bounds the probability of success given all that came before, ``M`` grows on average
    never, so that it ever reaches ``1 / level`` has at most probability ``level``, whenever one looks and
    stops (Ville's inequality). ``b_i`` must be fixed before the guess is judged.
    """

    def __init__(self, level: float = 0.05, stake: float = STAKE, log_evidence: float = 0.0) -> None:
        """``log_evidence`` is that of an earlier check of the same people, which goes on."""
        if not 0.0 < level < 1.0:
            raise SettingsError("the level of an alarm must lie between 0 and 1", level, "use 0.05, say")
        if not 0.0 < stake <= 1.0:
            raise SettingsError("a stake must be above 0 and at most 1", stake, f"use {STAKE}")
        self.level = level
        self.stake = stake
        self.log_evidence = log_evidence
        self.is_refuted = self._is_reached()

    def record(self, is_right: bool, ceiling: float) -> bool:
        """Take in one guess and its ceiling; whether the priors have been refuted, now or earlier."""
        if not 0.0 <= ceiling <= 1.0:
            raise SettingsError("a ceiling must lie between 0 and 1", ceiling, "pass a probability")
        growth = self.stake * (float(is_right) - ceiling)
        self.log_evidence += log1p(growth) if growth > -1.0 else float("-inf")
        self.is_refuted = self.is_refuted or self._is_reached()
        return self.is_refuted

    def _is_reached(self) -> bool:
        return self.log_evidence >= -log(self.level)

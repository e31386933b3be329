"""Errors that a user of the accountant can cause: each says what must hold, what was found and what to do."""

from __future__ import annotations

from models.exceptions import TallyguardError


class HorizonError(TallyguardError):
    """The horizon, the number of mistakes or the start do not fit together."""


class EffortError(TallyguardError):
    """A parameter that trades time for sharpness is out of range."""


class SettingsError(TallyguardError):
    """A setting of the accountant is out of range or does not fit the population."""


class StepOrderError(TallyguardError):
    """Steps were not applied one after the other."""


class SnapshotError(TallyguardError):
    """A saved state does not belong to this population, these settings or this version."""


class ImpossibleObservationError(TallyguardError):
    """An observation has probability zero under the prior of the person it is about."""


class UnknownReleaseError(TallyguardError):
    """A log has a release whose cost the ledger does not know."""


class AttackAboveCeilingError(TallyguardError):
    """An attack succeeds more often than its ceiling allows: something reveals more than it says."""

    def __init__(self, attack: str, proved: float, by: str, ceiling: float) -> None:
        super().__init__(
            f"no attack may be right more often than the ceiling by {by!r}, {ceiling:.6g}",
            f"{attack!r}, which is right in {proved:.6g} or more (with confidence 1 - 1e-9)",
            "rely on no ceiling of these releases: run tallyguard.check_mechanism on each mechanism of "
            "your own, check_bound on each bound, and report a fault if all of them pass",
        )


class CompositionError(TallyguardError):
    """Privacy losses cannot be added up, because the condition of the rule does not hold."""


class LedgerError(TallyguardError):
    """A ledger's question does not fit the log, or is too large to answer exactly."""


class InferentialPrivacyError(TallyguardError):
    """Order, radius or releases do not define a conditional inferential privacy loss."""

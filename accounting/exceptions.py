"""Errors a user of the accountant can cause. Each says what must hold, what was found and what to do."""

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
    """A ledger met a release whose cost it does not know."""


class CompositionError(TallyguardError):
    """A rule for adding up privacy losses was asked for where its condition does not hold."""


class LedgerError(TallyguardError):
    """A ledger's question does not fit the log, or is too large to answer exactly."""


class InferentialPrivacyError(TallyguardError):
    """Order, radius or releases do not define a conditional inferential privacy loss."""

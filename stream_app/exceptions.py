"""Errors an operator can cause and mend. Each says what must hold, what was found and what to do."""

from __future__ import annotations

from models.exceptions import TallyguardError


class SettingsError(TallyguardError):
    """A setting is unknown, misspelled or out of range."""


class InputError(TallyguardError):
    """The input cannot be read, or is not the one that the output folder was made from."""


class OutputError(TallyguardError):
    """The output folder cannot be used: damaged, or not made by this program."""


class OutputLockedError(OutputError):
    """Another run writes to the same output folder."""


class RunChangedError(OutputError):
    """Settings, priors or keys differ from those the output folder was started with."""


class TierContinuationError(OutputError):
    """Past values of a tier cannot be drawn: the noise key of their steps is not the one at hand."""


class AccountingFailedError(TallyguardError):
    """A step could not be accounted, so it was not published and the engine stopped."""

"""Errors that an operator can cause and fix. Each says what must hold, what was found and what to do."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping
from difflib import get_close_matches
from typing import TYPE_CHECKING

from models.exceptions import TallyguardError

if TYPE_CHECKING:
    from pydantic import ValidationError


def first_fault(error: ValidationError) -> str:
    """What a model says first of what it was given, without quoting that: it may name a person or a count."""
    return error.errors(include_url=False, include_input=False)[0]["msg"]


def meant(name: str, known: Iterable[str], otherwise: str) -> str:
    """The remedy for a name that is not known: the one that was probably meant, else what is said here."""
    close = get_close_matches(name, list(known), n=1)
    return f"did you mean {close[0]!r}?" if close else otherwise


def restoring(what: str) -> str:
    """The remedy for a record that is lost or damaged: only a backup helps."""
    return (
        f"restore {what} from a backup; a new deployment would forget what was published, and every risk "
        "would be too low (docs/how-to/restart-and-recover.md, When a record is lost)"
    )


def keeping(changed: Iterable[str], acceptable: Container[str], why: Mapping[str, str] | None = None) -> str:
    """The remedy where a deployment is continued with other settings than before.

    ``why`` says of settings why they cannot change.
    """
    fixed = [key for key in changed if key not in acceptable]
    if not fixed:
        return "put back what it was, or accept it from the next step on with --accept-changes"
    said = dict.fromkeys((why or {}).get(key, _OTHERWISE) for key in fixed)
    return (
        f"put back what it was; with anything else {'; '.join(said)} "
        "(docs/how-to/restart-and-recover.md, Changed settings)"
    )


_OTHERWISE = "the accounts would not be those of what was published"


class SettingsError(TallyguardError):
    """A setting is unknown, misspelled or out of range."""


class InputError(TallyguardError):
    """The input cannot be read, or is not the one that the output folder was made from."""


class OutputError(TallyguardError):
    """The output folder cannot be used: damaged, or not made by this program."""


class DiskFullError(OutputError):
    """The disk of the output folder has no room; with room the same run continues."""


class OutputLockedError(OutputError):
    """Another run writes to the same output folder."""


class KeyUsedError(OutputError):
    """The noise key was used for more than the output folder holds, or with other noise."""


class RunChangedError(OutputError):
    """Settings, priors or keys differ from those the output folder was started with."""


class TierContinuationError(OutputError):
    """Past values of a tier cannot be drawn: the noise key of their steps is not the one at hand."""


class PeerError(TallyguardError):
    """A broker or service that counts come from, or releases go to, cannot be reached or refuses us."""


class AccountingFailedError(TallyguardError):
    """A step could not be accounted, so it was not published and the engine stopped."""

"""Errors a user of the models can cause. Each says what must hold, what was found and what to do."""

from __future__ import annotations

MOST_CHARACTERS = 480
"""The length of each of an error's three parts: what was found may be a whole file."""


def shortened(text: str, most: int) -> str:
    """The text, or the beginning and the end of a longer one."""
    if len(text) <= most:
        return text
    return f"{text[: most // 2]} ... {text[-(most // 2 - 5) :]}"


class TallyguardError(Exception):
    """Base of every error that a user can cause and correct.

    ``must`` is the rule, ``got`` what was found, ``remedy`` what to do about it; the message is the three in
    one sentence: ``transition row 3 of person 'p1' must sum to 1, got 0.97; renormalise it or drop the
    row``.
    """

    def __init__(self, must: str, got: object, remedy: str) -> None:
        self.must = shortened(must, MOST_CHARACTERS)
        self.got = got
        self.remedy = shortened(remedy, MOST_CHARACTERS)
        super().__init__(f"{self.must}, got {shortened(str(got), MOST_CHARACTERS)}; {self.remedy}")


class ArgumentError(TallyguardError):
    """An argument of a public function is not what the function takes."""


class MachineError(TallyguardError):
    """This machine's CPU cannot run the kernels."""


class PriorError(TallyguardError):
    """A movement prior is not a Markov chain on the deployment's locations."""


class PositionError(PriorError, IndexError):
    """There is no person at this position of a population."""


class PriorFileError(TallyguardError):
    """A priors file cannot be read as one."""


class PersonaError(TallyguardError):
    """Aggregates contradict each other, or no personas can be made from them."""


class CheckinError(TallyguardError):
    """A check-in file cannot be read, or cannot be fitted with the chosen options."""


class SensorError(TallyguardError):
    """A sensor is unknown, or its description does not fit the locations."""


class CalendarError(TallyguardError):
    """A time zone or a holiday does not exist, or does not fit the steps or the priors."""


class ScheduleError(TallyguardError):
    """A schedule names an unknown sensor or mechanism, or is not in the documented form."""


class MechanismError(TallyguardError):
    """A mechanism's parameters are out of range, or a count cannot be released with it."""


class NoiseKeyError(TallyguardError):
    """The secret noise key is missing, too short or of an unknown epoch."""


class PseudonymKeyError(TallyguardError):
    """The secret pseudonym key is missing or too short."""


class SnapshotKeyError(TallyguardError):
    """The key of snapshots is missing or too short."""


class GaussianProcessError(TallyguardError):
    """A kernel, its times or the values it is fitted to are out of range."""


class NoiseDesignError(TallyguardError):
    """A noise design that cannot exist was asked for, or a solver's answer failed the check."""

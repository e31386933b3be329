"""Settings of the accountants: the horizon that the adversary reconstructs, and the risk budget."""

from __future__ import annotations

from dataclasses import dataclass, replace
from fractions import Fraction
from math import inf
from typing import TYPE_CHECKING

from accounting.exceptions import SettingsError
from models.arguments import checked

if TYPE_CHECKING:
    from models.calendar import Calendar  # which needs numpy, and every --help reads these settings
    from models.priors import Population, Question

HORIZON = 10
MISTAKES = 1
"""The defaults everywhere. If half of the steps could be wrong, habits alone would decide the risk."""

OPERATIONS = 60_000_000_000
"""The default work on refined bounds in a step of a run: enough for a city of 100 000 people."""

OPERATION_SECONDS = 1e-9
"""About how long an operation takes on one core."""


@checked(SettingsError, infinite=("within_nats",))
@dataclass(frozen=True, slots=True)
class HorizonSettings:
    """What the adversary reconstructs: the last ``horizon`` steps, with at most ``mistakes`` of them wrong.

    ``thresholds`` are the levels of risk and of added risk at which people are counted. ``first_slot`` is the
    slot of step 0 in the priors' cycle, and ``first_step`` is the first step that will be applied.

    The fast bound is computed for all people. With ``sharpen``, people whose fast bound reaches
    ``sharpen_above`` (None: the lowest threshold) are refined, most added risk first, as far as the
    ``operations`` of a step go (None: any number; see :mod:`accounting.continuous.cascade`). The frontier
    bound then has this many ``vectors``. People who are not reached keep the fast bound, which is valid and
    larger. People above the ``decided`` limit by the fast bound are refined in any case, because decisions
    under a risk budget count on it.

    ``within_nats`` raises each certified risk that is shown or compared with a threshold or limit, so that it
    holds for every person whose law of places over all steps has a relative entropy ``KL(person || prior)``
    of at most that. Steps count from the first step of the first horizon, ``horizon - 1`` before the log: a
    person who moves less than the prior says is reconstructed there from the first count on
    (:meth:`accounting.bounds.radius.Radius.between` with ``first=1 - horizon``). Added risks stay those under
    the prior.

    With a ``question`` something else is to be guessed than the place, or not in every step
    (:class:`models.priors.Question`): of all people of an account.

    With a ``calendar`` slots follow the local clock; its own ``first_slot`` must be that of the settings.
    """

    horizon: int = HORIZON
    mistakes: int = MISTAKES
    thresholds: tuple[float, ...] = (0.01, 0.05, 0.1, 0.25, 0.5)
    first_slot: int = 0
    first_step: int = 0
    sharpen: bool = True
    sharpen_above: float | None = None
    vectors: int = 16
    operations: int | None = None
    decided: RiskBudget | None = None
    within_nats: float = 0.0
    calendar: Calendar | None = None
    question: Question | None = None

    def __post_init__(self) -> None:
        """:class:`~accounting.exceptions.SettingsError` names the setting that is out of range."""
        if self.horizon < 1:
            raise SettingsError("horizon must be at least 1 step", self.horizon, "set it to 10, for example")
        if not 0 <= self.mistakes < self.horizon:
            raise SettingsError(
                f"mistakes must lie in 0..{self.horizon - 1} (below the horizon)",
                self.mistakes,
                "lower mistakes or lengthen the horizon",
            )
        levels = list(self.thresholds)
        if any(not 0 < level <= 1 for level in levels) or levels != sorted(set(levels)):
            raise SettingsError(
                "thresholds must be increasing probabilities in (0, 1]", levels, "sort and correct them"
            )
        if self.first_slot < 0 or self.first_step < 0:
            raise SettingsError(
                "first_slot and first_step must be 0 or more",
                (self.first_slot, self.first_step),
                "count slots and steps from 0",
            )
        if self.sharpen_above is not None and not 0.0 <= self.sharpen_above <= 1.0:
            raise SettingsError("sharpen_above must lie in 0..1", self.sharpen_above, "use None or 0.1")
        if self.vectors < 1:
            raise SettingsError("vectors must be at least 1", self.vectors, "use 16 for a good start")
        if self.operations is not None and self.operations < 0:
            raise SettingsError("operations must be at least 0", self.operations, "use None for no limit")
        if not (self.calendar is None or hasattr(self.calendar, "is_regular")):
            raise SettingsError(
                "calendar must be a Calendar or None", type(self.calendar).__name__, "see tg.Calendar"
            )
        if not (self.question is None or hasattr(self.question, "asked_of")):
            raise SettingsError(
                "question must be a Question or None", type(self.question).__name__, "see tg.Question"
            )
        if self.calendar is not None and self.calendar.first_slot != self.first_slot:
            raise SettingsError(
                f"the calendar's first_slot must be {self.first_slot}, as in the settings",
                self.calendar.first_slot,
                "make both the slot of step 0",
            )
        if not 0.0 <= self.within_nats < inf:
            raise SettingsError("a radius must be 0 or more nats", self.within_nats, "use 0 for the prior")

    @checked(SettingsError)
    def starting_at(self, step: int) -> HorizonSettings:
        """The same settings for an accountant that starts at another step."""
        return replace(self, first_step=step)

    def asked_of(self, population: Population) -> Population:
        """The population, of whom the question is asked.

        :class:`~accounting.exceptions.SettingsError` where a clock that is changed would give chains without
        a cycle moves of hours that are skipped.
        """
        if self.question is None:
            return population
        asked = self.question.asked_of(population)
        if self.calendar is not None and (asked.arrays.slots != population.arrays.slots).any():
            raise SettingsError(
                "hours that are asked about by a clock that is changed must be those of the priors' cycle",
                "priors with a shorter cycle",
                "give priors with a cycle of a day, or leave timezone out",
            )
        return asked

    @property
    def refines(self) -> bool:
        """Whether people may be refined at all."""
        return self.sharpen and self.operations != 0

    @property
    def refined_from(self) -> float:
        """The risk by the fast bound from which people are refined."""
        if self.sharpen_above is not None:
            return self.sharpen_above
        return self.thresholds[0] if self.thresholds else 0.0


@checked(SettingsError)
@dataclass(frozen=True, slots=True)
class RiskBudget:
    """At most a ``share`` of people may have a certified risk above ``risk`` or an added one above ``added``.

    A person above both counts once. People who are above the limit by habits alone count too; with
    ``habits_apart`` they count only if releases raise their risk by ``added`` over the bound with nothing
    released. ``in_hindsight`` also counts what later releases reveal about a horizon; ``reserve`` is then the
    share of each person's information that is set aside for later releases.
    """

    share: float = 0.0
    risk: float | None = None
    added: float | None = None
    habits_apart: bool = False
    in_hindsight: bool = False
    reserve: float = 0.5

    def __post_init__(self) -> None:
        """:class:`~accounting.exceptions.SettingsError` names what is out of range."""
        if self.risk is None and self.added is None:
            raise SettingsError("a risk budget must limit risk or added risk", "neither", "set one of them")
        for name, value in (("share", self.share), ("risk", self.risk), ("added", self.added)):
            if value is not None and not 0.0 <= value <= 1.0:
                raise SettingsError(f"{name} of a risk budget must lie in 0..1", value, "correct it")
        if not 0.0 < self.reserve < 1.0:
            raise SettingsError("reserve must lie between 0 and 1", self.reserve, "use 0.5 for a start")

    def allowed(self, people: int) -> int:
        """How many of these people may be above the limit; the share counts as the decimal as written."""
        return int(Fraction(repr(float(self.share))) * people)

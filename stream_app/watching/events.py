"""What the engine reports to those who watch it: metrics, the page, progress bars.

An observer is called once things are durable, and sees published values only. Single people are reachable
through :class:`~stream_app.watching.people.PeopleView` alone, by pseudonym: an observer that passes them on
asks for an access token, and so does one that passes on which devices are suspected, as that follows from
counts. Subclass :class:`Observer` and override what is of interest; every method does
nothing by default.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any

from models.releases import StepSchedule
from stream_app.wire import Outcome, Reason

if TYPE_CHECKING:
    from accounting.exposure.crowd import StepCrowd
    from accounting.ledgers import PrivacyAccount
    from stream_app.watching.people import PeopleView
    from stream_app.wire import ClockOff, DecisionReason, DeviceFinding, RiskSummary


@dataclass(frozen=True, slots=True)
class StepClosed:
    """One closed step: its schedule is accounted, its release durable.

    ``schedule`` is what was decided and accounted, ``missing`` the sensors of it that did not report and are
    released as nothing. ``published`` maps a sensor to its public value. ``latency_seconds`` is the time from
    the message that closed the step to its durable release and risks. ``is_replayed`` is true while a restart
    repeats steps that an earlier run has published already. ``why`` says what settled the decision,
    where a risk budget did. ``crowds`` are what each of the schedule's counts hides among, where that is
    known. ``accounted`` is the schedule brought to single steps, None where it is the same. ``sensors`` are
    those whose step this is, None for all: a region closes the steps of its own.
    """

    step: int
    schedule: StepSchedule
    published: Mapping[str, int]
    missing: tuple[str, ...]
    people: int
    summary: RiskSummary | None
    latency_seconds: float
    lag_steps: int
    is_replayed: bool = False
    why: DecisionReason | None = None
    crowds: StepCrowd | None = None
    accounted: StepSchedule | None = None
    sensors: frozenset[str] | None = None


@dataclass(frozen=True, slots=True)
class RunStarted:
    """A run begins, or continues at ``next_step`` after an earlier one on the same output.

    ``view`` answers questions about the people accounted for, where this process holds their priors; ``note``
    is what must be said of the priors where it does not, though it knows.
    """

    people: int
    next_step: int
    view: PeopleView | None = field(default=None, repr=False)
    note: str | None = field(default=None, repr=False)


@dataclass(frozen=True, slots=True)
class PanelChecked:
    """Volunteers' true places were compared with the priors: ``guesses`` so far, and what they add up to.

    Right priors are refuted with at most the probability of the setting ``panel_level``.
    """

    guesses: int
    evidence: float
    is_refuted: bool


@dataclass(frozen=True, slots=True)
class RunStopped:
    """A run ended. ``reason`` is one of ``end of input``, ``signal`` or ``failure: ...``."""

    next_step: int
    reason: str


class Observer:
    """Is called for everything that the engine does; by default each method does nothing."""

    may_lag = False
    """Whether later steps may be accounted when :meth:`closed` is called: it does not ask the view."""

    def started(self, event: RunStarted) -> None:
        """A run begins or continues."""

    def restored(self, schedule: StepSchedule) -> None:
        """A step of the last horizon was closed by an earlier run, or is passed over; before what follows."""

    def carried(self, account: PrivacyAccount) -> None:
        """What all steps of earlier runs have spent, before :meth:`started`."""

    def received(self, outcome: Outcome, readings: int = 1) -> None:
        """So many readings were taken, were repetitions, or were refused."""

    def rejected(self, reason: Reason) -> None:
        """A message went to the dead letters."""

    def clock_read(self, off: ClockOff) -> None:
        """Where steps close by the clock: now and then, whether it is followed."""

    def closed(self, event: StepClosed) -> None:
        """A step was closed and published."""

    def panel_checked(self, event: PanelChecked) -> None:
        """Volunteers' true places were compared with the priors: at the start, and every twenty guesses."""

    def devices_suspected(self, findings: tuple[DeviceFinding, ...]) -> None:
        """All devices that seem broken now, at the start and whenever that changes; for the owner only."""

    def stopped(self, event: RunStopped) -> None:
        """A run ended."""


class Observers(Observer):
    """Calls several observers one after the other."""

    def __init__(self, observers: Sequence[Observer] = ()) -> None:
        self.may_lag = all(each.may_lag for each in observers)
        for name, method in vars(Observer).items():
            if callable(method) and not name.startswith("_"):
                own = [getattr(each, name) for each in observers]
                heard = [each for each in own if getattr(each, "__func__", None) is not method]
                setattr(self, name, partial(_call_all, heard))


def _call_all(methods: Sequence[Callable[..., None]], *event: Any, **more: Any) -> None:
    for method in methods:
        method(*event, **more)

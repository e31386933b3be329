"""Every choice that turning check-ins into priors leaves open, as a named option with its default.

The defaults are the preprocessing of Koga, Meehan, Chaudhuri, "Measuring Privacy Loss in Distributed
Spatio-Temporal Data", section 5 (real data), with one exception: people and places are chosen without the
held-out windows; :data:`PAPER` chooses them as the paper does. Options say where the paper is silent.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date
from numbers import Real
from typing import Literal, get_args

from models.arguments import checked, whole
from models.calendar import Calendar
from models.exceptions import CheckinError
from models.fitting.contexts import PLACES, WEIGHTS, Habit, Kind

WindowPlace = Literal["most_frequent", "first", "last"]
Elsewhere = Literal["location", "bridge", "skip"]
Ranking = Literal["rows", "users", "training_rows"]
Smoothing = Literal["visited", "all", "none"]
NeverLeft = Literal["smoothed", "stay", "uniform"]
Counted = Literal["all", "training"]


@checked(CheckinError, leave=("origin", "smoothing_weight", "recency", "shrinkage_weight"))
@dataclass(frozen=True)
class FitOptions:
    """How check-ins become windows, windows become moves, and moves become matrices.

    ``window_seconds``
        Length of a fitting window, which becomes one step. Paper: 20 days.
    ``origin``
        Where window 0 begins: ``"earliest"`` check-in of the file, to the second (paper silent);
        ``"midnight"`` UTC before it; ``"epoch"``, whole windows since 1970-01-01 UTC, so that slot 0 of 24
        hours is midnight UTC; or a Unix time in seconds, before which check-ins are dropped.
    ``keep_partial_window``
        Whether the last window counts though the file ends within it. Needed for the paper's 27 and 32.
    ``top_places``, ``ranking``
        How many places are kept, and by what they are ranked: check-ins before the held-out windows
        (``"training_rows"``), or check-ins (``"rows"``; paper) or distinct ``"users"`` of the whole file.
        Ties go to the name that sorts first.
    ``window_place``
        Which check-in stands for a window with several (paper silent): the ``"most_frequent"`` place, ties by
        the latest check-in; the ``"first"``; the ``"last"``.
    ``elsewhere``
        A window without any: ``"location"``, one more location (paper: "somewhere else"); or it is no step:
        ``"bridge"`` joins the windows around it into a move, ``"skip"`` counts only moves between
        neighbouring windows.
    ``min_windows``, ``min_windows_counted``
        People need this many windows with a check-in at a kept place, among the ``"training"`` windows or
        ``"all"`` (as the paper's text reads; looks ahead).
    ``held_out_windows``
        The last windows, not fitted but kept as the real traces. Paper: 5.
    ``smoothing``, ``smoothing_weight``
        What is added to the count of each move (paper silent): between ``"visited"`` places of the person,
        between ``"all"`` locations, or ``"none"``.
    ``recency``
        The weight of a window relative to the next one: 1 for equal weights; with 0.7, a window four windows
        back counts a quarter. Not in the paper.
    ``never_left``
        The row of a place nobody left: by smoothing alone (``"smoothed"``), a self-loop (``"stay"``), or
        ``"uniform"`` over the person's places.
    ``slots``
        Matrices per cycle; slot of a window = windows since the origin (``"epoch"``: since 1970) modulo this.
    ``timezone``, ``holidays``
        Slots are those of a clock on the wall: slot 0 begins at its midnight, of a Monday in a weekly cycle.
        ``origin`` ``"midnight"`` is one by that clock. Moves over a change of clocks are not counted in any
        slot. In a weekly cycle holidays are the Sunday of their week. Without a time zone days have 24 hours.
    ``shrinkage_weight``
        How many moves the person's row without a cycle counts for, next to the moves counted in a slot; a
        slot without moves gets that row.
    ``order``, ``dwell``
        What the next place may depend on besides the present one: with 2, the place before it; with
        ``dwell``, for how many steps one has been there. Used is what surprises least on the training moves,
        each predicted from those before it (:func:`~models.fitting.training_surprise`); it may be the
        present place alone. Rows are drawn towards those of the place by 5, 20 or 100 moves, chosen
        likewise. Not in the paper.
    """

    window_seconds: int = 1_728_000
    origin: Literal["earliest", "midnight", "epoch"] | int = "earliest"
    keep_partial_window: bool = True
    top_places: int = 100
    ranking: Ranking = "training_rows"
    window_place: WindowPlace = "most_frequent"
    elsewhere: Elsewhere = "location"
    elsewhere_name: str = "elsewhere"
    min_windows: int = 10
    min_windows_counted: Counted = "training"
    held_out_windows: int = 5
    smoothing: Smoothing = "visited"
    smoothing_weight: float = 0.1
    recency: float = 1.0
    never_left: NeverLeft = "smoothed"
    slots: int = 1
    shrinkage_weight: float = 5.0
    order: int = 1
    dwell: bool = False
    timezone: str | None = None
    holidays: tuple[date, ...] = ()

    def __post_init__(self) -> None:
        """Refuse values out of range and combinations that contradict each other."""
        for name, choices in _CHOICES.items():
            if getattr(self, name) not in choices:
                raise _error(name, f"one of {', '.join(map(str, choices))}", getattr(self, name))
        if isinstance(self.origin, str) and self.origin not in ("earliest", "midnight", "epoch"):
            raise _error("origin", "'earliest', 'midnight', 'epoch' or a Unix time in seconds", self.origin)
        self._take_numbers()
        if self.timezone is not None:
            self.calendar(0)
        elif self.holidays:
            raise _error("holidays", "dates of a timezone", "no timezone")
        if not self.elsewhere_name:
            raise _error("elsewhere_name", "a name", self.elsewhere_name)
        for name, least in _LEAST.items():
            if not getattr(self, name) >= least:
                raise _error(name, f"at least {least}", getattr(self, name))
        if not 0.0 < self.recency <= 1.0:
            raise _error("recency", "above 0 and at most 1", self.recency)
        if not self.pseudo_count < float("inf") or not self.shrinkage_weight < float("inf"):
            raise _error("smoothing_weight", "finite, as shrinkage_weight", self.smoothing_weight)
        if self.never_left == "smoothed" and self.pseudo_count == 0.0:
            raise CheckinError(
                "never_left 'smoothed' must have smoothing with a weight above 0",
                f"smoothing {self.smoothing!r} with weight {self.smoothing_weight}",
                "choose never_left 'stay' or 'uniform'",
            )
        if self.elsewhere == "bridge" and self.slots > 1:
            raise CheckinError(
                "elsewhere 'bridge' must have one slot, as it joins windows of any slots",
                f"{self.slots} slots",
                "choose elsewhere 'location' or 'skip'",
            )

    def _take_numbers(self) -> None:
        """Convert the numbers that the decorator leaves, with errors that name the option."""
        for name in ("smoothing_weight", "recency", "shrinkage_weight"):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, Real):
                raise _error(name, "a number", type(value).__name__)
            object.__setattr__(self, name, float(value))
        if not isinstance(self.origin, str):
            object.__setattr__(self, "origin", whole(self.origin, "option origin", CheckinError))

    def calendar(self, origin: int) -> Calendar | None:
        """What the slots of windows from an origin on follow; None where they just count on."""
        if self.timezone is None:
            return None
        days = tuple(sorted(set(self.holidays)))
        return Calendar(self.timezone, origin, self.window_seconds, holidays=days).from_monday(self.slots)

    @property
    def habits(self) -> tuple[Habit, ...]:
        """What is tried; the plainest first, which a tie goes to."""
        kinds: list[Kind] = ["second order"] if self.order == 2 else []
        kinds += ["stays"] if self.dwell else []
        return (PLACES, *(Habit(kind, weight) for kind in kinds for weight in WEIGHTS))

    @property
    def pseudo_count(self) -> float:
        """What smoothing adds to the count of a move."""
        return 0.0 if self.smoothing == "none" else self.smoothing_weight

    @property
    def looks_ahead(self) -> tuple[str, ...]:
        """The choices that used held-out windows; results on held-out traces are then slightly too good."""
        if not self.held_out_windows:
            return ()
        notes = []
        if self.min_windows_counted == "all" and self.min_windows > 0:
            notes.append("people were chosen by their windows with a check-in, held-out windows included")
        if self.ranking != "training_rows":
            notes.append("places were ranked over the whole file, held-out windows included")
        return tuple(notes)


_CHOICES = {
    "ranking": get_args(Ranking),
    "window_place": get_args(WindowPlace),
    "elsewhere": get_args(Elsewhere),
    "min_windows_counted": get_args(Counted),
    "smoothing": get_args(Smoothing),
    "never_left": get_args(NeverLeft),
    "order": (1, 2),
}
_LEAST = {
    "window_seconds": 1,
    "top_places": 1,
    "min_windows": 0,
    "held_out_windows": 0,
    "smoothing_weight": 0,
    "slots": 1,
    "shrinkage_weight": 0,
}
PAPER = FitOptions(min_windows_counted="all", ranking="rows")
"""People and places chosen by all windows, as in the paper: it looks ahead."""


def _error(name: str, wanted: str, value: object) -> CheckinError:
    """An option out of range."""
    return CheckinError(f"option {name} must be {wanted}", repr(value), "see `tallyguard priors fit --help`")

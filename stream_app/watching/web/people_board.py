"""Single people, by pseudonym, for who holds the access token: who is exposed, and which release did it."""

from __future__ import annotations

import hmac
import threading
from collections import deque
from dataclasses import asdict
from typing import Any

from accounting.bounds.radius import ceiling_within
from models.releases import StepSchedule
from stream_app.watching.events import Observer, RunStarted, StepClosed
from stream_app.watching.people import NATS_PER_BIT, PeopleView, Standing

AT_MOST = 200
"""People listed at a time, those first to whom most is added."""
_MOST_STEPS = 1000
_MOST_RELEASES = 100_000  # of all steps kept, but for those of the last horizon


class RecentSteps:
    """The last steps, consecutive: at least those of the horizon, which counts as long until it is known."""

    def __init__(self) -> None:
        self.horizon = _MOST_STEPS
        self._steps: deque[StepSchedule] = deque()
        self._releases = 0

    @property
    def steps(self) -> tuple[StepSchedule, ...]:
        """The steps kept, the last one last."""
        return tuple(self._steps)

    def append(self, step: StepSchedule) -> None:
        """Keep a step; those before it go where there are too many, or one between is missing."""
        if self._steps and step.step != self._steps[-1].step + 1:
            self._steps.clear()
            self._releases = 0
        self._steps.append(step)
        self._releases += len(step.releases)
        while len(self._steps) > self.horizon and self._is_much():
            self._releases -= len(self._steps.popleft().releases)

    def _is_much(self) -> bool:
        return len(self._steps) > _MOST_STEPS or self._releases > _MOST_RELEASES


class PeopleBoard(Observer):
    """Keeps everybody's standing after each step; :meth:`allows` must be asked before anything is shown."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._lock = threading.Lock()
        self._explaining = threading.Lock()  # one explanation at a time: they are work
        self._view: PeopleView | None = None
        self._standing: Standing | None = None
        self._log = RecentSteps()

    def allows(self, token: str) -> bool:
        """Whether this is the access token; takes as long for a wrong one."""
        return hmac.compare_digest(token.encode(errors="replace"), self._token)

    def started(self, event: RunStarted) -> None:
        """Priors are loaded."""
        with self._lock:
            self._view = event.view
            if event.view is not None:
                self._log.horizon = event.view.horizon
                self._standing = event.view.standing() if event.next_step else None

    def restored(self, schedule: StepSchedule) -> None:
        """A step of an earlier run belongs to the horizon too."""
        with self._lock:
            self._log.append(schedule)

    def closed(self, event: StepClosed) -> None:
        """Take everybody's figures after the step."""
        with self._lock:
            self._log.append(event.accounted or event.schedule)
            if self._view is not None:
                self._standing = self._view.standing()

    def exposed(self, threshold: float) -> dict[str, Any]:
        """People at or above the threshold, most added first, as JSON; empty before the first step."""
        with self._lock:
            standing = self._standing
        if standing is None:
            return {"step": None, "threshold": threshold, "reached": 0, "people": []}
        rows = [_row(standing, person) for person in standing.most_exposed(threshold, AT_MOST)]
        reached = standing.count(standing.risk >= threshold)
        return {"step": standing.step, "threshold": threshold, "reached": reached, "people": rows}

    def why(self, pseudonym: str) -> dict[str, Any] | None:
        """One person's last steps taken apart by release, as JSON; None for nobody we know.

        Beside it the steps in which most was added to the person, as they stand in hindsight.
        """
        with self._lock:
            standing, view, log = self._standing, self._view, self._log.steps
        if standing is None or view is None or pseudonym not in standing.pseudonyms:
            return None
        person = standing.pseudonyms.index(pseudonym)
        steps = log[-view.horizon :]
        with self._explaining:
            explanation = view.explain(person, steps)
            later = view.hindsight(person, log, int(standing.worst.step[person]))
        certified = ceiling_within(view.within_nats, explanation.certified)
        shares = [
            {
                **asdict(share),
                "information_bits": share.information_nats / NATS_PER_BIT,
                "certified_drop": certified - ceiling_within(view.within_nats, explanation.without(share)),
            }
            for share in explanation.shares
        ]
        return {
            "person": pseudonym,
            "steps": [steps[0].step, steps[-1].step],
            "certified": certified,
            "baseline": explanation.baseline,
            "information_bits": explanation.information_nats / NATS_PER_BIT,
            "shares": shares,
            "hindsight": None if isinstance(later, str) else asdict(later),
            "no_hindsight": later if isinstance(later, str) else None,
        }


def _row(standing: Standing, person: int) -> dict[str, Any]:
    worst = standing.worst
    return {
        "person": standing.pseudonyms[person],
        "risk": float(standing.risk[person]),
        "baseline": float(standing.baseline[person]),
        "added": float(standing.added[person]),
        "crowd": None if standing.crowd is None else float(standing.crowd.risk[person]),
        "most_added": float(worst.added[person]),
        "most_added_step": int(worst.step[person]),
    }

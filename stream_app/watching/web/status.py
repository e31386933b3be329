"""The engine's state as the page and the probes show it: an observer that keeps the last of everything."""

from __future__ import annotations

import hmac
import threading
from collections import OrderedDict, deque
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime
from typing import Any, Literal

import numpy as np

from accounting.bounds.radius import ceiling_within
from accounting.ledgers import EVERY_GROUP, PrivacyAccount
from models.calendar import zone_of
from models.mechanisms import Tiered, errors_of_recipients, half_width, public_error
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.setup.settings import Settings
from stream_app.watching.events import Observer, PanelChecked, RunStarted, RunStopped, StepClosed
from stream_app.watching.metrics import HiddenByHour, adversary_of, hour_of, sigmas_of, with_step
from stream_app.watching.people import NATS_PER_BIT, PeopleView, Standing
from stream_app.watching.prior_notes import crowd_note, panel_note
from stream_app.watching.view import ABOUT_NOTHING, About, Figure, Moment, QuestionFigures, View
from stream_app.watching.wording import (
    decision_in_words,
    over_limit_in_words,
    sampled_in_words,
    spent_in_words,
)
from stream_app.wire import DeviceFinding, Reason, RiskSummary

# Single people, by pseudonym, for holders of the access token: who is exposed, and which release did it.

AT_MOST = 200
"""People listed at a time, those with the highest added risk first."""
_MOST_STEPS = 1000
_MOST_RELEASES = 100_000  # of all steps kept, but for those of the last horizon


class RecentSteps:
    """The last consecutive steps: at least a horizon of them, which is taken to be long until it is known."""

    def __init__(self) -> None:
        self.horizon = _MOST_STEPS
        self._steps: deque[StepSchedule] = deque()
        self._releases = 0

    @property
    def steps(self) -> tuple[StepSchedule, ...]:
        """The steps kept, the last one last."""
        return tuple(self._steps)

    def append(self, step: StepSchedule) -> None:
        """Keep a step. Earlier ones are dropped if there are too many, or if a step between is missing."""
        if self._steps and step.step != self._steps[-1].step + 1:
            self._steps.clear()
            self._releases = 0
        self._steps.append(step)
        self._releases += len(step.releases)
        while len(self._steps) > self.horizon and (
            len(self._steps) > _MOST_STEPS or self._releases > _MOST_RELEASES
        ):
            self._releases -= len(self._steps.popleft().releases)


class PeopleBoard(Observer):
    """Keeps each person's figures after each step, and suspected devices; ask :meth:`allows` first."""

    def __init__(self, token: str) -> None:
        self._token = token.encode()
        self._lock = threading.Lock()
        self._explaining = threading.Lock()  # one explanation at a time: they are work
        self._view: PeopleView | None = None
        self._standing: Standing | None = None
        self._log = RecentSteps()
        self._devices: tuple[DeviceFinding, ...] = ()

    def allows(self, token: str) -> bool:
        """Whether this is the access token; the comparison takes the same time for a wrong one."""
        return hmac.compare_digest(token.encode(errors="replace"), self._token)

    def started(self, event: RunStarted) -> None:
        """Priors are loaded."""
        with self._lock:
            self._view = event.view
            if event.view is not None:
                self._log.horizon = event.view.settings.horizon
                self._standing = event.view.standing() if event.next_step else None

    def restored(self, schedule: StepSchedule) -> None:
        """A step of an earlier run belongs to the horizon too."""
        with self._lock:
            self._log.append(schedule)

    def closed(self, event: StepClosed) -> None:
        """Take each person's figures after the step."""
        with self._lock:
            self._log.append(event.accounted or event.schedule)
            if self._view is not None:
                self._standing = self._view.standing()

    def devices_suspected(self, findings: tuple[DeviceFinding, ...]) -> None:
        """Keep what holds now."""
        with self._lock:
            self._devices = findings

    def devices(self) -> dict[str, Any]:
        """Which devices seem broken, since when and why, as JSON."""
        with self._lock:
            found = self._devices
        names = ("sensor", "suspicion", "since")
        return {"devices": [{name: getattr(each, name) for name in names} for each in found]}

    def exposed(
        self, threshold: float, wanted: str = "", first: int = 0, size: int = AT_MOST
    ) -> dict[str, Any]:
        """People at or above the threshold, highest added risk first, as JSON; none before the first step.

        Only those whose pseudonym begins with ``wanted``, a page of them from the ``first`` on; ``listed``
        are how many there are on all pages.
        """
        with self._lock:
            standing = self._standing
        if standing is None:
            return {"step": None, "threshold": threshold, "reached": 0, "first": 0, "listed": 0, "people": []}
        order = standing.most_exposed(threshold, len(standing.pseudonyms))
        if wanted:
            order = order[[standing.pseudonyms[person].startswith(wanted) for person in order]]
        return {
            "step": standing.step,
            "threshold": threshold,
            "reached": standing.count(standing.risk >= threshold),
            "first": first,
            "listed": len(order),
            "people": [_row(standing, person) for person in order[first : first + min(size, AT_MOST)]],
        }

    def why(self, pseudonym: str) -> dict[str, Any] | None:
        """What each release of a person's last steps revealed, as JSON; None for an unknown pseudonym.

        It also has the steps with the person's highest added risk, as they stand in hindsight.
        """
        with self._lock:
            standing, view, log = self._standing, self._view, self._log.steps
        if standing is None or view is None or pseudonym not in standing.pseudonyms:
            return None
        person = standing.pseudonyms.index(pseudonym)
        steps = log[-view.settings.horizon :]
        with self._explaining:
            explanation = view.explain(person, steps)
            later = view.hindsight(person, log, int(standing.worst.step[person]))
        nats = view.settings.within_nats
        certified = ceiling_within(nats, explanation.certified)
        shares = [
            {
                **asdict(share),
                "information_bits": share.information_nats / NATS_PER_BIT,
                "certified_drop": certified - ceiling_within(nats, explanation.without(share)),
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
        "as_of": None if standing.as_of is None else int(standing.as_of[person]),
        "most_added": float(worst.added[person]),
        "most_added_step": int(worst.step[person]),
    }


# Earlier steps: each as the public saw it, and a week by sensor and hour.

MOST_SHOWN = 200_000
HOURS = 168  # of a week, from Monday
MOST_ROWS = 50  # of the week in one answer
_NOTHING, SILENT, NOISED, RAW = -1, 0, 1, 2


class PastSteps:
    """Keeps the last steps with at most :data:`MOST_SHOWN` releases, and of the week a row a sensor.

    The caller's lock protects it.
    """

    def __init__(self, about: Settings | None) -> None:
        self._about = about
        self._zone = zone_of(None if about is None else about.clock)
        self._steps: OrderedDict[int, tuple[Mapping[str, Any], int]] = OrderedDict()  # with how many releases
        self._releases = 0
        self._rows: dict[str, int] = {}
        self._bits, self._errors = (np.full((0, HOURS), np.nan, np.float32) for _ in range(2))
        self._kinds = np.full((0, HOURS), _NOTHING, np.int8)

    def note(
        self,
        step: int,
        releases: Sequence[SensorRelease],
        published: Mapping[str, int],
        bits: Mapping[str, float],
        shown: Mapping[str, Any],
    ) -> None:
        """One more closed step; the week has each sensor's latest release of an hour."""
        self._steps[step] = ({"step": step, "bits": bits, **shown}, len(releases))
        self._releases += len(releases)
        while self._releases > MOST_SHOWN and len(self._steps) > 1:
            self._releases -= self._steps.popitem(last=False)[1][1]
        hour = self._hour_of(step)
        self._grow(releases)
        for release in releases:
            name, mechanism = release.sensor.name, release.mechanism
            row = self._rows[name]
            is_shown = name in published
            self._bits[row, hour] = bits.get(name, np.nan)
            self._errors[row, hour] = public_error(mechanism) if is_shown else np.nan
            self._kinds[row, hour] = (RAW if mechanism.is_exact else NOISED) if is_shown else SILENT

    def at(self, step: int) -> Mapping[str, Any] | None:
        """A step; None where it is not kept."""
        found = self._steps.get(step)
        return None if found is None else found[0]

    @property
    def first(self) -> int | None:
        """The earliest step that is kept."""
        return next(iter(self._steps), None)

    def week(self, sensors: Sequence[str]) -> dict[str, Any]:
        """Of some sensors, a row each, what the latest release of each hour of the week was."""
        rows = [self._rows[name] for name in sensors[:MOST_ROWS] if name in self._rows]
        names = [name for name in sensors[:MOST_ROWS] if name in self._rows]
        return {
            "sensors": names,
            "bits": [_numbers(self._bits[row]) for row in rows],
            "errors": [_numbers(self._errors[row]) for row in rows],
            "kinds": [self._kinds[row].tolist() for row in rows],
        }

    def _grow(self, releases: Sequence[SensorRelease]) -> None:
        for release in releases:
            self._rows.setdefault(release.sensor.name, len(self._rows))
        more = len(self._rows) - len(self._kinds)
        if more > 0:
            empty = np.full((more, HOURS), np.nan, np.float32)
            self._bits, self._errors = (np.vstack((each, empty)) for each in (self._bits, self._errors))
            self._kinds = np.vstack((self._kinds, np.full((more, HOURS), _NOTHING, np.int8)))

    def _hour_of(self, step: int) -> int:
        """The hour of the week that a step begins in, by the deployment's clock."""
        if self._about is None:
            return step % HOURS
        seconds = self._about.origin_seconds + step * self._about.step_seconds
        try:
            begin = datetime.fromtimestamp(seconds, self._zone)
        except (ValueError, OverflowError, OSError):  # beyond the calendar
            return step % HOURS
        return 24 * begin.weekday() + begin.hour


def _numbers(values: np.ndarray[Any, np.dtype[np.float32]]) -> list[float | None]:
    return [None if np.isnan(value) else float(f"{value:.3g}") for value in values]


Phase = Literal["starting", "running", "stopped"]
HISTORY = 1000  # steps the page keeps: six weeks of hours
NO_PEOPLE_HERE = "this process accounts for no people; on Kafka, the pages of account workers show risks"
BINS = 20  # of the distribution of risk, equal widths over [0, 1]


@dataclass(frozen=True)
class StepLine:
    """One closed step in the page's history: what was published and how the risk stood."""

    step: int
    published: int
    suppressed: int
    mean_risk: float
    mean_baseline: float
    attack: tuple[float, float, float] | None = None  # mean success with the ends of its interval
    mean_crowd: float | None = None  # mean ceiling against the crowd adversary, where it is computed
    risk: tuple[float, ...] = ()  # ceilings that half, 9 in 10 and all people are at or below
    baseline: tuple[float, ...] = ()  # the same of guesses
    over: int | None = None  # people over the limit after the step


@dataclass(frozen=True)
class SensorLine:
    """What one sensor's releases revealed so far; bits about an average person, each release on its own.

    ``position`` is its place on the map, east and north, and ``size`` a room's; None where none is known.
    """

    name: str
    group: str
    position: tuple[float, float] | None = None
    size: tuple[float, float] | None = None
    releases: int = 0
    last_bits: float = 0.0
    total_bits: float = 0.0


@dataclass(frozen=True)
class ReleaseLine:
    """One sensor in the last step; ``value`` is what the public saw, ``error`` expected from its noise.

    ``tiers`` are the expected errors of what each tier of recipients reads, the public's among them. The
    count is within ``width`` of the value with the probability that the setting ``confidence`` says. It is of
    the last ``steps``: several where the sensor has a window.
    """

    sensor: str
    mechanism: str
    parameters: Mapping[str, float]
    value: int | None
    error: float | None
    tiers: Mapping[str, float]
    width: int | None = None
    steps: int = 1


@dataclass(frozen=True)
class Status:
    """An immutable state of the engine; holds neither a count nor a person."""

    phase: Phase = "starting"
    reason: str = "priors are being loaded"
    people: int = 0
    next_step: int = 0
    lag_steps: int = 0
    rejected: int = 0
    summary: RiskSummary | None = None
    history: tuple[StepLine, ...] = ()
    distribution: Mapping[str, list[int]] | None = None  # people by ceiling (risk) and guess, in equal bins
    sensors: Mapping[str, SensorLine] = field(default_factory=dict)
    releases: tuple[ReleaseLine, ...] = ()
    decision: str | None = None  # why the last step was released as it was, and how many are over the limit
    note: str | None = None  # what must be said of the priors
    epsilon: Mapping[str, float] | None = None  # spent by each group of sensors; None where not known here
    spent: Mapping[str, str] | None = None  # the same in words, with what left no epsilon
    hidden: HiddenByHour = field(default_factory=dict)  # what the crowd hides
    crowd: str | None = None  # when ceilings in the crowd hold; None where they are not computed
    first_kept: int | None = None  # the earliest step that can be looked at
    figures: tuple[Figure, ...] = ()  # every figure of the steps since this process started
    questions: tuple[QuestionFigures, ...] = ()  # the headline of each, where several are asked

    @property
    def is_ready(self) -> bool:
        """Whether steps are being closed and accounted."""
        return self.phase == "running"

    @property
    def is_healthy(self) -> bool:
        """Whether the process should go on; false once the run failed."""
        return not (self.phase == "stopped" and self.reason.startswith("failure"))

    @property
    def spent_rows(self) -> list[tuple[str, str]]:
        """What each group of sensors spent, in words; where there is one group, it is all of them."""
        spent = list((self.spent or {}).items())
        return spent if len(spent) > 2 else [row for row in spent if row[0] == EVERY_GROUP]


class StatusBoard(Observer):
    """Receives the engine's events on its thread; :meth:`read` and ``version`` may be called on any other."""

    def __init__(
        self, sensors: tuple[Sensor, ...] = (), delta: float = 1e-6, about: Settings | None = None
    ) -> None:
        """``about`` are the settings of the deployment, where they are known."""
        self._about, self._adversary = about, adversary_of(about)
        self._level = about.confidence if about else Settings.model_fields["confidence"].default
        self._figures = View(About.of(about) if about else ABOUT_NOTHING)
        self._changing = threading.Lock()
        self._version = 0
        self._view: PeopleView | None = None
        self._delta = delta
        self._past = PastSteps(about)
        self._account: PrivacyAccount | None = None
        self._basis: str | None = None
        lines = {sensor.name: _silent(sensor) for sensor in sensors}
        self._status = Status(sensors=lines)

    def read(self) -> Status:
        """The current state."""
        with self._changing:
            return self._status

    @property
    def version(self) -> int:
        """A number that changes with every change of the state."""
        with self._changing:
            return self._version

    def past(self, step: int) -> Mapping[str, Any] | None:
        """A step as the public saw it after it closed; None where it is not kept."""
        with self._changing:
            return self._past.at(step)

    def week(self, sensors: Sequence[str]) -> dict[str, Any]:
        """The week of some sensors, hour by hour."""
        with self._changing:
            return self._past.week(sensors)

    def carried(self, account: PrivacyAccount) -> None:
        """What earlier runs have spent: go on from there."""
        self._account = PrivacyAccount.load(account.save())
        self._change(**self._spent())

    def started(self, event: RunStarted) -> None:
        """The engine is ready."""
        self._view = event.view
        self._basis = event.view.note if event.view else event.note or NO_PEOPLE_HERE
        self._change(
            phase="running",
            reason="closing steps",
            people=event.people,
            next_step=event.next_step,
            note=self._basis,
            crowd=self._condition(event.view),
        )

    def _condition(self, view: PeopleView | None) -> str | None:
        if self._adversary is None:
            return None
        of_personas = view is not None and view.of_personas
        return crowd_note(self._adversary, None if view is None else view.others, of_personas=of_personas)

    def rejected(self, reason: Reason) -> None:
        """One more dead letter."""
        self._change(rejected=self.read().rejected + 1)

    def panel_checked(self, event: PanelChecked) -> None:
        """Add it to the note on the priors."""
        notes = (self._basis, panel_note(event))
        self._change(note="; ".join(filter(None, notes)) or None)

    def closed(self, event: StepClosed) -> None:
        """A step was published: show it."""
        status = self.read()
        if self._account is not None:
            self._account.charge(event.schedule)
        history = status.history
        if event.summary is not None:
            history = (*history, _line(event, event.summary))[-HISTORY:]
            self._figures.note_summary(event.summary, event.why)
        bits = self._view.sensor_information_bits(event.schedule) if self._view else {}
        distribution = _distribution(self._view.standing()) if self._view else None
        releases = tuple(_release(release, event, self._level) for release in event.schedule.releases)
        decision = _decision(event)
        figures, questions = self._figures.figures, self._figures.by_question
        shown = {"releases": releases, "distribution": distribution, "decision": decision, "figures": figures}
        with self._changing:
            kept = {**shown, "questions": questions, "summary": event.summary}
            self._past.note(event.step, event.schedule.releases, event.published, bits, kept)
        self._change(
            people=event.people,
            next_step=event.step + 1,
            lag_steps=event.lag_steps,
            summary=event.summary or status.summary,
            history=history,
            distribution=distribution,
            sensors=_after(status.sensors, event, bits),
            releases=releases,
            decision=decision,
            first_kept=self._past.first,
            **self._spent(),
            hidden=self._hidden(status.hidden, event),
            figures=figures,
            questions=questions,
        )

    def _hidden(self, before: HiddenByHour, event: StepClosed) -> HiddenByHour:
        if self._about is None:
            return before
        return with_step(before, sigmas_of(event, self._adversary), hour_of(event.step, self._about))

    def stopped(self, event: RunStopped) -> None:
        """The run ended, well or not."""
        self._change(phase="stopped", reason=event.reason, next_step=event.next_step)

    def _spent(self) -> dict[str, object]:
        if self._account is None:
            return {}
        spends = self._account.spends.items()
        return {
            "epsilon": {group: spend.epsilon(self._delta) for group, spend in spends},
            "spent": {group: spent_in_words(spend, self._delta) for group, spend in spends},
        }

    def _change(self, **fields: object) -> None:
        with self._changing:
            self._status = replace(self._status, **fields)  # type: ignore[arg-type]
            self._version += 1


def _decision(event: StepClosed) -> str | None:
    summary = event.summary
    over = None if summary is None else summary.over_limit
    sentences = []
    if event.why is not None:
        sentences = [decision_in_words(event.why, over)]
    elif over is not None:
        sentences = [f"Released as configured; the rule decides nothing. {over_limit_in_words(over)}."]
    if summary is not None and summary.sampled is not None and summary.sampled.people:
        sentences.append(f"{sampled_in_words(summary.sampled)}.")
    return " ".join(sentences) or None


def _line(event: StepClosed, summary: RiskSummary) -> StepLine:
    published, means = len(event.published), Moment.of(summary)
    return StepLine(
        step=event.step,
        published=published,
        suppressed=len(event.schedule.releases) - published,
        mean_risk=summary.mean_risk,
        mean_baseline=summary.mean_baseline,
        attack=means.attack,
        mean_crowd=means.crowd,
        risk=tuple(summary.risk.get(each, 0.0) for each in _MOVED),
        baseline=tuple(summary.baseline.get(each, 0.0) for each in _MOVED),
        over=None if summary.over_limit is None else summary.over_limit.now,
    )


_MOVED = ("0.5", "0.9", "1.0")  # quantiles whose movement the page shows


def _distribution(standing: Standing) -> dict[str, list[int]] | None:
    """People by ceiling and guess; None where somebody's are not known at this step."""
    if standing.as_of is not None and (standing.as_of != standing.step).any():
        return None
    return {
        name: np.histogram(getattr(standing, name), BINS, (0.0, 1.0), weights=standing.people_each)[
            0
        ].tolist()
        for name in ("risk", "baseline")
    }


def _silent(sensor: Sensor) -> SensorLine:
    return SensorLine(sensor.name, sensor.group, sensor.position, sensor.size)


def _after(
    lines: Mapping[str, SensorLine], event: StepClosed, bits: Mapping[str, float]
) -> Mapping[str, SensorLine]:
    after = dict(lines)
    for release in event.schedule.releases:
        sensor = release.sensor
        line = after.get(sensor.name) or _silent(sensor)
        last = bits.get(sensor.name, 0.0)
        after[sensor.name] = replace(
            line, releases=line.releases + 1, last_bits=last, total_bits=line.total_bits + last
        )
    return after


def _release(release: SensorRelease, event: StepClosed, level: float) -> ReleaseLine:
    name, mechanism = release.sensor.name, release.mechanism
    value = event.published.get(name)
    shown = mechanism.name if value is not None else "suppressed"
    if value is None:
        return ReleaseLine(name, shown, dict(mechanism.parameters), None, None, {})
    tiers = dict(errors_of_recipients(mechanism))
    read = Tiered(mechanism.tiers[:1]) if isinstance(mechanism, Tiered) else mechanism  # by everybody
    width, window = half_width([read], level), release.sensor.window
    steps, error = 1 if window is None else window.steps, public_error(mechanism)
    return ReleaseLine(name, shown, dict(mechanism.parameters), value, error, tiers, width, steps)

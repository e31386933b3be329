"""Everything that is shown of a run, a plan or a running engine: named figures, computed here only.

A :class:`Figure` is a value with its unit, how it is rounded, the condition it holds under, the steps and
people it is over, and a sentence. Terminal, page, report, metrics, `plan`, JSON and alerts render figures;
what a figure is called and means (:class:`Kind`) is in the glossary by the same words. :class:`View` takes
in what each step's record says, whether it is read from a log, comes from a running engine, or was planned.

Worked example: three steps with mean ceilings 0.2, 0.5 and 0.3 over 100 people, of which releases added 0.1,
0.3 and 0.2. The headline is the second step's, where releases added most:

    >>> view.figure("headline.ceiling").shown
    '50 in 100'
    >>> view.figure("mean.ceiling").shown, view.figure("last.ceiling").shown
    ('34 in 100', '30 in 100')
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import isfinite
from typing import Any, NamedTuple

from accounting.continuous import RiskSummary as PlannedSummary
from accounting.continuous.shadow import MeanAttack
from accounting.ledgers import EVERY_GROUP, DpStatement, ZcdpSpend
from accounting.settings import RiskBudget
from models.priors import Question
from models.text import number_of
from stream_app.setup.settings import Settings
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.wording import (
    EXACT,
    NEAREST,
    UP,
    StepTimes,
    epsilon_in_words,
    in_a_hundred,
    in_interval,
    sentence_case,
    significant,
    spent_in_words,
)
from stream_app.wire import Attack, DecisionReason, OverLimitCounts, RiskSummary

CHANCE, PEOPLE, EPSILON, OFF, BITS = "in 100", "people", "epsilon", "people off", "bits"
"""Units: a chance, people who are counted, nats of differential privacy, people a count is off by, bits."""


class Kind(NamedTuple):
    """What a figure is, wherever it is shown: it is explained under ``word`` in the glossary."""

    label: str
    unit: str
    to: str
    word: str
    name: str = ""


KINDS: Mapping[str, Kind] = {
    name: kind._replace(name=name)
    for name, kind in {
        "guess": Kind("Guess", CHANCE, NEAREST, "guess"),
        "attack": Kind("Attack", CHANCE, NEAREST, "attack"),
        "ceiling": Kind("Ceiling", CHANCE, UP, "ceiling"),
        "added": Kind("Added risk, at most", CHANCE, UP, "added"),
        "crowd": Kind("Ceiling in the crowd", CHANCE, UP, "ceiling in the crowd"),
        "now": Kind("Over the limit now", PEOPLE, EXACT, "over now"),
        "forecast": Kind("Forecast over the limit", PEOPLE, EXACT, "forecast"),
        "ever": Kind("Ever over the limit", PEOPLE, EXACT, "ever over"),
        "allowed": Kind("The share leaves out, at most", PEOPLE, EXACT, "share"),
        "epsilon": Kind("Epsilon", EPSILON, UP, "epsilon"),
        "error": Kind("Error", OFF, NEAREST, "expected error"),
        "bits": Kind("Revealed", BITS, NEAREST, "bits"),
    }.items()
}
"""Every kind of figure by its name."""


_ROUNDED = {NEAREST: "nearest", UP: "up", EXACT: "exact"}


class Over(NamedTuple):
    """The steps and people a figure is over; ``how`` says which mean, or whose value, it is."""

    how: str
    first: int
    last: int
    people: int


@dataclass(frozen=True)
class Figure:
    """One figure. ``value`` is None where it was not computed, infinite where nothing is promised.

    ``interval`` are the ends within which a mean lies; ``words`` is the value in words where it has some of
    its own; ``condition`` is None for what holds without any.
    """

    name: str
    kind: Kind
    value: float | None
    over: Over
    sentence: str
    condition: str | None = None
    interval: tuple[float, float] | None = None
    words: str | None = None
    where: str = ""

    @property
    def label(self) -> str:
        """What stands beside it."""
        if self.name.startswith("most."):
            return f"Highest {self.kind.label.lower().removesuffix(', at most')}"
        return self.kind.label

    @property
    def shown(self) -> str:
        """The value as every surface shows it."""
        if self.words is not None:
            return self.words
        if self.value is None:
            return "not measured" if self.kind.name == "attack" else "not computed"
        if self.kind.unit == CHANCE:
            if self.interval is not None:
                return in_interval(self.value, *self.interval)
            return in_a_hundred(self.value, self.kind.to)
        if self.kind.unit == EPSILON:
            return epsilon_in_words(self.value)
        return f"{self.value:,.0f}" if self.kind.unit == PEOPLE else significant(self.value, 2)

    def as_json(self) -> dict[str, Any]:
        """The figure as a JSON object; what is infinite is null, and said by ``shown``."""
        low, high = self.interval or (None, None)
        is_finite = self.value is not None and isfinite(self.value)
        return {
            "name": self.name,
            "word": self.kind.word,
            "label": self.label,
            "value": self.value if is_finite else None,
            "low": low,
            "high": high,
            "shown": self.shown,
            "unit": self.kind.unit,
            "rounding": _ROUNDED[self.kind.to],
            "condition": self.condition,
            **self.over._asdict(),
            "where": self.where,
            "sentence": self.sentence,
        }


class Moment(NamedTuple):
    """Means over ``people`` after a step, as a log, a plan and a running engine have them.

    ``highest`` and ``most_added`` are those of the most affected person at this step or an earlier one.
    """

    step: int
    people: int
    guess: float
    ceiling: float
    added: float
    attack: tuple[float, float, float] | None = None  # success, and the ends of its interval
    highest: float | None = None
    most_added: float | None = None
    crowd: float | None = None  # the ceiling in the crowd

    @classmethod
    def of(cls, summary: RiskSummary) -> Moment:
        """That of a recorded step."""
        most = (
            summary.risk.get("1.0", 0.0) if summary.most_risk is None else summary.most_risk,
            summary.added.get("1.0", 0.0) if summary.most_added is None else summary.most_added,
        )
        crowd = None if summary.crowd is None else summary.crowd.mean_risk
        return cls(*_means(summary), _ends(summary.attack), *most, crowd)

    @classmethod
    def planned(cls, risks: PlannedSummary, attack: MeanAttack | None, crowd: float | None = None) -> Moment:
        """That of a step of a plan."""
        return cls(*_means(risks), _ends(attack), risks.most_risk, risks.most_added, crowd)


def _means(risks: RiskSummary | PlannedSummary) -> tuple[int, int, float, float, float]:
    return risks.step, risks.people, risks.mean_baseline, risks.mean_risk, risks.mean_added


def _ends(attack: Attack | MeanAttack | None) -> tuple[float, float, float] | None:
    return None if attack is None else (attack.success, attack.low, attack.high)


NO_TIMES = StepTimes(0, 1)


@dataclass(frozen=True)
class About:
    """What all figures of a deployment refer to.

    ``condition`` says when its ceilings hold; ``is_refuted`` that nothing bounds what releases add to people
    who differ from the priors. ``asked`` are the questions, first the one that the limit is about.
    """

    condition: str
    times: StepTimes = NO_TIMES
    limit: RiskBudget | None = None
    is_refuted: bool = False
    asked: tuple[Question, ...] = (Question(),)

    @classmethod
    def of(cls, settings: Settings) -> About:
        """That of a deployment's settings."""
        check, limit = settings.priors_check, settings.release.budget.limit
        times = StepTimes(settings.origin_seconds, settings.step_seconds, settings.clock)
        is_refuted = check is not None and check.is_too_low
        condition = ceiling_condition(check, settings.draws)
        return cls(condition, times, limit, is_refuted, settings.asked_in_all)

    @property
    def question(self) -> str | None:
        """Which question figures are about; None where there is only which place."""
        first = self.asked[0]
        return None if self.asked == (Question(),) else f"question {first.name}: {first.what}"

    def beside(self, name: str) -> About:
        """That of a further question, which the limit is not about."""
        own = next((each for each in self.asked if each.name == name), Question(name))
        others = (each for each in self.asked if each is not own)
        return replace(self, limit=None, asked=(own, *others))


ABOUT_NOTHING = About(ceiling_condition(None))
"""What figures refer to where no settings are at hand."""


class QuestionFigures(NamedTuple):
    """The headline of one of several questions, at the step where releases added most to it."""

    name: str
    what: str
    figures: tuple[Figure, ...]

    @property
    def row(self) -> tuple[str, ...]:
        """As a row of a table under :data:`QUESTION_COLUMNS`."""
        shown = {each.kind.name: each.shown for each in self.figures}
        return self.name, self.what, *(shown.get(name, "–") for name in _OF_QUESTION)

    def as_json(self) -> dict[str, Any]:
        """As a JSON object."""
        figures = [each.as_json() for each in self.figures]
        return {"name": self.name, "what": self.what, "row": self.row, "figures": figures}


_OF_QUESTION = ("guess", "attack", "ceiling", "added")
QUESTION_COLUMNS = ("Question", "What is asked", *(KINDS[name].label for name in _OF_QUESTION))
SEVERAL_QUESTIONS = (
    "Each on average over people, at the step where releases added most to it. The rule, thresholds and all "
    "other figures are about the first."
)

_HOW = {  # what a risk is over, by scope
    "headline": "mean over people at the step where releases added most",
    "mean": "mean over people and steps",
    "last": "mean over people after the last step",
    "most": "of the most affected person, at any step",
}


@dataclass
class View:
    """The figures of a run so far; :meth:`note` takes in one step after the other.

    The headline is what the step says at which releases added most on average: in the terminal, on the page,
    in the report and as metrics.
    """

    about: About
    worst: Moment | None = None
    last: Moment | None = None
    first_step: int | None = None
    counted: tuple[int, int] | None = None  # fewest and most people of a step
    most: tuple[float, float] | None = None  # ceiling and added risk of the most affected person
    over: OverLimitCounts | None = None
    most_over: int = 0
    allowed: int = 0
    forecast: DecisionReason | None = None
    beside: dict[str, View] = field(default_factory=dict)  # of each further question, by name
    _steps: int = 0
    _attacked: int = 0
    _sums: list[float] = field(default_factory=lambda: [0.0] * 6)

    def note(
        self, moment: Moment, over: OverLimitCounts | None = None, why: DecisionReason | None = None
    ) -> None:
        """One more step, with who is over the limit after it and what its decision foresaw."""
        if self.first_step is None:
            self.first_step = moment.step
        fewest, most = self.counted or (moment.people, moment.people)
        self.counted = min(fewest, moment.people), max(most, moment.people)
        if self.worst is None or moment.added > self.worst.added:
            self.worst = moment
        self.last, self._steps = moment, self._steps + 1
        if moment.highest is not None and moment.most_added is not None:
            ceiling, added = self.most or (0.0, 0.0)
            self.most = max(ceiling, moment.highest), max(added, moment.most_added)
        self._attacked += moment.attack is not None
        means = (moment.guess, moment.ceiling, moment.added, *(moment.attack or (0.0, 0.0, 0.0)))
        self._sums = [total + each for total, each in zip(self._sums, means, strict=True)]
        if self.about.limit is not None:
            self.allowed = self.about.limit.allowed(moment.people)
        if over is not None:
            self.over, self.most_over = over, max(self.most_over, over.now)
        self.forecast = why

    def note_summary(self, summary: RiskSummary, why: DecisionReason | None = None) -> None:
        """One more step as its record says, by every question."""
        self.note(Moment.of(summary), summary.over_limit, why)
        self.note_beside(summary.questions or {})

    def note_beside(self, questions: Mapping[str, RiskSummary]) -> None:
        """The further questions of a step."""
        for name, each in questions.items():
            self.beside.setdefault(name, View(self.about.beside(name))).note_summary(each)

    @property
    def by_question(self) -> tuple[QuestionFigures, ...]:
        """The headline of each question where there are several; the first is that of the limit."""
        if not self.beside:
            return ()
        return tuple(
            QuestionFigures(own.about.asked[0].name, own.about.asked[0].what, own.group("headline"))
            for own in (self, *self.beside.values())
        )

    @property
    def has_same_number(self) -> bool:
        """Whether there were as many people at every step."""
        return self.counted is None or self.counted[0] == self.counted[1]

    @property
    def everybody(self) -> str:
        """How many people figures of all steps are over: "300 people", "250 to 300 people"."""
        fewest, most = self.counted or (0, 0)
        return number_of(most, "person") if fewest == most else f"{fewest:,} to {number_of(most, 'person')}"

    @property
    def figures(self) -> tuple[Figure, ...]:
        """Every figure: the four means of each scope, the most affected person's, people over the limit."""
        if self.last is None or self.worst is None:
            return ()
        count, attack = self._steps, None
        guess, ceiling, added, *tried = (total / count for total in self._sums)
        if self._attacked == count:
            attack = tried[0], tried[1], tried[2]
        everything = Moment(self.last.step, self.last.people, guess, ceiling, added, attack)
        ceiling_of_one, added_of_one = self.most or (None, None)
        return (
            *self._risks("headline", self.worst),
            *self._risks("mean", everything),
            *self._risks("last", self.last),
            self._risk("most", "ceiling", ceiling_of_one, self.last),
            self._risk("most", "added", added_of_one, self.last),
            *self._people(),
        )

    def figure(self, name: str) -> Figure:
        """One figure by its name, ``headline.ceiling`` for example; KeyError where there is none."""
        return {each.name: each for each in self.figures}[name]

    def value(self, name: str) -> float:
        """Its value; 0 where it was not computed."""
        return next((each.value for each in self.figures if each.name == name), None) or 0.0

    def group(self, scope: str) -> tuple[Figure, ...]:
        """The figures whose names begin with the scope."""
        return tuple(each for each in self.figures if each.name.startswith(f"{scope}."))

    def as_json(self) -> list[dict[str, Any]]:
        """All figures as JSON objects."""
        return [each.as_json() for each in self.figures]

    def _risks(self, scope: str, at: Moment) -> Iterable[Figure]:
        yield self._risk(scope, "guess", at.guess, at)
        yield self._risk(scope, "attack", at.attack and at.attack[0], at, at.attack and at.attack[1:])
        yield self._risk(scope, "ceiling", at.ceiling, at)
        yield self._risk(scope, "added", at.added, at)
        if at.crowd is not None:
            yield self._risk(scope, "crowd", at.crowd, at)

    def _risk(
        self,
        scope: str,
        name: str,
        value: float | None,
        at: Moment,
        interval: tuple[float, float] | None = None,
    ) -> Figure:
        kind = KINDS[name]
        is_at_a_step = scope in ("headline", "last")
        first = at.step if is_at_a_step else (self.first_step or 0)
        over = Over(_HOW[scope], first, at.step, at.people)
        bounded = name in ("ceiling", "added", "crowd")
        condition = self.about.condition if bounded else None
        if name == "added" and self.about.is_refuted:
            condition = "by the refuted priors"
        where = self._where(scope, at)
        figure = Figure(f"{scope}.{name}", kind, value, over, "", condition, interval, where=where)
        said = f"{figure.label}: {figure.shown}."
        if value is not None:
            holds = sentence_case(condition or "")
            said = _SENTENCES[name].format(shown=figure.shown, where=where, Condition=holds)
        return replace(figure, sentence=said)

    def _where(self, scope: str, at: Moment) -> str:
        times, people = self.about.times, number_of(at.people, "person")
        everybody = self.everybody
        span = times.span(self.first_step or 0, self.last.step if self.last else at.step)
        asked = "" if self.about.question is None else f" ({self.about.question})"
        where = {
            "headline": f"on average over {people} at {times.when(at.step)}, where releases added most",
            "mean": f"on average over {everybody} and {span}",
            "last": f"on average over {people} after {times.when(at.step)}",
            "most": f"for the most affected of {everybody} over {span}",
        }
        return where[scope] + asked

    def _people(self) -> Iterable[Figure]:
        """Over the limit: now, forecast, ever; and who the share leaves out."""
        if self.about.limit is None or self.last is None:
            return
        at, first = self.last, self.first_step or 0
        when, span = self.about.times.when(at.step), self.about.times.span(first, at.step)
        if (over := self.over) is not None:
            said = (
                f"Over the limit now, after {when}: {over.now:,} of {number_of(at.people, 'person')}, "
                f"{over.by_releases:,} because of releases and {over.by_habits:,} because of habits alone."
            )
            last = Over("after the last step", at.step, at.step, at.people)
            yield self._count("now", over.now, last, said)
        if self.forecast is not None and self.forecast.people:
            yield self._count(*forecast_of(self.forecast, at))
        if over is not None:
            ever = number_of(over.ever, "person")
            said = f"Ever over the limit, after at least one step of {span}: {ever}."
            yield self._count("ever", over.ever, Over("after any step", first, at.step, at.people), said)
            every = "at every step" if self.has_same_number else "now"
            said = left_out(self.allowed, at.people, self.most_over, over.ever, every)
            yield self._count("allowed", self.allowed, Over("at every step", first, at.step, at.people), said)

    def _count(self, name: str, value: float, over: Over, sentence: str, words: str | None = None) -> Figure:
        return Figure(f"people.{name}", KINDS[name], value, over, sentence, self.about.condition, words=words)


def forecast_of(why: DecisionReason, at: Moment) -> tuple[str, float, Over, str, str]:
    """What a decision foresaw: it stops counting at one person more than may be over the limit."""
    total, is_more = why.over + why.natural, why.over > why.allowed
    shown = f"{total:,}{' or more' if is_more else ''}"
    sentence = (
        f"Forecast: {shown} of {number_of(why.people, 'person')} over the limit in the decided step, or if "
        "nothing is released after it; mostly by the fast bound, which counts more people."
    )
    return "forecast", total, Over("by the last decision", at.step, at.step, why.people), sentence, shown


def left_out(allowed: int, people: int, most_now: int, ever: int, when: str = "at every step") -> str:
    """Whom the share of a rule leaves out: how many at once, how many ever, and whether always the same.

    ``when`` there were so many people: at other steps it may leave out others.

    Where as many were over the limit at one step as ever were, nobody else was at any other.
    """
    if not allowed:
        return "The rule leaves nobody out."
    may = f"The rule leaves out at most {allowed:,} of {number_of(people, 'person')} {when}"
    if not ever:
        return f"{may}; so far nobody was over the limit."
    if ever <= most_now:
        return f"{may}; so far always the same {number_of(ever, 'was', 'were')} over the limit."
    at_once = number_of(most_now, "was", "were")
    return (
        f"{may}; so far at most {at_once} over the limit at once and {ever:,} ever, so not always the same "
        "people."
    )


_SENTENCES = {
    "guess": "The best guess without any count is right in {shown} cases, {where}.",
    "attack": "An attack tried on simulated people is right in {shown} cases, {where}.",
    "ceiling": "{Condition}, no method is right in more than {shown} cases, {where}.",
    "added": "At most {shown} are due to what was published, {where}.",
    "crowd": "Against an adversary who does not know where the others are, no method is right in more than "
    "{shown} cases, {where}.",
}


def spent(
    spends: Mapping[str, ZcdpSpend | DpStatement], delta: float, steps: int, people: int = 0
) -> tuple[Figure, ...]:
    """Epsilon of everything published so far by group of sensors; where there is one group, it is all."""
    names = [name for name in spends if name == EVERY_GROUP or len(spends) > 2]
    over = Over("all releases so far", 0, max(0, steps - 1), people)

    def figure(name: str) -> Figure:
        spend = spends[name]
        value = spend.epsilon(delta) if isinstance(spend, ZcdpSpend) else spend.epsilon
        words = spent_in_words(spend, delta)
        who = "all sensors together" if name == EVERY_GROUP else name
        said = f"Epsilon of {who}, at delta {delta:g}: {words}."
        return Figure(f"epsilon.{name}", KINDS["epsilon"], value, over, said, words=words)

    return tuple(map(figure, names))


def error_in_words(error: float | None, typical: float | None = None) -> str:
    """By how much a count is off, and what part of it that is: "off by 2.4 of 5 on average (48 %)".

    ``typical`` is the count as it was published, or the mean of several.
    """
    if error is None:
        return "nothing published"
    if error == 0.0:
        return "exact"
    off = significant(error, 2)
    if typical is None or typical <= 0.0:
        return f"off by {off} people on average"
    part = error / typical
    relative = "more than the count" if part > 1.0 else f"{significant(part, 2, shift=2)} %"
    return f"off by {off} of {significant(typical, 2)} on average ({relative})"


def errors(
    sensors: Sequence[tuple[str, float | None, float | None]], first: int, last: int
) -> tuple[Figure, ...]:
    """The error of each sensor's counts: its name, the mean error, the typical published count."""
    over = Over("mean over its published counts", first, last, 0)

    def figure(name: str, error: float | None, typical: float | None) -> Figure:
        words = error_in_words(error, typical)
        said = f"Counts of {name}: {words}."
        return Figure(f"error.{name}", KINDS["error"], error, over, said, words=words)

    return tuple(figure(*each) for each in sensors)

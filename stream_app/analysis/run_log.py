"""What a finished or running output folder holds: settings, risk at each step, people, releases."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import zip_longest
from math import pi, sqrt
from pathlib import Path
from typing import Any, NamedTuple

from accounting.exposure.crowd import CrowdAdversary
from accounting.ledgers import PrivacyAccount, ZcdpSpend
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import NO_DESIGNS, Designs, Mechanism, parse
from models.priors import PLACE, Question
from models.releases import Sensor, SensorRelease
from stream_app.analysis.checked_run import SUMMARY, CheckedRun, check_run
from stream_app.analysis.run_lines import public_releases
from stream_app.exceptions import OutputError
from stream_app.setup.priors_verdict import PriorsVerdict, priors_check_of
from stream_app.setup.release_settings import BUDGET, BudgetSettings
from stream_app.setup.run_folder.facts import bounds_of
from stream_app.setup.run_folder.manifest import SUMMED
from stream_app.setup.run_folder.progress import log_lines, parsed_lines
from stream_app.setup.run_folder.record import Entry, held, periods
from stream_app.setup.run_folder.run_settings import (
    calendar_of_run,
    crowd_of_run,
    days_of_run,
    designs_of_run,
    load_account,
    load_run,
    questions_of_run,
)
from stream_app.steps import condition_of
from stream_app.watching.prior_notes import basis_note, ceiling_condition, crowd_clause, crowd_note
from stream_app.watching.view import About, Figure, View, errors, spent
from stream_app.watching.wording import StepTimes, spent_in_words
from stream_app.wire import (
    DecisionReason,
    RiskSummary,
    SensorDecision,
    SensorValue,
    StepDecision,
    StepRelease,
    WorstMoment,
)

_QUANTILES = ("0.5", "0.9", "1.0")  # that the report draws
_DELTA = 1e-6  # of runs that recorded none
COUNTED = "counted_in_a_step"
_CONTRADICTS = b'"reason":"contradicting_reading"'  # a sender who saw how many could try out what a count was
_SURELY = 5.0  # standard deviations of noise: once in three million values


@dataclass(frozen=True)
class SensorLog:
    """One sensor's releases, all of them: a rule may choose another mechanism at every step.

    ``kinds`` says how often each mechanism, with its parameters, was decided; of ``releases`` steps a value
    was ``published`` in so many, ``exact`` of them without noise; ``error`` is the mean over these of the
    error to expect from the noise, ``typical`` that of the public values.
    """

    sensor: str
    releases: int
    published: int
    exact: int
    kinds: Mapping[str, int]
    error: float | None  # in people; None where nothing is published
    typical: float | None  # the mean of what was published; None where nothing was
    epsilon: float  # nats at the delta of the run; inf where there is none
    spent: str  # the same in words, with what left none


class CeilingKind(NamedTuple):
    """The ceilings that the answer is about: within a radius, means over these chains of each person.

    ``in_crowd``: those against the crowd adversary; a summary without a crowd then has the informed ones,
    which are higher.
    """

    within_nats: float = 0.0
    chains: str | None = None
    in_crowd: bool = False


class CountedBeyond(NamedTuple):
    """The step at which most people were counted beyond those the priors stand for; noise is no reason."""

    step: int
    counted: int
    people: int


@dataclass(frozen=True)
class RulePeriod:
    """Steps ``first`` to ``until`` (exclusive) under one rule: its limit, whether it decides, the adversary.

    ``entry`` is the one of the record that says so, with who and why; None where no record does.
    """

    first: int
    until: int
    entry: Entry | None
    limit: RiskBudget | None
    decides: bool
    adversary: CrowdAdversary | None

    @property
    def rule(self) -> tuple[object, ...]:
        """What makes it another rule than the one before."""
        return self.entry is None, self.limit, self.decides, self.adversary

    def has(self, step: int) -> bool:
        """Whether a step is one of its."""
        return self.first <= step < self.until


@dataclass(frozen=True)
class RunLog:
    """Everything a report needs of a run.

    ``exposed`` are the people with the highest added risk, at that step; ``reasons`` say what decided a
    step, where a risk budget did. Without people there are no ``summaries``; ``note`` is what must be said of
    the priors. ``rejected`` leaves out contradicting readings, as everything does that others may see.
    """

    settings: Mapping[str, Any]
    summaries: tuple[RiskSummary, ...]
    exposed: tuple[WorstMoment, ...]
    sensors: tuple[SensorLog, ...]
    releases: Mapping[str, int]  # by mechanism
    rejected: int
    reasons: Mapping[int, DecisionReason]
    checked: CheckedRun
    account: PrivacyAccount | None = None  # what was spent on differential privacy
    beyond: CountedBeyond | None = None

    @property
    def limit(self) -> RiskBudget | None:
        """The rule that holds now; None where there is none."""
        return _budget_of(self.settings).limit

    @property
    def periods(self) -> tuple[RulePeriod, ...]:
        """The steps by the rule they were published under: what differs otherwise makes no new period."""
        steps = max(self.checked.released, self.summaries[-1].step + 1 if self.summaries else 0)
        found: list[RulePeriod] = []
        for first, until, entry in periods(self.checked.entries, steps):
            facts = self.settings if entry is None else entry.facts
            budget, crowd = _budget_of(facts), _adversary_of(facts)
            decides = (facts.get("release") or {}).get("mechanism") == BUDGET
            new = RulePeriod(first, until, entry, budget.limit, decides, crowd)
            if found and found[-1].rule == new.rule:
                new = replace(found.pop(), until=until)
            found.append(new)
        return tuple(found)

    @property
    def changes(self) -> tuple[Entry, ...]:
        """What the record says of beginning and changes of the facts, from the first on."""
        return tuple(entry for entry in self.checked.entries if entry.kind in ("begun", "changed"))

    @property
    def taken_over(self) -> tuple[tuple[int, str], ...]:
        """From which step, and why, the run went on though more was published with its key than it holds."""
        return tuple((each["from_step"], each["reason"]) for each in self.settings.get("taken_over", ()))

    @property
    def delta(self) -> float:
        """Delta of every epsilon of the report."""
        return float(self.settings.get("delta", _DELTA))

    @property
    def note(self) -> str | None:
        """What must be said of the figures; None for those of measured habits of people, accounted here."""
        basis = basis_note(
            self.settings.get("people", 1), self.settings.get("assumed_habits"), self.check, self.draws
        )
        said = None
        if summed := self.settings.get(SUMMED):
            said = (
                f"risks of some steps before {summed:,} are put together from what several processes wrote, "
                "as people had changed before they were fetched: quantiles are upper ends"
            )
        return "; ".join(filter(None, (basis, said))) or None

    @property
    def check(self) -> PriorsVerdict | None:
        """What real traces had said of the priors when the run was last started."""
        return priors_check_of(self.settings)

    @property
    def draws(self) -> int:
        """How many chains stand for each person since the run was last started."""
        return int((self.settings.get("drawn") or {}).get("draws", 1))

    @property
    def ceilings(self) -> CeilingKind:
        """The ceilings that are asked for since the run was last started."""
        chains = (self.settings.get("drawn") or {}).get("chains")
        return CeilingKind(self.within_nats, chains, in_crowd=self.adversary is not None)

    @property
    def within_nats(self) -> float:
        """The radius that the check asks ceilings to hold within."""
        return 0.0 if self.check is None else self.check.within_nats

    @property
    def condition(self) -> str:
        """When the ceilings hold, in short."""
        return ceiling_condition(self.check, self.draws)

    @property
    def adversary(self) -> CrowdAdversary | None:
        """The crowd adversary where the rule is kept against it; None for the informed one."""
        return _adversary_of(self.settings)

    def judged_against(self, adversary: CrowdAdversary | None) -> tuple[RiskSummary, ...]:
        """The summaries against an adversary; None for the informed one."""
        if adversary is None:
            return self.summaries
        return tuple(in_crowd(summary, adversary) for summary in self.summaries)

    def condition_against(self, adversary: CrowdAdversary | None) -> str:
        """When ceilings against an adversary hold; None for the informed one."""
        if adversary is None:
            return self.condition
        others, of_personas = self._others
        return f"{self.condition}, and {crowd_note(adversary, others, of_personas=of_personas)}"

    def presumed_against(self, adversary: CrowdAdversary | None) -> str:
        """The same before a sentence that goes on."""
        if adversary is None:
            return self.condition
        others, of_personas = self._others
        return f"{self.condition}, and {crowd_clause(adversary, others, of_personas=of_personas)}"

    @property
    def _others(self) -> tuple[int, bool]:
        """How many others there are for each person, and whether some are behind personas."""
        return self.settings.get("people", 1) - 1, bool((self.settings.get("crowd") or {}).get("personas"))

    @property
    def is_raised(self) -> bool:
        """Whether the priors were refuted: then nothing says what releases added for people who differ."""
        return self.check is not None and self.check.is_too_low

    @property
    def by_priors(self) -> str:
        """What follows "added" where it holds for the refuted priors only."""
        return ", by the refuted priors" if self.is_raised else ""

    @property
    def raised_from(self) -> int:
        """The first step whose ceilings are those that are asked for now; after the last step if none is."""
        now = self.ceilings._replace(in_crowd=False)
        others = [each.step for each in self.summaries if CeilingKind(each.within_nats, each.chains) != now]
        return max(others, default=-1) + 1

    @property
    def worst(self) -> RiskSummary:
        """The step that the headline is of: at which the releases added most on average."""
        step = self.view.figure("headline.added").over.last
        return next(each for each in self.summaries if each.step == step)

    @property
    def times(self) -> StepTimes:
        """When steps began, by the deployment's clock."""
        origin = int(datetime.fromisoformat(self.settings["origin"]).timestamp())
        clock = self.settings.get("timezone") or self.settings.get("offset")
        return StepTimes(origin, self.settings["step_seconds"], clock)

    def when(self, step: int) -> str:
        """When a step began, in words."""
        return self.times.when(step)

    @cached_property
    def asked(self) -> tuple[Question, ...]:
        """The questions, first what the rule and all figures without a name of one are about."""
        return questions_of_run(self.settings)

    @cached_property
    def view(self) -> View:
        """Every figure that is shown of the run."""
        found = View(About(self.condition, self.times, self.limit, self.is_raised, self.asked))
        for summary in self.summaries:
            found.note_summary(summary, self.reasons.get(summary.step))
        return found

    @property
    def errors(self) -> Mapping[str, Figure]:
        """By how many people each sensor's counts are off, and what part of a count that is."""
        last = max(0, self.checked.released - 1)
        found = errors([(each.sensor, each.error, each.typical) for each in self.sensors], 0, last)
        return {each.name.removeprefix("error."): each for each in found}

    @property
    def spent(self) -> tuple[Figure, ...]:
        """Epsilon of everything published so far, by group of sensors."""
        if self.account is None:
            return ()
        return spent(self.account.spends, self.delta, self.account.steps)

    def horizon(self) -> HorizonSettings:
        """What the run's accountant was set to, with work enough for the few that are looked at again."""
        stored = self.settings
        return HorizonSettings(
            stored["horizon"],
            stored["mistakes"],
            tuple(stored.get("thresholds", ())),
            stored.get("first_slot", 0),
            sharpen=stored.get("sharpen") is not False and stored.get("sharpen_operations") != 0,
            sharpen_above=stored.get("sharpen_above"),
            within_nats=self.within_nats,
            calendar=calendar_of_run(stored),
            question=None if self.asked[0].name == PLACE else self.asked[0],
        )


def read_run(
    folder: Path, most_exposed: int = 10, designs: Designs = NO_DESIGNS, *, is_accounted: bool = True
) -> RunLog:
    """Read an output folder; :class:`OutputError` where it is not one of a run.

    Or where no step has its people's risks recorded, unless ``is_accounted`` is False. ``designs`` of noise
    are those that the log may name beside the run's own.
    """
    settings = load_run(folder)
    designs = designs.with_designs(designs_of_run(folder))
    checked = check_run(folder)
    summaries = tuple(_summaries(folder / "risks.jsonl"))
    if is_accounted and not summaries and settings.get("people") != 0:
        raise OutputError(f"{folder} must hold at least one closed step", "none", "let the run go on first")
    exposed = summaries[-1].worst[:most_exposed] if summaries else ()
    sensors, reasons = _Sensors(settings, checked.entries, designs), {}
    decisions = parsed_lines(StepDecision, folder / "decisions.jsonl")
    for decision, release in zip_longest(decisions, public_releases(folder)):
        if decision is not None:
            sensors.add(decision, release)
            if decision.why is not None:
                reasons[decision.step] = decision.why
    rejected = sum(_CONTRADICTS not in line for line in log_lines(folder / "rejected.jsonl"))
    return RunLog(
        settings,
        summaries,
        exposed,
        sensors.logs(),
        sensors.mechanisms,
        rejected,
        reasons,
        checked,
        load_account(folder),
        sensors.beyond,
    )


def _budget_of(facts: Mapping[str, Any]) -> BudgetSettings:
    return BudgetSettings.model_validate((facts.get("release") or {}).get("budget") or {})


def _adversary_of(facts: Mapping[str, Any]) -> CrowdAdversary | None:
    decides = (facts.get("crowd") or {}).get("decides")
    return crowd_of_run(facts).adversary(facts["step_seconds"]) if decides else None


def in_crowd(summary: RiskSummary, adversary: CrowdAdversary) -> RiskSummary:
    """The summary against the crowd adversary; the informed one, without a crowd, where that is not known."""
    crowd = summary.crowd
    said = condition_of(adversary)
    if crowd is None or {name: getattr(crowd, name) for name in said} != said:
        return summary.model_copy(update={"crowd": None})
    return summary.model_copy(update=crowd.model_dump(exclude=set(said)))


def _summaries(path: Path) -> Iterator[RiskSummary]:
    for summary in parsed_lines(RiskSummary, path, SUMMARY):
        if not {*_QUANTILES} <= summary.risk.keys() & summary.added.keys():
            must = f"each summary in {path} must have the quantiles {', '.join(_QUANTILES)}"
            raise OutputError(must, "others", "restore the file")
        yield summary


class _Sensors:
    """Gathers what was decided and published of each sensor, step by step."""

    def __init__(self, settings: Mapping[str, Any], entries: Sequence[Entry], designs: Designs) -> None:
        self.mechanisms: Counter[str] = Counter()
        self.beyond: CountedBeyond | None = None
        self._people = int(settings.get("people", 1))
        self._delta = float(settings.get("delta", _DELTA))
        self._days = days_of_run(settings)
        self._held = held(entries) or [(0, settings)]
        counted = [each.about[COUNTED] for each in entries if COUNTED in each.about]
        self._counted = counted[-1] if counted else None  # how often one person may be, by all sensors
        self._designs = designs
        self._kinds: dict[str, Counter[str]] = defaultdict(Counter)
        self._errors: dict[str, list[float]] = defaultdict(list)
        self._values: Counter[str] = Counter()  # the sum of what was published
        self._spent: dict[str, ZcdpSpend] = defaultdict(ZcdpSpend)

    def add(self, step: StepDecision, release: StepRelease | None) -> None:
        """A step as it was decided, and as far as it was released."""
        entries = () if release is None or release.step != step.step else release.releases
        published = {entry.sensor: entry for entry in entries if entry.value is not None}
        counted, variance = 0.0, 0.0
        facts = next((own for first, own in reversed(self._held) if first <= step.step), self._held[0][1])
        again = facts.get("counted_again") or {}
        bounds = bounds_of(facts)
        for decision in step.decisions:
            name, own = decision.sensor, again.get(decision.sensor, {})
            mechanism = parse(decision.mechanism, decision.parameters, self._designs)
            sensor = Sensor(
                name,
                (0,),
                most_counts=own.get("most_counts", 1),
                corrections=own.get("corrections", 0),
                per_day=bounds.get(name),
            )
            days = self._days if bounds else None
            self._spent[name].add([SensorRelease(sensor, mechanism)], step.step, days)
            self.mechanisms[decision.mechanism] += 1
            entry = published.get(name)
            self._kinds[name][_kind(decision, is_missing=mechanism.is_released and entry is None)] += 1
            if entry is None or entry.value is None:
                continue
            self._errors[name].append(mechanism.expected_absolute_error())
            self._values[name] += entry.value
            spread = _spread(entry, mechanism)
            self._note_beyond(step.step, entry.value, spread, sensor.most_counts)
            counted, variance = counted + entry.value, variance + spread**2
        if self._counted:
            self._note_beyond(step.step, counted, sqrt(variance), self._counted)

    def _note_beyond(self, step: int, counted: float, spread: float, most: int) -> None:
        """Keep the step with the most people beyond the priors', unless noise or repetition explains it."""
        if (counted - _SURELY * spread) / most > self._people > 0:
            counted = int(counted / most)
            if self.beyond is None or counted > self.beyond.counted:
                self.beyond = CountedBeyond(step, counted, self._people)

    def logs(self) -> tuple[SensorLog, ...]:
        """Every sensor, those with most releases first."""
        logs = (
            SensorLog(
                name,
                kinds.total(),
                len(errors := self._errors[name]),
                sum(error == 0.0 for error in errors),
                kinds,
                sum(errors) / len(errors) if errors else None,
                self._values[name] / len(errors) if errors else None,
                self._spent[name].epsilon(self._delta),
                spent_in_words(self._spent[name], self._delta),
            )
            for name, kinds in self._kinds.items()
        )
        return tuple(sorted(logs, key=lambda log: (-log.releases, log.sensor)))


def _kind(decision: SensorDecision, *, is_missing: bool) -> str:
    if is_missing:
        return "no count came"
    if decision.mechanism == "suppressed":
        return "nothing"
    said = (f"{name} {value:g}" for name, value in sorted(decision.parameters.items()))
    return " ".join((decision.mechanism, *said))


def _spread(entry: SensorValue, mechanism: Mechanism) -> float:
    """The standard deviation of a published value's noise, as if it were Gaussian.

    A Gaussian's mean absolute error is sqrt(2 / pi) sigma; Laplace noise of epsilon has sqrt(2) / epsilon.
    """
    spread = mechanism.expected_absolute_error() * sqrt(pi / 2.0)
    return spread if entry.epsilon is None else max(spread, sqrt(2.0) / entry.epsilon)

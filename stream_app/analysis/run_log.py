"""What a finished or running output folder holds: settings, risk at each step, people, releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from accounting.exposure.crowd import CrowdAdversary
from accounting.ledgers import PrivacyAccount, ZcdpSpend
from accounting.settings import HorizonSettings, RiskBudget
from models.mechanisms import NO_DESIGNS, Designs, Mechanism, parse
from models.releases import Sensor, SensorRelease
from stream_app.analysis.run_lines import complete_lines, record_of
from stream_app.analysis.verdict import CeilingKind
from stream_app.exceptions import OutputError
from stream_app.setup.priors_verdict import PriorsVerdict, priors_check_of
from stream_app.setup.release_settings import BudgetSettings
from stream_app.setup.run_folder.run_settings import load_account, load_run
from stream_app.setup.settings import Settings
from stream_app.watching.prior_notes import basis_note, ceiling_condition, crowd_note
from stream_app.watching.wording import spent_in_words, step_in_words
from stream_app.wire import DecisionReason, RiskSummary, StepDecision, WorstMoment

_QUANTILES = ("0.5", "0.9", "1.0")  # that the report draws
_DELTA = 1e-6  # of runs that recorded none


@dataclass(frozen=True)
class SensorLog:
    """One sensor's releases: how many, with which mechanism last, its expected error, epsilon of all."""

    sensor: str
    releases: int
    mechanism: str
    error: float | None  # in people; None where nothing is published
    epsilon: float  # nats at the delta of the run; inf where there is none
    spent: str  # the same in words, with what left none


@dataclass(frozen=True)
class RunLog:
    """Everything a report needs of a run.

    ``exposed`` are the people to whom most was added, at that step; ``reasons`` what decided a step, where a
    risk budget did. Without people there are no ``summaries``; ``note`` is what must be said of the priors.
    """

    settings: Mapping[str, Any]
    summaries: tuple[RiskSummary, ...]
    exposed: tuple[WorstMoment, ...]
    sensors: tuple[SensorLog, ...]
    releases: Mapping[str, int]  # by mechanism
    rejected: int
    reasons: Mapping[int, DecisionReason]
    account: PrivacyAccount | None = None  # what was spent on differential privacy

    @property
    def limit(self) -> RiskBudget | None:
        """The rule that was chosen for the run; None where there is none."""
        return self._budget.limit

    @property
    def _budget(self) -> BudgetSettings:
        return BudgetSettings.model_validate(self.settings.get("release", {}).get("budget", {}))

    def with_rule(self, settings: Settings) -> Settings:
        """The settings with the run's rule, and whether it decided, in place of theirs."""
        mechanism = self.settings.get("release", {}).get("mechanism", settings.release.mechanism)
        release = settings.release.model_copy(update={"mechanism": mechanism, "budget": self._budget})
        return settings.model_copy(update={"release": release})

    @property
    def delta(self) -> float:
        """Delta of every epsilon of the report."""
        return float(self.settings.get("delta", _DELTA))

    @property
    def note(self) -> str | None:
        """What must be said of the priors; None for measured habits of people."""
        return basis_note(
            self.settings.get("people", 1), self.settings.get("assumed_habits"), self.check, self.draws
        )

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
        """Whom the rule is kept against where that is the crowd adversary; None for the informed one."""
        crowd = self.settings.get("crowd") or {}
        if not crowd.get("decides"):
            return None
        return CrowdAdversary(crowd["known"], crowd["companions"], crowd["alone"])

    @property
    def judged(self) -> tuple[RiskSummary, ...]:
        """The summaries that the rule is held against: those against the adversary it is kept against."""
        adversary = self.adversary
        if adversary is None:
            return self.summaries
        return tuple(_in_crowd(summary, adversary) for summary in self.summaries)

    @property
    def judged_condition(self) -> str:
        """When they hold."""
        if self.adversary is None:
            return self.condition
        return f"{self.condition}, and {crowd_note(self.adversary, self.settings.get('people', 1) - 1)}"

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
        """The step at which the releases added most on average."""
        return max(self.summaries, key=lambda summary: summary.mean_added)

    @property
    def most_added(self) -> float:
        """The most that the releases added to anybody at any step."""
        return max(summary.added["1.0"] for summary in self.summaries)

    @property
    def most_risk(self) -> float:
        """The highest ceiling of anybody at any step."""
        return max(summary.risk["1.0"] for summary in self.summaries)

    def when(self, step: int) -> str:
        """When a step began, in words."""
        origin = datetime.fromisoformat(self.settings["origin"])
        return step_in_words(step, int(origin.timestamp()), self.settings["step_seconds"])

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
        )


def read_run(folder: Path, most_exposed: int = 10, designs: Designs = NO_DESIGNS) -> RunLog:
    """Read an output folder; :class:`OutputError` where it is not one or has no closed step.

    ``designs`` of noise are those that the log may name beside the run's own.
    """
    settings = load_run(folder)
    designs = designs.with_designs(_own_design(settings))
    summaries = tuple(_summaries(folder / "risks.jsonl"))
    if not summaries and settings.get("people") != 0:
        raise OutputError(f"{folder} must hold at least one closed step", "none", "let the run go on first")
    exposed = summaries[-1].worst[:most_exposed] if summaries else ()
    log = folder / "decisions.jsonl"
    again = settings.get("counted_again", {})
    sensors, releases = _sensors(_decisions(log), settings.get("delta", _DELTA), designs, again)
    reasons = {decision.step: decision.why for decision in _decisions(log) if decision.why is not None}
    rejected = sum(1 for _ in complete_lines(folder / "rejected.jsonl"))
    account = load_account(folder)
    return RunLog(settings, summaries, exposed, sensors, releases, rejected, reasons, account)


def _in_crowd(summary: RiskSummary, adversary: CrowdAdversary) -> RiskSummary:
    """The summary against the crowd adversary; the informed one, without a crowd, where that is not known."""
    crowd = summary.crowd
    if crowd is None or CrowdAdversary(crowd.known, crowd.companions, crowd.alone) != adversary:
        return summary.model_copy(update={"crowd": None})
    return summary.model_copy(update=crowd.model_dump(exclude={"known", "companions", "alone"}))


def _own_design(settings: Mapping[str, Any]) -> Designs:
    """The noise design of the run, if its file is still there; the log names it by a number only."""
    covariance = settings.get("release", {}).get("covariance")
    return Designs.load([Path(covariance)] if covariance is not None and Path(covariance).exists() else [])


def _summaries(path: Path) -> Iterator[RiskSummary]:
    """The summary of each step."""
    for line in complete_lines(path):
        if line.startswith(b'{"v":1,"type":"risk_summary"'):
            summary = record_of(RiskSummary, path, line)
            if not {*_QUANTILES} <= summary.risk.keys() & summary.added.keys():
                raise OutputError(
                    f"each summary in {path} must have the quantiles {', '.join(_QUANTILES)}",
                    "others",
                    "restore the file",
                )
            yield summary


def _decisions(path: Path) -> Iterator[StepDecision]:
    """The decision of each step."""
    return (record_of(StepDecision, path, line) for line in complete_lines(path))


def _sensors(
    steps: Iterable[StepDecision], delta: float, designs: Designs, again: Mapping[str, Mapping[str, int]]
) -> tuple[tuple[SensorLog, ...], Mapping[str, int]]:
    """Each sensor's releases, and how many there were of each mechanism."""
    count: Counter[str] = Counter()
    mechanisms: Counter[str] = Counter()
    last: dict[str, Mechanism] = {}
    spent: dict[str, ZcdpSpend] = {}
    for step in steps:
        for decision in step.decisions:
            count[decision.sensor] += 1
            mechanisms[decision.mechanism] += 1
            mechanism = last[decision.sensor] = parse(decision.mechanism, decision.parameters, designs)
            own = again.get(decision.sensor, {"most_counts": 1, "corrections": 0})
            most, corrections = own["most_counts"], own["corrections"]
            sensor = Sensor(decision.sensor, (0,), most_counts=most, corrections=corrections)
            release = SensorRelease(sensor, mechanism)
            spent.setdefault(decision.sensor, ZcdpSpend()).add([release])
    logs = (
        SensorLog(
            name,
            count[name],
            kind.name,
            kind.expected_absolute_error() if kind.is_released else None,
            spent[name].epsilon(delta),
            spent_in_words(spent[name], delta),
        )
        for name, kind in last.items()
    )
    return tuple(sorted(logs, key=lambda log: (-log.releases, log.sensor))), mechanisms

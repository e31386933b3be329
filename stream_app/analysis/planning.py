"""The decisions for a whole schedule in advance: what a run would release, with which error and which risk.

Decisions never need a count, so a plan made today is what the run does tomorrow, as long as priors, settings,
schedule and pseudonym key stay the same: people are split by pseudonym where refined bounds are scarce.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import count, starmap
from pathlib import Path
from typing import Any

from accounting.continuous import RiskSummary, SharesOfPeople, shares_of_people
from accounting.continuous.shadow import MeanAttack
from accounting.ledgers import ReleaseLog
from accounting.ledgers.units import UnitStatement, read_units
from models.calendar import Days
from models.mechanisms import Mechanism, public_error
from models.priors import Population
from models.releases import Schedule, Sensor, SensorRegistry, SensorRelease, in_single_steps
from stream_app.analysis.alternatives import Alternative, VariedRisks, answers, vary
from stream_app.analysis.crowd import CrowdSoFar, PlannedCrowd
from stream_app.analysis.ledger_document import UNIT_HOURS, unit_widths, units_as_json
from stream_app.analysis.run_log import CeilingKind, in_crowd
from stream_app.analysis.verdict import RuleVerdict, answer_in_words, verdict_on, whole_rule_in_words
from stream_app.setup.combinations import Runner, refuse
from stream_app.setup.declared import days_of
from stream_app.setup.given_priors import clock_warning
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.release_settings import CROWD, INFORMED, AdversaryName
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.steps import Accounts, PeopleAccounts, Plan, follow_schedule, make_plan
from stream_app.steps.policy import BudgetPolicy, Decided, steps_asked
from stream_app.watching.prior_notes import basis_note
from stream_app.watching.view import ABOUT_NOTHING, About, Moment, View
from stream_app.watching.wording import habits_warning
from stream_app.wire import RiskSummary as Recorded
from stream_app.wire import SampledRisks


@dataclass(frozen=True)
class PlannedStep:
    """One decided step and everybody's risk after it."""

    decided: Decided
    risks: RiskSummary
    attack: MeanAttack | None = None  # None where none was measured
    recorded: Recorded | None = None  # as a run records it; None where nobody's risk is computed

    @property
    def sampled(self) -> SampledRisks | None:
        """What was found by sampling; None where nobody is looked at so."""
        return None if self.recorded is None else self.recorded.sampled

    def as_json(self, crowd: RiskSummary | None = None, *, leads: bool = False) -> dict[str, Any]:
        """The step as a JSON object: the releases in the form of a schedule file.

        Risks in the ``crowd`` stand beside the informed ones; where they lead, the informed beside them.
        """
        why, risks = self.decided.why, crowd if leads and crowd is not None else self.risks
        beside = {} if crowd is None else {"informed": self.risks} if leads else {"in_crowd": crowd}
        return {
            "step": self.decided.schedule.step,
            "releases": [
                {**release_document(release), "expected_error": expected_error(release.mechanism)}
                for release in self.decided.schedule.releases
            ],
            "why": None if why is None else why.model_dump(mode="json"),
            **_risks(risks),
            "mean_baseline": risks.mean_baseline if risks.people else None,
            # The attack that is tried knows where everybody else is, so it says nothing of the crowd.
            "attack": None
            if self.attack is None or risks is crowd
            else {end: getattr(self.attack, end) for end in _ATTACK},
            **({"sampled": self.sampled.model_dump(mode="json")} if self.sampled and risks.people else {}),
            **{name: _risks(each) for name, each in beside.items()},
        }


def _risks(risks: RiskSummary) -> dict[str, Any]:
    if risks.people == 0:
        return dict.fromkeys(("risk", "mean_risk", "mean_added", "at_risk"))
    return {
        "risk": {f"{level:g}": value for level, value in risks.risk_quantiles.items()},
        "mean_risk": risks.mean_risk,
        "mean_added": risks.mean_added,
        "at_risk": {f"{level:g}": people for level, people in risks.at_risk.items()},
    }


_ATTACK = ("success", "low", "high", "confidence", "draws")


def release_document(release: SensorRelease) -> dict[str, Any]:
    """A release as a schedule file has it."""
    own = release.mechanism
    return {"sensor": release.sensor.name, "mechanism": own.name, **own.parameters}


@dataclass(frozen=True)
class SensorPlan:
    """What a plan means for one sensor: steps announced, released, released raw; mean error when released."""

    sensor: str
    steps: int
    released: int
    raw: int
    mean_error: float | None


@dataclass(frozen=True)
class ReleasePlan:
    """A whole schedule decided in advance.

    ``as_run`` says that a run decides the very same; without the pseudonym key it may decide otherwise in
    steps where refined bounds do not suffice for everybody. ``warning`` stands where habits alone give most
    people away, or steps are not those of the priors, ``note`` where the priors are not measured habits.
    ``alternatives`` are what other habits make of the same releases, where they were asked for. Against the
    informed adversary, and with ``crowd`` also against one who does not know where the others are;
    ``adversary`` says which of the two a risk budget is kept by, and which ceilings stand first.
    """

    people: int
    steps: tuple[PlannedStep, ...]
    days: Days
    delta: float
    as_run: bool = True
    warning: str | None = None
    note: str | None = None
    alternatives: tuple[VariedRisks, ...] = ()
    personas: SharesOfPeople | None = None  # None where everybody stands for themselves
    crowd: PlannedCrowd | None = None
    adversary: AdversaryName = INFORMED
    about: About = ABOUT_NOTHING

    @cached_property
    def view(self) -> View:
        """Every figure that is shown of the plan; none where nobody's risk is computed."""
        found, crowd = View(self.about), self.other_ceilings
        for index, step in enumerate(self.steps if self.people else ()):
            guess, ceilings = step.risks.mean_baseline, self.ceilings[index]
            in_crowd = crowd[index].mean_risk if crowd and self.adversary == INFORMED else None
            moment = Moment.planned(ceilings, step.attack, in_crowd)._replace(guess=guess)
            found.note(moment, None, step.decided.why)
            found.note_beside((step.recorded.questions if step.recorded else None) or {})
        return found

    @cached_property
    def verdict(self) -> RuleVerdict | None:
        """The plan held against its rule, as a run's records would be; None without a rule or people."""
        summaries = tuple(step.recorded for step in self.steps if step.recorded is not None)
        if self.about.limit is None or not summaries:
            return None
        ceilings = CeilingKind(summaries[0].within_nats, summaries[0].chains, self.adversary == CROWD)
        if self.crowd is not None and self.adversary == CROWD:
            summaries = tuple(in_crowd(each, self.crowd.adversary) for each in summaries)
        reasons = {each.decided.schedule.step: each.decided.why for each in self.steps if each.decided.why}
        is_refuted = self.about.is_refuted
        return verdict_on(summaries, reasons, self.about.limit, is_refuted=is_refuted, ceilings=ceilings)

    def verdict_as_json(self) -> dict[str, str] | None:
        """The same in words: answer, sentence and rule."""
        found, about, is_crowd = self.verdict, self.about, self.adversary == CROWD
        if found is None:
            return None
        said = answer_in_words(found, about.condition, about.times.when, in_crowd=is_crowd, of_plan=True)
        rule = whole_rule_in_words(about.limit, in_crowd=is_crowd)
        return {"answer": found.answer.value, "sentence": said, "rule": rule}

    @property
    def ceilings(self) -> tuple[RiskSummary, ...]:
        """Risks after each step against the adversary that counts."""
        if self.crowd is not None and self.adversary == CROWD:
            return self.crowd.steps
        return tuple(step.risks for step in self.steps)

    @property
    def other_ceilings(self) -> tuple[RiskSummary, ...]:
        """Risks after each step against the other adversary; none without a crowd."""
        if self.crowd is None:
            return ()
        return self.crowd.informed if self.adversary == CROWD else self.crowd.steps

    @property
    def schedule(self) -> Schedule:
        """What was decided, without the slot of its first step."""
        return Schedule(tuple(step.decided.schedule for step in self.steps))

    @cached_property
    def _log(self) -> ReleaseLog:
        return ReleaseLog.of(self.schedule.steps)

    @cached_property
    def units(self) -> tuple[UnitStatement, ...]:
        """Differential privacy of the plan by unit."""
        return read_units(self._log, self.delta, self.days, *unit_widths(self.days.step_seconds, UNIT_HOURS))

    def units_as_json(self) -> list[dict[str, Any]]:
        """The same in words and numbers."""
        return units_as_json(self.units, is_bounded=self._log.is_bounded)

    def sensors(self) -> tuple[SensorPlan, ...]:
        """Each sensor's share, in the order of their first announcement."""
        found: dict[str, list[Mechanism]] = {}
        for step in self.steps:
            for release in step.decided.schedule.releases:
                found.setdefault(release.sensor.name, []).append(release.mechanism)

        def plan(name: str, own: list[Mechanism]) -> SensorPlan:
            errors = [error for error in map(expected_error, own) if error is not None]
            mean = sum(errors) / len(errors) if errors else None
            return SensorPlan(name, len(own), len(errors), sum(each.is_exact for each in own), mean)

        return tuple(starmap(plan, found.items()))

    def as_json(self) -> dict[str, Any]:
        """The plan as one JSON document."""
        crowd, personas = self.crowd, self.personas
        steps = [None] * len(self.steps) if crowd is None else crowd.steps
        leads = self.adversary == CROWD
        return {
            "people": self.people,
            "as_run": self.as_run,
            "warning": self.warning,
            "note": self.note,
            "verdict": self.verdict_as_json(),
            **({} if crowd is None else {"adversary": self.adversary, "crowd": crowd.as_json()}),
            "steps": [
                step.as_json(risks, leads=leads) for step, risks in zip(self.steps, steps, strict=True)
            ],
            "sensors": [vars(sensor) for sensor in self.sensors()],
            "alternatives": [each.as_json() for each in self.alternatives],
            "personas": None
            if personas is None
            else {
                "people": personas.people,
                "at_risk": {f"{level:g}": share for level, share in personas.shares.items()},
            },
            "figures": self.view.as_json(),
            **({"questions": [each.as_json() for each in asked]} if (asked := self.view.by_question) else {}),
            "differential_privacy_by_unit": self.units_as_json(),
        }


def plan_releases(
    settings: Settings,
    schedule: Path,
    population: Population,
    progress: Callable[[int, int], None] = lambda done, steps: None,
    alternatives: Sequence[str] = (),
) -> ReleasePlan:
    """Decide and account every step of a schedule file; ``progress`` gets steps done and steps in all.

    The schedule's mechanisms stand under a fixed policy and are the best there may be under a risk budget.
    ``alternatives`` are those under which the same releases are accounted: ``NAME=NATS`` or ``NAME=FILE``.
    Settings with a crowd show both ceilings, and decide by those of the adversary that they name.
    """
    plan = make_plan(settings, schedule, population, Runner.PLAN)
    return _decided(settings, plan, population, progress, alternatives)


def plan_schedule(settings: Settings, schedule: Schedule, population: Population) -> ReleasePlan:
    """The same for a schedule that stands in no file."""
    registry = SensorRegistry(population.location_names, sensors_of(schedule))
    refuse(Runner.PLAN, settings, len(population))
    return _decided(settings, follow_schedule(settings, schedule, registry), population)


def plan_steps(settings: Settings, schedule: Schedule, population: Population) -> ReleasePlan:
    """The same of the deployment's sensors, without the attack that is tried on drawn people."""
    registry = load_registry(settings.sensors, population.location_names)
    quiet = settings.model_copy(update={"attack_draws": 0, "sampled_above": None})
    return _decided(quiet, follow_schedule(quiet, schedule, registry), population)


def sensors_of(schedule: Schedule) -> tuple[Sensor, ...]:
    """Every sensor of a schedule, in the order of appearance."""
    return tuple(dict.fromkeys(each.sensor for step in schedule.steps for each in step.releases))


def _decided(
    settings: Settings,
    plan: Plan,
    population: Population,
    progress: Callable[[int, int], None] = lambda done, steps: None,
    alternatives: Sequence[str] = (),
) -> ReleasePlan:
    decides = isinstance(plan.policy, BudgetPolicy)
    names, as_run = _split_names(settings, population, is_needed=decides)
    accounts = Accounts.of(settings, settings.horizon_settings(plan.first_slot), population, names)
    others = vary(Alternative.given(population, names, settings), alternatives)
    accountant, crowd = accounts.informed, accounts.crowd
    people = PeopleAccounts(settings, accounts, has_windows=bool(plan.registry.windowed))
    so_far = None if crowd is None else CrowdSoFar(crowd)
    people.bind(plan.policy)
    last = max(plan.announced, default=-1)
    numbers, all_steps = count(1), (last + 1) * (1 + len(others))
    steps = []
    for step in range(last + 1):
        sensors = plan.announced.get(step, ())
        known = people.ask(steps_asked(plan.policy, step, sensors, plan.registry))
        crowds = known[0].crowds if known else None
        decided = plan.policy.decide(step, sensors, known)._replace(crowds=crowds)
        plan.policy.note(decided.schedule)
        decided = decided._replace(single_steps=in_single_steps(decided.schedule, plan.registry))
        people.apply(decided)
        if so_far is not None and crowds is not None:
            so_far.note(decided.accounted, crowds)
        recorded = people.summary() if len(population) else None
        steps.append(PlannedStep(decided, accountant.summary(), people.mean_attack(), recorded))
        progress(next(numbers), all_steps)
    is_whole = not decides and not any(s.risks.not_reached for s in steps)
    by_names = crowd is not None or accountant.settings.refines  # the crowd's coins go by names
    as_run = as_run or not by_names or is_whole
    note = basis_note(len(population), population.assumed, settings.priors_check, population.draws)
    schedule = [in_single_steps(each.decided.schedule, plan.registry) for each in steps]
    varied = answers(others, schedule, settings, plan.first_slot, lambda: progress(next(numbers), all_steps))
    personas = shares_of_people(population, accountant.risk(), settings.thresholds)
    said = clock_warning(population, settings, plan.first_slot), habits_warning(accountant)
    warning = "; ".join(filter(None, said)) or None
    whose = population.everybody, tuple(steps), days_of(settings), settings.delta
    found = ReleasePlan(*whose, as_run, warning, note, varied, personas)
    planned = None if so_far is None else so_far.planned()
    about = About.of(settings)
    if planned is not None and settings.adversary == CROWD:
        about = replace(about, condition=f"{about.condition}, and {planned.clause}")
    return replace(found, crowd=planned, adversary=settings.adversary, about=about)


def expected_error(mechanism: Mechanism) -> float | None:
    """Expected absolute error, in people; None where nothing is published."""
    return public_error(mechanism) if mechanism.is_released else None


def _split_names(
    settings: Settings, population: Population, *, is_needed: bool
) -> tuple[Sequence[str], bool]:
    """Names by which people are split, and whether a run has the same: without the key, ids serve.

    A key that is named must be there where decisions need it; an attack is tried on other people without.
    """
    path, secret = settings.pseudonym_key, settings.pseudonym_key_secret
    if secret is None and (path is None or not (is_needed or path.is_file())):
        return population.people, False
    return load_pseudonym_key(settings).pseudonyms(population.people), True

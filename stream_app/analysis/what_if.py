"""What if the same sensors and hours were released otherwise: asked while a slider moves, and when it rests.

A question is answered from the fast bound at once, then with the refined one. Answers need priors and which
sensors counted when, never a count, so asking releases nothing. What was published before the hours asked
about is left out: each plan is accounted anew from its first step.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from threading import Lock, Thread
from typing import Any, NamedTuple

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings, RiskBudget
from models.calendar import slots_by_the_clock
from models.mechanisms import Gaussian, Mechanism, Raw, public_error
from models.priors import Population
from models.releases import Schedule, SensorRelease, StepSchedule
from models.text import number_of, parse_toml
from stream_app.analysis.accounted_again import mean_error
from stream_app.analysis.planning import plan_schedule
from stream_app.analysis.verdict import MayPublish, whole_rule_in_words
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import BUDGET, CROWD
from stream_app.setup.run_folder.durable import replace_file
from stream_app.setup.run_folder.record import Author, Record
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.steps.policy.people_shards import people_shares
from stream_app.watching.metrics import who_is_over
from stream_app.watching.people import Standing
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.view import About, Moment, View, error_in_words
from stream_app.watching.wording import significant

AS_RELEASED, DECIDED = "", "rule"
"""What a plan's noise may be beside a number of people: that of the log, or what the rule decides."""
SIGMAS = (0.0, 0.5, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0, 10.0, 20.0, 30.0, 100.0)
"""Of the page's slider; 0 publishes as counted."""

MOST_STEPS = 48
"""Steps that a question is about at most, the last ones: as fast as a slider moves."""
MOST_SIGMA = 1000.0
PLANS = "plans"
"""The folder beside the settings that has the record of plans taken."""
_ACCOUNTANTS = 12  # of other horizons that are kept: their constants are most of the work
_OF_MANY = 3  # where people are many, as each takes a kilobyte a person
_MANY = 100_000
_OPERATIONS = 150_000_000  # of refined bounds in a step: so that a day takes some seconds of one core
_MOST_KEPT = 2_000_000  # figures of people and steps: a hundred megabytes
_DAY = 86_400


@dataclass(frozen=True)
class PlanChoice:
    """A plan in a few words: ``noise`` is :data:`AS_RELEASED`, :data:`DECIDED` or a sigma (0: as counted).

    Sensors that are ``off`` count nothing.
    """

    noise: str = AS_RELEASED
    off: frozenset[str] = frozenset()
    horizon: int = 1
    mistakes: int = 0
    limit: RiskBudget | None = None

    @property
    def mechanism(self) -> Mechanism | None:
        """The one of all sensors; None where each has its own."""
        if self.noise in (AS_RELEASED, DECIDED):
            return None
        return Gaussian(float(self.noise)) if float(self.noise) else Raw()

    @property
    def decided(self) -> RiskBudget | None:
        """The limit by which the rule decides the noise; None where it does not."""
        return self.limit if self.noise == DECIDED else None

    @property
    def key(self) -> tuple[int, int, RiskBudget | None]:
        """What the constants of its accounts depend on."""
        return self.horizon, self.mistakes, self.decided

    @property
    def right(self) -> str:
        """How many steps must be right: "10 of the last 10 steps"."""
        return f"{self.horizon - self.mistakes} of the last {self.horizon} steps"

    def in_words(self) -> str:
        """Noise, sensors and horizon in a sentence."""
        mechanism = self.mechanism
        noise = {AS_RELEASED: "noise as it was", DECIDED: "the rule decides each step's noise"}.get(
            self.noise, "published as counted" if isinstance(mechanism, Raw) else f"sigma {self.noise}"
        )
        off = f", without {len(self.off):,} of the sensors" if self.off else ""
        return f"{noise}{off}; {self.right}"


class PlannedRisks(NamedTuple):
    """What a plan does, step by step: means over people, and how many people are over the limit."""

    steps: list[int]
    guess: list[float]
    ceiling: list[float]
    added: list[float]
    over: list[int]
    by_habits: list[int]
    not_reached: list[int]  # people with the fast bound only


class _Accounted:
    """The accounts of one bound: accountants before their first step by horizon, and the last plan's figures.

    One question at a time; the fast bound does not wait for the refined one, which has accounts of its own.
    """

    def __init__(self) -> None:
        self.one_at_a_time = Lock()
        self.accountants: OrderedDict[tuple[int, int, RiskBudget | None], tuple[ContinuousAccountant, bytes]]
        self.accountants = OrderedDict()
        self.last: tuple[PlanChoice, list[tuple[Standing, int]]] | None = None


class WhatIf:
    """Answers questions about the ``steps`` of a log or schedule; safe on any thread.

    ``config`` is the settings file that a plan is taken into, ``about`` in words what the steps are. While a
    slider moves over horizons whose constants are not computed, the nearest one that is answers, and says so.
    """

    def __init__(
        self,
        settings: Settings,
        population: Population,
        steps: Sequence[StepSchedule],
        *,
        about: str = "",
        config: Path | None = None,
    ) -> None:
        """:class:`SettingsError` where no other release of these steps can be accounted."""
        if not len(population) or not any(step.releases for step in steps):
            raise SettingsError(
                "what-if needs people, and steps in which sensors counted",
                f"{number_of(len(population), 'person')}, {number_of(len(steps), 'step')}",
                "give --priors, and a run or schedule with at least one step",
            )
        if any(step.windows or step.revealed for step in steps):
            raise SettingsError(
                "what-if needs sensors that count in single steps",
                "windows or moves",
                "use tallyguard plan for them",
            )
        day = max(1, _DAY // settings.step_seconds)
        wanted = min(MOST_STEPS, max(day, 2 * settings.horizon))
        self.steps = tuple(steps[-wanted:])
        self._settings, self._population, self._config = settings, population, config
        self._about = about or f"the last {len(self.steps)} steps"
        self._fast, self._refined = _Accounted(), _Accounted()
        self._preparing = Lock()
        self._wanted: tuple[int, int, RiskBudget | None] | None = None  # what a slider asked for last
        self._decided: OrderedDict[PlanChoice, tuple[StepSchedule, ...]] = OrderedDict()
        self.sensors = tuple(dict.fromkeys(each.sensor.name for step in self.steps for each in step.releases))

    @property
    def _in_crowd(self) -> bool:
        """Whether the rule is kept against the crowd adversary.

        Without companions ceilings are then at most those here.
        """
        return self._settings.adversary == CROWD

    @property
    def choice(self) -> PlanChoice:
        """The plan as it is now."""
        settings = self._settings
        limit = settings.release.budget.limit
        noise = DECIDED if settings.release.mechanism == BUDGET else AS_RELEASED
        return PlanChoice(noise, frozenset(), settings.horizon, settings.mistakes, limit)

    def as_json(self) -> dict[str, Any]:
        """What the page's sliders begin with; the constants of its horizon are begun meanwhile."""
        now = self.choice
        limit = now.limit
        self._begin(replace(now, noise=AS_RELEASED))
        return {
            "about": f"{self._about}, {self.steps[0].step:,} to {self.steps[-1].step:,}",
            "sensors": list(self.sensors),
            "noise": now.noise,
            "horizon": now.horizon,
            "mistakes": now.mistakes,
            "rule": None if limit is None else {name: getattr(limit, name) for name in _LEVELS},
            "can_be_taken": self._config is not None,
            "sigmas": list(zip(SIGMAS, map(_sigma_in_words, SIGMAS), strict=True)),
        }

    def parse(self, query: Mapping[str, str]) -> PlanChoice:
        """A plan as the page's address names it; :class:`SettingsError` says what must hold."""
        now = self.choice
        limit = now.limit
        if any(query.get(name) is not None for name in ("added", "risk", "share")):
            levels = {name: _number(name, query.get(name)) for name in ("added", "risk")}
            if any(level is not None for level in levels.values()):
                share = _number("share", query.get("share")) or 0.0
                base = limit or RiskBudget(added=1.0)
                limit = replace(base, share=share, risk=levels["risk"], added=levels["added"])
            else:
                limit = None
        noise = query.get("noise", now.noise)
        if noise not in (AS_RELEASED, DECIDED):
            sigma = _number("noise", noise)
            if sigma is None or not 0.0 <= sigma <= MOST_SIGMA:
                raise SettingsError(
                    f"noise must be from 0 to {MOST_SIGMA:g} people", noise, "move the slider"
                )
            noise = f"{sigma:g}"
        if noise == DECIDED and limit is None:
            raise SettingsError("a rule must be chosen before it can decide", "none", "set its limit")
        chosen = {name: int(_number(name, query.get(name)) or 0) for name in ("horizon", "mistakes")}
        horizon = chosen["horizon"] or now.horizon
        mistakes = chosen["mistakes"] if "mistakes" in query else min(now.mistakes, horizon - 1)
        if not 1 <= horizon <= MOST_STEPS:
            raise SettingsError(f"horizon must be from 1 to {MOST_STEPS} steps here", horizon, "correct it")
        HorizonSettings(horizon, mistakes)  # refuses what does not go together
        numbers = [int(each) for each in query.get("off", "").split(",") if each.isdecimal()]
        off = frozenset(self.sensors[each] for each in numbers if each < len(self.sensors))
        return PlanChoice(noise, off, horizon, mistakes, limit)

    def answer(self, query: Mapping[str, str]) -> dict[str, Any]:
        """What the page shows of a plan; with ``refined`` in the query by the refined bound.

        By the fast bound the answer may be of the nearest horizon that is ready, and then says ``nearest``.
        """
        choice, refined = self.parse(query), query.get("refined") == "1"
        if choice.noise == DECIDED and not refined and choice not in self._decided:
            return {"plan": choice.in_words(), "pending": True}
        began, accounts = time.perf_counter(), self._refined if refined else self._fast
        shown = choice if refined else self._ready(choice)
        with accounts.one_at_a_time:
            steps = self._released(choice)
            risks = self._risks(shown, steps, accounts)
        found = {**self._in_words(shown, steps, risks, refined=refined), "plan": choice.in_words()}
        if shown != choice:  # what is true of another horizon is no answer
            said = f"Not shown yet for {choice.right}. For {shown.right}: {found['sentence']}"
            found |= {"state": MayPublish.OPEN.value, "sentence": said, "change": ""}
        nearest = None if shown == choice else shown.right
        return {**found, "nearest": nearest, "seconds": round(time.perf_counter() - began, 4)}

    def _ready(self, choice: PlanChoice) -> PlanChoice:
        """The plan with the nearest horizon whose constants are there; those of its own are begun."""
        ready = [key for key in list(self._fast.accountants) if key[2] == choice.decided]
        if choice.key in ready:
            return choice
        is_new, self._wanted = self._wanted != choice.key, choice.key
        if not ready:
            self._prepare(choice)
            return choice
        if is_new:
            self._begin(choice)
        away = {key: (abs(key[0] - choice.horizon), abs(key[1] - choice.mistakes)) for key in ready}
        horizon, mistakes, _ = min(ready, key=away.__getitem__)
        return replace(choice, horizon=horizon, mistakes=mistakes)

    def _begin(self, choice: PlanChoice) -> None:
        self._wanted = choice.key
        Thread(target=self._prepare, args=(choice,), name="what-if", daemon=True).start()

    def _prepare(self, choice: PlanChoice) -> None:
        """Compute the constants of a horizon, unless the slider has moved on meanwhile."""
        with self._preparing:
            if self._wanted == choice.key and choice.key not in self._fast.accountants:
                made = self._made(choice, refined=False)
                with self._fast.one_at_a_time:
                    self._keep(choice, made, self._fast)

    def take(self, query: Mapping[str, str], author: Author) -> dict[str, Any]:
        """Write the settings of a plan beside those of the deployment, and to the record who took it and why.

        The deployment's own settings and runs stay as they are. :class:`SettingsError` where a name or a
        reason is missing, or no settings file is known.
        """
        if self._config is None:
            raise SettingsError(
                "a plan is written beside the deployment's settings file",
                "none is known",
                "start tallyguard serve with --config",
            )
        if not author.reason:
            raise SettingsError("a plan that is taken must have a reason", "none", "write it down")
        choice = self.parse(query)
        answer = self.answer({**query, "refined": "1"})
        folder = self._config.parent
        (folder / PLANS).mkdir(mode=0o700, exist_ok=True)
        record = Record(folder / PLANS, author)
        number = len(record.entries) + 1
        path = folder / f"plan-{number}.toml"
        text = _settings_text(self._config.read_text(encoding="utf-8-sig"), choice, author, number)
        replace_file(path, text.encode())
        load_settings(path)  # refuses settings that no run would take
        facts = {
            "settings": path.name,
            "plan": choice.in_words(),
            "answer": answer["state"],
            "sentence": answer["sentence"],
            "digest": hashlib.sha256(text.encode()).hexdigest(),
        }
        record.hold(0, facts)
        return {"settings": str(path), "record": str(folder / PLANS / "record.jsonl"), "entry": number}

    def _released(self, choice: PlanChoice) -> tuple[StepSchedule, ...]:
        mechanism = choice.mechanism
        steps = tuple(
            StepSchedule(
                step.step,
                tuple(
                    each if mechanism is None else SensorRelease(each.sensor, mechanism)
                    for each in step.releases
                    if each.sensor.name not in choice.off
                ),
            )
            for step in self.steps
        )
        if choice.noise != DECIDED:
            return steps
        found = self._decided.get(choice)  # once: a refined question beside this one may let it go
        if found is None:
            found = self._decided[choice] = self._decisions(choice, steps)
            if len(self._decided) > _ACCOUNTANTS:
                self._decided.popitem(last=False)
        return found

    def _decisions(self, choice: PlanChoice, steps: Sequence[StepSchedule]) -> tuple[StepSchedule, ...]:
        """What the rule decides for each step: the least noise that keeps it, counts as they are at best."""
        first, settings, limit = self.steps[0].step, self._settings, choice.limit
        assert limit is not None
        raw = [
            StepSchedule(step.step - first, tuple(SensorRelease(r.sensor, Raw()) for r in step.releases))
            for step in steps
        ]
        calendar = settings.calendar(settings.first_slot)
        first_slot, _ = slots_by_the_clock(settings.first_slot, first, calendar)
        own = settings.release.budget
        budget = own.model_copy(update={name: getattr(limit, name) for name in _LEVELS})
        release = settings.release.model_copy(update={"mechanism": BUDGET, "budget": budget, "sensors": {}})
        changed = {
            "release": release,
            "horizon": choice.horizon,
            "mistakes": choice.mistakes,
            "first_slot": first_slot,
            "origin": settings.origin + timedelta(seconds=first * settings.step_seconds),
            "sharpen_operations": min(settings.sharpen_operations or 0, _OPERATIONS),
            "attack_draws": 0,
            "sampled_above": None,
        }
        planned_for = settings.model_copy(update=changed)
        planned = plan_schedule(planned_for, Schedule(tuple(raw), first_slot), self._population)
        return tuple(
            replace(each.decided.schedule, step=each.decided.schedule.step + first) for each in planned.steps
        )

    def _made(self, choice: PlanChoice, *, refined: bool) -> ContinuousAccountant:
        settings, people = self._settings, self._population
        horizon = replace(
            settings.horizon_settings(settings.first_slot),
            horizon=choice.horizon,
            mistakes=choice.mistakes,
            sharpen=refined,
            operations=min(settings.sharpen_operations or _OPERATIONS, _OPERATIONS),
            decided=choice.decided,
            first_step=self.steps[0].step,
        )
        shares = people_shares(people.people, settings.kafka.partitions)
        return ContinuousAccountant(people, horizon, shares=shares, told=people.told)

    def _keep(self, choice: PlanChoice, accountant: ContinuousAccountant, accounts: _Accounted) -> None:
        accounts.accountants[choice.key] = accountant, accountant.snapshot()
        if len(accounts.accountants) > (_ACCOUNTANTS if len(self._population) < _MANY else _OF_MANY):
            accounts.accountants.popitem(last=False)

    def _accountant(self, choice: PlanChoice, accounts: _Accounted) -> ContinuousAccountant:
        """One before the first step; the constants of a horizon are computed once."""
        if choice.key not in accounts.accountants:
            self._keep(choice, self._made(choice, refined=accounts is self._refined), accounts)
        accounts.accountants.move_to_end(choice.key)
        accountant, empty = accounts.accountants[choice.key]
        accountant.restore(empty)
        return accountant

    def _risks(self, choice: PlanChoice, steps: Sequence[StepSchedule], accounts: _Accounted) -> PlannedRisks:
        found = PlannedRisks(*([] for _ in PlannedRisks._fields))
        for standing, left in self._standings(choice, steps, accounts):
            weights = standing.people_each / max(1, standing.people)
            found.steps.append(standing.step)
            found.guess.append(float(standing.baseline @ weights))
            found.ceiling.append(float(standing.risk @ weights))
            found.added.append(float(standing.added @ weights))
            if choice.limit is not None:
                by_releases, by_habits = map(standing.count, who_is_over(standing, choice.limit))
                found.over.append(by_releases + by_habits)
                found.by_habits.append(by_habits)
            found.not_reached.append(left)
        return found

    def _standings(
        self, choice: PlanChoice, steps: Sequence[StepSchedule], accounts: _Accounted
    ) -> Iterable[tuple[Standing, int]]:
        """Everybody's figures after each step, and how many have the fast bound only.

        Those of the last plan are kept while memory allows: another rule counts the same figures.
        """
        key = replace(choice, limit=choice.decided)
        if accounts.last is not None and accounts.last[0] == key:
            return accounts.last[1]
        accountant = self._accountant(choice, accounts)

        def accounted() -> Iterator[tuple[Standing, int]]:
            for step in steps:
                accountant.apply(step)
                left = accountant.summary().not_reached if accounts is self._refined else 0
                yield Standing.of(accountant, self._population.people), left

        if len(steps) * len(self._population) > _MOST_KEPT:
            return accounted()
        accounts.last = key, list(accounted())
        return accounts.last[1]

    def _in_words(
        self,
        choice: PlanChoice,
        steps: Sequence[StepSchedule],
        risks: PlannedRisks,
        *,
        refined: bool,
    ) -> dict[str, Any]:
        people, limit = self._population.everybody, choice.limit
        view = View(About.of(self._settings))
        means = zip(risks.steps, risks.guess, risks.ceiling, risks.added, strict=True)
        for step, guess, ceiling, added in means:
            view.note(Moment(step, people, guess, ceiling, added))
        state, sentence, change = self._answer(choice, risks, people, refined=refined)
        return {
            "plan": choice.in_words(),
            "about": self._about,
            "rule": "" if limit is None else whole_rule_in_words(limit, in_crowd=self._in_crowd),
            "state": state.value,
            "sentence": sentence,
            "change": change,
            "refined": refined,
            "people": people,
            "allowed": None if limit is None else limit.allowed(people),
            "most_over": max(risks.over, default=None),
            **{name: getattr(risks, name) for name in ("steps", "guess", "ceiling", "added", "over")},
            "not_reached": max(risks.not_reached),
            "published": sum(each.mechanism.is_released for step in steps for each in step.releases),
            "counts": sum(len(step.releases) for step in self.steps),
            "raw": sum(each.mechanism.is_exact for step in steps for each in step.releases),
            "figures": [each.as_json() for each in view.group("headline")],
            "error": error_in_words(mean_error(steps)),
        }

    def _answer(
        self, choice: PlanChoice, risks: PlannedRisks, people: int, *, refined: bool
    ) -> tuple[MayPublish, str, str]:
        """Yes, no or not shown, a sentence, and what would change it."""
        limit, settings = choice.limit, self._settings
        check = settings.priors_check
        condition = ceiling_condition(check, settings.draws)
        if limit is None:
            said = "No rule is chosen, so neither yes nor no."
            return MayPublish.NO_RULE, said, "Choose a limit and a share."
        if limit.in_hindsight or (check is not None and check.is_too_low and limit.added is not None):
            why = "a limit in hindsight" if limit.in_hindsight else "priors that were refuted"
            said = f"Not shown: what-if does not answer a rule on added risk with {why}."
            return MayPublish.OPEN, said, "Use a rule on the ceiling, or tallyguard plan."
        if self._in_crowd and settings.crowd_adversary.companions:
            said = "Not shown: the rule counts companions with the person, and what-if looks at nobody's."
            return MayPublish.OPEN, said, "tallyguard plan answers in the crowd."
        most, allowed = max(risks.over), limit.allowed(people)
        informed = ", also if the adversary knows where the others are" if self._in_crowd else ""
        at = About.of(settings).times.when(risks.steps[risks.over.index(most)])
        may = f"{allowed:,} of {number_of(people, 'person')} may be over the limit"
        if most <= allowed:
            over = f"at most {most:,} would be, at {at}" if most else "nobody would be at any step"
            said = f"Yes, {condition}{informed}: {may}, and {over}."
            change = (
                f"It would be no from {number_of(allowed + 1, 'person')} on, {allowed + 1 - most:,} more."
            )
            return MayPublish.YES, said, change
        needed = significant(np.ceil(1e4 * most / people) / 1e4, 3)
        if max(risks.by_habits) > allowed:
            said = (
                f"No, because of habits alone: {condition}, "
                f"{number_of(max(risks.by_habits), 'person is', 'people are')} over the limit even if "
                f"nothing is published, and {may}."
            )
            return MayPublish.NO, said, "Publishing less cannot change it. Limit the added risk instead."
        if self._in_crowd:
            said = (
                f"Not shown: {number_of(most, 'person')} would be over the limit at {at} against an "
                f"adversary who knows where the others are, the rule is kept against one who does not; {may}."
            )
            return MayPublish.OPEN, said, "tallyguard plan answers in the crowd; here no crowd is looked at."
        if not refined:
            up_to = number_of(most, "person")
            said = f"Not shown: by the fast bound up to {up_to} would be over it, at {at}; {may}."
            return MayPublish.OPEN, said, "The refined bound may clear some of them."
        said = f"No: even {condition}, {number_of(most, 'person')} would be over the limit at {at}; {may}."
        change = f"More noise, fewer sensors, or a share of {needed} or more would change it."
        return MayPublish.NO, said, change


def _sigma_in_words(sigma: float) -> str:
    return f"{sigma:g}: {error_in_words(public_error(Gaussian(sigma)))}" if sigma else "none: as counted"


def _number(name: str, text: str | None) -> float | None:
    """A number of a query; None for an empty one."""
    if text is None or not text.strip():
        return None
    try:
        found = float(text)
    except ValueError:
        found = float("nan")
    if not np.isfinite(found):
        raise SettingsError(f"{name} must be a number", repr(text[:40]), "write 0.1, for example")
    return found


# The settings of a plan: those of the deployment with what the plan says in place of theirs.


def _settings_text(text: str, choice: PlanChoice, author: Author, number: int) -> str:
    values = parse_toml(text)
    values |= {"horizon": choice.horizon, "mistakes": choice.mistakes}
    release = dict(values.get("release") or {})
    budget = {name: each for name, each in (release.get("budget") or {}).items() if name not in _LEVELS}
    if choice.limit is not None:
        levels = {name: getattr(choice.limit, name) for name in _LEVELS}
        budget |= {name: each for name, each in levels.items() if each is not None}
    if choice.noise != AS_RELEASED:
        for name in ("sigma", "sensors"):
            release.pop(name, None)
        mechanism = choice.mechanism
        release["mechanism"] = BUDGET if mechanism is None else mechanism.name
        if mechanism is not None and mechanism.parameters:
            release |= dict(mechanism.parameters)
    if choice.off:
        silent = {name: {"mechanism": "suppressed"} for name in sorted(choice.off)}
        release["sensors"] = {**(release.get("sensors") or {}), **silent}
    values["release"] = {**release, **({"budget": budget} if budget else {})}
    head = f"# Plan {number}, taken by {author.by} on {datetime.now(UTC):%Y-%m-%d}: {author.reason}\n"
    return head + "\n".join(_toml_lines(values)) + "\n"


_LEVELS = ("risk", "added", "share")


def _toml_lines(table: Mapping[str, Any], above: str = "") -> Iterator[str]:
    inner = {name: value for name, value in table.items() if isinstance(value, Mapping)}
    for name, value in table.items():
        if name not in inner:
            yield f"{_toml_key(name)} = {_toml_value(value)}"
    for name, value in inner.items():
        place = above + _toml_key(name)
        yield from ("", f"[{place}]")
        yield from _toml_lines(value, f"{place}.")


def _toml_key(name: str) -> str:
    is_bare = name.isascii() and name.replace("-", "_").isidentifier()
    return name if is_bare else json.dumps(name, ensure_ascii=False)


def _toml_value(value: Any) -> str:
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Mapping):
        inner = (f"{_toml_key(name)} = {_toml_value(each)}" for name, each in value.items())
        return f"{{ {', '.join(inner)} }}"
    if isinstance(value, list):
        return f"[{', '.join(map(_toml_value, value))}]"
    return json.dumps(value, ensure_ascii=False)

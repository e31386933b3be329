"""How the sensors of a step are released: by the settings, by a schedule file, or under a risk budget."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import NamedTuple, Protocol, TypeAlias

from accounting.decisions import (
    Decision,
    SearchSettings,
    SensorChoice,
    StepDecider,
    WindowsAtHand,
    decide,
)
from accounting.decisions.what_if import AnnouncedStep, KnownStep, WhatIf, crowds_of_sensors
from accounting.exposure.crowd import StepCrowd
from accounting.settings import RiskBudget
from models import mechanisms
from models.exceptions import MechanismError
from models.mechanisms import (
    NO_DESIGNS,
    Correlated,
    CorrelatedSteps,
    Designs,
    Gaussian,
    Mechanism,
    Raw,
    Tiered,
)
from models.releases import (
    OpenWindow,
    Schedule,
    Sensor,
    SensorRegistry,
    SensorRelease,
    StepSchedule,
    counting_in,
    in_single_steps,
    most_counting,
)
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import (
    BUDGET,
    RawWish,
    ReleaseSettings,
    SensorPolicy,
    mechanism_of,
    policy_parameters,
)
from stream_app.wire import DecisionReason, StepDecision, crowds_of, schedule_of

# What every policy answers, and the policy of a schedule file.


class Decided(NamedTuple):
    """A step's schedule, and why it is so where that was found rather than configured.

    ``crowds`` are what each of its counts hides among, where risks in the crowd are accounted.
    ``single_steps`` is the schedule brought to single steps, where sensors have windows.
    """

    schedule: StepSchedule
    why: DecisionReason | None = None
    crowds: StepCrowd | None = None
    single_steps: StepSchedule | None = None

    @property
    def accounted(self) -> StepSchedule:
        """The schedule as accounts know it."""
        return self.schedule if self.single_steps is None else self.single_steps

    @classmethod
    def logged(cls, decision: StepDecision, registry: SensorRegistry, *, has_crowd: bool) -> Decided:
        """A step of the log, at which there were these sensors; its crowds where they are accounted.

        :class:`~models.exceptions.ScheduleError` for a count of a window that is not the one accounted.
        """
        schedule = schedule_of(decision, registry)
        crowds = crowds_of(decision, registry) if has_crowd else None
        return cls(schedule, decision.why, crowds, in_single_steps(schedule, registry))

    @classmethod
    def of(cls, decision: Decision, *, in_crowd: bool) -> Decided:
        """A decision with its reason as a message; ``in_crowd`` by ceilings against the crowd adversary."""
        named = DecisionReason.model_fields.keys() - {"adversary"}
        found = {name: getattr(decision, name) for name in named}
        return cls(decision.schedule, DecisionReason(**found, adversary="crowd" if in_crowd else None))


class Policy(Protocol):
    """Decides how the announced sensors of a step are released.

    ``known`` are the :func:`steps_asked`, with what each count hides among, where that is known: the
    announced counts of presence, then what windows count in the step.
    """

    def decide(self, step: int, sensors: Sequence[str], known: Sequence[KnownStep] = ()) -> Decided:
        """The step's schedule: each sensor once, in the order of announcement."""

    def note(self, step: StepSchedule) -> None:
        """Take note of a decided step, whoever decided it, before the next one is asked for."""


class ScheduledPolicy:
    """A schedule file's mechanisms for the steps it covers, another policy for all others."""

    def __init__(self, schedule: Schedule, otherwise: Policy) -> None:
        self._steps = {step.step: step for step in schedule.steps}
        self.otherwise = otherwise

    def decide(self, step: int, sensors: Sequence[str], known: Sequence[KnownStep] = ()) -> Decided:
        """The step as the file has it."""
        scheduled = self._steps.get(step)
        return self.otherwise.decide(step, sensors, known) if scheduled is None else Decided(scheduled)

    def note(self, step: StepSchedule) -> None:
        """Passed on."""
        self.otherwise.note(step)


def announced_sensors(schedule: Schedule | None) -> dict[int, tuple[str, ...]]:
    """The sensors of each step of a schedule, by name."""
    if schedule is None:
        return {}
    return {step.step: tuple(release.sensor.name for release in step.releases) for step in schedule.steps}


def undecided_step(step: int, sensors: Iterable[str], registry: SensorRegistry) -> StepSchedule:
    """The announced sensors of a step before anything is decided: each as if it were released raw."""
    releases = tuple(map(registry.as_raw, sensors))
    return StepSchedule(step, releases, among=counting_in(step, [each.sensor for each in releases], registry))


def steps_asked(
    policy: Policy, step: int, sensors: Iterable[str], registry: SensorRegistry
) -> tuple[StepSchedule, ...]:
    """The steps whose crowds a decision looks at: this one, and later ones where a budget decides windows."""
    ahead = policy.steps_ahead(step) if isinstance(policy, BudgetPolicy) else ()
    return (undecided_step(step, sensors, registry), *ahead)


# One configured mechanism a sensor, whatever was released before.

StepMechanism: TypeAlias = Mechanism | CorrelatedSteps
"""The same mechanism at every step, or one that knows the step's place in its noise window."""


class FixedPolicy:
    """One mechanism for all sensors, with exceptions by sensor."""

    def __init__(
        self,
        registry: SensorRegistry,
        default: StepMechanism,
        exceptions: Mapping[str, StepMechanism] | None = None,
    ) -> None:
        self._registry = registry
        self._default = default
        self._exceptions = dict(exceptions or {})
        self._releases: dict[str, SensorRelease] = {}  # the last of each sensor

    def decide(self, step: int, sensors: Sequence[str], known: Sequence[KnownStep] = ()) -> Decided:
        """The step with each sensor's configured mechanism."""
        return Decided(StepSchedule(step, tuple(self._release(name, step) for name in sensors)))

    def _release(self, name: str, step: int) -> SensorRelease:
        """The sensor's release in a step; the same object where its mechanism is the same as before."""
        mechanism, known = at_step(self._exceptions.get(name, self._default), step), self._releases.get(name)
        if known is None or known.mechanism is not mechanism:
            known = self._releases[name] = SensorRelease(self._registry.get(name), mechanism)
        return known

    def note(self, step: StepSchedule) -> None:
        """Nothing depends on what was released before."""

    def in_windows(self) -> dict[str, Mechanism]:
        """The mechanism of each sensor with a window, the same at every step."""
        return {
            sensor.name: at_step(self._exceptions.get(sensor.name, self._default), 0)
            for sensor in self._registry.windowed
        }

    def mechanisms(self) -> tuple[StepMechanism, ...]:
        """Every mechanism that may be decided on."""
        return self._default, *self._exceptions.values()


def at_step(mechanism: StepMechanism, step: int) -> Mechanism:
    """The mechanism a sensor has in one step."""
    return mechanism.at_step(step) if isinstance(mechanism, CorrelatedSteps) else mechanism


# Which mechanisms each sensor may be released with under a risk budget, and what each is worth.

_CONTRADICTION = 1e6
"""Error, in people, of silencing a sensor that must be raw: so large that all others are silenced first."""


@dataclass(frozen=True, slots=True)
class SensorWishes:
    """What is wanted of a sensor.

    ``noised`` are the mechanisms other than raw. ``max_sigma`` is the noise at which its count is worthless
    (None: that of the noisiest mechanism). ``weight`` is its importance, ``only`` the one mechanism allowed.
    """

    noised: tuple[Gaussian, ...] = ()
    max_sigma: float | None = None
    raw: RawWish = "allowed"
    weight: float = 1.0
    only: StepMechanism | None = None

    def choice(self, sensor: Sensor, step: int, at_best: Mechanism | None = None) -> SensorChoice:
        """The options in a step; with ``at_best`` (from a schedule) none with a smaller error than that."""
        most = self.max_sigma
        noised = tuple(option for option in self.noised if most is None or option.sigma <= most)
        options = self._options(noised, step)
        if at_best is not None:
            options = _no_better_than(at_best, options)
        return SensorChoice.of(
            sensor, options, weight=self.weight, cost_of_silence=self._cost_of_silence(noised)
        )

    def _options(self, noised: tuple[Gaussian, ...], step: int) -> tuple[Mechanism, ...]:
        if self.only is not None:
            only = at_step(self.only, step)
            return (only,) if only.is_released else ()
        if self.raw == "always":
            return (Raw(),)
        return noised if self.raw == "never" else (Raw(), *noised)

    def _cost_of_silence(self, noised: tuple[Gaussian, ...]) -> float:
        """The expected error at which a count is worth nothing any more."""
        if self.raw == "always" and self.only is None:
            return _CONTRADICTION
        if self.max_sigma is not None:
            return Gaussian(self.max_sigma).expected_absolute_error()
        return max((option.expected_absolute_error() for option in noised), default=1.0)


def _no_better_than(at_best: Mechanism, options: tuple[Mechanism, ...]) -> tuple[Mechanism, ...]:
    """The scheduled mechanism and the options that err more."""
    if not at_best.is_released:
        return ()
    least = at_best.expected_absolute_error()
    return (at_best, *(option for option in options if option.expected_absolute_error() > least))


Settle: TypeAlias = Callable[[StepDecider, Sequence[KnownStep], Sequence[Sequence[Sensor]]], Decided]
"""Asks accounts the questions of a decider: of a step, with the crowds that are known and what comes."""


def settled(
    what_if: WhatIf, decider: StepDecider, known: Sequence[KnownStep], coming: Sequence[Sequence[Sensor]]
) -> Decided:
    """The decision where all people are at hand."""
    sensors = [choice.sensor for choice in decider.choices]
    open_windows = () if decider.windows is None else decider.windows.open
    crowds = crowds_of_sensors(sensors, known[0].crowds if known else None)
    announced = AnnouncedStep(sensors, crowds, coming, open_windows, known)
    decision = decide(decider, what_if.next_step(announced).count_over)
    return Decided.of(decision, in_crowd=what_if.crowd is not None)


MOST_SUMS_AHEAD = 1024
"""Of later steps, so that partitions' answers fit in a record: 300 bytes each."""


class BudgetPolicy:
    """Asks the accounts what each way of releasing a step would do to people, and takes the best one allowed.

    :meth:`bind` says how they are asked: :func:`settled` in one process, by proposals where they are in
    others (:mod:`stream_app.steps.policy.proposals`).
    """

    def __init__(
        self,
        registry: SensorRegistry,
        wishes: SensorWishes,
        exceptions: Mapping[str, SensorWishes],
        limit: RiskBudget,
        search: SearchSettings | None = None,
        announced: Mapping[int, tuple[str, ...]] | None = None,
        look_ahead: int = 0,
    ) -> None:
        """``wishes`` hold for every sensor without ``exceptions`` of its own.

        What is left of the budget is shared with the next ``look_ahead`` steps that are ``announced``.
        """
        self.limit = limit
        self._registry = registry
        self._wishes, self._exceptions = wishes, exceptions
        self._search = search or SearchSettings()
        self._announced = dict(announced or {})
        self._look_ahead = look_ahead
        self._wished: dict[int, StepSchedule] = {}
        self._settle: Settle | None = None
        self._people: int | None = None
        self._in_crowd = False
        self._open: tuple[OpenWindow, ...] = ()

    def follow(self, schedule: Schedule) -> None:
        """Take a schedule's mechanisms as the best that its sensors may be released with."""
        self._wished = {step.step: step for step in schedule.steps}
        self._announced = announced_sensors(schedule)

    def bind(self, settle: Settle, people: int | None = None, *, in_crowd: bool = False) -> None:
        """Decide by asking these accounts; of so many ``people``, if that is known before they answer.

        ``in_crowd`` says whether they answer by ceilings against the crowd adversary.
        """
        self._settle, self._people, self._in_crowd = settle, people, in_crowd

    def decider(self, step: int, sensors: Sequence[str]) -> StepDecider:
        """The questions to ask about a step."""
        announced = [self._registry.get(name) for name in sensors]
        counted = [(sensor, step) for sensor in announced if sensor.window is None]
        counted += self._windows_begun_in(step)
        wishes = {sensor.name: self._exceptions.get(sensor.name, self._wishes) for sensor, _ in counted}
        choices = [
            wishes[sensor.name].choice(sensor, published, self._at_best(sensor, published))
            for sensor, published in counted
        ]
        must_be_raw = frozenset(name for name, wish in wishes.items() if wish.raw == "always")
        windows = WindowsAtHand.after(self._open, step, announced) if self._registry.windowed else None
        return StepDecider(step, choices, self.limit, self._search, must_be_raw, self._people, windows)

    def choices_of_all(self) -> list[SensorChoice]:
        """The choices of every sensor in one step, without a schedule."""
        wishes = ((each, self._exceptions.get(each.name, self._wishes)) for each in self._registry.sensors)
        return [wish.choice(sensor, 0) for sensor, wish in wishes]

    def _at_best(self, sensor: Sensor, step: int) -> Mechanism | None:
        """The schedule's mechanism of a count that is published with this step; None without one."""
        wished = self._wished.get(step)
        releases = () if wished is None else wished.releases
        return next((each.mechanism for each in releases if each.sensor.name == sensor.name), None)

    def _windows_begun_in(self, step: int) -> list[tuple[Sensor, int]]:
        """The sensors with a window that is accounted from this step on, and the last step of it.

        Where the steps to come are known, those that will not be published are left out.
        """
        found = []
        known_until = max(self._announced, default=-1)
        for sensor in self._registry.windowed:
            last = None if sensor.window is None else sensor.window.begun_in(step)
            if last is None:
                continue
            if last > known_until or sensor.name in self._announced.get(last, ()):
                found.append((sensor, last))
        return found

    def note(self, step: StepSchedule) -> None:
        """Take note of the windows that are open after a step; of a removed sensor none is published."""
        windows = step.windows or ()
        self._open = tuple(each for each in windows if each.release.sensor.name in self._registry)

    def coming(self, step: int) -> tuple[tuple[Sensor, ...], ...]:
        """The announced sensors of each later step that shares what is left of the budget."""
        found = []
        for later in range(step + 1, step + 1 + self._look_ahead):
            announced = map(self._registry.get, self._announced.get(later, ()))
            plain = (each for each in announced if each.window is None)
            found.append((*plain, *(sensor for sensor, _ in self._windows_begun_in(later))))
        return tuple(found)

    def steps_ahead(self, step: int) -> tuple[StepSchedule, ...]:
        """The later steps of the windows that are decided in the crowd, as far as what counts is known.

        All of it where every sensor has a window, else that of the steps that are announced. As many steps
        as :data:`MOST_SUMS_AHEAD` allow; in hindsight none, as a window counts whole then.
        """
        if not self._in_crowd or self.limit.in_hindsight or not self._registry.windowed:
            return ()
        ends = [each.last for each in self._open] + [last for _, last in self._windows_begun_in(step)]
        most = step + MOST_SUMS_AHEAD // most_counting(self._registry)
        is_known = len(self._registry.windowed) == len(self._registry.sensors)
        found = []
        for later in range(step + 1, min(max(ends, default=step), most) + 1):
            if not is_known and later not in self._announced:
                break
            names = self._announced.get(later, ())
            plain = (name for name in names if self._registry.get(name).window is None)
            found.append(undecided_step(later, plain, self._registry))
        return tuple(found)

    def decide(self, step: int, sensors: Sequence[str], known: Sequence[KnownStep] = ()) -> Decided:
        """The decision of the accounts; :class:`SettingsError` if there are none bound."""
        if self._settle is None:
            raise SettingsError(
                "a risk budget must know whose risk it limits",
                "no accounts",
                "bind the policy to people's accounts",
            )
        return self._settle(self.decider(step, sensors), known, self.coming(step))

    def mechanisms(self) -> tuple[StepMechanism, ...]:
        """Every mechanism other than noise and raw that may be decided on."""
        wishes = (self._wishes, *self._exceptions.values())
        return tuple(wish.only for wish in wishes if wish.only is not None)


def policy_from(
    settings: ReleaseSettings,
    registry: SensorRegistry,
    announced: Mapping[int, tuple[str, ...]] | None = None,
) -> FixedPolicy | BudgetPolicy:
    """The policy of the settings; :class:`SettingsError` for unknown sensors, mechanisms and parameters.

    ``announced`` are the sensors of the steps known beforehand, for a policy that looks ahead.
    """
    designs = designs_of(settings)
    for name in settings.sensors:
        registry.get(name)
    if settings.mechanism == BUDGET:
        return _budget_policy(settings, registry, designs, announced or {})
    exceptions = {
        name: _mechanism(f"release.sensors.{name}", exception, settings, designs)
        for name, exception in settings.sensors.items()
    }
    default = _mechanism("release", settings, settings, designs)
    return FixedPolicy(registry, default, exceptions)


def _budget_policy(
    settings: ReleaseSettings,
    registry: SensorRegistry,
    designs: Designs,
    announced: Mapping[int, tuple[str, ...]],
) -> BudgetPolicy:
    budget = settings.budget
    limit = budget.limit
    if limit is None:
        raise SettingsError(
            "release.budget must limit risk or added risk",
            "neither",
            "set release.budget.risk or release.budget.added",
        )
    exceptions = {
        name: _wishes(f"release.sensors.{name}", exception, settings, designs)
        for name, exception in settings.sensors.items()
    }
    default = _wishes("release.budget", SensorPolicy(), settings, designs)
    search = SearchSettings(budget.exact_up_to, budget.rounds, budget.most_sensors)
    return BudgetPolicy(registry, default, exceptions, limit, search, announced, budget.look_ahead)


def _wishes(where: str, policy: SensorPolicy, settings: ReleaseSettings, designs: Designs) -> SensorWishes:
    """What a section says of its sensors; a mechanism of its own is the only one they are released with."""
    budget = settings.budget
    sigmas = budget.sigmas if policy.sigmas is None else policy.sigmas
    own = None
    if mechanism_of(policy, settings) != BUDGET:
        own = _mechanism(where, policy, settings, designs)
    with _named_by(f"{where}.sigmas"):
        noised = tuple(map(Gaussian, sigmas))
    return SensorWishes(
        noised=noised,
        max_sigma=budget.max_sigma if policy.max_sigma is None else policy.max_sigma,
        raw=budget.raw if policy.raw is None else policy.raw,
        weight=policy.weight,
        only=own,
    )


@contextmanager
def _named_by(where: str) -> Iterator[None]:
    """Say which key of the settings names a mechanism that there is not."""
    try:
        yield
    except MechanismError as error:
        raise SettingsError(f"{where}: {error.must}", error.got, error.remedy) from error


def designs_of(settings: ReleaseSettings) -> Designs:
    """The deployment's noise design, which a schedule or log may name; :class:`SettingsError` for none."""
    with _named_by("release.covariance"):
        return NO_DESIGNS if settings.covariance is None else Designs.load([settings.covariance])


def _mechanism(
    where: str, policy: ReleaseSettings | SensorPolicy, release: ReleaseSettings, designs: Designs
) -> StepMechanism:
    """The mechanism a section of the settings names; tiers and covariance are the deployment's."""
    name, parameters = policy_parameters(policy, release)
    with _named_by(where):
        if name == Correlated.name and designs.noises and not parameters:
            return CorrelatedSteps(designs.noises[0])
        if name == Tiered.name and not parameters:
            return Tiered(tuple(release.tiers.items()))
        return mechanisms.parse(name, parameters, designs)

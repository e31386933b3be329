"""From the settings to a policy; everything that is wrong with them is said with its place."""

from __future__ import annotations

from collections.abc import Mapping

from accounting.decisions import SearchSettings
from models import mechanisms
from models.exceptions import MechanismError
from models.mechanisms import (
    NO_DESIGNS,
    Correlated,
    CorrelatedSteps,
    Designs,
    DrawnPerWindow,
    Gaussian,
    PublishesTiers,
    Tiered,
)
from models.releases import Sensor, SensorRegistry, SensorRelease
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import (
    BUDGET,
    BudgetSettings,
    ReleaseSettings,
    SensorPolicy,
    mechanism_of,
    policy_parameters,
)
from stream_app.steps.policy.budget import (
    BudgetPolicy,
    FixedPolicy,
    Menu,
    SensorWishes,
    StepMechanism,
    at_step,
)


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
    for sensor in registry.sensors:
        _check_accounted(sensor, exceptions.get(sensor.name, default))
    return FixedPolicy(registry, default, exceptions)


def _budget_policy(
    settings: ReleaseSettings,
    registry: SensorRegistry,
    designs: Designs,
    announced: Mapping[int, tuple[str, ...]],
) -> BudgetPolicy:
    budget = settings.budget
    limit = budget.limit
    registry.refuse_windows(
        "a risk budget",
        "these are accounted before their windows end, with a mechanism fixed beforehand: set raw, gaussian "
        "or suppressed, and see with tallyguard plan what that means",
    )
    if limit is None:
        raise SettingsError(
            "release.budget must limit risk or added risk",
            "neither",
            "set release.budget.risk or release.budget.added",
        )
    wishes = {
        name: _wishes(name, exception, settings, designs) for name, exception in settings.sensors.items()
    }
    for name, wish in wishes.items():
        if wish.only is not None:
            _check_accounted(registry.get(name), wish.only)
    return BudgetPolicy(
        registry,
        Menu(_standard_wishes(budget), wishes),
        limit,
        SearchSettings(budget.exact_up_to, budget.rounds, budget.most_sensors),
        announced,
        budget.look_ahead,
    )


def _check_accounted(sensor: Sensor, mechanism: StepMechanism) -> None:
    """:class:`SettingsError` for a mechanism without an account of what the sensor declares."""
    own = at_step(mechanism, 0)
    if sensor.window is not None and isinstance(own, DrawnPerWindow | PublishesTiers):
        raise SettingsError(
            f"release.sensors.{sensor.name} must be raw, gaussian or suppressed, having a window or moves",
            own.name,
            "noise that several values share is accounted for presence in single steps",
        )
    try:
        _ = SensorRelease(sensor, own).charged
    except MechanismError as error:
        where = f"release.sensors.{sensor.name}"
        raise SettingsError(f"{where}: {error.must}", error.got, error.remedy) from error


def _standard_wishes(budget: BudgetSettings) -> SensorWishes:
    """What is wanted of a sensor without settings of its own."""
    return SensorWishes(
        noised=tuple(_gaussian("release.budget.sigmas", sigma) for sigma in budget.sigmas),
        max_sigma=budget.max_sigma,
        raw=budget.raw,
    )


def _wishes(name: str, policy: SensorPolicy, settings: ReleaseSettings, designs: Designs) -> SensorWishes:
    """What is wanted of one sensor; a mechanism of its own is the only one it is released with."""
    budget, where = settings.budget, f"release.sensors.{name}"
    sigmas = budget.sigmas if policy.sigmas is None else policy.sigmas
    own = None
    if mechanism_of(policy, settings) != BUDGET:
        own = _mechanism(where, policy, settings, designs)
    return SensorWishes(
        noised=tuple(_gaussian(f"{where}.sigmas", sigma) for sigma in sigmas),
        max_sigma=budget.max_sigma if policy.max_sigma is None else policy.max_sigma,
        raw=budget.raw if policy.raw is None else policy.raw,
        weight=policy.weight,
        only=own,
    )


def _gaussian(where: str, sigma: float) -> Gaussian:
    try:
        return Gaussian(sigma)
    except MechanismError as error:
        raise SettingsError(f"{where}: {error.must}", error.got, error.remedy) from error


def designs_of(settings: ReleaseSettings) -> Designs:
    """The deployment's noise design, which a schedule or log may name; :class:`SettingsError` for none."""
    try:
        return NO_DESIGNS if settings.covariance is None else Designs.load([settings.covariance])
    except MechanismError as error:
        raise SettingsError(f"release.covariance: {error.must}", error.got, error.remedy) from error


def _mechanism(
    where: str, policy: ReleaseSettings | SensorPolicy, release: ReleaseSettings, designs: Designs
) -> StepMechanism:
    """The mechanism a section of the settings names; tiers and covariance are the deployment's."""
    name, parameters = policy_parameters(policy, release)
    try:
        if name == Correlated.name and designs.noises and not parameters:
            return CorrelatedSteps(designs.noises[0])
        if name == Tiered.name and not parameters:
            return Tiered(tuple(release.tiers.items()))
        return mechanisms.parse(name, parameters, designs)
    except MechanismError as error:
        raise SettingsError(f"{where}: {error.must}", error.got, error.remedy) from error

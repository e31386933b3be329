"""Settings of the release policy: how counts are released, under which risk budget, against whom."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError, model_validator

from accounting.settings import RiskBudget
from models.releases import (
    Level,
    TierAssignment,
    TrustGraph,
    assign_tiers,
    exponential_level,
    reciprocal_level,
    stepwise_level,
)
from models.text import DocumentError, parse_toml
from stream_app.exceptions import SettingsError
from stream_app.setup.option_settings import OPTION_SETTINGS
from stream_app.setup.sections import DAY_SECONDS, NumberList, Section, steps_between

if TYPE_CHECKING:
    from accounting.exposure.crowd import CrowdAdversary, Strangers


# Recipients files: who gets counts, how near they are to their owner, and so which tier each is given.
#
# TOML, e.g.::
#
#     owner = "city"
#     distance = "shortest-path"                  # or "resistance": several ways count as nearer
#     epsilon = { reciprocal = 1.0 }              # 1.0 / distance; or exponential, or steps
#     allowed = { public = 0.2, press = 0.5, partner = 1.0 }
#     edges = [["city", "transit"], ["transit", "press", 2.0]]      # the length is 1 if not given
#
# Everybody is rounded down to an allowed tier. No count is looked at.

Edge = tuple[str, str] | tuple[str, str, float]
Positive = Annotated[float, Field(gt=0)]


class _Exponential(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    at_zero: Positive
    length: Positive


class _Epsilon(BaseModel):
    """A falling function of the distance; exactly one is given."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    reciprocal: Positive | None = None
    exponential: _Exponential | None = None
    steps: tuple[tuple[float, float], ...] | None = None

    def level(self) -> Level | None:
        """The function; None unless there is exactly one."""
        given: list[Level] = []
        if self.reciprocal is not None:
            given.append(reciprocal_level(self.reciprocal))
        if self.exponential is not None:
            given.append(exponential_level(self.exponential.at_zero, self.exponential.length))
        if self.steps is not None:
            given.append(stepwise_level(self.steps))
        return given[0] if len(given) == 1 else None


class _RecipientsFile(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    owner: str
    distance: Literal["shortest-path", "resistance"] = "shortest-path"
    epsilon: _Epsilon
    allowed: Mapping[str, Positive] = Field(min_length=1)
    edges: tuple[Edge, ...] = Field(min_length=1)


def load_recipients(path: Path) -> TierAssignment:
    """The tiers of a recipients file, and each recipient's; None for who is too far away for any.

    :class:`SettingsError` for a file that cannot be read as one,
    :class:`~models.exceptions.MechanismError` for a graph or function that cannot be.
    """
    file = _read(path)
    level = file.epsilon.level()
    if level is None:
        raise SettingsError(
            f"epsilon in {path} must be one function of the distance",
            sorted(file.epsilon.model_fields_set),
            "give reciprocal, exponential or steps",
        )
    lengths = {(edge[0], edge[1]): edge[2] if len(edge) == 3 else 1.0 for edge in file.edges}
    members = dict.fromkeys([file.owner, *(name for pair in lengths for name in pair)])
    distances = TrustGraph(tuple(members), lengths).distances(file.owner, file.distance)
    del distances[file.owner]  # the owner has the counts themselves
    ranked = sorted(file.allowed.items(), key=lambda tier: tier[1])
    return assign_tiers(distances, level, dict(ranked).values(), [name for name, _ in ranked])


def _read(path: Path) -> _RecipientsFile:
    try:
        return _RecipientsFile.model_validate(parse_toml(path.read_text(encoding="utf-8-sig")))
    except (OSError, UnicodeDecodeError, DocumentError) as error:
        raise SettingsError(f"recipients file {path} must be readable TOML", error, "correct it") from error
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"]))
        raise SettingsError(
            f"recipients file {path} must have owner, epsilon, allowed and edges as documented",
            f"{place}: {first['msg']}",
            "see docs/how-to/publish-in-tiers.md",
        ) from error


BUDGET = "budget"
"""The release mechanism of a deployment whose mechanisms are decided step by step."""

RawWish = Literal["allowed", "always", "never"]


def _mechanism_name(name: str | None) -> str | None:
    """A mechanism there is; ``ValueError`` with the closest one otherwise."""
    from models.mechanisms import MECHANISMS

    known = (*MECHANISMS, BUDGET)
    if name is None or name in known:
        return name
    close = get_close_matches(name, known, n=1)
    hint = f"; did you mean {close[0]!r}?" if close else ""
    raise ValueError(f"{name!r}, which is none of {', '.join(known)}{hint}")


MechanismName = Annotated[str, AfterValidator(_mechanism_name)]


class SensorPolicy(Section):
    """How one sensor's counts are released."""

    mechanism: MechanismName | None = None
    """how it is released: raw, gaussian, suppressed, ...; none = gaussian, or decided"""
    sigma: float | None = None
    """standard deviation of the gaussian mechanism, in people"""
    parameters: dict[str, float] = Field(default_factory=dict)
    """parameters of a mechanism that has no setting of its own for them"""
    sigmas: NumberList | None = None
    """noises to choose from under a budget"""
    max_sigma: float | None = Field(default=None, gt=0)
    """noise beyond which nothing is better"""
    raw: RawWish | None = None
    """under a budget: allowed, always or never"""
    weight: float = Field(default=1.0, gt=0)
    """importance under a budget, beside other sensors"""


class BudgetSettings(Section):
    """A risk budget, for `release.mechanism = "budget"`."""

    share: float = OPTION_SETTINGS["release.budget.share"].field()
    risk: float | None = OPTION_SETTINGS["release.budget.risk"].field()
    added: float | None = OPTION_SETTINGS["release.budget.added"].field()
    habits: Literal["count", "apart"] = "count"
    """people over the limit by habit alone: count, or apart = only if releases add to it"""
    hindsight: bool = False
    """also limit the risk of past steps, given everything released since"""
    reserve: float = Field(default=0.5, gt=0, lt=1)
    """with hindsight: share of each limit kept for later releases"""
    sigmas: NumberList = (0.5, 1.0, 2.0, 4.0, 8.0)
    """noises to choose from, in people, beside raw and nothing"""
    max_sigma: float | None = Field(default=None, gt=0)
    """noise beyond which nothing is better; none = the largest of the sigmas"""
    raw: RawWish = "allowed"
    """may counts be raw: allowed, always or never"""
    look_ahead: int = OPTION_SETTINGS["release.budget.look_ahead"].field()
    most_sensors: int | None = Field(default=None, ge=1)
    """release at most this many sensors in a step; none = all"""
    exact_up_to: int = Field(default=64, ge=1, le=4096)
    """try every way to release a step if there are at most this many"""
    rounds: int = Field(default=6, ge=1, le=100)
    """rounds of improvement if there are more"""

    @property
    def limit(self) -> RiskBudget | None:
        """The limit that is set; None where neither risk nor added risk is limited."""
        if self.risk is None and self.added is None:
            return None
        return RiskBudget(
            share=self.share,
            risk=self.risk,
            added=self.added,
            habits_apart=self.habits == "apart",
            in_hindsight=self.hindsight,
            reserve=self.reserve,
        )


class ReleaseSettings(Section):
    """How counts are released where a schedule file does not say it."""

    mechanism: MechanismName = "gaussian"
    """raw, gaussian, suppressed, tiered, correlated, ...; budget = as release.budget decides"""
    sigma: float | None = None
    """standard deviation of the gaussian mechanism, in people; 1 if not given"""
    parameters: dict[str, float] = Field(default_factory=dict)
    """parameters of a mechanism that has no setting of its own for them"""
    tiers: dict[str, float] = Field(default_factory=dict)
    """epsilon of each tier of recipients, for tiered releases; one output file each"""
    recipients: Path | None = None
    """file of recipients (TOML): how near each is to the owner decides its tier"""
    new_tiers_from: int = Field(default=0, ge=0)
    """first step whose values a tier added later receives"""
    covariance: Path | None = None
    """covariance of correlated releases (.npy), one row a step of the noise window"""
    clamp_negative: bool = False
    """publish 0 where noise made a count negative"""
    budget: BudgetSettings = BudgetSettings()
    """risk budget"""
    sensors: dict[str, SensorPolicy] = Field(default_factory=dict)
    """exceptions by sensor name: mechanism and sigma; under a budget also sigmas, max_sigma, raw and
    weight"""

    @model_validator(mode="after")
    def _tiers_in_order(self) -> ReleaseSettings:
        """Tiers in the mechanism's order, however they are written: least informed first."""
        if self.recipients is not None:
            tiers = dict(load_recipients(self.recipients).tiers)
            if self.tiers not in ({}, tiers):
                raise ValueError("tiers come from release.recipients; give one of the two")
            object.__setattr__(self, "tiers", tiers)
        object.__setattr__(self, "tiers", dict(sorted(self.tiers.items(), key=lambda tier: tier[1])))
        return self


AdversaryName = Literal["informed", "crowd"]
INFORMED: AdversaryName = "informed"
CROWD: AdversaryName = "crowd"


class StrangersSettings(Section):
    """A lower bound on people without a prior who may or may not be counted at a sensor, at an hour."""

    sensor: str
    """name of the sensor that may count them, or not"""
    from_hour: float = Field(ge=0, lt=24)
    """from when, in hours of the day that begins with slot 0; first_slot says where step 0 is"""
    until_hour: float = Field(gt=0, le=24)
    """until when; steps that lie between the two hours on every day are meant"""
    people: int = Field(ge=0, le=10_000_000)
    """how many they are at the least in each of these steps, chosen without regard to where they went; they
    have no prior, are those of no other sensor, and move alone, in the share crowd.alone"""
    least_chance: float = Field(ge=0, le=1)
    """least chance that such a person, if at no other sensor, is counted here, whatever is known of where
    they are before and after"""
    most_chance: float = Field(ge=0, le=1)
    """largest such chance; people who surely pass (1) hide nobody, as those who never do"""

    def in_steps(self, step_seconds: int) -> Strangers:
        """As accounts take them; :class:`SettingsError` where no whole step lies between the hours."""
        from accounting.exposure.crowd import Strangers

        cycle = DAY_SECONDS // step_seconds
        if cycle * step_seconds != DAY_SECONDS:
            raise SettingsError(
                "step_seconds must divide a day of 86400 seconds where strangers come at hours of it",
                step_seconds,
                "take steps of 1 hour or 15 minutes, or leave crowd.strangers out",
            )
        steps = steps_between(self.from_hour, self.until_hour, step_seconds)
        if not steps:
            raise SettingsError(
                f"a whole step of {step_seconds} seconds must lie between from_hour and until_hour of "
                f"strangers at {self.sensor!r}",
                f"{self.from_hour:g} to {self.until_hour:g}",
                "give the hours in which they are there in every step",
            )
        chances = self.least_chance, self.most_chance
        first, until = steps.start % cycle, steps.stop % cycle or cycle
        return Strangers(self.sensor, first, until, cycle, self.people, *chances)


class CrowdSettings(Section):
    """What an adversary knows who does not know where everybody else is."""

    on: bool = False
    """compute every ceiling against an adversary, too, who does not know where everybody else is; holds if
    others move as their priors say, each alone; adversary = crowd does so anyway"""
    known: int = OPTION_SETTINGS["crowd.known"].field()
    companions: int = OPTION_SETTINGS["crowd.companions"].field()
    alone: float = OPTION_SETTINGS["crowd.alone"].field()
    least: float = OPTION_SETTINGS["crowd.least"].field()
    counted_once: float = OPTION_SETTINGS["crowd.counted_once"].field()
    strangers: dict[str, StrangersSettings] = Field(default_factory=dict)
    """people without a prior who hide others, each line under a name of your choice: at least so many who may
    or may not be counted at a sensor, at hours of the day"""

    def adversary(self, step_seconds: int) -> CrowdAdversary:
        """As the accounts take it; :class:`SettingsError` for strangers that fit no step."""
        from accounting.exposure.crowd import CrowdAdversary

        strangers = tuple(each.in_steps(step_seconds) for _, each in sorted(self.strangers.items()))
        given = self.known, self.companions, self.alone, self.least
        return CrowdAdversary(*given, strangers, self.counted_once)

    def facts(self) -> dict[str, Any]:
        """What a run or deployment is recorded with; what earlier ones lacked is left out if not set."""
        found = self.model_dump(mode="json", exclude={"on"})
        usual = {"least": 1.0, "strangers": {}, "counted_once": 0.0}
        return {name: value for name, value in found.items() if value != usual.get(name)}


def mechanism_of(policy: ReleaseSettings | SensorPolicy, release: ReleaseSettings) -> str:
    """The mechanism's name; a sensor that does not say it is decided under a budget where there is one."""
    if policy.mechanism is not None:
        return policy.mechanism
    return BUDGET if release.mechanism == BUDGET and policy.sigma is None else "gaussian"


def policy_parameters(
    policy: ReleaseSettings | SensorPolicy, release: ReleaseSettings
) -> tuple[str, Mapping[str, float]]:
    """Mechanism name and parameters of a policy; sigma is 1 where a gaussian does not say."""
    name, sigma = mechanism_of(policy, release), policy.sigma
    if sigma is None and name == "gaussian":
        sigma = policy.parameters.get("sigma", 1.0)
    return name, policy.parameters if sigma is None else {**policy.parameters, "sigma": sigma}

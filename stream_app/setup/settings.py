"""Settings of a deployment: TOML file, then environment, then flags, each overriding the one before.

Every setting has an environment name, ``TALLYGUARD_`` and its own in capitals, ``__`` between the levels:
``TALLYGUARD_RELEASE__SIGMA=2``. Unknown keys and unknown ``TALLYGUARD_`` variables are errors.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from accounting.settings import HORIZON, MISTAKES, HorizonSettings, RiskBudget

ENVIRONMENT_PREFIX = "TALLYGUARD_"
BUDGET = "budget"
"""The release mechanism of a deployment whose mechanisms are decided step by step."""

RawWish = Literal["allowed", "always", "never"]


def _split(value: object) -> object:
    """A comma-separated text, as the environment gives it, as a list."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.strip("[] ").split(",") if part.strip()]


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
NameList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
NumberList = Annotated[tuple[float, ...], NoDecode, BeforeValidator(_split)]


class _Section(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


def _take_secret(section: BaseModel, name: str) -> None:
    """Fill a secret from the file named beside it; ``ValueError`` for both or an unreadable file."""
    path: Path | None = getattr(section, f"{name}_file")
    if path is None:
        return
    if getattr(section, name) is not None:
        raise ValueError(f"{name} must come from one place, got a file and a secret; drop one of the two")
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"{name}_file must be a readable text file, got {path}; check the path") from None
    object.__setattr__(section, name, SecretStr(secret))


class SensorPolicy(_Section):
    """How one sensor's counts are released."""

    mechanism: MechanismName | None = Field(
        default=None,
        description="how it is released: raw, gaussian, suppressed, ...; none = gaussian, or decided",
    )
    sigma: float | None = Field(
        default=None, description="standard deviation of the gaussian mechanism, in people"
    )
    parameters: dict[str, float] = Field(
        default_factory=dict, description="parameters of a mechanism that has no setting of its own for them"
    )
    sigmas: NumberList | None = Field(default=None, description="noises to choose from under a budget")
    max_sigma: float | None = Field(default=None, gt=0, description="noise beyond which nothing is better")
    raw: RawWish | None = Field(default=None, description="under a budget: allowed, always or never")
    weight: float = Field(default=1.0, gt=0, description="importance under a budget, beside other sensors")


class BudgetSettings(_Section):
    """A risk budget, for `release.mechanism = "budget"`."""

    share: float = Field(default=0.0, ge=0, le=1, description="share of people who may be over the limit")
    risk: float | None = Field(
        default=None,
        gt=0,
        le=1,
        description="limit of the ceiling: chance of being traced through the horizon",
    )
    added: float | None = Field(
        default=None, ge=0, le=1, description="limit of added risk: how much releases may raise that chance"
    )
    habits: Literal["count", "apart"] = Field(
        default="count",
        description="people over the limit by habit alone: count, or apart = only if releases add to it",
    )
    hindsight: bool = Field(
        default=False, description="also limit the risk of past steps, given everything released since"
    )
    reserve: float = Field(
        default=0.5, gt=0, lt=1, description="with hindsight: share of each limit kept for later releases"
    )
    sigmas: NumberList = Field(
        default=(0.5, 1.0, 2.0, 4.0, 8.0),
        description="noises to choose from, in people, beside raw and nothing",
    )
    max_sigma: float | None = Field(
        default=None,
        gt=0,
        description="noise beyond which nothing is better; none = the largest of the sigmas",
    )
    raw: RawWish = Field(default="allowed", description="may counts be raw: allowed, always or never")
    look_ahead: int = Field(
        default=0,
        ge=0,
        le=10_000,
        description="announced steps to save some of the budget for; 0 = first come, first served",
    )
    most_sensors: int | None = Field(
        default=None, ge=1, description="release at most this many sensors in a step; none = all"
    )
    exact_up_to: int = Field(
        default=64,
        ge=1,
        le=4096,
        description="try every way to release a step if there are at most this many",
    )
    rounds: int = Field(default=6, ge=1, le=100, description="rounds of improvement if there are more")
    dear: int = Field(
        default=500,
        ge=0,
        description="evaluations of the slower, tighter bound in a step, where the accounts use it",
    )

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


class ReleaseSettings(_Section):
    """How counts are released where a schedule file does not say it."""

    mechanism: MechanismName = Field(
        default="gaussian",
        description="raw, gaussian, suppressed, tiered, correlated, ...; budget = as release.budget decides",
    )
    sigma: float | None = Field(
        default=None, description="standard deviation of the gaussian mechanism, in people; 1 if not given"
    )
    parameters: dict[str, float] = Field(
        default_factory=dict, description="parameters of a mechanism that has no setting of its own for them"
    )
    tiers: dict[str, float] = Field(
        default_factory=dict,
        description="epsilon of each tier of recipients, for tiered releases; one output file each",
    )
    recipients: Path | None = Field(
        default=None,
        description="file of recipients (TOML): how near each is to the owner decides its tier",
    )
    new_tiers_from: int = Field(
        default=0,
        ge=0,
        description="first step whose values a tier added later receives",
    )
    covariance: Path | None = Field(
        default=None,
        description="covariance of correlated releases (.npy), one row a step of the noise window",
    )
    clamp_negative: bool = Field(default=False, description="publish 0 where noise made a count negative")
    budget: BudgetSettings = Field(default=BudgetSettings(), description="risk budget")
    sensors: dict[str, SensorPolicy] = Field(
        default_factory=dict,
        description="exceptions by sensor name: mechanism and sigma; under a budget also "
        "sigmas, max_sigma, raw and weight",
    )

    @model_validator(mode="after")
    def _tiers_in_order(self) -> ReleaseSettings:
        """Tiers in the mechanism's order, however they are written: least informed first."""
        if self.recipients is not None:
            from stream_app.setup.recipients import load_recipients

            tiers = dict(load_recipients(self.recipients).tiers)
            if self.tiers not in ({}, tiers):
                raise ValueError("tiers come from release.recipients; give one of the two")
            object.__setattr__(self, "tiers", tiers)
        object.__setattr__(self, "tiers", dict(sorted(self.tiers.items(), key=lambda tier: tier[1])))
        return self


class KafkaSettings(_Section):
    """Where the broker is and how to speak to it."""

    servers: NameList = Field(default=(), description="bootstrap servers, host:port")
    prefix: str = Field(default="", description="put before every topic name, group and transaction id")
    partitions: int = Field(
        default=4,
        ge=1,
        le=10_000,
        description="parts the people are split into; more account workers than that stand by",
    )
    replication: int = Field(
        default=1, ge=1, description="copies of every topic; 3 where nothing may be lost"
    )
    session_seconds: float = Field(
        default=10.0, ge=1.0, le=300.0, description="silence after which a worker counts as dead"
    )
    stall_seconds: float = Field(
        default=60.0,
        ge=1.0,
        description="a worker that has work and makes no progress for this long ends itself",
    )
    answer_seconds: float = Field(
        default=1.0, gt=0.0, description="wait for the account workers' answers; then a step is suppressed"
    )
    security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = Field(
        default="PLAINTEXT", description="security protocol"
    )
    ca_file: Path | None = Field(default=None, description="certificate authority of the broker (PEM)")
    certificate_file: Path | None = Field(
        default=None, description="own certificate with its key (PEM), where the broker asks clients for one"
    )
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = Field(
        default="SCRAM-SHA-512", description="SASL mechanism"
    )
    username: str | None = Field(default=None, description="SASL user")
    password: SecretStr | None = Field(default=None, description="SASL password; not in the settings file")
    password_file: Path | None = Field(default=None, description="file with the SASL password")

    @model_validator(mode="after")
    def _has_credentials(self) -> KafkaSettings:
        _take_secret(self, "password")
        if self.security.startswith("SASL") and (self.username is None or self.password is None):
            raise ValueError(f"kafka.security {self.security} needs kafka.username and kafka.password")
        return self


LogLevel = Literal["debug", "info", "warning", "error", "critical"]


class LogSettings(_Section):
    """What is said on stderr."""

    level: LogLevel = Field(
        default="info",
        description="least severe message that is logged: debug, info, warning, error or critical",
    )
    libraries: LogLevel = Field(
        default="critical",
        description="the same for libraries (Kafka, Faust, aiohttp); debug may show whole messages",
    )
    format: Literal["text", "json"] = Field(
        default="text", description="text, or json: one object a line with timestamp, level, logger and event"
    )


class Settings(BaseSettings):
    """Everything a deployment can set. Load with :func:`stream_app.setup.settings_sources.load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX, env_nested_delimiter="__", extra="forbid", frozen=True
    )

    deployment: str = Field(
        default="default", min_length=1, description="name of the deployment, part of every noise message"
    )
    step_seconds: int = Field(default=3600, ge=1, description="length of a step")
    origin: datetime = Field(
        default=datetime(1970, 1, 1, tzinfo=UTC),
        description="start of step 0, with time zone or as unix seconds",
    )
    first_slot: int = Field(default=0, ge=0, description="slot of step 0 in the cycle of the priors")
    grace: int = Field(
        default=2, ge=0, description="steps a straggler may be behind the step that most sensors have reached"
    )
    watermark_share: float = Field(
        default=0.5,
        ge=0,
        lt=1,
        description="share of the sensors heard last that may run ahead without closing steps; 0 = none",
    )
    grace_seconds: float | None = Field(
        default=None,
        ge=0,
        description="publish each step this long after its end by the clock, not on arrival: set it wherever "
        "counts come live; needs a true origin",
    )
    max_ahead: int = Field(
        default=1000, ge=1, description="steps a message may be ahead of the next step to close"
    )
    horizon: int = Field(
        default=HORIZON,
        ge=1,
        description="T: how many of the latest steps the adversary tries to reconstruct",
    )
    mistakes: int = Field(
        default=MISTAKES,
        ge=0,
        description="s: how many of these steps the adversary may get wrong; with many, habits alone succeed",
    )
    thresholds: NumberList = Field(
        default=(0.01, 0.05, 0.1, 0.25, 0.5), description="risks at which people are counted and reported"
    )
    sharpen: bool | None = Field(
        default=None,
        description="recompute high-risk people with the slower, tighter bound; "
        "none = for up to 5 000 people, but not where kafka.servers are named",
    )
    sharpen_above: float | None = Field(
        default=None,
        ge=0,
        le=1,
        description="risk by the fast bound from which to recompute; none = the lowest threshold",
    )
    risk_every: int = Field(default=100, ge=1, description="steps between records of every person's risk")
    most_exposed: int | None = Field(
        default=None,
        ge=0,
        description="most exposed people that each risk summary names by pseudonym; "
        "none = 10 in an output folder, nobody on Kafka",
    )
    snapshot_seconds: float = Field(
        default=300.0,
        ge=0,
        description="time between snapshots of the accounts for a quick restart; 0 = none",
    )
    delta: float = Field(default=1e-6, gt=0, lt=1, description="delta of the differential-privacy account")
    confidence: float = Field(
        default=0.95, gt=0, lt=1, description="confidence of intervals and sampled bounds"
    )
    noise_key: Path | None = Field(default=None, description="file with the secret noise key")
    noise_key_secret: SecretStr | None = Field(
        default=None, description="the noise key itself, in hexadecimal"
    )
    pseudonym_key: Path | None = Field(default=None, description="file with the secret pseudonym key")
    pseudonym_key_secret: SecretStr | None = Field(
        default=None, description="the pseudonym key, in hexadecimal"
    )
    sensors: Path | None = Field(
        default=None, description="file of sensors; without it each location has a sensor of its name"
    )
    locations: Path | None = Field(
        default=None,
        description="file with the names of the locations in order, one a line; workers on Kafka need it, "
        "as they do not read the priors",
    )
    release: ReleaseSettings = Field(default=ReleaseSettings(), description="release policy")
    listen: str = Field(
        default="127.0.0.1:9464", description="address of metrics, health and page; empty = none"
    )
    page_token: SecretStr | None = Field(
        default=None,
        description="access token to see people by pseudonym on the page, at least 16 characters; "
        "without it totals only; not in the settings file",
    )
    page_token_file: Path | None = Field(default=None, description="file with the access token")
    log: LogSettings = Field(default=LogSettings(), description="log on stderr")
    kafka: KafkaSettings = Field(default=KafkaSettings(), description="broker")

    @field_validator("origin")
    @classmethod
    def _origin_is_exact(cls, origin: datetime) -> datetime:
        if origin.tzinfo is None:
            raise ValueError("must have a time zone; write 2026-01-01T00:00:00Z")
        if origin.microsecond:
            raise ValueError("must be a whole second")
        return origin.astimezone(UTC)

    @field_validator("thresholds")
    @classmethod
    def _thresholds_rise(cls, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < threshold <= 1 for threshold in thresholds):
            raise ValueError("must lie in (0, 1]")
        if list(thresholds) != sorted(set(thresholds)):
            raise ValueError("must rise, without repeats")
        return thresholds

    @model_validator(mode="after")
    def _token_of_file(self) -> Settings:
        _take_secret(self, "page_token")
        if self.page_token is not None and len(self.page_token.get_secret_value()) < 16:
            raise ValueError("page_token must have at least 16 characters")
        return self

    @model_validator(mode="after")
    def _mistakes_fit(self) -> Settings:
        if self.mistakes >= self.horizon:
            raise ValueError(f"mistakes must be below the horizon {self.horizon}, got {self.mistakes}")
        return self

    @property
    def origin_seconds(self) -> int:
        """Start of step 0 in unix seconds."""
        return int(self.origin.timestamp())

    def horizon_settings(self, first_slot: int, *, sharpen: bool) -> HorizonSettings:
        """Horizon, thresholds and bounds of an accountant; with ``sharpen`` the refined bound, too."""
        return HorizonSettings(
            self.horizon,
            self.mistakes,
            self.thresholds,
            first_slot,
            sharpen=sharpen,
            sharpen_above=self.sharpen_above,
        )

    def masked(self) -> dict[str, Any]:
        """All settings as JSON values with secrets masked: what may be shown."""
        return self.model_dump(mode="json")


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

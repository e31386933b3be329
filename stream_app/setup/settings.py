"""Settings of a deployment: TOML file, then environment, then flags, each overriding the one before.

Every setting has an environment name, ``TALLYGUARD_`` and its own in capitals, ``__`` between the levels:
``TALLYGUARD_RELEASE__SIGMA=2``. Unknown keys and unknown ``TALLYGUARD_`` variables are errors.
"""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field, SecretStr, field_serializer, field_validator, model_validator
from pydantic_settings import BaseSettings, SettingsConfigDict

from accounting.settings import OPERATIONS, HorizonSettings, RiskBudget
from models.calendar import Calendar, dates_of
from models.exceptions import CalendarError, ScheduleError, TallyguardError
from models.priors import MOST_DRAWS, PLACE, Question
from stream_app.setup.option_settings import OPTION_SETTINGS
from stream_app.setup.priors_verdict import PriorsCheckSetting
from stream_app.setup.release_settings import (
    BUDGET,
    CROWD,
    INFORMED,
    AdversaryName,
    BudgetSettings,
    CrowdSettings,
    ReleaseSettings,
)
from stream_app.setup.schedule_files import said_beside
from stream_app.setup.sections import (
    ConnectSettings,
    DateList,
    NameList,
    NumberList,
    OccupancySettings,
    QualitySettings,
    QuestionSettings,
    Section,
    refuse_login,
    require_private_key,
    require_token,
    take_secret,
)
from stream_app.setup.total_levels import Level

if TYPE_CHECKING:
    from accounting.exposure.crowd import CrowdAdversary

MAX_OPERATIONS = 10**15
"""Some days of one core."""

ENVIRONMENT_PREFIX = "TALLYGUARD_"


class KafkaSettings(Section):
    """Where the broker is and how to speak to it."""

    servers: NameList = ()
    """bootstrap servers, host:port"""
    prefix: str = ""
    """put before every topic name, group and transaction id"""
    partitions: int = Field(default=4, ge=1, le=10_000)
    """parts the people are split into; more account workers than that stand by"""
    replication: int = Field(default=1, ge=1)
    """copies of every topic; 3 where nothing may be lost"""
    session_seconds: float = Field(default=10.0, ge=1.0, le=300.0)
    """silence after which a worker counts as dead"""
    stall_seconds: float = Field(default=60.0, ge=1.0)
    """a worker that has work and makes no progress for this long ends itself"""
    answer_seconds: float = Field(default=5.0, gt=0.0)
    """wait for the account workers' answers; then a step is suppressed"""
    seal_seconds: float = Field(default=10.0, ge=0.0)
    """with grace_seconds: wait so long for a region behind the tick; then decide without it"""
    schedule: Path | None = None
    """schedule (JSON) that the release worker or coordinator follows, or activations (CSV); --schedule comes
    first. Every process takes from it the tiers and the slot of step 0 that no setting names"""
    security: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"] = "PLAINTEXT"
    """security protocol"""
    ca_file: Path | None = None
    """certificate authority of the broker (PEM)"""
    certificate_file: Path | None = None
    """own certificate with its key (PEM), where the broker asks clients for one"""
    mechanism: Literal["SCRAM-SHA-256", "SCRAM-SHA-512"] = "SCRAM-SHA-512"
    """SASL mechanism"""
    username: str | None = None
    """SASL user"""
    password: SecretStr | None = None
    """SASL password; not in the settings file"""
    password_file: Path | None = None
    """file with the SASL password"""

    @model_validator(mode="after")
    def _has_credentials(self) -> KafkaSettings:
        take_secret(self, "password")
        require_private_key("kafka.certificate_file", self.certificate_file)
        for server in self.servers:
            refuse_login("kafka.servers", server)
        if self.security.startswith("SASL") and (self.username is None or self.password is None):
            raise ValueError(f"kafka.security {self.security} needs kafka.username and kafka.password")
        return self


def lines_of(path: Path) -> list[str]:
    """The lines of a file of holidays that are no comments; ``ValueError`` for one that cannot be read."""
    try:
        lines = path.read_text(encoding="utf-8-sig").splitlines()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"holidays_file must be a readable text file, got {path}; check the path") from None
    return [line.strip() for line in (each.partition("#")[0] for each in lines) if line.strip()]


LogLevel = Literal["debug", "info", "warning", "error", "critical"]


class LogSettings(Section):
    """What is said on stderr."""

    level: LogLevel = "info"
    """least severe message that is logged: debug, info, warning, error or critical"""
    libraries: LogLevel = "critical"
    """the same for libraries (Kafka, Faust, aiohttp); debug may show whole messages"""
    format: Literal["text", "json"] = "text"
    """text, or json: one object a line with timestamp, level, logger and event"""


class Settings(BaseSettings):
    """Everything a deployment can set. Load with :func:`stream_app.setup.settings_sources.load_settings`."""

    model_config = SettingsConfigDict(
        env_prefix=ENVIRONMENT_PREFIX,
        env_nested_delimiter="__",
        extra="forbid",
        frozen=True,
        use_attribute_docstrings=True,
        allow_inf_nan=False,
    )

    deployment: str = Field(default="default", min_length=1)
    """name of the deployment, part of every noise message"""
    step_seconds: int = Field(default=3600, ge=1)
    """length of a step"""
    origin: datetime = datetime(1970, 1, 1, tzinfo=UTC)
    """start of step 0, with its offset or as unix seconds; times are shown by that offset, or in timezone"""
    first_slot: int = Field(default=0, ge=0)
    """slot of step 0 in the cycle of the priors"""
    timezone: str | None = None
    """time zone whose clock daily and weekly priors follow, like Europe/Vienna: on days of 23 and 25 hours,
    too; none = slots are counted in steps, an hour off after a change of clocks"""
    holidays: DateList = ()
    """local dates on which people live as on the Sunday of that week, by priors with a weekly cycle; needs
    timezone. Declare those of coming years from the beginning"""
    holidays_file: Path | None = None
    """file with further holidays, one date a line; # begins a comment"""
    grace: int = Field(default=2, ge=0)
    """steps a straggler may be behind the step that most sensors have reached"""
    late: int = Field(default=0, ge=0)
    """steps after its close that a late count of a step, or a corrected one, is still published; 0 = never.
    Not with tiers"""
    watermark_share: float = Field(default=0.5, ge=0, lt=1)
    """share of the sensors heard last that may run ahead without closing steps; 0 = none"""
    grace_seconds: float | None = Field(default=None, ge=0)
    """publish each step this long after its end by the clock, not on arrival: set it wherever counts come
    live; needs a true origin"""
    max_ahead: int = Field(default=1000, ge=1)
    """steps a message may be ahead of the next step to close"""
    max_ahead_seconds: float = Field(default=5.0, ge=0)
    """how far the end of a counted interval may be ahead of this machine's clock, on Kafka of the broker's: a
    count of an interval that is not over is refused. For clocks that differ; raise it where times are
    simulated"""
    question: str = PLACE
    """what must not be told of people: place = which place they were at in each step; or one of [questions].
    Ceilings, thresholds and the risk budget are about it"""
    also_asked: NameList = ()
    """further questions whose guess, attack and ceiling are computed beside: place, or some of [questions].
    Each takes as long as the first"""
    questions: dict[str, QuestionSettings] = {}
    """further questions by name, for question, also_asked and `audit --question`"""
    horizon: int = OPTION_SETTINGS["horizon"].field()
    mistakes: int = OPTION_SETTINGS["mistakes"].field()
    thresholds: NumberList = (0.01, 0.05, 0.1, 0.25, 0.5)
    """risks at which people are counted and reported"""
    sharpen: bool = True
    """recompute people with the slower, tighter bound, the most added first"""
    sharpen_above: float | None = Field(default=None, ge=0, le=1)
    """risk by the fast bound from which to recompute; none = the lowest threshold"""
    attack_draws: int = Field(default=1000, ge=0, le=1_000_000)
    """draws a step of the attack that is shown beside the ceiling: 1000 tell its mean success within 2 in
    100; 0 = no attack"""
    sampled_above: float | None = Field(default=None, ge=0, le=1)
    """added risk above which a person's ceiling is also found by sampling, as of people over a limit: closer
    through noise, and true with the stated confidence. Takes a quarter of sharpen_operations at most; none =
    nobody's"""
    sharpen_operations: int = Field(default=OPERATIONS, ge=0, le=MAX_OPERATIONS)
    """work of recomputing in a step, in operations of about a nanosecond of one core; under a risk budget
    deciding takes a quarter more, in the crowd three tenths"""
    risk_every: int = Field(default=100, ge=1)
    """steps between records of every person's risk"""
    most_exposed: int | None = Field(default=None, ge=0)
    """most exposed people that each risk summary names by pseudonym; none = 10 in an output folder, nobody on
    Kafka"""
    snapshot_seconds: float = Field(default=300.0, ge=0)
    """time between snapshots of the accounts for a quick restart; 0 = none"""
    delta: float = OPTION_SETTINGS["delta"].field()
    confidence: float = Field(default=0.95, gt=0, lt=1)
    """confidence of intervals and sampled bounds"""
    noise_key: Path | None = None
    """file with the secret noise key"""
    noise_key_secret: SecretStr | None = None
    """the noise key itself, in hexadecimal"""
    key_record: Path | None = None
    """folder in which it is noted what was published with the noise key, for its owner only; none = beside
    the key's file, which then must be writable"""
    pseudonym_key: Path | None = None
    """file with the secret pseudonym key"""
    pseudonym_key_secret: SecretStr | None = None
    """the pseudonym key, in hexadecimal"""
    snapshot_key: Path | None = None
    """file with the secret that account workers on Kafka seal snapshots with, the same for all; without it
    they keep none"""
    snapshot_key_secret: SecretStr | None = None
    """the snapshot key, in hexadecimal"""
    totals: NameList = ()
    """totals of published values that are made of each hour, day or week, by sensor, device (all its parts),
    district (group of sensors) or city: day by sensor, week by city"""
    occupancy: dict[str, OccupancySettings] = Field(default_factory=dict)
    """how many are inside a place after each step, by its name: made of published values, among the totals"""
    total_of: dict[str, NameList] = Field(default_factory=dict)
    """sensors with a window, each with those that count the same in its parts ("s3 day" = ["s3"]): among the
    totals are the estimates of both by least squares; sums over several sensors leave the window out"""
    sensors: Path | None = None
    """file of sensors; without it each location has a sensor of its name"""
    locations: Path | None = None
    """file with the names of the locations in order, one a line; workers on Kafka need it, as they do not
    read the priors"""
    priors_check: PriorsCheckSetting = None
    """file of `tallyguard priors check --json`: if real traces refuted the priors as too low, ceilings and
    the risk budget hold within the radius that they leave, and every output says so"""
    evidence: Path | None = None
    """file of `tallyguard priors fit --evidence`: every ceiling and guess, and with them the risk budget, is
    a mean over chains that the same data could have given; on Kafka `persons load` reads it, and every
    process has the setting"""
    posterior_draws: int = Field(default=20, ge=2, le=MOST_DRAWS)
    """with evidence: chains of each person, each of which costs what a person costs"""
    panel: Path | None = None
    """file of volunteers' true places (JSON lines), readable by its owner only, that the priors are held
    against while `run` goes on; on Kafka `priors watch` does it, beside the workers"""
    panel_level: float = Field(default=0.05, gt=0, lt=1)
    """probability with which the panel ever refutes right priors, at most"""
    adversary: AdversaryName = INFORMED
    """which adversary a risk budget holds against: informed = knows where everybody else is; crowd = only
    knows how they live"""
    crowd: CrowdSettings = CrowdSettings()
    """the adversary who only knows how people live"""
    release: ReleaseSettings = ReleaseSettings()
    """release policy"""
    listen: str = OPTION_SETTINGS["listen"].field()
    listen_names: NameList = ()
    """names by which browsers and scrapers call it, beside localhost and addresses; requests by any other
    name are refused"""
    map_tiles: str = Field(default="", pattern=r"^$|^(https?://[\w.:\[\]-]+)?/.*\{z\}.*\{x\}.*\{y\}")
    """address of map tiles under the page's sensors, with {z}, {x} and {y}, on your own server; sensors then
    need lat and lon; empty = no streets"""
    page_token: SecretStr | None = None
    """access token to see people by pseudonym on the page, at least 16 characters; without it totals only;
    not in the settings file"""
    page_token_file: Path | None = None
    """file with the access token"""
    quality: QualitySettings = QualitySettings()
    """devices that are broken, or suspected to be"""
    connect: ConnectSettings = ConnectSettings()
    """how counts come in that are not messages"""
    log: LogSettings = LogSettings()
    """log on stderr"""
    kafka: KafkaSettings = KafkaSettings()
    """broker"""

    @field_validator("origin")
    @classmethod
    def _origin_is_exact(cls, origin: datetime) -> datetime:
        if origin.tzinfo is None:
            raise ValueError("must have a time zone; write 2026-01-01T00:00:00Z")
        if origin.microsecond:
            raise ValueError("must be a whole second")
        return origin

    @field_serializer("origin")
    def _origin_in_utc(self, origin: datetime) -> datetime:
        return origin.astimezone(UTC)

    @model_validator(mode="after")
    def _takes_from_schedule(self) -> Settings:
        """Tiers and first slot that only the schedule names; ``ValueError`` where it cannot be read."""
        try:
            found = {} if self.kafka.schedule is None else said_beside_settings(self, self.kafka.schedule)
        except ScheduleError as error:
            raise ValueError(str(error)) from None
        for name, value in found.items():
            object.__setattr__(self, name, value)
        return self

    @model_validator(mode="after")
    def _clock_exists(self) -> Settings:
        """Read the file of holidays; ``ValueError`` for a clock that there is not."""
        try:
            if self.holidays_file is not None:
                found = dates_of([*map(str, self.holidays), *lines_of(self.holidays_file)])
                object.__setattr__(self, "holidays", found)
                object.__setattr__(self, "holidays_file", None)
            self.calendar(self.first_slot)
        except CalendarError as error:
            raise ValueError(str(error)) from None
        if self.timezone is None and self.holidays:
            raise ValueError("holidays must be dates of a timezone, got none; set timezone")
        return self

    @field_validator("thresholds")
    @classmethod
    def _thresholds_rise(cls, thresholds: tuple[float, ...]) -> tuple[float, ...]:
        if not all(0 < threshold <= 1 for threshold in thresholds):
            raise ValueError("must lie in (0, 1]")
        if list(thresholds) != sorted(set(thresholds)):
            raise ValueError("must rise, without repeats")
        return thresholds

    @field_validator("totals")
    @classmethod
    def _levels_exist(cls, totals: tuple[str, ...]) -> tuple[str, ...]:
        return tuple(str(Level.of(each)) for each in totals)

    @field_validator("total_of")
    @classmethod
    def _parts_belong_to_one_whole(cls, total_of: dict[str, tuple[str, ...]]) -> dict[str, tuple[str, ...]]:
        names = [*total_of, *(name for parts in total_of.values() for name in parts)]
        if len(set(names)) < len(names) or not all(total_of.values()):
            raise ValueError("must name each sensor once, as a whole or as a part, and a part of each whole")
        return total_of

    @model_validator(mode="after")
    def _token_and_strangers_fit(self) -> Settings:
        """``ValueError`` for a token that can be guessed, and for strangers that fit no step."""
        take_secret(self, "page_token")
        require_token("page_token", self.page_token)
        try:
            for each in self.crowd.strangers.values():
                each.in_steps(self.step_seconds)
        except TallyguardError as error:
            raise ValueError(str(error)) from None
        return self

    @model_validator(mode="after")
    def _questions_and_mistakes_fit(self) -> Settings:
        if PLACE in self.questions:
            raise ValueError(
                f"questions must have names other than {PLACE}, which is the one without a table"
            )
        known, asked = [PLACE, *self.questions], [self.question, *self.also_asked]
        for setting, name in zip(["question", *["also_asked"] * len(self.also_asked)], asked, strict=True):
            if name not in known:
                raise ValueError(
                    f"{setting} must be one of {', '.join(known)}, got {name}; define it in [questions]"
                )
            if asked.count(name) > 1:
                raise ValueError(f"question and also_asked must name each question once, got {name} twice")
        for name in self.questions:
            self.asked(name)
        if self.mistakes >= self.horizon:
            raise ValueError(f"mistakes must be below the horizon {self.horizon}, got {self.mistakes}")
        return self

    def asked(self, name: str) -> Question:
        """The question of this name; :class:`KeyError` for one that is not defined."""
        return Question() if name == PLACE else self.questions[name].asked(name, self.step_seconds)

    @property
    def asked_first(self) -> Question | None:
        """What ceilings, thresholds and the risk budget are about; None for which place."""
        return None if self.question == PLACE else self.asked(self.question)

    @property
    def asked_in_all(self) -> tuple[Question, ...]:
        """Every question: first what ceilings, thresholds and the risk budget are about."""
        return tuple(map(self.asked, (self.question, *self.also_asked)))

    @property
    def beside(self) -> tuple[Settings, ...]:
        """Those of each further question, as if it were the only one; the limit is not about it."""
        release = self.release.model_copy(update={"budget": BudgetSettings()})
        return tuple(
            self.model_copy(update={"question": name, "also_asked": (), "release": release})
            for name in self.also_asked
        )

    @property
    def draws(self) -> int:
        """How many chains stand for each person."""
        return 1 if self.evidence is None else self.posterior_draws

    @property
    def has_crowd(self) -> bool:
        """Whether ceilings are computed against the crowd adversary, too."""
        return self.crowd.on or self.adversary == CROWD

    @property
    def crowd_adversary(self) -> CrowdAdversary:
        """The adversary who does not know where everybody else is, as accounts take it."""
        return self.crowd.adversary(self.step_seconds)

    @property
    def origin_seconds(self) -> int:
        """Start of step 0 in unix seconds."""
        return int(self.origin.timestamp())

    @property
    def offset(self) -> str | None:
        """How far the clock of ``origin`` is ahead of UTC: "+01:00"; None with a time zone, and for UTC."""
        return self.origin.isoformat()[-6:] if self.timezone is None and self.origin.utcoffset() else None

    @property
    def clock(self) -> str | None:
        """The time zone that times are shown in, or the offset; None for UTC."""
        return self.timezone or self.offset

    def calendar(self, first_slot: int) -> Calendar | None:
        """What slots follow, counted from ``first_slot`` at step 0; None where they just count on."""
        if self.timezone is None:
            return None
        days = tuple(sorted(set(self.holidays)))
        calendar = Calendar(self.timezone, self.origin_seconds, self.step_seconds, first_slot, days)
        return None if calendar.is_regular else calendar

    @property
    def decided_limit(self) -> RiskBudget | None:
        """The risk budget that steps are decided under; None where they are released in another way."""
        return self.release.budget.limit if self.release.mechanism == BUDGET else None

    @property
    def needs_every_step(self) -> bool:
        """Whether a decision rests on who was over the limit after any earlier step: no snapshot has that."""
        return self.decided_limit is not None and self.decided_limit.in_hindsight

    @property
    def refined_limit(self) -> RiskBudget | None:
        """The risk budget whose decisions count on refined bounds; in hindsight none does."""
        return None if self.needs_every_step else self.decided_limit

    def horizon_settings(self, first_slot: int) -> HorizonSettings:
        """Horizon, thresholds and bounds of an accountant."""
        return HorizonSettings(
            self.horizon,
            self.mistakes,
            self.thresholds,
            first_slot,
            sharpen=self.sharpen,
            sharpen_above=self.sharpen_above,
            operations=self.sharpen_operations,
            decided=self.refined_limit,
            within_nats=0.0 if self.priors_check is None else self.priors_check.within_nats,
            calendar=self.calendar(first_slot),
            question=self.asked_first,
        )

    def masked(self) -> dict[str, Any]:
        """All settings as JSON values with secrets masked: what may be shown."""
        return self.model_dump(mode="json")


def said_beside_settings(settings: Settings, schedule: Path) -> dict[str, Any]:
    """The settings that a schedule file names beside its steps: a first slot where none is set, and tiers."""
    first_slot, tiers = said_beside(schedule)
    found: dict[str, Any] = {} if settings.first_slot or not first_slot else {"first_slot": first_slot}
    if tiers.keys() - settings.release.tiers.keys():
        in_order = dict(sorted(tiers.items(), key=lambda tier: tier[1]))
        found["release"] = settings.release.model_copy(update={"tiers": in_order})
    return found

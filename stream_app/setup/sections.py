"""Tables of the settings file: what all of them share, and those of connectors.

Modules are imported singly, as the settings are.
"""

from __future__ import annotations

from collections import Counter
from datetime import UTC, date, datetime, time
from math import ceil, floor
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    SecretStr,
    field_validator,
    model_validator,
)
from pydantic_settings import NoDecode

from models.private_files import readable_by_others
from stream_app.setup.option_settings import OPTION_SETTINGS
from stream_app.setup.total_levels import Occupancy

if TYPE_CHECKING:
    from models.priors import Question

# What all sections of the settings share: nothing unknown in them, lists and secrets as people give them.


def _split(value: object) -> object:
    """A comma-separated text, as the environment gives it, as a list."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.strip("[] ").split(",") if part.strip()]


NameList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
DateList = Annotated[tuple[date, ...], NoDecode, BeforeValidator(_split)]
NumberList = Annotated[tuple[float, ...], NoDecode, BeforeValidator(_split)]


class Section(BaseModel):
    """A table of the settings file; what a setting means stands below it."""

    model_config = ConfigDict(extra="forbid", frozen=True, use_attribute_docstrings=True, allow_inf_nan=False)


DAY_SECONDS = 86_400


def steps_between(from_hour: float, until_hour: float, step_seconds: int) -> range:
    """The whole steps between two hours of a day, past midnight where the second is not the later one."""
    first, until = (hour * 3600 / step_seconds for hour in (from_hour, until_hour))
    return range(ceil(first), floor(until) + (DAY_SECONDS // step_seconds if until <= first else 0))


class QuestionSettings(Section):
    """A question about people: what must not be told of them, and when."""

    at: NameList = ()
    """whether a person was at one of these places: clinics, places of worship, shelters"""
    groups: dict[str, NameList] = {}
    """in which of these groups of places a person was: names of places by district; places in none are
    elsewhere"""
    from_hour: float | None = Field(default=None, ge=0, lt=24)
    """only in steps from this hour of the day that begins with slot 0"""
    until_hour: float | None = Field(default=None, gt=0, le=24)
    """until when; needs from_hour, and may be past midnight"""
    weights: tuple[int, ...] = ()
    """what a wrong guess costs in each slot of the cycle, 0 where nothing is asked; instead of hours"""

    @model_validator(mode="after")
    def _is_one(self) -> QuestionSettings:
        if self.at and self.groups:
            raise ValueError("at and groups are two questions; give each a name of its own")
        if (self.from_hour is None) != (self.until_hour is None):
            raise ValueError("from_hour and until_hour belong together; give both")
        if self.from_hour is not None and self.weights:
            raise ValueError("weights and hours say the same; give one of the two")
        return self

    def asked(self, name: str, step_seconds: int) -> Question:
        """The question as accounts take it; ``ValueError`` where no whole step lies between the hours."""
        from models.exceptions import TallyguardError
        from models.priors import Question

        groups = {name: self.at} if self.at else self.groups
        weights = self.weights or self._of_hours(step_seconds)
        try:
            return Question(name, groups, weights or None)
        except TallyguardError as error:
            raise ValueError(str(error)) from None

    def _of_hours(self, step_seconds: int) -> tuple[int, ...]:
        """1 for each step of a day that lies between the hours; none where all are asked about."""
        if self.from_hour is None or self.until_hour is None:
            return ()
        cycle = DAY_SECONDS // step_seconds
        if cycle * step_seconds != DAY_SECONDS:
            raise ValueError(
                f"step_seconds must divide a day where hours are asked about, got {step_seconds}"
            )
        asked = {step % cycle for step in steps_between(self.from_hour, self.until_hour, step_seconds)}
        if not asked:
            raise ValueError(
                f"a whole step of {step_seconds} seconds must lie between from_hour and until_hour, "
                f"got {self.from_hour:g} to {self.until_hour:g}"
            )
        return tuple(int(step in asked) for step in range(cycle))


_LEAST_CHARACTERS, _LEAST_DIFFERENT = 16, 6  # of a token; random ones of 16 have 12 or more different ones


def require_token(name: str, token: SecretStr | None) -> None:
    """``ValueError`` for a token that can be guessed; never shows it."""
    if token is None:
        return
    text = token.get_secret_value()
    if len(text) < _LEAST_CHARACTERS:
        raise ValueError(f"{name} must have at least {_LEAST_CHARACTERS} characters")
    if len(set(text)) < _LEAST_DIFFERENT or "changeme" in text.lower():
        raise ValueError(f"{name} must be random, e.g. what `openssl rand -hex 32` prints")


def refuse_login(name: str, address: str) -> None:
    """``ValueError`` for an address with a user or password in it: settings are shown, logged and kept."""
    place = address.partition("://")[2] or address
    if "@" in place.partition("/")[0]:
        raise ValueError(f"{name} must have no user or password in it; set username and password_file")


def require_private_key(name: str, path: Path | None) -> None:
    """``ValueError`` for a certificate with its private key in a file that others can read."""
    if path is None or (fault := readable_by_others(path)) is None:
        return
    if b"PRIVATE KEY" in path.read_bytes():
        raise ValueError(
            f"{name} has a private key and must be readable by its owner only, got: {'; '.join(fault)}"
        )


def take_secret(section: BaseModel, name: str) -> None:
    """Fill a secret from the file named beside it; ``ValueError`` for both or an unreadable file."""
    path: Path | None = getattr(section, f"{name}_file")
    if path is None:
        return
    if getattr(section, name) is not None:
        raise ValueError(f"{name} must come from one place, got a file and a secret; drop one of the two")
    if (fault := readable_by_others(path)) is not None:
        raise ValueError(f"{name}_file must be readable by its owner only, got: {'; '.join(fault)}")
    try:
        secret = path.read_text(encoding="utf-8-sig").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"{name}_file must be a readable text file, got {path}; check the path") from None
    object.__setattr__(section, name, SecretStr(secret))


# What every mapping of a city's own counts declares, whether they come in files, payloads or Observations.

CountKind = Annotated[
    Literal["periodic", "total"],
    Field(
        description="periodic = what was counted in the interval; total = what was counted since the counter "
        "began, of which the engine is given the differences"
    ),
]
Decimals = Annotated[
    Literal["refuse", "round"],
    Field(description="counts with decimals: round takes the nearest, and needs largest_factor"),
]
LargestFactor = Annotated[
    Annotated[float, Field(gt=0, le=1000)] | None,
    Field(
        description="by how much one person moves a count at most, where counts were scaled, converted or "
        "averaged before they came; sensors must declare most_counts of it, rounded up"
    ),
]
LeastUptime = Annotated[
    float, Field(ge=0, le=1, description="share below which an interval is taken as not counted")
]
ShorterIntervals = Annotated[
    Literal["refuse", "sum"],
    Field(description="intervals shorter than a step: sum adds them where all of a step were counted"),
]
IntervalEnds = Annotated[
    Literal["recognise", "exclusive", "inclusive"],
    Field(
        description="what an interval's end is: the next one's start, or the last second (millisecond) that "
        "belongs to it; recognise = inclusive where intervals, two at least, all end so"
    ),
]
Tolerance = Annotated[
    int,
    Field(
        ge=0,
        description="how far a time may be off the bound of a step and be taken for it (clocks drift)",
    ),
]
VersionNumbers = Annotated[
    dict[str, Annotated[int, Field(ge=0, le=1000)]],
    Field(
        description="what `version` says, and its number: 0 = provisional, left out; 1 = the first count; "
        "from 2 on = a corrected one, which sensors must declare"
    ),
]


# How payloads in JSON, as counters and brokers send them, become counts: what stands where.

SENSOR = "{sensor}"


class PayloadSettings(Section):
    """Where things stand in a payload. A path like ``time_info.start`` or ``lines[0].in`` begins at a record.

    Records are the elements of ``records``; a path that begins with ``$.`` is one from the whole payload.
    """

    preset: str | None = None
    """mapping to begin with: one of `tallyguard connect presets`, or a TOML file"""
    records: NameList = ()
    """path of the list that holds the counts, of several the first that is there, or of an object with a
    record for each sensor, whose name is then its `key`; none = the payload itself, a list or one record"""
    sensor: NameList = ()
    """path of the sensor; of several the first that is there"""
    sensor_pattern: str | None = None
    """regular expression with the group `sensor` that a sensor's text must match"""
    topic: str | None = Field(
        default=None,
        description=f"form of topics (HTTP: of paths), {SENSOR} where the sensor stands, like city/{SENSOR}",
    )
    names: dict[str, str] = Field(default_factory=dict)
    """the deployment's name for a sensor of the payloads"""
    channel: str | None = None
    """path of a sensor's channel (line, region, side)"""
    channels: Literal["refuse", "sum", "apart"] = "refuse"
    """several channels of a sensor in one payload: one count, or a sensor each"""
    start: NameList = ()
    """path of the interval's start; of several the first that is there"""
    end: NameList = ()
    """path of the interval's end (exclusive), of a total the time of it; of several the first that is
    there"""
    interval: str | None = None
    """path of an interval of ISO 8601, start/end"""
    interval_seconds: int | None = Field(default=None, ge=1)
    """length of an interval of which one end is not said"""
    timezone: str | None = None
    """time zone of times without an offset, like Europe/Vienna"""
    offset: str | None = None
    """path of the offset of times without one, like UTC+8:00; instead of timezone"""
    daylight: str | None = None
    """with offset: path of whether the clock is an hour ahead of it in summer"""
    ambiguous: Literal["refuse", "earlier", "later"] = "refuse"
    """times that the clock shows twice in autumn"""
    time_format: str | None = None
    """how times are written, like %Y/%m/%d %H:%M:%S"""
    time_unit: Literal["seconds", "milliseconds"] = "seconds"
    """what numbers count that are times since 1970"""
    count: NameList = ()
    """path of the count, of several the first that is there; null = not counted"""
    count_more: NameList = ()
    """paths of further counts that are added to it (out beside in); all of them"""
    decimals: Decimals = "refuse"
    largest_factor: LargestFactor = None
    kind: CountKind = "periodic"
    resets: Literal["not_counted", "from_zero"] = "not_counted"
    """a total below the one before: the step was not counted, or the counter began again at 0"""
    began: NameList = ()
    """path of the time at which a counter of totals began (its boot): another one, further off than
    tolerance_seconds, is a reset, also where the total is higher"""
    version: NameList = ()
    """path of the version of a count: none or 1 = the first, from 2 on = a corrected one"""
    versions: VersionNumbers = Field(default_factory=dict)
    uptime: str | None = None
    """path of the share of the interval in which the counter worked"""
    least_uptime: LeastUptime = 0.5
    shorter: ShorterIntervals = "refuse"
    ends: IntervalEnds = "recognise"
    tolerance_seconds: Tolerance = 0
    own_addresses: NameList = ()
    """paths from the payload, without indices, of addresses that are the counter's own; other addresses of
    devices are refused"""


# Settings of the receiver of payloads over HTTP: where it listens, who may send, and what payloads say.


class SenderSettings(Section):
    """One of several senders: by what it is known, and which sensors it counts."""

    token: SecretStr | None = None
    """its token, at least 16 characters; not in the settings file"""
    token_file: Path | None = None
    """file with its token"""
    certificate: str | None = Field(default=None, min_length=1)
    """instead of a token: the common name or a DNS name of its certificate"""
    sensors: NameList = Field(min_length=1)
    """sensors it may send for; * stands for anything, as in gate-*"""

    @model_validator(mode="after")
    def _is_known_by_one_thing(self) -> SenderSettings:
        take_secret(self, "token")
        require_token("token", self.token)
        if (self.token is None) == (self.certificate is None):
            raise ValueError("a sender must have token_file or certificate, and not both")
        return self


class HttpSettings(Section):
    """A receiver needs a token, or certificates of those who send."""

    listen: str = OPTION_SETTINGS["connect.http.listen"].field()
    map: PayloadSettings = PayloadSettings()
    """where things stand in the payloads"""
    token: SecretStr | None = None
    """what a single sender says in the header Authorization: Bearer, at least 16 characters; it may send for
    every sensor. Not in the settings file"""
    token_file: Path | None = None
    """file with the token"""
    senders: dict[str, SenderSettings] = Field(default_factory=dict)
    """instead of token, of each sender by a name of yours: `token_file` or `certificate`, and the `sensors`
    it may send for; answered with 403 for others. Set it where several parties send"""
    certificate_file: Path | None = None
    """own certificate with its key (PEM): the receiver speaks TLS then"""
    client_ca_file: Path | None = None
    """certificate authority (PEM) of senders, who must then show a certificate"""
    body_bytes: int = Field(default=262_144, ge=1024, le=16_777_216)
    """longest payload that is taken"""
    body_seconds: float = Field(default=10.0, gt=0, le=300)
    """time within which a payload must have come in"""

    @model_validator(mode="after")
    def _knows_its_senders(self) -> HttpSettings:
        take_secret(self, "token")
        require_token("token", self.token)
        require_private_key("connect.http.certificate_file", self.certificate_file)
        self._check_senders()
        if self.client_ca_file is not None and self.certificate_file is None:
            raise ValueError(
                "client_ca_file needs certificate_file: senders show theirs to a receiver with TLS"
            )
        return self

    def _check_senders(self) -> None:
        if self.senders and self.token is not None:
            raise ValueError(
                "token must be that of a single sender, who may send for every sensor; with senders drop it"
            )
        known = [each.token.get_secret_value() for each in self.senders.values() if each.token is not None]
        certificates = [each.certificate for each in self.senders.values() if each.certificate is not None]
        if len(set(known)) < len(known) or len(set(certificates)) < len(certificates):
            raise ValueError("each of the senders must have a token or certificate of its own")
        if certificates and self.client_ca_file is None:
            raise ValueError("senders with a certificate need client_ca_file, which says whose are believed")


# Settings of the MQTT connector: the broker, its session, and which topics count.

WEEK_SECONDS = 7 * 86_400


class MqttSettings(Section):
    """Where the broker is, what is read from it, and under which topics releases stand."""

    broker: str = ""
    """mqtts://host:8883 with TLS, or mqtt://host:1883 without; the port may be left out"""
    topics: NameList = ()
    """topics that counts come on; + and # as MQTT has them"""
    map: PayloadSettings = PayloadSettings()
    """where things stand in the payloads"""
    protocol: Literal["auto", "5", "3.1.1"] = "auto"
    """MQTT that is spoken; auto = 5, and 3.1.1 with a broker that does not speak it"""
    qos: Literal[0, 1] | None = None
    """least quality of service that is taken: 1 = at least once, 0 = at most once, with which counts and
    releases may be lost; none = 1, and with protocol = "3.1.1" what the broker grants"""
    packet_bytes: Annotated[int, Field(ge=1024, le=1 << 28)] = 1 << 20
    """longest packet that is taken or sent; a broker of MQTT 5 may say that it takes less"""
    client: str = ""
    """client id, by which the broker knows the session again; empty = tallyguard-<deployment>"""
    publish_under: str = ""
    """beginning of the topics of releases and of the status; empty = tallyguard/<deployment>"""
    session_seconds: Annotated[int, Field(ge=60, le=0xFFFFFFFE)] = WEEK_SECONDS
    """how long the broker is to keep what arrives while nobody is connected"""
    keepalive_seconds: Annotated[int, Field(ge=5, le=3600)] = 30
    """silence after which either side takes the other as gone"""
    most_unacknowledged: Annotated[int, Field(ge=1, le=65_535)] = 1000
    """messages that the broker may send before the first is acknowledged"""
    ca_file: Path | None = None
    """certificate authority of the broker (PEM)"""
    certificate_file: Path | None = None
    """own certificate with its key (PEM), where the broker asks clients for one"""
    username: str | None = None
    """user, where the broker asks for one"""
    password: SecretStr | None = None
    """its password; not in the settings file"""
    password_file: Path | None = None
    """file with the password"""

    @property
    def least_quality(self) -> int:
        """The least quality of service that is taken."""
        return self.qos if self.qos is not None else 0 if self.protocol == "3.1.1" else 1

    @model_validator(mode="after")
    def _has_whole_credentials(self) -> MqttSettings:
        refuse_login("connect.mqtt.broker", self.broker)
        require_private_key("connect.mqtt.certificate_file", self.certificate_file)
        take_secret(self, "password")
        if self.password is not None and self.username is None:
            raise ValueError("connect.mqtt needs username beside its password")
        return self

    @field_validator("topics")
    @classmethod
    def _are_topic_filters(cls, topics: tuple[str, ...]) -> tuple[str, ...]:
        wrong = next((each for each in topics if not _is_topic_filter(each)), None)
        if wrong is not None:
            raise ValueError(
                "must be topics of MQTT, where + is one whole level, # at the end all that follow, "
                f"and a shared one is $share/GROUP/TOPIC; {wrong[:80]!r} is none"
            )
        return topics

    @model_validator(mode="after")
    def _publishes_under_a_topic(self) -> MqttSettings:
        if set(self.publish_under) & set("+#\0") or self.publish_under.endswith("/"):
            raise ValueError("publish_under must be a topic without + and #, and not end in /")
        return self


_LONGEST_TOPIC_BYTES = 65_535


def _is_topic_filter(topic: str) -> bool:
    """Whether a broker can read it (MQTT 5.0, sections 4.7 and 4.8.2)."""
    is_short = 0 < len(topic.encode()) <= _LONGEST_TOPIC_BYTES
    if topic.startswith("$share/"):
        group, _, topic = topic.removeprefix("$share/").partition("/")
        is_short &= bool(group and topic) and not set(group) & set("+#")
    *levels, last = topic.split("/")
    if last != "#":
        levels.append(last)
    return is_short and all(level == "+" or not set(level) & set("+#\0") for level in levels)


# Settings of the SensorThings connector: the service, and which of its datastreams are whose counts.


class SensorThingsSettings(Section):
    """Where the service is, which datastreams are read, and which receive releases."""

    url: str = ""
    """service root, like https://host/FROST-Server/v1.1"""
    datastreams: dict[str, str] = Field(default_factory=dict)
    """datastreams that are read: id, and the sensor whose counts it has"""
    releases: dict[str, str] = Field(default_factory=dict)
    """datastreams of our own: sensor, and the id that receives its releases"""
    totals: dict[str, str] = Field(default_factory=dict)
    """datastreams of our own: a total, like day by district/centre, and the id that gets it"""
    since: datetime | None = None
    """start of the first interval that is read, with time zone; none = origin"""
    interval_seconds: Annotated[int, Field(ge=1)] | None = None
    """length of an interval whose phenomenonTime is one instant; none = such are refused"""
    instant: Literal["start", "end"] = "start"
    """which end of its interval a phenomenonTime of one instant is"""
    ends: IntervalEnds = "recognise"
    tolerance_seconds: Tolerance = 0
    shorter: ShorterIntervals = "refuse"
    timezone: str | None = None
    """time zone of a phenomenonTime without an offset, like Europe/Vienna"""
    ambiguous: Literal["refuse", "earlier", "later"] = "refuse"
    """with timezone: times that the clock shows twice in autumn"""
    decimals: Decimals = "refuse"
    largest_factor: LargestFactor = None
    version: NameList = ()
    """path of the version in an Observation, like parameters.version"""
    versions: VersionNumbers = Field(default_factory=dict)
    look_back_seconds: Annotated[int, Field(ge=0)] | None = None
    """how far each look goes back behind the last interval, for what came late; none = one step more than
    grace, with version than late"""
    poll_seconds: Annotated[float, Field(gt=0)] = 60.0
    """time between two looks"""
    page: Annotated[int, Field(ge=1, le=100_000)] = 1000
    """observations asked for at once; the service may give fewer"""
    links: Literal["refuse", "here"] = "refuse"
    """links to pages at another address, as a service behind a proxy gives them: refused, or asked for at
    url"""
    answer_seconds: Annotated[float, Field(gt=0)] = 60.0
    """time in which the service must answer a request"""
    ca_file: Path | None = None
    """certificate authority of the service (PEM)"""
    username: str | None = None
    """user, where the service asks for one"""
    password: SecretStr | None = None
    """its password; not in the settings file"""
    password_file: Path | None = None
    """file with the password"""
    token: SecretStr | None = None
    """bearer token instead of user and password; not in the settings file"""
    token_file: Path | None = None
    """file with the token"""

    @field_validator("since")
    @classmethod
    def _since_is_an_instant(cls, since: datetime | None) -> datetime | None:
        if since is not None and since.tzinfo is None:
            raise ValueError("must have a time zone; write 2026-01-01T00:00:00Z")
        return None if since is None else since.astimezone(UTC)

    @model_validator(mode="after")
    def _has_one_login(self) -> SensorThingsSettings:
        refuse_login("connect.sensorthings.url", self.url)
        take_secret(self, "password")
        take_secret(self, "token")
        if (self.username is None) != (self.password is None):
            raise ValueError("connect.sensorthings needs both username and password, or neither")
        if ":" in (self.username or ""):
            raise ValueError("connect.sensorthings.username must have no colon: a password follows one")
        if self.token is not None and self.username is not None:
            raise ValueError("connect.sensorthings takes a token, or username and password; drop one")
        return self

    @model_validator(mode="after")
    def _reads_nothing_it_writes(self) -> SensorThingsSettings:
        both = sorted(set(self.datastreams) & set(self.releases.values()))
        if both:
            raise ValueError(f"datastream {both[0]!r} must be read or receive releases, not both")
        twice = [each for each, times in Counter(self.releases.values()).items() if times > 1]
        if twice:
            raise ValueError(
                f"releases must give each sensor a datastream of its own, not {twice[0]!r} twice"
            )
        return self


# Settings of connectors: how a city's own files are understood, column by column.


class FilesMap(Section):
    """What stands where in files of counts; a preset has the same keys. What is undecided is refused."""

    preset: str | None = OPTION_SETTINGS["connect.files.preset"].field()
    header: int | None = Field(default=None, ge=1)
    """line (or row of a sheet) with the names of the columns; none = the first that is as full as the lines
    below it"""
    header_lines: int = Field(default=1, ge=1, le=9)
    """how many lines name the columns, down to `header`: they are joined by a space, and a cell of the upper
    ones holds for empty ones behind it"""
    footer: int = Field(default=0, ge=0)
    """lines at the end that are no rows"""
    encoding: str | None = None
    """of a CSV or JSON file; none = UTF-8 or as its mark says, else windows-1252"""
    separator: Literal[",", ";", "\t", "|"] | None = None
    """what parts the cells of a CSV file; none = what parts its lines evenly"""
    sheet: str | None = None
    """sheet of a workbook; none = the only one with cells"""
    records: str | None = None
    """path of the list of records in a JSON file, like data.items; none = the longest one"""
    week: date | None = None
    """Monday of the week of a table that has its days across and its hours down, a block a sensor: it is read
    as columns Date, Time, Sensor, Channel and Count"""
    where: dict[str, NameList] = Field(default_factory=dict)
    """rows that are taken: what a column must say, one of these; * stands for anything, ! before all of them
    for none of these"""
    start: NameList = ()
    """column of the intervals' starts; of several names the one that is there. Several that are there (a date
    and an hour) are joined by a space"""
    times_are: Literal["start", "end"] | None = None
    """what the times of `start` are: the beginning of an interval, or its end; none = the beginning, and days
    from 01:00 to 24:00 are refused"""
    end: str | None = None
    """column of the intervals' ends"""
    ends: Literal["recognise", "exclusive", "inclusive"] = "recognise"
    """what an end is: the next interval's start, or the last second (millisecond) of its own; recognise =
    inclusive where all of the file end so"""
    interval_seconds: int | None = Field(default=None, ge=1)
    """length of an interval; none = by `end`, or as most starts are apart"""
    timezone: str | None = OPTION_SETTINGS["connect.files.timezone"].field()
    time_format: str | None = None
    """how times are written, like %d/%m/%Y %H:%M"""
    wall_clock: bool = False
    """times that are numbers show the clock on the wall, and are no instants"""
    ambiguous: Literal["refuse", "earlier", "later", "in_order", "pairs"] = "refuse"
    """times that the clock shows twice in autumn: of the earlier or the later hour, in the order of the file,
    or (pairs) so that one that stands once is not counted"""
    nonexistent: Literal["refuse", "drop"] = "refuse"
    """times that the clock skips in spring: drop takes them as not counted"""
    sensor: NameList = ()
    """long files: column of the sensor; of several names the first that is there"""
    channel: str | None = None
    """long files: column of a sensor's channel (direction, lane, side)"""
    count: NameList = ()
    """long files: column of the count; of several names the one that is there. Several that are there are
    channels of the sensor"""
    columns: dict[str, str] = Field(default_factory=dict)
    """wide files: sensor of each column; several of one are its channels. A name may have * for anything"""
    column_pattern: str | None = None
    """wide files instead of `columns`: regular expression with the groups `sensor` and `channel`; a column
    that is the name of a sensor with channels is its total, and left out"""
    ignore: NameList = ()
    """columns that hold no counts, and sensors of long files that are not taken"""
    names: dict[str, str] = Field(default_factory=dict)
    """the deployment's name for a sensor of the file"""
    lookup_file: Path | None = None
    """table (as the files) with names or sites for the sensors of the file"""
    lookup_key: str | None = None
    """its column of what the file says"""
    lookup_name: str | None = None
    """its column of the sensor that is meant; several keys of one are channels"""
    channels: Literal["refuse", "sum", "apart"] = OPTION_SETTINGS["connect.files.channels"].field()
    decimals: Decimals = "refuse"
    largest_factor: LargestFactor = None
    thousands: Literal[".", ",", " ", "'"] | None = None
    """what stands between thousands, as in 1.234"""
    decimal: Literal[".", ","] | None = None
    """the decimal mark; none = a point, and 1.234 is refused, as it may be a thousand"""
    missing: NameList = ()
    """further marks of cells without a count; empty ones, NA, - and the like are known"""
    kind: CountKind = "periodic"
    keep: NameList = ()
    """channels that count people of their own, though they look like the total of others, or like a running
    total, or have nothing but zeros"""
    repeated: Literal["refuse", "drop"] = "refuse"
    """several counts of one channel and interval: drop takes none of them"""
    shorter: ShorterIntervals = "refuse"
    uptime: str | None = None
    """column with the share of the interval in which the counter worked"""
    least_uptime: LeastUptime = 0.5

    @field_validator("week")
    @classmethod
    def _begins_on_monday(cls, week: date | None) -> date | None:
        if week is not None and week.weekday() != 0:
            raise ValueError(f"must be a Monday, got {week} ({week:%A})")
        return week


class OccupancySettings(Section):
    """How many are inside a place, from what is published of its doors."""

    entered: NameList = Field(min_length=1)
    """sensors that count who comes in"""
    left: NameList = Field(min_length=1)
    """sensors that count who goes out"""
    empty_at: time = time(4)
    """when nobody is inside, by the local clock, like 04:00: it begins anew"""
    drift: float = Field(ge=0, lt=1)
    """share of the passages that devices miss or count twice at most; low and high hold it"""

    @model_validator(mode="after")
    def _counts_each_sensor_once(self) -> OccupancySettings:
        names = (*self.entered, *self.left)
        if len(set(names)) < len(names):
            raise ValueError("each sensor of an occupancy must count one direction, and be named once")
        if self.empty_at.second or self.empty_at.tzinfo is not None:
            raise ValueError("empty_at must be a minute of the local clock, like 04:00")
        return self

    def of(self, place: str) -> Occupancy:
        """The same as what is computed."""
        minute = 60 * self.empty_at.hour + self.empty_at.minute
        return Occupancy(place, tuple(self.entered), tuple(self.left), minute, self.drift)


class QualitySettings(Section):
    """What is known, or suspected, of devices: a table declared beforehand, and when to warn the operator."""

    exclusions: Path | None = None
    """table (CSV: sensor, from, to, reason) of when which sensors are not active: maintained, broken,
    calibrated. It is public, and chosen without looking at counts"""
    silent_steps: int | None = Field(default=None, ge=1)
    """suspect a device that has sent no count for so many of its announced steps in a row; none = never"""
    same_steps: int | None = Field(default=None, ge=2)
    """suspect a device that has sent the same count so many times in a row; none = never. Choose more than a
    quiet night has steps"""
    largest_count: int | None = Field(default=None, ge=0)
    """suspect a device that counts more than this in a step; none = never"""
    largest_counts: dict[str, Annotated[int, Field(ge=0)]] = Field(default_factory=dict)
    """the same for single sensors, by name"""

    @property
    def watches(self) -> bool:
        """Whether devices are watched."""
        limits = (self.silent_steps, self.same_steps, self.largest_count)
        return bool(self.largest_counts) or any(limit is not None for limit in limits)


ScaledCounts: TypeAlias = FilesMap | PayloadSettings | SensorThingsSettings
"""What says whether counts with decimals are taken, and by how much one person moves a count."""


class ConnectSettings(Section):
    """How counts come in that are no messages, and how releases go out."""

    files: FilesMap = FilesMap()
    """files of counts"""
    http: HttpSettings = HttpSettings()
    """payloads that counters send over HTTP"""
    mqtt: MqttSettings = MqttSettings()
    """an MQTT broker"""
    sensorthings: SensorThingsSettings = SensorThingsSettings()
    """a service of OGC SensorThings 1.1"""

    @property
    def scaled(self) -> list[ScaledCounts]:
        """The mappings that declare that counts were scaled before they came."""
        mappings = (self.files, self.http.map, self.mqtt.map, self.sensorthings)
        return [mapping for mapping in mappings if mapping.largest_factor is not None]

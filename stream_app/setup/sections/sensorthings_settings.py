"""Settings of the SensorThings connector: the service, and which of its datastreams are whose counts."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, SecretStr, field_validator, model_validator

from stream_app.setup.sections.settings_section import Section, refuse_login, take_secret


class SensorThingsSettings(Section):
    """Where the service is, which datastreams are read, and which receive releases."""

    url: str = Field(default="", description="service root, like https://host/FROST-Server/v1.1")
    datastreams: dict[str, str] = Field(
        default_factory=dict, description="datastreams that are read: id, and the sensor whose counts it has"
    )
    releases: dict[str, str] = Field(
        default_factory=dict,
        description="datastreams of our own: sensor, and the id that receives its releases",
    )
    since: datetime | None = Field(
        default=None, description="start of the first interval that is read, with time zone; none = origin"
    )
    interval_seconds: Annotated[int, Field(ge=1)] | None = Field(
        default=None,
        description="length of an interval whose phenomenonTime is one instant; none = such are refused",
    )
    instant: Literal["start", "end"] = Field(
        default="start", description="which end of its interval a phenomenonTime of one instant is"
    )
    ends: Literal["recognise", "exclusive", "inclusive"] = Field(
        default="recognise",
        description="what an interval's end is: the next one's start, or the last second (millisecond) that "
        "belongs to it; recognise = inclusive where intervals, two at least, all end so",
    )
    tolerance_seconds: Annotated[int, Field(ge=0)] = Field(
        default=0, description="how far a time may be off the bound of a step and be taken for it"
    )
    shorter: Literal["refuse", "sum"] = Field(
        default="refuse",
        description="intervals shorter than a step: sum adds them where all of a step were counted",
    )
    timezone: str | None = Field(
        default=None, description="time zone of a phenomenonTime without an offset, like Europe/Vienna"
    )
    ambiguous: Literal["refuse", "earlier", "later"] = Field(
        default="refuse", description="with timezone: times that the clock shows twice in autumn"
    )
    decimals: Literal["refuse", "round"] = Field(
        default="refuse",
        description="results with decimals: round takes the nearest, and needs largest_factor",
    )
    largest_factor: Annotated[float, Field(gt=0, le=1000)] | None = Field(
        default=None,
        description="by how much one person moves a count at most, where counts were scaled, converted or "
        "averaged before they came; sensors must declare most_counts of it, rounded up",
    )
    look_back_seconds: Annotated[int, Field(ge=0)] | None = Field(
        default=None,
        description="how far each look goes back behind the last interval, for what came late; none = "
        "grace + 1 steps",
    )
    poll_seconds: Annotated[float, Field(gt=0)] = Field(default=60.0, description="time between two looks")
    page: Annotated[int, Field(ge=1, le=100_000)] = Field(
        default=1000, description="observations asked for at once; the service may give fewer"
    )
    links: Literal["refuse", "here"] = Field(
        default="refuse",
        description="links to pages at another address, as a service behind a proxy gives them: refused, or "
        "asked for at url",
    )
    answer_seconds: Annotated[float, Field(gt=0)] = Field(
        default=60.0, description="time in which the service must answer a request"
    )
    ca_file: Path | None = Field(default=None, description="certificate authority of the service (PEM)")
    username: str | None = Field(default=None, description="user, where the service asks for one")
    password: SecretStr | None = Field(default=None, description="its password; not in the settings file")
    password_file: Path | None = Field(default=None, description="file with the password")
    token: SecretStr | None = Field(
        default=None, description="bearer token instead of user and password; not in the settings file"
    )
    token_file: Path | None = Field(default=None, description="file with the token")

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

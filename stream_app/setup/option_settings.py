"""Settings and choices that have an option as well, each declared once for the engine and the command line.

A section of the settings takes its field from here; :func:`stream_app.cli.shared.setting_option` makes the
option. They stand apart from :mod:`stream_app.setup.settings` because every ``--help`` reads them, and the
settings load pydantic and numpy.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import Any, NamedTuple

from accounting.settings import HORIZON, MISTAKES


class NewPriors(StrEnum):
    """What new priors of people who are there already are taken to say about the steps before them."""

    REDONE = "redone"
    TOLD = "told"


class Period(StrEnum):
    """What is to be so near: each value, or a sensor's total of so long."""

    STEP = "step"
    HOUR = "hour"
    DAY = "day"
    WEEK = "week"


class RiskFormat(StrEnum):
    """How records of single people are written; summaries are always JSONL."""

    JSONL = "jsonl"
    PARQUET = "parquet"


class ExportFormat(StrEnum):
    """Kinds of files that an export may have."""

    CSV = "csv"
    PARQUET = "parquet"
    GEOJSON = "geojson"
    NGSI_LD = "ngsi-ld"


class OptionSetting(NamedTuple):
    """A setting: its default, what it means, and its bounds by the names that pydantic has for them."""

    default: Any
    description: str
    bounds: Mapping[str, Any] = {}

    def field(self) -> Any:
        """The field of a section."""
        from pydantic import Field

        return Field(default=self.default, description=self.description, **self.bounds)


OPTION_SETTINGS: Mapping[str, OptionSetting] = {
    "horizon": OptionSetting(
        HORIZON, "how many of the latest steps the adversary tries to reconstruct (T)", {"ge": 1}
    ),
    "mistakes": OptionSetting(
        MISTAKES,
        "how many of these steps the adversary may get wrong (s); with many, habits alone succeed",
        {"ge": 0},
    ),
    "delta": OptionSetting(1e-6, "delta of the differential-privacy account", {"gt": 0, "lt": 1}),
    "listen": OptionSetting("127.0.0.1:9464", "address of metrics, health and page, host:port; empty = none"),
    "crowd.known": OptionSetting(
        0, "people whose movements this adversary knows all the same, any of them", {"ge": 0}
    ),
    "crowd.companions": OptionSetting(
        0, "people who always move with whoever is traced, as in a family", {"ge": 0}
    ),
    "crowd.alone": OptionSetting(
        1.0,
        "share of the people, at each sensor, who move independently of all others",
        {"ge": 0.0, "le": 1.0},
    ),
    "crowd.least": OptionSetting(
        1.0,
        "share of each persona's people who are there in any case: 0.8 if a weight of 200 may be 160",
        {"ge": 0.0, "le": 1.0},
    ),
    "crowd.counted_once": OptionSetting(
        0.0,
        "chance of each of the others to be counted exactly once where a person may be counted again",
        {"ge": 0.0, "le": 1.0},
    ),
    "release.budget.share": OptionSetting(
        0.0, "share of people who may be over the limit", {"ge": 0, "le": 1}
    ),
    "release.budget.risk": OptionSetting(
        None, "limit of the ceiling: chance of being traced through the horizon", {"gt": 0, "le": 1}
    ),
    "release.budget.added": OptionSetting(
        None, "limit of added risk: how much releases may raise that chance", {"ge": 0, "le": 1}
    ),
    "release.budget.look_ahead": OptionSetting(
        0,
        "announced steps to save some of the budget for; 0 = first come, first served",
        {"ge": 0, "le": 10_000},
    ),
    "connect.files.preset": OptionSetting(
        None, "mapping to begin with: one of `tallyguard connect presets`, or a TOML file"
    ),
    "connect.files.timezone": OptionSetting(
        None, "time zone of times that show the clock on the wall, like Europe/Vienna"
    ),
    "connect.files.channels": OptionSetting(
        "refuse", "several channels of a sensor: one count, or a sensor each"
    ),
    "connect.http.listen": OptionSetting("127.0.0.1:9470", "address of the receiver, host:port"),
}
"""By the name of the setting, with dots between levels as in the tables of the file."""

"""Sensors and their channels, by what files call them and what the deployment does."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from stream_app.exceptions import InputError
from stream_app.setup.sections.connect_settings import FilesMap
from stream_app.starting.connect.archive_file import ArchiveTable
from stream_app.starting.connect.personal_columns import refuse_addresses
from stream_app.starting.connect.wide_columns import WideColumn
from stream_app.starting.counts.tables import read_table, text_column


class SiteNames:
    """Numbers the channels of all files as they come; sensors are sorted by name."""

    def __init__(self, mapping: FilesMap) -> None:
        self._mapping = mapping
        self._lookup = _lookup(mapping)
        self._number: dict[tuple[str, str], int] = {}

    @property
    def channels(self) -> int:
        """How many channels there are so far."""
        return len(self._number)

    def of_rows(self, table: ArchiveTable) -> NDArray[np.int64]:
        """The channel of each row of a long file."""
        sensor = table.full(str(table.chosen.sensor), "a sensor")
        refuse_addresses(str(table.path), sensor.texts)
        if table.chosen.channel is None:
            numbers = [self._numbered(text, "") for text in sensor.texts]
            return np.array(numbers, dtype=np.int64)[sensor.at]
        channel = table.full(table.chosen.channel, "a channel")
        refuse_addresses(str(table.path), channel.texts)
        sensors, channels = sensor.texts, channel.texts
        width = len(channels)
        pairs, index = np.unique(sensor.at * width + channel.at, return_inverse=True)
        numbers = [self._numbered(sensors[pair // width], channels[pair % width]) for pair in pairs.tolist()]
        return np.array(numbers, dtype=np.int64)[index]

    def of_column(self, column: WideColumn) -> int:
        """The channel of a column of a wide file."""
        return self._numbered(column.sensor, column.channel)

    @property
    def sensors(self) -> tuple[str, ...]:
        """The deployment's sensors; :class:`InputError` where it is not declared what channels are."""
        return tuple(self._by_sensor())

    def channels_by_sensor(self) -> Sequence[list[int]]:
        """The channels of each sensor, in the order of :attr:`sensors`."""
        return list(self._by_sensor().values())

    def _by_sensor(self) -> dict[str, list[int]]:
        found: dict[str, list[int]] = {}
        for (sensor, channel), number in self._number.items():
            is_apart = self._mapping.channels == "apart" and channel
            found.setdefault(f"{sensor}/{channel}" if is_apart else sensor, []).append(number)
        several = [name for name, channels in found.items() if len(channels) > 1]
        if several and self._mapping.channels != "sum":
            raise InputError(
                "it must be declared what several channels of a sensor are",
                f"{len(several):,} sensors with several, such as {several[0]!r}",
                'set channels = "sum" (one count) or "apart" (a sensor each), or give --channels',
            )
        return {name: found[name] for name in sorted(found)}

    def _numbered(self, text: str, channel: str) -> int:
        name = text
        if self._lookup is not None:
            if text not in self._lookup:
                raise InputError(
                    f"each sensor of the counts must stand in {self._mapping.lookup_file}",
                    f"{text!r} does not, in column {self._mapping.lookup_key!r}",
                    "add it, or correct lookup_key",
                )
            name = self._lookup[text]
            channel = channel or text
        if name in self._mapping.names:
            channel = channel or name
            name = self._mapping.names[name]
        if not 1 <= len(name) <= 256:
            raise InputError("a sensor's name must have 1 to 256 characters", f"{len(name)}", "set names")
        return self._number.setdefault((name, channel), len(self._number))


def _lookup(mapping: FilesMap) -> dict[str, str] | None:
    keys = (mapping.lookup_file, mapping.lookup_key, mapping.lookup_name)
    if all(key is None for key in keys):
        return None
    if mapping.lookup_file is None or mapping.lookup_key is None or mapping.lookup_name is None:
        raise InputError(
            "lookup_file, lookup_key and lookup_name must stand together in [connect.files]",
            "some of them",
            'write lookup_file = "channels.csv", lookup_key = "channel_id", lookup_name = "site_id"',
        )
    table = read_table(mapping.lookup_file)
    for key in (mapping.lookup_key, mapping.lookup_name):
        if key not in table.column_names:
            raise InputError(
                f"{mapping.lookup_file} must have the column {key!r}", "none", "correct the mapping"
            )
    columns = [text_column(table, key).to_pylist() for key in (mapping.lookup_key, mapping.lookup_name)]
    rows = [(str(key).strip(), str(name or "").strip()) for key, name in zip(*columns, strict=True)]
    found = dict(rows)
    if len(found) < len(set(rows)):
        raise InputError(
            f"{mapping.lookup_file} must name one sensor for each {mapping.lookup_key!r}",
            "several for one",
            "drop the rows that no longer hold",
        )
    return found

"""What was read, as a picture (SVG) for whoever knows the city: when each sensor counted, and how many."""

from __future__ import annotations

from html import escape

import numpy as np
from numpy.typing import NDArray

from stream_app.starting.counts.count_table import CountTable
from stream_app.starting.counts.doubts import NOT_COUNTED

_MOST_SENSORS, _MOST_SPANS = 60, 240
_LEFT, _TOP, _ROW, _SPAN, _RIGHT = 260, 48, 20, 4, 150
_NOT_COUNTED = "#f2d5d0"


def picture(counts: CountTable) -> str:
    """A row a sensor, the busiest first; a column a span of time, darker where more people were counted.

    Red is what nobody counted: more than half of a span. The shade is of the sensor's own busiest span. It
    shows counts, so it is for their owner.
    """
    rows = sorted(counts.by_sensor(), key=lambda each: -each.people)[:_MOST_SENSORS]
    steps = len(counts.table)
    spans = min(_MOST_SPANS, steps)
    bounds = np.linspace(0, steps, spans + 1).astype(np.int64)
    width, height = _LEFT + spans * _SPAN + _RIGHT, _TOP + len(rows) * _ROW + 12
    first, last = min(each.first for each in rows), max(each.last for each in rows)
    drawn = [
        _text(8, 20, f"{first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M}, {counts.zone}; red: not counted"),
        _text(_LEFT + spans * _SPAN + 8, 40, "people (missing)"),
    ]
    for place, row in enumerate(rows):
        top = _TOP + place * _ROW
        drawn.append(_text(8, top + 14, row.sensor if len(row.sensor) < 36 else f"{row.sensor[:35]}…"))
        missing = row.missing / (row.counted + row.missing)
        drawn.append(_text(_LEFT + spans * _SPAN + 8, top + 14, f"{row.people:,} ({missing:.1%})"))
        drawn += _cells(counts.table[:, counts.sensors.index(row.sensor)], bounds, top)
    body = "\n".join(drawn)
    form = f'width="{width}" height="{height}" font-family="sans-serif" font-size="12"'
    ground = '<rect width="100%" height="100%" fill="white"/>'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {form}>\n{ground}\n{body}\n</svg>\n'


def _cells(column: NDArray[np.int64], bounds: NDArray[np.int64], top: int) -> list[str]:
    """The spans of a sensor: its mean where half of it or more was counted."""
    counted = column != NOT_COUNTED
    lengths = np.diff(bounds)
    many = np.add.reduceat(counted, bounds[:-1], dtype=np.int64)
    people = np.add.reduceat(np.where(counted, column, 0), bounds[:-1])
    mean = people / np.maximum(many, 1)
    shade = mean / max(float(mean.max()), 1e-9)
    return [
        f'<rect x="{_LEFT + place * _SPAN}" y="{top + 2}" width="{_SPAN}" height="{_ROW - 4}" '
        f'fill="{_NOT_COUNTED if 2 * many[place] < lengths[place] else _blue(float(shade[place]))}"/>'
        for place in range(lengths.size)
    ]


def _blue(share: float) -> str:
    red, green, blue = (
        round(light + (dark - light) * share) for light, dark in ((232, 8), (241, 48), (250, 107))
    )
    return f"#{red:02x}{green:02x}{blue:02x}"


def _text(left: int, top: int, words: str) -> str:
    return f'<text x="{left}" y="{top}">{escape(words)}</text>'

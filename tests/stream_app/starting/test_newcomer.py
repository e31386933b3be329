"""What becomes of files as cities have them: published ones, and the smallest that were once read wrongly."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks.newcomer import WALKS, walk
from stream_app.exceptions import InputError
from stream_app.starting.connect.guess import read_counts
from tests.shared_files import shared
from tests.stream_app.command_line import Tallyguard


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_from_a_file_to_a_checked_deployment_it_takes_three_commands_and_an_edit_at_most(
    tmp_path: Path, name: str, tallyguard: Tallyguard
) -> None:
    def command(*words: object) -> tuple[int, str, str]:
        done = tallyguard(*words)
        return done.code, done.out, done.err

    done = walk(shared(f"data/counters/{name}"), tmp_path, command)
    assert done.codes[-1] == 0, done.said
    assert done.commands <= 3
    assert done.edits <= 1
    assert WALKS[name].asked in done.said[0]


ASKED = {
    "files/german-thousands-long.csv": "thousands or decimals",
    "files/german-thousands.csv": "thousands or decimals",
    "files/mta-running-total-as-count.csv": "totals since a counter began",
    "files/negative.csv": "if it marks what was not counted",
    "files/ragged.csv": "line 3 with 2",
    "files/seattle-2nd-ave-one-gap.csv": "the sum of 'nb', 'sb'",
    "files/total-no-gap.csv": "the sum of",
    "files/total-with-one-gap.csv": "the sum of",
    "files/two-count-columns.csv": "what several channels of a sensor are",
    "files/two-sites-with-totals.csv": "the sum of",
    "files/yyyymmddhh.csv": "unix seconds, or year, month, day and hour",
    "field/c04b_long.csv": "the sum of",
    "field/c04c_districts.csv": "the sum of",
    "field/c18_fr.csv": "decimals",
    "field/c19b.csv": "the sum of",
}
"""Files that raise their question."""

READ = {
    "files/daily-over-dst.csv": ("Europe/Berlin", "2025-03-28T23:00:00+00:00", [5, 6, 7, 8], ""),
    "files/hour-first.csv": ("Europe/London", "2014-03-28T00:00:00+00:00", [1, 2, 3], ""),
    "files/offset-autumn.csv": (None, "2022-10-30T00:00:00+00:00", [1, 2, 3, 4], ""),
    "files/offset-iso.csv": (None, "2022-04-30T22:00:00+00:00", [1, 2, 3], ""),
    "files/offset-spring.csv": (None, "2022-03-27T00:00:00+00:00", [1, 2, 3, 4], ""),
    "files/offset-with-format.csv": (None, "2022-04-30T22:00:00+00:00", [1, 2, 3], ""),
    "field/c03_telraam.csv": (None, "2026-03-02T06:00:00+00:00", [11, 24, 33, 30, -1, 9], "less than 0.5"),
    "field/c12_down.csv": ("UTC", "2026-03-02T00:00:00+00:00", None, "no people in 22 intervals in a row"),
    "field/c12b_stuck.csv": ("UTC", "2026-03-02T00:00:00+00:00", None, "the same number of people in 29"),
    "field/c14.csv": ("UTC", "2026-03-02T08:00:00+00:00", [5, 6], "ends are taken as inclusive"),
}
"""Files that are read: first hour, the first sensor's counts, and what is said of them."""


@pytest.mark.parametrize("name", ASKED)
def test_what_was_once_read_wrongly_raises_its_question(name: str) -> None:
    with pytest.raises(InputError, match=ASKED[name].replace("(", ".")):
        read_counts(shared(f"repro/{name}"), timezone="Europe/Berlin")


@pytest.mark.parametrize("name", READ)
def test_what_was_once_read_wrongly_has_its_hours_and_counts(name: str) -> None:
    zone, origin, counts, said = READ[name]
    found = read_counts(shared(f"repro/{name}"), timezone=zone)
    assert found.origin.isoformat() == origin
    assert counts is None or found.table[:, 0].tolist() == counts
    assert said in " ".join(found.remarks)

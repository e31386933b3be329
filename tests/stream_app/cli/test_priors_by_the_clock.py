"""``priors fit`` and ``priors check`` over a year with two changes of clocks and holidays."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest

from models.prior_files import load_population
from tests.stream_app.command_line import Tallyguard

ZONE, DAYS = "Europe/Vienna", 330
HOLIDAYS = ("2026-01-06", "2026-05-01", "2026-10-26")
WEEK = ("--window-seconds", "3600", "--slots", "168", "--origin", "midnight", "--top-places", "2")
EXACT = ("--smoothing", "none", "--never-left", "stay", "--shrinkage-weight", "0", "--min-windows", "1")
FIT = ("priors", "fit", "checkins.csv", "--output", "priors.json", *WEEK, *EXACT, "--held-out-windows", "48")
CLOCK = ("--timezone", ZONE, "--holidays", "holidays.txt")
MONDAY, SUNDAY = 0, 6 * 24


@pytest.fixture
def year(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Somebody at work from nine to five by the clock on workdays, at home else, seen in every hour."""
    monkeypatch.chdir(tmp_path)
    rows, start = ["user,time,loc"], datetime(2026, 1, 4, 23, tzinfo=UTC)  # Monday's midnight in Vienna
    for hour in range(24 * DAYS):
        time = start + timedelta(hours=hour)
        clock = time.astimezone(ZoneInfo(ZONE))
        free = clock.weekday() > 4 or clock.date().isoformat() in HOLIDAYS
        rows.append(f"p,{int(time.timestamp())},{'work' if 9 <= clock.hour < 17 and not free else 'home'}")
    (tmp_path / "checkins.csv").write_text("\n".join(rows))
    (tmp_path / "holidays.txt").write_text("# Austria\n" + "\n".join(HOLIDAYS))
    return tmp_path


def leaves_home(path: Path, slot: int) -> float:
    """How likely somebody at home is at work an hour later."""
    population = load_population(path)
    home, work = (population.location_names.index(name) for name in ("home", "work"))
    return float(population.prior(0).transitions[slot].toarray()[home, work])


@pytest.mark.slow
def test_slots_are_hours_of_the_clock_on_the_wall(year: Path, tallyguard: Tallyguard) -> None:
    """Work begins in one slot of each workday and in none of a Sunday; without the clock in two of them."""
    assert tallyguard(*FIT, *CLOCK).code == 0
    path = year / "priors.json"
    assert [leaves_home(path, MONDAY + hour) for hour in (7, 8)] == [0.0, 1.0]
    assert [leaves_home(path, SUNDAY + hour) for hour in (7, 8)] == [0.0, 0.0]
    fitted = load_population(path).fitted
    assert fitted is not None
    assert (fitted.timezone, fitted.holidays) == (ZONE, HOLIDAYS)
    found = tallyguard("priors", "check", "priors.json", "--checkins", "checkins.csv", "--json")
    assert found.document["sharpness"]["unknown"] == 0
    assert found.document["windows"] == 48
    assert tallyguard(*FIT).code == 0
    assert all(0.0 < leaves_home(path, 24 + hour) < 1.0 for hour in (6, 7))  # of UTC, from a Sunday on
    assert "timezone" not in path.read_text()


@pytest.mark.slow
def test_the_clock_may_be_that_of_a_deployment(year: Path, tallyguard: Tallyguard) -> None:
    assert tallyguard(*FIT, *CLOCK).code == 0
    given = (year / "priors.json").read_bytes()
    days = ", ".join(f'"{each}"' for each in HOLIDAYS)
    (year / "t.toml").write_text(f'timezone = "{ZONE}"\nholidays = [{days}]\n')
    assert tallyguard(*FIT, "--config", "t.toml").code == 0
    assert (year / "priors.json").read_bytes() == given
    twice = tallyguard(*FIT, "--config", "t.toml", "--timezone", ZONE)
    assert twice.code == 1
    assert "time zone and holidays must be given once" in twice.err
    alone = tallyguard(*FIT, "--holidays", "holidays.txt")
    assert alone.code == 1
    assert "holidays must be dates of a timezone" in alone.err

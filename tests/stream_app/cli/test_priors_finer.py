"""``tallyguard priors finer`` writes priors that a run by quarters of an hour takes."""

from __future__ import annotations

from pathlib import Path

from models.prior_files import load_population, save_population
from tests.stream_app.command_line import called
from tests.stream_app.engine_support import population


def test_priors_by_hour_become_priors_by_quarter(tmp_path: Path) -> None:
    source, output = tmp_path / "by-hour.json", tmp_path / "by-quarter.parquet"
    save_population(population(), source)
    result = called("priors", "finer", str(source), "--parts", "4", "--output", str(output))
    assert result.exit_code == 0, result.output
    before, after = load_population(source), load_population(output)
    assert after.people == before.people
    assert (after.arrays.slots == 4 * before.arrays.slots).all()

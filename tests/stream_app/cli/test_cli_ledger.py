"""``tallyguard ledger``: a run or a plan, read as every guarantee that holds and refused where none does."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import ZcdpSpend
from accounting.settings import HorizonSettings
from models.noise import CorrelatedNoise
from models.prior_files import load_population
from models.priors import Population
from models.releases import SensorRegistry
from stream_app.analysis.ledger_document import load_log
from stream_app.exceptions import OutputError
from tests.stream_app import engine_support
from tests.stream_app.cli.test_cli import TWO_PEOPLE
from tests.stream_app.command_line import Tallyguard

NOISED = {"sensors": ["work", "park"], "mechanism": "gaussian", "sigma": 3.0}
TIERS = {"sensors": ["work"], "mechanism": "tiered", "epsilon_public": 0.1, "epsilon_partner": 0.4}


@pytest.fixture
def priors(tmp_path: Path) -> Path:
    path = tmp_path / "priors.json"
    path.write_text(json.dumps(TWO_PEOPLE))
    return path


def schedule(folder: Path, steps: list[dict[str, object]]) -> Path:
    path = folder / "schedule.json"
    path.write_text(json.dumps({"first_slot": 0, "steps": steps}))
    return path


def ledger_of(tallyguard: Tallyguard, log: Path, priors: Path, *more: str) -> dict[str, object]:
    result = tallyguard("ledger", str(log), "--priors", str(priors), *more, "--json")
    assert result.code == 0, result.err
    return result.document


def test_a_planned_schedule_is_read_in_full(tallyguard: Tallyguard, tmp_path: Path, priors: Path) -> None:
    """Counts of releases, both neighbour relations, groups, and the reconstruction accountant's own risk."""
    plan = schedule(tmp_path, [NOISED, {"sensors": []}, NOISED])
    document = ledger_of(tallyguard, plan, priors, "--horizon", "3", "--mistakes", "1", "--delta", "1e-5")
    added, moved = document["differential_privacy"]
    assert document["steps"] == 3
    assert document["releases"] == {"gaussian": 4}
    assert added["rho"] == pytest.approx(2 / (2 * 9))
    assert moved["rho"] == pytest.approx(4 / (2 * 9))
    assert added["certified_by"] == "zcdp"
    assert added["epsilon"] == ZcdpSpend(rho=2 * _half_over(9)).epsilon(1e-5)
    assert added["paper_epsilon"] > 0
    assert document["differential_privacy_by_group"]["default"] == added
    accountant = _accountant(load_population(priors), plan)
    assert document["reconstruction"]["risk"]["1"] == accountant.risk().max()
    assert document["reconstruction"]["people"] == 2


def test_a_persona_counts_as_often_as_it_stands_for_people(tallyguard: Tallyguard, tmp_path: Path) -> None:
    """In every figure: who is at or above a threshold, too."""
    two = json.loads(json.dumps(TWO_PEOPLE))
    for person, weight in zip(two["people"], (3.0, 40.0), strict=True):
        person["weight"] = weight
    weighed = tmp_path / "personas.json"
    weighed.write_text(json.dumps(two))
    plan = schedule(tmp_path, [NOISED] * 3)
    document = ledger_of(tallyguard, plan, weighed, "--horizon", "3", "--mistakes", "1")
    found = document["reconstruction"]
    risk = _accountant(load_population(weighed), plan).risk()
    assert found["people"] == 43
    assert found["at_risk"] == {
        level: int(np.array([3, 40])[risk >= float(level)].sum()) for level in found["at_risk"]
    }
    assert set(found["at_risk"].values()) & {3, 40, 43}


def _half_over(square: float):  # type: ignore[no-untyped-def]
    from fractions import Fraction

    return Fraction(1.0 / (2.0 * square))


def _accountant(population: Population, plan: Path) -> ContinuousAccountant:
    accountant = ContinuousAccountant(population, HorizonSettings(3, 1))
    accountant.apply_all(load_log(plan, SensorRegistry.one_per_location(population.location_names)).steps)
    return accountant


def test_bayesian_privacy_is_refused_until_people_are_declared_independent(
    tallyguard: Tallyguard, tmp_path: Path, priors: Path
) -> None:
    """The refusal says what fails and what to do; with the declaration each step costs twice its epsilon."""
    plan = schedule(tmp_path, [TIERS, TIERS])
    refused = ledger_of(tallyguard, plan, priors)["bayesian"]
    assert "3.203" in refused["refused"]
    assert "joint" in refused["remedy"]
    granted = ledger_of(tallyguard, plan, priors, "--independent-people")
    bayesian = granted["bayesian"]
    assert (bayesian["epsilon"], bayesian["releasing_steps"]) == (pytest.approx(0.8), 2)
    assert 0.0 < bayesian["truncated_mass"] < bayesian["delta"] == 1e-6
    assert granted["differential_privacy"][0]["certified_by"] == "pure"


def test_a_run_is_read_from_its_output_folder(tallyguard: Tallyguard, tmp_path: Path, priors: Path) -> None:
    """The published steps of the folder, a decision whose release is still missing left out."""
    lines = engine_support.lines_of(engine_support.messages_of_a_day(12, 3))
    engine_support.run_on(tmp_path / "out", [lines])
    log = load_log(tmp_path / "out", engine_support.REGISTRY)
    published = (tmp_path / "out" / "releases.jsonl").read_bytes().splitlines(keepends=True)
    assert len(log.steps) == len(published)
    (tmp_path / "out" / "releases.jsonl").write_bytes(b"".join(published[:5]) + published[5][:9])
    with pytest.raises(OutputError, match="or every guarantee would be too good"):
        load_log(tmp_path / "out", engine_support.REGISTRY)
    for name in (
        "record.jsonl",
        "progress.json",
        "risks.jsonl",
    ):  # as of a run that was killed before a commit
        (tmp_path / "out" / name).unlink()
    assert load_log(tmp_path / "out", engine_support.REGISTRY).steps == log.steps[:5]
    refused = tallyguard("ledger", str(tmp_path), "--priors", str(priors))
    assert refused.code == 1
    assert "must be the output folder of a run" in refused.err
    gone = tallyguard("ledger", str(tmp_path / "gone"))
    assert (gone.code, "must be the output folder of a run" in gone.err) == (1, True)


@pytest.mark.slow
def test_a_series_with_correlated_noise_answers_for_its_secret(
    tallyguard: Tallyguard, tmp_path: Path, priors: Path
) -> None:
    """The covariance comes from its file; the loss is that of all the sensor's releases together."""
    noise = CorrelatedNoise.of_covariance(np.eye(2) * 4.321 + 1.0)
    np.save(tmp_path / "noise.npy", noise.covariance)
    steps = [
        {"sensors": ["work"], "mechanism": "correlated", "design": noise.design, "position": k % 2}
        for k in range(4)
    ]
    plan = schedule(tmp_path, steps)
    options = ["--covariance", str(tmp_path / "noise.npy"), "--sensor", "work", "--secret", "1,2"]
    document = ledger_of(tallyguard, plan, priors, *options)
    assert document["inferential"]["released_steps"] == 4
    assert document["inferential"]["secret_steps"] == [1, 2]
    assert document["inferential"]["epsilon"] > 0
    assert document["differential_privacy"][0]["certified_by"] == "gaussian"
    audited = tallyguard(
        "audit", str(priors), "--schedule", str(plan), "--mistakes", "1", *options[:2], "--json"
    )
    assert audited.code == 0, audited.err
    assert audited.document[0]["attacks"]["map"] is None
    assert 0.0 < audited.document[0]["certified"] <= 1.0


def test_the_page_for_people_says_what_is_guaranteed_and_what_not(
    tallyguard: Tallyguard, tmp_path: Path, priors: Path
) -> None:
    plan = schedule(tmp_path, [NOISED, {"sensors": ["home"], "mechanism": "raw"}])
    result = tallyguard("ledger", str(plan), "--priors", str(priors), "--oracle")
    assert result.code == 0
    raw = "1 count of sensor home was published exactly"
    assert f"Differential privacy of the whole log, move one person: no guarantee. {raw}" in result.out
    assert "Bayesian privacy of whole traces: no guarantee" in result.out
    assert "Reconstruction, if habits are as assumed: " in result.out
    assert "tell where that person was in at least " in result.out
    assert "most exposed person" in result.out


@pytest.mark.parametrize(
    "arguments", [["--secret", "1"], ["--sensor", "work"], ["--sensor", "work", "--secret", "one"]]
)
def test_half_a_question_is_wrong_usage(
    tallyguard: Tallyguard, tmp_path: Path, priors: Path, arguments: list[str]
) -> None:
    plan = schedule(tmp_path, [NOISED])
    assert tallyguard("ledger", str(plan), "--priors", str(priors), *arguments).code == 2

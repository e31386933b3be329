"""``tallyguard replay RUN``: a run's risks once more from its folder, bit for bit, whatever has changed."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from models.prior_files import save_evidence, save_population
from models.priors import Population, with_draws
from stream_app.analysis.served import sources
from stream_app.embedded import RunOptions, run
from stream_app.embedded.replay import replay_run
from stream_app.exceptions import RunChangedError
from stream_app.setup.option_settings import NewPriors, RiskFormat
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.run_folder.run_settings import settings_of_run
from stream_app.setup.settings import Settings
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.embedded.test_people_change import ACCEPTED, CHANGE, STEPS, day, people
from tests.stream_app.engine_support import TickingClock, settings
from tests.stream_app.kafka.test_deployment_record import _FOUND as FOUND
from tests.stream_app.kafka.test_kafka_evidence import evidence_of

Part = tuple[Population, dict[str, Any], dict[str, Any]]
PARQUET = {"risk_format": RiskFormat.PARQUET}
BUDGET = {"mechanism": "budget", "budget": {"share": 0.1, "added": 0.3}}
REDONE, TOLD = ({**ACCEPTED, "new_priors": rule} for rule in (NewPriors.REDONE, NewPriors.TOLD))
STAY, OTHERS = people(0, 1, 2, 3), people(0, 1, 4, 5, renewed=[1])
CHANGES: dict[str, tuple[Part, Part]] = {
    "nothing": ((STAY, {}, {}), (STAY, {}, {})),
    "people, priors": ((STAY, {}, {}), (OTHERS, REDONE, {})),
    "told, in Parquet": ((STAY, PARQUET, {}), (OTHERS, {**TOLD, **PARQUET}, {})),
    "a crowd comes": ((STAY, {}, {"attack_draws": 0}), (STAY, ACCEPTED, {"adversary": "crowd"})),
    "people in a crowd, in Parquet": (
        (STAY, PARQUET, {"adversary": "crowd", "release": {"mechanism": "raw"}}),
        (OTHERS, {**REDONE, **PARQUET}, {"adversary": "crowd", "release": {"mechanism": "raw"}}),
    ),
    "rule, thresholds, what is written": (
        (STAY, {}, {"release": BUDGET, "risk_every": 3, "most_exposed": 2}),
        (STAY, ACCEPTED, {"thresholds": (0.2, 0.6), "sharpen_operations": 40_000, "attack_draws": 320}),
    ),
    "the shares of the work": (
        (STAY, {}, {"kafka": {"partitions": 60}, "sharpen_operations": 200_000}),
        (STAY, ACCEPTED, {"kafka": {"partitions": 3}, "sharpen_operations": 200_000}),
    ),
    "a budget in hindsight": (
        (STAY, {}, {"release": BUDGET}),
        (
            *(STAY, ACCEPTED),
            {"release": {**BUDGET, "budget": {"share": 0.0, "added": 0.3, "hindsight": True}}},
        ),
    ),
}


def run_of(folder: Path, parts: tuple[Part, Part]) -> Path:
    """A run that was stopped and went on with something else."""
    for (who, options, changed), data in zip(parts, (day(0, CHANGE), day(CHANGE, STEPS)), strict=True):
        given = settings(**{"risk_every": 1, **changed})
        run(given, RunOptions(folder, **options), who, clock=TickingClock(), chunks=[data])
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("name", CHANGES)
def test_every_risk_follows_from_decisions_and_people_before_and_after_a_change(
    tmp_path: Path, name: str
) -> None:
    """Nothing is asked but the folder; settings at hand count for nothing."""
    out, lines = run_of(tmp_path / "out", CHANGES[name]), []
    found = replay_run(out, Settings(attack_draws=7, risk_every=2, most_exposed=0), lines.append)
    assert found.is_same and found.steps == STEPS and found.compared == len(lines) > 2 * STEPS, found
    if "Parquet" not in name:
        assert b"\n".join(lines) + b"\n" == (out / "risks.jsonl").read_bytes()


@pytest.mark.slow
def test_the_shares_of_the_work_are_those_of_the_run(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """Every reader takes them from the folder; other ones are refused, and no run takes them unasked."""
    (first, (who, accepted, changed)) = CHANGES["the shares of the work"]
    out = run_of(tmp_path / "out", (first, (who, {}, first[2])))
    assert json.loads((out / "run.json").read_bytes())["kafka.partitions"] == 60
    assert settings_of_run(out, Settings()).kafka.partitions == 60
    config = tmp_path / "other.toml"
    for partitions, code in ((60, 0), (4, 1)):
        config.write_text(f"[kafka]\npartitions = {partitions}\n")
        found = tallyguard("replay", out, "--config", config)
        assert found.code == code, found
        assert ("kafka.partitions must be what" in found.err) == (code == 1)
    other = settings(**{"risk_every": 1, **changed})
    with pytest.raises(RunChangedError, match=r"kafka\.partitions was 60, is 3; .* --accept-changes"):
        run(other, RunOptions(out), who, clock=TickingClock(), chunks=[day(CHANGE, STEPS)])
    run(other, RunOptions(out, **accepted), who, clock=TickingClock(), chunks=[day(CHANGE, STEPS)])
    assert settings_of_run(out, Settings()).kafka.partitions == 3


@pytest.mark.slow
def test_a_run_that_did_not_record_its_shares_has_those_that_are_given(tmp_path: Path) -> None:
    """As of an earlier version: it goes on with what is set, which is recorded then."""
    first, _ = CHANGES["the shares of the work"]
    out = run_of(tmp_path / "out", (first, (first[0], {}, first[2])))
    for name in ("run.json", "record.jsonl"):
        text = (out / name).read_text()
        (out / name).write_text(re.sub(r'\s*"kafka.partitions": ?60,', "", text))
        assert (out / name).read_text() != text
    assert settings_of_run(out, Settings.model_validate({"kafka": {"partitions": 60}})).kafka.partitions == 60
    assert settings_of_run(out, Settings()).kafka.partitions == Settings().kafka.partitions


def checked(who: Population) -> PriorsVerdict:
    """A check by which these people's priors are refuted."""
    return PriorsVerdict.model_validate({**FOUND, "priors": who.fingerprint, "verdict": "ceilings too low"})


@pytest.mark.slow
def test_a_check_of_the_priors_is_one_of_the_copy_that_the_run_keeps(tmp_path: Path) -> None:
    """Replayed, and served with everybody there, though the copy has pseudonyms for the names of the file."""
    later = {"priors_check": checked(STAY)}
    out = run_of(tmp_path / "out", ((STAY, {}, {}), (STAY, ACCEPTED, later)))
    found = replay_run(out, Settings())
    assert found.is_same and found.compared > 4 * STEPS, found
    (served,) = sources([out], None, None)
    assert served.missing is None
    assert len(served.population) == len(STAY)


@pytest.mark.slow
def test_chains_are_drawn_for_the_people_of_a_file(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """Their ids are not in the folder: without the file nothing is compared, and it is said why."""
    save_evidence(evidence_of(STAY), tmp_path / "evidence.parquet")
    save_population(STAY, tmp_path / "priors.parquet")
    chains = {"evidence": tmp_path / "evidence.parquet", "posterior_draws": 3}
    drawn = with_draws(STAY, evidence_of(STAY), 3)
    out = run_of(tmp_path / "out", ((STAY, {}, {}), (drawn, ACCEPTED, chains)))
    found = tallyguard("replay", out, "--priors", tmp_path / "priors.parquet", "--json")
    assert found.code == 0 and found.document["compared"] > 4 * STEPS, found
    alone = tallyguard("replay", out)
    assert alone.code == 1 and "name the priors that the run had with --priors" in alone.err


@pytest.mark.slow
def test_what_was_changed_is_missing_or_is_by_another_version_is_said(
    tmp_path: Path, tallyguard: Tallyguard
) -> None:
    """A figure, a line and a line too many; the exit status says it, too."""
    out = run_of(tmp_path / "out", CHANGES["people, priors"])
    assert tallyguard("replay", out).code == 0
    written = (out / "risks.jsonl").read_bytes().splitlines(keepends=True)
    at = next(number for number, line in enumerate(written) if b'"type":"risk",' in line)
    other = json.loads(written[at])
    for changed, said in (
        (
            [json.dumps({**other, "risk": 0.5}, separators=(",", ":")).encode() + b"\n"],
            "0 missing, 1 different",
        ),
        ([], "1 missing, 0 different"),
        ([written[at], written[at].replace(other["person"].encode(), b"0" * 32)], "1 missing, 0 different"),
    ):
        (out / "risks.jsonl").write_bytes(b"".join([*written[:at], *changed, *written[at + 1 :]]))
        found = tallyguard("replay", out, "--output", tmp_path / "again.jsonl")
        assert found.code == 1 and said in found.out and '"step":0,"person":' in found.out
        assert (tmp_path / "again.jsonl").read_bytes() == b"".join(written)
        assert "another version" not in found.out
    with pytest.MonkeyPatch.context() as upgrade:
        upgrade.setattr("stream_app.embedded.replay.own_version", lambda: "99.0")
        assert "were accounted by another version" in tallyguard("replay", out).out


@pytest.mark.slow
def test_a_lost_copy_of_earlier_priors_is_named(tmp_path: Path, tallyguard: Tallyguard) -> None:
    out = run_of(tmp_path / "out", CHANGES["people, priors"])
    for kept in out.glob("priors-*.parquet"):
        kept.rename(kept.with_suffix(".away"))
    found = tallyguard("replay", out)
    assert found.code == 1 and "must hold a copy of the priors" in found.err

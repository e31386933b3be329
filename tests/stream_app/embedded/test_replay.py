"""``tallyguard replay RUN``: a run's risks once more from its folder, bit for bit, whatever has changed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from models.priors import Population
from stream_app.embedded import RunOptions, run
from stream_app.embedded.replay import replay_run
from stream_app.setup.option_settings import NewPriors, RiskFormat
from stream_app.setup.settings import Settings
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.embedded.test_people_change import ACCEPTED, CHANGE, STEPS, day, people
from tests.stream_app.engine_support import TickingClock, settings

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

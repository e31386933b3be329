"""Habits that changed at a step (``--new-priors told``) beside everything else that a run can have."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.hmm.propagation import law_at
from models.prior_files import save_evidence, save_population
from models.priors import Lists, Population, with_draws
from stream_app.analysis.accounted_again import read_accounted
from stream_app.analysis.checked_run import check_run
from stream_app.embedded import RunOptions, run
from stream_app.embedded.replay import replay_run
from stream_app.exceptions import OutputError, SettingsError
from stream_app.setup.run_folder.durable import AppendFile
from stream_app.setup.run_folder.people_record import NewPriors
from stream_app.setup.run_folder.run_settings import with_recorded_windows
from stream_app.setup.sensor_files import load_registry
from stream_app.setup.settings import Settings
from stream_app.steps.policy import designs_of
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.embedded.test_people_change import (
    ACCEPTED,
    Killed,
    _dying,
    people,
    pseudonyms,
    risks,
)
from tests.stream_app.engine_support import (
    NAMES,
    TickingClock,
    activation,
    lines_of,
    messages_of_a_day,
    outputs_of,
    reading,
    settings,
)
from tests.stream_app.kafka.test_kafka_evidence import evidence_of

pytestmark = pytest.mark.slow

STEPS, CHANGE, DRAWS = 20, 10, 3
TOLD = {**ACCEPTED, "new_priors": NewPriors.TOLD}
BEFORE, AFTER = people(0, 1, 2, 3), people(0, 1, 2, 3, renewed=[1, 3])
ROWS: list[dict[str, Any]] = [
    {"name": "A", "locations": ["A"], "window": 4},  # windows end with steps 3, 7, 11: one is open at 10
    {"name": "B", "moves": [["A", "B"], ["B", "A"]], "counts": "passages", "most_counts": 3, "window": 3},
    {"name": "C", "locations": ["C"], "counts": "passages", "most_counts": 2, "window": 4},
    {"name": "D", "locations": ["D"]},
]
ENDS = {"A": 4, "B": 3, "C": 4, "D": 1}
BUDGET = {"mechanism": "budget", "budget": {"added": 0.3, "share": 0.5}}
BESIDE: Mapping[str, tuple[str, ...]] = {
    "windows": ("windows",),
    "correlated noise": ("covariance",),
    "crowd": ("crowd",),
    "evidence": ("evidence",),
    "windows under a budget": ("windows", "budget"),
    "a budget in the crowd": ("crowd", "budget"),
    "all of them": ("windows", "crowd", "evidence", "budget"),
}


def given(folder: Path, features: tuple[str, ...], **more: Any) -> Settings:
    """The settings with these features, whose files are beside the run, and ``more``."""
    folder.mkdir(exist_ok=True)
    noise = {"mechanism": "gaussian", "sigma": 8.0}
    found: dict[str, Any] = {"risk_every": 1, "attack_draws": 16, "release": noise}
    if "windows" in features:
        (folder / "sensors.json").write_text(json.dumps({"sensors": ROWS}))
        found["sensors"] = folder / "sensors.json"
    if "covariance" in features:
        np.save(folder / "covariance.npy", 4.0 * np.eye(4) + np.ones((4, 4)))
        found["release"] = {"mechanism": "correlated", "covariance": folder / "covariance.npy"}
    if "crowd" in features:
        found["adversary"] = "crowd"
    if "evidence" in features:
        found |= {"evidence": folder / "evidence.parquet", "posterior_draws": DRAWS}
    if "budget" in features:
        found["release"] = BUDGET
    return settings(**found, **more)


def who(folder: Path, features: tuple[str, ...], everybody: Population) -> Population:
    """These people, with chains where there is evidence: more of it after the change."""
    if "evidence" not in features:
        return everybody
    evidence = evidence_of(everybody)
    if everybody is AFTER:
        evidence = replace(evidence, rows=Lists(evidence.rows.start, evidence.rows.values + 5.0))
    save_evidence(evidence, folder / "evidence.parquet")
    return with_draws(everybody, evidence, DRAWS)


def day(first: int, last: int, features: tuple[str, ...]) -> bytes:
    """Messages of some steps; counts of windows come with their last steps."""
    messages = [m for m in messages_of_a_day(STEPS, 5) if first <= m.step < last]
    if "windows" in features:
        messages = []
        for step in range(first, last):
            ending = [n for n in NAMES if (step + 1) % ENDS[n] == 0 and (n != "B" or step >= ENDS[n])]
            messages += [activation(step, *ending), *(reading(step, name, 7 * step % 11) for name in ending)]
    return lines_of(messages)


def go(folder: Path, features: tuple[str, ...], stops: list[int], options: Mapping[str, Any] = TOLD) -> Path:
    """A run until the change and on from there, stopped at these steps."""
    chosen, out = given(folder, features), folder / "out"
    for number, (first, until) in enumerate(pairwise([0, CHANGE, *stops])):
        everybody = who(folder, features, AFTER if first >= CHANGE else BEFORE)
        wanted = RunOptions(out, **(options if number == 1 else {}))
        run(chosen, wanted, everybody, clock=TickingClock(), chunks=[day(first, until, features)])
    return out


@pytest.mark.parametrize("name", BESIDE)
def test_restarts_without_snapshots_and_kills_lead_to_the_same_files_and_replay(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tallyguard: Tallyguard
) -> None:
    """The ceiling is 1 where the horizon begins before the change, and falls again."""
    features = BESIDE[name]
    whole = go(tmp_path / "whole", features, [STEPS])
    pieces = go(tmp_path / "pieces", features, [CHANGE + 1, CHANGE + 5, STEPS])
    begun = tmp_path / "killed"
    begun_out = go(begun, features, [])
    chosen, after = given(begun, features), who(begun, features, AFTER)
    for at in (1, 3, 6):
        with monkeypatch.context() as patched, pytest.raises(Killed):
            written = count(1)
            for write in ("append", "sync"):
                patched.setattr(AppendFile, write, _dying(getattr(AppendFile, write), written, at))
            data = day(CHANGE, STEPS, features)
            run(chosen, RunOptions(begun_out, **TOLD), after, clock=TickingClock(), chunks=[data])
        (begun_out / "accountant.snapshot").unlink(missing_ok=True)
    data = day(CHANGE, STEPS, features)
    run(chosen, RunOptions(begun_out, **TOLD), after, clock=TickingClock(), chunks=[data])
    assert outputs_of(whole) == outputs_of(pieces) == outputs_of(begun_out)
    assert check_run(whole).is_whole
    renewed = [pseudonyms(AFTER)[number] for number in (1, 3)]
    assert all(risks(whole)[CHANGE][person] == 1.0 for person in renewed)
    assert all(risks(whole)[STEPS - 1][person] < 1.0 for person in renewed)
    assert tallyguard("ledger", whole, "--json").document["reconstruction"]["refused"]
    assert tallyguard("report", whole, "--output", tmp_path / "report.html").code == 0
    if "evidence" not in features:
        found = replay_run(whole, Settings())
        assert found.is_same and found.steps == STEPS, found


@pytest.mark.usefixtures("all_the_work")
@pytest.mark.parametrize("name", ["windows", "correlated noise", "evidence"])
def test_the_account_is_that_of_whoever_is_told_the_place_by_the_earlier_prior(
    name: str, tmp_path: Path
) -> None:
    """Of several chains by the mean of where the earlier ones may have been."""
    features = BESIDE[name]
    out, chosen = go(tmp_path, features, [STEPS]), given(tmp_path, features)
    before, after = who(tmp_path, features, BEFORE), who(tmp_path, features, AFTER)
    laws = []
    for number in (1, 3):
        own = before.chains_of(np.array([number]))
        each = [law_at(before.accounted.chain(chain), None, 0, CHANGE, 0, None) for chain in own]
        laws.append(np.mean(each, axis=0))
    changed = Population.pack(
        [
            replace(AFTER.prior(number), initial=law / law.sum())
            for number, law in zip((1, 3), laws, strict=True)
        ],
        NAMES,
    )
    if after.drawn is not None:
        evidence = evidence_of(AFTER)
        rows = Lists(evidence.rows.start, evidence.rows.values + 5.0)
        changed = with_draws(changed, replace(evidence, rows=rows), DRAWS)
    told = ContinuousAccountant(
        changed, chosen.horizon_settings(0), np.full(2, CHANGE), told=np.ones(2, dtype=np.bool_)
    )
    registry = load_registry(chosen.sensors, NAMES).with_designs(designs_of(chosen.release))
    registry = with_recorded_windows(out, registry)
    told.apply_all(read_accounted(out / "decisions.jsonl", registry))
    found = risks(out)[STEPS - 1]
    assert [found[person] for person in pseudonyms(changed)] == pytest.approx(told.risk().tolist(), abs=1e-12)


def test_replay_with_the_priors_draws_the_chains_again(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """The later steps, whose priors are given; a lost copy of the evidence is named."""
    out = go(tmp_path, ("evidence",), [STEPS])
    save_population(AFTER, tmp_path / "after.parquet")
    refused = tallyguard("replay", out, "--priors", tmp_path / "after.parquet")
    assert refused.code == 1 and "for step 0" in refused.err
    assert tallyguard("ledger", out, "--json").code == 0
    for path in out.glob("evidence-*.parquet"):
        assert path.stat().st_mode & 0o777 == 0o600
        path.unlink()
    everybody = people(0, 1, 2, 3, renewed=[0, 1, 3])
    again = with_draws(everybody, evidence_of(everybody), DRAWS)
    with pytest.raises(OutputError, match="copy of the evidence"):
        run(
            given(tmp_path, ("evidence",)), RunOptions(out, **TOLD), again, clock=TickingClock(), chunks=[b""]
        )


def test_a_limit_in_hindsight_is_refused_in_the_words_of_check(
    tmp_path: Path, tallyguard: Tallyguard
) -> None:
    """It is about the horizons before the change, too, and nothing is known of these any more."""
    hindsight = {"mechanism": "budget", "budget": {"share": 0.0, "risk": 0.9, "hindsight": True}}
    config, priors = tmp_path / "t.toml", tmp_path / "after.json"
    save_population(AFTER, priors)
    limited = settings(risk_every=1, release=hindsight)
    out = tmp_path / "out"
    run(limited, RunOptions(out), BEFORE, clock=TickingClock(), chunks=[day(0, CHANGE, ())])
    past = outputs_of(out)
    with pytest.raises(SettingsError) as refused:
        run(limited, RunOptions(out, **TOLD), AFTER, clock=TickingClock(), chunks=[day(CHANGE, STEPS, ())])
    assert outputs_of(out) == past
    config.write_text('[release]\nmechanism = "budget"\n[release.budget]\nrisk = 0.9\nhindsight = true\n')
    for rule in (None, "told", "redone"):
        said = [] if rule is None else ["--new-priors", rule]
        found = tallyguard("check", "--config", config, "--priors", priors, *said, "--json")
        sentences = [each["sentence"] for each in found.document]
        assert any(str(refused.value).startswith(each) for each in sentences) == (rule == "told")

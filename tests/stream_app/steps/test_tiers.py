"""Tiers and correlated noise in the running engine: one draw a reading, a file a tier, nothing redrawn."""

from __future__ import annotations

import json
import os
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from models.keys import NoiseKey
from models.mechanisms import MECHANISMS, Correlated, Tiered
from models.releases import SensorRelease, StepSchedule, TierValues
from stream_app.exceptions import SettingsError
from stream_app.setup.release_settings import ReleaseSettings
from stream_app.steps.plan import KeyedPublisher, public_release, release_for_tier, tier_names
from stream_app.steps.policy import policy_from
from stream_app.watching.metrics import EngineMetrics
from stream_app.wire.messages import SensorValue, StepRelease, TierValue
from tests.copies import COMMAND_LINE, Copy
from tests.stream_app.embedded.test_journal import Disk
from tests.stream_app.engine_support import (
    NOISE_SECRET,
    REGISTRY,
    activation,
    json_lines,
    lines_of,
    messages_of_a_day,
    outputs_of,
    reading,
    run_on,
)

TIERS = {"public": 0.2, "partner": 1.0}
TIERED = {"release": {"mechanism": "tiered", "tiers": TIERS, "sensors": {"B": {"mechanism": "raw"}}}}
FILES = ("releases-public.jsonl", "releases-partner.jsonl")


def everything(folder: Path) -> dict[str, bytes]:
    return outputs_of(folder) | {name: (folder / name).read_bytes() for name in FILES}


def values(folder: Path, name: str) -> dict[tuple[int, str], dict[str, object]]:
    return {
        (line["step"], entry["sensor"]): entry  # type: ignore[index, misc]
        for line in json_lines(folder / name)
        for entry in line["releases"]  # type: ignore[attr-defined]
    }


def test_each_tier_has_a_file_with_its_own_value_of_the_same_draw(tmp_path: Path) -> None:
    """The log holds all tiers; a file has one of them, raw and missing counts as everywhere."""
    day = [activation(0, "A", "B", "C"), reading(0, "A", 40), reading(0, "B", 7), activation(1)]
    run_on(tmp_path / "out", [lines_of(day)], settings=TIERED)
    log = values(tmp_path / "out", "releases.jsonl")
    assert list(log[0, "A"]["tiers"]) == ["public", "partner"]  # type: ignore[call-overload]
    for name, file in zip(TIERS, FILES, strict=True):
        shown = values(tmp_path / "out", file)
        assert shown[0, "A"] == {"sensor": "A", "mechanism": "tiered", **log[0, "A"]["tiers"][name]}  # type: ignore[index]
        assert shown[0, "A"]["epsilon"] == TIERS[name]
        assert shown[0, "B"] == {"sensor": "B", "mechanism": "raw", "value": 7}
        assert shown[0, "C"] == {"sensor": "C", "mechanism": "suppressed"}
        assert len(json_lines(tmp_path / "out" / file)) == 2
    expected = KeyedPublisher(NoiseKey.parse(NOISE_SECRET), "test", 0, 60).publish(
        StepSchedule(0, (SensorRelease(REGISTRY.get("A"), Tiered(tuple(TIERS.items()))),)), [40]
    )
    values_a = {name: shown["value"] for name, shown in log[0, "A"]["tiers"].items()}  # type: ignore[attr-defined]
    assert expected[0] == TierValues(values_a, values_a)
    assert log[0, "A"]["value"] == log[0, "A"]["tiers"]["public"]["value"]  # type: ignore[index]


def test_what_tells_more_than_the_public_tier_is_for_the_owner_to_hand_out(tmp_path: Path) -> None:
    run_on(tmp_path / "out", [lines_of(messages_of_a_day(3, 1))], settings=TIERED)
    for name in ("releases.jsonl", *FILES):
        assert (tmp_path / "out" / name).stat().st_mode & 0o077 == 0


@pytest.mark.slow
def test_a_crash_at_any_write_leads_to_the_same_files_of_every_tier(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is drawn again: the tiers' files are made from the log that survived."""
    day = lines_of(messages_of_a_day(4, 5, faults=True))
    disk = Disk(monkeypatch)
    run_on(tmp_path / "whole", [day], settings=TIERED)
    expected, operations = everything(tmp_path / "whole"), disk.operations
    assert operations > 40
    again = partial(run_on, chunks=[day], settings=TIERED)
    for folder in disk.mended(range(1, operations, 3), again, tmp_path):
        assert everything(folder) == expected, folder


def test_a_lost_or_torn_tier_file_is_made_again_from_the_log(tmp_path: Path) -> None:
    day = lines_of(messages_of_a_day(6, 2))
    run_on(tmp_path / "out", [day], settings=TIERED)
    whole = everything(tmp_path / "out")
    (tmp_path / "out" / FILES[0]).unlink()
    torn = tmp_path / "out" / FILES[1]
    torn.write_bytes(torn.read_bytes()[:-7])
    run_on(tmp_path / "out", [day], settings=TIERED)
    assert everything(tmp_path / "out") == whole


def test_accounting_depends_on_the_best_informed_tier_alone(tmp_path: Path) -> None:
    """More tiers below it cost nobody anything."""
    day = lines_of(messages_of_a_day(8, 4))
    one_tier = {"release": {"mechanism": "tiered", "tiers": {"partner": 1.0}}}
    both = {"release": {"mechanism": "tiered", "tiers": TIERS}}
    run_on(tmp_path / "alone", [day], settings=one_tier)
    run_on(tmp_path / "both", [day], settings=both)
    risks = [outputs_of(tmp_path / name)["risks.jsonl"] for name in ("alone", "both")]
    assert risks[0] == risks[1]
    less = {"release": {"mechanism": "tiered", "tiers": {"partner": 0.1}}}
    run_on(tmp_path / "less", [day], settings=less)
    assert outputs_of(tmp_path / "less")["risks.jsonl"] != risks[0]


def test_correlated_noise_runs_window_after_window_and_survives_a_restart(tmp_path: Path) -> None:
    """Each release names design and position; a kill in the middle of a window changes nothing."""
    np.save(tmp_path / "noise.npy", np.full((3, 3), 4.0) + np.eye(3))
    correlated = {"release": {"mechanism": "correlated", "covariance": str(tmp_path / "noise.npy")}}
    day = lines_of(messages_of_a_day(8, 4))
    run_on(tmp_path / "whole", [day], settings=correlated)
    shown = values(tmp_path / "whole", "releases.jsonl")
    assert {entry["mechanism"] for entry in shown.values()} <= {"correlated", "suppressed"}
    assert all(entry["position"] == step % 3 for (step, _), entry in shown.items() if "value" in entry)
    assert len({entry["design"] for entry in shown.values() if "value" in entry}) == 1
    half = day[: day.rindex(b"\n", 0, len(day) // 2) + 1]
    run_on(tmp_path / "halves", [half], settings=correlated, keep_open=True)
    run_on(tmp_path / "halves", [day], settings=correlated)
    assert (
        outputs_of(tmp_path / "halves")["releases.jsonl"] == outputs_of(tmp_path / "whole")["releases.jsonl"]
    )


def test_both_show_in_the_metrics(tmp_path: Path) -> None:
    """Counted by mechanism as they run, with the spend of the best-informed tier."""
    np.save(tmp_path / "noise.npy", np.eye(3) * 9.0)
    released = {"mechanism": "tiered", "tiers": TIERS, "covariance": str(tmp_path / "noise.npy")}
    released["sensors"] = {"B": {"mechanism": "correlated"}}  # type: ignore[assignment]
    registry = CollectorRegistry()
    metrics = EngineMetrics(registry, REGISTRY.sensors, (0.5,), 1e-6)
    day = [
        activation(0, "A", "B"),
        reading(0, "A", 40),
        reading(0, "B", 7),
        activation(1, "A"),
        reading(1, "A", 3),
    ]
    run_on(tmp_path / "out", [lines_of(day)], settings={"release": released}, observer=metrics)
    counted = {
        name: registry.get_sample_value("tallyguard_releases_total", {"mechanism": name})
        for name in MECHANISMS
    }
    assert counted == {**dict.fromkeys(MECHANISMS, 0), "tiered": 2, "correlated": 1}
    spent = registry.get_sample_value("tallyguard_dp_rho", {"group": "all"})
    assert spent == pytest.approx(2 * np.tanh(0.5), rel=1e-9)
    epsilon = registry.get_sample_value("tallyguard_dp_epsilon", {"group": "all"})
    assert epsilon is not None
    assert 0 < epsilon < 20


def test_the_mechanism_of_a_step_knows_its_place_in_the_window(tmp_path: Path) -> None:
    np.save(tmp_path / "noise.npy", np.eye(4))
    settings = ReleaseSettings(mechanism="correlated", covariance=tmp_path / "noise.npy")
    policy = policy_from(settings, REGISTRY)
    found = [policy.decide(step, ["A"]).schedule.releases[0].mechanism for step in range(6)]
    assert [each.position for each in found if isinstance(each, Correlated)] == [0, 1, 2, 3, 0, 1]


@pytest.mark.parametrize(
    ("release", "must"),
    [
        ({"mechanism": "tiered"}, "release: tiers must have privacy levels"),
        ({"mechanism": "tiered", "tiers": {"a": 1.0, "b": 1.0}}, "levels of their own"),
        ({"mechanism": "correlated"}, "must have a number 'design'"),
        ({"mechanism": "correlated", "covariance": "nowhere.npy"}, r"release\.covariance"),
    ],
)
def test_settings_that_cannot_be_are_answered_with_a_remedy(release: dict[str, object], must: str) -> None:
    with pytest.raises(SettingsError, match=must):
        policy_from(ReleaseSettings.model_validate(release), REGISTRY)


def test_a_projection_keeps_everything_but_other_tiers() -> None:
    """A tier that a reading has no value for is told nothing of it."""
    tiers = {"public": TierValue(epsilon=0.1, value=3), "partner": TierValue(epsilon=1.0, value=9)}
    release = StepRelease(
        step=4,
        releases=(
            SensorValue(sensor="A", mechanism="tiered", epsilon=0.1, value=3, tiers=tiers),
            SensorValue(sensor="B", mechanism="gaussian", sigma=1.0, value=2),
        ),
    )
    partner = release_for_tier(release, "partner")
    assert json.loads(partner.line())["releases"] == [
        {"sensor": "A", "mechanism": "tiered", "epsilon": 1.0, "value": 9},
        {"sensor": "B", "mechanism": "gaussian", "sigma": 1.0, "value": 2},
    ]
    assert release_for_tier(release, "nobody").releases[0].value is None
    assert StepRelease.model_validate_json(release.line()) == release


def test_everybody_is_told_what_the_least_informed_tier_is_however_the_settings_are_written(
    tmp_path: Path,
) -> None:
    """Tiers rank as their mechanism has them; lines of the settings in another order change nothing."""
    written = {"partner": 1.0, "public": 0.2}
    day = lines_of(messages_of_a_day(4, 5))
    run_on(tmp_path / "out", [day], settings={"release": {"mechanism": "tiered", "tiers": written}})
    run_on(tmp_path / "out", [day], settings={"release": {"mechanism": "tiered", "tiers": TIERS}})
    log = [
        StepRelease.model_validate(line, strict=False)
        for line in json_lines(tmp_path / "out" / "releases.jsonl")
    ]
    settings = ReleaseSettings.model_validate({"mechanism": "tiered", "tiers": written})
    assert list(settings.tiers) == [name for name, _ in Tiered(tuple(written.items())).tiers]
    shown = [public_release(release, settings.tiers).line() for release in log]
    assert b"".join(shown) == (tmp_path / "out" / "releases-public.jsonl").read_bytes()
    assert b"".join(shown) != (tmp_path / "out" / "releases-partner.jsonl").read_bytes()


def test_a_tier_without_a_log_of_its_own_reaches_nobody() -> None:
    """Neither everybody nor a tier: the whole step is refused."""
    tiers = {"public": TierValue(epsilon=0.1, value=0, drawn=-3), "partner": TierValue(epsilon=1.0, value=9)}
    reading = SensorValue(sensor="A", mechanism="tiered", epsilon=0.1, value=0, tiers=tiers)
    release = StepRelease(step=4, releases=(reading,))
    for known in ((), ("public",)):
        with pytest.raises(SettingsError, match=r"log of its own.*partner"):
            public_release(release, known)
    line = public_release(release, ("public", "partner")).line()
    assert b"tiers" not in line
    assert b"drawn" not in line


def test_mechanisms_with_different_tiers_do_not_run_together() -> None:
    assert tier_names([Tiered((("b", 1.0), ("a", 0.5))), "no mechanism"]) == ("a", "b")
    assert tier_names([]) == ()
    with pytest.raises(SettingsError, match="same tiers in the same order"):
        tier_names([Tiered((("a", 0.5),)), Tiered((("a", 0.5), ("b", 1.0)))])


@pytest.mark.slow
def test_a_report_of_tiers_and_correlated_noise_is_made_by_another_process(tmp_path: Path) -> None:
    """The log names the design by a number; the run's folder keeps its covariance, wherever the file goes."""
    np.save(tmp_path / "noise.npy", np.eye(3) * 9.0)
    released = {"mechanism": "tiered", "tiers": TIERS, "covariance": str(tmp_path / "noise.npy")}
    released["sensors"] = {"B": {"mechanism": "correlated"}}  # type: ignore[assignment]
    run_on(tmp_path / "out", [lines_of(messages_of_a_day(8, 4))], settings={"release": released})
    page = tmp_path / "report.html"
    words = ["report", str(tmp_path / "out"), "--output", str(page)]
    log = tmp_path / "reports.log"
    assert Copy(COMMAND_LINE, words, os.environ, log).wait(600) == 0, log.read_text()
    assert "Decided, tiered" in page.read_text()
    assert "Decided, correlated" in page.read_text()
    (tmp_path / "noise.npy").rename(tmp_path / "elsewhere.npy")
    for more in ([], ["--covariance", str(tmp_path / "elsewhere.npy")]):
        page.unlink()
        assert Copy(COMMAND_LINE, [*words, *more], os.environ, log).wait(600) == 0, log.read_text()
        assert "Decided, correlated" in page.read_text()

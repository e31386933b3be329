"""Tiers on a broker: everybody, each tier and a coalition read what the embedded run tells them."""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from models.keys import NoiseKey
from models.mechanisms import Tiered
from models.releases import CountToPublish, StepInterval, TierValues, publish_step
from tests.kafka.broker import Broker
from tests.kafka.support import SECRETS, OnKafka, small_city
from tests.kafka.test_fetch import assert_same_logs, fetched

pytestmark = pytest.mark.slow

STEPS = 20
BEST_FIRST = {"tiers.partner": 1.0, "tiers.press": 0.5, "tiers.public": 0.2}
RISING = ("public", "press", "partner")


def test_everybody_and_each_tier_read_their_own_value_of_one_chain(kafka: Broker, tmp_path: Path) -> None:
    """However the settings are written, and when the release worker is killed in between; totals, too."""
    population, sensors, messages = small_city(20)
    lines = messages(STEPS)
    release = {"mechanism": "tiered", **BEST_FIRST}
    levels = ["hour by sensor", "day by city"]
    given: dict[str, Any] = {"release": release, "totals": levels}
    with OnKafka(tmp_path / "tiers", kafka.address, population, sensors, **given) as deployment:
        deployment.load_people()
        deployment.start("account")
        first = deployment.start("release")
        deployment.produce(lines[: len(lines) // 2])
        deployment.wait_for_steps(STEPS // 2 - 1)
        first.kill()
        deployment.produce(lines[len(lines) // 2 :])
        deployment.start("release")
        deployment.wait_for_steps(STEPS)
        check_views(deployment, lines)
        assert deployment.person_risks() == deployment.embedded(lines)[1]
        tail = deployment.command("tail", "totals")
        assert tail.ended() == 0, tail.text
        fetched(deployment, tmp_path / "copy")
        assert_same_logs(tmp_path / "copy", deployment.folder / "embedded")
        own = (deployment.folder / "embedded" / "totals.jsonl").read_text()
        assert [line for line in tail.text.splitlines() if '"total"' in line] == own.splitlines()
        assert own.count("hour by sensor") > STEPS
        pooled = {tier: values(deployment.values(deployment.topics.tier(tier))) for tier in RISING}
        for key, count in counts(lines).items():
            assert {tier: pooled[tier][key] for tier in RISING} == chain(*key, count)


def test_tiers_that_a_schedule_names_reach_nobody_but_their_tier(kafka: Broker, tmp_path: Path) -> None:
    """The settings name the tiers, since topics and rights are made from them; the schedule may use them."""
    population, sensors, messages = small_city(20)
    lines = messages(STEPS)
    schedule = tmp_path / "schedule.json"
    schedule.write_text(json.dumps({"steps": list(scheduled(lines))}))
    release = {"mechanism": "gaussian", "sigma": 2.0, "clamp_negative": True, **BEST_FIRST}
    with OnKafka(tmp_path / "scheduled", kafka.address, population, sensors, release=release) as deployment:
        deployment.load_people()
        deployment.start("account")
        deployment.start("release", "--schedule", str(schedule))
        deployment.produce(lines)
        deployment.wait_for_steps(STEPS)
        check_views(deployment, lines, schedule)


def test_tiers_that_only_a_schedule_names_need_their_topics_before_anything_is_written(
    kafka: Broker, tmp_path: Path
) -> None:
    population, sensors, messages = small_city(20)
    lines = messages(3)
    schedule = tmp_path / "schedule.json"
    schedule.write_text(json.dumps({"steps": list(scheduled(lines))}))
    with OnKafka(tmp_path / "unnamed", kafka.address, population, sensors) as deployment:
        deployment.produce(lines)
        worker = deployment.start("release", "--schedule", str(schedule))
        assert worker.ended() == 1
        for tier in RISING:
            assert f"releases-{tier} must exist" in worker.text
        assert deployment.releases() == []


def check_views(deployment: OnKafka, lines: list[bytes], schedule: Path | None = None) -> None:
    """Every topic holds what the embedded run's files do; no value of another tier is on any of them."""
    deployment.embedded(lines, schedule)
    by_tier = {tier: deployment.values(deployment.topics.tier(tier)) for tier in RISING}
    for tier, records in by_tier.items():
        assert (
            records == (deployment.folder / "embedded" / f"releases-{tier}.jsonl").read_bytes().splitlines()
        )
        assert len(records) == STEPS
    assert deployment.releases() == by_tier["public"]
    assert by_tier["public"] != by_tier["press"] != by_tier["partner"]
    everything = b"".join(
        [*deployment.releases(), *(line for records in by_tier.values() for line in records)]
    )
    assert b'"tiers"' not in everything
    assert b'"drawn"' not in everything


def counts(lines: Iterable[bytes]) -> dict[tuple[int, str], int]:
    """The readings among messages."""
    found = map(json.loads, lines)
    return {(each["step"], each["sensor"]): each["count"] for each in found if each["type"] == "reading"}


def values(records: Iterable[bytes]) -> dict[tuple[int, str], int]:
    """The values of a topic by step and sensor."""
    found = map(json.loads, records)
    return {(line["step"], entry["sensor"]): entry["value"] for line in found for entry in line["releases"]}


def chain(step: int, sensor: str, count: int) -> dict[str, int]:
    """What one draw gives all tiers: with it a coalition learns what its best informed member does."""
    mechanism = Tiered(tuple((name.removeprefix("tiers."), level) for name, level in BEST_FIRST.items()))
    key = NoiseKey.parse(SECRETS["TALLYGUARD_NOISE_KEY_SECRET"])
    interval = StepInterval(step * 3600, (step + 1) * 3600)
    [drawn] = publish_step(key, "test", interval, [CountToPublish(sensor, mechanism, count)])
    assert isinstance(drawn, TierValues)
    return dict(drawn.released)


def scheduled(lines: Iterable[bytes]) -> Iterable[dict[str, object]]:
    """The announced steps with tiers of the same names."""
    epsilons = {f"epsilon_{name.removeprefix('tiers.')}": level for name, level in BEST_FIRST.items()}
    for line in map(json.loads, lines):
        if line["type"] == "activation":
            yield {"sensors": line["sensors"], "mechanism": "tiered", **epsilons}

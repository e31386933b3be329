"""The noise key's next epoch on a broker: the log stands, what follows is drawn with the next key."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from models.keys import NoiseKey
from stream_app.embedded import RunOptions, run
from stream_app.setup.run_folder.key_record import advance_noise_key
from stream_app.setup.settings_sources import load_settings
from tests.kafka.broker import Broker
from tests.kafka.support import SECRETS, OnKafka, small_city

SECRET = "TALLYGUARD_NOISE_KEY_SECRET"


@pytest.mark.slow
def test_a_release_worker_goes_on_with_the_advanced_key(kafka: Broker, tmp_path: Path) -> None:
    """Once with --accept-changes; steps that are out keep their values, none is drawn with two keys."""
    population, sensors, messages = small_city(20)
    lines = messages(12)
    key = tmp_path / "noise.key"
    key.write_text(SECRETS[SECRET])
    with OnKafka(tmp_path / "epochs", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        deployment.start("account")
        worker = deployment.start("release")
        deployment.produce(lines[: len(lines) // 2])
        deployment.wait_for_steps(5)
        assert worker.stop() == 0
        before = deployment.releases()
        advance_noise_key(load_settings(deployment.config, {"noise_key": key}), None)
        advanced = {SECRET: key.read_text()}
        refused = deployment.start("release", **advanced)
        assert refused.ended() == 1
        assert "noise_key" in refused.text
        deployment.start("release", "--accept-changes", **advanced)
        deployment.produce(lines[len(lines) // 2 :])
        deployment.wait_for_steps(12)
        first = deployment.embedded(lines)[0]
        later = with_key(deployment, NoiseKey.load(key))
        assert before == first[: len(before)]
        assert deployment.releases() == [*before, *later[len(before) :]]
        assert json.loads(first[-1]) != json.loads(later[-1])


def with_key(deployment: OnKafka, key: NoiseKey) -> list[bytes]:
    """What an embedded run on the same messages releases with this key."""
    output, file = deployment.folder / "later", deployment.folder / "later.key"
    NoiseKey.parse(SECRETS[SECRET]).advance_file(file, key.epoch)
    secrets = {"noise_key": file, "pseudonym_key_secret": SECRETS["TALLYGUARD_PSEUDONYM_KEY_SECRET"]}
    settings = load_settings(deployment.config, secrets)
    run(settings, RunOptions(output, deployment.folder / "embedded.jsonl"), deployment.population)
    return (output / "releases.jsonl").read_bytes().splitlines()

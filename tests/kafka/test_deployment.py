"""Every process holds its settings against what the deployment was begun with, before it does anything."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path

import pytest

from stream_app.exceptions import RunChangedError
from stream_app.kafka.tools.person_loading import load_people
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city
from tests.watching.services import wait_until

pytestmark = pytest.mark.slow
STEPS = 6


def test_a_process_with_other_settings_is_refused_by_name(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, messages = small_city(12)
    with OnKafka(tmp_path / "begun", kafka.address, population, sensors) as deployment:
        early = deployment.start("account")
        wait_until("it waits", lambda: early.says("waiting for the deployment to begin"))
        deployment.load_people()
        deployment.start("release")
        deployment.produce(messages(STEPS))
        deployment.wait_for_steps(STEPS)
        for topic in (deployment.topics.decisions, deployment.topics.persons):
            assert {json.loads(value)["deployment"] for value in deployment.values(topic)} == {
                deployment.digest
            }
        assert (
            len(deployment.values(deployment.topics.deployment)) == 3
        )  # accounts, pseudonyms, the record's first entry
        locations = deployment.folder / "swapped.txt"
        names = population.location_names
        locations.write_text("\n".join((names[1], names[0], *names[2:])) + "\n")
        for changed, named in (
            ({"TALLYGUARD_HORIZON": "5"}, "horizon was 6, is 5"),
            ({"TALLYGUARD_MISTAKES": "1"}, "mistakes was 2, is 1"),
            ({"TALLYGUARD_LOCATIONS": str(locations)}, f'place 0 must stay "{names[0]}"'),
        ):
            for command in (("worker", "account"), ("replay",)):
                process = deployment.command(*command, **changed)
                assert process.ended() == 1
                assert named in process.text
        assert len(deployment.values(deployment.topics.deployment)) == 3
        assert deployment.command("replay").ended() == 0
        known = tomllib.loads(deployment.config.read_text())["kafka"]
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in known.items()]
        deployment.config.write_text("".join(["[kafka]\n", *lines]))
        process = deployment.command("replay", "--json")
        assert process.ended() == 0, process.text
        assert json.loads(process.text[process.text.index("{") :])["steps"] == STEPS


def people_of(deployment: OnKafka) -> int:
    """How many people there are on the topic."""
    return len({json.loads(each)["person"] for each in deployment.values(deployment.topics.persons)})


def test_people_are_not_loaded_a_second_time_under_another_key(kafka: Broker, tmp_path: Path) -> None:
    population, sensors, _ = small_city(12)
    with OnKafka(tmp_path / "twice", kafka.address, population, sensors) as deployment:
        deployment.load_people()
        deployment.load_people()  # again with the same key: the same people
        assert people_of(deployment) == 12
        other = deployment.settings.model_copy(
            update={"pseudonym_key_secret": deployment.settings.noise_key_secret}
        )
        with pytest.raises(RunChangedError, match="pseudonym_key was"):
            load_people(other, population, 0)
        assert people_of(deployment) == 12

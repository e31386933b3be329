"""Account workers, without a broker, where habits changed at a step: the risks of an embedded run."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from stream_app.kafka.account.partition_accounts import PartitionAccounts, SavedPeople
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools import person_loading
from stream_app.setup.option_settings import NewPriors
from stream_app.setup.settings import Settings
from stream_app.steps import JsonlRisks
from stream_app.steps.policy import Decided
from stream_app.wire import StepDecision
from tests.stream_app.embedded.test_told_beside import AFTER, BEFORE, BESIDE, CHANGE, STEPS, given, go, who
from tests.stream_app.engine_support import NAMES
from tests.stream_app.kafka.deployments import parse_person
from tests.stream_app.kafka.test_kafka_new_priors import ADA, Topic

pytestmark = pytest.mark.slow

TOLD = {"new_priors": NewPriors.TOLD, "author": ADA}


def on_kafka(folder: Path, features: tuple[str, ...]) -> Settings:
    (folder / "locations.txt").write_text("".join(f"{name}\n" for name in NAMES))
    kafka = {"servers": ("nowhere:9092",), "partitions": 1}
    return given(folder, features, locations=folder / "locations.txt", kafka=kafka)


def enter(accounts: PartitionAccounts, topic: Topic, known: Deployment, log: list[Decided]) -> None:
    """Take in what the topic has, as a worker that was there before does."""
    draws = known.settings.draws
    latest = {key: value for key, value in topic.log if value}
    records = {key.decode(): parse_person(key, value, known.digest, draws) for key, value in latest.items()}
    newcomers = accounts.newcomers(records)  # type: ignore[arg-type]
    assert not newcomers.refused
    newcomers.apply(log[newcomers.next_step : accounts.next_step], lambda: None)
    accounts.change(newcomers)


@pytest.mark.parametrize("name", BESIDE)
def test_partitions_have_the_risks_of_an_embedded_run(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the change, taken over from a snapshot after it; so are the crowds they are asked."""
    features = BESIDE[name]
    out = go(tmp_path, features, [STEPS])
    topic, known = Topic(monkeypatch), Deployment.of(on_kafka(tmp_path, features))
    parsed = map(StepDecision.model_validate_json, (out / "decisions.jsonl").read_bytes().splitlines())
    log = [known.decided(each) for each in parsed]
    who(tmp_path, features, BEFORE)  # whose evidence is that of the file
    person_loading.load_people(known.settings, BEFORE, None)
    accounts = PartitionAccounts(0, known)
    enter(accounts, topic, known, log)
    found: list[bytes] = []
    for decided in log:
        step = decided.schedule.step
        if step == CHANGE:
            topic.decided = topic.accounted = CHANGE
            who(tmp_path, features, AFTER)
            report = person_loading.load_people(known.settings, AFTER, None, **TOLD)  # type: ignore[arg-type]
            assert report.words == "2 people with new priors (told)"
            enter(accounts, topic, known, log)
        if step == CHANGE + 3:
            saved, accounts = accounts.save(), PartitionAccounts(0, known)
            people = SavedPeople.unpacked(saved.people.packed(), NAMES, draws=known.settings.draws)
            accounts.take_over(saved._replace(people=people))
        asked = accounts.ask((decided.accounted,))
        assert (asked[0].crowds if asked else None) == decided.crowds, step
        accounts.apply(decided)
        for block in JsonlRisks(accounts.pseudonyms).blocks(step, accounts.records()):
            found += block.splitlines()
    written = [line for line in (out / "risks.jsonl").read_bytes().splitlines() if b'"type":"risk",' in line]
    assert sorted(found, key=sorted_by) == sorted(written, key=sorted_by)


def sorted_by(line: bytes) -> tuple[int, str]:
    risk = json.loads(line)
    return risk["step"], risk["person"]


def test_a_later_load_with_other_evidence_leaves_people_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their new chains start from the law that the topic has, at the step that was told."""
    topic, known = Topic(monkeypatch), Deployment.of(on_kafka(tmp_path, ("evidence",)))
    who(tmp_path, ("evidence",), BEFORE)
    person_loading.load_people(known.settings, BEFORE, None)
    topic.decided = topic.accounted = CHANGE
    who(tmp_path, ("evidence",), AFTER)
    person_loading.load_people(known.settings, AFTER, None, **TOLD)  # type: ignore[arg-type]
    told = dict(topic.log)
    again = person_loading.load_people(known.settings, AFTER, None)
    assert again.words is None and dict(topic.log) == told
    more = known.settings.model_copy(update={"posterior_draws": known.settings.posterior_draws + 1})
    record = "stream_app.kafka.deployment.deployment.DeploymentTopic"
    monkeypatch.setattr(f"{record}.begun", lambda _: known.basis)
    monkeypatch.setattr(f"{record}.entries", lambda _: ())
    topic.decided = topic.accounted = CHANGE + 4
    person_loading.load_people(more, AFTER, None)
    for key, value in topic.log[-len(AFTER) :]:
        before, now = json.loads(told[key] or b""), json.loads(value or b"")
        assert now["draws"][:-1] == before["draws"]
        assert {**now, "draws": None} == {**before, "draws": None}

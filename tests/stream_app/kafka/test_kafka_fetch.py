"""Fetching a deployment into a folder adds what is new, once, and refuses what is not as it must be."""

from __future__ import annotations

import json
import stat
from contextlib import closing
from dataclasses import replace
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.keys import NoiseKey
from models.priors import Population
from stream_app.analysis.checked_run import check_run
from stream_app.analysis.run_log import RunLog, read_run
from stream_app.embedded import RunOptions, check_unreleased, read_archive_steps, run
from stream_app.embedded.replay import replay_run
from stream_app.exceptions import OutputLockedError, RunChangedError
from stream_app.kafka.broker.clients import LogError, TopicError
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools.fetching import fetch
from stream_app.setup.option_settings import NewPriors
from stream_app.setup.run_folder.description import changes_in
from stream_app.setup.run_folder.durable import FolderLock
from stream_app.setup.run_folder.key_record import advance_noise_key
from stream_app.setup.run_folder.people_record import digest_in, load_kept
from stream_app.setup.run_folder.record import RecordDamagedError
from stream_app.setup.settings import Settings
from stream_app.wire import Rejected
from stream_app.wire.messages import Reason
from tests.hex_keys import hex_key
from tests.stream_app.embedded.test_journal import Crash, Disk
from tests.stream_app.engine_support import (
    NAMES,
    TickingClock,
    json_lines,
    lines_of,
    messages_of_a_day,
    population,
    run_on,
    settings,
)
from tests.stream_app.kafka.topics_in_memory import ADA, OfARun, TopicsInMemory

STEPS = 20
LOGS = ("decisions.jsonl", "releases.jsonl")


def deployed(folder: Path, **more: Any) -> Deployment:
    folder.mkdir(exist_ok=True)
    locations = folder / "locations.txt"
    locations.write_text("".join(f"{name}\n" for name in NAMES))
    kafka = {"servers": ("nowhere:9092",), "partitions": 2, **more.pop("kafka", {})}
    return Deployment.of(settings(locations=locations, kafka=kafka, **more))


@pytest.fixture
def topics(monkeypatch: pytest.MonkeyPatch) -> TopicsInMemory:
    return TopicsInMemory(monkeypatch)


@pytest.fixture
def made(topics: TopicsInMemory, tmp_path: Path) -> OfARun:
    """A deployment beside an embedded run of the same, nothing of which is published yet."""
    return begun(topics, tmp_path)


def begun(topics: TopicsInMemory, folder: Path, **more: Any) -> OfARun:
    messages = [lines_of(messages_of_a_day(STEPS, seed=3))]
    run_on(folder / "run", messages, settings={"kafka": {"partitions": 2}, **more})
    found = OfARun(topics, deployed(folder / "files", **more), folder / "run")
    found.begin(population())
    return found


def risks(folder: Path, first: int = 0, until: int = STEPS) -> list[dict[str, Any]]:
    """By step and person."""
    found: list[dict[str, Any]] = [dict(each) for each in json_lines(folder / "risks.jsonl")]
    found = [each for each in found if first <= each["step"] < until]
    return sorted(found, key=lambda each: (each["step"], each.get("person", "")))


def assert_same(copy: Path, run: Path, until: int = STEPS) -> None:
    for name in LOGS:
        own, others = ((each / name).read_bytes().splitlines()[:until] for each in (copy, run))
        assert own == others, name
    assert risks(copy, until=until) == risks(run, until=until)
    assert check_run(copy).faults == ()


def test_a_copy_is_as_the_run_and_grows_by_what_is_new(made: OfARun, tmp_path: Path) -> None:
    copy = tmp_path / "copy"
    made.publish(7)
    assert fetch(made.deployment, copy).steps == 7
    assert fetch(made.deployment, copy)[:2] == (0, 7)
    made.publish(STEPS)
    before = {path.name: path.read_bytes() for path in copy.glob("*.jsonl") if path.name != "progress.jsonl"}
    found = fetch(made.deployment, copy)
    assert (found.steps, found.next_step, found.people, found.left_out) == (STEPS - 7, STEPS, 6, ())
    assert all((copy / name).read_bytes().startswith(own) for name, own in before.items())
    assert_same(copy, made.folder)
    assert replay_run(copy, Settings()).is_same
    assert read_run(copy).summaries == read_run(made.folder).summaries
    assert "deployment on Kafka may have released more" in check_run(copy).in_words()
    at_once = tmp_path / "at-once"
    fetch(made.deployment, at_once)
    for name in (*LOGS, "risks.jsonl"):
        assert (at_once / name).read_bytes() == (copy / name).read_bytes()
    for path in copy.iterdir():
        assert path.name in ("releases.jsonl", "run.json") or not stat.S_IMODE(path.stat().st_mode) & 0o077


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"release": {"mechanism": "budget", "budget": {"added": 0.2, "share": 0.5, "sigmas": [1.0, 4.0]}}},
        {"release": {"mechanism": "raw"}, "crowd": {"on": True}, "adversary": "crowd"},
        {"release": {"mechanism": "tiered", "tiers": {"city": 1.0, "public": 0.3}}},
        {"timezone": "Europe/Vienna", "thresholds": (0.2, 0.6), "sharpen": False},
        {"totals": ("hour by sensor",), "most_exposed": 3, "delta": 1e-9},
        {"questions": {"at A": {"at": ("A",)}}, "also_asked": ("at A",)},
    ],
    ids=["budget", "crowd", "tiers", "clock", "totals", "question"],
)
def test_every_kind_of_deployment_is_copied(topics: TopicsInMemory, tmp_path: Path, more: Any) -> None:
    made = begun(topics, tmp_path, **more)
    copy = tmp_path / "copy"
    for until in (9, STEPS):
        made.publish(until)
        fetch(made.deployment, copy)
    assert_same(copy, made.folder)
    assert replay_run(copy, Settings()).is_same
    for path in made.folder.glob("*-*.jsonl"):  # what each tier receives
        assert path.read_bytes() == (copy / path.name).read_bytes()
    totals = [each / "totals.jsonl" for each in (made.folder, copy)]
    assert totals[0].exists() == totals[1].exists() == ("totals" in more)
    if totals[0].exists():
        assert totals[1].read_bytes() == totals[0].read_bytes()
    logs = [read_run(each) for each in (made.folder, copy)]
    for name in ("summaries", "sensors", "spent", "reasons", "limit", "adversary", "delta", "asked"):
        assert getattr(logs[0], name) == getattr(logs[1], name), name


@pytest.mark.parametrize("has_half", [False, True])
def test_a_kill_at_any_moment_leaves_a_folder_that_the_next_call_completes(
    made: OfARun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_half: bool
) -> None:
    made.publish(6)
    names = (*LOGS, "risks.jsonl")

    def fetched(folder: Path) -> dict[str, bytes]:
        fetch(made.deployment, folder)
        return {name: (folder / name).read_bytes() for name in names}

    expected = fetched(tmp_path / "whole")
    disk = Disk(monkeypatch)
    for number in count(1, 7):
        copy = tmp_path / f"copy{number}"
        if has_half:
            made.topics.log[made.deployment.topics.decisions, 0], rest = (
                made.topics.log[made.deployment.topics.decisions, 0][:3],
                made.topics.log[made.deployment.topics.decisions, 0],
            )
            fetch(made.deployment, copy)
            made.topics.log[made.deployment.topics.decisions, 0] = rest
        disk.operations, disk.crash_at = 0, number
        try:
            fetch(made.deployment, copy)
        except Crash:
            disk.crash_at = -1
            assert fetched(copy) == expected
            assert check_run(copy).faults == ()
            assert len(read_run(copy).changes) == 1
            continue
        break
    disk.crash_at = -1
    assert number > 20
    assert fetched(copy) == expected


OTHERS = Population.concatenate([population(8).subset(np.arange(2, 6)), population(8).subset([6, 7])])
"""Two of six people have left, and two have come."""
CHANGE = {"added": 2, "removed": 2, "renewed": 0, "earlier": 0, "rule": None}


@pytest.mark.slow
@pytest.mark.parametrize("is_budget", [False, True])
def test_habits_that_changed_in_a_crowd_are_in_the_copy(
    topics: TopicsInMemory, tmp_path: Path, is_budget: bool
) -> None:
    """Fetched before the change and after it: the risks of the run, which a replay gives again."""
    crowd: dict[str, Any] = {"adversary": "crowd", "release": {"mechanism": "raw"}}
    if is_budget:
        crowd["release"] = {"mechanism": "budget", "budget": {"added": 0.2, "share": 0.5}}
    made = OfARun(topics, deployed(tmp_path / "files", **crowd), tmp_path / "run")
    before, lines = population(), messages_of_a_day(STEPS, seed=3)
    others = [replace(population(12).prior(6 + number), person=before.people[number]) for number in (1, 4)]
    kept = [before.prior(number) for number in (0, 2, 3, 5)]
    after = Population.pack([*kept, *others], NAMES)
    chosen = settings(kafka={"partitions": 2}, **crowd)
    told = {"accept_changes": True, "by": ADA.by, "reason": ADA.reason, "new_priors": NewPriors.TOLD}
    for who, first, until, options in ((before, 0, 9, {}), (after, 9, STEPS, told)):
        some = [lines_of(each for each in lines if first <= each.step < until)]
        run(chosen, RunOptions(made.folder, **options), who, clock=TickingClock(), chunks=some)
        key = NoiseKey.parse(chosen.noise_key_secret.get_secret_value()).fingerprint()  # type: ignore[union-attr]
        if who is before:
            made.begin(before, key)
        else:
            now = load_kept(made.folder, digest_in(json.loads((made.folder / "run.json").read_bytes())))
            made.load(
                now.renamed(after.people), {**CHANGE, "added": 0, "removed": 0, "renewed": 2, "rule": "told"}
            )
        made.publish(until)
        fetch(made.deployment, tmp_path / "copy")
    assert_same(tmp_path / "copy", made.folder)
    assert replay_run(tmp_path / "copy", Settings()).is_same


@pytest.mark.slow
def test_what_changed_and_who_said_so_is_in_the_copy(topics: TopicsInMemory, tmp_path: Path) -> None:
    """Fetched at each change, or once before, or at the end: the figures of a run that changed as it did."""
    run_folder, source = tmp_path / "run", tmp_path / "input.jsonl"
    release = {"mechanism": "gaussian", "sigma": 5.0}
    files = tmp_path / "files"
    made = OfARun(topics, deployed(files), run_folder)
    lines = lines_of(messages_of_a_day(STEPS, seed=3)).splitlines(keepends=True)
    early, late, ruled, keyed = (
        population(),
        OTHERS,
        {"release": release},
        {"noise_key_secret": hex_key("44")},
    )
    turns: list[tuple[int, Population, dict[str, Any]]] = [
        (8, early, {}),
        (12, late, {}),
        (16, late, ruled),
        (STEPS, late, {**ruled, **keyed}),
    ]
    copies = {name: tmp_path / name for name in ("each", "before", "last")}
    for until, people, more in turns:
        source.write_bytes(b"".join(each for each in lines if json.loads(each)["step"] < until))
        options = RunOptions(
            run_folder,
            source,
            accept_changes=True,
            by=ADA.by,
            reason=ADA.reason,
            new_priors=NewPriors.REDONE,
            priors="people.json",
        )
        chosen = settings(kafka={"partitions": 2}, **more)
        run(chosen, options, people, clock=TickingClock())
        key = NoiseKey.parse(chosen.noise_key_secret.get_secret_value()).fingerprint()  # type: ignore[union-attr]
        if until == 8:
            made.begin(people, key)
            made.publish(5)
            fetch(made.deployment, copies["before"])
        elif until == 12:
            made.load(people, CHANGE)
        else:
            made.deployment = deployed(files, **more)
            made.hold(made.published, key)
        made.publish(until)
        found = fetch(made.deployment, copies["each"])
        assert (found.next_step, found.people) == (until, 6)
    fetch(made.deployment, copies["before"])
    fetch(made.deployment, copies["last"])
    for name in ("each", "before"):
        assert_same(copies[name], run_folder)
    whole = read_run(run_folder)
    for copy in copies.values():
        log = read_run(copy)
        told = [(each.step, each.by, each.reason, each.kind) for each in log.changes]
        assert told == [(each.step, each.by, each.reason, each.kind) for each in whole.changes]
        assert changes_of(log) == changes_of(whole)
        assert log.settings["earlier_noise_keys"] == whole.settings["earlier_noise_keys"]
        assert log.sensors == whole.sensors
        assert risks(copy, first=8) == risks(run_folder, first=8)
        assert check_run(copy).faults == ()
        assert replay_run(copy, Settings()).is_same
    assert_upper_ends(risks(copies["last"], until=8), risks(run_folder, until=8))


def changes_of(log: RunLog) -> list[list[str]]:
    """What a report says of each change."""
    said = zip(log.checked.entries, changes_in(log.checked.entries), strict=True)
    return [[each.words for each in own] for entry, own in said if entry.kind != "ended"]


def assert_upper_ends(found: list[dict[str, Any]], exact: list[dict[str, Any]]) -> None:
    """Of steps whose people are nowhere any more: single people and numbers are exact, quantiles no lower."""
    assert len(found) == len(exact)
    for own, other in zip(found, exact, strict=True):
        if own["type"] == "risk":
            assert own == other
            continue
        for name in ("people", "at_risk", "at_added_risk", "most_risk", "most_added", "not_reached"):
            assert own[name] == other[name]
        for name in ("mean_risk", "mean_added", "mean_baseline"):
            assert own[name] == pytest.approx(other[name], abs=1e-12)
        for name in ("risk", "added"):
            assert all(own[name][level] >= other[name][level] for level in other[name])


@pytest.mark.slow
@pytest.mark.parametrize(
    "more",
    [
        {"release": {"mechanism": "budget", "budget": {"added": 0.2, "share": 0.5, "sigmas": [1.0, 4.0]}}},
        {"release": {"mechanism": "raw"}, "crowd": {"on": True}, "adversary": "crowd"},
        {"questions": {"at A": {"at": ("A",)}}, "also_asked": ("at A",), "kafka": {"partitions": 1}},
    ],
    ids=["budget", "crowd", "one partition"],
)
def test_steps_whose_people_are_nowhere_any_more_are_as_their_workers_wrote_them(
    topics: TopicsInMemory, tmp_path: Path, more: Any
) -> None:
    made = begun(topics, tmp_path, **more)
    made.publish(STEPS)
    made.load(OTHERS, CHANGE)
    copy = tmp_path / "copy"
    first = fetch(made.deployment, copy)
    assert first.steps == STEPS
    assert f"exact risks of steps 0 to {STEPS - 1}" in " ".join(first.left_out)
    assert "quantiles are upper ends" in (read_run(copy).note or "")
    assert check_run(copy).faults == ()
    found, exact = risks(copy), risks(made.folder)
    assert_upper_ends(found, exact)
    for own, other in zip(found, exact, strict=True):
        if (limits := other.get("over_limit")) is not None:
            assert own["over_limit"] == limits
        if own["type"] == "risk_summary" and (crowd := other.get("crowd")) is not None:
            assert own["crowd"]["at_risk"] == crowd["at_risk"]
            assert own["crowd"]["most_added"] == crowd["most_added"]
        if "questions" in other:
            assert own["questions"] == other["questions"]
    assert read_run(copy).settings["people"] == 6
    assert fetch(made.deployment, copy).steps == 0
    assert len(read_run(copy).changes) == 1, "who comes next is not in it before a step is theirs"


def test_a_copy_waits_for_workers_who_have_not_come_to_a_change_of_people(
    made: OfARun, tmp_path: Path
) -> None:
    copy = tmp_path / "copy"
    made.publish(8)
    made.load(OTHERS, CHANGE)
    made.publish(11, with_risks=False)
    found = fetch(made.deployment, copy)
    assert found.next_step == 8
    waits, summed = found.left_out
    assert waits == "steps from 8 on: people changed there, and not every account worker has come so far"
    assert summed.startswith("exact risks of steps 0 to 7: people changed before these were fetched")


def test_half_a_load_of_people_is_not_accounted(made: OfARun, tmp_path: Path) -> None:
    """It would leave out the others, and say nothing of them."""
    made.publish(8)
    persons = made.deployment.topics.persons
    partition = next(number for number in range(2) if made.topics.log.get((persons, number)))
    lost = made.topics.log[persons, partition].pop()
    with pytest.raises(LogError, match=r"got 5, where the last risks are of 6; a load of people") as refused:
        fetch(made.deployment, tmp_path / "copy")
    assert lost.key is not None
    assert lost.key.decode() not in str(refused.value)
    assert not (tmp_path / "copy").exists()


def test_risks_that_the_broker_removed_are_asked_for_in_words(made: OfARun, tmp_path: Path) -> None:
    made.publish(8)
    made.load(OTHERS, CHANGE)
    made.topics.begins[made.deployment.topics.risks] = 4
    with pytest.raises(LogError, match="risks must hold the risks of step 0: people have changed since"):
        fetch(made.deployment, tmp_path / "copy")


def test_a_log_that_lacks_something_is_refused_and_the_copy_stays(made: OfARun, tmp_path: Path) -> None:
    copy, topics = tmp_path / "copy", made.deployment.topics
    made.publish(8)
    fetch(made.deployment, copy)
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    made.publish(12)
    for topic in (topics.decisions, topics.releases):
        made.topics.begins[topic] = 9
        with pytest.raises(LogError, match=f"{topic} must hold every record from offset 7 of partition 0 on"):
            fetch(made.deployment, copy)
        with pytest.raises(LogError, match="from offset 0 of partition 0 on, got only those from 9 to 12"):
            fetch(made.deployment, tmp_path / "new")
        del made.topics.begins[topic]
        own = made.topics.log[topic, 0]
        made.topics.log[topic, 0] = own[:5]
        with pytest.raises(LogError, match="the end was lost"):
            fetch(made.deployment, copy)
        made.topics.log[topic, 0] = [*own[:9], *own[10:]]
        with pytest.raises(LogError, match=f"{topic} must hold step 9, got step 10 after it"):
            fetch(made.deployment, copy)
        made.topics.log[topic, 0] = [*own[:9], own[9]._replace(value=b'{"counts": 4711}'), *own[10:]]
        with pytest.raises(LogError, match="of this version in each record") as refused:
            fetch(made.deployment, copy)
        assert "4711" not in str(refused.value)
        made.topics.log[topic, 0] = own
        made.topics.missing = {topic}
        with pytest.raises(TopicError, match=topic):
            fetch(made.deployment, copy)
        made.topics.missing = set()
    assert {name: (copy / name).read_bytes()[: len(own)] for name, own in before.items()} == before
    assert fetch(made.deployment, copy).next_step == 12


def test_only_a_copy_of_this_deployment_is_added_to(
    made: OfARun, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "copy"
    made.publish(8)
    fetch(made.deployment, copy)
    with pytest.raises(
        RunChangedError, match=r"must be a new folder, .* got the folder of a run; give another"
    ):
        fetch(made.deployment, made.folder)
    with closing(FolderLock(copy)), pytest.raises(OutputLockedError, match="written by one run at a time"):
        fetch(made.deployment, copy)
    topics = made.deployment.topics
    log, restored = made.topics.log[topics.decisions, 0], TopicsInMemory(monkeypatch)
    restored.log = {**made.topics.log, (topics.decisions, 0): [*log[:7], log[6]._replace(offset=7)]}
    with pytest.raises(RunChangedError, match=r"must hold the last step that .* has, as it was decided"):
        fetch(made.deployment, copy)
    other = TopicsInMemory(monkeypatch)
    another = OfARun(other, deployed(tmp_path / "files"), made.folder)
    another.begin(population(), "b" * 64)
    another.publish(9)
    with pytest.raises(RunChangedError, match="a copy of another deployment, or of one that was begun anew"):
        fetch(another.deployment, copy)


def test_nothing_is_fetched_before_anything_was_decided(topics: TopicsInMemory, tmp_path: Path) -> None:
    made = OfARun(topics, deployed(tmp_path / "files"), tmp_path / "run")
    with pytest.raises(LogError, match="must have begun to decide steps before it is fetched"):
        fetch(made.deployment, tmp_path / "copy")


def test_no_run_continues_a_copy(made: OfARun, tmp_path: Path) -> None:
    copy, source = tmp_path / "copy", tmp_path / "input.jsonl"
    made.publish(8)
    fetch(made.deployment, copy)
    source.write_bytes(lines_of(messages_of_a_day(STEPS, seed=3)))
    before = {path.name: path.read_bytes() for path in copy.iterdir()}
    key = tmp_path / "noise.key"
    NoiseKey.create(key)
    ways = (
        lambda: run(
            settings(), RunOptions(copy, source, accept_changes=True, reason="why not"), population()
        ),
        lambda: check_unreleased(read_archive_steps(source), copy, max_ahead=100),
        lambda: advance_noise_key(settings(noise_key_secret=None, noise_key=key), copy),
    )
    said = (
        "must be the folder of a run, to be continued, got a copy of a deployment on Kafka, whose steps are"
    )
    for way in ways:
        with pytest.raises(RunChangedError, match=said):
            way()
    assert {path.name: path.read_bytes() for path in copy.iterdir()} == before


def test_dead_letters_are_copied_and_those_that_are_gone_are_said(made: OfARun, tmp_path: Path) -> None:
    copy, topic = tmp_path / "copy", made.deployment.topics.rejected

    def letter(number: int) -> bytes:
        source = f"readings:{number}"
        return Rejected(source=source, payload="{}", reason=Reason.NOT_JSON, hint="send JSON").line().rstrip()

    made.publish(4)
    for number in range(3):
        made.topics.send(topic, letter(number))
    assert fetch(made.deployment, copy).rejected == 3
    made.publish(6)
    for number in range(3, 8):
        made.topics.send(topic, letter(number))
    made.topics.begins[topic] = 5
    found = fetch(made.deployment, copy)
    assert (found.rejected, len(found.left_out)) == (3, 1)
    assert found.left_out[0].startswith(f"some records of {topic}")
    sources = [each["source"] for each in json_lines(copy / "rejected.jsonl")]
    assert sources == [f"readings:{number}" for number in (0, 1, 2, 5, 6, 7)]
    assert read_run(copy).rejected == 6


def test_an_entry_of_the_record_that_was_there_must_be_there(made: OfARun, tmp_path: Path) -> None:
    copy, topic = tmp_path / "copy", made.deployment.topics.deployment
    made.publish(8)
    made.load(OTHERS, CHANGE)
    made.publish(12)
    fetch(made.deployment, copy)
    log = made.topics.log[topic, 0]
    made.topics.log[topic, 0] = [each for each in log if each.key != b"people-0"]
    with pytest.raises(RecordDamagedError, match="must hold the 1 entries that were written"):
        fetch(made.deployment, copy)


@pytest.mark.slow
def test_personas_that_stand_for_many_are_copied_with_their_numbers(
    topics: TopicsInMemory, tmp_path: Path
) -> None:
    personas = replace(population(), weights=np.array([3.0, 1.0, 2.5, 40.0, 1.0, 7.0]))
    more: dict[str, Any] = {"crowd": {"on": True}, "adversary": "crowd", "kafka": {"partitions": 2}}
    made = OfARun(topics, deployed(tmp_path / "files", **more), tmp_path / "run")
    source = tmp_path / "input.jsonl"
    source.write_bytes(lines_of(messages_of_a_day(STEPS, seed=3)))
    run(settings(**more), RunOptions(made.folder, source), personas, clock=TickingClock())
    made.begin(personas)
    made.publish(STEPS)
    copy = tmp_path / "copy"
    assert fetch(made.deployment, copy).people == personas.everybody
    assert_same(copy, made.folder)
    assert replay_run(copy, Settings()).is_same
    assert read_run(copy).settings["crowd"] == read_run(made.folder).settings["crowd"]

"""Another prior for somebody who is known: the adversary remembers what was released before."""

from __future__ import annotations

from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any, NamedTuple

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from accounting.continuous import ContinuousAccountant
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.exceptions import RunChangedError, SettingsError
from stream_app.kafka.account.partition_accounts import PartitionAccounts, SavedPeople
from stream_app.kafka.account.person_source import MARK, Changes, enter_records
from stream_app.kafka.broker.clients import Reader
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import (
    PersonEntry,
    first_step_in,
    person_records,
)
from stream_app.kafka.tools import person_loading, replay
from stream_app.setup.run_folder.people_record import NewPriors
from stream_app.setup.run_folder.record import Author
from stream_app.steps.policy import Decided
from tests.accounting.enumeration import all_paths, window_optimum
from tests.stream_app.engine_support import PSEUDONYM_SECRET
from tests.stream_app.kafka.deployments import deployment_in, enter, parsed

HORIZON = 5
NAMES = ("x", "y")


def deployment(folder: Path, **more: object) -> Deployment:
    settings = {"horizon": HORIZON, "mistakes": 0, "attack_draws": 0, **more}
    return deployment_in(folder, NAMES, pseudonym_key_secret=PSEUDONYM_SECRET, **settings)


def stays(probability: float, people: int = 1) -> Population:
    move = np.array([[probability, 1 - probability], [1 - probability, probability]])
    return Population.pack([MovementPrior.from_dense(f"p{k}", move) for k in range(people)], NAMES)


def entries(some: Population, since: int, numbers: list[int]) -> Changes:
    names = [f"{number:032x}" for number in numbers]
    return parsed(person_records(some.subset([0] * len(names)).renamed(names), names, since, "d"))


def a_log(steps: int, raw: set[int], noised: set[int] = frozenset()) -> list[StepSchedule]:  # type: ignore[assignment]
    sensor = Sensor("x", (0,))
    how = {**dict.fromkeys(raw, Raw()), **dict.fromkeys(noised, Gaussian(1.0))}
    return [StepSchedule(t, (SensorRelease(sensor, how[t]),) if t in how else ()) for t in range(steps)]


def test_a_new_prior_does_not_forget_what_was_released(tmp_path: Path) -> None:
    """One exact count in step 19, an equal prior in force "from step 20": what the count told stays told."""
    accounts, log = PartitionAccounts(0, deployment(tmp_path)), a_log(25, {19})
    enter(accounts, entries(stays(0.99), 0, [1]), log)
    for step in log:
        if step.step == 20:
            enter(accounts, entries(stays(0.99), 20, [1]), log)
        accounts.apply(Decided(step))
    optimum = 0.99**5
    assert accounts.accountant.since.tolist() == [0]
    assert accounts.accountant.risk()[0] >= optimum
    assert accounts.accountant.risk()[0] < optimum + 0.02


@given(
    st.sampled_from([0.5, 0.8, 0.97, 1.0]),
    st.sampled_from([0.6, 0.9, 0.99]),
    st.integers(0, 9),
    st.integers(0, 12),
    st.sets(st.integers(0, 8)),
    st.sampled_from(["replaced", "removed and added", "twice", "later and earlier"]),
)
@settings(max_examples=40, deadline=None)
def test_whatever_replaces_a_person_accounts_the_whole_log(
    tmp_path_factory: pytest.TempPathFactory,
    before: float,
    after: float,
    when: int,
    since: int,
    raw: set[int],
    how: str,
) -> None:
    """The account is that of somebody who had the new prior from their first step on, bit for bit.

    And no adversary who holds the new prior is above its ceilings.
    """
    given_deployment = deployment(tmp_path_factory.mktemp("replaced"))
    log = a_log(9, raw, {0, 3})
    accounts, always = PartitionAccounts(0, given_deployment), PartitionAccounts(0, given_deployment)
    enter(accounts, entries(stays(before), 0, [1]), log)
    enter(always, entries(stays(after), 0, [1]), log)
    for step in log:
        if step.step == min(when, 8):
            if how == "twice":
                enter(accounts, entries(stays(0.7), since, [1]), log)
            if how == "later and earlier":
                enter(accounts, entries(stays(0.7), since + 3, [1, 2]), log)
            record = entries(stays(after), since, [1])
            people: Changes = {}
            if how == "removed and added":
                people = dict.fromkeys(record)
            enter(accounts, {**people, **record}, log)
        for each in (accounts, always):
            each.apply(Decided(step))
    mine = accounts.pseudonyms.index(f"{1:032x}")
    assert accounts.accountant.since[mine] == 0
    assert accounts.accountant.risk()[mine] == always.accountant.risk()[0]
    move = np.array([[after, 1 - after], [1 - after, after]])
    shown = {t: np.eye(2) for t in raw - {0, 3}}  # these are noised
    paths = all_paths(np.full(2, 0.5), move[np.newaxis], len(log))
    optimum = window_optimum(paths, [shown.get(t, np.ones((2, 1))) for t in range(len(log))], (4, 8), 0)
    assert accounts.accountant.risk()[mine] >= optimum - 1e-9


def test_an_earlier_first_step_counts_and_new_people_begin_where_they_are_said_to(tmp_path: Path) -> None:
    accounts, log = PartitionAccounts(0, deployment(tmp_path)), a_log(6, {2})
    for step in log[:4]:
        accounts.apply(Decided(step))
    enter(accounts, entries(stays(0.9), 3, [1]), log)
    assert accounts.accountant.since.tolist() == [3]
    enter(accounts, entries(stays(0.9), 1, [1]), log)
    assert accounts.accountant.since.tolist() == [1]
    enter(accounts, {**entries(stays(0.8), 9, [1]), **entries(stays(0.8), 4, [2])}, log)
    assert sorted(accounts.accountant.since.tolist()) == [1, 4]


def test_in_a_crowd_whoever_has_another_prior_is_revealed_next(tmp_path: Path) -> None:
    """By the prior before, they may have been free in the last step: two free steps would follow."""
    accounts = PartitionAccounts(0, deployment(tmp_path, crowd={"on": True}))
    log = a_log(6, {0, 1, 2, 3})
    people = list(range(1, 9))
    enter(accounts, entries(stays(0.9), 0, people), log)
    crowd_sums = []
    for step in log[:4]:
        if step.step == 3:
            before = accounts.accounts.crowd.others.saved()["revealed"].copy()  # type: ignore[union-attr]
            enter(accounts, entries(stays(0.8), 0, people), log)
        crowds = accounts.accounts.crowd.ask(step)  # type: ignore[union-attr]
        crowd_sums.append(sum(each.units[0] for each in crowds))
        accounts.apply(Decided(step, crowds=crowds))
    assert (before == 0).any()  # some were free
    assert min(crowd_sums[:3]) > 0
    assert crowd_sums[3] == 0


def test_the_first_step_of_a_record_is_that_of_those_it_replaces(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In a topic that was not compacted; of whoever was deleted nobody knows it, so all of the log counts.

    A replay reads people as workers do, also where it refuses a record and the known prior stays.
    """
    given_deployment, name = deployment(tmp_path), "a" * 32

    def record(since: int) -> bytes:
        ((_, value),) = person_records(stays(0.9), [name], since, given_deployment.digest)
        return value

    for values, first in (
        ([record(5)], 5),
        ([record(5), record(20)], 5),
        ([record(20), record(5), record(30)], 5),
        ([record(20), b"{}", record(30)], 20),
        ([record(5), None, record(20)], 0),
        ([None, record(20), record(30)], 0),
    ):
        people: Changes = {}
        log = [_Record(name.encode(), value, offset=offset) for offset, value in enumerate(values)]
        refused = enter_records(people, log, given_deployment)
        assert [int(each.source.split(":")[1]) for each in refused] == [
            offset for offset, value in enumerate(values) if value == b"{}"
        ]
        monkeypatch.setattr(replay, "records", lambda *_, log=log: log)
        again = replay.read_people(Reader(None, lambda _: None), given_deployment)
        for entry in (people[name], again[0][name]):
            assert isinstance(entry, PersonEntry)
            assert (entry.effective_from, entry.offset) == (first, len(values) - 1)


class _Record(NamedTuple):
    key: bytes
    value: bytes | None
    topic: str = "persons"
    partition: int = 0
    offset: int = 0


class Topic:
    """``persons`` as the loader reads and writes it."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.log: list[tuple[bytes, bytes | None]] = []
        self.decided, self.accounted = 0, 0  # the first steps that are not
        self.record: list[tuple[int, Author, dict[str, Any]]] = []

        async def accounted(*_: object) -> int:
            return self.accounted - 1

        @contextmanager
        def here(*_: object) -> Any:
            yield self

        monkeypatch.setattr(person_loading, "consuming", here)
        monkeypatch.setattr(person_loading, "writing", here)
        monkeypatch.setattr(person_loading, "check_topics_of", lambda *_: None)
        monkeypatch.setattr(person_loading, "records", lambda *_: [_Record(*each) for each in self.log])
        monkeypatch.setattr(person_loading, "next_decided", lambda *_: self.decided)
        monkeypatch.setattr("stream_app.kafka.deployment.log_reader.last_risk_step", accounted)
        record = "stream_app.kafka.deployment.deployment.DeploymentTopic"
        for name in ("begin", "begin_people", "begun"):
            monkeypatch.setattr(f"{record}.{name}", lambda *_: None)
        monkeypatch.setattr(f"{record}.note_people", lambda _, *noted: self.record.append(noted))
        entries = lambda _: [SimpleNamespace(about=about) for _, _, about in self.record]  # noqa: E731
        monkeypatch.setattr(f"{record}.people", entries)

    def send(self, topic: str, value: bytes | None, *, key: bytes) -> None:
        assert topic == "persons"
        self.log.append((key, value))

    def people(self, known: Deployment) -> Changes:
        """What a worker of a deployment reads."""
        latest = {key: value for key, value in self.log if key != MARK}
        return parsed({key.decode(): value for key, value in latest.items() if value}, known.digest)

    def first_steps(self) -> list[int | None]:
        """Of the last record of each, in the order in which they came."""
        latest = {key: value for key, value in self.log if key != MARK}
        return [None if value is None else first_step_in(value) for value in latest.values()]


def test_who_is_known_is_sent_with_their_first_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a compacted topic says it, too. ``--effective-from`` is for people who are new."""
    topic, chosen = Topic(monkeypatch), deployment(tmp_path).settings
    load, everybody = person_loading.load_people, stays(0.9, 4)
    report = load(chosen, everybody.subset([0, 1]), None)
    assert (report.sent, report.known, topic.first_steps()) == (2, 0, [0, 0])
    report = load(chosen, everybody.subset([1, 2]), 20)
    assert (report.sent, report.known, topic.first_steps()) == (2, 1, [0, 0, 20])
    load(chosen, everybody.subset([1, 2]), 30)
    assert topic.first_steps() == [0, 0, 20]
    load(chosen, everybody.subset([2]), None)
    assert topic.first_steps() == [0, 0, 20]
    topic.log.append((MARK, None))
    load(chosen, everybody.subset([2]), 7)
    assert topic.first_steps() == [0, 0, 7]
    person_loading.remove_people(chosen, ["p2"])
    report = load(chosen, everybody.subset([2, 3]), 40, remove_others=True)
    assert (report.known, report.removed, topic.first_steps()) == (0, 2, [None, None, 0, 40])
    report = load(chosen, everybody.subset([2, 3]), 50, remove_others=True)
    assert (report.known, report.removed, topic.first_steps()) == (2, 0, [None, None, 0, 40])


def test_the_first_step_in_a_record_is_found_whatever_else_it_says() -> None:
    some = stays(0.9)
    labelled = Population(
        some.people,
        some.location_names,
        some.arrays,
        assumed='says "effective_from": 3, "effective_from":4',
    )
    ((_, value),) = person_records(labelled, ["a"], 12, "d")
    assert first_step_in(value) == 12
    assert first_step_in(b"{}") == 0


ADA = Author("ada", "a survey")


def test_new_priors_of_people_who_are_there_ask_what_they_mean(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once a step was decided: as in an embedded run, in the same words; nothing was sent or noted."""
    topic, chosen = Topic(monkeypatch), deployment(tmp_path).settings
    load, before = person_loading.load_people, stays(0.9, 3)
    load(chosen, before, None)
    load(chosen, stays(0.8, 3), None)  # nothing was decided
    topic.decided = topic.accounted = 7
    sent = len(topic.log)
    for said, what in (
        ({}, "--new-priors redone says that .* --new-priors told says that"),
        ({"new_priors": NewPriors.REDONE}, "no reason; 3 people with new priors .redone."),
    ):
        with pytest.raises(RunChangedError, match=what):
            load(chosen, before, None, **said)
    assert (len(topic.log), topic.record) == (sent, [])
    assert load(chosen, stays(0.8, 3), None).words is None  # the same again
    report = load(chosen, before, None, new_priors=NewPriors.REDONE, author=ADA, priors_file="s.json")
    assert (report.step, report.words) == (7, "3 people with new priors (redone)")
    changed = {"added": 0, "removed": 0, "renewed": 3, "earlier": 0, "rule": "redone"}
    assert topic.record == [(7, ADA, {"people": changed, "priors_file": "s.json"})]
    report = load(chosen, stays(0.9, 4), 5, remove_others=True)  # who comes or leaves needs no rule
    assert report.words == "1 person added"
    assert person_loading.remove_people(chosen, ["p3"]).words == "1 person removed"
    assert topic.first_steps() == [0, 0, 0, None]


def begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> tuple[Topic, Deployment, list[StepSchedule], PartitionAccounts]:
    """Three people, of whom the habits of two changed at step 5 of 14; the accounts of all steps."""
    topic, known, log = Topic(monkeypatch), deployment(tmp_path), a_log(14, {1, 4, 6, 9}, {5, 7, 11})
    person_loading.load_people(known.settings, mixed(0.9, 0.9, 0.7), None)
    accounts = PartitionAccounts(0, known)
    enter(accounts, topic.people(known))
    for step in log:
        if step.step == 5:
            topic.decided = topic.accounted = 5
            told = {"new_priors": NewPriors.TOLD, "author": ADA}
            person_loading.load_people(known.settings, mixed(0.6, 0.9, 0.95), None, **told)
            enter(accounts, topic.people(known), log)
        accounts.apply(Decided(step))
    return topic, known, log, accounts


def mixed(*probabilities: float) -> Population:
    """People who stay where they are with different probabilities; they begin at the first place."""
    priors = [
        MovementPrior.from_dense(f"p{k}", np.array([[p, 1 - p], [1 - p, p]]), initial=np.array([1.0, 0.0]))
        for k, p in enumerate(probabilities)
    ]
    return Population.pack(priors, NAMES)


def test_who_begins_anew_is_accounted_as_where_the_place_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bit for bit the account of somebody who starts at that step, from the law of the earlier prior."""
    topic, known, log, accounts = begun_anew(tmp_path, monkeypatch)
    names = list(topic.people(known))
    assert topic.first_steps() == [5, 0, 5]
    law, now = np.array([1.0, 0.0]), {}
    for name, before, after in zip(names, (0.9, 0.9, 0.7), (0.6, 0.9, 0.95), strict=True):
        move, moved = (np.array([[p, 1 - p], [1 - p, p]]) for p in (before, after))
        start = law @ np.linalg.matrix_power(move, 5) if before != after else law
        alone = Population.pack([MovementPrior.from_dense(name, moved, initial=start)], NAMES)
        is_told = np.array([before != after])
        since = np.array([5 if before != after else 0])
        fresh = ContinuousAccountant(alone, known.horizon(), since, told=is_told)
        fresh.apply_all(log)
        now[name] = fresh.risk()[0]
    found = dict(zip(accounts.pseudonyms, accounts.accountant.risk().tolist(), strict=True))
    assert found == pytest.approx(now, abs=1e-12) and found[names[1]] == now[names[1]]


def test_a_worker_without_a_snapshot_and_one_with_it_have_the_same_account(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also where another person comes who has the same prior, start and first step without being told."""
    topic, known, log, accounts = begun_anew(tmp_path, monkeypatch)
    again, third = PartitionAccounts(0, known), PartitionAccounts(0, known)
    enter(again, topic.people(known))
    again.restore(map(Decided, log))
    saved = accounts.save()
    third.take_over(saved._replace(people=SavedPeople.unpacked(saved.people.packed(), NAMES)))
    step = a_log(15, {14})[14]
    for each in (accounts, again, third):
        each.apply(Decided(step))
    assert again.accountant.risk().tolist() == accounts.accountant.risk().tolist()
    assert third.accountant.risk().tolist() == accounts.accountant.risk().tolist()
    assert third.accountant.snapshot() == accounts.accountant.snapshot()
    key, value = topic.log[-1]
    assert value is not None and b'"told":true,' in value
    twin = value.replace(key, b"f" * 32).replace(b'"told":true,', b"")
    apart = PartitionAccounts(0, known)
    enter(apart, parsed({key.decode(): value, "f" * 32: twin}, known.digest))
    apart.restore(map(Decided, log[:6]))
    risks = dict(zip(apart.pseudonyms, apart.accountant.risk().tolist(), strict=True))
    assert risks[key.decode()] == 1.0 > risks["f" * 32]


def test_who_was_told_stays_so_and_with_one_prior_again_the_whole_log_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, known, *_ = begun_anew(tmp_path, monkeypatch)
    topic.decided = topic.accounted = 14
    sent = dict(topic.log)
    report = person_loading.load_people(known.settings, mixed(0.6, 0.9, 0.95), 9, remove_others=True)
    assert (report.sent, report.words) == (3, None)
    assert dict(topic.log) == sent
    redone = {"new_priors": NewPriors.REDONE, "author": ADA}
    report = person_loading.load_people(known.settings, mixed(0.6, 0.9, 0.8), None, **redone)
    assert (report.words, topic.first_steps()) == ("1 person with new priors (redone)", [5, 0, 0])


def test_nobody_begins_anew_before_what_was_decided_is_accounted_or_with_a_budget(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic, known = Topic(monkeypatch), deployment(tmp_path)
    load, told = person_loading.load_people, {"new_priors": NewPriors.TOLD, "author": ADA}
    load(known.settings, mixed(0.9, 0.9), None)
    topic.decided, topic.accounted = 6, 4
    with pytest.raises(RunChangedError, match="not yet steps 4 to 5"):
        load(known.settings, mixed(0.6, 0.9), None, **told)
    budget = {"mechanism": "budget", "budget": {"added": 0.1, "hindsight": True}}
    limited = deployment(tmp_path, release=budget)
    with pytest.raises(SettingsError, match="accounted without a risk budget in hindsight"):
        load(limited.settings, mixed(0.6, 0.9), None, **told)
    assert topic.record == []
    topic.accounted = 6
    load(known.settings, mixed(0.6, 0.9), None, **told)
    with pytest.raises(SettingsError, match="must be accounted without a risk budget in hindsight"):
        enter(PartitionAccounts(0, limited), topic.people(known))

"""A snapshot of accounts is gone on from where it is ours and whole, and then bit for bit; else never."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from accounting.continuous import Cells
from models.exceptions import SnapshotKeyError
from models.keys import SnapshotKey
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import SensorRelease, StepSchedule
from stream_app.exceptions import SettingsError
from stream_app.kafka.account import partition_accounts, person_source, snapshot_keeper
from stream_app.kafka.account.partition_accounts import PartitionAccounts, SavedPeople
from stream_app.kafka.account.person_source import Loaded, PersonSource
from stream_app.kafka.account.snapshot_keeper import (
    SNAPSHOT_HEAD,
    SnapshotHead,
    SnapshotKeeper,
    SnapshotTopic,
    StoredText,
)
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.log_reader import LogPlace
from stream_app.kafka.deployment.records import PersonEntry, digest_of, person_records
from stream_app.kafka.worker_process import Pulse, WorkThread
from stream_app.setup.keys import load_snapshot_key
from stream_app.setup.settings import Settings
from stream_app.steps.policy import Decided
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import NAMES, population
from tests.stream_app.kafka.deployments import deployment_in, parse_person

KEY = SnapshotKey(b"k" * 32)
PLACE = LogPlace(topic="log", offset=12, stamp=1, decision="d" * 64)
CROWD = {"adversary": "crowd", "release": {"mechanism": "budget", "budget": {"risk": 0.9}}}


def deployment_of(folder: Path, **more: Any) -> Deployment:
    return deployment_in(folder, **{"horizon": 4, "attack_draws": 64, **more})


@pytest.fixture
def deployment(tmp_path: Path) -> Deployment:
    return deployment_of(tmp_path)


def log_of(deployment: Deployment, steps: int) -> list[Decided]:
    """Steps that differ, some noised."""
    sensors = deployment.registry.sensors
    return [
        Decided(
            StepSchedule(
                step,
                tuple(
                    SensorRelease(each, Raw() if step % 3 else Gaussian(1.5))
                    for each in sensors[: 1 + step % 4]
                ),
            )
        )
        for step in range(steps)
    ]


def people_of(count: int) -> Population:
    """People, two of whom start by themselves."""
    known = population(count)
    starting = [
        MovementPrior.from_dense(
            f"starting {k}", np.eye(4) * 0.6 + 0.1, initial=np.array([0.7, 0.1, 0.1, 0.1])
        )
        for k in range(2)
    ]
    return Population.concatenate([known, Population.pack(starting, NAMES)])


def entries(people: Population, effective_from: int = 0) -> dict[str, PersonEntry | None]:
    names = [f"{number:032x}" for number in range(len(people))]
    return {
        name: parse_person(name.encode(), value, "d")
        for name, value in person_records(people, names, effective_from, "d")
    }


def accounts_of(deployment: Deployment, people: Population, log: Iterable[Decided] = ()) -> PartitionAccounts:
    accounts = PartitionAccounts(0, deployment)
    accounts.change(accounts.newcomers(entries(people)))
    accounts.restore(log)
    return accounts


def written(accounts: PartitionAccounts) -> tuple[bytes, list[Any]]:
    """What a worker writes after a step."""
    records = accounts.records()
    return accounts.named(accounts.summary()).line(), [
        each.tolist() for each in records if hasattr(each, "tolist")
    ]


class Kept(SnapshotTopic):
    """The topic as a dictionary."""

    def __init__(self) -> None:
        self.latest: dict[bytes, bytes] = {}

    async def start(self) -> None:
        """Nothing to connect to."""

    async def read(self, partition: int, moved: Callable[[], None]) -> dict[bytes, bytes]:
        return dict(self.latest)

    async def write_text(self, partition: int, text: bytes) -> StoredText:
        producer = _Producer(self.latest)
        self._producer, self._topic = producer, "accounts"
        return await super().write_text(partition, text)

    async def write_head(self, head: SnapshotHead) -> None:
        self.latest[SNAPSHOT_HEAD] = head.line()

    async def delete(self, partition: int, keys: Iterable[bytes]) -> None:
        for key in keys:
            del self.latest[key]


class _Producer:
    def __init__(self, latest: dict[bytes, bytes]) -> None:
        self._latest = latest

    async def send(self, topic: str, value: bytes, key: bytes, partition: int) -> Awaitable[None]:
        self._latest[key] = value
        return asyncio.sleep(0)


class Rig:
    """A keeper on a topic that is a dictionary, beside a log that stands at :data:`PLACE`."""

    def __init__(
        self, deployment: Deployment, monkeypatch: pytest.MonkeyPatch, key: SnapshotKey | None = KEY
    ) -> None:
        self.place = PLACE

        async def place_of_step(*_: object) -> LogPlace:
            return self.place

        async def holds_place(_: object, __: str, place: LogPlace) -> bool:
            return place == self.place

        monkeypatch.setattr(snapshot_keeper, "place_of_step", place_of_step)
        monkeypatch.setattr(snapshot_keeper, "holds_place", holds_place)
        self.now, self.deployment, self.topic = 0.0, deployment, Kept()
        self.keeper = self.another(key)

    def another(self, key: SnapshotKey | None = KEY, deployment: Deployment | None = None) -> SnapshotKeeper:
        """Another worker's keeper of the same topic."""
        thread = WorkThread(Pulse(), "test")
        keeper = SnapshotKeeper(deployment or self.deployment, thread, key, now_seconds=lambda: self.now)
        keeper._topic = self.topic
        return keeper

    def write(self, accounts: PartitionAccounts) -> None:
        """As a worker does before it ends."""

        async def work() -> None:
            await self.keeper.find(0, lambda: None)
            await self.keeper.write_last([accounts])

        asyncio.run(work())

    def found(self, keeper: SnapshotKeeper | None = None, partition: int = 0) -> Any:
        return asyncio.run((keeper or self.another()).find(partition, lambda: None))


@pytest.fixture(autouse=True)
def _in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    """People are taken in a few at a time, as many are."""
    monkeypatch.setattr(partition_accounts, "_CHECKED_AT_ONCE", 2)
    monkeypatch.setattr(partition_accounts, "PIECE_PEOPLE", 3)


@pytest.mark.parametrize("stands_for", [None, np.arange(1, 9)], ids=["people", "personas"])
def test_people_come_back_bit_for_bit(stands_for: np.ndarray | None) -> None:
    people = people_of(5)
    names = (*people.people, "with the first one's account")
    cells = Cells(np.array([*range(7), 0], dtype=np.int32), np.arange(7), stands_for)
    saved = SavedPeople(
        *(people, np.arange(7), names, cells),
        assumed={"x": "surveys"},
        records=[bytes([k] * 16) for k in range(8)],
    )
    again = SavedPeople.unpacked(saved.packed(), NAMES)
    assert again.population.fingerprint == people.fingerprint
    assert again.since.tolist() == saved.since.tolist()
    for kept, given in zip(again.cells, cells, strict=True):
        np.testing.assert_array_equal(kept, given)
    assert (again.names, again.assumed, again.records) == (names, saved.assumed, saved.records)


@pytest.mark.slow
@pytest.mark.parametrize("more", [{}, CROWD], ids=["informed", "crowd"])
def test_accounts_go_on_from_a_snapshot_as_if_nothing_had_happened(
    tmp_path: Path, more: dict[str, Any]
) -> None:
    """Risks, counts, worst moments, the attack beside the ceiling."""
    deployment = deployment_of(tmp_path, **more)
    log = log_of(deployment, 90)
    uninterrupted = accounts_of(deployment, people_of(6), log[:70])
    again = PartitionAccounts(0, deployment)
    again.take_over(uninterrupted.save())
    again.restore(log[again.first_to_restore : 70])
    assert again.next_step == 70
    for decided in log[70:]:
        for accounts in (uninterrupted, again):
            accounts.apply(decided)
        assert written(again) == written(uninterrupted)
    assert again.accounts.whole.snapshot() == uninterrupted.accounts.whole.snapshot()


@pytest.mark.slow
def test_a_snapshot_is_found_by_another_worker_and_replaces_the_one_before(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """People are written once while they stay, and nothing that no head names is left on the topic."""
    monkeypatch.setattr(snapshot_keeper, "PIECE_BYTES", 1000)
    rig, people, log = Rig(deployment, monkeypatch), people_of(4), log_of(deployment, 30)
    accounts = accounts_of(deployment, people, log[:20])
    rig.write(accounts)
    first = set(rig.topic.latest)
    accounts.restore(log[20:])
    asyncio.run(rig.keeper.write_last([accounts]))
    head = SnapshotHead.model_validate_json(rig.topic.latest[SNAPSHOT_HEAD])
    assert set(rig.topic.latest) == {SNAPSHOT_HEAD, *head.people.keys(), *head.state.keys()}
    assert set(head.people.keys()) < first
    assert len(head.people.keys()) > 1
    assert not first & set(head.state.keys())
    found = rig.found()
    assert (found.next_step, found.state) == (30, accounts.accounts.whole.snapshot())
    assert list(found.people.records) == [each.digest for each in entries(people).values() if each]


def test_a_snapshot_is_due_when_its_time_has_come_and_something_has_changed(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    rig, people, log = Rig(deployment, monkeypatch), people_of(4), log_of(deployment, 3)
    accounts = accounts_of(deployment, people)
    rig.write(accounts)
    assert not rig.topic.latest  # before the first step there is nothing to spare
    rig.now = 299.0
    accounts.restore(log[:1])
    assert rig.keeper.due([accounts]) is None
    rig.now = 300.0
    assert rig.keeper.due([accounts]) is accounts
    asyncio.run(rig.keeper.write_last([accounts]))
    rig.now = 900.0
    assert rig.keeper.due([accounts]) is None
    gone = dict.fromkeys(list(entries(people))[:1])
    accounts.change(accounts.newcomers(gone))  # newcomers uses the entries up
    assert rig.keeper.due([accounts]) is accounts
    asyncio.run(rig.keeper.write_last([accounts]))
    assert next(iter(entries(people))).encode() not in b"".join(rig.topic.latest.values())


def _other_seal(rig: Rig) -> None:
    rig.topic.latest[SNAPSHOT_HEAD] = changed(rig, SnapshotKey(b"x" * 32))


def changed(rig: Rig, key: SnapshotKey | None, **fields: Any) -> bytes:
    """The head with other fields, sealed again with a key."""
    head = SnapshotHead.model_validate_json(rig.topic.latest[SNAPSHOT_HEAD]).model_copy(update=fields)
    return (head if key is None else head.sealed(key)).line()


def _damage(rig: Rig) -> None:
    key = next(each for each in rig.topic.latest if each != SNAPSHOT_HEAD)
    piece = bytearray(rig.topic.latest[key])
    piece[len(piece) // 2] ^= 1
    rig.topic.latest[key] = bytes(piece)


def _lose(rig: Rig) -> None:
    del rig.topic.latest[next(each for each in rig.topic.latest if each != SNAPSHOT_HEAD)]


def _swap(rig: Rig) -> None:
    head = SnapshotHead.model_validate_json(rig.topic.latest[SNAPSHOT_HEAD])
    rig.topic.latest[SNAPSHOT_HEAD] = changed(rig, KEY, people=head.state, state=head.people)


def _another_log(rig: Rig) -> None:
    rig.place = PLACE.model_copy(update={"stamp": 2})


def _set(**fields: Any) -> Callable[[Rig], None]:
    def change(rig: Rig) -> None:
        rig.topic.latest[SNAPSHOT_HEAD] = changed(rig, fields.pop("key", KEY), **fields)

    return change


@pytest.mark.parametrize(
    ("change", "why"),
    [
        (_other_seal, "not sealed with snapshot_key"),
        (_set(key=None, next_step=19), "not sealed with snapshot_key"),
        (_set(key=None, seal=""), "not sealed with snapshot_key"),
        (_set(basis="other"), "another version or of other settings"),
        (_set(partition=1), "another partition"),
        (_another_log, "is not the log it was made from"),
        (_damage, "a part of it is missing or damaged"),
        (_lose, "a part of it is missing or damaged"),
        (_swap, "must be of the same people"),
        (lambda rig: rig.topic.latest.update({SNAPSHOT_HEAD: b"{}"}), "its head cannot be read"),
    ],
)
def test_a_snapshot_that_is_not_ours_or_not_whole_is_never_used(
    deployment: Deployment,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    change: Callable[[Rig], None],
    why: str,
) -> None:
    """Forged, damaged, of another version, partition or log: it is said why."""
    rig, people = Rig(deployment, monkeypatch), people_of(4)
    rig.write(accounts_of(deployment, people, log_of(deployment, 20)))
    assert rig.found().next_step == 20
    change(rig)
    assert rig.found() is None
    assert why in caplog.text


def test_a_snapshot_of_other_settings_is_never_used(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Also of those that only some of the risks hang on, which the accounts themselves compare."""
    rig, people = Rig(deployment, monkeypatch), people_of(4)
    accounts = accounts_of(deployment, people, log_of(deployment, 20))
    rig.write(accounts)
    assert rig.found(rig.another(deployment=deployment_of(tmp_path, horizon=5))) is None
    assert "other settings" in caplog.text
    budget = deployment_of(tmp_path, release={"mechanism": "budget", "budget": {"risk": 0.9}})
    other = PartitionAccounts(0, budget)
    with pytest.raises(Exception, match="other decided"):
        other.take_over(rig.found(rig.another(deployment=budget)))
    assert (other.next_step, other.pseudonyms) == (0, ())


@pytest.mark.slow
def test_without_a_key_or_where_every_step_counts_nothing_is_kept(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    limit = {"mechanism": "budget", "budget": {"risk": 0.9, "hindsight": True}}
    people, log = people_of(4), log_of(deployment, 20)
    for key, given in ((None, {}), (KEY, {"snapshot_seconds": 0.0}), (KEY, {"release": limit})):
        rig = Rig(deployment_of(tmp_path, **given), monkeypatch, key)
        asyncio.run(rig.keeper.start())
        rig.now = 1e9
        accounts = accounts_of(deployment, people, log)
        rig.write(accounts)
        assert rig.keeper.due([accounts]) is None
        assert not rig.topic.latest
    assert caplog.text.count("no snapshots are kept") == 1


def test_the_key_comes_from_a_file_or_the_environment_and_is_never_shown(tmp_path: Path) -> None:
    (tmp_path / "key").write_text(hex_key("ab"))
    (tmp_path / "key").chmod(0o600)
    named = load_snapshot_key(Settings(snapshot_key=tmp_path / "key"))
    given = load_snapshot_key(Settings.model_validate({"snapshot_key_secret": hex_key("ab")}))
    assert named is not None
    assert given is not None
    assert named.has_sealed(b"text", given.seal(b"text"))
    assert not named.has_sealed(b"text", KEY.seal(b"text"))
    assert "ab" not in repr(named)
    assert load_snapshot_key(Settings()) is None
    with pytest.raises(SettingsError, match="one place"):
        load_snapshot_key(
            Settings.model_validate({"snapshot_key": "key", "snapshot_key_secret": hex_key("ab")})
        )
    with pytest.raises(SnapshotKeyError):
        SnapshotKey.parse("abcd")


def test_a_record_that_is_known_is_not_read_again(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of all others the last one counts, and a record that is no person changes nothing."""
    old, new = (
        dict(person_records(population(4), [f"{k:032x}" for k in range(4)], since, deployment.digest))
        for since in (0, 3)
    )
    same, other, gone, back = old
    records = [
        (same, old[same]),
        (other, old[other]),
        (gone, old[gone]),
        (back, old[back]),
        (other, new[other]),
    ]
    records += [(gone, None), (back, new[back]), (back, old[back]), (same, b"no person")]

    async def read_partition(*_: object) -> Any:
        for offset, (name, value) in enumerate(records):
            yield SimpleNamespace(topic="persons", partition=0, key=name.encode(), value=value, offset=offset)

    async def refuse(refused: object) -> None:
        refusals.append(refused)

    refusals: list[object] = []
    monkeypatch.setattr(person_source, "read_partition", read_partition)
    known = {name: digest_of(value) for name, value in old.items()}
    found: Loaded = asyncio.run(PersonSource(deployment, refuse).load(0, lambda: None, known))
    assert found.unchanged == set(old)
    assert {name: entry and entry.effective_from for name, entry in found.changes.items()} == {
        other: 3,
        gone: None,
    }
    assert len(refusals) == 1
    assert json.loads(old[same])["person"] == same

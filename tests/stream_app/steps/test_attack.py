"""The attack beside the ceiling in a run: no count reaches it, partitions and restarts change no bit."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

import pytest

from models.keys import Pseudonymiser
from stream_app.analysis.accounted_again import read_decisions
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import person_records
from stream_app.steps.policy import Decided
from stream_app.steps.risk_output import sampled_together
from stream_app.watching.events import Observer, StepClosed
from stream_app.wire import Reading, RiskSummary
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import (
    LITTLE_WORK,
    NAMES,
    PSEUDONYM_SECRET,
    REGISTRY,
    lines_of,
    messages_of_a_day,
    population,
    run_on,
    settings,
)
from tests.stream_app.kafka.deployments import parse_person
from tests.stream_app.partitions import partition_of

STEPS = 12
SAMPLED = {
    "sampled_above": 0.05,
    "sharpen": False,
    "sharpen_operations": 2_000_000_000,  # for one in each share at least
    "release": {
        **{"mechanism": "gaussian", "sigma": 2.0, "sensors": {"B": {"mechanism": "raw"}}},
        "budget": {"share": 0.0, "added": 0.1},
    },
}
"""Beside a limit that is only watched."""

PEOPLE = Pseudonymiser.parse(PSEUDONYM_SECRET).pseudonyms(population().people)


class Shown(Observer):
    def __init__(self) -> None:
        self.summaries: list[RiskSummary] = []

    def closed(self, event: StepClosed) -> None:
        assert event.summary is not None
        self.summaries.append(event.summary)


class Uncounted:
    """Stands for the counters of a worker."""

    def __getattr__(self, name: str) -> Uncounted:
        return self

    def inc(self, number: int = 1) -> None: ...

    def set(self, number: int) -> None: ...


def summaries_of(folder: Path, messages: Iterable[bytes], **changed: object) -> list[RiskSummary]:
    """What a run's file says of every step."""
    run_on(folder, list(messages), settings=changed)
    lines = (folder / "risks.jsonl").read_bytes().splitlines()
    return [RiskSummary.model_validate_json(line) for line in lines if b'"risk_summary"' in line]


def workers_of(
    folder: Path, partitions: int, shares: Sequence[Sequence[int]], **changed: object
) -> list[list[RiskSummary]]:
    """What workers with these partitions show of the same steps; people are read backwards there."""
    (folder / "locations.txt").write_text("\n".join(NAMES) + "\n")
    kafka = {"servers": ("nowhere:9092",), "partitions": partitions}
    deployment = Deployment.of(settings(locations=folder / "locations.txt", kafka=kafka, **changed))
    records = dict(person_records(population(), PEOPLE, 0, deployment.digest))
    found = []
    for share in shares:
        shown = Shown()
        watch = AccountWatch(shown, Uncounted(), now_seconds=iter(range(10**6)).__next__)  # type: ignore[arg-type]
        owned = [PartitionAccounts(partition, deployment) for partition in share]
        for accounts in owned:
            names = [name for name in PEOPLE if partition_of(name, partitions) == accounts.partition]
            changes = {
                name: parse_person(name.encode(), records[name], deployment.digest)
                for name in reversed(names)
            }
            accounts.change(accounts.newcomers(changes))
        watch.owns(owned)
        for schedule in read_decisions(folder / "decisions.jsonl", REGISTRY):
            for accounts in owned:
                accounts.apply(Decided(schedule))
            watch.accounted(owned[-1], Decided(schedule))
        found.append(shown.summaries)
    return found


@pytest.mark.slow
@pytest.mark.parametrize("partitions", [1, 2, 4])
def test_account_workers_show_the_attack_of_one_process(tmp_path: Path, partitions: int) -> None:
    """Bit for bit with all partitions on one worker; on several, the draws are those of the whole.

    However many partitions there are: the one process knows of four.
    """
    lines = [lines_of(messages_of_a_day(STEPS, 3))]
    embedded = summaries_of(tmp_path, lines, **SAMPLED)
    assert len(embedded) == STEPS
    assert any(each.sampled and each.sampled.within_limit for each in embedded)
    assert all(each.sampled and each.sampled.most_added <= each.added["1.0"] for each in embedded)
    (together,) = workers_of(tmp_path, partitions, [range(partitions)], **SAMPLED)
    assert [each.attack for each in together] == [each.attack for each in embedded]
    assert [each.sampled for each in together] == [each.sampled for each in embedded]
    apart = workers_of(tmp_path, partitions, [[partition] for partition in range(partitions)], **SAMPLED)
    for step, whole in enumerate(embedded):
        found = [worker[step].attack for worker in apart]
        assert whole.sampled == sampled_together([worker[step].sampled for worker in apart])
        assert whole.attack is not None
        parts = [part for attack in found if attack is not None for part in attack.parts]
        assert sorted(parts, key=repr) == sorted(whole.attack.parts, key=repr)


@pytest.mark.slow
def test_no_count_reaches_the_attack(tmp_path: Path) -> None:
    """Other counts from the same sensors, and another noise key: the same attack, and not a trivial one."""
    messages = messages_of_a_day(STEPS, 3)
    others = [each.model_copy(update={"count": 7} if isinstance(each, Reading) else {}) for each in messages]
    found = summaries_of(tmp_path / "some", [lines_of(messages)], **SAMPLED)
    again = summaries_of(tmp_path / "other", [lines_of(others)], noise_key_secret=hex_key("33"), **SAMPLED)
    assert [(each.attack, each.sampled) for each in found] == [(each.attack, each.sampled) for each in again]
    assert any(each.attack.success > each.mean_baseline + 0.01 for each in found if each.attack)
    assert all(each.attack.low <= each.mean_risk for each in found if each.attack)


@pytest.mark.slow
def test_a_run_that_goes_on_attacks_as_if_it_had_not_stopped(tmp_path: Path) -> None:
    """Whether from a snapshot or from the log alone."""
    lines = [line + b"\n" for line in lines_of(messages_of_a_day(80, 3)).splitlines()]
    given = {**LITTLE_WORK, "sharpen_operations": 200_000_000, "sampled_above": 0.3}
    whole = summaries_of(tmp_path / "whole", lines, **given)
    assert any(each.sampled and each.sampled.people for each in whole)
    for every in (0.0, 1e-9):
        folder = tmp_path / f"halves {every}"
        begun = {**given, "snapshot_seconds": every}
        run_on(folder, lines[: len(lines) * 3 // 4], keep_open=True, settings=begun)
        assert summaries_of(folder, lines[len(lines) * 3 // 4 :], **given) == whole


def test_nothing_is_attacked_where_it_is_switched_off(tmp_path: Path) -> None:
    """Then a summary is what readers of earlier versions know."""
    lines = [lines_of(messages_of_a_day(STEPS, 3))]
    found = summaries_of(tmp_path / "with", lines)
    without = summaries_of(tmp_path / "without", lines, attack_draws=0)
    written = (tmp_path / "without" / "risks.jsonl").read_bytes()
    assert b"attack" not in written
    assert b"sampled" not in written
    assert without == [each.model_copy(update={"attack": None}) for each in found]

"""Computes all risks again from the logs, offline, and compares them with those that the workers wrote.

Only ``persons`` and ``decisions`` are read; a risk is a function of the two. The result must agree bit for
bit with what the workers wrote, except for people whose prior was changed since.
"""

from __future__ import annotations

from collections.abc import Callable

from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.account.person_source import Changes, enter_records
from stream_app.kafka.broker.clients import Reader, consuming, records
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import DECISION, in_pieces
from stream_app.steps import Comparison


def compare(deployment: Deployment, take: Callable[[bytes], object] = lambda line: None) -> Comparison:
    """Account every logged step for all people, and compare each line with what the workers wrote.

    ``take`` gets every line. Refuses settings that the deployment was not begun with: they would give other
    risks for the same people.
    """
    deployment.join()
    written: dict[tuple[int, bytes], set[bytes]] = {}
    result = Comparison()
    with consuming(deployment.connection) as consumer:
        for record in records(consumer, deployment.topics.risks):
            line = record.value or b""
            written.setdefault((record.partition, Comparison.subject(line)), set()).add(line)
        partitions = _partitions(deployment, read_people(consumer, deployment))
        for record in records(consumer, deployment.topics.decisions):
            decision = DECISION.read_or_warn(record)
            if decision is None:
                continue
            decided = deployment.decided(decision)
            for accounts in partitions:
                accounts.apply(decided)
                for line in _lines(accounts):
                    take(line)
                    live = written.pop((accounts.partition, Comparison.subject(line)), set())
                    result.hold(line, next(iter(live - {line} or live), None))
            result.steps += 1
    result.people = sum(len(accounts.pseudonyms) for accounts in partitions)
    for lines in written.values():
        result.lack(next(iter(lines)))
    return result


def read_people(consumer: Reader, deployment: Deployment, draws: int | None = None) -> dict[int, Changes]:
    """The people by partition, as a worker that reads all records has them.

    With so many chains for each; None: as many as the settings say.
    """
    people: dict[int, Changes] = {each: {} for each in range(deployment.topics.partitions)}
    for some in in_pieces(records(consumer, deployment.topics.persons)):
        for partition, changes in people.items():
            own = [record for record in some if record.partition == partition]
            enter_records(changes, own, deployment, draws)
    return people


def _partitions(deployment: Deployment, people: dict[int, Changes]) -> list[PartitionAccounts]:
    """The accounts of all people before the first step."""
    partitions = []
    for partition, changes in people.items():
        accounts = PartitionAccounts(partition, deployment)
        accounts.change(accounts.newcomers(changes))
        partitions.append(accounts)
    return partitions


def _lines(accounts: PartitionAccounts) -> list[bytes]:
    """What a worker writes about a partition after a step."""
    summary, *people = b"".join(accounts.written()).splitlines()
    return [*people, summary]

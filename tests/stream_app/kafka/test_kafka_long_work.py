"""Slow is not stuck: long work is done in pieces that each show, and comes out as if done at once."""

from __future__ import annotations

import numpy as np
import pytest

from models.mechanisms import Raw
from models.releases import SensorRelease, StepSchedule
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import PersonEntry, person_records
from stream_app.steps.policy import Decided
from tests.stream_app.engine_support import no_prior, population
from tests.stream_app.kafka.deployments import parsed


def entries(count: int, wrong: str = "") -> dict[str, PersonEntry | None]:
    """So many people, one of whom may have a record that is no prior."""
    names = [f"{number:032x}" for number in range(count)]
    records = dict(person_records(population(count), names, 0, "d"))
    if wrong:
        records[wrong] = no_prior(records[wrong])
    return parsed(records)


def test_people_who_are_loaded_in_pieces_are_accounted_as_those_loaded_at_once(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each piece packed, made ready and joined, and each logged step, is a sign of life."""
    sensor = deployment.registry.sensors[0]
    log = [StepSchedule(step, (SensorRelease(sensor, Raw()),)) for step in range(4)]

    partitions, signs = [], []
    for piece in (500, 2):
        monkeypatch.setattr("stream_app.kafka.account.partition_accounts.PIECE_PEOPLE", piece)
        accounts, moved = PartitionAccounts(0, deployment), []
        for schedule in log:
            accounts.apply(Decided(schedule))
        people = entries(7, wrong="0" * 31 + "3")
        sign = lambda moved=moved: moved.append(1)  # noqa: E731
        newcomers = accounts.newcomers(people, sign)
        assert newcomers.next_step == 0
        newcomers.apply(map(Decided, log[:1]), sign)  # the log comes some steps at a time
        newcomers.apply(map(Decided, log[1:]), sign)
        assert people == {}
        accounts.change(newcomers, sign)
        assert [each.pseudonym for each in newcomers.refused] == ["0" * 31 + "3"]
        partitions.append(accounts)
        signs.append(len(moved))
    whole, pieces = partitions
    assert whole.pseudonyms == pieces.pseudonyms
    np.testing.assert_array_equal(whole.accountant.risk(), pieces.accountant.risk())
    np.testing.assert_array_equal(whole.accountant.baseline(), pieces.accountant.baseline())
    assert signs[0] == 1 + 1 + len(log) + 1
    assert signs[1] >= 4 + 3 + 2 + len(log) + 1

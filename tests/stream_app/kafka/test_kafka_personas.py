"""People of one partition who share a prior have one account there, while they come, change and leave."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from models.mechanisms import Gaussian, Raw
from models.priors import Population
from models.releases import SensorRelease, StepSchedule
from stream_app.kafka.account.account_watch import view_of
from stream_app.kafka.account.partition_accounts import PartitionAccounts, SavedPeople
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import (
    PersonEntry,
    person_records,
)
from stream_app.steps import Accounts
from stream_app.steps.policy import Decided
from tests.stream_app.engine_support import population
from tests.stream_app.kafka.deployments import deployment_in, enter, parsed

KINDS, STEPS = 4, 12


def deployment(folder: Path, operations: int) -> Deployment:
    return deployment_in(folder, sharpen_operations=operations, most_exposed=5, risk_every=4)


def entries(numbers: list[int], kind: int, since: int) -> dict[str, PersonEntry | None]:
    """These people, who live like number ``kind`` and those after it, in turn."""
    kinds = population(KINDS)
    chosen = kinds.subset([(kind + k) % KINDS for k in range(len(numbers))])
    return parsed(person_records(chosen, [f"{each:032x}" for each in numbers], since, "d"))


def written(accounts: PartitionAccounts) -> tuple[object, ...]:
    """Everything that is written of a partition after a step."""
    records = accounts.records()
    figures = records.risk.tolist(), records.baseline.tolist(), records.added.tolist()
    named = [accounts.pseudonyms[person] for person in records.person.tolist()]
    return accounts.named(accounts.summary()), named, figures, records.by, accounts.attack()


@pytest.mark.slow
def test_what_a_partition_writes_is_what_people_accounted_apart_would(tmp_path: Path, monkeypatch) -> None:
    """Summaries, records by pseudonym and the attack, with all the work there is and with little."""
    log = []
    random = np.random.default_rng(3)
    for operations in (10**10, 12_000_000):
        given = deployment(tmp_path, operations)
        sensors = given.registry.sensors
        log = [
            StepSchedule(
                step,
                tuple(
                    SensorRelease(sensors[k], Raw() if random.random() < 0.5 else Gaussian(1.0))
                    for k in np.flatnonzero(random.random(len(sensors)) < 0.6).tolist()
                ),
            )
            for step in range(STEPS)
        ]
        by_account = PartitionAccounts(0, given)
        with monkeypatch.context() as patch:
            patch.setattr("stream_app.kafka.account.partition_accounts.Accounts", ApartAccounts)
            apart = PartitionAccounts(0, given)
            run(apart, log, found := [])
        expected, found = found, []
        run(by_account, log, found)
        assert found == expected
        assert len(by_account.accountant.population) <= 12 < len(apart.accountant.population)
        assert len(by_account.pseudonyms) == len(apart.accountant.population)


class ApartAccounts(Accounts):
    """Accounts of one person each."""

    @classmethod
    def of(cls, settings, horizon, population, pseudonyms, effective_from=None):  # type: ignore[no-untyped-def]
        made = Accounts.of(settings, horizon, population, pseudonyms, effective_from).informed
        return cls(ContinuousAccountant(population, horizon, effective_from, made.shares, apart=True))


def run(accounts: PartitionAccounts, log: list[StepSchedule], found: list[tuple[object, ...]]) -> None:
    """People are there at first, come late, come with a past, change their habits and leave."""
    enter(accounts, entries(list(range(20)), 0, 0), log)
    for step in log:
        accounts.apply(Decided(step))
        found.append(written(accounts))
        if step.step == 3:
            enter(accounts, {**entries(list(range(20, 35)), 1, 2), f"{4:032x}": None}, log)
        if step.step == 6:
            enter(accounts, {**entries(list(range(5, 12)), 2, 5), f"{25:032x}": None}, log)
        if step.step == 8:
            enter(accounts, entries([4, 40], 0, 0), log)


def weighed(some: Population, weights: list[float], since: int = 0) -> dict[str, PersonEntry | None]:
    """Records of personas, as they come from ``persons``."""
    heavy = replace(some, weights=np.array(weights))
    names = [f"{each:032x}" for each in range(len(some))]
    records = dict(person_records(heavy, names, since, "d"))
    assert [json.loads(value)["weight"] for value in records.values()] == weights
    return parsed(records)


def test_a_persona_counts_for_the_people_behind_it(tmp_path: Path) -> None:
    """In summaries and on the page, before and after a snapshot."""
    given, kinds = deployment(tmp_path, 10**10), population(3)
    accounts = PartitionAccounts(0, given)
    enter(accounts, weighed(kinds, [2.0, 5.0, 1.0]))
    each = PartitionAccounts(0, given)
    listed = kinds.subset([0, 0, 1, 1, 1, 1, 1, 2])
    names = [f"{number:032x}" for number in range(8)]
    enter(each, parsed(person_records(listed, names, 0, "d")))
    step = StepSchedule(0, (SensorRelease(given.registry.sensors[0], Raw()),))
    for some in (accounts, each):
        some.apply(Decided(step))
    assert accounts.accountant.everybody == view_of([accounts]).people == 8
    without = {"attack", "worst"}
    found = accounts.summary().model_dump(exclude=without)
    assert found == each.summary().model_dump(exclude=without)
    again = PartitionAccounts(0, given)
    saved = accounts.save()
    people = SavedPeople.unpacked(saved.people.packed(), given.location_names)
    again.take_over(saved._replace(people=people))
    again.restore([Decided(step)])
    assert again.summary().model_dump(exclude=without) == found
    view, standing = view_of([again]), view_of([each]).standing()
    assert view.standing().people == 8
    assert view.standing().count(view.standing().risk >= 0.5) == standing.count(standing.risk >= 0.5)

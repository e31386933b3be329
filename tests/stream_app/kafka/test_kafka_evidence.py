"""Chains drawn from evidence, without a broker: in people's records, with the risks of an embedded run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.exceptions import PriorError
from models.prior_files import save_evidence
from models.priors import Evidence, Lists, MovementPrior, Population, with_draws
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import InputError, RunChangedError
from stream_app.kafka.account.account_watch import view_of
from stream_app.kafka.account.partition_accounts import PartitionAccounts, SavedPeople
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import NoPersonError, PersonEntry, people_of, person_records
from stream_app.kafka.tools.person_loading import _check_size, load_people
from stream_app.setup.given_priors import as_set
from stream_app.setup.keys import load_pseudonym_key
from stream_app.setup.run_folder.people_record import change_in_words
from stream_app.setup.run_folder.record import Entry
from stream_app.setup.settings import Settings
from stream_app.steps import JsonlRisks
from stream_app.wire import StepDecision
from tests.stream_app.engine_support import (
    NAMES,
    TickingClock,
    lines_of,
    messages_of_a_day,
    population,
    settings,
)
from tests.stream_app.kafka.deployments import parse_person
from tests.stream_app.kafka.test_kafka_new_priors import Topic
from tests.stream_app.partitions import partition_of

DRAWS, STEPS = 4, 11


def people() -> Population:
    """Some whose data leave much open, one who starts by themself, and two with a daily cycle."""
    random = np.random.default_rng(3)
    some = [
        MovementPrior.from_dense("starting", np.eye(4) * 0.6 + 0.1, initial=np.array([0.7, 0.1, 0.1, 0.1])),
        *(
            MovementPrior.from_dense(f"daily {k}", random.dirichlet(np.ones(4), size=(3, 4)), places=range(4))
            for k in range(2)
        ),
    ]
    return Population.concatenate([population(5), Population.pack(some, NAMES)])


def evidence_of(everybody: Population) -> Evidence:
    rows = [everybody.chain(number).start.size for number in range(len(everybody))]
    start = np.concatenate(([0], np.cumsum(rows)))
    return Evidence(everybody.people, Lists(start, np.linspace(2.0, 40.0, start[-1])))


def given_in(folder: Path, **more: Any) -> Settings:
    save_evidence(evidence_of(people()), folder / "evidence.parquet")
    (folder / "locations.txt").write_text("\n".join(NAMES))
    kafka = {"servers": ("nowhere:9092",), "partitions": 2}
    files = {"evidence": folder / "evidence.parquet", "locations": folder / "locations.txt"}
    return settings(**files, posterior_draws=DRAWS, kafka=kafka, sharpen_operations=3_000_000, **more)


def entries_of(deployment: Deployment, everybody: Population, names: list[str], first: int = 0) -> Any:
    return {
        name: parse_person(name.encode(), value, deployment.digest, draws=DRAWS)
        for name, value in person_records(everybody, names, first, deployment.digest)
    }


def test_a_record_gives_the_same_chains_bit_for_bit(tmp_path: Path) -> None:
    """Under the pseudonym; whoever reads it draws nothing, so no version of numpy matters."""
    deployment = Deployment.of(given_in(tmp_path))
    everybody = as_set(deployment.settings, people())
    names = [f"{number:032x}" for number in range(len(everybody))]
    found = people_of(entries_of(deployment, everybody, names).values(), NAMES)
    assert not found.refused
    assert everybody.drawn is not None
    assert found.population.drawn is not None
    assert found.population.draws == DRAWS
    for own, others in (
        (found.population.arrays, everybody.arrays),
        (found.population.drawn.arrays, everybody.drawn.arrays),
    ):
        for array, other in zip(own, others, strict=True):
            assert array.tobytes() == other.tobytes()
    assert not any(name in person for person in people().people for name in found.population.drawn.people)


def test_partitions_have_the_risks_of_an_embedded_run(tmp_path: Path) -> None:
    """People come, get other priors and leave in between; accounts are taken over from snapshots."""
    given = given_in(tmp_path)
    deployment, everybody = Deployment.of(given), as_set(given, people())
    run(
        given,
        RunOptions(tmp_path / "out"),
        everybody,
        clock=TickingClock(),
        chunks=[lines_of(messages_of_a_day(STEPS, 4))],
    )
    lines = (tmp_path / "out" / "decisions.jsonl").read_bytes().splitlines()
    steps = [deployment.decided(StepDecision.model_validate_json(line)) for line in lines]
    names = list(load_pseudonym_key(given).pseudonyms(everybody.people))
    found: list[bytes] = []
    for partition in range(2):
        own = [i for i, name in enumerate(names) if partition_of(name, 2) == partition]
        here, called = everybody.subset(np.array(own)), [names[i] for i in own]
        accounts = PartitionAccounts(partition, deployment)
        accounts.change(accounts.newcomers(entries_of(deployment, here.subset([0]), called[:1])))
        for step in steps:
            number = step.schedule.step
            if number == 4:  # all others, whose first step was the first; and somebody who leaves again
                changes = entries_of(deployment, here, called)
                changes["f" * 32] = next(iter(entries_of(deployment, here.subset([1]), ["f" * 32]).values()))
                newcomers = accounts.newcomers(changes)
                newcomers.apply(steps[:4], lambda: None)
                accounts.change(newcomers)
            if number == 5:
                accounts.change(accounts.newcomers({"f" * 32: None}))
                saved, accounts = accounts.save(), PartitionAccounts(partition, deployment)
                packed = saved.people.packed()
                unpacked = SavedPeople.unpacked(packed, NAMES, draws=DRAWS)
                assert unpacked.packed() == packed
                accounts.take_over(saved._replace(people=unpacked))
            accounts.restore([step])
            if number >= 5:
                for block in JsonlRisks(accounts.pseudonyms).blocks(number, accounts.records()):
                    found += block.splitlines()
        assert accounts.summary().draws == DRAWS
        assert f"means over {DRAWS} chains" in (view_of([accounts]).note or "")
    risks = (tmp_path / "out" / "risks.jsonl").read_bytes().splitlines()
    wanted = [line for line in risks if b'"type":"risk",' in line and json.loads(line)["step"] >= 5]
    assert len(wanted) > len(everybody)
    assert sorted(found) == sorted(wanted)


def test_the_number_of_chains_is_part_of_what_a_deployment_began_with(tmp_path: Path) -> None:
    begun = Deployment.of(given_in(tmp_path))
    plain = Deployment.of(begun.settings.model_copy(update={"evidence": None}))
    assert begun.basis["draws"] == DRAWS
    assert "draws" not in plain.basis
    assert len({begun.digest, plain.digest}) == 2


def test_records_with_other_chains_are_refused_alone(tmp_path: Path) -> None:
    """None, too few, ragged, of another prior, or no probabilities: the other people are read."""
    deployment = Deployment.of(given_in(tmp_path))
    everybody = as_set(deployment.settings, people())
    names = [f"{number:032x}" for number in range(len(everybody))]
    records = dict(person_records(everybody, names, 0, deployment.digest))
    sound = json.loads(records[names[0]])
    for draws in (None, sound["draws"][:2], [[*sound["draws"][0], 0.5], *sound["draws"][1:]]):
        value = json.dumps({**sound, "draws": draws}).encode()
        with pytest.raises(NoPersonError, match="load it again"):
            parse_person(names[0].encode(), value, deployment.digest, draws=DRAWS)
    with pytest.raises(NoPersonError, match="must have as many moves"):
        value = json.dumps({**sound, "draws": [*sound["draws"], [0.5]]}).encode()
        parse_person(names[0].encode(), value, deployment.digest, draws=DRAWS)
    entries = list(entries_of(deployment, everybody, names).values())
    entries[0] = entries[0]._replace(draws=entries[0].draws[:, 1:])
    entries[2] = entries[2]._replace(draws=entries[2].draws * 0.5)
    found = people_of(entries, NAMES)
    assert [each.pseudonym for each in found.refused] == [names[0], names[2]]
    assert found.population.people == tuple(names[1:2] + names[3:])


def test_more_chains_are_loaded_before_their_number_is_raised(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first of a record are those of fewer, bit for bit; whoever decides asks whether all are there."""
    topic, few = Topic(monkeypatch), given_in(tmp_path)
    more = few.model_copy(update={"posterior_draws": DRAWS + 2})
    fewer = few.model_copy(update={"posterior_draws": DRAWS - 1})
    record = "stream_app.kafka.deployment.deployment.DeploymentTopic"
    monkeypatch.setattr(f"{record}.begun", lambda _: Deployment.of(few).basis)
    monkeypatch.setattr(f"{record}.entries", lambda _: ())
    deciding = Deployment.of(more)
    deciding.read_record()

    def latest(draws: int) -> list[PersonEntry]:
        last = {key: value for key, value in topic.log if value}
        return [parse_person(key, value, deciding.digest, draws=draws) for key, value in last.items()]

    load_people(few, people(), None)
    before = latest(DRAWS)
    load_people(few, people(), None)
    assert not topic.record
    with pytest.raises(RunChangedError, match=rf"{DRAWS} of {DRAWS + 2}.*persons load"):
        deciding.require_chains()
    with pytest.raises(RunChangedError, match=f"draws was {DRAWS}, is {DRAWS - 1}"):
        load_people(fewer, people(), None)
    load_people(more, people().subset([0, 1]), None)  # the others have as many as before
    assert not topic.record
    load_people(more, people(), None)
    deciding.require_chains()
    assert [about["chains"] for _, _, about in topic.record] == [DRAWS + 2]
    for was, now, plain in zip(before, latest(DRAWS), latest(1), strict=True):
        assert was.draws is not None and now.draws is not None
        assert was.draws.tobytes() == now.draws.tobytes()
        assert plain.draws is None
    load_people(few, people().subset([3]), None)
    with pytest.raises(RunChangedError, match=f"{DRAWS} of {DRAWS + 2}"):
        deciding.require_chains()
    entry = Entry.model_construct(step=7, about=topic.record[0][2])
    assert change_in_words(entry) == f"{DRAWS + 2} chains for each person from step 7 on"


def test_people_without_evidence_are_not_loaded(tmp_path: Path) -> None:
    given = given_in(tmp_path)
    with pytest.raises(PriorError, match="evidence must have a number"):
        as_set(given, population(6))
    assert as_set(given.model_copy(update={"evidence": None}), people()).draws == 1
    assert with_draws(people(), evidence_of(people()), 3).draws == 3


def test_a_record_that_no_broker_takes_is_refused_with_what_to_do() -> None:
    _check_size(16 * 2**20, DRAWS)
    with pytest.raises(InputError, match="lower posterior_draws"):
        _check_size(16 * 2**20 + 1, DRAWS)

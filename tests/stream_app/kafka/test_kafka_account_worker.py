"""An account worker's loop without a broker: steps handed over early, and ends that clients swallow."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import AsyncIterator
from dataclasses import replace
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from prometheus_client import CollectorRegistry

from accounting.bounds.radius import ceiling_within
from models.mechanisms import Raw
from models.priors import Population
from models.releases import SensorRelease, StepSchedule
from stream_app.kafka.account.account_watch import AccountWatch, view_of
from stream_app.kafka.account.account_worker import AccountWorker
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import person_records
from stream_app.kafka.worker_metrics import AccountCounters, AccountMetrics
from stream_app.kafka.worker_process import Pulse, stop_if_cancelled
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.release_settings import CrowdSettings
from stream_app.setup.settings import Settings
from stream_app.steps.policy import Decided
from stream_app.steps.policy.proposals import Limit, Option, Proposal, SensorOptions, Source
from stream_app.wire.messages import RiskSummary, StepDecision, decision_of
from tests.stream_app.engine_support import population
from tests.stream_app.kafka.deployments import enter, parsed


class Written:
    """Keeps what would be written to the topics of risks and dead letters."""

    def __init__(self) -> None:
        self.steps: list[int] = []

    async def write(self, partition: int, summary: RiskSummary, people: object, records: object) -> None:
        self.steps.append(summary.step)


def worker_of(deployment: Deployment, log: tuple[StepSchedule, ...] = ()) -> AccountWorker:
    """A worker that takes the log of decisions from a list, if there is one."""

    async def logged(first: int, until: int) -> AsyncIterator[list[Decided]]:
        yield list(map(Decided, log[first:until]))

    worker = AccountWorker(deployment, watch=MagicMock(), pulse=Pulse())
    if log:
        worker._loader.logged = logged  # type: ignore[method-assign]
    return worker


def steps_of(deployment: Deployment, count: int) -> tuple[StepSchedule, ...]:
    releases = (SensorRelease(deployment.registry.sensors[0], Raw()),)
    return tuple(StepSchedule(step, releases) for step in range(count))


def test_the_risks_of_steps_taken_from_the_log_are_told_once_each(deployment: Deployment) -> None:
    """Whatever order steps are handed over in: each once, and none before those it follows."""

    async def work() -> tuple[Written, PartitionAccounts]:
        log = steps_of(deployment, 8)
        worker = worker_of(deployment, log)
        risks = worker._risks = Written()  # type: ignore[assignment]
        accounts = PartitionAccounts(0, deployment)
        people = parsed(person_records(population(3), ["a", "b", "c"], 0, "d"))
        enter(accounts, people)
        worker._partitions = {0: accounts}
        for step in (0, 1, 5, 3, 2, 6, 5, 7):
            await worker._take(decision_of(log[step]))
        return risks, accounts  # type: ignore[return-value]

    risks, accounts = asyncio.run(work())
    assert risks.steps == list(range(8))
    assert accounts.next_step == 8


def test_a_partition_that_is_given_later_is_told_to_where_the_others_are(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its owner before has written up to step 2; the log is not followed a second time for it."""
    written: list[tuple[int, int]] = []

    class People(MagicMock):
        async def load(self, *arguments: object) -> SimpleNamespace:
            return SimpleNamespace(unchanged=set(), changes={})

    class Group(MagicMock):
        async def read_from(self, *where: object) -> None:
            pass

    class Both(Written):
        async def write(self, partition: int, summary: RiskSummary, *more: object) -> None:  # type: ignore[override]
            written.append((partition, summary.step))

    async def last_risk_step(_: object, topic: str, partition: int) -> int:
        return 2 if partition == 1 else -1

    monkeypatch.setattr("stream_app.kafka.account.account_worker.last_risk_step", last_risk_step)

    async def work() -> None:
        log = steps_of(deployment, 8)
        worker = worker_of(deployment, log)
        worker._risks = Both()  # type: ignore[assignment]
        worker._loader.persons, worker._app = People(), Group()
        await worker.assigned({0})
        await worker._settle()
        for schedule in log[:6]:
            await worker._take(decision_of(schedule))
        await worker.assigned({0, 1})
        await worker._settle()
        await worker._take(decision_of(log[6]))

    asyncio.run(work())
    assert [step for partition, step in written if partition == 0] == list(range(7))
    assert [step for partition, step in written if partition == 1] == list(range(3, 7))


def test_a_partition_that_is_taken_away_while_it_is_loaded_is_not_loaded_to_the_end(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first worker of a group is given all until the next joins. Given back, one is loaded anew."""
    people = parsed(person_records(population(40), [f"{k:032x}" for k in range(40)], 0, "d"))
    opened: list[int] = []

    class People(MagicMock):
        next_offsets = dict.fromkeys(range(4), 0)

        async def load(self, partition: int, *arguments: object) -> SimpleNamespace:
            if not opened:
                await worker.assigned({2, 3})
            opened.append(partition)
            return SimpleNamespace(unchanged=set(), changes=dict(people))

    class Group(MagicMock):
        async def read_from(self, *where: object) -> None:
            read_from.append(where[1])

    async def last_risk_step(*_: object) -> int:
        return -1

    monkeypatch.setattr("stream_app.kafka.account.account_worker.last_risk_step", last_risk_step)
    worker, read_from = worker_of(deployment, steps_of(deployment, 1)), list[Any]()

    async def work() -> None:
        worker._loader.persons, worker._app = People(), Group()
        await worker.assigned({0, 1, 2, 3})
        await worker._settle()
        assert (opened, read_from, set(worker._partitions)) == ([0, 2, 3], [2, 3], {2, 3})
        await worker.assigned({0, 3})
        await worker._settle()

    asyncio.run(work())
    assert (opened, read_from, set(worker._partitions)) == ([0, 2, 3, 0], [2, 3, 0], {0, 3})
    assert all(len(each.pseudonyms) == 40 for each in worker._partitions.values())


def test_people_of_a_partition_that_is_taken_away_while_they_change_are_loaded_anew(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where accounts need every step: what changed was taken already, and must not be lost."""
    worker, everybody = worker_of(deployment), population(3)
    accounts = PartitionAccounts(0, deployment)
    monkeypatch.setattr(Settings, "needs_every_step", True)

    class People(MagicMock):
        def waiting(self) -> tuple[int, ...]:
            return (0,)

        def take(self, partition: int) -> dict[str, Any]:
            return parsed(person_records(everybody, ["a", "b", "c"], 0, "d"))

        async def load(self, *arguments: object) -> SimpleNamespace:
            await worker.assigned(set())
            await worker.assigned({1})
            return SimpleNamespace(unchanged=set(), changes=self.take(0))

    async def work() -> None:
        worker._loader.persons, worker._app = People(), MagicMock()
        worker._partitions, worker._assignment = {0: accounts}, {0}
        await worker._change_people()
        assert not worker._partitions

    asyncio.run(work())


@pytest.mark.slow
def test_without_a_snapshot_nobody_hides_others_once_priors_were_renewed_in_a_crowd(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In the first step that is asked about: under the earlier prior others may have been free before it."""
    hidden = {}
    settings = deployment.settings.model_copy(update={"crowd": CrowdSettings(on=True)})
    in_crowd, log = replace(deployment, settings=settings), steps_of(deployment, 9)
    everybody = parsed(person_records(population(12), [f"{k:032x}" for k in range(12)], 0, "d"))

    class People(MagicMock):
        async def load(self, *arguments: object) -> SimpleNamespace:
            return SimpleNamespace(unchanged=set(), changes=dict(everybody))

    async def work(is_renewed: bool) -> None:
        monkeypatch.setattr(Deployment, "has_renewed_in_crowd", lambda _: is_renewed)
        loader = worker_of(in_crowd, log)._loader
        loader.persons = People()
        accounts = (await loader.load(0, 7)).accounts
        for step in log[7:]:
            ((crowd,),) = (each.crowds for each in accounts.ask((step,)))
            hidden[is_renewed, step.step] = any(crowd.units)
            accounts.apply(step, (crowd,))

    for is_renewed in (False, True):
        asyncio.run(work(is_renewed))
    assert hidden[False, 7] and not hidden[True, 7]
    assert hidden[True, 8]


@pytest.mark.parametrize("missing", [None, 300, 449])
def test_a_long_log_is_read_some_steps_at_a_time_and_without_gaps(
    deployment: Deployment, monkeypatch: pytest.MonkeyPatch, missing: int | None
) -> None:
    """What is held for a moment does not grow with the log."""
    log = steps_of(deployment, 450)

    async def read_steps(_: object, topic: str, first: int, until: int) -> AsyncIterator[StepDecision]:
        for schedule in log[first:until]:
            if schedule.step != missing:
                yield decision_of(schedule)

    async def work() -> list[int]:
        async for schedules in worker_of(deployment)._loader.logged(20, 450):
            steps.extend(each.schedule.step for each in schedules)
            assert len(schedules) <= 200
        return steps

    monkeypatch.setattr("stream_app.kafka.account.account_worker.read_steps", read_steps)
    steps: list[int] = []
    if missing is None:
        assert asyncio.run(work()) == list(range(20, 450))
        return
    with pytest.raises(LogError, match=rf"every step from 20 to 449, got none of step {missing}"):
        asyncio.run(work())
    assert steps == list(range(20, missing))


def test_a_loop_ends_though_a_client_has_swallowed_its_cancellation() -> None:
    async def loop() -> None:
        while True:
            stop_if_cancelled()
            try:
                await asyncio.sleep(60.0)
            except asyncio.CancelledError:
                continue  # as clients do that are closed at that moment

    async def work() -> bool:
        task = asyncio.create_task(loop())
        await asyncio.sleep(0)
        task.cancel()
        await asyncio.wait({task}, timeout=10.0)
        return task.cancelled()

    assert asyncio.run(work())


@pytest.mark.parametrize("most_exposed", [None, 2])
def test_a_summary_names_the_most_exposed_only_when_asked(
    deployment: Deployment, most_exposed: int | None
) -> None:
    """Then as the summary of a run in one process does, in the same order."""
    settings = deployment.settings.model_copy(update={"most_exposed": most_exposed})
    deployment = dataclasses.replace(deployment, settings=settings)
    accounts = PartitionAccounts(0, deployment)
    people = parsed(person_records(population(3), ["a", "b", "c"], 0, "d"))
    enter(accounts, people)
    for step in steps_of(deployment, 8):
        accounts.apply(Decided(step))
    worst, names = accounts.accountant.worst(), accounts.pseudonyms
    ranked = sorted(range(3), key=lambda i: (-worst.added[i], names[i]))
    named = [each.person for each in accounts.named(accounts.summary()).worst]
    assert named == ([names[i] for i in ranked[:2]] if most_exposed else [])
    assert accounts.summary().most_added == worst.added.max() > 0


def test_assumed_habits_are_called_so_as_long_as_anybody_has_them(deployment: Deployment) -> None:
    """On the worker's page, in its metrics and in every summary; a measured prior ends it."""
    accounts, registry = PartitionAccounts(0, deployment), CollectorRegistry()
    metrics = AccountMetrics(registry, deployment.registry.sensors, (0.5,), 1e-6)
    watch = AccountWatch(metrics, AccountCounters(registry, metrics))

    def change(people: Population, names: list[str]) -> str:
        """What the page says once these people are loaded."""
        changes = parsed(person_records(people, names, 0, "d"))
        enter(accounts, changes, list(steps_of(deployment, accounts.next_step)))
        watch.owns([accounts])
        return view_of([accounts]).note or ""

    watch.owns([accounts])
    assert "nobody is loaded" in (view_of([accounts]).note or "")
    measured = population(2)
    assumed = dataclasses.replace(measured, assumed="everybody roams")
    assert "assumed, not measured (everybody roams)" in change(assumed, ["a", "b"])
    accounts.apply(Decided(steps_of(deployment, 1)[0]))
    assert accounts.summary().assumed == "everybody roams"
    assert registry.get_sample_value("tallyguard_habits_assumed") == 1
    assert "everybody roams" in change(measured.subset([0]), ["a"])
    assert change(measured.subset([1]), ["b"]) == ""
    assert "not computed" in view_of([accounts]).hindsight(0, steps_of(deployment, 1), 0)
    assert accounts.summary().assumed is None
    assert registry.get_sample_value("tallyguard_habits_assumed") == 0


@pytest.mark.parametrize(
    "change",
    [
        {"candidates": ((7, 0),)},
        {"candidates": ((0,),)},
        {"options": ()},
        {"options": (Option(mechanism="none such"),)},
        {"sensors": (SensorOptions(sensor="nowhere", options=()),)},
        {"coming": (("nowhere",),)},
    ],
)
def test_a_proposal_that_cannot_be_answered_ends_no_worker(
    deployment: Deployment, change: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """Whoever may write there could end every account worker with one record."""
    release = {"mechanism": "budget", "budget": {"share": 0.4, "added": 0.3}}
    settings = deployment.settings.model_dump(exclude_unset=True)
    budgeted = Deployment.of(Settings.model_validate({**settings, "release": release}))
    limit = budgeted.settings.decided_limit
    assert limit is not None
    options = tuple(SensorOptions(sensor=name, options=(0,)) for name in "AB")
    proposal = Proposal(
        source=Source(deployment=budgeted.digest, session="s"),
        step=0,
        round=0,
        limit=Limit.of(limit),
        options=(Option(mechanism="suppressed"),),
        sensors=options,
        candidates=((0, 0),),
    )
    worker = worker_of(budgeted)
    worker._partitions = {0: PartitionAccounts(0, budgeted)}
    worker._proposed = {0: proposal.model_copy(update=change)}
    asyncio.run(worker._answer())
    assert worker._proposed == {}
    assert "a proposal cannot be answered" in caplog.text


def test_a_worker_raises_the_ceilings_of_refuted_priors_and_says_so(deployment: Deployment) -> None:
    """Summary, worst moments, page and metrics of all partitions, as in one process."""
    group = {"people": 9, "predicted": 0.1, "realised": 0.5, "low": 0.2, "high": 0.8, "verdict": "too low"}
    found = {"priors": "p", "people": 9, "steps": 4, "mistakes": 1, "kappa_min": 0.1, "everybody": group}
    check = PriorsVerdict.model_validate({**found, "verdict": "ceilings too low"})
    people = parsed(person_records(population(3), ["a", "b", "c"], 0, "d"))
    summaries, seen = [], []
    for verdict in (None, check):
        settings = deployment.settings.model_copy(update={"most_exposed": 2, "priors_check": verdict})
        own = dataclasses.replace(deployment, settings=settings)
        accounts, registry = PartitionAccounts(0, own), CollectorRegistry()
        enter(accounts, dict(people))
        metrics = AccountMetrics(registry, own.registry.sensors, (0.5,), 1e-6, settings=settings)
        watch = AccountWatch(metrics, AccountCounters(registry, metrics))
        watch.owns([accounts])
        for step in steps_of(own, 6):
            accounts.apply(Decided(step))
            watch.accounted(accounts, Decided(step))
        watch.show(at_once=True)
        summaries.append(accounts.named(accounts.summary()))
        assert registry.get_sample_value("tallyguard_risk_mean") == summaries[-1].mean_risk
        assert registry.get_sample_value("tallyguard_highest_risk") == summaries[-1].most_risk
        seen.append(registry.get_sample_value("tallyguard_priors_refuted", {"found_by": "check"}))
        assert ("refuted on 9 people" in (view_of([accounts]).note or "")) is (verdict is not None)
    plain, raised = summaries
    assert seen == [0, 1]
    assert raised.risk == {level: ceiling_within(0.1, value) for level, value in plain.risk.items()}
    assert (raised.added, raised.baseline, raised.within_nats) == (plain.added, plain.baseline, 0.1)
    assert [each.risk for each in raised.worst] == [ceiling_within(0.1, each.risk) for each in plain.worst]
    assert [each.added for each in raised.worst] == [each.added for each in plain.worst]

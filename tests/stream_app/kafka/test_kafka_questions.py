"""Account workers that are asked several questions say of each what they say of it alone."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from prometheus_client import CollectorRegistry

from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import Schedule, SensorRelease, StepSchedule
from stream_app.analysis.planning import plan_schedule
from stream_app.kafka.account.account_watch import AccountWatch
from stream_app.kafka.account.partition_accounts import PartitionAccounts, SavedAccounts, SavedPeople
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.deployment.records import person_records
from stream_app.kafka.worker_metrics import AccountCounters, AccountMetrics
from stream_app.steps.policy import Decided
from stream_app.watching.events import Observer, Observers, StepClosed
from stream_app.wire import RiskSummary
from tests.accounting.enumeration import all_paths
from tests.accounting.questions.enumeration import labelled_optimum
from tests.accounting.questions.test_questions import second_order
from tests.stream_app.engine_support import NAMES, population
from tests.stream_app.kafka.deployments import deployment_in, enter, parsed

QUESTIONS = {
    "question": "care",
    "also_asked": ["place", "late"],
    "questions": {"care": {"at": ["B"]}, "late": {"weights": [0, 1, 1]}},
}
SMALL = {"horizon": 3, "mistakes": 0, "attack_draws": 64, "kafka": {"servers": ("nowhere:9092",)}}
HABITS = MovementPrior.from_dense("pairs", second_order(), places=[0, 1, 0, 1])
"""Where somebody goes depends on the last two places: two states each at two places."""


def steps_of(deployment: Deployment, count: int) -> list[StepSchedule]:
    """Steps that differ, some noised."""
    sensors = deployment.registry.sensors
    return [
        StepSchedule(
            step,
            tuple(
                SensorRelease(each, Raw() if step % 3 else Gaussian(1.5)) for each in sensors[: 1 + step % 4]
            ),
        )
        for step in range(count)
    ]


def as_kept(saved: SavedAccounts) -> SavedAccounts:
    """A snapshot as a broker gives it back."""
    return saved._replace(people=SavedPeople.unpacked(saved.people.packed(), NAMES))


def worker_of(folder: Path, steps: int, **asked: object) -> tuple[list[PartitionAccounts], list[RiskSummary]]:
    """Two partitions, to one of which people come later; what each of them and the worker says."""
    folder.mkdir(exist_ok=True)
    deployment = deployment_in(folder, **SMALL, **asked)
    log, shown = steps_of(deployment, steps), list[RiskSummary]()
    registry = CollectorRegistry()
    metrics = AccountMetrics(
        registry, deployment.registry.sensors, (0.5,), 1e-6, settings=deployment.settings
    )

    class Watching(Observer):
        def closed(self, event: StepClosed) -> None:
            assert event.summary is not None
            shown.append(event.summary)

    watch = AccountWatch(
        Observers([metrics, Watching()]),
        AccountCounters(registry, metrics),
        now_seconds=iter(range(99)).__next__,
    )
    partitions = [PartitionAccounts(number, deployment) for number in range(2)]
    everybody = Population.concatenate([population(3), Population.pack([HABITS], NAMES)])
    for number, accounts in enumerate(partitions):
        some = everybody.subset([number, 2 + number])
        enter(accounts, parsed(person_records(some, [f"{number}{k}" for k in range(2)], 0, "d")), log)
    watch.owns(partitions)
    for step in log:
        if step.step == 3:
            enter(partitions[0], parsed(person_records(population(5).subset([4]), ["04"], 0, "d")), log)
            watch.owns(partitions)
        for accounts in partitions:
            accounts.apply(Decided(step))
            watch.accounted(accounts, Decided(step))
    if asked.get("also_asked"):
        labels = {"question": "late", "figure": "ceiling"}
        assert (
            registry.get_sample_value("tallyguard_question_mean", labels)
            == shown[-1].questions["late"].mean_risk
        )
        watch.owns([])
        assert registry.get_sample_value("tallyguard_question_mean", labels) is None
    return partitions, shown


@pytest.mark.slow
def test_workers_say_of_each_question_what_they_say_of_it_alone(tmp_path: Path) -> None:
    """In each partition and over both; a worker goes on from a snapshot as if nothing had happened."""
    partitions, shown = worker_of(tmp_path / "all", 6, **QUESTIONS)
    assert len(shown) > 3
    for name in ("care", "place", "late"):
        alone, alone_shown = worker_of(
            tmp_path / name, 6, **{**QUESTIONS, "question": name, "also_asked": []}
        )
        for found, own, shown_of in (
            *(
                (each.summary(), one.summary(), "partition")
                for each, one in zip(partitions, alone, strict=True)
            ),
            *((each, one, "worker") for each, one in zip(shown, alone_shown, strict=True)),
        ):
            asked = found.model_copy(update={"questions": None}) if name == "care" else found.questions[name]
            assert asked.line() == own.line(), (name, shown_of)
            assert own.attack is not None
    deployment = deployment_in(tmp_path / "all", **SMALL, **QUESTIONS)
    more = steps_of(deployment, 9)[6:]
    for each in partitions:
        again = PartitionAccounts(each.partition, deployment)
        again.take_over(as_kept(each.save()))
        again.restore(map(Decided, steps_of(deployment, 6)[again.first_to_restore :]))
        for accounts in (each, again):
            accounts.restore(map(Decided, more))
        assert again.summary().line() == each.summary().line()
        assert again.accounts.snapshot() == each.accounts.snapshot()


def test_states_of_one_place_stay_states_of_one_place_on_their_way_to_a_worker(tmp_path: Path) -> None:
    """As a record, as a snapshot, in accounts: never the 0.852 that a place for each state would give."""
    deployment = deployment_in(tmp_path, **SMALL)
    accounts = PartitionAccounts(0, deployment)
    enter(accounts, parsed(person_records(Population.pack([HABITS], NAMES), ["p"], 0, "d")))
    again = PartitionAccounts(0, deployment)
    again.take_over(as_kept(accounts.save()))
    at_b = deployment.registry.sensors[1]
    start = Population.pack([HABITS], NAMES).chain(0).start[0]
    paths = all_paths(start, second_order()[[0, 2, 1, 3]][:, [0, 2, 1, 3]][None], 3)
    shown, nothing = np.eye(2)[[0, 0, 1, 1]], np.ones((4, 1))
    labels = np.tile([0, 0, 1, 1], (3, 1))
    best = labelled_optimum(paths, [shown, nothing, shown], (0, 2), labels, np.ones(3, np.int64), 0)
    assert best == pytest.approx(0.913, abs=5e-4)
    for each in (accounts, again):
        for step in range(3):
            releases = () if step == 1 else (SensorRelease(at_b, Raw()),)
            each.apply(Decided(StepSchedule(step, releases)))
        assert each.summary().most_risk == pytest.approx(best, rel=1e-6)
    counts = Schedule.raw([[1], [], [1]])
    planned = plan_schedule(deployment.settings, counts, Population.pack([HABITS], NAMES))
    assert planned.steps[-1].risks.most_risk == pytest.approx(best, rel=1e-6)

"""A small deployment for the tests of the engine: sensors, people, keys and streams of messages."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import count
from pathlib import Path

import numpy as np

from accounting.continuous import ContinuousAccountant
from accounting.ledgers import PrivacyAccount
from accounting.settings import HorizonSettings
from models.keys import NoiseKey
from models.mechanisms import Gaussian, Raw
from models.priors import MovementPrior, Population
from models.releases import SensorRegistry
from stream_app.embedded import RunOptions, RunReport, run
from stream_app.embedded.journal import Commit
from stream_app.setup.exclusions import NO_EXCLUSIONS, Exclusions
from stream_app.setup.run_folder.durable import extended
from stream_app.setup.settings import Settings
from stream_app.steps.accounts import Accounts, PeopleAccounts
from stream_app.steps.engine import ClosedStep, StepEngine
from stream_app.steps.intake import Intake
from stream_app.steps.plan import KeyedPublisher
from stream_app.steps.policy import FixedPolicy, Policy
from stream_app.steps.position import Position, Spent
from stream_app.steps.window import Origin, StepWindow, _save_step
from stream_app.wire.messages import Activation, Reading, Rejected, StepRelease
from tests.hex_keys import hex_key

NAMES = ("A", "B", "C", "D")
REGISTRY = SensorRegistry.one_per_location(NAMES)
POLICY = FixedPolicy(REGISTRY, Gaussian(2.0), {"B": Raw()})
OUTPUTS = ("decisions.jsonl", "releases.jsonl", "risks.jsonl", "rejected.jsonl")
NOISE_SECRET = hex_key("11")
PSEUDONYM_SECRET = hex_key("22")
LITTLE_WORK = {"sharpen_operations": 3_000_000, "attack_draws": 64}
"""Enough where nothing depends on it: not everybody is reached by the refined bounds."""


@cache
def population(people: int = 6) -> Population:
    """A few people on the four locations, each with a matrix of its own."""
    random = np.random.default_rng(7)
    matrices = [random.dirichlet(np.ones(len(NAMES)), size=len(NAMES)) for _ in range(people)]
    priors = [MovementPrior.from_dense(f"person {i}", matrix) for i, matrix in enumerate(matrices)]
    return Population.pack(priors, NAMES)


def no_prior(record: bytes) -> bytes:
    """A person's record with a row that does not sum to one."""
    fields = json.loads(record)
    fields["transition"][0][0] += 0.4711
    return json.dumps(fields).encode()


def accountant(people: int = 6, operations: int | None = None) -> ContinuousAccountant:
    """The real accountant of these people."""
    return ContinuousAccountant(population(people), HorizonSettings(4, 1, operations=operations))


def people_of(accountant: ContinuousAccountant) -> PeopleAccounts:
    """The accounting of an accountant's people, without an attack."""
    return PeopleAccounts(Settings(risk_every=5, attack_draws=0), Accounts(accountant))


def engine(
    *,
    grace: int = 2,
    max_ahead: int = 100,
    policy: Policy = POLICY,
    accounts: ContinuousAccountant | None = None,
    announced: dict[int, tuple[str, ...]] | None = None,
    by_clock: bool = False,
    exclusions: Exclusions = NO_EXCLUSIONS,
) -> StepEngine:
    """An engine of the small deployment."""
    return StepEngine(
        Intake(REGISTRY, StepWindow(grace, announced, by_clock=by_clock), max_ahead, exclusions),
        policy,
        KeyedPublisher(NoiseKey.parse(NOISE_SECRET), "test", 0, 60),
        people_of(accounts or accountant(operations=AFFORDED)),
    )


def activation(step: int, *sensors: str) -> Activation:
    return Activation(v=1, step=step, sensors=sensors)


def reading(step: int, sensor: str, number: int) -> Reading:
    return Reading(v=1, step=step, sensor=sensor, count=number)


def feed(
    target: StepEngine, messages: Iterable[Activation | Reading], *, finish: bool = True
) -> tuple[list[ClosedStep], list[Rejected]]:
    """Everything an engine gives for a stream of messages."""
    closed: list[ClosedStep] = []
    rejected: list[Rejected] = []
    numbers = count(1)
    for message in messages:
        receipt = target.receive(message, Origin(f"test:{next(numbers)}", message.line().rstrip()))
        rejected += receipt.rejected
        closed += close_all(target)
    if finish:
        target.finish()
        closed += close_all(target)
        rejected += target.drain()
    return closed, rejected + [letter for step in closed for letter in step.rejected]


def resume(target: StepEngine, position: Position) -> None:
    """Continue as a worker does that has found the log to agree with its position."""
    account = PrivacyAccount.load(position.account) if position.account else target.spent.account
    target.resume(position, Spent(account, position.decided))


def saved_window(window: StepWindow) -> dict[str, object]:
    """A window with all of its steps, as a commit holds it."""
    steps = [_save_step(step, known) for step, known in window._known.items()]
    return {**window.save_position(), "steps": steps}


def close_all(target: StepEngine) -> list[ClosedStep]:
    """Every step that is due."""
    closed = []
    while (step := target.close_next()) is not None:
        closed.append(step)
    return closed


def releases(closed: Iterable[ClosedStep]) -> list[StepRelease]:
    return [step.release for step in closed]


def messages_of_a_day(steps: int, seed: int, *, faults: bool = False) -> list[Activation | Reading]:
    """Random activations with their readings in order; with ``faults`` some are missing or unannounced."""
    random = np.random.default_rng(seed)
    messages: list[Activation | Reading] = []
    for step in range(steps):
        active = [name for name in NAMES if random.random() < 0.6]
        if active or random.random() < 0.5:
            messages.append(activation(step, *active))
        for name in active:
            if not (faults and random.random() < 0.2):
                messages.append(reading(step, name, int(random.integers(0, 40))))
        if faults and random.random() < 0.2:
            messages.append(reading(step, "A", 77))
    return messages


def lines_of(messages: Iterable[Activation | Reading]) -> bytes:
    return b"".join(message.line() for message in messages)


AFFORDED = 2_000_000
"""Work of a step. All that a run affords (the fixture ``all_the_work``) takes twenty times as long."""


def settings(**changed: object) -> Settings:
    """Settings of the small deployment, keys included."""
    values: dict[str, object] = {
        "deployment": "test",
        "step_seconds": 60,
        "horizon": 4,
        "mistakes": 1,
        "risk_every": 5,
        "attack_draws": 640,
        "sharpen_operations": AFFORDED,
        "noise_key_secret": NOISE_SECRET,
        "pseudonym_key_secret": PSEUDONYM_SECRET,
        "release": {"mechanism": "gaussian", "sigma": 2.0, "sensors": {"B": {"mechanism": "raw"}}},
    }
    return _validated(pickle.dumps({**values, **changed}))


@cache
def _validated(values: bytes) -> Settings:
    """The same settings are asked for by the hundred, and cannot be changed."""
    return Settings.model_validate(pickle.loads(values))


def run_on(output: Path, chunks: Sequence[bytes], **options: object) -> RunReport:
    """One embedded run on bytes from memory."""
    changed = options.pop("settings", {})
    observer = options.pop("observer", None)
    clock = options.pop("clock", None) or TickingClock()
    assert isinstance(changed, dict)
    return run(
        settings(**changed),
        RunOptions(output, **options),  # type: ignore[arg-type]
        population(),
        observer=observer,  # type: ignore[arg-type]
        clock=clock,  # type: ignore[arg-type]
        chunks=chunks,
    )


class TickingClock:
    """A clock that moves on at each look, so that runs commit at the same moments every time."""

    def __init__(self, seconds_a_look: float = 0.03) -> None:
        self._seconds_a_look = seconds_a_look
        self._now = 0.0

    def now_seconds(self) -> float:
        return self._now

    def monotonic_seconds(self) -> float:
        self._now += self._seconds_a_look
        return self._now


def committed(folder: Path) -> Commit:
    """A commit of all the decisions that a folder has."""
    decisions = (folder / "decisions.jsonl").read_bytes()
    return Commit(lengths={"decisions": len(decisions)}, digests={"decisions": extended("", decisions)})


def outputs_of(folder: Path) -> dict[str, bytes]:
    """The content of every output file."""
    return {name: (folder / name).read_bytes() for name in OUTPUTS}


def everything_in(folder: Path) -> dict[str, bytes]:
    """The same with the files of tiers."""
    tiers = {path.name: path.read_bytes() for path in folder.glob("releases-*.jsonl")}
    return {**outputs_of(folder), **tiers}


def json_lines(path: Path) -> list[dict[str, object]]:
    return [json.loads(line) for line in path.read_text().splitlines()]

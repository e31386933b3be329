"""A mechanism in the registry needs nothing else: files, messages, policy, ledgers and audit take it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from accounting.audit import audit_population
from accounting.ledgers import ReleaseLog, read_differential_privacy
from models.mechanisms import MECHANISMS, Mechanism, Raw
from models.priors import MovementPrior, Population
from models.releases import PublishedValue, Schedule, SensorRegistry, TierValues
from stream_app.kafka.deployment.deployment import largest_bytes
from stream_app.setup.schedule_files import parse_schedule
from stream_app.setup.settings import Settings
from stream_app.steps.engine import release_of
from stream_app.steps.policy import policy_from
from stream_app.wire.messages import StepDecision, StepRelease, decision_of, schedule_of
from tests.models.mechanisms.test_mechanism_conformance import DESIGNS, MECHANISMS_TO_TEST
from tests.stream_app.kafka.test_kafka_sizes import TOPICS

REGISTRY = SensorRegistry.one_per_location(["home", "work"]).with_designs(DESIGNS)
each_mechanism = pytest.mark.parametrize("mechanism", MECHANISMS_TO_TEST, ids=repr)


def schedule(mechanism: Mechanism) -> Schedule:
    return parse_schedule(
        {"steps": [{"sensors": ["work"], "mechanism": mechanism.name, **mechanism.parameters}]}, REGISTRY
    )


def test_the_list_has_every_registered_mechanism() -> None:
    assert {mechanism.name for mechanism in MECHANISMS_TO_TEST} == set(MECHANISMS)


@each_mechanism
def test_schedule_files_decisions_and_releases_carry_it(mechanism: Mechanism) -> None:
    """Read again, a decision is the step that was accounted; a release names the mechanism's parameters."""
    (step,) = schedule(mechanism).steps
    assert step.releases[0].mechanism == mechanism
    line = decision_of(step).line()
    assert schedule_of(StepDecision.model_validate_json(line), REGISTRY) == step
    assert len(line) <= largest_bytes(REGISTRY, TOPICS, Settings())[TOPICS.decisions]
    value: PublishedValue = 3 if mechanism.is_released else None
    if tiers := {name: 3 for name, _ in getattr(mechanism, "tiers", ())}:
        value = TierValues(tiers, tiers)
    release = release_of(step, [value])
    assert StepRelease.model_validate_json(release.line()) == release
    said = json.loads(release.line())["releases"][0]
    assert said["mechanism"] == mechanism.name
    assert {name: said[name] for name in MECHANISMS[mechanism.name].parameter_names} == {
        name: mechanism.parameters[name] for name in MECHANISMS[mechanism.name].parameter_names
    }


@pytest.mark.parametrize(
    "mechanism", [each for each in MECHANISMS_TO_TEST if "design" not in each.parameters], ids=repr
)
def test_settings_decide_on_it(mechanism: Mechanism) -> None:
    """By name and parameters, for the deployment and for one sensor; a design is named by its file."""
    named = {"mechanism": mechanism.name, "parameters": dict(mechanism.parameters)}
    for release in (named, {"sensors": {"work": named}}):
        settings = Settings.model_validate({"release": release}).release
        decided = policy_from(settings, REGISTRY).decide(0, ["work"]).schedule
        assert decided.releases[0].mechanism == mechanism


@each_mechanism
def test_ledgers_and_audit_read_it(mechanism: Mechanism) -> None:
    """The ledger charges what the mechanism says; no release is audited as telling more than a raw one."""
    planned = schedule(mechanism)
    stated = read_differential_privacy(ReleaseLog(planned.steps), 1e-6)
    assert float(stated.rho) == mechanism.zcdp_rho()
    assert float(stated.pure_epsilon) == mechanism.pure_epsilon()
    matrix = np.array([[0.7, 0.3], [0.4, 0.6]])
    people = Population.pack([MovementPrior.from_dense("p", matrix, [0, 1])], ["home", "work"])
    (found,), (raw,) = (audit_population(people, each, 0) for each in (planned, schedule(Raw())))
    assert 0.0 < found.baseline <= found.certified <= raw.certified + 1e-12

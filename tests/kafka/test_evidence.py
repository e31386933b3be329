"""Chains drawn from evidence, on a broker: loaded by pseudonym, and accounted as in one embedded run."""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.prior_files import save_evidence
from models.priors import Evidence, Lists
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools.replay import compare
from tests.kafka.broker import Broker
from tests.kafka.faults.dying import COMMITTED
from tests.kafka.support import OnKafka, small_city

pytestmark = pytest.mark.slow
STEPS, DRAWS = 8, 3
NOISE: dict[str, Any] = {"mechanism": "gaussian", "sigma": 2.0}
BUDGET: dict[str, Any] = {"mechanism": "budget", "budget.share": 0.5, "budget.added": 0.2}


@pytest.mark.parametrize("release", [NOISE, BUDGET], ids=["noise", "budget"])
def test_risks_are_means_over_the_chains_of_the_embedded_run(
    kafka: Broker, tmp_path: Path, release: dict[str, Any]
) -> None:
    """Also by a worker that takes over from one that died; no process but the loader has the file."""
    population, sensors, messages = small_city(16)
    lines = messages(STEPS)
    given = {"evidence": "evidence.parquet", "posterior_draws": DRAWS, "risk_every": 1, "release": release}
    given["kafka"] = {"answer_seconds": 60}
    with OnKafka(tmp_path / release["mechanism"], kafka.address, population, sensors, **given) as deployment:
        rows = [population.chain(person).start.size for person in range(len(population))]
        start = np.concatenate(([0], np.cumsum(rows)))
        path = deployment.folder / "evidence.parquet"
        save_evidence(Evidence(population.people, Lists(start, np.full(start[-1], 6.0))), path)
        deployment.load_people()
        path.rename(deployment.folder / "elsewhere.parquet")
        deployment.start("release")
        dying = deployment.start_dying("account", COMMITTED, 2)
        deployment.produce(lines)
        assert dying.ended(240.0) == -signal.SIGKILL, dying.text[-2000:]
        deployment.start("account")
        deployment.wait_for_steps(STEPS)
        (deployment.folder / "elsewhere.parquet").rename(path)
        releases, risks = deployment.embedded(lines)
        assert deployment.releases() == releases
        assert deployment.person_risks() == risks
        assert compare(Deployment.of(deployment.settings)).is_same  # tallyguard replay
        assert len(risks) == STEPS * len(population)
        summaries = [json.loads(each) for found in deployment.summaries().values() for each in found]
        assert {each["draws"] for each in summaries} == {DRAWS}

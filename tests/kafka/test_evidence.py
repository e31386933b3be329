"""Chains drawn from evidence, on a broker: loaded by pseudonym, and accounted as in one embedded run."""

from __future__ import annotations

import json
import signal
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.prior_files import save_evidence
from models.priors import Evidence, Lists
from stream_app.embedded import RunOptions, run
from stream_app.kafka.deployment.deployment import Deployment
from stream_app.kafka.tools.replay import compare
from stream_app.setup.given_priors import as_set
from tests.kafka.broker import Broker
from tests.kafka.faults.dying import COMMITTED
from tests.kafka.support import OnKafka, small_city
from tests.kafka.test_fetch import assert_same_logs, fetched
from tests.kafka.test_growth import messages as numbered

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


def test_more_chains_come_while_a_deployment_runs_and_the_logs_are_those_of_embedded(
    kafka: Broker, tmp_path: Path
) -> None:
    """None, then 3, then 5: loaded first, taken by the release worker, then by the account worker."""
    population, sensors, _ = small_city(16)
    names, steps = [name for name, _ in sensors[:3]], (0, 5, 9, 13)
    parts = [numbered(first, until, names) for first, until in pairwise(steps)]
    rows = [population.chain(person).start.size for person in range(len(population))]
    start = np.concatenate(([0], np.cumsum(rows)))
    because = ("--accept-changes", "--reason", "few data")
    with OnKafka(tmp_path / "more", kafka.address, population, sensors[:3]) as deployment:
        path = deployment.folder / "evidence.parquet"
        save_evidence(Evidence(population.people, Lists(start, np.full(start[-1], 6.0))), path)
        plain = deployment.config.read_text()
        configs = [plain] + [f'evidence = "{path.name}"\nposterior_draws = {k}\n{plain}' for k in (3, 5)]
        deployment.load_people()
        account = deployment.start("account")
        for number, (config, part) in enumerate(zip(configs, parts, strict=True)):
            deployment.config.write_text(config)
            deployment.log_in_anew()
            if number:
                refused = deployment.start("release", *because)
                assert refused.ended() == 1
                assert "load everybody with these settings first" in refused.text
                deployment.load_people()
            deciding = deployment.start("release", *(because if number else ()))
            deployment.produce(part)
            if number:
                assert account.ended() == 1
                assert "that its record has by now" in account.text
                account = deployment.start("account")
            deployment.wait_for_steps(steps[number + 1])
            assert deciding.stop() == 0, deciding.text
        assert account.stop() == 0, account.text
        output, source = deployment.folder / "embedded", deployment.folder / "embedded.jsonl"
        for number, config in enumerate(configs):
            deployment.config.write_text(config)
            deployment.log_in_anew()
            source.write_bytes(b"".join(line + b"\n" for part in parts[: number + 1] for line in part))
            options = RunOptions(output, source, accept_changes=number > 0, reason="few data")
            run(deployment.settings, options, as_set(deployment.settings, population))
        assert deployment.releases() == (output / "releases.jsonl").read_bytes().splitlines()
        risks = (output / "risks.jsonl").read_bytes().splitlines()
        assert deployment.person_risks() == sorted(line for line in risks if b'"type":"risk",' in line)
        fetched(deployment, tmp_path / "copy")
        assert_same_logs(tmp_path / "copy", output)

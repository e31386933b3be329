"""On Kafka, too, sensors are added and removed while a deployment runs; account workers go on."""

from __future__ import annotations

import json
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from stream_app.embedded import RunOptions, run
from stream_app.wire import Activation, Reading
from tests.kafka.broker import Broker
from tests.kafka.support import OnKafka, small_city, wait_until
from tests.kafka.test_fetch import assert_as_written, assert_same_logs, fetched
from tests.stream_app.kafka.test_deployment_record import REFUTED

CHANGE, STEPS = 8, 16


def messages(first: int, until: int, names: Sequence[str]) -> list[bytes]:
    found = []
    for step in range(first, until):
        found.append(Activation(v=1, step=step, sensors=tuple(names)).line().rstrip())
        for name in names:
            count = int(np.random.default_rng([step, *name.encode()]).integers(0, 40))
            found.append(Reading(v=1, step=step, sensor=name, count=count).line().rstrip())
    return found


def named(names: Sequence[str], step: int) -> list[str]:
    """The sensors of a step, the hall with the last of each of its windows."""
    return [*names, *(["hall"] if step % 2 else [])]


@pytest.mark.slow
def test_sensors_change_without_a_restart_of_account_workers_and_the_logs_are_those_of_embedded(
    kafka: Broker, tmp_path: Path
) -> None:
    """Also where an account worker begins after the change: it accounts the log again. One with windows comes
    last, which every worker must know from its start, and is removed in the middle of a window.
    """
    population, sensors, _ = small_city(40)
    early, late = sensors[:3], sensors[1:5]
    names = [[name for name, _ in each] for each in (early, late)]
    parts = messages(0, CHANGE, names[0]), messages(CHANGE, STEPS, names[1]), messages(STEPS, 18, names[1])
    with OnKafka(tmp_path / "grows", kafka.address, population, early) as deployment:
        file = deployment.folder / "sensors.json"
        old, new = (
            file.read_text(),
            json.dumps({"sensors": [{"name": name, "locations": list(where)} for name, where in late]}),
        )
        deployment.load_people()
        account, first = deployment.start("account"), deployment.start("release")
        deployment.produce(parts[0])
        deployment.wait_for_steps(CHANGE)
        assert first.stop() == 0, first.text
        file.write_text(new)
        refused = deployment.start("release")
        assert refused.ended() == 1
        assert f'sensor "{late[-1][0]}" added at' in refused.text
        unsaid = deployment.start("release", "--accept-changes")
        assert unsaid.ended() == 1
        assert "no reason" in unsaid.text
        grown = deployment.start("release", "--accept-changes", "--reason", "new counters")
        deployment.produce(parts[1])
        deployment.wait_for_steps(STEPS)
        assert account.is_running
        assert account.stop() == 0, account.text
        file.write_text(old)  # the record says what the sensors are, whatever this worker's file says
        again = deployment.start("account", TALLYGUARD_SNAPSHOT_SECONDS="0")
        deployment.produce(parts[2])
        deployment.wait_for_steps(18)
        for worker in (again, grown):
            assert worker.stop() == 0, worker.text
        rows = json.loads(new)["sensors"]
        window = {"name": "hall", "locations": rows[0]["locations"], "window": 2, "first_step": 18}
        last = json.dumps({"sensors": [*rows, window]})
        file.write_text(last)
        because = ("--accept-changes", "--reason", "new counters")
        windows = deployment.start("release", *because)
        wait_until("the record is written", lambda: windows.says("continues at step"), 120.0)
        ends = windows, deployment.start("account")
        parts = (*parts, [line for t in range(18, 23) for line in messages(t, t + 1, named(names[1], t))])
        deployment.produce(parts[3])
        deployment.wait_for_steps(23)
        for worker in ends:
            assert worker.stop() == 0, worker.text
        file.write_text(new)
        shorter = deployment.start("release", "--accept-changes")
        wait_until("the record is written", lambda: shorter.says("continues at step"), 120.0)
        files = [last, new]  # the first worker of accounts still has the file with the hall
        parts = (*parts, messages(23, 25, names[1]), messages(25, 27, names[1]))
        for part, own in zip(parts[-2:], files, strict=True):
            file.write_text(own)
            account = deployment.start("account", TALLYGUARD_SNAPSHOT_SECONDS="0")
            deployment.produce(part)
            deployment.wait_for_steps(25 if part is parts[-2] else 27)
            assert account.stop() == 0, account.text
        assert shorter.stop() == 0, shorter.text
        output, source = deployment.folder / "embedded", deployment.folder / "embedded.jsonl"
        for text, until in ((old, 1), (new, 3), (last, 4), (new, 6)):
            file.write_text(text)
            source.write_bytes(b"".join(line + b"\n" for part in parts[:until] for line in part))
            options = RunOptions(output, source, accept_changes=until > 1, reason="new counters")
            run(deployment.settings, options, population)
        assert deployment.releases() == (output / "releases.jsonl").read_bytes().splitlines()
        risks = (output / "risks.jsonl").read_bytes().splitlines()
        assert deployment.person_risks() == sorted(line for line in risks if b'"type":"risk",' in line)
        fetched(deployment, tmp_path / "copy")
        assert_same_logs(tmp_path / "copy", output)


@pytest.mark.slow
def test_a_check_of_the_priors_and_a_crowd_come_while_a_deployment_runs_and_the_logs_are_those_of_embedded(
    kafka: Broker, tmp_path: Path
) -> None:
    """A check needs no word, a crowd a reason. Account workers end at either, and are started again."""
    population, sensors, _ = small_city(40)
    names, steps = [name for name, _ in sensors[:3]], (0, 6, 11, 16)
    parts = [messages(first, until, names) for first, until in pairwise(steps)]
    found = REFUTED.model_copy(update={"priors": population.fingerprint})
    because = ("--accept-changes", "--reason", "a crowd hides people")
    with OnKafka(tmp_path / "found", kafka.address, population, sensors[:3]) as deployment:
        (deployment.folder / "check.json").write_text(found.model_dump_json())
        plain = deployment.config.read_text()
        configs = [plain, 'priors_check = "check.json"\n' + plain]
        configs.append('crowd.on = true\nadversary = "crowd"\n' + configs[1])
        deployment.load_people()
        account = deployment.start("account")
        for number, (config, part) in enumerate(zip(configs, parts, strict=True)):
            deployment.config.write_text(config)
            if number == 2:
                refused = deployment.start("release")
                assert refused.ended() == 1
                assert "crowd.known was not set, is 0" in refused.text
            deciding = deployment.start("release", *(because if number == 2 else ()))
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
            options = RunOptions(output, source, accept_changes=number == 2, reason="a crowd hides people")
            run(deployment.settings, options, population)
        assert deployment.releases() == (output / "releases.jsonl").read_bytes().splitlines()
        risks = (output / "risks.jsonl").read_bytes().splitlines()
        assert deployment.person_risks() == sorted(line for line in risks if b'"type":"risk",' in line)
        fetched(deployment, tmp_path / "copy")
        assert_as_written(tmp_path / "copy", deployment)

"""TLS, SCRAM and access rules end to end on a real broker: each role works, nobody does more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_app.kafka.broker.topic_checks import access_rules, roles
from stream_app.kafka.broker.topics import Topics
from stream_app.kafka.deployment.deployment import administration
from tests.kafka.broker import Broker
from tests.kafka.secured import PASSWORD, grant, secured_broker
from tests.kafka.support import OnKafka, small_city

pytestmark = pytest.mark.slow
ROLES = tuple({role.name for topics in (Topics(), Topics(regions=("a", "b"))) for role in roles(topics)})


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Broker, Path]]:
    with secured_broker(tmp_path_factory.mktemp("secured"), (*ROLES, "stranger")) as broker:
        yield broker


def deployment_on(
    secured: tuple[Broker, Path], folder: Path, regions: dict[str, str] | None = None
) -> OnKafka:
    broker, authority = secured
    population, sensors, _ = small_city(20)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "password").write_text(f"{PASSWORD}\n")
    kafka = {
        "security": "SASL_SSL",
        "ca_file": str(authority),
        "username": "admin",
        "password_file": "password",
    }
    return OnKafka(folder, broker.address, population, sensors, kafka=kafka, regions=regions)


def as_user(name: str) -> dict[str, str]:
    return {"TALLYGUARD_KAFKA__USERNAME": name}


def test_every_role_does_its_work_with_its_own_rights(secured: tuple[Broker, Path], tmp_path: Path) -> None:
    lines = small_city(20)[2](12)
    with deployment_on(secured, tmp_path / "roles") as deployment:
        with administration(deployment.connection) as admin:
            grant(admin, access_rules(deployment.topics))
        load = deployment.command("persons", "load", str(tmp_path / "roles/priors.json"), **as_user("loader"))
        assert load.ended() == 0, load.text
        release = deployment.start("release", **as_user("release"))
        account = deployment.start("account", **as_user("account"))
        (tmp_path / "day.jsonl").write_bytes(b"\n".join(lines))
        produce = deployment.command("produce", "--input", str(tmp_path / "day.jsonl"), **as_user("producer"))
        assert produce.ended() == 0, produce.text
        deployment.wait_for_steps(12, watch=lambda: _alive(release.is_running, release.text))
        assert deployment.releases() == deployment.embedded(lines)[0]
        assert not release.says("cannot be read")  # it may see how long a request the brokers take
        replay = deployment.command("replay", **as_user("officer"))
        assert replay.ended() == 0, replay.text
        copied = deployment.command("fetch", "copy", **as_user("archive"))
        assert copied.ended() == 0, copied.text
        assert "now has 12 steps and 20 people" in " ".join(copied.text.split())
        tail = deployment.command("tail", "releases", "--last", "2", **as_user("public"))
        assert tail.ended() == 0
        assert lines_of(tail.text) == 2
        assert account.is_running


def test_roles_of_regions_do_their_work_with_their_own_rights(
    secured: tuple[Broker, Path], tmp_path: Path
) -> None:
    _, sensors, messages = small_city(20)
    lines, region_of = messages(12), {name: f"part {k % 2}" for k, (name, _) in enumerate(sensors)}
    with deployment_on(secured, tmp_path / "regions", region_of) as deployment:
        with administration(deployment.connection) as admin:
            grant(admin, access_rules(deployment.topics))
        deployment.load_people()
        intake = deployment.start("intake", **as_user("intake"))
        coordinator = deployment.start("coordinator", **as_user("coordinator"))
        deployment.start("account", **as_user("account"))
        (tmp_path / "day.jsonl").write_bytes(b"\n".join(lines))
        produce = deployment.command("produce", "--input", str(tmp_path / "day.jsonl"), **as_user("producer"))
        assert produce.ended() == 0, produce.text
        for each in (intake, coordinator):
            deployment.wait_for_steps(12, watch=lambda each=each: _alive(each.is_running, each.text))
        assert deployment.releases() == deployment.embedded(lines)[0]
        nosy = deployment.start("coordinator", **as_user("intake"))
        assert nosy.ended() == 1
        assert "Traceback" not in nosy.text


def test_a_client_without_the_right_is_told_so(secured: tuple[Broker, Path], tmp_path: Path) -> None:
    with deployment_on(secured, tmp_path / "rights") as deployment:
        with administration(deployment.connection) as admin:
            grant(admin, access_rules(deployment.topics))
        for user in ("public", "stranger"):
            tail = deployment.command("tail", "risks", **as_user(user))
            assert tail.ended() == 1
            assert "must" in tail.text
            assert "Traceback" not in tail.text
        copied = deployment.command("fetch", "copy", **as_user("public"))
        assert copied.ended() == 1
        assert "must" in copied.text
        assert "Traceback" not in copied.text
        worker = deployment.start("account", **as_user("stranger"))
        assert worker.ended() == 1
        assert "Traceback" not in worker.text


def test_a_wrong_password_and_a_foreign_authority_are_named(
    secured: tuple[Broker, Path], tmp_path: Path
) -> None:
    with deployment_on(secured, tmp_path / "wrong") as deployment:
        (tmp_path / "other").write_text("guess")
        wrong = deployment.start("account", TALLYGUARD_KAFKA__PASSWORD_FILE=str(tmp_path / "other"))
        assert wrong.ended() == 1
        assert "must accept this client" in wrong.text
        assert "guess" not in wrong.text
        foreign = deployment.start("account", TALLYGUARD_KAFKA__CA_FILE="")
        assert foreign.ended() == 1
        assert "must accept this client" in foreign.text or "PEM" in foreign.text


def lines_of(text: str) -> int:
    return sum(line.startswith("{") for line in text.splitlines())


def _alive(is_running: bool, text: str) -> None:
    assert is_running, text[-3000:]

"""The compose file follows the specification's schema, and what it says of us is true."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml

from stream_app.setup.settings_sources import load_settings
from tests import ROOT
from tests.deploy.files import PINNED, SETTINGS, VERSION, compose, parsed, workers_of_compose

SERVICES = compose()["services"]
WORKERS = workers_of_compose()


def check_schema(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "check_jsonschema", "--builtin-schema", "vendor.compose-spec", str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def mounts(service: dict[str, Any]) -> list[tuple[str, str]]:
    """Source and target of each volume."""
    return [tuple(volume.split(":")[:2]) for volume in service.get("volumes", ())]


def loaded(service: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Any:
    """The settings a worker would find: its environment, with the files where they are here."""
    environment = {name: str(value) for name, value in service["environment"].items()}
    for name in [name for name in os.environ if name.startswith("TALLYGUARD_")]:
        monkeypatch.delenv(name)
    for name, value in environment.items():
        monkeypatch.setenv(name, value.replace("/etc/tallyguard", str(SETTINGS)))
    return load_settings()


@pytest.mark.slow
def test_the_compose_file_follows_the_specification() -> None:
    checked = check_schema(ROOT / "docker-compose.yml")
    assert checked.returncode == 0, checked.stdout


@pytest.mark.slow
def test_the_check_against_the_schema_can_fail(tmp_path: Path) -> None:
    broken = compose()
    broken["services"]["release"]["depends_on"] = {"topics": {"condition": "service_done"}}
    (tmp_path / "docker-compose.yml").write_text(yaml.safe_dump(broken))
    assert check_schema(tmp_path / "docker-compose.yml").returncode == 1


@pytest.mark.parametrize("name", [name for name in WORKERS if "command" in WORKERS[name]])
def test_every_service_runs_a_command_with_settings_that_exist(
    name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Arguments as the command line reads them, variables as the settings do."""
    parsed([str(part) for part in WORKERS[name]["command"]])
    settings = loaded(WORKERS[name], monkeypatch)
    assert settings.kafka.servers == (SERVICES["kafka"]["environment"]["KAFKA_ADVERTISED_LISTENERS"][12:],)
    assert settings.sensors.is_file()
    assert settings.locations.is_file()


def test_only_who_needs_a_key_gets_it() -> None:
    holders = {
        secret: {name for name, service in SERVICES.items() if secret in service.get("secrets", ())}
        for secret in compose()["secrets"]
    }
    assert holders == {
        "noise_key": {"release"},
        "pseudonym_key": {"persons"},
        "snapshot_key": {"account"},
        "grafana_password": {"grafana"},
    }
    for service in SERVICES.values():
        named = [str(value) for value in service.get("environment", {}).values()]
        used = {value.removeprefix("/run/secrets/") for value in named if value.startswith("/run/secrets/")}
        assert used == set(service.get("secrets", ()))


def test_no_secret_stands_in_the_file() -> None:
    for service in SERVICES.values():
        for name, value in service.get("environment", {}).items():
            if re.search("KEY|PASSWORD|TOKEN|SECRET", name):
                assert str(value).startswith("/run/secrets/"), name


def test_every_mounted_file_is_there() -> None:
    named = set(compose()["volumes"])
    for service in SERVICES.values():
        for source, _ in mounts(service):
            assert source in named if not source.startswith(".") else (ROOT / source).exists(), source


def test_images_are_pinned() -> None:
    for name, service in SERVICES.items():
        assert PINNED.fullmatch(service["image"]), name
    assert {service["image"] for service in WORKERS.values()} == {f"tallyguard:{VERSION}"}


def test_the_image_is_built_once_and_everybody_waits_for_it() -> None:
    """Several builds of one tag collide; an image that only we build is looked for in no registry."""
    builders = [name for name, service in SERVICES.items() if "build" in service]
    assert builders == ["kernels"]
    assert SERVICES["kernels"]["build"]["args"]["VERSION"] == VERSION
    for name, service in WORKERS.items():
        assert service["pull_policy"] == "never", name
        assert name == "kernels" or "kernels" in waited_for(name), name


def waited_for(name: str) -> set[str]:
    """Services that have ended or are healthy before this one starts."""
    direct = set(SERVICES[name].get("depends_on", {}))
    return direct.union(*(waited_for(other) for other in direct))


def test_kernels_of_a_new_image_reach_a_volume_that_an_older_one_filled(tmp_path: Path) -> None:
    """The service's own command, on folders: kernels of new sources come, compiled ones stay."""
    image, volumes = tmp_path / "image", tmp_path / "volumes"
    volume = volumes / "release"
    (volumes / "account").mkdir(parents=True)
    (image / "new-sources").mkdir(parents=True)
    (image / "new-sources" / "kernel.nbc").write_text("of the image")
    (volume / "old-sources").mkdir(parents=True)
    (volume / "old-sources" / "kernel.nbc").write_text("of an older image")
    places = {"/var/cache/tallyguard": str(image), "/kernels": str(volumes), "$$": "$"}
    for _ in range(2):  # `up` runs it again
        subprocess.run([replaced(part, places) for part in SERVICES["kernels"]["entrypoint"]], check=True)
        (volume / "new-sources" / "other.nbc").write_text("compiled by a worker")
    assert (volumes / "account" / "new-sources" / "kernel.nbc").read_text() == "of the image"
    assert (volume / "new-sources" / "kernel.nbc").read_text() == "of the image"
    assert (volume / "new-sources" / "other.nbc").read_text() == "compiled by a worker"
    assert (volume / "old-sources" / "kernel.nbc").read_text() == "of an older image"


def replaced(part: str, places: dict[str, str]) -> str:
    for there, here in places.items():
        part = part.replace(there, here)
    return part


def test_the_volume_of_kernels_is_mounted_where_workers_look_and_by_its_owner() -> None:
    """The image has the folder it is filled by, so that the volume belongs to its user; it declares none."""
    image = (ROOT / "Dockerfile").read_text()
    cache = re.search(r"NUMBA_CACHE_DIR=(\S+)", image)
    assert cache
    made = re.search(r"install --directory --owner=tallyguard (?:.*\\\n)*.*", image)
    assert made
    for name, service in WORKERS.items():
        if name != "kernels":
            assert (f"kernels-{name}", cache[1]) in mounts(service), name
            assert (f"kernels-{name}", f"/kernels/{name}") in mounts(SERVICES["kernels"]), name
            assert f"/kernels/{name}" in made[0], name
    assert not re.search(r"^VOLUME", image, re.MULTILINE)


def test_no_service_can_write_code_that_another_one_runs() -> None:
    """Kernels are pickles: whoever writes them runs what they like in whoever loads them, with its keys."""
    writers: dict[str, set[str]] = {}
    for name, service in SERVICES.items():
        for volume in service.get("volumes", ()):
            if not volume.startswith("./") and not volume.endswith(":ro"):
                writers.setdefault(volume.split(":")[0], set()).add(name)
    shared = {
        volume: names - {"kernels"} for volume, names in writers.items() if len(names - {"kernels"}) > 1
    }
    assert shared == {}
    assert not SERVICES["kernels"].get("secrets")
    assert SERVICES["kernels"]["entrypoint"][0] == "sh"  # runs nothing that lies in a volume


@pytest.mark.parametrize(
    "path", sorted((ROOT / "deploy" / "kubernetes").rglob("*.yaml")), ids=lambda p: p.name
)
def test_no_pod_shares_its_kernels(path: Path) -> None:
    for document in yaml.safe_load_all(path.read_text()):
        template = (document or {}).get("spec", {}).get("template", {})
        for volume in (template or {}).get("spec", {}).get("volumes", ()):
            if volume["name"] == "kernels":
                assert "emptyDir" in volume, path


def test_what_a_service_waits_for_can_happen() -> None:
    """Healthy needs a health check (the image has one for workers), completed needs an end."""
    for service in SERVICES.values():
        waits = service.get("depends_on", {})
        for other, how in waits.items() if isinstance(waits, dict) else ():
            ends_by_itself = SERVICES[other].get("restart") == "no"
            assert ends_by_itself == (how["condition"] == "service_completed_successfully")
            if how["condition"] == "service_healthy":
                assert other in WORKERS or "test" in SERVICES[other]["healthcheck"]


def test_there_are_no_more_workers_than_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    partitions = loaded(SERVICES["account"], monkeypatch).kafka.partitions
    assert 1 < SERVICES["account"]["deploy"]["replicas"] <= partitions
    assert SERVICES["release"]["deploy"]["replicas"] == 1


def test_people_and_counts_are_of_the_same_city() -> None:
    loading = parsed(SERVICES["persons"]["command"])
    producing = parsed(SERVICES["producer"]["command"])
    assert loading["city_people"] == producing["city_people"]
    assert loading["seed"] == producing["seed"]


def test_pages_are_for_this_machine_only_and_the_broker_for_nobody() -> None:
    for name, service in SERVICES.items():
        assert all(port.startswith("127.0.0.1:") for port in service.get("ports", ())), name
    assert SERVICES["kafka"]["networks"] == ["bus"]
    assert compose()["networks"]["bus"]["internal"] is True


def test_containers_of_ours_can_do_nothing_they_need_not() -> None:
    for name, service in WORKERS.items():
        assert service["read_only"] is True, name
        assert service["cap_drop"] == ["ALL"], name
        assert service["security_opt"] == ["no-new-privileges:true"], name


def test_the_health_check_and_the_published_page_use_the_port_workers_listen_on() -> None:
    image = (ROOT / "Dockerfile").read_text()
    listen = re.search(r"TALLYGUARD_LISTEN=0\.0\.0\.0:(\d+)", image)
    assert listen
    port = listen[1]
    assert f"EXPOSE {port}" in image
    assert f"http://127.0.0.1:{port}/-/healthy" in image
    assert SERVICES["release"]["ports"] == [f"127.0.0.1:{port}:{port}"]


def test_prometheus_scrapes_the_services_that_export_metrics() -> None:
    document = yaml.safe_load((ROOT / "deploy/prometheus/compose.yml").read_text())
    jobs = {job["job_name"]: job for job in document["scrape_configs"]}
    release = jobs["tallyguard-release"]["static_configs"][0]["targets"]
    account = jobs["tallyguard-account"]["dns_sd_configs"][0]
    assert release == ["release:9464"]
    assert (account["names"], account["port"]) == (["account"], 9464)
    sharing = set(SERVICES["prometheus"]["networks"])
    assert all(sharing & set(SERVICES[name]["networks"]) for name in ("release", "account"))


def test_grafana_finds_prometheus_and_what_is_provisioned() -> None:
    grafana = SERVICES["grafana"]
    assert grafana["environment"]["PROMETHEUS_URL"] == "http://prometheus:9090"
    assert SERVICES["prometheus"]["ports"] == ["127.0.0.1:9090:9090"]
    targets = {target: source for source, target in mounts(grafana)}
    provider = yaml.safe_load((ROOT / "deploy/grafana/provisioning/dashboards/tallyguard.yml").read_text())
    folder = provider["providers"][0]["options"]["path"]
    assert list((ROOT / targets[folder]).glob("*.json"))
    assert "/etc/grafana/provisioning" in targets

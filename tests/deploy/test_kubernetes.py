"""The manifests follow Kubernetes' schemas, and what they say of us is true."""

from __future__ import annotations

import os
from http import HTTPStatus
from typing import Any

import kubernetes_validate
import pytest
import yaml
from prometheus_client import CollectorRegistry

from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.web.answers import Site, respond
from stream_app.watching.web.status import StatusBoard
from tests.deploy.files import (
    KUBERNETES,
    PINNED,
    SETTINGS,
    VERSION,
    Document,
    containers,
    manifests,
    parsed,
    pod_of,
)

FOLDERS = ("base", "people", "city", "regions", "prometheus-operator")
VERSIONS = ("1.31", "1.37")  # the oldest and the newest that is promised
CUSTOM = {"ServiceMonitor", "PrometheusRule"}  # known to clusters with the Prometheus operator only
EVERYTHING = [each for folder in ("city", "people", "regions") for each in manifests(KUBERNETES / folder)]
WORKLOADS = [document for document in EVERYTHING if pod_of(document) is not None]
WEBSITE = Site(CollectorRegistry(), StatusBoard(), None, None)
BY_NAME = {document["metadata"]["name"]: document for document in WORKLOADS}


def identity(document: Document) -> str:
    return f"{document['kind']} {document['metadata']['name']}"


def main_container(document: Document) -> Document:
    pod = pod_of(document)
    assert pod is not None
    container: Document = pod["containers"][0]
    return container


def environment(document: Document) -> dict[str, str]:
    """Variables of a container; those from Secrets get any value."""
    container = main_container(document)
    found: dict[str, str] = {}
    for source in container.get("envFrom", ()):
        name = source["configMapRef"]["name"]
        found |= next(each["data"] for each in EVERYTHING if each["metadata"]["name"] == name)
    for each in container["env"]:
        found[each["name"]] = each.get("value", "from a secret")
    return found


def secrets_of(document: Document) -> set[str]:
    """Secrets a workload can read."""
    pod = pod_of(document) or {}
    mounted = {volume["secret"]["secretName"] for volume in pod["volumes"] if "secret" in volume}
    variables = {
        each["valueFrom"]["secretKeyRef"]["name"]
        for each in main_container(document)["env"]
        if "valueFrom" in each
    }
    return mounted | variables


def settings_of(document: Document, monkeypatch: pytest.MonkeyPatch) -> Settings:
    """The settings a container would find."""
    for name in [name for name in os.environ if name.startswith("TALLYGUARD_")]:
        monkeypatch.delenv(name)
    for name, value in environment(document).items():
        monkeypatch.setenv(name, value.replace("/etc/tallyguard", str(SETTINGS)))
    return load_settings()


@pytest.mark.slow
@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("folder", FOLDERS)
def test_manifests_follow_the_schemas(folder: str, version: str) -> None:
    """Strictly: an unknown field is an error."""
    checked = [document for document in manifests(KUBERNETES / folder) if document["kind"] not in CUSTOM]
    assert checked or folder == "prometheus-operator"
    for document in checked:
        kubernetes_validate.validate(document, version, strict=True)


def test_the_check_against_the_schema_can_fail() -> None:
    broken = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "a"}, "date": {}}
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(broken, VERSIONS[0], strict=True)


def test_every_manifest_is_part_of_a_kustomization() -> None:
    for folder in FOLDERS:
        named = yaml.safe_load((KUBERNETES / folder / "kustomization.yaml").read_text())["resources"]
        files = {path.name for path in (KUBERNETES / folder).glob("*.yaml")} - {"kustomization.yaml"}
        assert files == {name for name in named if name.endswith(".yaml")}


@pytest.mark.parametrize("document", WORKLOADS, ids=identity)
def test_every_container_runs_a_command_with_settings_that_exist(
    document: Document, monkeypatch: pytest.MonkeyPatch
) -> None:
    parsed(main_container(document)["args"])
    settings = settings_of(document, monkeypatch)
    assert settings.kafka.security == "SASL_SSL"
    assert settings.kafka.replication == 3


@pytest.mark.parametrize("document", WORKLOADS, ids=identity)
def test_every_file_a_variable_names_is_mounted(document: Document) -> None:
    container = main_container(document)
    mounted = tuple(f"{mount['mountPath']}/" for mount in container["volumeMounts"])
    paths = [value for value in environment(document).values() if value.startswith("/")]
    assert paths
    assert all(path.startswith(mounted) for path in paths)
    volumes = {volume["name"] for volume in (pod_of(document) or {})["volumes"]}
    for each in containers(document):
        assert {mount["name"] for mount in each["volumeMounts"]} <= volumes


def test_only_who_needs_a_key_gets_it() -> None:
    holders = {
        secret: {name for name, document in BY_NAME.items() if secret in secrets_of(document)}
        for secret in ("tallyguard-noise-key", "tallyguard-pseudonym-key", "tallyguard-snapshot-key")
    }
    assert holders == {
        "tallyguard-noise-key": {"release", "intake"},
        "tallyguard-pseudonym-key": {"persons", "city-persons"},
        "tallyguard-snapshot-key": {"account"},
    }


def test_each_workload_logs_in_as_its_own_role() -> None:
    users = {
        name: secret.removeprefix("tallyguard-kafka-")
        for name, document in BY_NAME.items()
        for secret in secrets_of(document)
        if secret.startswith("tallyguard-kafka-")
    }
    assert users == {
        "topics": "admin",
        "persons": "loader",
        "city-persons": "loader",
        "city-producer": "producer",
        "release": "release",
        "account": "account",
        "intake": "intake",
        "coordinator": "coordinator",
    }


def test_no_secret_is_part_of_the_manifests() -> None:
    assert "Secret" not in {document["kind"] for document in EVERYTHING}
    for document in WORKLOADS:
        for each in main_container(document)["env"]:
            if each["name"].endswith(("PASSWORD", "_SECRET", "TOKEN")):
                assert "value" not in each


@pytest.mark.parametrize("document", WORKLOADS, ids=identity)
def test_pods_are_confined(document: Document) -> None:
    """The restricted standard of the namespace, a read-only file system, bounded memory."""
    pod = pod_of(document) or {}
    assert pod["securityContext"]["runAsNonRoot"] is True
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert pod["automountServiceAccountToken"] is False
    assert pod["enableServiceLinks"] is False
    for container in containers(document):
        context = container["securityContext"]
        assert context["readOnlyRootFilesystem"] is True
        assert context["allowPrivilegeEscalation"] is False
        assert context["capabilities"] == {"drop": ["ALL"]}
        assert container["resources"]["requests"].keys() >= {"cpu", "memory"}
        assert container["resources"]["limits"]["memory"]


def test_images_are_pinned() -> None:
    for document in WORKLOADS:
        for container in containers(document):
            assert PINNED.fullmatch(container["image"]), identity(document)
            assert container["image"].endswith(f":{VERSION}")


def test_one_release_worker_and_no_more_account_workers_than_partitions(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for name in ("release", "coordinator"):
        assert BY_NAME[name]["spec"]["replicas"] == 1
        assert BY_NAME[name]["spec"]["strategy"] == {"type": "Recreate"}
    partitions = settings_of(BY_NAME["account"], monkeypatch).kafka.partitions
    assert 1 < BY_NAME["account"]["spec"]["replicas"] <= partitions


@pytest.mark.parametrize("name", ["release", "account"])
def test_probes_and_services_meet_what_a_worker_serves(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The image listens on the port that the container names; the probes' paths are answered."""
    container = main_container(BY_NAME[name])
    port = container["ports"][0]
    image = (KUBERNETES.parents[1] / "Dockerfile").read_text()
    assert f"TALLYGUARD_LISTEN=0.0.0.0:{port['containerPort']}" in image
    assert "TALLYGUARD_LISTEN" not in environment(BY_NAME[name])
    for probe in ("startupProbe", "livenessProbe", "readinessProbe"):
        asked = container[probe]["httpGet"]
        assert asked["port"] == port["name"]
        assert respond(asked["path"], "", WEBSITE).status != HTTPStatus.NOT_FOUND
    service = next(each for each in EVERYTHING if each["kind"] == "Service" and named(each) == name)
    assert service["spec"]["ports"][0]["targetPort"] == port["name"]
    assert is_selected(service["spec"]["selector"], BY_NAME[name])
    annotations = BY_NAME[name]["spec"]["template"]["metadata"]["annotations"]
    assert annotations["prometheus.io/port"] == str(port["containerPort"])


def test_selectors_find_their_pods() -> None:
    """Deployments, disruption budgets and monitors name labels that pods and services have."""
    for kind in ("Deployment", "PodDisruptionBudget"):
        for document in (each for each in EVERYTHING if each["kind"] == kind):
            wanted = document["spec"]["selector"]["matchLabels"]
            assert is_selected(wanted, BY_NAME[named(document)])
    labels = {"app.kubernetes.io/name": "tallyguard"}  # which the kustomization gives to everything
    services = {named(each): each for each in EVERYTHING if each["kind"] == "Service"}
    for monitor in monitors():
        service = services[named(monitor)]
        has = service["metadata"]["labels"] | labels
        assert monitor["spec"]["selector"]["matchLabels"].items() <= has.items()
        assert monitor["spec"]["endpoints"][0]["port"] == service["spec"]["ports"][0]["name"]


@pytest.mark.parametrize("name", ["release", "account"])
def test_workers_prefer_machines_without_account_workers(name: str) -> None:
    """A machine that is lost takes one worker; a cluster of one machine still runs them all."""
    affinity = (pod_of(BY_NAME[name]) or {})["affinity"]["podAntiAffinity"]
    assert affinity.keys() == {"preferredDuringSchedulingIgnoredDuringExecution"}
    (preferred,) = affinity["preferredDuringSchedulingIgnoredDuringExecution"]
    term = preferred["podAffinityTerm"]
    assert term["topologyKey"] == "kubernetes.io/hostname"
    assert is_selected(term["labelSelector"]["matchLabels"], BY_NAME["account"])


def test_the_network_lets_through_the_broker_and_the_metrics_only() -> None:
    policies = {named(each): each["spec"] for each in EVERYTHING if each["kind"] == "NetworkPolicy"}
    assert policies["nothing"] == {"podSelector": {}, "policyTypes": ["Ingress", "Egress"]}
    server = environment(BY_NAME["release"])["TALLYGUARD_KAFKA__SERVERS"]
    ports = {port["port"] for rule in policies["to-the-broker"]["egress"] for port in rule["ports"]}
    assert ports == {53, int(server.rpartition(":")[2])}
    opened = policies["metrics"]["podSelector"]["matchExpressions"][0]["values"]
    assert opened == ["release", "account", "intake", "coordinator"]


def test_monitors_leave_out_what_compose_leaves_out() -> None:
    """The same two lists of metrics."""
    path = KUBERNETES.parent / "prometheus" / "compose.yml"
    jobs = {job["job_name"]: job for job in yaml.safe_load(path.read_text())["scrape_configs"]}
    for monitor in monitors():
        job = jobs[f"tallyguard-{named(monitor)}"]["metric_relabel_configs"][0]
        assert monitor["spec"]["endpoints"][0]["metricRelabelings"][0]["regex"] == job["regex"]


def test_the_guide_makes_every_secret_the_manifests_name() -> None:
    """`docs/how-to/kubernetes.md` shows how to make each of them."""
    guide = (KUBERNETES.parents[1] / "docs" / "how-to" / "kubernetes.md").read_text()
    wanted = set().union(*(secrets_of(document) for document in WORKLOADS))
    assert len(wanted) >= 7
    for secret in wanted:
        role = secret.removeprefix("tallyguard-kafka-")
        assert secret in guide or f" {role} " in guide, secret


def monitors() -> list[Document]:
    """What the Prometheus operator is told to scrape."""
    found = manifests(KUBERNETES / "prometheus-operator")
    return [document for document in found if document["kind"] == "ServiceMonitor"]


def named(document: Any) -> str:
    name: str = document["metadata"]["name"]
    return name


def is_selected(labels: dict[str, str], workload: Document) -> bool:
    has: dict[str, str] = workload["spec"]["template"]["metadata"]["labels"]
    return labels.items() <= has.items()

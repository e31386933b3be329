"""What is asked of the manifests: kubeconform, and a dry run of everything by the API server, pods too."""

from __future__ import annotations

import importlib.util
import json
import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.rehearsal.images import ROOT
from tests.rehearsal.manifests.building import Built
from tests.rehearsal.manifests.serving import Cluster
from tests.rehearsal.saying import RehearsalError, say

FOLDERS = ("base", "city", "people", "regions", "prometheus-operator")
VERSIONS = ("1.31.0", "1.37.0")
_KUBERNETES = ROOT / "deploy" / "kubernetes"
_OF_THE_OPERATOR = "ServiceMonitor,PrometheusRule"
_DRY_RUN = ("--dry-run=server", "--validate=strict")


def conform(built: Built, folder: Path) -> dict[str, str]:
    """kubeconform, strictly, against the published schemas of the oldest and the newest version."""
    found = {}
    for version in VERSIONS:
        schemas = _schemas(version, folder / f"v{version}")
        done = subprocess.run(
            [
                *(str(built.programs / "kubeconform"), "-strict", "-summary", "-kubernetes-version", version),
                *("-skip", _OF_THE_OPERATOR, "-ignore-filename-pattern", "kustomization.yaml"),
                *("-schema-location", f"{schemas}/{{{{ .ResourceKind }}}}{{{{ .KindSuffix }}}}.json"),
                str(_KUBERNETES),
            ],
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode != 0:
            raise RehearsalError(f"kubeconform for {version}: {done.stdout[-1500:]}{done.stderr[-500:]}")
        found[version] = done.stdout.strip().rpartition(" - ")[2]
        say(f"kubeconform, Kubernetes {version}: {found[version]}")
    return found


def dry_run(cluster: Cluster, definitions: Path) -> tuple[dict[str, int], int]:
    """Every folder as ``kubectl apply -k`` sends it; then each workload's pod by itself.

    Namespace, service account and the operator's kinds are made for real, as the rest stands on them. Pods
    are asked for because the standard ``restricted`` is enforced on them and not on what makes them.
    """
    for kind in ("servicemonitors", "prometheusrules"):
        cluster.run("create", "-f", str(definitions / f"monitoring.coreos.com_{kind}.yaml"))
    cluster.run("wait", "--for=condition=Established", "crd", "--all", "--timeout=60s")
    for name in ("namespace", "service-account"):
        cluster.run("apply", "--namespace", "tallyguard", "-f", str(_KUBERNETES / "base" / f"{name}.yaml"))
    objects: dict[str, int] = {}
    pods: dict[str, dict[str, Any]] = {}
    for folder in FOLDERS:
        accepted = _accepted(cluster, folder)
        objects[folder] = len(accepted)
        workloads = [each for each in accepted if "template" in each.get("spec", {})]
        pods |= {each["metadata"]["name"]: _pod_of(each) for each in workloads}
        say(f"API server accepts {folder}: {len(accepted)} objects")
    for pod in pods.values():
        cluster.run("create", *_DRY_RUN, "-f", "-", given=json.dumps(pod))
    say(f"API server accepts the pods of {', '.join(pods)}")
    return objects, len(pods)


def refusals(cluster: Cluster) -> tuple[str, ...]:
    """The checks can fail."""
    release = next(each for each in _accepted(cluster, "base") if each["kind"] == "Deployment")
    misspelt = {**release, "spec": {**release["spec"], "replica": 2}}
    with_rights = _pod_of(release)
    with_rights["spec"]["containers"][0]["securityContext"] = {"allowPrivilegeEscalation": True}
    rule = {"kind": "PrometheusRule", "apiVersion": "monitoring.coreos.com/v1", "metadata": {"name": "rule"}}
    wrong = {
        "an unknown field": (misspelt, "unknown field"),
        "a pod that may gain rights": (with_rights, "violates PodSecurity"),
        "a rule that is no list": ({**rule, "spec": {"groups": "none"}}, "spec.groups"),
    }
    for what, (document, reason) in wrong.items():
        command = ("apply", "--namespace", "tallyguard", *_DRY_RUN, "-f", "-")
        answer = cluster.tried(*command, given=json.dumps(document))
        if answer.returncode == 0 or reason not in answer.stderr:
            raise RehearsalError(f"the API server must refuse {what}, and said: {answer.stderr[-500:]}")
        say(f"API server refuses {what}")
    return tuple(wrong)


def _accepted(cluster: Cluster, folder: str) -> list[dict[str, Any]]:
    return cluster.objects("apply", *_DRY_RUN, "-k", str(_KUBERNETES / folder))


def _pod_of(workload: dict[str, Any]) -> dict[str, Any]:
    template = json.loads(json.dumps(workload["spec"]["template"]))
    labels = template["metadata"].get("labels", {})
    metadata = {"name": workload["metadata"]["name"], "namespace": "tallyguard", "labels": labels}
    return {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": template["spec"]}


def _schemas(version: str, folder: Path) -> Path:
    """Those of the package kubernetes-validate, with references that kubeconform follows."""
    package = importlib.util.find_spec("kubernetes_validate")
    if package is None or package.origin is None:
        raise RehearsalError("the schemas are in the package kubernetes-validate: make install-dev")
    folder.mkdir(parents=True, exist_ok=True)
    published = Path(package.origin).parent / "kubernetes-json-schema" / f"v{version}-local-strict"
    for path in _files(published):
        schema = json.loads(path.read_text().replace('"/api/_definitions.json', '"_definitions.json'))
        (folder / path.name).write_text(json.dumps({k: v for k, v in schema.items() if k != "$id"}))
    return folder


def _files(folder: Path) -> Iterable[Path]:
    found = sorted(folder.glob("*.json"))
    if not found:
        raise RehearsalError(f"kubernetes-validate must have schemas for {folder.name}")
    return found

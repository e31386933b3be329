"""Deployment files as data: the compose file, manifests as kustomize gives them, the command line."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import yaml

from tests import ROOT

VERSION = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["version"]
SETTINGS = ROOT / "deploy" / "settings"
KUBERNETES = ROOT / "deploy" / "kubernetes"
PINNED = re.compile(r"[\w./-]+:v?\d+\.\d+\.\d+(-[\w.-]+)?")
Document = dict[str, Any]
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)
"""Compiled where it is there: each process of the tests reads all manifests."""


def compose() -> Document:
    """The compose file, merge keys resolved."""
    document: Document = yaml.load((ROOT / "docker-compose.yml").read_text(), LOADER)
    return document


def workers_of_compose() -> dict[str, Document]:
    """Its services that run our image."""
    services = compose()["services"]
    return {name: service for name, service in services.items() if service["image"].startswith("tallyguard:")}


def manifests(folder: Path) -> list[Document]:
    """Everything a kustomization leads to, with the ConfigMaps it makes; images are replaced as it says."""
    kustomization = yaml.load((folder / "kustomization.yaml").read_text(), LOADER)
    found: list[Document] = []
    for name in kustomization.get("resources", ()):
        path = (folder / name).resolve()
        found += manifests(path) if path.is_dir() else yaml.load_all(path.read_text(), LOADER)
    for made in kustomization.get("configMapGenerator", ()):
        data = {Path(name).name: (folder / name).read_text() for name in made["files"]}
        metadata = {"name": made["name"]}
        found.append({"apiVersion": "v1", "kind": "ConfigMap", "metadata": metadata, "data": data})
    for image in kustomization.get("images", ()):
        for container in (each for document in found for each in containers(document)):
            if container["image"] == image["name"]:
                container["image"] = f"{image['newName']}:{image['newTag']}"
    return found


def containers(document: Document) -> Iterator[Document]:
    """Containers of a workload, those that go first included."""
    pod = pod_of(document)
    if pod is not None:
        yield from (*pod.get("initContainers", ()), *pod["containers"])


def pod_of(document: Document) -> Document | None:
    """The pod a workload makes; None for anything else."""
    if document["kind"] not in ("Deployment", "StatefulSet", "Job"):
        return None
    pod: Document = document["spec"]["template"]["spec"]
    return pod


def parsed(arguments: Sequence[str]) -> Document:
    """Options of a ``tallyguard`` command, as the command line itself reads them."""
    command, rest = command_of(arguments)
    options: Document = command.make_context("tallyguard", rest).params
    return options


def command_of(arguments: Sequence[str]) -> tuple[Any, list[str]]:
    """The command that is meant, and what it is given."""
    from typer.main import get_command

    from stream_app.cli.app import app

    command: Any = get_command(app)
    rest = list(arguments)
    while hasattr(command, "commands"):
        assert rest[0] in command.commands, f"tallyguard {' '.join(arguments)} is no command"
        command = command.commands[rest.pop(0)]
    return command, rest

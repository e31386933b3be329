"""docker-compose.yml brought up by podman-compose, service by service in the order it asks for."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from tests.rehearsal.images import ROOT
from tests.rehearsal.machine import Engine
from tests.rehearsal.saying import RehearsalError

_PODMAN_COMPOSE = "podman-compose==1.6.0"
_AS_JSON = "import json, sys, yaml; json.dump(yaml.safe_load(sys.stdin), sys.stdout)"
_FILES = ("Dockerfile", ".dockerignore", "docker-compose.yml")


def copied_tree(folder: Path) -> Path:
    """What the compose file and the Dockerfile need, with secrets of its own."""
    tree = folder / "tree"
    shutil.rmtree(tree, ignore_errors=True)
    tree.mkdir()
    listed = (ROOT / ".dockerignore").read_text().splitlines()
    without = shutil.ignore_patterns("__pycache__", "secrets", "rehearsal")
    for name in (*_FILES, "deploy", *(line[1:] for line in listed if line.startswith("!"))):
        if (ROOT / name).is_file():
            shutil.copy(ROOT / name, tree / name)
        else:
            shutil.copytree(ROOT / name, tree / name, ignore=without)
    subprocess.run([str(tree / "deploy/make-secrets.sh")], check=True, capture_output=True)
    return tree


class Composition:
    """The services of a compose file."""

    def __init__(self, engine: Engine, tree: Path) -> None:
        self._engine, self._tree = engine, tree
        self._python = _environment(engine.folder) / "bin" / "python"
        text = (tree / "docker-compose.yml").read_text()
        converted = subprocess.run(
            [self._python, "-c", _AS_JSON], input=text, capture_output=True, text=True, check=True
        )
        self.document: dict[str, Any] = json.loads(converted.stdout)
        self.services: dict[str, dict[str, Any]] = {
            name: service for name, service in self.document["services"].items() if "profiles" not in service
        }

    def in_order(self) -> Iterator[str]:
        """Every service after those it waits for."""
        begun: set[str] = set()
        while begun < self.services.keys():
            for name, service in self.services.items():
                if name not in begun and set(service.get("depends_on", ())) <= begun:
                    begun.add(name)
                    yield name

    def ends_by_itself(self, service: str) -> bool:
        """Whether it does something once."""
        return bool(self.services[service].get("restart") == "no")

    def replicas(self, service: str) -> int:
        """How many containers it has."""
        return int(self.services[service].get("deploy", {}).get("replicas", 1))

    def up(self, service: str) -> list[str]:
        """Start a service; its containers."""
        self.called("up", "--detach", "--no-deps", "--no-build", service)
        made = self.containers(service)
        if len(made) != self.replicas(service):
            raise RehearsalError(f"{service} must have {self.replicas(service)} containers, got {made}")
        return made

    def once(self, service: str, command: Sequence[str]) -> str:
        """What another command prints with the settings of a service."""
        return self.called("run", "--rm", "--no-deps", "-T", service, *command)

    def containers(self, service: str) -> list[str]:
        """Their names."""
        label = f"label=com.docker.compose.service={service}"
        return sorted(self._engine.run("ps", "--all", "--filter", label, "--format", "{{.Names}}").split())

    def down(self) -> None:
        """All containers, networks and volumes of the file."""
        self.called("down", "--volumes", "--timeout", "30")

    def called(self, *arguments: str) -> str:
        """What podman-compose prints."""
        done = subprocess.run(
            [self._python, "-m", "podman_compose", *arguments],
            cwd=self._tree,
            env=self._engine.environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=600,
        )
        if done.returncode != 0:
            raise RehearsalError(
                f"podman-compose {arguments[0]} failed: {(done.stderr + done.stdout)[-1500:]}"
            )
        return done.stdout


def _environment(folder: Path) -> Path:
    """podman-compose in a virtual environment that goes with the folder."""
    made = folder / "venv"
    if not (made / "bin" / "podman-compose").exists():
        subprocess.run([sys.executable, "-m", "venv", str(made)], check=True, capture_output=True)
        pip = [str(made / "bin" / "python"), "-m", "pip", "install", "--quiet", _PODMAN_COMPOSE]
        subprocess.run(pip, check=True, capture_output=True)
    return made

"""kube-apiserver, kubectl, etcd and kubeconform, built from their modules."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.rehearsal.saying import RehearsalError, step

KUBERNETES, ETCD, KUBECONFORM, OPERATOR = "1.37.2", "3.7.3", "0.8.0", "0.85.0"
_OPERATOR = "github.com/prometheus-operator/prometheus-operator"
_SECONDS = 5400.0


@dataclass(frozen=True)
class Built:
    """Where the programs are, and the definitions of the Prometheus operator's own kinds."""

    programs: Path
    definitions: Path


def build(folder: Path) -> Built:
    """Build what is not there yet."""
    if shutil.which("go") is None:
        raise RehearsalError("the API server is built with Go, which is not installed")
    programs = folder / "bin"
    programs.mkdir(parents=True, exist_ok=True)
    _installed(programs, f"github.com/yannh/kubeconform/cmd/kubeconform@v{KUBECONFORM}")
    _built(folder / "etcd", f"go.etcd.io/etcd/server/v3 v{ETCD}", {"etcd": "go.etcd.io/etcd/server/v3"})
    packages = {name: f"k8s.io/kubernetes/cmd/{name}" for name in ("kube-apiserver", "kubectl")}
    _built(folder / "kubernetes", f"k8s.io/kubernetes v{KUBERNETES}", packages, _staged())
    return Built(programs, _definitions(folder))


def _installed(programs: Path, package: str) -> None:
    if not (programs / "kubeconform").exists():
        with step(f"built {package}"):
            _go(programs, "install", package)


def _built(folder: Path, required: str, packages: dict[str, str], replaced: Sequence[str] = ()) -> None:
    """The main packages of one module, each into a program of the name given."""
    programs = folder.parent / "bin"
    if all((programs / name).exists() for name in packages):
        return
    folder.mkdir(exist_ok=True)
    lines = [
        "module rehearsal",
        "go 1.26.0",
        f"require {required}",
        *(f"replace {each}" for each in replaced),
    ]
    (folder / "go.mod").write_text("\n".join([*lines, ""]))
    for name, package in packages.items():
        with step(f"built {name} of {required}"):
            _go(folder, "get", package)
            _go(folder, "build", "-o", str(programs / name), package)


def _staged() -> list[str]:
    """Kubernetes' modules name the folders beside them; they are published as v0 of the same number."""
    module = json.loads(_go(Path.cwd(), "mod", "download", "-json", f"k8s.io/kubernetes@v{KUBERNETES}"))
    names = re.findall(r"(\S+) => \./staging/", Path(module["GoMod"]).read_text())
    return [f"{name} => {name} v{KUBERNETES.replace('1.', '0.', 1)}" for name in names]


def _definitions(folder: Path) -> Path:
    """The folder of the operator's custom resource definitions, which are part of its module."""
    module = json.loads(_go(folder, "mod", "download", "-json", f"{_OPERATOR}@v{OPERATOR}"))
    return Path(module["Dir"]) / "example" / "prometheus-operator-crd"


def _go(folder: Path, *arguments: str) -> str:
    environment = {**os.environ, "GOFLAGS": "-mod=mod", "GOBIN": str(folder)}
    done = subprocess.run(
        ["go", *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=_SECONDS,
    )
    if done.returncode != 0:
        raise RehearsalError(f"go {' '.join(arguments[:2])} failed: {done.stderr[-1500:]}")
    return done.stdout

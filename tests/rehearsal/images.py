"""The images: a base from Debian's packages, ours from the Dockerfile, stand-ins for those of a registry."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from tests.rehearsal.machine import Engine
from tests.rehearsal.saying import RehearsalError, step

ROOT = Path(__file__).resolve().parents[2]
BASE = "localhost/python-on-debian:bookworm"
_PACKAGES = "python3,python3-venv,python3-pip,ca-certificates"
_NOT_IN_SLIM = ("cache/apt", "lib/apt/lists", "log")
_DOCUMENTATION = ("doc", "man", "info", "locale", "lintian", "groff", "linda")
_HERE = Path(__file__).parent / "stand_ins"
_BUILD_SECONDS = 3600.0


def make_base(engine: Engine) -> None:
    """Debian with its Python, without manuals, as the slim images of Docker's library are."""
    if engine.tried("image", "exists", BASE).returncode == 0:
        return
    root = engine.folder / "base"
    with step("base image: Debian bookworm and its Python, by debootstrap"):
        _called("debootstrap", "--variant=minbase", f"--include={_PACKAGES}", "bookworm", str(root))
        for emptied in (root / "var" / name for name in _NOT_IN_SLIM):
            shutil.rmtree(emptied, ignore_errors=True)
            emptied.mkdir(parents=True)
        for manuals in (root / "usr" / "share" / name for name in _DOCUMENTATION):
            shutil.rmtree(manuals, ignore_errors=True)
        (root / "usr/bin/python").symlink_to("python3")
        keeps_nothing = (
            'Dir::Cache::pkgcache ""; Dir::Cache::srcpkgcache "";\nAPT::Keep-Downloaded-Packages "false";\n'
        )
        (root / "etc/apt/apt.conf.d/docker-clean").write_text(keeps_nothing)
        archive = engine.folder / "base.tar"
        _called("tar", "-C", str(root), "-cf", str(archive), ".")
        engine.run("import", str(archive), BASE)
        shutil.rmtree(root)
        archive.unlink()


def build_ours(engine: Engine, tree: Path, image: str) -> None:
    """The Dockerfile as it is, on the base."""
    with step(f"image {image} from the Dockerfile"):
        lent = ("/etc/ssl/certs:/etc/ssl/certs", f"{_pip_settings(engine)}:/etc/pip.conf")
        _built(engine, tree / "Dockerfile", image, {"PYTHON_IMAGE": BASE}, lent)


def build_broker(engine: Engine, image: str) -> None:
    """Kafka of the image's version from Maven, under the image's name."""
    context = engine.folder / "broker"
    version = image.rpartition(":")[2]
    with step(f"image {image}: Kafka {version} from Maven on Debian's Java"):
        shutil.copytree(_HERE, context, dirs_exist_ok=True)
        pom = ["-q", "-B", "-f", str(context / "pom.xml"), f"-Dkafka.version={version}"]
        _called("mvn", *pom, "dependency:copy-dependencies", f"-DoutputDirectory={context / 'jars'}")
        _built(engine, context / "broker.dockerfile", f"docker.io/{image}", {"BASE": BASE})


def build_prometheus(engine: Engine, image: str) -> str:
    """Debian's Prometheus under the image's name; its version."""
    with step(f"image {image}: Debian's Prometheus"):
        _built(engine, _HERE / "prometheus.dockerfile", f"docker.io/{image}", {"BASE": BASE})
    said = engine.tried("run", "--rm", "--network", "none", image, "--version")
    found = re.search(r"version (\S+)", said.stdout + said.stderr)
    return found[1] if found else "unknown"


def _built(
    engine: Engine,
    file: Path,
    image: str,
    arguments: Mapping[str, str],
    lent: Sequence[str] = (),
) -> None:
    """A file built in its folder; what is ``lent`` is there while it is built, and not in the image."""
    if engine.tried("image", "exists", image).returncode == 0:
        return
    given = [part for name, value in arguments.items() for part in ("--build-arg", f"{name}={value}")]
    mounted = [part for volume in lent for part in ("--volume", f"{volume}:ro")]
    options = ["--format", "docker", "--network", "host", "--file", str(file), "--tag", image]
    engine.run("build", *options, *mounted, *given, str(file.parent), seconds=_BUILD_SECONDS)


def _pip_settings(engine: Engine) -> Path:
    """The index and the certificates of this machine's pip, as a file."""
    path = engine.folder / "pip.conf"
    names = {"index-url": "PIP_INDEX_URL", "cert": "PIP_CERT"}
    lines = [f"{name} = {os.environ[variable]}" for name, variable in names.items() if variable in os.environ]
    path.write_text("\n".join(["[global]", *lines, ""]))
    return path


def _called(*command: str) -> None:
    done = subprocess.run(["nice", *command], capture_output=True, text=True, check=False, timeout=1800)
    if done.returncode != 0:
        raise RehearsalError(f"{command[0]} failed: {(done.stderr + done.stdout)[-1500:]}")

"""From the last version to this one, while counts come, in the order that the documentation gives."""

from __future__ import annotations

import io
import subprocess
import tarfile
from functools import partial
from pathlib import Path

from tests.rehearsal.cluster.failures import wait_until_working
from tests.rehearsal.cluster.stage import Stage
from tests.rehearsal.images import ROOT
from tests.rehearsal.saying import RehearsalError


def checked_out(commit: str, folder: Path) -> Path:
    """The sources of another version."""
    archive = subprocess.run(
        ["git", "archive", commit], cwd=ROOT, capture_output=True, check=False, timeout=120
    )
    if archive.returncode != 0:
        raise RehearsalError(f"version {commit} must be in this repository: {archive.stderr.decode()}")
    with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as files:
        files.extractall(folder, filter="data")
    return folder


def begin_with(stage: Stage, root: Path) -> None:
    """Topics, rights, people and workers of the last version; thirty steps."""
    site = stage.site
    site.command("admin", root, "topics", "create")
    site.apply_rules(root)
    site.command("loader", root, "persons", "load", str(site.deployment.folder / "priors.json"))
    for name in ("account-1", "account-2", "release"):
        stage.fleet.start(name)
    for name in ("account-1", "account-2", "release"):
        wait_until_working(stage, name)
    stage.load.begin(site.deployment.connection, site.deployment.topics)
    site.deployment.wait_for_steps(30)


def upgrade(stage: Stage, root: Path) -> None:
    """Topics, rights, account workers one by one, then the release worker."""
    site = stage.site
    missing = site.command("admin", root, "topics", "check", code=1).strip()
    stage.fact("`topics check` before the upgrade", missing.replace("\n", "; "))
    site.command("admin", root, "topics", "create")
    stage.fact("`topics check` after `topics create`", site.command("admin", root, "topics", "check").strip())
    stage.fact("rules of `topics access` applied", str(site.apply_rules(root)))
    for name in ("account-1", "account-2", "release"):
        stage.event(f"{name} replaced by this version", partial(_replace, stage, name, root))


def _replace(stage: Stage, name: str, root: Path) -> None:
    stage.fleet.restart(name, root=root)
    wait_until_working(stage, name)

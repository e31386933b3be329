"""The image: linted, of exact versions, nothing secret near it; settings that fit the city."""

from __future__ import annotations

import re
import shutil
import stat
import subprocess
import sys
from fnmatch import fnmatch
from pathlib import Path

import pytest

from stream_app.city import CityOptions, generated
from tests import ROOT
from tests.deploy.files import PINNED, SETTINGS, VERSION, compose

DOCKERFILE = (ROOT / "Dockerfile").read_text()


def hadolint(path: Path) -> subprocess.CompletedProcess[str]:
    beside = Path(sys.executable).with_name("hadolint")
    found = str(beside) if beside.exists() else shutil.which("hadolint")
    if found is None:
        pytest.skip("hadolint is not installed (its package exists for Linux x86-64 only)")
    return subprocess.run([found, str(path)], capture_output=True, text=True, check=False)


def test_the_linter_has_no_complaint() -> None:
    checked = hadolint(ROOT / "Dockerfile")
    assert checked.returncode == 0, checked.stdout


def test_the_linter_would_complain(tmp_path: Path) -> None:
    (tmp_path / "Dockerfile").write_text(DOCKERFILE.replace("# hadolint ignore=DL3008\n", ""))
    assert "DL3008" in hadolint(tmp_path / "Dockerfile").stdout


def test_the_image_is_built_from_pinned_versions_for_a_user_without_rights() -> None:
    base = re.search(r"ARG PYTHON_IMAGE=(\S+)", DOCKERFILE)
    assert base
    assert PINNED.fullmatch(base[1])
    assert "--require-hashes -r requirements.lock" in DOCKERFILE
    assert f"ARG VERSION={VERSION}\n" in DOCKERFILE
    users = re.findall(r"^USER (\S+)", DOCKERFILE, re.MULTILINE)
    assert users == ["10001:10001"]
    assert DOCKERFILE.index("USER 10001") < DOCKERFILE.index("ENTRYPOINT")


def test_everything_that_is_copied_reaches_the_builder_and_nothing_else_does() -> None:
    """.dockerignore lets through by name; what is not named stays here."""
    lines = [
        line
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line and not line.startswith("#")
    ]
    assert lines[0] == "*"
    allowed = {line.removeprefix("!") for line in lines if line.startswith("!")}
    copied: set[str] = set()
    for sources in re.findall(r"^COPY (?!--from)(.+) \S+$", DOCKERFILE, re.MULTILINE):
        copied |= set(sources.split())
    assert copied == allowed
    assert all((ROOT / name).exists() for name in copied)
    assert not any(fnmatch("deploy/secrets/noise.key", name) for name in allowed)


def test_every_package_is_copied() -> None:
    """What pyproject.toml packs is what the image gets."""
    packages = re.search(r"include = \[(.*?)\]", (ROOT / "pyproject.toml").read_text())
    assert packages
    for name in re.findall(r'"(\w+)\*"', packages[1]):
        assert f"COPY {name} {name}\n" in DOCKERFILE


def test_secrets_are_made_once_and_closed_to_others(tmp_path: Path) -> None:
    folder = tmp_path / "secrets"
    script = str(ROOT / "deploy" / "make-secrets.sh")
    subprocess.run([script, str(folder)], check=True, capture_output=True)
    made = {path.name: path.read_text() for path in folder.iterdir()}
    assert made.keys() == {Path(secret["file"]).name for secret in compose()["secrets"].values()}
    assert len(set(made.values())) == len(made)
    assert all(re.fullmatch("[0-9a-f]{64}\n", text) for text in made.values())
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    subprocess.run([script, str(folder)], check=True, capture_output=True)
    assert {path.name: path.read_text() for path in folder.iterdir()} == made


def test_secrets_would_not_be_committed() -> None:
    ignored = subprocess.run(
        ["git", "check-ignore", "-q", "deploy/secrets/noise.key"], cwd=ROOT, check=False
    ).returncode
    assert ignored in (0, 128)  # 128: not a git checkout


def test_sensors_and_locations_are_those_of_the_city() -> None:
    """`python -m stream_app.city deploy/settings` changes nothing."""
    for name, text in generated(CityOptions()).items():
        assert (SETTINGS / name).read_text() == text, name

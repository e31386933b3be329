"""What `make rehearsal` found is committed, covers what the files say, and is what the manifests rest on."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests import ROOT
from tests.deploy.files import KUBERNETES, VERSION, compose, containers, manifests
from tests.rehearsal.composition import Composition, copied_tree
from tests.rehearsal.machine import Engine
from tests.rehearsal.resources import Watch

PAGE = (ROOT / "docs/results/tables/rehearsal.md").read_text()
MANIFESTS_PAGE = (ROOT / "docs/results/tables/rehearsal-kubernetes.md").read_text()
SERVICES = {name: service for name, service in compose()["services"].items() if "profiles" not in service}
MIB = {"Mi": 1, "Gi": 1024}


def rows(heading: str) -> dict[str, list[str]]:
    """The table below a heading of the page, by its first column."""
    section = PAGE.split(f"## {heading}\n")[1].split("\n## ")[0]
    lines = [line.strip("| ").split(" | ") for line in section.splitlines() if line.startswith("| ")]
    return {line[0].strip("`"): line[1:] for line in lines[1:]}


def test_the_image_is_smaller_than_700_megabytes() -> None:
    found = rows("Images and starts")[f"image `tallyguard:{VERSION}"]
    assert 300 < int(found[0].removesuffix(" MB")) < 700


def test_every_container_that_stays_was_killed_and_went_on() -> None:
    killed = rows("Every container killed once")
    for name, service in SERVICES.items():
        stays = service.get("restart") != "no" or name == "producer"
        expected = int(service.get("deploy", {}).get("replicas", 1)) if stays else 0
        assert len([each for each in killed if f"_{name}_" in each]) == expected, name
    assert {row[0] for name, row in killed.items() if "producer" not in name} == {"the engine"}


def test_what_was_published_is_what_the_embedded_engine_publishes() -> None:
    found = rows("What was published, and what Prometheus saw")
    (released,) = found["steps released, each once and in order"]
    (compared,) = found["steps compared, as far as every partition had told its risks"]
    assert 20 < int(compared) <= int(released)
    assert found["releases, byte for byte those of the embedded engine"] == ["yes"]


@pytest.mark.parametrize("page", [PAGE, MANIFESTS_PAGE])
def test_the_pages_name_nothing_of_the_machine(page: str) -> None:
    assert not re.search(r"(?<![\w.`])/(?:tmp|root|home|work|var)/|https?://|\bhttps?:", page)


@pytest.mark.parametrize(
    ("folder", "name"), [("base", "release"), ("base", "account"), ("city", "city-persons")]
)
def test_manifests_ask_for_the_memory_that_was_measured(folder: str, name: str) -> None:
    """At least what a container took, and no more than four times that."""
    document = next(
        each
        for each in manifests(KUBERNETES / folder)
        if each["metadata"]["name"] == name and each["kind"] in ("Deployment", "Job")
    )
    measured = int(rows("What each container took")[name.removeprefix("city-")][0].removesuffix(" MiB"))
    resources = list(containers(document))[-1]["resources"]
    asked = mebibytes(resources["requests"]["memory"])
    assert measured <= asked <= 4 * measured
    assert mebibytes(resources["limits"]["memory"]) >= asked


def mebibytes(quantity: str) -> int:
    return int(quantity[:-2]) * MIB[quantity[-2:]]


def test_services_start_after_those_they_wait_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And the profile that needs an image of its own is left out."""
    monkeypatch.setattr("tests.rehearsal.composition._environment", lambda folder: Path(sys.prefix))
    tree = copied_tree(tmp_path)
    order = list(Composition(Engine(tmp_path), tree).in_order())
    assert sorted(order) == sorted(SERVICES)
    for name, service in SERVICES.items():
        assert all(order.index(other) < order.index(name) for other in service.get("depends_on", ()))
    assert (tree / "deploy/secrets/noise.key").read_text().strip()


def test_the_watch_sees_the_memory_of_a_control_group() -> None:
    """Of this process here; one that has ended is let go."""
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    watch = Watch()
    watch.add("ended", ended.pid)
    watch.add("here", os.getpid())
    for _ in range(2):
        watch.look()
    if "here" not in watch.taken:
        pytest.skip("this process is in no control group with memory of its own")
    assert watch.taken["here"].memory_mib > 1
    assert watch.taken["here"].cores >= 0.0
    assert "ended" not in watch.taken


def test_the_rehearsal_needs_the_standard_library_only() -> None:
    """It starts on a bare machine; the rehearsal of a cluster has what the tests have."""
    rehearsal = ROOT / "tests/rehearsal"
    for path in set(rehearsal.rglob("*.py")) - set((rehearsal / "cluster").rglob("*.py")):
        tree = ast.parse(path.read_text())
        names = {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        names |= {
            alias.name for node in ast.walk(tree) if isinstance(node, ast.Import) for alias in node.names
        }
        foreign = {name.split(".")[0] for name in names} - set(sys.stdlib_module_names) - {"tests"}
        assert not foreign, path

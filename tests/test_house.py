"""The repository keeps the promises its own files make: links, locks, make targets, licence."""

from __future__ import annotations

import ast
import os
import pkgutil
import re
import subprocess
import tomllib
from pathlib import Path

import pytest
from packaging.requirements import Requirement
from packaging.version import Version

from tests import ROOT

DOCUMENTS = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
LINK = re.compile(r"\]\(([^)\s]+)\)|src=\"([^\"]+)\"")
SOURCES = (
    *("accounting", "benchmarks", "deploy", "docs", "experiments", "models", "stream_app", "tallyguard"),
    "tests",
)


def locked_versions(name: str) -> dict[str, list[Version]]:
    """Every version a lock file pins, by canonical package name."""
    found: dict[str, list[Version]] = {}
    for line in (ROOT / name).read_text().splitlines():
        if match := re.match(r"([a-z0-9._-]+)==([^\s;\\]+)", line):
            found.setdefault(match[1].replace("_", "-"), []).append(Version(match[2]))
    return found


def requirements(*extras: str) -> list[Requirement]:
    """What pyproject.toml asks for, without the project itself."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    lines = [*project["dependencies"]]
    for extra in extras:
        lines += project["optional-dependencies"][extra]
    return [item for item in map(Requirement, lines) if item.name != project["name"]]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_link_in_the_documents_leads_somewhere(document: Path) -> None:
    """Relative links and pictures name files of the repository, and headings of a page that are there."""
    targets = [first or second for first, second in LINK.findall(prose(document.read_text()))]
    missing = []
    for target in targets:
        path, _, anchor = target.partition("#")
        page = document.parent / path if path else document
        if "://" not in target and not (page.exists() and (not anchor or anchor in anchors(page))):
            missing.append(target)
    assert not missing


def prose(text: str) -> str:
    """A page without its blocks of code."""
    return re.sub(r"^ *```.*?^ *```$", "", text, flags=re.MULTILINE | re.DOTALL)


def anchors(page: Path) -> set[str]:
    """Where links into a page may lead, as GitHub and the site make them of headings."""
    headings = re.findall(r"^#+ (.*)$", prose(page.read_text()), re.MULTILINE)
    plain = (re.sub(r"[^\w\- ]", "", heading.strip().lower()) for heading in headings)
    return {words.replace(" ", "-") for words in plain}


@pytest.mark.parametrize(
    "document",
    [path for path in DOCUMENTS if path.name != "CHANGELOG.md"],
    ids=lambda path: str(path.relative_to(ROOT)),
)
def test_every_source_that_the_documents_name_is_there(document: Path) -> None:
    """Files, folders and modules in backticks; the changelog is about the past."""
    text = document.read_text()
    saved = set(re.findall(r"^Save this as `(.*)`:$", text, re.MULTILINE))
    words = {
        word for span in re.findall(r"`([^`\n]+)`", prose(text)) for word in re.findall(r"[\w./<>-]+", span)
    }
    assert sorted(word for word in words - saved if is_gone(word)) == []


@pytest.mark.parametrize(
    ("word", "gone"),
    [
        ("models/noise/", False),
        ("models/tiers/", True),
        ("accounting/bounds/registry.py", False),
        ("accounting/bounds/registry_of_bounds.py", True),
        ("segments_kernel.py", False),
        ("segment_kernel.py", True),
        ("benchmarks.continuous", False),
        ("accounting.bounds.mean_added", False),
        ("accounting.bounds.mean_gone", True),
        ("tg.decode", False),
        ("tg.encode", True),
        ("tallyguard/<deployment>/status", False),
        ("tallyguard.toml", False),
    ],
)
def test_a_source_that_is_gone_is_noticed(word: str, gone: bool) -> None:
    """What is no source of ours is not looked for: topics, settings files, words."""
    assert is_gone(word) == gone


def is_gone(word: str) -> bool:
    """Whether a word names a file, folder, module or public name of the sources that is not there."""
    package, *names = word.split(".")
    if "/" in word:
        is_ours = word.partition("/")[0] in SOURCES and "<" not in word
        return is_ours and not word.startswith("deploy/secrets/") and not is_kept(ROOT / word)
    if re.fullmatch(r"\w+\.py", word):
        return not any(path for folder in SOURCES for path in (ROOT / folder).rglob(word))
    if package == "tg" and names:
        return not resolves(f"tallyguard.{'.'.join(names)}")
    if package in SOURCES and package != "tallyguard" and all(name.isidentifier() for name in names):
        path = ROOT.joinpath(package, *names)
        return not (is_kept(path) or is_kept(path.with_suffix(".py")) or resolves(word))
    return False


def is_kept(path: Path) -> bool:
    """Whether a file is there, or a folder with more in it than what was compiled there once."""
    return path.is_file() or any(p.is_file() and p.suffix != ".pyc" for p in path.rglob("*"))


def resolves(name: str) -> bool:
    """Whether a dotted name can be imported."""
    try:
        pkgutil.resolve_name(name)
    except (ImportError, AttributeError):
        return False
    return True


def test_every_page_of_the_documentation_is_in_its_index() -> None:
    """Nobody has to guess that a page exists; each is of one of the four kinds, a result or a runbook."""
    docs = ROOT / "docs"
    index = "".join((docs / name).read_text() for name in ("README.md", "reference/alerts.md"))
    index += (docs / "results" / "tables" / "README.md").read_text().replace("](", "](results/tables/")
    pages = [page.relative_to(docs) for page in docs.rglob("*.md") if page != docs / "README.md"]
    assert [str(page) for page in pages if f"({page})" not in index and f"(../{page})" not in index] == []
    kinds = {"tutorials", "how-to", "explanation", "reference", "results", "runbooks"}
    assert {page.parts[0] for page in pages} == kinds


@pytest.mark.parametrize(
    ("lock", "extras"),
    [
        ("requirements.lock", ("engine", "build")),
        ("requirements-dev.lock", ("engine", "notebook", "build", "plots", "dev")),
    ],
)
def test_the_lock_pins_every_requirement_with_hashes(lock: str, extras: tuple[str, ...]) -> None:
    """Each requirement of pyproject.toml has an allowed exact version in the lock; else run `make lock`."""
    pinned = locked_versions(lock)
    for requirement in requirements(*extras):
        versions = pinned.get(requirement.name.lower().replace("_", "-"), [])
        assert versions, f"{requirement.name} is not in {lock}: run `make lock`"
        assert all(requirement.specifier.contains(version) for version in versions), requirement
    entries = re.split(r"\n(?=[a-z])", (ROOT / lock).read_text())
    assert all("--hash=sha256:" in entry for entry in entries if "==" in entry)


def test_the_locks_agree_with_each_other() -> None:
    """What a user runs is what was tested."""
    runtime, development = locked_versions("requirements.lock"), locked_versions("requirements-dev.lock")
    assert runtime
    assert {name: development.get(name) for name in runtime} == runtime


def test_the_locks_name_no_place_to_download_from() -> None:
    """Whoever installs decides on the index; the hashes decide what is accepted."""
    for lock in ("requirements.lock", "requirements-dev.lock"):
        assert "://" not in (ROOT / lock).read_text()


def test_every_make_target_named_in_a_document_exists() -> None:
    """`make something` in a document is a target of the Makefile."""
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"demo", "test", "test-fast", "lint", "bench", "lock"} <= targets
    for document in DOCUMENTS:
        named = set(re.findall(r"`make ([a-z-]+)", document.read_text()))
        assert named <= targets, document


@pytest.fixture(scope="module")
def shared() -> str:
    return "made once for all tests of the module"


def test_tests_that_share_something_run_in_one_process(request: pytest.FixtureRequest, shared: str) -> None:
    """With pytest 9.2 and xdist 3.8 each process makes its own: brokers, engines, the site."""
    if not hasattr(request.config, "workerinput"):
        pytest.skip("tests are not shared out to processes")
    assert request.node.nodeid.endswith("@tests/test_house.py")


@pytest.mark.parametrize("fails", ["nothing", "services", "install-dev", "test", "style"])
def test_continuous_integration_runs_every_test_and_the_linters(tmp_path: Path, fails: str) -> None:
    """`.ci/run` installs, calls `make test` (the site is built there) and `make style`; fails if one does."""
    made = tmp_path / "make"
    made.write_text(f'#!/bin/sh\necho "$@" >> {tmp_path}/asked\n[ "$*" != {fails} ]\n')
    made.chmod(0o755)
    environment = os.environ | {"PATH": f"{tmp_path}:{os.environ['PATH']}"}
    done = subprocess.run([ROOT / ".ci" / "run"], env=environment, check=False)
    assert (done.returncode == 0) == (fails == "nothing")
    targets = (tmp_path / "asked").read_text().splitlines()
    assert sorted(targets[:2]) == ["install-dev", "services"]
    assert sorted(targets[2:]) == ([] if fails in ("services", "install-dev") else ["style", "test"])


def test_a_machine_without_python_is_told_so() -> None:
    """`make install` says what is missing instead of failing somewhere inside."""
    done = subprocess.run(
        ["make", "--silent", "install", "PYTHON=", "VENV=no-such-environment"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "needs Python 3.11 or newer" in done.stderr


def test_no_test_asks_for_shared_material_before_it_runs() -> None:
    """Where it is missing a test is skipped; a module that asks for it while it is read stops them all."""
    for path in (ROOT / "tests").rglob("test_*.py"):
        parts: list[ast.AST] = []
        for each in ast.parse(path.read_text()).body:
            parts += each.decorator_list if isinstance(each, ast.FunctionDef) else [each]
        calls = (each for part in parts for each in ast.walk(part) if isinstance(each, ast.Call))
        assert not [each for each in calls if isinstance(each.func, ast.Name) and each.func.id == "shared"], (
            path
        )


def test_the_licence_is_apache_2() -> None:
    """The licence text is the one pyproject.toml names."""
    text = (ROOT / "LICENSE").read_text()
    assert "Apache License" in text
    assert "Version 2.0, January 2004" in text
    assert tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["license"] == "Apache-2.0"


def test_no_error_tells_an_operator_to_begin_anew() -> None:
    """A new folder or prefix forgets what was published, and every risk would be too low."""
    anew = re.compile(
        r"(start|begin|continue|go on|run|choose|use|take|with)\b[^.;]{0,30} "
        r"(new|another|other|fresh) (output folder|folder|prefix|deployment)\b"
    )
    assert anew.search("start with a new output folder")
    assert anew.search("or choose another prefix")
    for path in [*(ROOT / "stream_app").rglob("*.py"), *(ROOT / "accounting").rglob("*.py")]:
        joined = re.sub(r"\"\s*\n\s*f?\"", "", path.read_text())  # sentences go over several lines
        found = anew.search(joined)
        assert found is None, f"{path}: {found[0]}"


_ALGEBRA = {  # sparse, of whole numbers, offline, or one figure of a Gaussian ledger
    *("models/noise_design", "models/gaussian_process.py", "models/priors/stationary.py"),
    *("models/priors/prior.py", "accounting/ledgers/inferential.py", "accounting/bounds/conformance.py"),
    "accounting/bounds/noised/erasure_bound.py",
}


def test_no_algebra_library_adds_up_what_machines_compare() -> None:
    """It adds in an order of its own on each machine, so that last bits differ."""
    found = set()
    for path in [*(ROOT / "models").rglob("*.py"), *(ROOT / "accounting").rglob("*.py")]:
        for node in ast.walk(ast.parse(path.read_text())):
            is_product = isinstance(node, ast.BinOp) and isinstance(node.op, ast.MatMult)
            is_call = isinstance(node, ast.Attribute) and node.attr in ("dot", "tensordot", "einsum")
            if is_product or is_call:
                found.add(str(path.relative_to(ROOT)))
    assert {name for name in found if not name.startswith(tuple(_ALGEBRA))} == set()

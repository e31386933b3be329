"""The documentation: a site without a broken link, and pages that say what the program does."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import yaml
from typer.main import get_command

from stream_app.cli.app import app
from stream_app.setup.settings_sources import describe
from tests import ROOT
from tests.documents import DOCS, PAGES, shown
from tests.stream_app.command_tree import leaves

COMMANDS = dict(leaves(get_command(app)))
OFFICER = ("guarantees", "prior-quality", "ceiling-and-attack", "high-ceiling", "decisions")


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site as `make docs` builds it."""
    folder = tmp_path_factory.mktemp("site")
    built = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert built.returncode == 0, built.stderr
    return folder


@pytest.mark.slow
def test_the_site_is_built_with_every_link_and_anchor_checked(site: Path) -> None:
    """Each page of the repository is a page of the site, and reading it loads nothing from elsewhere."""
    for page in PAGES:
        name = page.relative_to(DOCS).with_suffix(".html")
        text = (site / (name.with_name("index.html") if page.name == "README.md" else name)).read_text()
        loaded = re.findall(r"<(?:script|img|link)[^>]*?(?:src|href)=\"(https?://[^\"]+)\"", text)
        assert loaded == [], page


@pytest.mark.slow
def test_lists_and_blocks_of_code_come_out_as_such(site: Path) -> None:
    """The site wants an empty line before a list and four spaces below an item; GitHub does not."""
    for page in site.rglob("*.html"):
        for paragraph in re.findall(r"<p>(.*?)</p>", page.read_text(), re.DOTALL):
            assert not re.search(r"\n\s*(?:[-*]|\d+\.) |```|\| ?---", paragraph), (page.name, paragraph[:200])


@pytest.mark.slow
def test_docstrings_are_shown_as_readers_want_them(site: Path) -> None:
    """Without the roles that are for tools; what is documented is there."""
    text = (site / "reference" / "python-api.html").read_text()
    assert not re.search(r":(?:class|func|meth|mod|data|attr):", text)
    for name in ("audit_person", "MovementPrior", "ContinuousAccountant", "fit_priors"):
        assert re.search(rf"id=\"[\w.]+\.{name}\"", text), name


def test_notebooks_are_in_the_navigation_too() -> None:
    """The site has them as files; mkdocs itself misses pages only."""
    navigation = (ROOT / "mkdocs.yml").read_text()
    notebooks = [path.relative_to(DOCS) for path in DOCS.rglob("*.ipynb")]
    assert notebooks
    assert [str(path) for path in notebooks if f": {path}\n" not in navigation] == []


def test_linting_builds_the_site() -> None:
    """A broken link fails where a badly formatted line does."""
    makefile = (ROOT / "Makefile").read_text()
    assert re.search(r"^lint:.*\bdocs\b", makefile, re.MULTILINE)
    assert "mkdocs build --strict" in makefile


@pytest.mark.slow
def test_the_site_has_the_help_of_every_command_and_every_setting(site: Path) -> None:
    """The pages of the repository have marks in their place."""
    commands = (site / "reference" / "commands.html").read_text()
    assert [name for name in COMMANDS if f'id="tallyguard-{"-".join(name)}"' not in commands] == []
    settings = (site / "reference" / "settings.html").read_text()
    assert [row.name for row in describe() if f"<code>{row.name}</code>" not in settings] == []
    assert "<!-- built:" not in commands + settings


def test_the_page_of_alerts_has_each_with_its_severity_and_runbook() -> None:
    """As `deploy/prometheus/alerts.yml` has them."""
    page = (DOCS / "reference" / "alerts.md").read_text()
    found: list[tuple[str, ...]] = re.findall(
        r"^\| `(\w+)` \| (.*), for (\w+) \| (\w+) \| .*\(\.\./runbooks/(.*)\) \|$", page, re.MULTILINE
    )
    groups = yaml.safe_load((ROOT / "deploy/prometheus/alerts.yml").read_text())["groups"]
    rules = [rule for group in groups for rule in group["rules"] if "alert" in rule]
    assert found == [as_shown(rule) for rule in rules]


def as_shown(rule: dict[str, Any]) -> tuple[str, ...]:
    """An alert's row."""
    notes = rule["annotations"]
    runbook = notes["runbook_url"].rsplit("/", 1)[1]
    return rule["alert"], notes["summary"], rule["for"], rule["labels"]["severity"], runbook


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_every_command_and_option_shown_exists(page: Path) -> None:
    """`tallyguard run --priors …` in a line of code can be typed."""
    for words in re.findall(r"(?:`|^ *|\| )tallyguard ([a-z][^`\n]*)", shown(page), re.MULTILINE):
        typed = re.split(r"\s+#|\s\||>", words)[0].split()
        command = next((name for name in COMMANDS if list(name) == typed[: len(name)]), None)
        groups = {name[0] for name in COMMANDS if len(name) > 1}
        assert command is not None or typed in ([group] for group in groups), words
        for option in re.findall(r"(?<=\s)--[a-z-]+", " ".join(["", *typed])):
            params = COMMANDS[command].params
            known = {"--help"}.union(*((*one.opts, *one.secondary_opts) for one in params))
            assert option in known, (words, option)


@pytest.mark.parametrize("name", OFFICER)
def test_the_officers_pages_have_no_formulas(name: str) -> None:
    """What is in them can be read aloud."""
    text = re.sub(r"^```.*?^```", "", (DOCS / "explanation" / f"{name}.md").read_text(), flags=re.M | re.S)
    assert not re.search(r"[∑√≤≥∞Σσδηε]|<=|\bsqrt\b|\bln\b|\blog\b\(|\^|I\(|d\(", text)
    assert not re.search(r"^ {4,}\S", text, re.MULTILINE), "a formula on a line of its own"


@pytest.mark.parametrize("page", [ROOT / "README.md", *PAGES], ids=lambda page: str(page.relative_to(ROOT)))
def test_bounds_are_fast_or_tight_and_counts_reveal(page: Path) -> None:
    """One word for one thing: generated pages have the words of help, settings, metrics and glossary."""
    text = " ".join(shown(page).split())
    assert not re.search(r"\b(?:dear|cheap)(?:er)? (?:bound|evaluation)", text, re.IGNORECASE)
    assert not re.search(r"\b(?:sensors?|counts?|releases?) (?:that )?(?:tells?|told)\b", text, re.IGNORECASE)
    assert "their risk to the counts" not in text

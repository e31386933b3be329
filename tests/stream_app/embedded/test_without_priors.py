"""A run without priors publishes and keeps the privacy ledger; every output says that nobody is accounted."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from models.prior_files import load_population, save_population
from models.priors import MovementPrior, Population
from stream_app.analysis.served import RunReader, answer_of_run, sources
from stream_app.embedded import RunOptions, run
from stream_app.exceptions import SettingsError
from stream_app.setup.given_priors import population_of
from stream_app.setup.run_folder.run_settings import load_account
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import load_settings
from stream_app.watching.web import StatusBoard
from stream_app.watching.web.answers import render, state_json
from stream_app.watching.wording import epsilon_in_words
from tests.stream_app.command_line import called
from tests.watching.page_text import PageText, text_of_page

NOBODY = "no risk of persons is computed"
NO_CEILING = "No ceiling of persons was computed, so no rule was kept by it."
ASSUMED = "everybody is half here, half there"


def messages(path: Path, steps: int = 3) -> Path:
    """Two sensors that count in each step."""
    lines = []
    for step in range(steps):
        lines.append({"v": 1, "type": "activation", "step": step, "sensors": ["a", "b"]})
        for sensor in "ab":
            lines.append({"v": 1, "type": "reading", "step": step, "sensor": sensor, "count": 7})
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.fixture
def deployment(tmp_path: Path) -> Path:
    """Settings and locations, but no priors."""
    (tmp_path / "locations.txt").write_text("a\nb\n")
    config = tmp_path / "tallyguard.toml"
    config.write_text('locations = "locations.txt"\nlisten = ""\nmistakes = 0\n[release]\nsigma = 2.0\n')
    messages(tmp_path / "messages.jsonl")
    return tmp_path


def command(*arguments: object) -> str:
    """Standard output of a command that is well."""
    result = called(*arguments)
    assert result.exit_code == 0, result.output
    return " ".join(result.stdout.split())


def test_counts_are_published_and_no_risk_is_told_as_zero(deployment: Path) -> None:
    out, config = deployment / "out", deployment / "tallyguard.toml"
    said = command(
        *("run", "--config", config, "--input", deployment / "messages.jsonl"),
        *("--output", out, "--create-keys"),
    )
    assert NOBODY in said
    released = [json.loads(line) for line in (out / "releases.jsonl").read_text().splitlines()]
    assert [len(step["releases"]) for step in released] == [2, 2, 2]
    assert all(entry["sigma"] == 2.0 for step in released for entry in step["releases"])
    assert not (out / "risks.jsonl").exists() or (out / "risks.jsonl").read_text() == ""
    (source,) = sources([out], None, config)
    board = StatusBoard((), 1e-6, source.settings)
    RunReader(source, board).start()
    assert (board.read().next_step, board.read().phase, board.read().people) == (3, "stopped", 0)
    assert board.read().summary is None and len(board.read().releases) == 2
    ledger = json.loads(called("ledger", str(out), "--config", str(config), "--json").stdout)
    assert NOBODY in ledger["note"]
    assert "refused" in ledger["reconstruction"]
    assert ledger["differential_privacy"][0]["epsilon"] > 0.0
    command("report", out, "--output", deployment / "report.html")
    report = (deployment / "report.html").read_text()
    assert NOBODY in report
    assert "Mean ceiling" not in report


def test_check_needs_no_priors_but_says_what_is_missing(deployment: Path) -> None:
    assert NOBODY in command("check", "--config", deployment / "tallyguard.toml")
    (deployment / "nobody.json").write_text('{"locations": ["a", "b"], "people": []}')
    assert NOBODY in command(
        "check", "--config", deployment / "tallyguard.toml", "--priors", deployment / "nobody.json"
    )


def test_a_budget_without_people_is_refused(deployment: Path) -> None:
    settings = Settings.model_validate(
        {"locations": deployment / "locations.txt", "release": {"mechanism": "budget"}}
    )
    with pytest.raises(SettingsError, match="must have people to protect"):
        population_of(settings, None)


def test_without_priors_and_locations_the_remedy_is_told() -> None:
    with pytest.raises(SettingsError, match="tallyguard init"):
        population_of(Settings(), None)


@pytest.mark.parametrize("name", ["priors.json", "priors.parquet"])
def test_assumed_priors_are_called_so_wherever_they_are_used(deployment: Path, name: str) -> None:
    population = Population.pack([MovementPrior.from_dense("p", [[0.5, 0.5], [0.5, 0.5]])], ["a", "b"])
    population = Population(population.people, population.location_names, population.arrays, ASSUMED)
    path = deployment / name
    save_population(population, path)
    assert load_population(path).assumed == ASSUMED
    assert load_population(path).subset([0]).assumed == ASSUMED
    report = run(
        Settings(mistakes=0, listen=""),
        RunOptions(deployment / "out", deployment / "messages.jsonl", create_keys=True),
        load_population(path),
    )
    assert report.note is not None
    assert ASSUMED in report.note
    assert json.loads((deployment / "out" / "run.json").read_text())["assumed_habits"] == ASSUMED
    risks = [json.loads(line) for line in (deployment / "out" / "risks.jsonl").read_text().splitlines()]
    assert {each["assumed"] for each in risks if each["type"] == "risk_summary"} == {ASSUMED}
    command("report", deployment / "out", "--output", deployment / "report.html")
    assert ASSUMED in (deployment / "report.html").read_text()
    assert ASSUMED in command("check", "--priors", path)


@pytest.mark.parametrize("bound", [None, 2])
def test_terminal_page_report_and_ledger_state_the_same_epsilon(deployment: Path, bound: int | None) -> None:
    """Of the whole log, also with a bound over the day; none has a figure about people."""
    out, config = deployment / "out", deployment / "tallyguard.toml"
    if bound is not None:
        rows = [{"name": name, "locations": [name]} for name in "ab"]
        declared = {"counts": "presence", "most_counts_per_day": bound, "sensors": rows}
        (deployment / "sensors.json").write_text(json.dumps(declared))
        config.write_text(f'sensors = "sensors.json"\n{config.read_text()}')
    said = command(
        *("run", "--config", config, "--input", deployment / "messages.jsonl"),
        *("--output", out, "--create-keys"),
    )
    stated = re.search(r"epsilon ([\d.]+) at delta 1e-06", said)
    assert stated is not None
    assert "(whole log)" in said
    document = json.loads(called("ledger", str(out), "--config", str(config), "--json").stdout)
    assert stated[1] == epsilon_in_words(document["differential_privacy"][0]["epsilon"])
    assert document["differential_privacy"][0]["rho"] == (bound or 3) / 8.0  # of three steps at sigma 2
    units = {each["unit"]: each["epsilon"] for each in document["differential_privacy_by_unit"]}
    assert epsilon_in_words(units["whole log"]) == stated[1]
    account = load_account(out)
    assert account is not None
    assert account.spends["all"].rho_value() == (bound or 3) / 8.0
    command("report", out, "--output", deployment / "report.html")
    report = (deployment / "report.html").read_text()
    assert f" all together {stated[1]} " in text_of_page(report)
    assert "Epsilon of the whole log at delta 1e-06" in text_of_page(report)
    assert "ceiling" not in report.split("</style>")[1].lower()


def test_bounds_over_the_day_need_steps_that_lie_within_one_date(deployment: Path) -> None:
    rows = [{"name": name, "locations": [name]} for name in "ab"]
    declared = {"counts": "presence", "most_counts_per_day": 2, "sensors": rows}
    (deployment / "sensors.json").write_text(json.dumps(declared))
    config = deployment / "tallyguard.toml"
    whole = config.read_text()
    config.write_text(f'sensors = "sensors.json"\n{whole}')
    assert "one person is counted at most 2 a day" in command("check", "--config", config)
    config.write_text(f'sensors = "sensors.json"\norigin = "1970-01-01T00:30:00Z"\n{whole}')
    refused = called("check", "--config", str(config))
    assert refused.exit_code == 1
    assert "lie within one date" in " ".join(refused.output.split())


def test_the_page_without_people_shows_what_was_spent_and_no_risk(deployment: Path) -> None:
    settings = load_settings(deployment / "tallyguard.toml")
    board = StatusBoard((), settings.delta)
    options = RunOptions(deployment / "out", deployment / "messages.jsonl", create_keys=True)
    run(settings, options, population_of(settings, None), observer=board)
    status = board.read()
    account = load_account(deployment / "out")
    assert account is not None
    assert status.epsilon == {group: spend.epsilon(1e-6) for group, spend in account.spends.items()}
    page = render(status, settings)
    assert "Differential privacy spent" in page
    assert epsilon_in_words(status.epsilon["all"]) in PageText(page).words
    assert NOBODY in page
    assert "people are at risk" not in page
    restarted = StatusBoard((), settings.delta)
    run(settings, options, population_of(settings, None), observer=restarted)
    assert restarted.read().epsilon == status.epsilon


@pytest.mark.parametrize("rule", ["", "[release.budget]\nadded = 0.1\n"])
def test_page_annex_and_export_say_that_no_rule_is_kept_where_nobody_is_accounted(
    deployment: Path, rule: str
) -> None:
    """With a rule, which is watched in vain, and without one."""
    out, config = deployment / "out", deployment / "tallyguard.toml"
    config.write_text(config.read_text() + rule)
    (deployment / "nobody.json").write_text('{"locations": ["a", "b"], "people": []}')
    command(
        *("run", "--config", config, "--priors", deployment / "nobody.json", "--create-keys"),
        *("--input", deployment / "messages.jsonl", "--output", out),
    )
    answer = answer_of_run(out)
    assert (answer["state"], answer["sentence"]) == ("not shown" if rule else "no rule", NO_CEILING)
    assert "Run with priors" in answer["change"]
    command("report", out, "--for", "dpia", "--public", "--output", deployment / "annex.html")
    assert NOBODY in text_of_page((deployment / "annex.html").read_text())
    assert NO_CEILING in command("export", out, "--output", deployment / "open-data")


@pytest.mark.parametrize("text", ['["a", "b"]', '{\n"locations": ["a", "b"]\n}\n'])
def test_a_json_document_is_no_list_of_places(deployment: Path, text: str) -> None:
    """Its lines would be names that no sensor has."""
    (deployment / "locations.txt").write_text(text)
    refused = called("check", "--config", str(deployment / "tallyguard.toml"))
    assert refused.exit_code == 1
    assert "must have a name in each line, got a JSON document" in " ".join(refused.output.split())


def test_every_place_says_which_counts_left_no_guarantee(deployment: Path) -> None:
    """Infinity is no figure for an officer: every place names the sensor, and how many counts."""
    out, config = deployment / "out", deployment / "tallyguard.toml"
    config.write_text(config.read_text().split("[release]")[0] + '[release]\nmechanism = "raw"\n')
    said = command(
        *("run", "--config", config, "--input", deployment / "messages.jsonl"),
        *("--output", out, "--create-keys"),
    )
    account = load_account(out)
    assert account is not None
    did = account.spends["all"].unprotected
    assert did.is_exact
    others = " and other sensors" if did.of_others else ""
    reason = f"{did.counts:,} counts of sensor {did.sensor}{others} were published exactly"
    assert f"No differential privacy guarantee: {reason}." in said
    ledger = command("ledger", out, "--config", config)
    assert f"add or remove one person: no guarantee. {reason}" in " ".join(ledger.split())
    assert ledger.split().count("none") == 1, "all of the unit, or none of it; no epsilon is none"
    command("report", out, "--output", deployment / "report.html")
    report = (deployment / "report.html").read_text()
    assert f" all together no guarantee: {reason} no factor: nothing is promised " in text_of_page(report)
    board = StatusBoard((), 1e-6)
    board.carried(account)
    assert f"no guarantee: {reason}" in PageText(render(board.read())).words
    assert (
        json.loads(state_json(board.read(), None, has_people=False))["spent"]["all"]
        == f"no guarantee: {reason}"
    )
    for text in (said, ledger, report):
        assert "no limit" not in text
        assert "spent)" not in text

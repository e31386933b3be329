"""The command line: results on stdout, everything else on stderr, exit codes that scripts can rely on."""

from __future__ import annotations

import errno
import json
import os
import re
import shlex
import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest
from markupsafe import escape

import tallyguard as tg
from models import private_files
from stream_app.cli.shared import print_table
from stream_app.watching.wording import ceiling_in_words, in_a_hundred
from tests.hex_keys import hex_key
from tests.stream_app.command_line import Tallyguard
from tests.watching.page_text import PageText

COMMANDS = (["demo"], ["run"], ["audit"], ["ledger"], ["check"], ["priors", "fit"], ["config", "show"])
AUDIT_FIELDS = [
    *("person", "steps", "mistakes", "entropy", "information", "prior_guess", "bounds"),
    *("certified", "certified_by", "confidence", "baseline", "baseline_bound", "attacks"),
]
TWO_PEOPLE = {
    "locations": ["home", "work", "park"],
    "people": [
        {"person": "ann", "initial": None, "transition": [[0.8, 0.1, 0.1], [0.3, 0.6, 0.1], [0.5, 0.2, 0.3]]},
        {"person": "bob", "initial": None, "transition": [[1, 0, 0], [1, 0, 0], [1, 0, 0]]},
    ],
}
SCHEDULE = {"first_slot": 0, "steps": [{"sensors": ["work"], "mechanism": "raw"}] * 3}


@pytest.fixture
def files(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with priors and a schedule, which is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "priors.json").write_text(json.dumps(TWO_PEOPLE))
    (tmp_path / "schedule.json").write_text(json.dumps(SCHEDULE))
    return tmp_path


@pytest.mark.parametrize("command", COMMANDS, ids=" ".join)
def test_each_help_has_examples_of_the_command_itself(tallyguard: Tallyguard, command: list[str]) -> None:
    """`--help` shows how the command is typed."""
    result = tallyguard(*command, "--help")
    assert result.code == 0
    assert re.search(rf"Examples:\n\s+.*tallyguard {' '.join(command)}", result.out)


def test_wrong_usage_exits_with_2_and_says_so_on_stderr(tallyguard: Tallyguard) -> None:
    """An unknown option or a missing argument is not a problem found, but a command not understood."""
    for arguments in (["run"], ["audit", "--nonsense"], ["frobnicate"], ["demo", "--steps", "many"]):
        result = tallyguard(*arguments)
        assert result.code == 2
        assert "Error" in result.err
        assert result.out == ""


def test_a_misspelled_environment_variable_is_an_error_with_a_suggestion(
    tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not silence: it was meant to do something."""
    monkeypatch.setenv("TALLYGUARD_HORIZN", "3")
    result = tallyguard("config", "show")
    assert result.code == 1
    assert result.out == ""
    assert "did you mean TALLYGUARD_HORIZON?" in result.err
    assert "Traceback" not in result.err


def test_config_show_masks_secrets_and_follows_precedence(
    tallyguard: Tallyguard, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The environment overrides the file, and a secret never reaches any output."""
    (files / "t.toml").write_text('deployment = "north"\nhorizon = 7\n')
    secret = hex_key("ab")
    monkeypatch.setenv("TALLYGUARD_NOISE_KEY_SECRET", secret)
    monkeypatch.setenv("TALLYGUARD_HORIZON", "9")
    as_json, as_table = (
        tallyguard("config", "show", "--config", "t.toml", *more) for more in (["--json"], [])
    )
    assert as_json.document["deployment"] == "north"
    assert as_json.document["horizon"] == 9
    assert "noise_key_secret" in as_json.document
    for result in (as_json, as_table):
        assert secret not in result.out + result.err


def test_audit_prints_one_object_a_person_with_the_documented_fields(
    tallyguard: Tallyguard, files: Path
) -> None:
    """The fields of the interface, in a list; `--person` picks."""
    result = tallyguard("audit", "priors.json", "--schedule", "schedule.json", "--mistakes", "1", "--json")
    assert result.code == 0
    assert [item["person"] for item in result.document] == ["ann", "bob"]
    assert list(result.document[0]) == AUDIT_FIELDS
    bounds = {"loose", "tight", "divergence", "moment", "exact", "erasure"}
    assert set(result.document[0]["bounds"]) >= bounds
    assert set(result.document[0]["attacks"]) == {
        "map",
        "prior",
        "constant",
        "marginal",
        "either",
        "searched",
    }
    assert result.document[1]["certified"] == 1.0
    only = tallyguard(
        "audit", "priors.json", "--schedule", "schedule.json", "--mistakes", "1", "--person", "bob", "--json"
    )
    assert only.document == result.document[1:]


def test_audit_says_which_release_did_it(tallyguard: Tallyguard, files: Path) -> None:
    """Sorted, adding up, and the same risk as the audit's own; without the flag nothing of it."""
    arguments = ("audit", "priors.json", "--schedule", "schedule.json", "--mistakes", "1", "--no-attacks")
    documents = tallyguard(*arguments, "--why", "--json").document
    for document in documents:
        why = document.pop("why")
        nats = [release["information_nats"] for release in why["releases"]]
        assert nats == sorted(nats, reverse=True)
        assert sum(nats) == pytest.approx(document["information"]["exact"], abs=1e-12)
    assert documents == tallyguard(*arguments, "--json").document
    ann, bob = (document["certified"] for document in documents)
    assert len(why["releases"]) == 0 < ann < bob == 1.0  # bob never goes to work
    table = tallyguard(*arguments, "--why").out
    assert re.search(r"Step\s+Sensor\s+Released\s+Bits\s+Share\s+Ceiling without it", table)
    assert len(re.findall(r"\d\s+work\s+raw\s+\d", table)) == 3
    assert "bob: no release concerns this person." in table


@pytest.mark.slow
def test_audit_says_the_ceiling_within_a_radius_wherever_it_says_a_ceiling(
    tallyguard: Tallyguard, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same figures in JSON, table, why, hindsight and report, with the condition; 0 nats change none."""
    monkeypatch.setenv("COLUMNS", "80")
    command = ("audit", "priors.json", "--schedule", "schedule.json", "--mistakes", "0", "--no-attacks")
    more = ("--why", "--hindsight", "0:1", "--person", "ann")
    (plain,) = tallyguard(*command, *more, "--json").document
    (same,) = tallyguard(*command, *more, "--radius", "0", "--json").document
    assert same["certified_radius"] == plain["certified"]
    assert same["hindsight"]["now_radius"] == plain["hindsight"]["now"]
    (near,) = tallyguard(*command, *more, "--radius", "0.05", "--json").document
    assert near["certified"] == plain["certified"] < near["certified_radius"] < 1.0
    assert (near["radius"]["first_step"], near["radius"]["last_step"]) == (0, 2)
    assert near["hindsight"]["then"] < near["hindsight"]["then_radius"] < 1.0
    table = tallyguard(*command, *more, "--radius", "0.05").out
    said = "within 0.05 nats of the prior's (relative entropy, KL(person || prior)), no method does better; "
    assert f"{said}no added" in table
    for ceiling in (
        near["certified_radius"],
        near["hindsight"]["now_radius"],
        *(release["certified_radius"] for release in near["why"]["releases"]),
    ):
        assert ceiling_in_words(ceiling) in table
    assert max(len(line.rstrip()) for line in table.splitlines() if " in 100" in line) <= 80
    (files / "audit.json").write_text(json.dumps([near]))
    assert tallyguard("report", "audit.json", "--output", "report.html").code == 0
    report = (files / "report.html").read_text()
    assert ceiling_in_words(near["certified_radius"]) in PageText(report).words
    assert escape(near["radius"]["condition"]) in report
    assert all(tallyguard(*command, f"--radius={wrong}").code == 2 for wrong in ("-0.1", "inf", "nan"))


@pytest.mark.slow
def test_audit_says_how_sure_a_ceiling_of_fitted_priors_is(
    tallyguard: Tallyguard, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """From check-ins to mean and credible ceilings; the same figures in JSON, table and Python."""
    monkeypatch.setenv("COLUMNS", "80")
    visits = [(f"p{person}", hour) for person in range(2) for hour in range(48)]
    lines = [f"{who},{hour * 3600},{'home' if hour % 5 else 'work'}" for who, hour in visits]
    (files / "checkins.csv").write_text("\n".join(["user,time,loc", *lines]))
    fitted = tallyguard(
        *("priors", "fit", "checkins.csv", "--output", "fitted.json", "--window-seconds", "3600"),
        *("--elsewhere", "skip", "--held-out-windows", "0", "--evidence", "evidence.parquet", "--json"),
    )
    assert fitted.document["evidence"] == "evidence.parquet"
    steps = [{"sensors": ["work"], "mechanism": "gaussian", "sigma": 2.0}] * 3
    (files / "noised.json").write_text(json.dumps({"first_slot": 0, "steps": steps}))
    command = ("audit", "fitted.json", "--schedule", "noised.json", "--mistakes", "0", "--no-attacks")
    sure = ("--posterior", "50", "--evidence", "evidence.parquet")
    documents = tallyguard(*command, *sure, "--json").document
    table = tallyguard(*command, *sure).out
    schedule = tg.Schedule.gaussian([[tg.load_priors("fitted.json").location_names.index("work")]] * 3, 2.0)
    audits = tg.audit(
        tg.load_priors("fitted.json"), schedule, 0, draws=0, evidence=tg.load_evidence("evidence.parquet")
    )
    for document, mean in zip(documents, audits.columns()["ceiling_mean"], strict=True):
        found = document["posterior"]
        assert found["draws"] == 50
        assert found["mean"] == mean
        assert found["mean_low"] < found["mean"] < found["mean_high"]
        assert found["mean"] < found["credible"] <= found["credible_high"] <= 1.0
        assert found["condition"] in table
        assert in_a_hundred(found["mean"]) in table
        for ceiling in (document["certified"], found["credible"]):
            assert ceiling_in_words(ceiling) in table
    (files / "audit.json").write_text(json.dumps(documents))
    assert tallyguard("report", "audit.json", "--output", "report.html").code == 0
    report = (files / "report.html").read_text()
    assert ceiling_in_words(documents[0]["posterior"]["credible"]) in PageText(report).words
    assert escape(documents[0]["posterior"]["condition"]) in report
    assert max(len(line.rstrip()) for line in table.splitlines() if " in 100" in line) <= 80
    assert "mean ceiling" in audits[:1].shown()
    assert found["condition"] in audits.caption()
    for wrong in (("--posterior", "50"), ("--evidence", "evidence.parquet"), ("--posterior", "1", *sure[2:])):
        assert tallyguard(*command, *wrong).code == 2
    other = tallyguard("audit", "priors.json", "--schedule", "schedule.json", *sure)
    assert other.code == 1
    assert "write it with the priors it belongs to" in other.err


def test_audit_says_chances_as_people_do(tallyguard: Tallyguard, files: Path) -> None:
    """The table for people who do not read JSON."""
    result = tallyguard(
        "audit", "priors.json", "--schedule", "schedule.json", "--mistakes", "0", "--no-attacks"
    )
    assert result.code == 0
    assert "in at least 3 of 3 steps" in result.out
    assert re.search(r"bob\s+100 in 100", result.out)


@pytest.mark.parametrize("columns", ["1", "25", "35", "38", "40", "60"])
def test_no_end_of_a_number_is_cut_off(
    columns: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """On a narrow terminal an epsilon of 23.1 was shown as 2."""
    monkeypatch.setenv("COLUMNS", columns)
    cells = (
        "whole log",
        "all that a person did in all 48 steps",
        "23.1",
        "9 in 100",
        "100 in 100",
        "40 in 100",
    )
    heads = ("Unit of privacy", "Covers"), ("Epsilon", "Guess"), ("By",), ("Now, if they are known",)
    print_table([cells], *heads)
    shown = capsys.readouterr().out
    assert all(each in shown for each in ("Epsilon", "Guess", *cells[2:]))


def test_the_audits_table_fits_80_columns(
    tallyguard: Tallyguard, files: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No heading is broken, however long the names; the ceiling comes with its condition."""
    named = [{**person, "person": person["person"] * 10} for person in TWO_PEOPLE["people"]]
    (files / "long.json").write_text(json.dumps({**TWO_PEOPLE, "people": named}))
    monkeypatch.setenv("COLUMNS", "80")
    result = tallyguard("audit", "long.json", "--schedule", "schedule.json")
    lines = result.out.splitlines()
    assert re.search(r"Person\s+Guess\s+Best attack\s+Ceiling\s+Paper's\s+By", result.out)
    assert max(map(len, (line.rstrip() for line in lines if "in 100" in line))) <= 80
    assert "if habits are as the prior says, no method does better" in result.out


@pytest.mark.slow
@pytest.mark.parametrize("arguments", [["config", "show"], ["config", "show", "--json"], ["explain", "risk"]])
def test_a_reader_that_has_seen_enough_is_no_problem(arguments: list[str]) -> None:
    """``| head`` in a script that stops at the first failure."""
    read, write = os.pipe()
    os.close(read)
    command = [sys.executable, "-c", "from stream_app.cli import main; main()", *arguments]
    done = subprocess.run(command, stdout=write, stderr=subprocess.PIPE, check=False)
    os.close(write)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_who_closes_the_output_is_told_by_the_exit_status(closed: str) -> None:
    """As services and cron jobs start commands (``>&-``)."""
    called = f"{shlex.quote(sys.executable)} -c 'from stream_app.cli import main; main()' config show --json"
    done = subprocess.run(["sh", "-c", f"{called} {closed}"], stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


@pytest.mark.parametrize("code", [errno.EFBIG, errno.ENOSPC, errno.EIO])
def test_a_disk_that_takes_no_more_is_said_with_the_files_name(
    tallyguard: Tallyguard, files: Path, monkeypatch: pytest.MonkeyPatch, code: int
) -> None:
    """A write says neither which file nor why; and what was there before stays."""

    def fails(descriptor: int) -> None:
        raise OSError(code, os.strerror(code))

    (files / "audit.json").write_text(
        tallyguard("audit", "priors.json", "--schedule", "schedule.json", "--json").out
    )
    (files / "report.html").write_text("the last one")
    monkeypatch.setattr(private_files.os, "fsync", fails)
    result = tallyguard("report", "audit.json", "--output", "report.html")
    assert result.code == 1
    assert "report.html" in result.err
    assert os.strerror(code) in result.err
    assert (files / "report.html").read_text() == "the last one"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["audit", "none.json", "--schedule", "schedule.json", "--mistakes", "1"], "must exist"),
        (
            ["audit", "priors.json", "--schedule", "none.json", "--mistakes", "1"],
            "none.json must be readable",
        ),
        (["audit", "priors.json", "--schedule", "schedule.json", "--mistakes", "3"], "got 3"),
        (
            ["audit", "priors.json", "--schedule", "schedule.json", "--mistakes", "1", "--person", "eve"],
            "'eve'",
        ),
        (
            ["run", "--priors", "priors.json", "--output", "out", "--input", "none.jsonl", "--create-keys"],
            "none.jsonl",
        ),
        (["run", "--priors", "priors.json", "--output", "out", "--listen", "here"], "host:port"),
        (["connect", "guess", "none.csv"], "file none.csv must exist, got nothing"),
        (["connect", "guess", "."], "file . must exist, got a folder"),
        (["priors", "fit", "none.csv", "--output", "p.json"], "check-ins file must exist"),
        (["demo", "--output", "."], "must be new or its own"),
        (["demo", "--steps", "0", "--output", "d"], "steps must be at least 1, got 0"),
        (["demo", "--people", "0", "--output", "d"], "people must be at least 1, got 0"),
    ],
)
def test_what_a_person_can_mend_is_one_sentence_and_exit_1(
    tallyguard: Tallyguard, files: Path, arguments: list[str], message: str
) -> None:
    """Never a traceback: what must hold, what was found, what to do."""
    result = tallyguard(*arguments)
    assert result.code == 1
    last = result.err.strip().splitlines()[-1]
    assert last.startswith("tallyguard: ")
    assert message in last
    assert "Traceback" not in result.err
    assert result.out == ""


@pytest.mark.slow
def test_run_publishes_and_continues_without_publishing_twice(tallyguard: Tallyguard, files: Path) -> None:
    """Two runs on one output: the second has nothing left to do, and the releases stand."""
    lines = []
    for step in range(3):
        lines.append({"v": 1, "type": "activation", "step": step, "sensors": ["work"]})
        lines.append({"v": 1, "type": "reading", "step": step, "sensor": "work", "count": 5 + step})
    lines.append({"v": 1, "type": "reading", "step": 9, "sensor": "work", "count": -1})
    (files / "day.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    arguments = [
        *("run", "--priors", "priors.json", "--input", "day.jsonl", "--output", "out"),
        *("--create-keys", "--listen", "127.0.0.1:0", "--json"),
    ]
    first = tallyguard(*arguments)
    assert first.code == 0
    assert first.document["steps"] == 3
    assert first.document["rejected"] == {"negative_count": 1}
    assert "watch it at http://127.0.0.1:" in first.err
    releases = (files / "out" / "releases.jsonl").read_bytes()
    assert len(releases.splitlines()) == 3
    again = tallyguard(*arguments)
    assert again.document["steps"] == 0
    assert (files / "out" / "releases.jsonl").read_bytes() == releases
    (files / "out-keys").rename(files / "away")
    lost = tallyguard(*arguments)
    assert (lost.code, (files / "out-keys").exists()) == (1, False), "another key would not continue the run"
    assert "noise_key must be the one that out was begun with, got no file" in lost.err
    (files / "away").rename(files / "out-keys")
    advanced = tallyguard("keys", "advance", "--output", "out", "--json")
    key = (files / "out-keys" / "noise.key").resolve()
    assert advanced.document == {"file": str(key), "epoch": 1, "first_step": 3}
    assert tallyguard(*arguments).document["steps"] == 0
    assert (files / "out" / "releases.jsonl").read_bytes() == releases
    assert not list((files / "out").glob("*.key"))
    said = first.out + first.err + (files / "out" / "risks.jsonl").read_text()
    assert not re.search(r"\b(ann|bob)\b", said)


def test_check_finds_nothing_wrong_with_good_files(tallyguard: Tallyguard, files: Path) -> None:
    """Exit 0; a person who never moves is a warning, as a missing key is."""
    result = tallyguard("check", "--priors", "priors.json", "--schedule", "schedule.json", "--json")
    assert result.code == 0
    levels = [(finding["level"], finding["subject"]) for finding in result.document]
    assert ("ok", "priors.json") in levels
    assert ("ok", "schedule.json") in levels
    assert ("warning", "noise_key") in levels
    still = [finding for finding in result.document if "at one place" in finding["sentence"]]
    assert still[0]["sentence"].startswith("1 person is")


def test_check_explains_every_file_that_is_wrong_and_exits_with_1(
    tallyguard: Tallyguard, files: Path
) -> None:
    """Settings, sensors and schedule are all looked at, not only the first that is wrong."""
    (files / "t.toml").write_text("horizn = 7\n")
    (files / "schedule.json").write_text('{"steps": [{"sensors": ["wrok"], "mechanism": "raw"}]}')
    arguments = ["check", "--config", "t.toml", "--priors", "priors.json", "--schedule", "schedule.json"]
    result = tallyguard(*arguments, "--json")
    assert result.code == 1
    problems = {item["subject"]: item["remedy"] for item in result.document if item["level"] == "problem"}
    assert problems == {"t.toml": "did you mean 'horizon'?", "schedule.json": "did you mean 'work'?"}
    shown = tallyguard(*arguments)
    assert shown.code == 1
    assert "did you mean 'work'?" in shown.out


def test_check_says_what_it_could_not_look_at(tallyguard: Tallyguard, files: Path) -> None:
    """A schedule without priors, and with priors that cannot be read."""
    assert "no priors were given" in tallyguard("check", "--schedule", "schedule.json").out
    (files / "priors.json").write_text('{"people": [{"person": "p", "transition": [[0.5]]}]}')
    result = tallyguard("check", "--priors", "priors.json", "--sensors", "s.json", "--json")
    assert result.code == 1
    sentences = " ".join(finding["sentence"] for finding in result.document)
    assert "must sum to 1" in sentences
    assert "the priors could not be read" in sentences


def test_priors_fit_writes_a_file_that_check_accepts(tallyguard: Tallyguard, files: Path) -> None:
    """From check-ins to priors with options by name; the summary says what was dropped."""
    rows = ["user,time,loc"]
    rows += [
        f"u{user},{100 * window + user},{'abc'[(window + user) % 3]}"
        for user in range(4)
        for window in range(12)
    ]
    (files / "checkins.csv").write_text("\n".join(rows) + "\n")
    result = tallyguard(
        *("priors", "fit", "checkins.csv", "--output", "fitted.json", "--window-seconds", "100", "--json"),
        *("--top-places", "3", "--min-windows", "3", "--held-out-windows", "2"),
    )
    assert result.code == 0
    assert result.document["people"] == 4
    assert result.document["held-out windows"] == 2
    assert tallyguard("check", "--priors", "fitted.json").code == 0
    shown = tallyguard("priors", "fit", "checkins.csv", "--output", "p.json", "--ranking", "alphabet")
    assert shown.code == 1
    assert "ranking must be one of rows, users, training_rows" in shown.err


def test_every_choice_of_fitting_is_an_option_with_the_documented_default(tallyguard: Tallyguard) -> None:
    """An option added to the fitting cannot be forgotten on the command line."""
    from models.fitting import FitOptions

    help_text = tallyguard("priors", "fit", "--help").out
    names = [field.name for field in fields(FitOptions)]
    missing = [name for name in names if f"--{name.replace('_', '-')}" not in help_text]
    assert not missing

"""Everything that commands write, under the widest umask: what is secret is for the owner only."""

from __future__ import annotations

import os
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from stream_app.city import CityOptions, build_city
from stream_app.exceptions import OutputLockedError, SettingsError
from stream_app.setup.run_folder.durable import FolderLock
from stream_app.setup.sections import PayloadSettings
from stream_app.setup.settings_sources import load_settings
from stream_app.starting.connect.intake import PayloadIntake, open_intake
from stream_app.starting.demo import paced_messages, prepare, write_audit_schedule
from tests.stream_app.command_line import called

# What everybody may read: what was published, and what is no secret of a deployment.
PUBLIC = {
    *("releases.jsonl", "revised.jsonl", "run.json", "sensors.json", "locations.txt", "tallyguard.toml"),
    *("schedule.json", "working-day.json", "assumed-habits.md", "demo.json"),
}
COUNTS = "date,north,south\n" + "".join(f"2026-03-02 {hour:02d}:00,{hour},{hour + 1}\n" for hour in range(6))
CHECKINS = "user,time,loc\n" + "".join(
    f"{user},{1_700_000_000 + 3600 * hour},{(hour + user) % 3}\n" for user in range(4) for hour in range(40)
)


@pytest.fixture(autouse=True)
def umask() -> Iterator[None]:
    before = os.umask(0)
    yield
    os.umask(before)


def command(*arguments: object) -> None:
    result = called(*arguments)
    assert result.exit_code == 0, f"{result.output} {result.exception}"


def wrongs(folder: Path) -> list[str]:
    """What others could read that they must not, or write at all."""
    found = []
    for path in folder.rglob("*"):
        rights = stat.S_IMODE(path.stat().st_mode)
        name = str(path.relative_to(folder))
        is_public = path.is_dir() or path.name in PUBLIC or "export" in path.parts
        if rights & 0o022 or (rights & 0o077 and not is_public):
            found.append(f"{name} {rights:o}")
    return found


@pytest.mark.slow
def test_nothing_secret_that_a_command_writes_is_readable_by_others(tmp_path: Path) -> None:
    """From a file of counts to a report: init, connect, run (both formats), priors fit, export, report."""
    given = tmp_path / "given"
    given.mkdir(mode=0o755)
    for name, text in (("counts.csv", COUNTS), ("checkins.csv", CHECKINS)):
        (given / name).write_text(text)
        (given / name).chmod(0o600)
    made = tmp_path / "made"
    city = made / "below" / "city"
    command("init", given / "counts.csv", "--timezone", "UTC", "--habits", "assumed", "--output", city)
    settings = ("--config", city / "tallyguard.toml")
    mapping = 'start = "date"\ntimezone = "UTC"\n[columns]\nnorth = "north"\nsouth = "south"\n'
    (given / "files.toml").write_text(mapping)
    for end in ("csv", "parquet", "jsonl"):
        brought = ("connect", "files", given / "counts.csv", "--preset", given / "files.toml", *settings)
        command(*brought, "--output", made / "connected" / f"counts.{end}")
    fit = ("priors", "fit", given / "checkins.csv", "--window-seconds", "3600", "--min-windows", "2")
    for end in ("json", "parquet"):
        command(*fit, "--output", made / f"priors.{end}", "--evidence", made / f"evidence-{end}.parquet")
    for kind in ("jsonl", "parquet"):
        out = made / "runs" / kind
        priors = ("--priors", city / "assumed-priors.json")
        run = ("run", *settings, *priors, "--input", city / "messages.jsonl", "--create-keys", "--listen", "")
        command(*run, "--format", kind, "--output", out)
        command("report", out, "--output", made / f"{kind}.html")
        command("export", out, "--output", made / "export" / kind)
    assert (made / "runs" / "jsonl-keys" / "noise.key").is_file()
    assert wrongs(made) == []
    assert len(list(made.rglob("*"))) > 30


def test_nothing_secret_of_a_demo_or_a_connector_is_readable_by_others(tmp_path: Path) -> None:
    city = build_city(CityOptions(people=5))
    scenario = prepare(tmp_path / "made" / "demo", city)
    list(paced_messages(scenario, city, 3, lambda: None))
    write_audit_schedule(scenario, city, 12)
    (tmp_path / "tallyguard.toml").write_text("step_seconds = 60\n")
    mapping = {"sensor": "s", "start": "t", "interval_seconds": 60, "count": "n"}
    opened = open_intake(
        tmp_path / "made" / "connector",
        load_settings(tmp_path / "tallyguard.toml"),
        PayloadSettings.model_validate(mapping),
        ("a",),
    )
    with opened as intake:
        assert isinstance(intake, PayloadIntake)
        intake.take([_Payload(b'{"s": "a", "t": 0, "n": 3}'), _Payload(b"no JSON")])
    assert wrongs(tmp_path / "made") == []


class _Payload:
    topic = "t"

    def __init__(self, payload: bytes) -> None:
        self.payload = payload


def test_a_run_folder_of_an_earlier_version_is_closed_when_it_goes_on(tmp_path: Path) -> None:
    city, out = tmp_path / "city", tmp_path / "out"
    (tmp_path / "counts.csv").write_text(COUNTS)
    command("init", tmp_path / "counts.csv", "--timezone", "UTC", "--habits", "none", "--output", city)
    run = ("run", "--config", city / "tallyguard.toml", "--output", out, "--create-keys", "--listen", "")
    command(*run, "--input", city / "messages.jsonl")
    for name in ("decisions.jsonl", "lock", "risks.jsonl", "rejected.jsonl", "progress.json"):
        (out / name).chmod(0o644)
    command(*run, "--input", city / "messages.jsonl")
    assert wrongs(out) == []


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become another user")
def test_who_may_read_a_run_cannot_keep_it_from_starting() -> None:
    """The lock is the owner's: a stranger who holds it would hold up publication."""
    steal = (
        "import fcntl, os, sys; os.setgid(65534); os.setuid(65534)\n"
        "try: fcntl.flock(os.open(sys.argv[1], os.O_RDONLY), fcntl.LOCK_EX | fcntl.LOCK_NB)\n"
        "except PermissionError: sys.exit(7)"
    )
    with tempfile.TemporaryDirectory() as reachable:  # pytest's own folders are closed to others
        out = Path(reachable)
        out.chmod(0o755)
        FolderLock(out).close()
        arguments = [sys.executable, "-S", "-c", steal, str(out / "lock")]
        assert subprocess.run(arguments, check=False).returncode == 7
        (out / "lock").chmod(0o644)  # an earlier version's, which the next run closes
        assert subprocess.run(arguments, check=False).returncode == 0
        held = FolderLock(out)
        assert subprocess.run(arguments, check=False).returncode == 7
        with pytest.raises(OutputLockedError):
            FolderLock(out)
        held.close()


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[connect.sensorthings]\nurl = "https://bob:hunter2@host/v1.1"',
            "connect.sensorthings.url must have no user",
        ),
        ('[connect.mqtt]\nbroker = "mqtts://bob:hunter2@host:8883"', "connect.mqtt.broker must have no user"),
        ('[kafka]\nservers = ["bob:hunter2@host:9092"]', "kafka.servers must have no user"),
    ],
)
def test_no_password_stands_in_an_address_that_settings_show(tmp_path: Path, text: str, said: str) -> None:
    """`config show` prints settings, runs keep them, logs name them."""
    (tmp_path / "t.toml").write_text(text)
    with pytest.raises(SettingsError, match=said) as raised:
        load_settings(tmp_path / "t.toml")
    assert "hunter2" not in str(raised.value)
    (tmp_path / "t.toml").write_text(text.replace("bob:hunter2@", ""))
    load_settings(tmp_path / "t.toml")


@pytest.mark.parametrize(
    "token", ["aaaaaaaaaaaaaaaaaaaa", "ababababababababab", "changeme-changeme-changeme"]
)
@pytest.mark.parametrize("name", ["TALLYGUARD_PAGE_TOKEN", "TALLYGUARD_CONNECT__HTTP__TOKEN"])
def test_a_token_that_can_be_guessed_is_refused(
    monkeypatch: pytest.MonkeyPatch, name: str, token: str
) -> None:
    monkeypatch.setenv(name, token)
    with pytest.raises(SettingsError, match="must be random") as raised:
        load_settings()
    assert token not in str(raised.value)


def test_a_password_that_others_can_read_is_refused() -> None:
    with tempfile.TemporaryDirectory() as reachable:
        folder = Path(reachable)
        folder.chmod(0o755)
        (folder / "token").write_text("0123456789abcdef0123456789abcdef")
        (folder / "token").chmod(0o644)
        (folder / "t.toml").write_text('page_token_file = "token"\n')
        with pytest.raises(SettingsError, match=r"readable by its owner only.*chmod 600"):
            load_settings(folder / "t.toml")
        (folder / "token").chmod(0o600)
        assert load_settings(folder / "t.toml").page_token is not None


@pytest.mark.parametrize("section", ["kafka", "connect.http", "connect.mqtt"])
def test_a_private_key_that_others_can_read_is_refused_and_a_certificate_is_not(section: str) -> None:
    with tempfile.TemporaryDirectory() as reachable:
        folder = Path(reachable)
        folder.chmod(0o755)
        (folder / "t.toml").write_text(f'[{section}]\ncertificate_file = "own.pem"\n')
        (folder / "own.pem").write_text("-----BEGIN CERTIFICATE-----\n")
        (folder / "own.pem").chmod(0o644)
        load_settings(folder / "t.toml")
        (folder / "own.pem").write_text("-----BEGIN PRIVATE KEY-----\n")
        with pytest.raises(SettingsError, match=r"private key and must be readable by its owner only"):
            load_settings(folder / "t.toml")
        (folder / "own.pem").chmod(0o600)
        load_settings(folder / "t.toml")

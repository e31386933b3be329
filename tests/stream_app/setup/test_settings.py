"""Settings: where they come from, which wins, what is refused, what is never shown."""

from __future__ import annotations

import ast
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from pydantic import ValidationError

from models.exceptions import MechanismError, NoiseKeyError
from stream_app.exceptions import SettingsError
from stream_app.setup.keys import load_keys
from stream_app.setup.settings import Settings
from stream_app.setup.settings_sources import check_environment, describe, load_settings, settings_error
from stream_app.steps.policy import policy_from
from tests import ROOT
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import NOISE_SECRET, REGISTRY


@pytest.fixture(autouse=True)
def clean_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """No variable of ours from outside."""
    for name in [name for name in os.environ if name.upper().startswith("TALLYGUARD_")]:
        monkeypatch.delenv(name)


def toml(folder: Path, text: str) -> Path:
    path = folder / "tallyguard.toml"
    path.write_text(text)
    return path


def test_the_defaults_are_those_of_the_documentation() -> None:
    settings = load_settings()
    assert (settings.horizon, settings.mistakes, settings.risk_every) == (10, 1, 100)
    assert settings.thresholds == (0.01, 0.05, 0.1, 0.25, 0.5)
    assert (settings.delta, settings.confidence) == (1e-6, 0.95)


def test_flags_win_over_the_environment_and_the_environment_over_the_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Setting by setting, in nested sections too; a flag that is None was not given."""
    path = toml(
        tmp_path, "grace = 3\nhorizon = 7\nmistakes = 1\n[release]\nsigma = 2.0\nclamp_negative = true\n"
    )
    monkeypatch.setenv("TALLYGUARD_HORIZON", "8")
    monkeypatch.setenv("TALLYGUARD_RELEASE__SIGMA", "3")
    monkeypatch.setenv("TALLYGUARD_THRESHOLDS", "0.1,0.2")
    settings = load_settings(path, {"mistakes": 2, "grace": None})
    assert (settings.grace, settings.horizon, settings.mistakes) == (3, 8, 2)
    assert (settings.release.sigma, settings.release.clamp_negative) == (3.0, True)
    assert settings.thresholds == (0.1, 0.2)


def test_the_file_may_be_named_by_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Paths in it are relative to it, not to where the command runs."""
    monkeypatch.setenv("TALLYGUARD_CONFIG", str(toml(tmp_path, 'noise_key = "secret/noise.key"\n')))
    assert load_settings().noise_key == tmp_path / "secret/noise.key"


@pytest.mark.parametrize(
    ("variable", "remedy"),
    [
        ("TALLYGUARD_HORIZION", "did you mean TALLYGUARD_HORIZON?"),
        ("TALLYGUARD_RELEASE__SGMA", "did you mean TALLYGUARD_RELEASE__SIGMA?"),
        ("tallyguard_mistake", "did you mean TALLYGUARD_MISTAKES?"),
        ("TALLYGUARD_QQQQQQQQ", "unset it"),
    ],
)
def test_a_misspelled_variable_is_an_error_with_a_suggestion(
    variable: str, remedy: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, "1")
    with pytest.raises(SettingsError, match=variable) as caught:
        load_settings()
    assert remedy in str(caught.value)


def test_every_documented_variable_is_known_and_others_are_not_ours() -> None:
    check_environment({row.variable: "x" for row in describe()} | {"TALLYGUARDIAN": "1", "PATH": "/bin"})


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("gracee = 1", "did you mean 'grace'?"),
        ("[release]\nsgma = 1", "did you mean 'release.sigma'?"),
        ("horizon = 'x'", "setting horizon must be a valid integer, got a text; correct it"),
        ("grace = 1.5", "setting grace must be a valid integer, got 1.5; correct it"),
        ("grace_seconds = inf", "setting grace_seconds must be a finite number, got inf"),
        ("[connect.sensorthings]\npoll_seconds = inf", "poll_seconds must be a finite number, got inf"),
        ("[release]\nsigma = nan", "setting release.sigma must be a finite number, got nan"),
        ("thresholds = 0.5", "setting thresholds must be a valid list, got 0.5"),
        ("release = 'raw'", "setting release must be a table of settings: [name] above, or {key = value}"),
        ("[release.sensors]\nport = 'raw'", "setting release.sensors.port must be a table of settings"),
        (
            "origin = 10:00:00",
            "setting origin must be a valid datetime, got another value",
        ),
        ("locations = ['a']", "setting locations must be the path of a file, in quotes, got a list; correct"),
        ("horizon = true", "setting horizon must be a number, a text or a list of them, got true or false"),
        ("thresholds = [true]", "setting thresholds must be a number"),
        ("[release]\nsigma = true", "setting release.sigma must be a number"),
        (
            "[release.sensors.B]\nparameters = {sigma = false}",
            "release.sensors.B.parameters must be a number",
        ),
        ("horizon = 3\nmistakes = 3", "mistakes must be below the horizon 3"),
        ("thresholds = [0.5, 0.1]", "must rise"),
        ("thresholds = [0.0]", "must lie in (0, 1]"),
        ("origin = '2026-01-01T00:00:00'", "must have a time zone"),
        ("horizon = ", "must be TOML"),
        ("noise_key_secret = 'ab'", "secrets must not stand in the settings file"),
    ],
)
def test_a_wrong_file_is_an_error_that_says_what_to_do(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(SettingsError) as caught:
        load_settings(toml(tmp_path, text))
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("text", "remedy"),
    [
        ('page_token = "0123456789abcdef"', "set TALLYGUARD_PAGE_TOKEN, or name a file"),
        ('[kafka]\npassword = "hunter2"', r"set TALLYGUARD_KAFKA__PASSWORD, or .* kafka\.password_file"),
        ('pseudonym_key_secret = "ab"', "with pseudonym_key$"),
    ],
)
def test_no_secret_stands_in_the_settings_file(tmp_path: Path, text: str, remedy: str) -> None:
    with pytest.raises(SettingsError, match=f"secrets must not stand.*{remedy}") as caught:
        load_settings(toml(tmp_path, text))
    assert "hunter2" not in str(caught.value)
    assert "0123456789abcdef" not in str(caught.value)


def test_secrets_may_come_from_files_of_their_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "token").write_text("0123456789abcdef\n")
    (tmp_path / "password").write_text("hunter2\n")
    path = toml(tmp_path, 'page_token_file = "token"\n[kafka]\npassword_file = "password"')
    settings = load_settings(path)
    assert settings.page_token is not None
    assert settings.page_token.get_secret_value() == "0123456789abcdef"
    assert settings.kafka.password is not None
    assert settings.kafka.password.get_secret_value() == "hunter2"
    assert "hunter2" not in str(settings.masked())
    monkeypatch.setenv("TALLYGUARD_KAFKA__PASSWORD", "another")
    with pytest.raises(SettingsError, match="from one place"):
        load_settings(path)
    monkeypatch.delenv("TALLYGUARD_KAFKA__PASSWORD")
    (tmp_path / "token").write_text("short")
    with pytest.raises(SettingsError, match="at least 16 characters"):
        load_settings(path)
    (tmp_path / "password").unlink()
    with pytest.raises(SettingsError, match="password_file must be a readable text file"):
        load_settings(path)


def test_secrets_are_masked_wherever_settings_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TALLYGUARD_NOISE_KEY_SECRET", NOISE_SECRET)
    monkeypatch.setenv("TALLYGUARD_KAFKA__PASSWORD", "hunter2")
    settings = load_settings()
    for shown in (repr(settings), str(settings.masked()), settings.model_dump_json()):
        assert NOISE_SECRET not in shown
        assert "hunter2" not in shown
    assert settings.masked()["noise_key_secret"] == "**********"


def test_the_description_covers_every_setting_once() -> None:
    rows = describe()
    assert len({row.name for row in rows}) == len(rows)
    assert {row.name.split(".")[0] for row in rows} == set(Settings.model_fields)
    assert all(row.description for row in rows)
    assert {row.name for row in rows if row.is_secret} == {
        "noise_key_secret",
        "pseudonym_key_secret",
        "snapshot_key_secret",
        "connect.http.token",
        "kafka.password",
        "page_token",
        "connect.mqtt.password",
        "connect.sensorthings.password",
        "connect.sensorthings.token",
    }


def test_the_origin_may_be_a_time_or_seconds() -> None:
    assert Settings.model_validate({"origin": "2026-01-01T01:00:00+01:00"}).origin_seconds == 1767225600
    assert Settings.model_validate({"origin": 86400}).origin_seconds == 86400


def test_the_policy_of_the_settings_decides_by_sensor() -> None:
    release = Settings.model_validate(
        {"release": {"sigma": 3.0, "sensors": {"B": {"mechanism": "raw"}, "C": {"mechanism": "suppressed"}}}}
    ).release
    decided = policy_from(release, REGISTRY).decide(4, ("A", "B", "C")).schedule
    assert decided.step == 4
    assert [(r.sensor.name, r.mechanism.name, dict(r.mechanism.parameters)) for r in decided.releases] == [
        ("A", "gaussian", {"sigma": 3.0}),
        ("B", "raw", {}),
        ("C", "suppressed", {}),
    ]


@pytest.mark.parametrize(
    ("release", "message"),
    [
        ({"sigma": -1.0}, "release"),
        ({"sensors": {"B": {"mechanism": "raw", "sigma": 1.0}}}, "release.sensors.B"),
    ],
)
def test_a_policy_with_a_wrong_mechanism_is_refused_with_its_place(
    release: dict[str, object], message: str
) -> None:
    settings = Settings.model_validate({"release": release})
    with pytest.raises((SettingsError, MechanismError)) as caught:
        policy_from(settings.release, REGISTRY)
    assert message in str(caught.value)


def test_keys_come_from_a_file_from_the_environment_or_are_made_on_request(tmp_path: Path) -> None:
    """A made key is for its owner only, and the next run finds it."""
    with pytest.raises(SettingsError, match="noise_key must be set"):
        load_keys(Settings(), tmp_path)
    output = tmp_path / "out"
    made = load_keys(Settings(), output, create=True)
    file = tmp_path / "out-keys" / "noise.key"
    assert file.stat().st_mode & 0o077 == file.parent.stat().st_mode & 0o077 == 0
    assert not output.exists()
    assert load_keys(Settings(), output).noise.fingerprint() == made.noise.fingerprint()
    named = Settings.model_validate({"noise_key": file, "pseudonym_key_secret": hex_key("33")})
    assert load_keys(named, tmp_path / "elsewhere").noise.fingerprint() == made.noise.fingerprint()


def test_keys_among_the_releases_are_still_used_and_their_owner_is_warned(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Following the warning changes no key; two candidates are an error, none is guessed."""
    output = tmp_path / "out"
    made = load_keys(Settings(), output, create=True).noise.fingerprint()
    beside = tmp_path / "out-keys" / "noise.key"
    output.mkdir()
    beside.rename(output / "noise.key")
    caplog.clear()
    assert load_keys(Settings(), output, create=True).noise.fingerprint() == made
    assert not beside.exists()
    [warning] = [record.getMessage() for record in caplog.records]
    subprocess.run(warning.split("`")[1], shell=True, check=True)
    caplog.clear()
    assert load_keys(Settings(), output).noise.fingerprint() == made
    assert not caplog.records
    (output / "noise.key").write_text(NOISE_SECRET)
    with pytest.raises(SettingsError, match=r"one place.* not in use"):
        load_keys(Settings(), output)


def test_a_key_given_twice_and_a_named_file_that_is_missing_are_errors(tmp_path: Path) -> None:
    both = Settings.model_validate({"noise_key": tmp_path / "a", "noise_key_secret": NOISE_SECRET})
    with pytest.raises(SettingsError, match="from one place"):
        load_keys(both, tmp_path)
    with pytest.raises(NoiseKeyError, match="must be readable"):
        load_keys(Settings.model_validate({"noise_key": tmp_path / "none"}), tmp_path)


def texts(path: Path) -> Iterator[str]:
    """A page's text; a module's texts, without its code."""
    if path.suffix == ".md":
        yield path.read_text()
        return
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            yield node.value


def test_every_setting_named_in_a_page_or_a_sentence_exists() -> None:
    """What is advised can be done: ``release.sigma``, its section, or a sensor's own mechanism below it."""
    names = {each.name for each in describe()}
    known = {".".join(name.split(".")[:depth]) for name in names for depth in range(2, 5)} | names
    named = re.compile(r"(?<![\w./-])(?:release|connect|crowd|kafka)(?:\.[a-z_]+)+\b(?![(/.])")
    pages = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "stream_app").rglob("*.py")]
    found = {(path, name) for path in pages for text in texts(path) for name in named.findall(text)}
    assert len(found) > 100
    others = [
        (p, n)
        for p, n in found
        if n not in known and not n.startswith(("release.sensors.", "connect.http.senders."))
    ]
    assert [(p.name, n) for p, n in others if not n.endswith((".md", ".csv", ".toml"))] == []


@pytest.mark.parametrize(
    ("document", "said"),
    [
        (
            {"release": {"budget": {"share": 5}}},
            "release.budget.share must be at most 1, got 5; .* 5 % is 0.05",
        ),
        ({"late": -1}, "late must be at least 0, got -1; correct it"),
    ],
)
def test_a_value_beyond_its_bound_is_said_with_the_bound(document: dict[str, object], said: str) -> None:
    with pytest.raises(ValidationError) as refused:
        Settings.model_validate(document)
    assert re.search(said, str(settings_error(refused.value)))

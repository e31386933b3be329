"""`check` finds what would stop a run, and nothing that would not: both read files and settings alike."""

from __future__ import annotations

import json
import shutil
import tempfile
from pathlib import Path

import pytest

from models.mechanisms import MECHANISMS
from stream_app.setup.release_settings import ReleaseSettings
from tests.hex_keys import hex_key
from tests.stream_app.cli.test_cli import TWO_PEOPLE
from tests.stream_app.command_line import Tallyguard

DAY = [
    {"v": 1, "type": "activation", "step": 0, "sensors": ["work"]},
    {"v": 1, "type": "reading", "step": 0, "sensor": "work", "count": 5},
]


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Priors, keys, a settings file and a day; the folder is the current one."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "priors.json").write_text(json.dumps(TWO_PEOPLE))
    (tmp_path / "day.jsonl").write_text("".join(json.dumps(line) + "\n" for line in DAY))
    (tmp_path / "t.toml").write_text('noise_key = "n.key"\npseudonym_key = "p.key"\nlisten = ""\n')
    for name in ("n.key", "p.key"):
        (tmp_path / name).write_text(hex_key("ab"))
        (tmp_path / name).chmod(0o600)
    return tmp_path


def both(tallyguard: Tallyguard, *more: str) -> tuple[int, int, str]:
    """Exit status of check and of run, and all that check said."""
    common = ("--config", "t.toml", "--priors", "priors.json", *more)
    checked = tallyguard("check", *common)
    ran = tallyguard("run", *common, "--input", "day.jsonl", "--output", "out")
    return checked.code, ran.code, checked.out


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("n.key", "not hexadecimal", "noise key must be hexadecimal"),
        ("p.key", "abcd", "pseudonym key must have at least 32 bytes"),
        ("s.csv", "step,sensor\n0,wrok\n", "did you mean 'work'?"),
        ("s.csv", "step,sensor\n0,work\n", "activations of 1 step, "),
        ("s.json", '{"steps": [{"sensors": ["work"], "mechanism": "gausian"}]}', "did you mean 'gaussian'?"),
    ],
)
def test_check_and_run_say_the_same_of_each_file(
    tallyguard: Tallyguard, folder: Path, name: str, content: str, said: str
) -> None:
    """Keys are parsed, a CSV is read as activations."""
    (folder / name).write_text(content)
    checked, ran, text = both(tallyguard, *(["--schedule", name] if name.startswith("s.") else []))
    assert checked == ran
    assert said in " ".join(text.split())


@pytest.mark.slow
def test_sensors_whose_activation_no_line_would_hold_are_refused_by_both(
    tallyguard: Tallyguard, folder: Path
) -> None:
    """Unless steps are announced by a schedule."""
    (folder / "s.csv").write_text("step,sensor\n0,work\n")
    names = ["work", *(f"{number:05d}" + "x" * 240 for number in range(4_400))]
    rows = [{"name": name, "locations": ["work"]} for name in names]
    (folder / "sensors.json").write_text(json.dumps({"sensors": rows}))
    (folder / "t.toml").write_text((folder / "t.toml").read_text() + 'sensors = "sensors.json"\n')
    checked, ran, text = both(tallyguard)
    assert (checked, ran) == (1, 1)
    assert "4401 sensors must fit in a line of 1048576 bytes" in " ".join(text.split())
    assert not (folder / "out").exists()
    assert both(tallyguard, "--schedule", "s.csv")[:2] == (0, 0)


@pytest.mark.slow
def test_a_misspelt_mechanism_is_refused_wherever_settings_are_read(
    tallyguard: Tallyguard, folder: Path
) -> None:
    """Also where they are only shown; for a single sensor too."""
    for section in ("[release]", "[release.sensors.work]"):
        (folder / "wrong.toml").write_text(f'{section}\nmechanism = "gausian"\n')
        for command in (["config", "show"], ["check"], ["run", "--priors", "priors.json", "--output", "o"]):
            result = tallyguard(*command, "--config", "wrong.toml")
            assert result.code == 1
            assert "did you mean 'gaussian'?" in result.out + result.err


def test_the_settings_know_the_mechanisms_there_are() -> None:
    """A mechanism that is added can be set."""
    assert {ReleaseSettings(mechanism=name).mechanism for name in MECHANISMS} == set(MECHANISMS)


def test_a_key_that_others_can_read_is_refused_by_both(tallyguard: Tallyguard, folder: Path) -> None:
    """With the command that mends it; not where a folder above is closed to others, as pytest's is."""
    (folder / "n.key").chmod(0o644)
    assert both(tallyguard)[:2] == (0, 0)
    with tempfile.TemporaryDirectory() as reachable:
        Path(reachable).chmod(0o755)
        key = shutil.copy(folder / "n.key", reachable)
        settings = (folder / "t.toml").read_text()
        (folder / "t.toml").write_text(settings.replace('"n.key"', f'"{key}"'))
        checked = tallyguard("check", "--config", "t.toml", "--priors", "priors.json")
        ran = tallyguard(
            *("run", "--config", "t.toml", "--priors", "priors.json", "--input", "day.jsonl", "--output", "o")
        )
        assert (checked.code, ran.code) == (1, 1)
        for text in (checked.out, ran.err):
            said = " ".join(text.split())
            assert "noise_key must be readable by its owner only" in said
            assert "chmod 600" in said

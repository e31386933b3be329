"""A run's folder says all that its readers need: nothing else of the run is there when they read it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from models.noise import CorrelatedNoise
from models.prior_files import load_population, save_evidence
from models.priors import Evidence, Lists
from models.private_files import PRIVATE_FILE
from models.releases import SensorRegistry
from stream_app.analysis.checked_run import check_run
from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.description import (
    Description,
    changes_in,
    description_in,
    design_file,
)
from stream_app.setup.run_folder.record import DESCRIPTION, Entry, read_entries, shown_digests
from stream_app.setup.sensor_files import load_registry
from tests.hex_keys import hex_key
from tests.stream_app.cli.test_cli import TWO_PEOPLE
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.engine_support import (
    NAMES,
    PSEUDONYM_SECRET,
    activation,
    json_lines,
    lines_of,
    messages_of_a_day,
    reading,
    run_on,
    settings,
)

STEPS = 6
SETTINGS = """
deployment = "north"
horizon = 3
mistakes = 0
delta = 1e-4
noise_key = "noise.key"
pseudonym_key = "people.key"
sensors = "sensors.json"
listen = ""
"""
PLACES = [
    {"name": "office", "locations": ["work"], "group": "centre", "lat": 52.5, "lon": 13.4},
    {"name": "green", "locations": ["park"], "lat": 52.6, "lon": 13.3},
]
GAUSSIAN = '[release]\nmechanism = "gaussian"\nsigma = 4.0\n'
KINDS: dict[str, tuple[str, list[dict[str, Any]]]] = {
    "raw": ('[release]\nmechanism = "raw"\n', PLACES),
    "gaussian": (GAUSSIAN, PLACES),
    "tiers": (
        '[release]\nmechanism = "tiered"\ntiers = { public = 0.2, partner = 1.0 }\n',
        PLACES,
    ),
    "correlated": ('[release]\nmechanism = "correlated"\ncovariance = "noise.npy"\n', PLACES),
    "windows": (GAUSSIAN, [{**PLACES[0], "window": 2}, PLACES[1]]),
    "crowd": (f"{GAUSSIAN}[crowd]\non = true\n", PLACES),
    "regions": (GAUSSIAN, [{**row, "region": row["name"][0]} for row in PLACES]),
    "budget": ('[release]\nmechanism = "budget"\n[release.budget]\nadded = 0.3\nshare = 0.5\n', PLACES),
}


def deployed(folder: Path, kind: str) -> list[str]:
    """The files of a deployment of this kind; returns the options of its run."""
    release, sensors = KINDS[kind]
    (folder / "priors.json").write_text(json.dumps(TWO_PEOPLE))
    (folder / "t.toml").write_text(SETTINGS + release)
    (folder / "sensors.json").write_text(json.dumps({"sensors": sensors}))
    np.save(folder / "noise.npy", np.eye(2) * 4.321 + 1.0)
    for name in ("noise.key", "people.key"):
        (folder / name).write_text(hex_key("ab"))
        (folder / name).chmod(PRIVATE_FILE)
    lines = []
    for step in range(STEPS):
        names = [str(row["name"]) for row in sensors if (step + 1) % int(row.get("window", 1)) == 0]
        lines.append({"v": 1, "type": "activation", "step": step, "sensors": names})
        lines += [
            {"v": 1, "type": "reading", "step": step, "sensor": name, "count": 5 + step} for name in names
        ]
    (folder / "day.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return ["--priors", "priors.json", "--input", "day.jsonl", "--output", "out", "--config", "t.toml"]


@pytest.fixture
def run_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, tallyguard: Tallyguard) -> Any:
    """Runs a kind of deployment in the current folder."""

    def run(kind: str) -> Path:
        monkeypatch.chdir(tmp_path)
        options = deployed(tmp_path, kind)
        result = tallyguard("run", *options)
        assert result.code == 0, result.err
        return tmp_path

    return run


@pytest.mark.slow
@pytest.mark.parametrize("kind", KINDS)
def test_every_reader_of_a_run_needs_its_folder_only(
    tallyguard: Tallyguard,
    run_of: Any,
    kind: str,
    tmp_path_factory: pytest.TempPathFactory,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Ledger, report, export and verify say the same without any other file as with all of them.

    But who the people are: the folder has the digest of their priors, not the priors.
    """
    home = run_of(kind)
    away = tmp_path_factory.mktemp("away") / home.name  # a report names the folder that a run is in
    away.mkdir()
    everything = ("--config", "t.toml", "--covariance", "noise.npy")
    known = ledger(tallyguard, "--priors", "priors.json", *everything)
    reported = report(tallyguard, home, *everything)
    explained = None
    if kind != "windows":  # whose report with priors is refused
        explained = report(tallyguard, home, *everything, "--priors", "priors.json")
    shutil.move(home / "out", away / "out")
    for name in ("priors.json", "people.key"):
        shutil.copy(home / name, away / name)
    shutil.rmtree(home)
    home.mkdir()
    monkeypatch.chdir(away)
    assert ledger(tallyguard, "--priors", "priors.json") == known
    assert known["reconstruction"]["people"] == 2
    assert ledger(tallyguard) == known
    (copy,) = Path("out").glob("priors-*.parquet")
    assert ledger(tallyguard, "--priors", copy) == known
    assert report(tallyguard, away) == reported
    assert report(tallyguard, away, "--priors", copy) == reported
    copy.rename("lost.parquet")
    refused = ledger(tallyguard)
    assert refused.pop("reconstruction")["refused"].startswith("out must hold a copy of the priors")
    assert refused == {name: each for name, each in known.items() if name != "reconstruction"}
    assert "must hold a copy of the priors" in report(tallyguard, away)
    Path("lost.parquet").rename(copy)
    if explained is not None:
        assert report(tallyguard, away, "--priors", "priors.json") == explained
    export = tallyguard("export", "out", "--output", "open", "--format", "geojson", "--format", "csv")
    assert export.code == 0, export.err
    features = json.loads((away / "open" / "last-step.geojson").read_text())["features"]
    assert {tuple(each["geometry"]["coordinates"]) for each in features} == {(13.4, 52.5), (13.3, 52.6)}
    verified = tallyguard("verify", "out", "--json")
    assert verified.code == 0, verified.out
    assert verified.document["faults"] == []


def ledger(tallyguard: Tallyguard, *options: str) -> dict[str, Any]:
    result = tallyguard("ledger", "out", *options, "--json")
    assert result.code == 0, result.err
    return dict(result.document)


def report(tallyguard: Tallyguard, folder: Path, *options: str) -> str:
    """The page without the moment at which it was made."""
    return report_of(tallyguard, folder / "out", *options)


def report_of(tallyguard: Tallyguard, run: Path, *options: str) -> str:
    """The same of any folder."""
    page_file = run.parent / "r.html"
    result = tallyguard("report", str(run), *options, "--output", str(page_file))
    assert result.code == 0, result.err
    page = page_file.read_text()
    made = page.index("Made 2")
    return page[:made] + page[page.index(" UTC", made) :]


@pytest.mark.parametrize("kind", KINDS)
def test_the_described_sensors_are_those_of_the_file(run_of: Any, kind: str) -> None:
    """Locations, groups, regions, windows and places, in the file's order."""
    folder = run_of(kind)
    found = description_in(folder / "out")
    assert found is not None
    registry = load_registry(folder / "sensors.json", found.locations)
    assert found.registry().accounted_facts() == registry.accounted_facts()
    assert [each.position for each in found.registry().sensors] == [
        each.position for each in registry.sensors
    ]
    assert [each.counts for each in found.registry().sensors] == [each.counts for each in registry.sensors]


def test_a_description_has_no_secret_no_person_and_no_path(tallyguard: Tallyguard, run_of: Any) -> None:
    """What is for the machine, its network and its keys stays out, and of files there is only the name."""
    folder = run_of("correlated")
    entry, *_ = read_entries(folder / "out" / "record.jsonl")
    text = json.dumps(entry.about)
    people = [each["person"] for each in TWO_PEOPLE["people"]]  # type: ignore[attr-defined]
    for secret in (
        hex_key("ab"),
        PSEUDONYM_SECRET,
        str(folder),
        "token",
        "secret",
        "*",
        *map(json.dumps, people),
    ):
        assert secret not in text
    assert {"kafka", "connect", "listen", "log", "noise_key"}.isdisjoint(entry.about[DESCRIPTION]["settings"])
    assert entry.about[DESCRIPTION]["settings"]["pseudonym_key"] == "people.key"
    assert (folder / "out" / "record.jsonl").stat().st_mode & 0o777 == PRIVATE_FILE
    (design,) = entry.about[DESCRIPTION]["designs"]
    assert (folder / "out" / design_file(design)).stat().st_mode & 0o777 == PRIVATE_FILE


def test_other_sensors_than_the_run_had_are_refused_in_words(tallyguard: Tallyguard, run_of: Any) -> None:
    """Which sensor, what the run has, what was given: no digest."""
    folder = run_of("gaussian")
    for sensors, said in (
        (
            [{**PLACES[0], "locations": ["home"]}, PLACES[1]],
            "another place of sensor 'office': the run has work, not home",
        ),
        (
            [{**PLACES[0], "group": "rim"}, PLACES[1]],
            "another group of sensor 'office': the run has 'centre', not 'rim'",
        ),
        (PLACES[:1], "got none named 'green'"),
        ([*PLACES, {"name": "new", "locations": [0]}], "got sensor 'new', which the run has not"),
        (
            [{**PLACES[0], "counts": "passages", "most_counts": 3}, PLACES[1]],
            "another most_counts of sensor 'office'",
        ),
    ):
        (folder / "sensors.json").write_text(json.dumps({"sensors": sensors}))
        for command in ("ledger", "report"):
            result = tallyguard(command, "out", "--priors", "priors.json", "--config", "t.toml")
            assert result.code == 1
            assert said in result.err.replace("\n", " ")
    moved = [{**PLACES[0], "lat": 1.0}, PLACES[1]]
    (folder / "sensors.json").write_text(json.dumps({"sensors": moved}))
    assert tallyguard("ledger", "out", "--priors", "priors.json", "--config", "t.toml").code == 0
    assert (
        tallyguard("export", "out", "--output", "e", "--format", "geojson", "--sensors", "sensors.json").code
        == 0
    )
    features = json.loads((folder / "e" / "last-step.geojson").read_text())["features"]
    assert features[0]["geometry"]["coordinates"] == [13.4, 1.0]


def test_other_priors_are_refused_in_words(tallyguard: Tallyguard, run_of: Any) -> None:
    folder = run_of("gaussian")
    (folder / "one.json").write_text(json.dumps({**TWO_PEOPLE, "people": TWO_PEOPLE["people"][:1]}))
    result = tallyguard("ledger", "out", "--priors", "one.json")
    assert "priors must be those of the run, priors.json with 2 people, got others, of 1 person" in result.err


@pytest.mark.slow
def test_a_policy_given_beside_a_run_is_said_and_the_runs_own_counts(
    tallyguard: Tallyguard, run_of: Any, caplog: pytest.LogCaptureFixture
) -> None:
    folder = run_of("budget")
    own = report(tallyguard, folder, "--config", "t.toml")
    assert "counts, not the one given" not in caplog.text
    (folder / "t.toml").write_text((folder / "t.toml").read_text().replace("added = 0.3", "added = 0.9"))
    assert report(tallyguard, folder, "--config", "t.toml") == own
    assert "counts, not the one given: release.budget.added was 0.3, is 0.9" in caplog.text


@pytest.mark.slow
def test_evidence_is_found_by_its_name_next_to_the_folder_or_asked_for(
    tallyguard: Tallyguard, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its chains are those of the run, or the ledger is refused: never those of the priors in their place."""
    monkeypatch.chdir(tmp_path)
    options = deployed(tmp_path, "gaussian")
    people = load_population(tmp_path / "priors.json")
    start = np.concatenate(([0], np.cumsum([people.chain(each).start.size for each in range(len(people))])))
    save_evidence(Evidence(people.people, Lists(start, np.full(start[-1], 6.0))), tmp_path / "few.parquet")
    settings = 'evidence = "few.parquet"\nposterior_draws = 3\n' + (tmp_path / "t.toml").read_text()
    (tmp_path / "t.toml").write_text(settings)
    assert tallyguard("run", *options).code == 0
    known = ledger(tallyguard, "--priors", "priors.json", "--config", "t.toml")
    (tmp_path / "t.toml").unlink()
    assert ledger(tallyguard, "--priors", "priors.json") == known
    alone = ledger(tallyguard)
    assert "means over 3 chains" in known["note"]
    assert alone["note"] == known["note"]
    (tmp_path / "few.parquet").unlink()
    refused = tallyguard("ledger", "out", "--priors", "priors.json")
    assert refused.code == 1
    assert "put its evidence next to the folder of the run" in refused.err


DAY = messages_of_a_day(12, 8)


def half() -> bytes:
    return lines_of(message for message in DAY if message.step < 6)


def described(entries: tuple[Entry, ...]) -> list[tuple[int, Description]]:
    """From which step on each description holds."""
    found = ((each.step, each.about.get(DESCRIPTION)) for each in entries)
    return [(step, Description.read(stored)) for step, stored in found if stored is not None]


def test_each_period_keeps_its_description(tmp_path: Path) -> None:
    """Append-only: what held from which step on; a start as before adds nothing; verify says what differs."""
    folder = tmp_path / "out"
    run_on(folder, [half()])
    kept = (folder / "record.jsonl").read_bytes()
    run_on(folder, [half()])
    assert (folder / "record.jsonl").read_bytes() == kept
    run_on(folder, [lines_of(DAY)], settings={"grace": 3, "risk_every": 7})
    entries = read_entries(folder / "record.jsonl")
    assert (folder / "record.jsonl").read_bytes().startswith(kept)
    assert [(each.kind, each.step) for each in entries] == [
        ("begun", 0),
        ("ended", 6),
        ("described", 6),
        ("ended", 12),
    ]
    assert [(step, found.settings["grace"]) for step, found in described(entries)] == [(0, 2), (6, 3)]
    said = [[each.words for each in changes] for changes in changes_in(entries)]
    assert said == [[], [], ["grace 2 -> 3", "risk_every 5 -> 7"], []]
    assert check_run(folder).faults == ()


def test_a_changed_rule_says_in_words_what_changed(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """And with the same sensors and settings repeats no description."""
    folder = tmp_path / "out"
    run_on(folder, [half()], by="ada")
    noise = {"mechanism": "gaussian", "sigma": 1.0}
    run_on(folder, [lines_of(DAY)], settings={"release": noise}, accept_changes=True, by="bob", reason="less")
    entries = read_entries(folder / "record.jsonl")
    assert [DESCRIPTION in each.about for each in entries] == [True, False, False, False]
    result = tallyguard("verify", str(folder), "--json")
    changes = [each["changes"] for each in result.document["entries"]]
    assert {"kind": "setting", "words": "release.sigma 2.0 -> 1.0"} in changes[2]
    assert changes[:2] == [[], []]


def test_a_folder_without_a_description_goes_on_and_describes_itself_from_then(
    tmp_path: Path, tallyguard: Tallyguard, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As of an earlier version: readers need what they needed and say so; nothing before is rewritten."""
    folder = tmp_path / "out"
    with monkeypatch.context() as earlier:
        earlier.setattr(Description, "of", classmethod(lambda *_: _Nothing()))
        run_on(folder, [half()])
    assert description_in(folder) is None
    said = tallyguard("verify", str(folder))
    assert said.code == 0
    assert "--sensors" in said.out
    refused = tallyguard("ledger", str(folder))
    assert refused.code == 1
    assert "kept no description" in refused.err
    run_on(folder, [lines_of(DAY)])
    entries = read_entries(folder / "record.jsonl")
    assert [each.kind for each in entries] == ["begun", "ended", "described", "ended"]
    assert [step for step, _ in described(entries)] == [6]
    assert [each.words for each in changes_in(entries)[2]] == ["described for the first time"]
    assert tallyguard("ledger", str(folder)).code == 0


class _Nothing:
    """What an earlier version says of a run."""

    def document(self) -> None:
        return None


def test_a_kill_before_the_record_leaves_nothing_that_the_next_start_does_not_mend(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At each durable write of a start: covariance, entry, run.json. The same folder as without a kill."""
    np.save(tmp_path / "noise.npy", np.eye(2) * 4.0 + 1.0)
    release = {"mechanism": "correlated", "covariance": tmp_path / "noise.npy"}
    begin: dict[str, Any] = {"settings": {"release": release, "grace": 3}}
    whole = tmp_path / "whole"
    run_on(whole, [lines_of(DAY)], **begin)
    from stream_app.setup.run_folder import description, manifest, record

    class Killed(BaseException):
        """The process is gone."""

    def killed(*_: object) -> None:
        raise Killed

    for number, (module, name) in enumerate(
        ((description, "replace_file"), (record, "sync_folder"), (manifest, "replace_file"))
    ):
        folder = tmp_path / f"killed-{number}"
        with monkeypatch.context() as dying:
            dying.setattr(module, name, killed)
            with pytest.raises(Killed):
                run_on(folder, [lines_of(DAY)], **begin)
        run_on(folder, [lines_of(DAY)], **begin)
        assert check_run(folder).faults == ()
        for file in whole.iterdir():
            if file.name not in ("lock", "progress.jsonl", "progress.json", "record.jsonl"):
                assert (folder / file.name).read_bytes() == file.read_bytes(), file.name
        own, other = (_without_times(read_entries(each / "record.jsonl")) for each in (folder, whole))
        assert own == other


def _without_times(entries: tuple[Entry, ...]) -> list[dict[str, Any]]:
    return [each.model_dump(exclude={"at", "previous", "sha256"}) for each in entries]


def test_a_covariance_that_is_gone_or_another_is_named(run_of: Any, tallyguard: Tallyguard) -> None:
    folder = run_of("correlated")
    (path,) = (folder / "out").glob("design-*.npy")
    kept = path.read_bytes()
    np.save(path, np.eye(2) * 9.0)
    assert any("is not the covariance" in each for each in check_run(folder / "out").faults)
    path.unlink()
    assert any(f"{path.name} is missing" in each for each in check_run(folder / "out").faults)
    assert tallyguard("verify", "out").code == 1
    path.write_bytes(kept)
    assert check_run(folder / "out").faults == ()
    assert path.name == design_file(CorrelatedNoise.load(folder / "noise.npy").design)


def test_sensors_that_change_while_a_run_starts_are_refused(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"sensors": [{"name": "other", "locations": ["A"]}]}))
    with pytest.raises(Exception, match="must stay as it is while a run starts"):
        Description.of(settings(sensors=tmp_path / "s.json"), SensorRegistry.one_per_location(NAMES))


def test_a_description_of_another_version_is_refused_not_guessed(tmp_path: Path) -> None:
    described = Description.of(settings(), SensorRegistry.one_per_location(NAMES)).document()
    assert Description.read(described).locations == NAMES
    for change in ({"v": "2"}, {"more": 1}, {"locations": [1]}):
        with pytest.raises(OutputError, match="must be one of this version"):
            Description.read({**described, **change})


# What is shown of the record: nothing that depends on a count which was not published.


def _ended_with(folder: Path, guess: int, **options: object) -> Path:
    """A run whose sender says another count of what was counted before, and says it again in a second run."""
    lines = [activation(0, *NAMES).line(), reading(0, "A", 5).line(), reading(0, "A", guess).line()]
    more = [activation(step, *NAMES).line() for step in range(1, 6)]
    run_on(folder, [*lines, *more], **options)
    run_on(folder, [*lines, *more, reading(5, "A", guess).line(), reading(5, "A", 5).line()], **options)
    return folder


@pytest.mark.slow
@pytest.mark.parametrize("release", [{"mechanism": "raw"}, {"mechanism": "tiered", "tiers": {"public": 0.2}}])
def test_the_digest_that_is_shown_does_not_depend_on_refused_counts(
    tmp_path: Path, tallyguard: Tallyguard, release: dict[str, Any]
) -> None:
    """A sender who guessed somebody else's count right, or wrong, sees the same report and digest."""
    pages, heads, records = [], [], []
    for guess in (5, 6):
        folder = _ended_with(
            tmp_path / str(guess) / "same" / "out", guess, settings={"release": release, "sharpen": False}
        )
        shown = tallyguard("verify", str(folder), "--json").document
        heads.append(shown["head"])
        pages.append(report_of(tallyguard, folder))
        records.append(_without_times(read_entries(folder / "record.jsonl")))
    assert records[0] != records[1]
    assert heads[0] == heads[1]
    assert pages[0] == pages[1]
    assert heads[0] in pages[0]


def test_a_digest_that_was_shown_is_found_again_and_no_other(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """Also one of an earlier version, which showed the entry's own; a changed entry has another."""
    folder = tmp_path / "out"
    run_on(folder, [half()])
    first = check_run(folder).head
    run_on(folder, [lines_of(DAY)])
    entries = read_entries(folder / "record.jsonl")
    assert first is not None
    for digest in (first, first[:12], entries[0].sha256):
        assert tallyguard("verify", str(folder), "--head", digest).code == 0
    for other in ("0" * 64, "", first[:7]):  # an empty variable of a script, or what fits by chance
        assert tallyguard("verify", str(folder), "--head", other).code == 1
    changed = [entries[0].model_copy(update={"by": "somebody"}), *entries[1:]]
    assert not set(shown_digests(changed)) & set(shown_digests(entries))
    released = {**entries[-1].logs, "releases": (1, "other")}
    assert (
        shown_digests([*entries[:-1], entries[-1].model_copy(update={"logs": released})])[-1]
        != (shown_digests(entries)[-1])
    )


@pytest.mark.slow
def test_the_report_says_that_a_run_was_taken_over(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """From which step, and the reason that was given: run.json has it, and so has the record section."""
    from tests.watching.page_text import text_of_page

    folder = tmp_path / "out"
    run_on(folder, [lines_of(DAY)], settings={"sharpen": False})
    run = json.loads((folder / "run.json").read_text())
    assert "taken_over" not in run
    facts = {**run, "taken_over": [{"from_step": 12, "reason": "the backup was older"}]}
    from stream_app.setup.run_folder.record import Author, Record

    Record(folder, Author("ada", "the backup was older")).hold(12, facts)
    (folder / "run.json").write_text(json.dumps(facts))
    assert tallyguard("report", str(folder), "--output", str(tmp_path / "r.html")).code == 0
    text = text_of_page((tmp_path / "r.html").read_text())
    assert "From step 12 on the run went on by --take-over" in text
    assert "The reason given: the backup was older" in text
    assert len(json_lines(folder / "releases.jsonl")) == 12

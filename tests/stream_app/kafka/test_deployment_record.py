"""What every process of a deployment on Kafka must share: named where it differs, known by its digest."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from models.mechanisms import Raw
from models.releases import SensorRelease, StepSchedule
from stream_app.exceptions import RunChangedError, SettingsError
from stream_app.kafka.broker.clients import LogError
from stream_app.kafka.deployment import deployment as deployment_module
from stream_app.kafka.deployment.deployment import Deployment, DeploymentRecord, check_basis, check_same
from stream_app.kafka.tools.person_loading import load_people
from stream_app.kafka.workers import prepared
from stream_app.setup.combinations import Runner
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.run_folder.description import changes_in
from stream_app.setup.run_folder.manifest import check_reason
from stream_app.setup.run_folder.people_record import PeopleChange
from stream_app.setup.run_folder.record import Author, RecordDamagedError, check_head
from stream_app.setup.settings import Settings
from stream_app.wire.messages import decision_of
from tests.hex_keys import hex_key
from tests.stream_app.engine_support import population

SENSORS = [{"name": "s", "locations": ["A"]}, {"name": "t", "locations": ["B", "C"]}]

_GROUP = {"people": 9, "predicted": 0.1, "realised": 0.5, "low": 0.2, "high": 0.8, "verdict": "too low"}
_FOUND = {"people": 9, "steps": 5, "mistakes": 1, "everybody": _GROUP, "kappa_min": 0.1}
REFUTED = PriorsVerdict.model_validate({**_FOUND, "priors": "those", "verdict": "ceilings too low"})


def settings_in(folder: Path, **changed: Any) -> Settings:
    """Settings of a small deployment, and its files."""
    locations, sensors = changed.pop("locations", "ABC"), changed.pop("sensors", SENSORS)
    (folder / "locations.txt").write_text("\n".join(locations))
    (folder / "sensors.json").write_text(json.dumps({"sensors": sensors}))
    kafka = {"servers": ("nowhere:9092",), **changed.pop("kafka", {})}
    files = {"locations": folder / "locations.txt", "sensors": folder / "sensors.json"}
    return Settings.model_validate({**files, "kafka": kafka, **changed})


def deployment(folder: Path, **changed: Any) -> Deployment:
    return Deployment.of(settings_in(folder, **changed))


@pytest.mark.parametrize(
    ("changed", "named"),
    [
        ({"horizon": 7}, {"horizon"}),
        ({"mistakes": 2}, {"mistakes"}),
        ({"first_slot": 5}, {"first_slot"}),
        ({"thresholds": (0.2,)}, {"thresholds"}),
        ({"sharpen": False}, {"sharpen"}),
        ({"sharpen_operations": 10**6}, {"sharpen_operations"}),
        ({"sharpen_above": 0.3}, {"sharpen_above"}),
        ({"step_seconds": 60}, {"step_seconds"}),
        ({"deployment": "other"}, {"deployment"}),
        ({"kafka": {"partitions": 8}}, {"partitions"}),
        ({"sensors": SENSORS[:1]}, {"sensors"}),
        ({"locations": "ACB"}, {"locations", "sensors"}),
        ({"priors_check": REFUTED}, {"priors_check.kappa_min", "priors_check.priors"}),
    ],
)
def test_whatever_a_risk_depends_on_has_another_digest_and_is_refused_by_name(
    tmp_path: Path, changed: dict[str, Any], named: set[str]
) -> None:
    begun, other = deployment(tmp_path), deployment(tmp_path, **changed)
    assert begun.digest != other.digest
    stored = DeploymentRecord.model_validate_json(DeploymentRecord.of(begun.basis).model_dump_json())
    check_same(stored.basis, deployment(tmp_path).basis)
    with pytest.raises(RunChangedError) as refused:
        check_same(stored.basis, other.basis)
    parts = str(refused.value.got).split("; ")
    assert {part.split(" was ")[0] for part in parts} == named


def test_what_accounts_do_not_depend_on_may_differ(tmp_path: Path) -> None:
    more = {"risk_every": 7, "listen": "", "grace": 9, "release": {"mechanism": "raw"}}
    assert deployment(tmp_path).digest == deployment(tmp_path, **more).digest


def test_each_refutation_has_a_digest_of_its_own_and_a_check_that_refutes_nothing_has_none(
    tmp_path: Path,
) -> None:
    """Another radius raises other ceilings; other priors are other people's."""
    checks = [
        None,
        REFUTED,
        *(REFUTED.model_copy(update=each) for each in ({"kappa_min": 0.2}, {"priors": "b"})),
    ]
    found = [deployment(tmp_path, priors_check=check).digest for check in checks]
    assert len(set(found)) == len(checks)
    passed = REFUTED.model_copy(update={"verdict": "not refuted by 9 people"})
    assert deployment(tmp_path, priors_check=passed).digest == found[0]


def test_people_of_other_priors_than_were_checked_are_not_sent(tmp_path: Path) -> None:
    """Where they are loaded, as no worker sees them all; before any broker is asked."""
    with pytest.raises(SettingsError, match="priors_check must be of the priors that are used"):
        load_people(settings_in(tmp_path, priors_check=REFUTED), population(), 0)


def test_a_decision_of_another_deployment_is_not_accounted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Topic(monkeypatch)
    here = deployment(tmp_path)
    step = StepSchedule(3, (SensorRelease(here.registry.sensors[0], Raw()),))
    assert here.schedule_of(decision_of(step, None, here.digest)) == step
    assert here.schedule_of(decision_of(step)) == step  # logged by an earlier version
    other = deployment(tmp_path, horizon=7)
    with pytest.raises(LogError, match="step 3 of decisions must belong to deployment") as refused:
        here.schedule_of(decision_of(step, None, other.digest))
    assert "settings or sensors that its record does not have" in str(refused.value)
    assert not re.search("[0-9a-f]{64}", str(refused.value))


def test_the_log_may_go_on_with_other_policy_schedule_and_noise_key_only_where_that_is_said(
    tmp_path: Path,
) -> None:
    begun = json.loads(json.dumps(deployment(tmp_path).release_basis("key", "schedule")))
    check_basis(begun, deployment(tmp_path).release_basis("key", "schedule"), accept_changes=False)
    other = deployment(tmp_path, release={"mechanism": "raw"}).release_basis("another", "changed")
    with pytest.raises(
        RunChangedError, match=r'noise_key was .*; release.mechanism was "gaussian", is "raw"; schedule was'
    ):
        check_basis(begun, other, accept_changes=False)
    check_basis(begun, other, accept_changes=True)
    with pytest.raises(RunChangedError, match=r"must have a reason \(release, schedule\)"):
        check_reason(begun, other, Author("ada"))
    check_reason(begun, other, Author("ada", "raw counts are agreed on"))
    with pytest.raises(RunChangedError, match="horizon was 10, is 7"):
        check_basis(
            begun, deployment(tmp_path, horizon=7).release_basis("key", "schedule"), accept_changes=True
        )


def test_a_first_slot_and_tiers_that_the_schedule_alone_names_are_those_of_every_process(
    tmp_path: Path,
) -> None:
    """Accounts go by that slot, and each tier has a topic; two slots are refused."""
    schedule, tiers = tmp_path / "schedule.json", {"public": 0.2, "partner": 1.0}
    tiered = {"mechanism": "tiered", **{f"epsilon_{name}": epsilon for name, epsilon in tiers.items()}}
    steps = [{"sensors": ["s"], "mechanism": "raw"}, {"releases": [{"sensor": "t", **tiered}]}]
    schedule.write_text(json.dumps({"first_slot": 2, "steps": steps}))
    secret = hex_key("11")
    for regions in ({}, {"s": "n", "t": "w"}):
        rows = [{**each, "region": regions.get(each["name"])} for each in SENSORS] if regions else SENSORS
        settings = settings_in(tmp_path, noise_key_secret=secret, sensors=rows, kafka={"schedule": schedule})
        deciding = [Runner.COORDINATOR, Runner.INTAKE] if regions else [Runner.RELEASE]
        made = [prepared(each, settings).deployment for each in (*deciding, Runner.ACCOUNT)]
        assert {each.digest for each in made} == {
            deployment(tmp_path, first_slot=2, sensors=rows).digest  # as where every process is told
        }
        assert {each.horizon().first_slot for each in made} == {2}
        assert {each.topics.tiers for each in made} == {("public", "partner")}
    given = prepared(Runner.RELEASE, settings_in(tmp_path, noise_key_secret=secret), schedule)
    assert given.deployment.topics.tiers == ("public", "partner")
    other = settings_in(tmp_path, noise_key_secret=secret, first_slot=3)
    with pytest.raises(SettingsError, match="first_slot must be the same in settings and schedule"):
        prepared(Runner.RELEASE, other, schedule)


class _Topic:
    """The topic as a compacted list of keys and values, in memory."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.values: dict[bytes, bytes] = {}
        monkeypatch.setattr(deployment_module, "consuming", lambda _: nullcontext())
        monkeypatch.setattr(deployment_module, "writing", lambda _: nullcontext(self))
        monkeypatch.setattr(deployment_module, "records", lambda *_: list(self))

    def __iter__(self) -> Iterator[SimpleNamespace]:
        where = {"topic": "deployment", "partition": 0, "offset": 0}
        return (SimpleNamespace(key=key, value=value, **where) for key, value in self.values.items())

    def send(self, topic: str, value: bytes, *, key: bytes, partition: int) -> None:
        """Keep the last value of each key."""
        self.values[key] = value


MORE = [*SENSORS[1:], {"name": "u", "locations": ["A", "C"]}]


def held_from(step: int, known: Deployment) -> None:
    """As the release worker does before it decides a step: what it has is in the record from there on."""
    network = known.grown(accept_changes=True)
    facts = {**known.release_basis("key", None), **known.facts_of(network)}
    known.record.hold(step, facts, Author("ada", "a new counter"))
    assert known.join()


def test_an_account_worker_takes_new_sensors_from_the_record_when_a_decision_has_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps before are accounted with the sensors they had, and nothing has to be started again."""
    _Topic(monkeypatch)
    before = deployment(tmp_path)
    before.record.begin(before.basis)
    held_from(0, before)
    account = deployment(tmp_path)
    assert account.join()
    (s, t), digest = before.registry.sensors, before.digest
    old = StepSchedule(8, (SensorRelease(s, Raw()), SensorRelease(t, Raw())))
    assert account.schedule_of(decision_of(old, None, before.facts.digest_at(8))) == old
    after = deployment(tmp_path, sensors=MORE)
    assert after.join()
    held_from(9, after)
    assert (after.digest, after.facts.digest_at(8)) == (digest, digest), "people stay those of the deployment"
    new = StepSchedule(9, tuple(SensorRelease(each, Raw()) for each in after.registry.sensors))
    assert account.schedule_of(decision_of(new, None, after.facts.digest_at(9))) == new
    assert account.schedule_of(decision_of(old, None, digest)) == old
    (_, changed) = changes_in(after.record.entries())
    assert [each.words for each in changed] == ['sensor "s" removed', 'sensor "u" added at "A", "C"']
    with pytest.raises(LogError, match="step 9 of decisions must belong"):
        account.schedule_of(decision_of(replace(old, step=9), None, digest))
    killed = deployment(tmp_path, sensors=MORE)  # after it had written the record, and nothing else
    assert killed.join()
    killed.grown(accept_changes=False)
    held_from(9, killed)
    assert len(killed.record.entries()) == 2
    again = deployment(tmp_path)  # whose sensors file was left as it was
    assert again.join()
    assert again.schedule_of(decision_of(new, None, after.facts.digest_at(9))) == new


def test_sensors_that_were_not_accepted_are_refused_in_words(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _Topic(monkeypatch)
    before = deployment(tmp_path)
    before.record.begin(before.basis)
    held_from(0, before)
    after = deployment(tmp_path, sensors=MORE)
    assert after.join()
    with pytest.raises(RunChangedError, match=r'sensor "u" added at "A", "C"; put back .* --accept-changes$'):
        after.grown(accept_changes=False)
    moved = deployment(tmp_path, sensors=[{**SENSORS[0], "locations": ["B"]}, SENSORS[1]])
    assert moved.read_record() is not None
    for refused in (moved.join, lambda: moved.grown(accept_changes=True)):
        with pytest.raises(RunChangedError, match=r'sensor "s" must stay at "A", where it was'):
            refused()


@pytest.mark.parametrize("is_occupied", [False, True], ids=["count to occupied", "occupied to count"])
def test_a_sensor_goes_on_to_count_people_or_whether_anybody_is_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, is_occupied: bool
) -> None:
    """For workers and for whoever decides; what counts people is recorded as by earlier versions."""
    topic = _Topic(monkeypatch)
    rows = [SENSORS, [{**SENSORS[0], "counts": "occupied"}, SENSORS[1]]]
    before = deployment(tmp_path, sensors=rows[is_occupied])
    before.record.begin(before.basis)
    held_from(0, before)
    kept = json.loads(topic.values[b"record-0"])["facts"]["network"]["sensors"][0]
    assert kept.get("counts") == ("occupied" if is_occupied else None)
    assert deployment(tmp_path, sensors=rows[is_occupied]).join()
    after = deployment(tmp_path, sensors=rows[not is_occupied])
    assert after.digest != before.digest
    assert after.read_record() is not None
    for refused in (after.join, lambda: after.grown(accept_changes=True)):
        with pytest.raises(RunChangedError, match=r'sensor "s" must go on to count (people|whether)'):
            refused()


def test_sensors_of_several_regions_change_and_the_coordinator_knows_them_first(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Regions stay: each has a partition by its place among them."""
    _Topic(monkeypatch)
    rows = [{**each, "region": region} for each, region in zip(SENSORS, ("n", "w"), strict=True)]
    more = [{**rows[0], "name": "u"}, rows[1]]
    before = deployment(tmp_path, sensors=rows)
    before.record.begin(before.basis)
    held_from(0, before)
    after, running = deployment(tmp_path, sensors=more), deployment(tmp_path, sensors=rows)
    for each in (after, running):
        assert each.join()
    running.require_recorded()
    with pytest.raises(RunChangedError, match="1 that are not in the record, such as 'u'; start the coord"):
        after.require_recorded()
    held_from(7, after)
    after.require_recorded()
    step = StepSchedule(7, (SensorRelease(after.registry.sensors[0], Raw()),))
    assert running.schedule_of(decision_of(step, None, after.facts.digest_at(7))) == step
    running.require_recorded()  # as one that is started again with its file as it was
    for others in ([*more, {**rows[0], "name": "v", "region": "x"}], more[:1]):
        other = deployment(tmp_path, sensors=others)
        assert other.read_record() is not None
        with pytest.raises(RunChangedError, match=r"regions of a deployment must stay.*in each of n, w"):
            other.grown(accept_changes=True)


@pytest.mark.parametrize("had", [False, True], ids=["the first with a window", "one more"])
def test_sensors_with_windows_are_added_from_a_step_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, had: bool
) -> None:
    """How they are published is in the record: who has another sensors file ends with a sentence."""
    _Topic(monkeypatch)
    rows = [*SENSORS, *([{"name": "v", "locations": ["A"], "window": 2}] if had else [])]

    def with_new(first: int, sigma: float = 2.0) -> Deployment:
        new = {"name": "w", "locations": ["B"], "window": 2, "first_step": first}
        own = {"w": {"mechanism": "gaussian", "sigma": sigma}}
        return deployment(tmp_path, sensors=[*rows, new], release={"mechanism": "raw", "sensors": own})

    release = {"mechanism": "raw"}
    before = deployment(tmp_path, sensors=rows, release=release)
    before.record.begin(before.basis)
    held_from(0, before)
    account, stored = deployment(tmp_path, sensors=rows, release=release), before.release_basis("key", None)
    assert account.join()
    early = with_new(8)
    assert early.read_record() is not None
    with pytest.raises(RunChangedError, match=r'here 9 or later: "w", got first_step 8; give it'):
        early.check_continued(stored, early.release_basis("key", None), 9, 9, accept_changes=True)
    after = with_new(9)
    assert after.read_record() is not None
    after.check_continued(stored, after.release_basis("key", None), 9, 9, accept_changes=True)
    assert after.join(is_deciding=True)
    held_from(9, after)
    assert after.facts.digest_at(8) == before.facts.digest_at(8) == after.digest
    step = StepSchedule(9, (SensorRelease(after.registry.sensors[0], Raw()),))
    decision = decision_of(step, None, after.facts.digest_at(9))
    with pytest.raises(RunChangedError, match=r"know from its start which sensors count over windows.*'w'"):
        account.schedule_of(decision)
    again = with_new(9)
    assert again.join()
    assert again.schedule_of(decision) == step
    other = with_new(9, 3.0)
    assert other.read_record() is not None
    with pytest.raises(RunChangedError, match=r"windows\.w\.parameters\.sigma was 2.*is 3"):
        other.join()
    with pytest.raises(RunChangedError, match=r"windows\.w\.parameters\.sigma was 2.*is 3"):
        changed = other.release_basis("key", None)
        other.check_continued(after.release_basis("key", None), changed, 12, 12, accept_changes=True)


def test_an_account_worker_under_a_budget_begins_again_for_a_sensor_with_windows(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its questions look ahead in windows from its start, or not."""
    _Topic(monkeypatch)
    rule = {"release": {"mechanism": "budget", "budget": {"added": 0.2, "share": 0.2}}}
    new = {"name": "w", "locations": ["B"], "window": 2, "first_step": 9}
    before = deployment(tmp_path, **rule)
    before.record.begin(before.basis)
    held_from(0, before)
    account = deployment(tmp_path, **rule)
    assert account.join()
    after = deployment(tmp_path, sensors=[*SENSORS, new], **rule)
    assert after.join(is_deciding=True)
    held_from(9, after)
    step = decision_of(StepSchedule(9, (), windows=()), None, after.facts.digest_at(9))
    with pytest.raises(RunChangedError, match="must know from its start which sensors count over windows"):
        account.schedule_of(step)
    assert deployment(tmp_path, sensors=[*SENSORS, new], **rule).join()


CLOCK = {"timezone": "Europe/Berlin", "origin": "2026-06-01T00:00:00+02:00", "step_seconds": 3600}
FEW = {"evidence": Path("few.parquet"), "posterior_draws": 3}
LOOKED_AT: dict[str, tuple[dict[str, Any], dict[str, Any]]] = {
    "thresholds": ({}, {"thresholds": (0.2,)}),
    "sharpening": ({"sharpen_operations": 10**6}, {"sharpen_operations": 10**7, "sharpen_above": 0.4}),
    "sharpening, by default before": ({}, {"sharpen_operations": 10**6}),
    "holidays": (CLOCK, {**CLOCK, "holidays": ("2026-06-04",)}),
    "a check of the priors": ({}, {"priors_check": REFUTED}),
    "a crowd": ({}, {"crowd": {"on": True}}),
    "more chains": (FEW, {**FEW, "posterior_draws": 5}),
    "another crowd": ({"crowd": {"on": True}}, {"adversary": "crowd", "crowd": {"on": True, "known": 1}}),
}
NEEDS_REASON = {
    "a crowd": "adversary, crowd.alone",
    "another crowd": "adversary, crowd.known",
    "more chains": "draws",
}


@pytest.mark.parametrize("what", LOOKED_AT)
def test_sharpening_holidays_a_check_and_the_crowd_change_from_a_step_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """Whoever decides writes them to the record; all others end with a sentence until they have them."""
    _Topic(monkeypatch)
    was, now = LOOKED_AT[what]
    before = deployment(tmp_path, **was)
    before.record.begin(before.basis)
    held_from(0, before)
    account, stored = deployment(tmp_path, **was), before.release_basis("key", None)
    assert account.join()
    after, is_day, is_check = deployment(tmp_path, **now), what == "holidays", "check" in what
    assert after.read_record() is not None
    basis = after.release_basis("key", None)
    with pytest.raises(RunChangedError, match=r"that its record has by now.* (was|were) "):
        after.join()
    changed = r"holidays must stay.*2026-06-04 was none" if is_day else "must be continued with the settings"
    with nullcontext() if is_check else pytest.raises(RunChangedError, match=changed):
        after.check_continued(stored, basis, 80 if is_day else 9, 9, accept_changes=False)
    with pytest.raises(RunChangedError, match=NEEDS_REASON[what]) if what in NEEDS_REASON else nullcontext():
        check_reason(stored, basis, Author("ada"))
    assert after.looks_otherwise
    after.check_continued(stored, basis, 9, 9, accept_changes=not is_day and not is_check)
    assert after.join(is_deciding=True)
    held_from(9, after)
    assert not after.looks_otherwise
    assert after.facts.digest_at(8) == before.facts.digest_at(8) == after.digest
    assert after.facts.digest_at(9) not in (after.digest, None)
    step = StepSchedule(9, (SensorRelease(after.registry.sensors[0], Raw()),))
    with pytest.raises(RunChangedError, match="set those in the record"):
        account.schedule_of(decision_of(step, None, after.facts.digest_at(9)))
    again = deployment(tmp_path, **now)
    assert again.join()
    assert again.schedule_of(decision_of(step, None, after.facts.digest_at(9))) == step
    old = deployment(tmp_path, **was)  # of a worker that was killed once the record was written
    assert old.read_record() is not None
    with pytest.raises(RunChangedError):
        old.check_continued(stored, stored, 9, 100, accept_changes=False)
    if is_check:  # ceilings would fall
        with pytest.raises(RunChangedError, match=r"must have a reason \(priors_check.kappa_min\)"):
            check_reason(basis, stored, Author("ada"))
    (_, said) = changes_in(after.record.entries())
    assert said
    assert all(each.kind == "setting" for each in said)


def test_a_crowd_knows_that_people_got_new_priors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was there then knows whom the last step counted on; others reveal everybody."""
    _Topic(monkeypatch)
    known = deployment(tmp_path)
    for rule in (None, "redone", "told"):
        assert deployment(tmp_path, crowd={"on": True}).has_renewed_in_crowd() == (rule == "told")
        assert not known.has_renewed_in_crowd()
        about = {
            "people": PeopleChange(added=3, renewed=0 if rule is None else 2, rule=rule)._asdict(),
            "priors_file": None,
        }
        known.record.note_people(4, Author("ada", "moved"), about)


def test_further_places_end_a_worker_that_does_not_know_them_with_a_sentence(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Started again it takes them from the record, whatever its own file says."""
    _Topic(monkeypatch)
    before = deployment(tmp_path)
    before.record.begin(before.basis)
    held_from(0, before)
    account = deployment(tmp_path)
    assert account.join()
    after = deployment(tmp_path, locations="ABCD")
    assert after.join()
    held_from(4, after)
    step = StepSchedule(4, (SensorRelease(after.registry.sensors[0], Raw()),))
    decision = decision_of(step, None, after.facts.digest_at(4))
    with pytest.raises(RunChangedError, match=r"4 places in the record from step 4 on.*start it again"):
        account.schedule_of(decision)
    again = deployment(tmp_path)
    assert again.join()
    assert again.location_names == ("A", "B", "C", "D")
    assert again.schedule_of(decision) == step


def test_a_deployment_whose_record_names_no_sensors_keeps_those_it_began_with(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one of an earlier version: first it is started with what it had, then it may grow."""
    _Topic(monkeypatch)
    before = deployment(tmp_path)
    before.record.begin(before.basis)
    before.record.hold(0, before.release_basis("key", None), Author("ada"))
    with pytest.raises(RunChangedError, match="sensors was another one"):
        deployment(tmp_path, sensors=MORE).join()
    again = deployment(tmp_path)
    assert again.join()
    held_from(5, again)
    assert deployment(tmp_path, sensors=MORE).join()


def test_a_rule_changed_on_kafka_is_in_the_record_with_step_name_and_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Beside what the deployment began with; compaction keeps all, and what is lost or changed is noticed."""
    topic, record = _Topic(monkeypatch), deployment(tmp_path).record
    topic.values[b"accounts"] = b"{}"
    before = deployment(tmp_path).release_basis("key", None)
    head = record.hold(0, before, Author("ada"))
    assert record.hold(9, before, Author("bob")) == head, "as it was: nothing to note"
    after = deployment(tmp_path, release={"mechanism": "raw"}).release_basis("key", None)
    head = record.hold(12, after, Author("bob", "agreed on"))
    found = record.entries()
    assert [(each.kind, each.step, each.by, each.reason) for each in found] == [
        ("begun", 0, "ada", None),
        ("changed", 12, "bob", "agreed on"),
    ]
    assert found[1].facts["release"]["mechanism"] == "raw"
    kept = topic.values.pop(b"record-1")
    with pytest.raises(RecordDamagedError, match="must hold the 2 entries"):
        check_head(record.entries(), head, record.record_name)
    topic.values[b"record-1"] = kept.replace(b"agreed on", b"ordered")
    with pytest.raises(RecordDamagedError, match="entry 1 of the record in topic"):
        record.entries()


@pytest.mark.parametrize(
    "changed",
    [
        {
            "horizon": 7,
            "mistakes": 2,
            "thresholds": (0.2, 0.4),
            "step_seconds": 60,
            "sharpen_operations": 10**6,
            "risk_every": 7,
            "attack_draws": 0,
        },
        {"adversary": "crowd", "crowd": {"known": 3}, "kafka": {"partitions": 8}},
        {
            "release": {"mechanism": "tiered", "tiers": {"public": 0.2, "partner": 1.0}},
            "origin": 1_767_225_600,
        },
        {"sensors": [{**row, "region": row["name"]} for row in SENSORS], "late": 2},
    ],
    ids=["accounts", "crowd", "tiers", "regions"],
)
def test_the_record_describes_the_deployment_to_a_reader_that_knows_the_broker_only(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    """The same basis and digest, sensors, topics and tiers; who says otherwise is refused in words."""
    _Topic(monkeypatch)
    whole = deployment(tmp_path, **changed)
    whole.record.hold(0, whole.release_basis("key", None), Author("ada"), whole.description)
    for path in (tmp_path / "locations.txt", tmp_path / "sensors.json"):
        path.unlink()
    broker = {"servers": ("nowhere:9092",)}
    found = Deployment.recorded(Settings.model_validate({"kafka": broker}))
    assert found.basis == whole.basis
    assert found.digest == whole.digest
    assert found.vocabulary.accounted_facts() == whole.vocabulary.accounted_facts()
    assert found.topics.regions == whole.topics.regions
    assert found.topics.tiers == whole.topics.tiers
    assert found.topics.partitions == whole.topics.partitions
    assert found.horizon() == whole.horizon()
    for name in ("risk_every", "attack_draws", "most_exposed", "origin"):
        assert getattr(found.settings, name) == getattr(whole.settings, name)
    assert found.settings.has_crowd == whole.settings.has_crowd
    other = Deployment.recorded(Settings.model_validate({"kafka": broker, "horizon": 9}))
    with pytest.raises(RunChangedError, match=r"horizon was .*, is 9"):
        check_same(whole.basis, other.basis)
    (tmp_path / "sensors.json").write_text(json.dumps({"sensors": SENSORS[:1]}))
    with pytest.raises(RunChangedError, match="none named 't'"):
        Deployment.recorded(Settings.model_validate({"kafka": broker, "sensors": tmp_path / "sensors.json"}))


@pytest.mark.slow
def test_a_description_on_kafka_holds_no_secret_and_one_that_is_too_large_is_left_out(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    topic = _Topic(monkeypatch)
    small = deployment(tmp_path, noise_key_secret=hex_key("11"), page_token="a token of many letters")
    small.record.hold(0, small.release_basis("key", None), Author("ada"), small.description)
    text = b"".join(topic.values.values()).decode()
    for secret in (hex_key("11"), "a token", "nowhere:9092", str(tmp_path)):
        assert secret not in text
    many = [{"name": f"sensor {number} {'x' * 60}", "locations": ["A"]} for number in range(12_000)]
    large = deployment(tmp_path, sensors=many)
    topic.values.clear()
    large.record.hold(0, large.release_basis("key", None), Author("ada"), large.description)
    assert "they are not in it" in caplog.text
    (entry,) = large.record.entries()
    assert entry.about == {}
    with pytest.raises(SettingsError, match="locations must name a file"):
        Deployment.recorded(Settings.model_validate({"kafka": {"servers": ("nowhere:9092",)}}))

"""A run whose people come, leave and get new priors: accounts of the whole log, and what is refused."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import count, pairwise
from pathlib import Path

import numpy as np
import pytest

from accounting.continuous import ContinuousAccountant
from accounting.settings import HorizonSettings
from models.exceptions import PriorFileError
from models.keys import Pseudonymiser
from models.prior_files import load_population, save_population
from models.priors import NOT_SAID, MovementPrior, Population
from stream_app.analysis.accounted_again import read_decisions
from stream_app.analysis.checked_run import check_run
from stream_app.analysis.report import read_run
from stream_app.analysis.report.lowering import load_priors, lowering
from stream_app.embedded import RunOptions, RunReport, run
from stream_app.exceptions import OutputError, RunChangedError, SettingsError
from stream_app.kafka.account.partition_accounts import PartitionAccounts
from stream_app.kafka.deployment.records import person_records
from stream_app.setup.run_folder.durable import AppendFile
from stream_app.setup.run_folder.people_record import (
    NewPriors,
    as_accounted,
    digest_of,
    first_step,
    kept_file,
)
from stream_app.setup.run_folder.progress import parsed_lines
from stream_app.steps import JsonlRisks
from stream_app.steps.policy import Decided
from stream_app.wire import StepDecision
from tests.stream_app.command_line import Tallyguard
from tests.stream_app.engine_support import (
    NAMES,
    PSEUDONYM_SECRET,
    REGISTRY,
    TickingClock,
    activation,
    json_lines,
    lines_of,
    messages_of_a_day,
    outputs_of,
    population,
    reading,
    settings,
)
from tests.stream_app.kafka.deployments import deployment_in, parsed

pytestmark = pytest.mark.slow
ALL_THE_WORK = pytest.mark.usefixtures("all_the_work")
"""For what is held against accounts without a limit of work."""

STEPS, CHANGE = 24, 12
ACCEPTED = {"accept_changes": True, "by": "the operator", "reason": "a survey"}


def people(*numbers: int, renewed: Sequence[int] = (), since: dict[int, int] | None = None) -> Population:
    """Some of a dozen people; those ``renewed`` have other moves than in the file before."""
    everybody = population(12)
    some = [everybody.prior(number) for number in numbers]
    random = np.random.default_rng(11)
    others = {n: random.dirichlet(np.ones(len(NAMES)), size=len(NAMES)) for n in renewed}
    priors = [
        MovementPrior.from_dense(prior.person, others[n]) if n in others else prior
        for n, prior in zip(numbers, some, strict=True)
    ]
    packed = Population.pack(priors, NAMES)
    if since is None:
        return packed
    return replace(
        packed, effective_from=np.array([since.get(number, NOT_SAID) for number in numbers], dtype=np.int64)
    )


def day(first: int, last: int) -> bytes:
    return lines_of([m for m in messages_of_a_day(STEPS, 5) if first <= m.step < last])


def run_with(
    folder: Path,
    population: Population,
    data: bytes,
    options: dict[str, object] | None = None,
    **changed: object,
) -> RunReport:
    """One run on these bytes with these people."""
    given = {"horizon": 4, "risk_every": 1, "attack_draws": 64, **changed}
    wanted = RunOptions(folder, **(options or {}))  # type: ignore[arg-type]
    return run(settings(**given), wanted, population, clock=TickingClock(), chunks=[data])


def begun(folder: Path, who: Population, **changed: object) -> dict[str, bytes]:
    """A run of the first steps with these people."""
    run_with(folder, who, day(0, CHANGE), **changed)
    return outputs_of(folder)


def risks(folder: Path) -> dict[int, dict[str, float]]:
    """Each person's risk by step, as the run wrote it."""
    found: dict[int, dict[str, float]] = {}
    for line in json_lines(folder / "risks.jsonl"):
        if line["type"] == "risk":
            found.setdefault(line["step"], {})[line["person"]] = line["risk"]  # type: ignore[call-overload,index]
    return found


def accounted(
    folder: Path, who: Population, steps: int, since: Sequence[int] | None = None
) -> dict[str, float]:
    """What a fresh accountant says of these people after the first steps of the run's log."""
    effective = None if since is None else np.array(since, dtype=np.int64)
    fresh = ContinuousAccountant(who, HorizonSettings(4, 1), effective)
    fresh.apply_all(read_decisions(folder / "decisions.jsonl", REGISTRY)[:steps])
    return dict(zip(pseudonyms(who), fresh.risk().tolist(), strict=True))


def pseudonyms(who: Population) -> list[str]:
    return list(Pseudonymiser.parse(PSEUDONYM_SECRET).pseudonyms(who.people))


def copy_of(folder: Path, who: Population) -> Path:
    """Where a run keeps these people, accounted from the first step on."""
    return kept_file(folder, digest_of(who.renamed(pseudonyms(who))))


@ALL_THE_WORK
def test_people_come_and_leave_from_the_next_step_on_and_the_past_stays(tmp_path: Path) -> None:
    """Who came is accounted over the whole log, who left is in nothing from then on, no past line changes."""
    before, after = people(0, 1, 2, 3), people(0, 2, 3, 4, 5)
    past = begun(tmp_path, before)
    run_with(tmp_path, after, day(CHANGE, STEPS), ACCEPTED)
    for name, content in past.items():
        assert outputs_of(tmp_path)[name].startswith(content)
    written = risks(tmp_path)
    assert all(written[step].keys() == set(pseudonyms(before)) for step in range(CHANGE))
    for step in (CHANGE, STEPS - 1):
        assert written[step] == accounted(tmp_path, after, step + 1)


@ALL_THE_WORK
def test_new_people_count_from_the_step_that_the_priors_or_the_option_say(tmp_path: Path) -> None:
    """The priors' own step comes first, then the option; without either the whole log counts."""
    begun(tmp_path, people(0, 1))
    after = people(0, 1, 4, 5, since={4: 9})
    run_with(tmp_path, after, day(CHANGE, STEPS), {**ACCEPTED, "effective_from": 11})
    assert risks(tmp_path)[CHANGE] == accounted(tmp_path, after, CHANGE + 1, [0, 0, 9, 11])


@ALL_THE_WORK
def test_who_is_known_is_never_accounted_from_a_later_step(tmp_path: Path) -> None:
    """The trap of people who were here and are accounted from the change on; who comes back has all of it."""
    begun(tmp_path, people(0, 1, 2))
    later = people(0, 1, 2, since={0: 8, 1: 8, 2: 8})
    run_with(tmp_path, later, day(CHANGE, 16))  # no change: nobody is accounted from a later step
    run_with(tmp_path, people(0, 1), day(16, 20), ACCEPTED)
    back = people(0, 1, 2, since={2: 19})
    run_with(tmp_path, back, day(20, STEPS), ACCEPTED)
    found = risks(tmp_path)[STEPS - 1]
    assert found == accounted(tmp_path, back, STEPS)
    assert found != accounted(tmp_path, back, STEPS, [0, 0, 19])


@ALL_THE_WORK
def test_an_earlier_first_step_is_a_change_that_is_accepted(tmp_path: Path) -> None:
    begun(tmp_path, people(0, 1, since={1: 6}))
    earlier = people(0, 1, since={1: 2})
    with pytest.raises(RunChangedError, match="1 person there from an earlier step on"):
        run_with(tmp_path, earlier, day(CHANGE, STEPS))
    run_with(tmp_path, earlier, day(CHANGE, STEPS), ACCEPTED)
    assert risks(tmp_path)[STEPS - 1] == accounted(tmp_path, earlier, STEPS, [0, 2])


def test_first_steps_are_those_of_kafka() -> None:
    known = {"a": 0, "b": 7, "gone": None}
    assert [first_step(known, who, None) for who in ("a", "b", "gone", "new")] == [0, 7, 0, 0]
    assert [first_step(known, who, 5) for who in ("a", "b", "gone", "new")] == [0, 5, 0, 5]


@ALL_THE_WORK
def test_new_priors_are_redone_over_the_whole_log(tmp_path: Path) -> None:
    """From the change on the figures are those of somebody who had these priors from the first step on."""
    past = begun(tmp_path, people(0, 1, 2))
    after = people(0, 1, 2, renewed=[1])
    run_with(tmp_path, after, day(CHANGE, STEPS), {**ACCEPTED, "new_priors": NewPriors.REDONE})
    assert outputs_of(tmp_path)["risks.jsonl"].startswith(past["risks.jsonl"])
    for step in (CHANGE, STEPS - 1):
        assert risks(tmp_path)[step] == accounted(tmp_path, after, step + 1)


def test_what_new_priors_mean_must_be_said(tmp_path: Path) -> None:
    """There is no choice that holds in every case, so there is no default."""
    begun(tmp_path, people(0, 1))
    with pytest.raises(RunChangedError) as refused:
        run_with(tmp_path, people(0, 1, renewed=[0, 1]), day(CHANGE, STEPS), ACCEPTED)
    assert "2 people with new priors" in str(refused.value) and "--new-priors redone" in str(refused.value)


@pytest.mark.parametrize("options", [{}, {"accept_changes": True}])
def test_a_change_that_is_not_accepted_is_refused_in_words(
    tmp_path: Path, options: dict[str, object]
) -> None:
    """In numbers of people, without a digest, and the folder stays as it was."""
    past = begun(tmp_path, people(0, 1, 2))
    files = sorted(path.name for path in tmp_path.iterdir())
    with pytest.raises(RunChangedError) as refused:
        run_with(tmp_path, people(1, 2, 3, 4), day(CHANGE, STEPS), options)
    said = str(refused.value)
    assert "2 people added, 1 removed" in said
    assert people(0, 1, 2).fingerprint[:8] not in said and "--reason" in said
    assert outputs_of(tmp_path) == past and sorted(path.name for path in tmp_path.iterdir()) == files


def test_the_record_and_verify_say_which_priors_held_for_which_steps(tmp_path: Path) -> None:
    run_with(tmp_path, people(0, 1, 2), day(0, CHANGE), {"priors": "survey-2026.parquet"})
    changed = {**ACCEPTED, "priors": "survey-2027.parquet", "new_priors": NewPriors.REDONE}
    report = run_with(tmp_path, people(0, 2, 4, 5, renewed=[2]), day(CHANGE, STEPS), changed)
    words = "2 people added, 1 removed, 1 with new priors (redone) from step 12 on (survey-2027.parquet)"
    assert report.note is not None and words in report.note
    checked = check_run(tmp_path)
    assert checked.is_whole, checked.faults
    assert checked.priors() == (
        "steps 0 to 11: priors of 3 people (survey-2026.parquet)",
        f"steps 12 to {STEPS - 1}: priors of 4 people (survey-2027.parquet)",
    )
    (entry,) = [each for each in checked.entries if each.kind == "changed"]
    assert (entry.step, entry.by, entry.reason) == (CHANGE, "the operator", "a survey")
    for each in (people(0, 1, 2), people(0, 2, 4, 5, renewed=[2])):
        path = copy_of(tmp_path, each)
        assert path.stat().st_mode & 0o777 == 0o600
        path.rename(path.with_suffix(".away"))
        assert [fault for fault in check_run(tmp_path).faults if path.name in fault]
        path.with_suffix(".away").rename(path)


@ALL_THE_WORK
def test_the_first_start_after_a_change_and_every_other_go_on_with_the_same_people(tmp_path: Path) -> None:
    """A restart with the same command, and one without the options, change nothing."""
    begun(tmp_path, people(0, 1))
    after, options = people(0, 1, 4), {**ACCEPTED, "effective_from": 7}
    run_with(tmp_path, after, day(CHANGE, 16), options)
    run_with(tmp_path, after, day(16, 20), options)
    run_with(tmp_path, after, day(20, STEPS))
    assert risks(tmp_path)[STEPS - 1] == accounted(tmp_path, after, STEPS, [0, 0, 7])
    assert [each.kind for each in check_run(tmp_path).entries].count("changed") == 1


def test_without_a_snapshot_the_same_bytes_follow(tmp_path: Path) -> None:
    """A start replays the log with the people of now."""
    for name in ("with", "without"):
        begun(tmp_path / name, people(0, 1, 2))
        options = {**ACCEPTED, "new_priors": NewPriors.REDONE, "effective_from": 4}
        after = people(0, 2, 5, renewed=[2])
        run_with(tmp_path / name, after, day(CHANGE, 18), options)
        if name == "without":
            (tmp_path / name / "accountant.snapshot").unlink(missing_ok=True)
        run_with(tmp_path / name, after, day(18, STEPS))
    assert outputs_of(tmp_path / "with") == outputs_of(tmp_path / "without")


def test_a_budget_protects_the_people_who_are_there_now(tmp_path: Path) -> None:
    """Its next decisions are about whoever came; the run with them from the start has the same accounts."""
    budget = {"release": {"mechanism": "budget", "budget": {"share": 0.0, "added": 0.3, "hindsight": True}}}
    begun(tmp_path, people(0, 1), **budget)
    after = people(0, 1, 4, 5, 6)
    run_with(tmp_path, after, day(CHANGE, STEPS), ACCEPTED, **budget)
    assert risks(tmp_path)[STEPS - 1].keys() == set(pseudonyms(after))
    decided = [json.loads(line)["why"]["allowed"] for line in (tmp_path / "decisions.jsonl").open()]
    assert len(decided) == STEPS


def test_steps_that_a_kill_left_unaccounted_come_first(tmp_path: Path) -> None:
    """Their risk lines are not written under priors that did not hold."""
    begun(tmp_path, people(0, 1))
    (tmp_path / "progress.json").unlink()
    (tmp_path / "progress.jsonl").unlink(missing_ok=True)
    with pytest.raises(RunChangedError, match="12 that are not"):
        run_with(tmp_path, people(0, 1, 2), day(CHANGE, STEPS), ACCEPTED)


@ALL_THE_WORK
def test_a_folder_without_the_earlier_priors_is_continued_and_then_changed(tmp_path: Path) -> None:
    """As an earlier version left it: the refusal says what to do, and doing it works."""
    begun(tmp_path, people(0, 1))
    copy_of(tmp_path, people(0, 1)).unlink()
    with pytest.raises(OutputError, match="start the run once more with the priors it had"):
        run_with(tmp_path, people(0, 1, 2), day(CHANGE, STEPS), ACCEPTED)
    run_with(tmp_path, people(0, 1), day(CHANGE, 16))
    run_with(tmp_path, people(0, 1, 2), day(16, STEPS), ACCEPTED)
    assert risks(tmp_path)[STEPS - 1] == accounted(tmp_path, people(0, 1, 2), STEPS)


@pytest.mark.parametrize("kept_seconds", [0, 1e-9])
@pytest.mark.parametrize(("renewed", "is_everybody"), [([3, 4], False), (range(1, 10), True), ([], False)])
def test_in_a_crowd_whoever_is_renewed_hides_nobody_at_that_step(
    tmp_path: Path, kept_seconds: float, renewed: Sequence[int], is_everybody: bool
) -> None:
    """They may have been free in the last one under the prior that they had; from the next step on they hide
    again, as everybody else always does. A run that is stopped there, with and without a snapshot, writes the
    same, and a partition on Kafka whose people change at that step answers and says the same.
    """
    crowd = {"adversary": "crowd", "release": {"mechanism": "raw"}, "snapshot_seconds": kept_seconds}
    before = people(*range(10))
    later = people(*range(1, 12), renewed=renewed, since={10: CHANGE, 11: CHANGE})
    again = people(*range(1, 12), renewed={5, *renewed}, since={10: CHANGE, 11: CHANGE})
    accepted = {**ACCEPTED, "new_priors": NewPriors.REDONE}
    second = CHANGE + 6

    def hours(first: int, last: int) -> bytes:
        """Counts of two of four places: where all are counted nobody hides, and all begin anew together."""
        return lines_of(
            each
            for step in range(first, last)
            for each in (activation(step, "A", "B"), reading(step, "A", step), reading(step, "B", 3))
        )

    for name, cuts in (("whole", (CHANGE, second, STEPS)), ("cut", (CHANGE, CHANGE + 1, second, 19, STEPS))):
        run_with(tmp_path / name, before, hours(0, CHANGE), **crowd)
        for first, until in pairwise(cuts):
            who = later if first < second else again
            run_with(
                tmp_path / name,
                who,
                hours(first, until),
                accepted if first in {CHANGE, second} else None,
                **crowd,
            )
    assert outputs_of(tmp_path / "whole") == outputs_of(tmp_path / "cut")
    decisions = list(parsed_lines(StepDecision, tmp_path / "whole" / "decisions.jsonl"))
    hidden = [sum(each.crowd[0] for each in step.decisions if each.crowd) for step in decisions]
    assert sum(hidden[:CHANGE]) > 0
    assert len(decisions[CHANGE].decisions) > 0
    assert (hidden[CHANGE] == 0) == is_everybody
    assert sum(hidden[CHANGE + 1 :]) > 0

    lines = [
        line
        for line in (tmp_path / "whole" / "risks.jsonl").read_bytes().splitlines()
        if b'"type":"risk"' in line
    ]
    log = [Decided.logged(step, REGISTRY, has_crowd=True) for step in decisions]
    given = settings(horizon=4, risk_every=1, attack_draws=64, **crowd).model_dump(exclude_unset=True)
    partition = PartitionAccounts(0, deployment_in(tmp_path, NAMES, **given))
    known: dict[str, bytes] = {}
    changes: dict[int, tuple[Population, Sequence[str]]] = {
        0: (before, ()),
        CHANGE: (later, pseudonyms(people(0))),
        second: (again, ()),
    }
    for step in log:
        if step.schedule.step in changes:
            who, gone = changes[step.schedule.step]
            since = np.zeros(len(who), np.int64) if who.effective_from is None else who.effective_from
            names = pseudonyms(who)
            records = dict(person_records(who.renamed(names), names, np.maximum(since, 0).tolist(), "d"))
            sent = {name: value for name, value in records.items() if value != known.get(name)}
            newcomers = partition.newcomers({**dict.fromkeys(gone), **parsed(sent)})
            newcomers.apply(log[newcomers.next_step : partition.next_step], lambda: None)
            partition.change(newcomers)
            known = records
        assert [each.crowds for each in partition.ask((step.schedule,))] == [step.crowds]
        partition.apply(step)
        number = step.schedule.step
        written = sorted(
            b"".join(JsonlRisks(partition.pseudonyms).blocks(number, partition.records())).splitlines()
        )
        assert written == sorted(line for line in lines if f'"step":{number},'.encode() in line)


def test_locations_keep_their_places(tmp_path: Path) -> None:
    begun(tmp_path, people(0, 1))
    other = replace(people(0, 2), location_names=("B", "A", "C", "D"))
    with pytest.raises(RunChangedError, match='place 0 must stay "A"'):
        run_with(tmp_path, other, day(CHANGE, STEPS), ACCEPTED)


def laws(who: Population, before: Population) -> Population:
    """The people with new moves who start where the old ones have them: what is told at the change."""
    priors = [replace(who.prior(n), initial=before.chain(n).start[0]) for n in range(len(who))]
    return Population.pack(priors, NAMES)


@ALL_THE_WORK
def test_where_habits_changed_the_account_begins_anew_told_where_people_were(tmp_path: Path) -> None:
    """Ceilings of 1 while the horizon begins before the change; then those of whoever is told that place."""
    begun(tmp_path, people(0, 1, 2))
    after = people(0, 1, 2, renewed=[1, 2])
    options = {**ACCEPTED, "new_priors": NewPriors.TOLD}
    run_with(tmp_path, after, day(CHANGE, 20), options)
    run_with(tmp_path, after, day(20, STEPS))
    changed = laws(after, people(0, 1, 2)).subset([1, 2])
    told = ContinuousAccountant(
        changed, HorizonSettings(4, 1), np.full(2, CHANGE), told=np.ones(2, dtype=np.bool_)
    )
    steps = read_decisions(tmp_path / "decisions.jsonl", REGISTRY)
    told.apply_all(steps)
    found, names = risks(tmp_path), pseudonyms(changed)
    assert [found[STEPS - 1][name] for name in names] == told.risk().tolist()
    assert all(found[step][name] == 1.0 for step in range(CHANGE, CHANGE + 3) for name in names)
    (stays,) = pseudonyms(people(0))
    assert found[STEPS - 1][stays] == accounted(tmp_path, people(0), STEPS)[stays]


@ALL_THE_WORK
def test_told_people_stay_told_until_their_priors_change_again(tmp_path: Path) -> None:
    """Without a snapshot, too; redone later, they are accounted over the whole log."""
    for name in ("with", "without"):
        begun(tmp_path / name, people(0, 1))
        run_with(
            tmp_path / name,
            people(0, 1, renewed=[1]),
            day(CHANGE, 16),
            {**ACCEPTED, "new_priors": NewPriors.TOLD},
        )
        run_with(tmp_path / name, people(1, 3, renewed=[1]), day(16, 20), ACCEPTED)
        if name == "without":
            (tmp_path / name / "accountant.snapshot").unlink(missing_ok=True)
        run_with(tmp_path / name, people(1, 3, renewed=[1]), day(20, 22))
    assert outputs_of(tmp_path / "with") == outputs_of(tmp_path / "without")
    folder = tmp_path / "with"
    told = laws(people(1, renewed=[1]), people(1))
    accountant = ContinuousAccountant(told, HorizonSettings(4, 1), np.array([CHANGE]), told=np.array([True]))
    accountant.apply_all(read_decisions(folder / "decisions.jsonl", REGISTRY))
    assert risks(folder)[21][pseudonyms(told)[0]] == accountant.risk()[0]
    run_with(folder, people(1, 3), day(22, STEPS), {**ACCEPTED, "new_priors": NewPriors.REDONE})
    assert risks(folder)[STEPS - 1] == accounted(folder, people(1, 3), STEPS)


def test_a_budget_leaves_out_the_horizons_before_habits_changed(tmp_path: Path) -> None:
    """Nobody is silenced by a ceiling of 1 that no decision changes; a limit in hindsight is refused."""
    hindsight = {"release": {"mechanism": "budget", "budget": {"share": 0.0, "risk": 0.9, "hindsight": True}}}
    past = begun(tmp_path / "hindsight", people(0, 1), **hindsight)
    options = {**ACCEPTED, "new_priors": NewPriors.TOLD}
    with pytest.raises(SettingsError, match="must be accounted without"):
        run_with(tmp_path / "hindsight", people(0, 1, renewed=[1]), day(CHANGE, STEPS), options, **hindsight)
    assert outputs_of(tmp_path / "hindsight") == past
    budget = {"release": {"mechanism": "budget", "budget": {"share": 0.5, "risk": 0.9}}}
    for name, stops in (("whole", [STEPS]), ("pieces", [CHANGE + 2, CHANGE + 5, STEPS])):
        begun(tmp_path / name, people(0, 1), **budget)
        for first, until in pairwise([CHANGE, *stops]):
            chosen = options if first == CHANGE else None
            run_with(tmp_path / name, people(0, 1, renewed=[1]), day(first, until), chosen, **budget)
    assert outputs_of(tmp_path / "whole") == outputs_of(tmp_path / "pieces")
    decided = read_decisions(tmp_path / "whole" / "decisions.jsonl", REGISTRY)[CHANGE : CHANGE + 3]
    assert any(each.mechanism.is_released for step in decided for each in step.releases)


def test_a_place_that_new_priors_lack_is_named(tmp_path: Path) -> None:
    begun(tmp_path, people(0, 1))
    fewer = MovementPrior.from_dense("person 1", np.full((3, 3), 1 / 3))
    other = Population.pack([people(0).prior(0), fewer], NAMES)
    with pytest.raises(RunChangedError, match="without place 3"):
        run_with(tmp_path, other, day(CHANGE, STEPS), {**ACCEPTED, "new_priors": NewPriors.TOLD})


def test_a_kept_copy_is_no_priors_file(tmp_path: Path, tallyguard: Tallyguard) -> None:
    """Whoever gives it to a command would account people from a law and a step of another run."""
    begun(tmp_path, people(0, 1))
    told = {**ACCEPTED, "new_priors": NewPriors.TOLD}
    run_with(tmp_path, people(0, 1, renewed=[1]), day(CHANGE, STEPS), told)
    after = people(0, 1, renewed=[1])
    copies = [p for p in tmp_path.glob("priors-*.parquet") if p != copy_of(tmp_path, people(0, 1))]
    assert len(copies) == 1
    for path in copies:
        with pytest.raises(PriorFileError, match="as they were given"):
            load_population(path)
    with pytest.raises(RunChangedError, match="one prior a person"):
        as_accounted(tmp_path, after)
    for path, says in (
        (copy_of(tmp_path, people(0, 1)), "priors must be those of the run"),
        (copies[0], "as they were given"),
    ):
        assert says in tallyguard("ledger", tmp_path, "--priors", path).err
    found = tallyguard("ledger", tmp_path, "--json").document["reconstruction"]
    assert found["refused"].endswith("got 1 person whose habits changed (--new-priors told)")
    page = tmp_path / "report.html"
    assert tallyguard("report", tmp_path, "--output", page).code == 0
    assert "1 person whose habits changed" in page.read_text()


def test_ledger_and_report_take_the_copy_of_the_people_that_a_run_has_now(
    tmp_path: Path, tallyguard: Tallyguard
) -> None:
    """People come, leave and have new priors of the whole log: as with the file that was given last."""
    begun(tmp_path, people(0, 1, 3))
    after = people(0, 1, 5, renewed=[1])
    run_with(tmp_path, after, day(CHANGE, STEPS), {**ACCEPTED, "new_priors": NewPriors.REDONE})
    save_population(after, tmp_path / "given.parquet")
    found = tallyguard("ledger", tmp_path, "--json").document
    assert found["reconstruction"]["people"] == 3
    assert tallyguard("ledger", tmp_path, "--priors", tmp_path / "given.parquet", "--json").document == found
    priors = load_priors(tmp_path, settings())
    given = load_priors(tmp_path, settings(), after)
    assert list(priors.pseudonyms) == list(given.pseudonyms)
    log, steps = read_run(tmp_path), read_decisions(tmp_path / "decisions.jsonl", priors.registry)
    assert lowering(log, priors, steps) == lowering(log, given, steps) is not None


class Killed(BaseException):
    """The process is gone: nothing is written any more."""


@pytest.mark.parametrize("at", [1, 2, 3, 4, 6, 9, 17])
def test_a_kill_at_any_write_around_the_change_leads_to_the_same_files(
    at: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before and after the record has the change, between a decision and its release, before a commit."""
    after, options = people(0, 2, 5, renewed=[2], since={5: 4}), {**ACCEPTED, "new_priors": NewPriors.REDONE}
    for name in ("whole", "killed"):
        begun(tmp_path / name, people(0, 1, 2))
    run_with(tmp_path / "whole", after, day(CHANGE, STEPS), options)
    with monkeypatch.context() as patched:
        written = count(1)
        for name in ("append", "sync"):
            patched.setattr(AppendFile, name, _dying(getattr(AppendFile, name), written, at))
        with pytest.raises(Killed):
            run_with(tmp_path / "killed", after, day(CHANGE, STEPS), options)
    run_with(tmp_path / "killed", after, day(CHANGE, STEPS), options)
    assert outputs_of(tmp_path / "killed") == outputs_of(tmp_path / "whole")
    assert check_run(tmp_path / "killed").is_whole


def _dying(write: Callable[..., None], written: Iterator[int], at: int) -> Callable[..., None]:
    def dying(*given: object) -> None:
        if next(written) >= at:
            raise Killed
        write(*given)

    return dying

"""Computes all risks of a run again from its log, and compares them with those that were written.

Only decisions and people are read: a risk is a function of the two. Each step is computed under what held at
it: the people, the rule and the settings that the record names for it, applied to the log from its first step
on, as a run does that starts there without a snapshot. So the steps before a change of people are compared,
too, as the run's folder keeps every copy of the priors.

Worked example: a run of 24 steps whose people got new priors at step 12. Steps 0 to 11 are accounted for the
first copy of the priors and compared; then steps 0 to 23 for the second, of which 12 to 23 are compared.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from pathlib import Path
from typing import Any

import numpy as np

from models.priors import Population
from stream_app.embedded.restored_accounts import people_accounts, reveal_renewed
from stream_app.exceptions import OutputError
from stream_app.setup.given_priors import as_set
from stream_app.setup.priors_verdict import priors_check_of
from stream_app.setup.release_settings import ReleaseSettings
from stream_app.setup.run_folder.description import UNDESCRIBED, Description
from stream_app.setup.run_folder.durable import whole_lines
from stream_app.setup.run_folder.manifest import ACCOUNTED_WITH
from stream_app.setup.run_folder.people_record import DRAWN, KEPT, PRIORS, digest_in, load_kept, with_told
from stream_app.setup.run_folder.progress import load_progress, parsed_lines
from stream_app.setup.run_folder.record import DESCRIPTION, RECORD, Entry, Period, periods, read_entries
from stream_app.setup.run_folder.run_settings import (
    UNLESS_SET,
    as_settings,
    crowd_of_run,
    registries_of,
    sensors_of_run,
    settings_of_run,
    with_recorded_windows,
)
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import own_version
from stream_app.steps import Comparison, JsonlRisks, RiskRecords
from stream_app.steps.policy import Decided
from stream_app.wire import StepDecision

Take = Callable[[bytes], object]
_DESCRIBED = ("attack_draws", "sampled_above", "confidence", "risk_every", "most_exposed", "adversary")
_OF_PEOPLE = (PRIORS, KEPT, "people", DRAWN)
_STEP = re.compile(rb'"step":(\d+)')


class _Written:
    """What a run wrote about each step, by what each line is about; asked for steps in rising order."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder / "risks"
        self._steps = groupby(whole_lines(folder / "risks.jsonl"), step_of)
        self._next = next(self._steps, None)

    def pass_over(self, until: int) -> None:
        """Nobody asks for the steps before this one."""
        while self._next is not None and self._next[0] < until:
            self._next = next(self._steps, None)

    def of(self, step: int) -> dict[bytes, bytes]:
        """The lines about a step, and those before it that nobody asked for."""
        found: list[bytes] = []
        while self._next is not None and self._next[0] <= step:
            found += [line.rstrip() for line in self._next[1]]
            self._next = next(self._steps, None)
        return {Comparison.subject(line): line for line in [*found, *self._table(step)]}

    def _table(self, step: int) -> list[bytes]:
        """A step's Parquet file as the lines that it stands for; none where there is no such file."""
        path = self._folder / f"step-{step:012d}.parquet"
        if not path.is_file():
            return []
        import pyarrow.parquet as pq

        table = pq.read_table(path)
        columns = {name: table[name].to_numpy() for name in table.column_names}
        records = RiskRecords(
            person=np.arange(table.num_rows),
            risk=columns["risk"],
            baseline=columns["baseline"],
            added=columns["added"],
            by=tuple(columns["by"]),
            crowd=columns.get("crowd"),
            crowd_by=tuple(columns.get("crowd_by", ())),
        )
        return b"".join(JsonlRisks(columns["person"].tolist()).blocks(step, records)).splitlines()


def step_of(line: bytes) -> int:
    """The step that a line of risks is about; -1 where it says none."""
    found = _STEP.search(line)
    return -1 if found is None else int(found[1])


def replay_run(
    folder: Path, given: Settings, take: Take = lambda line: None, priors: Population | None = None
) -> Comparison:
    """Account every step of a run's folder again, up to its last commit; ``take`` gets every line.

    ``given`` says where evidence lies, if it is not beside the folder, and ``priors`` whose it is. Steps of a
    version that kept no record are passed over, and those that a copy of a deployment on Kafka has from the
    workers, whose people were nowhere any more. :class:`OutputError` where the folder has no copy of its
    people, or no description.
    """
    settings = settings_of_run(folder, given)
    entries = read_entries(folder / RECORD)
    steps = int(load_progress(folder).get("next_step", 0))
    held = periods(entries, steps)
    recorded = tuple(each for each in held if each.entry is not None)
    result = Comparison(steps, passed_over=steps - sum(each.until - each.first for each in recorded))
    written = _Written(folder)
    written.pass_over(result.passed_over)
    for span in _spans(settings, recorded):
        if PRIORS not in span.facts:
            written.pass_over(span.until)
            result.passed_over += span.until - span.first
            continue
        result.people = int(span.facts.get("people", 0))
        if span.version not in (own_version(), *result.versions):
            result.versions.append(span.version)
        for step, lines in _lines(folder, span, priors, entries):
            theirs = written.of(step)
            for line in lines:
                take(line)
                result.hold(line, theirs.pop(Comparison.subject(line), None))
            for line in theirs.values():
                result.lack(line)
    return result


@dataclass
class _Span:
    """Steps ``first`` to ``until - 1``, which were accounted for the same people with the same settings."""

    first: int
    until: int
    settings: Settings
    facts: Mapping[str, Any]
    version: str

    def goes_on(self, other: _Span) -> bool:
        """Whether the other's steps can be accounted in one go with these."""
        own, others = ({name: each.facts.get(name) for name in _OF_PEOPLE} for each in (self, other))
        return self.settings == other.settings and own == others


def _spans(settings: Settings, held: Iterable[Period]) -> Iterator[_Span]:
    """The steps of a run by what they were accounted with, in order."""
    description: Description | None = None
    last: _Span | None = None
    for first, until, entry in held:
        if entry is None:
            continue
        if DESCRIPTION in entry.about:
            description = Description.read(entry.about[DESCRIPTION])
        if description is None:
            raise OutputError("a run must describe what it was accounted with", "no description", UNDESCRIBED)
        then = settings_then(settings, entry.facts, description)
        span = _Span(first, until, then, entry.facts, entry.version)
        if last is not None and last.goes_on(span):
            last.until = until
            continue
        if last is not None:
            yield last
        last = span
    if last is not None:
        yield last


def settings_then(settings: Settings, facts: Mapping[str, Any], description: Description) -> Settings:
    """The settings as the record says they were, as far as accounts and what is written of them follow."""
    said = {name: description.settings[name] for name in _DESCRIBED if name in description.settings}
    said |= {name: value for name, value in (UNLESS_SET | dict(facts)).items() if name in ACCOUNTED_WITH}
    found = as_settings(said, settings)
    found["priors_check"] = priors_check_of(facts)
    found["crowd"] = crowd_of_run(facts)
    plain = {**facts.get("release", {}), "covariance": None, "recipients": None}
    found["release"] = ReleaseSettings.model_validate(plain)
    if facts.get("drawn"):
        found["posterior_draws"] = facts["drawn"]["draws"]
    return settings.model_copy(update=found)


def _people_then(folder: Path, span: _Span, given: Population | None) -> tuple[Population, tuple[str, ...]]:
    """Those of a span, and their pseudonyms: the run's copy, which a check of the priors was held against.

    Chains are drawn by people's ids, which only the ``given`` file has.
    """
    kept = load_kept(folder, digest_in(span.facts))
    if not span.facts.get("drawn"):
        return kept, kept.people
    if given is None or given.fingerprint != span.facts[PRIORS] or span.settings.evidence is None:
        raise OutputError(
            "chains must be drawn by the ids of people, which the folder of a run does not hold",
            f"no priors of them, or no evidence, for step {span.first:,}",
            "name the priors that the run had with --priors, and their evidence in the settings",
        )
    drawn = as_set(span.settings.model_copy(update={"priors_check": None}), given)
    told = [] if kept.told is None else np.flatnonzero(kept.told).tolist()
    starts = {number: kept.initial(number) for number in told}
    return with_told(replace(drawn, effective_from=kept.effective_from), starts), kept.people


def _lines(
    folder: Path, span: _Span, given: Population | None, entries: Sequence[Entry]
) -> Iterator[tuple[int, list[bytes]]]:
    """What a run writes after each step of a span."""
    if not span.facts.get("people"):
        return
    settings = span.settings
    population, pseudonyms = _people_then(folder, span, given)
    registry = sensors_of_run(folder, settings, population.location_names)
    registry = with_recorded_windows(folder, registry)
    registries = registries_of(folder, registry)
    people = people_accounts(
        *(settings, settings.first_slot, population, pseudonyms), has_windows=bool(registry.windowed)
    )
    for decision in parsed_lines(StepDecision, folder / "decisions.jsonl"):
        step = decision.step
        if step >= span.until:
            return
        reveal_renewed(people.accounts, folder, entries, step)
        people.apply(Decided.logged(decision, registries.at(step), has_crowd=settings.has_crowd))
        if step >= span.first:
            yield step, b"".join(people.written()).splitlines()

"""Whether what a run has filed is whole: its record, and its logs held against the record and each other.

A run may go on while this reads: risks are written after the release, and the release after the decision, so
the logs are read in that order. What a killed run has not written yet is missing, not wrong.
"""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from itertools import zip_longest
from pathlib import Path
from typing import Any

from stream_app.exceptions import OutputError
from stream_app.setup.run_folder.description import faults_of_designs
from stream_app.setup.run_folder.durable import digests_of, load_document, whole_lines
from stream_app.setup.run_folder.manifest import FETCHED, differing
from stream_app.setup.run_folder.people_record import missing_copies, priors_by_steps
from stream_app.setup.run_folder.progress import load_progress, log_lines, parsed_lines
from stream_app.setup.run_folder.record import (
    RECORD,
    Entry,
    check_head,
    last_facts,
    read_entries,
    shown_digests,
)
from stream_app.wire import RiskSummary, StepDecision, StepRelease

SUMMARY = b'{"v":1,"type":"risk_summary"'
_LEAST_DIGITS = 8  # of a digest
_LOOKS = 2  # a run that starts writes the record, then run.json
NO_RECORD = (
    f"{RECORD} is missing: no record says which rule held, since when, and who decided it; it was lost, or "
    "the run is of a version that kept none"
)


@dataclass(frozen=True)
class CheckedRun:
    """What the files of a run say of themselves.

    ``faults`` are sentences, none where all is whole. Of ``released`` steps the first ``accounted`` have
    their risks recorded. ``is_copy`` of a deployment on Kafka, which goes on elsewhere.
    """

    entries: tuple[Entry, ...]
    faults: tuple[str, ...]
    released: int
    accounted: int
    is_copy: bool = False

    @property
    def is_whole(self) -> bool:
        """Whether nothing is missing or was changed."""
        return not self.faults

    @property
    def end(self) -> Entry | None:
        """How the last run ended; None where it did not, or goes on."""
        last = self.entries[-1] if self.entries else None
        return last if last is not None and last.kind == "ended" and last.step == self.released else None

    @property
    def head(self) -> str | None:
        """The digest of the whole record that is shown and filed."""
        return shown_digests(self.entries)[-1] if self.entries else None

    def has_been(self, digest: str) -> bool:
        """Whether a digest, or the first eight characters of it or more, was shown of this record.

        Earlier versions showed :attr:`Entry.sha256`. Fewer characters, or none, would fit by chance.
        """
        shown = (*shown_digests(self.entries), *(each.sha256 for each in self.entries))
        return len(digest) >= _LEAST_DIGITS and any(each.startswith(digest) for each in shown)

    def priors(self) -> tuple[str, ...]:
        """Which priors held for which steps; nothing where they never changed."""
        return priors_by_steps(self.entries, self.released)

    def in_words(self) -> str:
        """How far the run came, and whether it came to an end."""
        steps = {0: "no step is", 1: "step 0 is"}.get(self.released, f"steps 0 to {self.released - 1:,} are")
        end = self.end
        if end is not None:
            return f"{steps} released; the run ended before step {end.step:,} ({end.reason})"
        if self.is_copy:
            return f"{steps} released and fetched, and the deployment on Kafka may have released more since"
        how = f"it goes on, or was killed before step {self.released:,}"
        return f"{steps} released, and the run has not ended: {how}"


def check_run(folder: Path) -> CheckedRun:
    """Read all logs of a run's folder once and hold them against its record.

    :class:`OutputError` for a folder that is none of a run.
    """
    if not (folder / "run.json").is_file():
        raise OutputError(
            f"{folder} must be the output folder of a run", "no run.json in it", "name the folder of --output"
        )
    faults: list[str] = []
    entries: tuple[Entry, ...] = ()
    try:
        for _ in range(_LOOKS):
            progress = load_progress(folder)  # before the record, which only grows
            entries = read_entries(folder / RECORD)
            run = load_document(folder / "run.json")
            of_record = list(_against_record(run, entries, progress))
            if not of_record:
                break
        faults += of_record
        faults += faults_of_designs(folder, entries)
        lines = _Lines(folder, has_people=run.get("people") != 0)
        faults += lines.faults
        faults += missing_copies(folder, entries)
        faults += _against_commits(folder, entries, progress)
    except OutputError as error:
        return CheckedRun(entries, (*faults, f"{error.must}, got {error.got}"), 0, 0)
    faults += _shorter(lines, progress, entries)
    return CheckedRun(
        entries, tuple(dict.fromkeys(faults)), lines.released, lines.accounted, is_copy=FETCHED in run
    )


def is_of_plans(folder: Path) -> bool:
    """Whether a folder has the record of plans that were taken on the page."""
    of_a_run = "run.json", "decisions.jsonl", "releases.jsonl"  # the first of which may have been lost
    return (folder / RECORD).is_file() and not any((folder / name).is_file() for name in of_a_run)


def check_plans(folder: Path) -> CheckedRun:
    """The record of plans that were taken, held against the settings file of each."""
    try:
        entries = read_entries(folder / RECORD)
    except OutputError as error:
        return CheckedRun((), (f"{error.must}, got {error.got}",), 0, 0)
    faults = []
    for entry in entries:
        path = folder.parent / str(entry.facts["settings"])
        if not path.is_file():
            faults.append(f"{path.name} of entry {entry.number} is missing")
        elif hashlib.sha256(path.read_bytes()).hexdigest() != entry.facts["digest"]:
            faults.append(f"{path.name} was changed since it was taken")
    return CheckedRun(entries, tuple(faults), 0, 0)


def _against_record(
    run: Mapping[str, Any], entries: tuple[Entry, ...], progress: Mapping[str, Any]
) -> Iterator[str]:
    """Entries that are gone, and a ``run.json`` that is not as they say."""
    if not entries:
        yield NO_RECORD
        return
    try:
        check_head(entries, progress.get("record") or {}, RECORD)
    except OutputError as error:
        yield f"{error.must}, got {error.got}"
    held = last_facts(entries)
    if held is not None and run != held:
        names = ", ".join(differing(held, run))
        yield f"run.json was changed and is not as the record says ({names})"


def _against_commits(folder: Path, entries: tuple[Entry, ...], progress: Mapping[str, Any]) -> Iterator[str]:
    """Logs whose first bytes are not those that a commit, or the end of a run, had written."""
    lengths, digests = progress.get("lengths") or {}, progress.get("digests") or {}
    written = [
        {name: (int(lengths.get(name, 0)), digest) for name, digest in digests.items()},
        *(dict(entry.logs) for entry in entries if entry.kind == "ended"),
    ]
    lengths_of: dict[str, set[int]] = defaultdict(set)
    for logs in written:
        for name, (length, _) in logs.items():
            lengths_of[name].add(length)
    paths = {name: folder / f"{name}.jsonl" for name in lengths_of}
    found = {name: digests_of(log_lines(paths[name]), lengths) for name, lengths in lengths_of.items()}
    for logs in written:
        for name, (length, digest) in logs.items():
            if found[name][length] is None:
                yield f"{paths[name].name} does not hold the {length:,} bytes that were written to it"
            elif found[name][length] != digest:
                yield f"a line of {paths[name].name} was changed, or another stands in its place"


def _shorter(lines: _Lines, progress: Mapping[str, Any], entries: tuple[Entry, ...]) -> Iterator[str]:
    """Fewer steps than were committed, or than the record knows of."""
    known = max([int(progress.get("next_step", 0)), *(entry.step for entry in entries)])
    if lines.released < known:
        yield f"releases.jsonl holds {lines.released:,} steps, and {known:,} were released"
    committed = int(progress.get("next_step", 0))
    if lines.has_people and lines.accounted < min(committed, lines.released):
        yield f"risks.jsonl holds the risks of {lines.accounted:,} steps, and {committed:,} were recorded"
    if not progress and any(entry.kind == "ended" for entry in entries):
        yield "progress.json is missing"


class _Lines:
    """The steps in each log, held against each other."""

    def __init__(self, folder: Path, *, has_people: bool) -> None:
        self.faults: list[str] = []
        self.has_people = has_people
        summaries = self._steps(folder, RiskSummary, "risks", SUMMARY) if has_people else iter(())
        self.accounted = sum(1 for _ in summaries)
        self.released = 0
        releases = self._steps(folder, StepRelease, "releases")
        decisions = self._steps(folder, StepDecision, "decisions")
        decided = 0
        for release, decision in zip_longest(releases, decisions):
            self.released += release is not None
            decided += decision is not None
            if release is not None and decision is not None and not _agree(release, decision):
                self.faults.append(
                    f"step {release.step:,} of releases.jsonl is not what decisions.jsonl says was decided"
                )
        if decided < self.released:
            self.faults.append(f"decisions.jsonl holds {decided:,} steps of {self.released:,} released")
        if self.accounted > self.released:
            self.faults.append(
                f"releases.jsonl holds {self.released:,} steps of {self.accounted:,} accounted"
            )
        if not has_people:
            self.accounted = self.released
        self._check_tiers(folder)

    def _steps(self, folder: Path, kind: Any, log: str, start: bytes = b"{") -> Iterator[Any]:
        """The records of a log, one a step; the first that is not of the next step is a fault."""
        path, expected, is_broken = folder / f"{log}.jsonl", 0, False
        for found in parsed_lines(kind, path, start):
            if found.step != expected and not is_broken:
                is_broken, what = True, f"step {expected:,} is missing"
                if found.step > expected + 1:
                    what = f"steps {expected:,} to {found.step - 1:,} are missing"
                elif found.step < expected:
                    what = f"step {found.step:,} stands where step {expected:,} should"
                self.faults.append(f"{what} in {path.name}")
            expected = found.step + 1
            yield found

    def _check_tiers(self, folder: Path) -> None:
        """A tier's file has a line for every release, but for those that a kill left in the commit."""
        in_commit = self.released - sum(1 for _ in whole_lines(folder / "releases.jsonl"))
        for path in sorted(folder.glob("releases-*.jsonl")):
            count = 0
            for count, release in enumerate(parsed_lines(StepRelease, path), 1):
                if release.step != count - 1:
                    self.faults.append(f"step {count - 1:,} is missing in {path.name}")
                    break
            if count < self.released - max(in_commit, 1):
                self.faults.append(f"{path.name} holds {count:,} steps of {self.released:,} released")


def _agree(release: StepRelease, decision: StepDecision) -> bool:
    """Whether a release says of each sensor what was decided, or that nothing came."""
    said = [(entry.sensor, entry.mechanism) for entry in release.releases]
    decided = [(each.sensor, each.mechanism) for each in decision.decisions]
    return (
        release.step == decision.step
        and len(said) == len(decided)
        and all(
            name == other and mechanism in (kind, "suppressed")
            for (name, mechanism), (other, kind) in zip(said, decided, strict=True)
        )
    )

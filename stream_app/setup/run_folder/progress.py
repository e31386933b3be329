"""Where a run continues: its last commit. A commit writes what changed, and nothing where nothing did.

A commit is one append, all of it or nothing. Its lines of other logs (:class:`.AheadLog`, and few bytes of
any other) are durable here before they are written there; until they are durable there too they stay
(``lines``), and whoever reads those logs takes them from here (:func:`log_lines`).

In the output folder, for its owner only, since open steps have counts:

- ``progress.json``: a commit as a whole, sealed
- ``progress.jsonl``: what each commit since has changed, a sealed and numbered line each. A line says which
  whole it belongs to (``of``: the start of its digest), so lines of an older one are ignored. A torn last
  line is no commit

The whole is written anew once the lines are half as long as the whole, or half as many steps were forgotten
as are kept; a commit that somebody waits for leaves that to the next one (``may_wait``). So all that is
written is a few times what changed, and no count of a forgotten step stays long.

With three open steps of 500 sensors, a count that comes writes a line of some 300 bytes::

    {"sha256":"…","of":"5f0c…","number":4,"position":{…},"steps":[{"step":12,"counts":{"s3":41}}]}
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic_core import from_json, to_json

from stream_app.exceptions import OutputError, RunChangedError, restoring
from stream_app.setup.run_folder.durable import (
    SECRET_MODE,
    AppendFile,
    ChainedLog,
    Model,
    parsed_line,
    read_sealed,
    replace_file,
    seal,
    sync_folder,
    unsealed,
    whole_lines,
)

WHOLE, CHANGES = "progress.json", "progress.jsonl"
DECISIONS, RELEASES, REVISED = "decisions", "releases", "revised"
RISKS, REJECTED, QUALITY = "risks", "rejected", "quality"
COMMITTED_ONLY = frozenset({RISKS, REJECTED, QUALITY})
"""Logs that count as far as the commit says: what is long is on disk before it, what is not is in it."""
MOST_CARRIED = 16384
"""Bytes of such a log that a commit holds like the lines of the others."""
_LEAST_BYTES = 4096  # of lines, before the whole is written anew for their length
_MOST_HELD = 16384  # bytes of other logs that a new whole repeats, before these are synced instead
_NAME_DIGITS = 16  # of a digest, by which a line names its whole

SavedStep = Mapping[str, Any]
"""A step as :meth:`stream_app.steps.window.StepWindow.take_changed` gives it."""


def load_progress(folder: Path) -> dict[str, Any]:
    """The last commit of a folder, as it was given; empty where there is none.

    :class:`OutputError` where it is not as it was written. Another process may be writing.
    """
    return _Commits.of(folder).commit()


def log_lines(path: Path, start: int = 0) -> Iterator[bytes]:
    """The whole lines of a run's log from the byte ``start`` on, as far as the commit says.

    Lines that only the commit holds are among them: a run that goes on is about to write them to the file,
    one that was killed does so when it is started. Risks, dead letters and findings beyond it are not.
    """
    try:
        commits = _Commits.of(path.parent)  # before the file, which only grows
    except OutputError:  # said by whoever needs the commit: the lines stand without it
        commits = _Commits()
    held = commits.lines.get(path.stem, "").encode()
    committed = int(commits.fields.get("lengths", {}).get(path.stem, 0))
    for line in whole_lines(path, start):
        if path.stem in COMMITTED_ONLY and commits.of_whole and start >= committed:
            return
        start += len(line)
        yield line
    if 0 <= (there := start - committed + len(held)) < len(held):
        yield from held[there:].splitlines(keepends=True)


def parsed_lines(kind: type[Model], path: Path, start: bytes = b"") -> Iterator[Model]:
    """The messages of a run's log, but for a torn last one; only lines that begin with ``start``."""
    return (parsed_line(kind, path, line) for line in log_lines(path) if line.startswith(start))


def steps_out(folder: Path) -> int:
    """How many steps are out with all that came late: of others a commit still holds lines, or may."""
    at, logs = _Commits.of(folder), {log: folder / f"{log}.jsonl" for log in ("releases", "revised")}
    released = sum(1 for _ in whole_lines(logs["releases"]))
    lengths, held = at.fields.get("lengths", {}), at.lines.get("releases", "").count("\n")
    for log, path in logs.items():
        if (path.stat().st_size if path.exists() else 0) < lengths.get(log, 0):
            return min(released, int(at.fields["next_step"]) - held)
    return released


def has_released(folder: Path) -> bool:
    """Whether a step, or a part of one, was decided or released, as far as any file shows."""
    logs = (folder / "decisions.jsonl", *folder.glob("releases*.jsonl"))
    return any(log.exists() and log.stat().st_size for log in logs) or (
        int(load_progress(folder).get("next_step", 0)) > 0
    )


def require_committed(folder: Path, committed: int) -> None:
    """:class:`RunChangedError` where more was begun than the ``committed`` steps, which must come again.

    As an earlier version left it where it was killed, or a folder that lost its commit.
    """
    begun = max(sum(1 for _ in log_lines(folder / f"{log}.jsonl")) for log in ("decisions", "releases"))
    if begun > committed:
        raise RunChangedError(
            "all steps that were begun must be committed before anything of the run changes",
            f"{begun - committed:,} that are not, from step {committed:,} on, as the run was killed there",
            "start the run once more with the key it has and all else as it was, let it end or stop it "
            "(SIGTERM), then change it",
        )


class ProgressLog:
    """Reads the last commit of a folder and writes the next ones; by the one run that has the folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._at = _Commits.of(folder)
        self.commit_read = self._at.commit()
        self.held = dict(self._at.lines)  # the last lines of logs that may not be in their files
        self._lines = AppendFile(folder / CHANGES, SECRET_MODE)
        if (folder / WHOLE).exists():
            (folder / WHOLE).chmod(SECRET_MODE)  # earlier versions let others read it
        try:
            self._lines.truncate(self._at.line_bytes)  # durable, before anything is built on it
            sync_folder(folder)
        except BaseException:
            self._lines.close()
            raise

    def write(
        self,
        fields: Mapping[str, Any],
        changed: Mapping[int, SavedStep | None],
        marks: Sequence[int] = (),
        logs: Sequence[ChainedLog] = (),
        note: Callable[[], None] | None = None,
        *,
        whole: bool = False,
        may_wait: bool = False,
    ) -> None:
        """Make a commit durable: ``fields`` as they are now, and the open steps that changed.

        A step that was forgotten is None. ``marks`` is a list that only grows, or is cut and grows again.
        What is pending in ``logs`` belongs to the commit, and is written to them once that is durable and
        ``note`` was called. ``whole`` leaves everything in ``progress.json``, and no lines of logs; with
        ``may_wait`` somebody waits, so that no whole is written for what was forgotten.
        """
        at = self._at
        now: dict[str, Any] = from_json(to_json(fields))  # as it will be read, and shared with nobody
        line = {key: value for key, value in now.items() if at.fields.get(key) != value}
        if steps := list(self._step_changes(changed)):
            line["steps"] = steps
        if len(marks) != len(at.marks) or list(marks[-1:]) != at.marks[-1:]:
            line["marks"] = _marks_change(at.marks, marks)
            at.marks = list(marks)
        at.fields = now
        lines = {log.path.stem: log.pending.decode() for log in logs if log.pending}
        durable = {log.path.stem: "" for log in logs if log.is_durable and at.lines.get(log.path.stem)}
        if held := lines | durable:
            line["lines"] = held
            at.hold(held)
        most = max(_LEAST_BYTES, at.whole_bytes // 2)
        is_due = whole and bool(line or self._lines.length or at.lines)
        is_due |= not may_wait and (self._has_forgotten() or (bool(line) and self._lines.length > most))
        if not at.of_whole:
            self._write_whole()
            is_due = whole and bool(at.lines)
        elif line and (lines or not is_due):
            at.number += 1
            self._lines.append(seal({"of": at.of_whole, "number": at.number, **line}))
            self._lines.sync()
        if lines and note is not None:
            note()
        for log in logs:
            log.flush()
        if is_due:
            if whole or sum(map(len, at.lines.values())) > _MOST_HELD:
                for log in logs:
                    log.sync()
                at.lines.clear()
            self._write_whole()

    def _write_whole(self) -> None:
        """Write the commit as a whole. After a kill before the lines are cut, they name another whole."""
        at = self._at
        data = seal({**at.commit(), **({"lines": at.lines} if at.lines else {})})
        replace_file(self._folder / WHOLE, data, SECRET_MODE)
        self._lines.cut(0)
        at.of_whole, at.whole_bytes = _name_of(data), len(data)
        at.number = at.forgotten = 0

    def forget(self) -> None:
        """There is no commit any more."""
        self._lines.truncate(0)
        (self._folder / WHOLE).unlink(missing_ok=True)
        sync_folder(self._folder)
        self._at, self.commit_read, self.held = _Commits(), {}, {}

    def _step_changes(self, changed: Mapping[int, SavedStep | None]) -> Iterator[dict[str, Any]]:
        """What is to be written of the changed steps; from here on it counts as written."""
        steps = self._at.steps
        for step, entry in changed.items():
            if entry is None:
                if steps.pop(step, None) is not None:
                    self._at.forgotten += 1
                    yield {"step": step, "forgotten": True}
                continue
            news = _news(steps.get(step, _UNKNOWN), entry)
            if news or step not in steps:
                yield {"step": step, **news}
            steps[step] = entry

    def _has_forgotten(self) -> bool:
        """Whether so many steps were forgotten that their counts must go."""
        return 2 * self._at.forgotten > len(self._at.steps) + 1

    def close(self) -> None:
        """Give the file back."""
        self._lines.close()


_UNKNOWN: SavedStep = {"sensors": None, "counts": {}, "waiting": {}}


def _news(known: SavedStep, entry: SavedStep) -> dict[str, Any]:
    """What a step has now, and had not: it only gains counts, each for good, until waiting ones are taken."""
    news: dict[str, Any] = {}
    if known["sensors"] is None and entry["sensors"] is not None:
        news["sensors"] = entry["sensors"]
    waiting = known["waiting"]
    if waiting.keys() - entry["waiting"].keys():
        news["none_waiting"], waiting = True, {}
    for name, before in (("counts", known["counts"]), ("waiting", waiting)):
        if more := {sensor: each for sensor, each in entry[name].items() if sensor not in before}:
            news[name] = more
    before = known.get("corrected", {})
    corrected = {
        sensor: counts[len(before.get(sensor, ())) :]
        for sensor, counts in entry.get("corrected", {}).items()
        if len(counts) > len(before.get(sensor, ()))
    }
    return {**news, "corrected": corrected} if corrected else news


@dataclass
class _Commits:
    """The last commit, and which whole and how many lines hold it.

    Its ``fields``, the open ``steps`` and the ``marks``; ``lines`` are the last ones of each log that may not
    be durable in its file. ``of_whole`` is the name of the whole, ``forgotten`` how many steps were dropped
    since.
    """

    fields: dict[str, Any] = field(default_factory=dict)
    steps: dict[int, SavedStep] = field(default_factory=dict)
    marks: list[int] = field(default_factory=list)
    lines: dict[str, str] = field(default_factory=dict)
    of_whole: str = ""
    number: int = 0
    whole_bytes: int = 0
    line_bytes: int = 0
    forgotten: int = 0

    @classmethod
    def of(cls, folder: Path) -> _Commits:
        """As a folder has it, from the whole and the lines that follow it."""
        read, path = cls(), folder / WHOLE
        if not path.is_file():
            return read
        read.fields, data = read_sealed(path)
        read.of_whole, read.whole_bytes = _name_of(data), len(data)
        try:
            read.marks = list(read.fields.pop("marks", ()))
            read.hold(read.fields.pop("lines", {}))
            read.steps = {entry["step"]: entry for entry in read.fields.get("window", {}).pop("steps", ())}
        except (AttributeError, KeyError, TypeError) as error:
            raise _damaged(path, error) from error
        read._follow(folder / CHANGES)
        return read

    def commit(self) -> dict[str, Any]:
        """As it was given to :meth:`ProgressLog.write`, the open steps in ``window``."""
        whole = dict(self.fields)
        if whole.get("window"):
            whole["window"] = {**whole["window"], "steps": list(self.steps.values())}
        return {**whole, "marks": list(self.marks)} if self.marks else whole

    def hold(self, lines: Mapping[str, str]) -> None:
        """Keep lines that are about to be written to their logs; none where a log is durable as it is."""
        for log, more in lines.items():
            self.lines[log] = self.lines.get(log, "") + more if more else ""

    def _follow(self, path: Path) -> None:
        """Take the lines that belong to the whole, one after the other."""
        lines = whole_lines(path)
        for line in lines:
            found = self._line(line)
            if found is None or found.pop("number") != self.number + 1:
                if found is not None or any(self._line(later) for later in lines):
                    raise _damaged(path, f"another line behind number {self.number}")
                return  # lines of an older whole
            self.number, self.line_bytes = self.number + 1, self.line_bytes + len(line)
            try:
                self._apply(found)
            except (AttributeError, KeyError, TypeError) as error:
                raise _damaged(path, error) from error

    def _line(self, line: bytes) -> dict[str, Any] | None:
        """What a line of this whole says; None for any other."""
        found = unsealed(line)
        return found if found and found.pop("of", None) == self.of_whole and "number" in found else None

    def _apply(self, change: dict[str, Any]) -> None:
        """Take over what a commit has changed."""
        if (marks := change.pop("marks", None)) is not None:
            self.marks = self.marks[: marks["keep"]] + list(marks["more"])
        self.hold(change.pop("lines", {}))
        for news in change.pop("steps", ()):
            step = news["step"]
            if news.get("forgotten"):
                self.steps.pop(step, None)
                self.forgotten += 1
            else:
                self.steps[step] = _with_news(self.steps.get(step), news)
        self.fields |= change


def _with_news(known: SavedStep | None, news: Mapping[str, Any]) -> SavedStep:
    """A step with what a line says of it."""
    known = known or _UNKNOWN
    waiting = {} if news.get("none_waiting") else known["waiting"]
    corrected = {sensor: list(counts) for sensor, counts in known.get("corrected", {}).items()}
    for sensor, counts in news.get("corrected", {}).items():
        corrected.setdefault(sensor, []).extend(counts)
    return {
        "step": news["step"],
        "sensors": news.get("sensors", known["sensors"]),
        "counts": {**known["counts"], **news.get("counts", {})},
        "waiting": {**waiting, **news.get("waiting", {})},
        **({"corrected": corrected} if corrected else {}),
    }


def _marks_change(before: Sequence[int], now: Sequence[int]) -> dict[str, Any]:
    """How many stay, and what comes behind them."""
    keep = min(len(before), len(now))
    while keep and before[keep - 1] != now[keep - 1]:
        keep -= 1
    return {"keep": keep, "more": list(now[keep:])}


def _name_of(sealed: bytes) -> str:
    """The start of the digest that a sealed document carries."""
    return sealed.split(b'"', 4)[3][:_NAME_DIGITS].decode()


def _damaged(path: Path, how: object) -> OutputError:
    return OutputError(f"{path} must be as it was written", how, restoring(path.name))

"""The record of a run: which rule each step was published under, since when, who set it and why; append-only.

One JSON object a line in ``record.jsonl``. An entry says what holds from a ``step`` on (``begun``,
``changed``), or that a run has ``ended``. It carries the digest of the entry before and its own, so that
:func:`read_entries` notices an entry that was changed, removed or inserted. An entry is durable before the
first step that is published under it. A person who can rewrite the whole folder can rewrite the record, too.
Therefore every report prints a digest of the record (:func:`shown_digests`), by which a filed report can be
compared with it. What an entry changed is told in words from the facts of both
(:func:`~.description.changes_in`).

Worked example: a run begins with a limit of 0.1; after 15 steps it continues with 0.9. The record has

    number 0, begun,   step 0,  facts {release: {budget: {added: 0.1}}, …}, previous ""
    number 1, changed, step 15, facts {release: {budget: {added: 0.9}}, …}, previous <sha256 of number 0>

and :func:`periods` of 48 steps are 0 to 14 under the first, 15 to 47 under the second.
"""

from __future__ import annotations

import getpass
import hashlib
import json
import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any, Literal, NamedTuple

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from stream_app.exceptions import OutputError, first_fault, restoring
from stream_app.setup.run_folder.durable import SECRET_MODE, AppendFile, sync_folder, whole_lines
from stream_app.setup.this_process import own_version

RECORD = "record.jsonl"
DESCRIPTION = "description"
"""In an entry's ``about``: what describes the steps from it on (:mod:`.description`)."""

PRIVATE = "private"
"""In the ``about`` of an end: the logs that are for the owner only, as their bytes depend on counts."""

MOST_REASON = 500  # characters

Kind = Literal["begun", "changed", "described", "ended"]
_Text = Annotated[str, Field(min_length=1, max_length=MOST_REASON)]


class Author(NamedTuple):
    """Who starts a run, and the reason for these settings in words."""

    by: str
    reason: str | None = None

    @classmethod
    def given(cls, by: str | None = None, reason: str | None = None) -> Author:
        """As given; the name defaults to that of the account on this machine."""
        return cls(_one_line(by) or _account_name(), _one_line(reason))


class Entry(BaseModel):
    """One entry. ``facts`` hold from ``step`` on; an end has ``logs`` instead: each file's length and digest.

    ``version`` is that of the program. ``about`` has further information, which may differ without being a
    change: the name of the priors' file, how often all sensors together may count one person in a step. It
    has the :data:`DESCRIPTION` where that is not the one before; where nothing else differs the entry is
    ``described``.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, strict=True)

    v: Annotated[int, Field(ge=1, le=1)] = 1
    type: Literal["record"] = "record"
    number: Annotated[int, Field(ge=0)]
    kind: Kind
    step: Annotated[int, Field(ge=0)]
    at: str
    by: _Text
    reason: _Text | None = None
    version: str
    facts: Mapping[str, Any] = Field(default_factory=dict)
    about: Mapping[str, Any] = Field(default_factory=dict)
    logs: Mapping[str, tuple[int, str]] = Field(default_factory=dict)
    previous: str = ""
    sha256: str = ""

    @field_validator("at")
    @classmethod
    def _is_a_moment(cls, at: str) -> str:
        datetime.fromisoformat(at)
        return at

    def sealed(self) -> Entry:
        """The same with its own digest."""
        return self.model_copy(update={"sha256": self._digest()})

    def is_sealed(self) -> bool:
        """Whether it is as it was written."""
        return self.sha256 == self._digest()

    def line(self) -> bytes:
        """The entry as one line."""
        return _canonical(self.model_dump(mode="json")) + b"\n"

    def _digest(self) -> str:
        return hashlib.sha256(_canonical(self.model_dump(mode="json", exclude={"sha256"}))).hexdigest()


class Period(NamedTuple):
    """Steps ``first`` to ``until`` (exclusive) under the facts of one entry; None where none is recorded."""

    first: int
    until: int
    entry: Entry | None


class RecordDamagedError(OutputError):
    """The record was changed, or a part of it is missing."""


class Record:
    """``record.jsonl`` of a folder, open for appending by the one run that holds the folder's lock."""

    def __init__(
        self,
        folder: Path,
        author: Author | None = None,
        about: Mapping[str, Any] | None = None,
        now_seconds: Callable[[], float] = time.time,
    ) -> None:
        self._path = folder / RECORD
        self.author = author or Author.given()
        self._about = dict(about or {})
        self._now_seconds = now_seconds
        self.entries = list(read_entries(self._path))
        if self._path.exists():  # a killed run may not have synced what it wrote, so make it durable first
            self._write(b"")

    @property
    def head(self) -> Mapping[str, Any]:
        """How many entries there are, and the digest of the last."""
        return head_of(self.entries)

    def hold(self, step: int, facts: Mapping[str, Any]) -> None:
        """Note durably that ``facts`` hold from ``step`` on, if they, or the program, are not as before."""
        entry = following(self.entries, step, facts, self.author, self._now_seconds(), self._about)
        if entry is not None:
            self._append(entry)

    def end(
        self, step: int, outcome: str, logs: Mapping[str, tuple[int, str]], private: Sequence[str] = ()
    ) -> None:
        """Note durably that a run ended before ``step``; a restart that does nothing adds no second entry.

        ``private`` are the logs whose bytes depend on counts that were not published.
        """
        last = self.entries[-1] if self.entries else None
        if last is None or (last.kind, last.step, dict(last.logs)) != ("ended", step, dict(logs)):
            ending, about = self.author._replace(reason=outcome), {PRIVATE: list(private)}
            now_seconds = self._now_seconds()
            self._append(
                next_entry(self.entries, "ended", step, ending, now_seconds, logs=dict(logs), about=about)
            )

    def _append(self, entry: Entry) -> None:
        self._write(entry.line())
        self.entries.append(entry)

    def _write(self, line: bytes) -> None:
        """Append a line; a torn one of a killed run is cut first, and what was there becomes durable."""
        with closing(AppendFile(self._path, SECRET_MODE)) as file:
            file.truncate(sum(len(each.line()) for each in self.entries))
            file.append(line)
            file.sync()
        sync_folder(self._path.parent)


def following(
    entries: Sequence[Entry],
    step: int,
    facts: Mapping[str, Any],
    author: Author,
    now_seconds: float,
    about: Mapping[str, Any] | None = None,
) -> Entry | None:
    """The entry to append where ``facts`` hold from ``step`` on; None if they, and the program, stay."""
    last = next((each for each in reversed(entries) if each.kind != "ended"), None)
    plain: dict[str, Any] = json.loads(_canonical(facts))  # as they are read back
    more: dict[str, Any] = json.loads(_canonical(about or {}))
    if more.get(DESCRIPTION) == last_description(entries):
        more.pop(DESCRIPTION, None)
    if last is None:
        kind: Kind = "begun"
    elif last.facts != plain or last.version != own_version():
        kind = "changed"
    elif DESCRIPTION in more:
        kind = "described"
    else:
        return None
    return next_entry(entries, kind, step, author, now_seconds, facts=plain, about=more)


def next_entry(
    entries: Sequence[Entry], kind: Kind, step: int, author: Author, now_seconds: float, **content: Any
) -> Entry:
    """The entry after these, sealed."""
    return Entry(
        number=len(entries),
        kind=kind,
        step=step,
        at=f"{datetime.fromtimestamp(now_seconds, UTC):%Y-%m-%dT%H:%M:%SZ}",
        by=author.by,
        reason=author.reason,
        version=own_version(),
        previous=entries[-1].sha256 if entries else "",
        **content,
    ).sealed()


def read_entries(path: Path) -> tuple[Entry, ...]:
    """The entries of a record file, each held against the one before; none where there is no file.

    :class:`RecordDamagedError` names the first entry that is not as it was written.
    """
    return chained(whole_lines(path), path.name)


def chained(lines: Iterable[bytes], name: str) -> tuple[Entry, ...]:
    """The entries in these lines; :class:`RecordDamagedError` where the chain is broken."""
    entries: list[Entry] = []
    for number, line in enumerate(lines):
        try:
            entry = Entry.model_validate_json(line)
        except ValidationError as error:
            raise _broken(f"entry {number} of {name}", first_fault(error)) from error
        if entry.number != number:
            raise _broken(f"entry {number} of {name} must be there", f"entry {entry.number} in its place")
        if not entry.is_sealed():
            raise _broken(f"entry {number} of {name}", "another content than its digest is of")
        if entry.previous != (entries[-1].sha256 if entries else ""):
            raise _broken(f"entry {number} of {name} must follow the one before it", "another digest of that")
        if entries and entry.step < entries[-1].step:
            raise _broken(f"entry {number} of {name} must not be of an earlier step", entry.step)
        entries.append(entry)
    return tuple(entries)


def check_head(entries: Sequence[Entry], head: Mapping[str, Any], name: str) -> None:
    """:class:`RecordDamagedError` where entries are missing that were there when ``head`` was written."""
    count, digest = int(head.get("entries", 0)), head.get("sha256", "")
    if count and (len(entries) < count or entries[count - 1].sha256 != digest):
        found = f"{len(entries)}" if len(entries) < count else "others"
        raise _broken(f"{name} must hold the {count} entries that were written", found)


def head_of(entries: Sequence[Entry]) -> Mapping[str, Any]:
    """How many entries there are, and the digest of the last: by it a record is known again."""
    return {"entries": len(entries), "sha256": entries[-1].sha256} if entries else {}


def last_facts(entries: Sequence[Entry]) -> Mapping[str, Any] | None:
    """What holds after these entries."""
    return next((each.facts for each in reversed(entries) if each.kind != "ended"), None)


def last_description(entries: Sequence[Entry]) -> Any:
    """What describes the steps after these entries, as it was written; None where nothing does."""
    return next((each.about[DESCRIPTION] for each in reversed(entries) if DESCRIPTION in each.about), None)


def shown_digests(entries: Iterable[Entry]) -> tuple[str, ...]:
    """A digest of the record up to each entry, to be shown and filed: of nothing that depends on a count.

    :attr:`Entry.sha256` depends on the digests of all logs. Who reads it could try out which counts were
    refused: dead letters hold counts, ``releases.jsonl`` with tiers the values of every tier. Here an end has
    only the logs that are free of counts or published as they are, by its ``about.private``; an end of an
    earlier version, which did not say it, only decisions and risks. An end that repeats the one before adds
    nothing, since whether it is there may depend on what was refused.
    """
    found: list[str] = []
    digest = ""
    ended: tuple[int, Mapping[str, tuple[int, str]]] | None = None
    for each in entries:
        entry = each
        if entry.kind == "ended":
            private = {"rejected", *entry.about.get(PRIVATE, ("releases", "revised"))}
            logs = {name: log for name, log in entry.logs.items() if name not in private}
            if ended == (ended := (entry.step, logs)):
                found.append(digest)
                continue
            entry = entry.model_copy(update={"logs": logs})
        else:
            ended = None
        content = entry.model_dump(mode="json", exclude={"number", "previous", "sha256"})
        digest = hashlib.sha256(digest.encode() + _canonical(content)).hexdigest()
        found.append(digest)
    return tuple(found)


def held(entries: Iterable[Entry]) -> list[tuple[int, Mapping[str, Any]]]:
    """From which step on which facts held, in order."""
    return [(each.step, each.facts) for each in entries if each.kind != "ended"]


def periods(entries: Iterable[Entry], steps: int) -> tuple[Period, ...]:
    """The first ``steps`` steps by what held: one period from each entry to the next, without empty ones.

    Steps before the first entry, of a version that kept no record, make a period without one.
    """
    rules = [each for each in entries if each.kind != "ended"]
    starts = [each.step for each in rules]
    found = [Period(0, min([steps, *starts[:1]]), None)]
    found += [
        Period(first, min(until, steps), entry)
        for first, until, entry in zip(starts, [*starts, steps][1:], rules, strict=True)
    ]
    return tuple(period for period in found if period.first < period.until)


def _broken(must: str, found: object) -> RecordDamagedError:
    whole = must if " must " in must else f"{must} must be as it was written"
    return RecordDamagedError(whole, found, restoring(RECORD))


def _canonical(fields: Mapping[str, Any]) -> bytes:
    return json.dumps(fields, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _one_line(text: str | None) -> str | None:
    """Text as an entry holds it: on one line, at most :data:`MOST_REASON` characters."""
    return " ".join((text or "").split())[:MOST_REASON] or None


def _account_name() -> str:
    try:
        return getpass.getuser()
    except (KeyError, OSError):  # a container's number without an account
        return f"user {os.getuid()}"

"""What a deployment has published with its noise key, noted beside the key before any of it leaves.

Noise is a function of key, deployment, interval, sensor, mechanism and count: the same reading gives the same
value, whoever draws it. Of a changed count another folder, or an older copy of the folder, would publish
a second value of the same step: correlated noise, which is drawn for a window and not for a count, then gives
away the difference exactly, and other noise is a second look that no ledger knows. An output folder alone
cannot see that it is not the latest. So a log of releases only grows from where the record says that it ends.

A record is one file beside the key's, for each key and deployment. It has two places that are written in
turn, so that a kill leaves the one before.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from models.keys import NoiseKey
from models.text import parse_json
from stream_app.exceptions import KeyUsedError, OutputError, OutputLockedError
from stream_app.setup.keys import key_file, key_folder
from stream_app.setup.run_folder.durable import (
    SECRET_FOLDER_MODE,
    SECRET_MODE,
    make_folder,
    replace_file,
    sync_folder,
    writing,
)
from stream_app.setup.run_folder.manifest import seal
from stream_app.setup.settings import Settings

logger = logging.getLogger(__name__)

RELEASES, REVISED = "releases", "revised"
_LOGS = (RELEASES, REVISED)
_TOPIC, _STEPS = "kafka", "steps"
_PLACE_BYTES = 4096
_MOST_CHARACTERS = 1000  # of a folder's name
_NOISE = ("deployment", "step_seconds", "origin", "release", "windows", "schedule")
_WAY_OUT = (
    "go on with the folder that has published it, with everything in it; for other counts make a key with "
    "`tallyguard keys create`; or, where this folder has to go on and that is known to reveal more than is "
    "accounted, say why with --take-over REASON"
)


class LogEnd(NamedTuple):
    """How many lines of a log are out, their SHA-256, and that without the last where it may be missing."""

    lines: int = 0
    digest: str = hashlib.sha256().hexdigest()
    before: str | None = None


def record_file(settings: Settings, folder: Path | None, key: NoiseKey) -> Path:
    """Where it is noted what a deployment published with a key: beside the key, or where the settings say.

    Of a key that is in no file it is beside the output folder, where keys are made; on Kafka, without a
    folder, it must be said.
    """
    file = key_file(settings, folder)
    beside = file.parent if file is not None else None if folder is None else key_folder(folder)
    where = settings.key_record or beside
    if where is None:
        raise OutputError(
            "a key that is in no file must have a place for what was published with it",
            "no key_record",
            "set key_record to a folder that outlives the process",
        )
    name = "noise.key" if file is None else file.name
    of_whom = json.dumps([key.fingerprint(), settings.deployment])
    return where / f"{name}.{hashlib.sha256(of_whom.encode()).hexdigest()[:16]}.published"


class KeyRecord:
    """The record of one key and deployment, held by one run at a time.

    :meth:`hold_to` compares it with an output folder, :meth:`note` extends it by a line that is about to be
    published. ``take_over`` is why a folder goes on whatever is noted.
    """

    def __init__(self, path: Path, take_over: str | None = None) -> None:
        self.path = path
        self.take_over = take_over
        self._descriptor: int | None = None
        self._fields: dict[str, Any] = {}
        self._hash = {name: hashlib.sha256() for name in _LOGS}
        self._lines = dict.fromkeys(_LOGS, 0)
        self._promised: dict[str, LogEnd] = {}

    def hold_to(self, folder: Path) -> str | None:
        """:class:`KeyUsedError` unless the folder's logs go on where the record ends, or it is taken over.

        Gives the reason where it was.

        A line that was noted and is not in the log, as the run was killed in between, is promised: it may
        only be published as it was to be.
        """
        self._open()
        noted = {name: LogEnd(*self._fields.get(name, ())) for name in _LOGS}
        goes_on = [self._take_up(folder / f"{name}.jsonl", name, noted[name]) for name in _LOGS]
        topic = self._fields.pop(_TOPIC, None)
        where, self._fields["folder"] = self._fields.get("folder"), str(folder.resolve())[-_MOST_CHARACTERS:]
        if all(goes_on) and topic is None:
            return None
        self._promised = {}
        if self.take_over is not None:
            return self.take_over
        raise KeyUsedError(
            f"{folder} must hold everything that was published with its noise key before",
            f"{noted[RELEASES].lines:,} steps that are out by {self.path}, last from {where}"
            if topic is None
            else f"a log on Kafka that uses it, by {self.path}",
            _WAY_OUT,
        )

    def check_noise(self, manifest: Mapping[str, Any], *, is_accepted: bool) -> None:
        """:class:`KeyUsedError` where the run's manifest has another noise than was noted.

        ``is_accepted`` says that the operator changes it from here on.
        """
        noise = {key: manifest[key] for key in _NOISE if key in manifest}
        digest = hashlib.sha256(json.dumps(noise, sort_keys=True, default=str).encode()).hexdigest()
        is_same = self._fields.get("noise") in (None, digest)
        if not (is_same or is_accepted or self.take_over is not None) and self._lines[RELEASES]:
            raise KeyUsedError(
                "the noise must be the one that was published with this key before",
                "other settings of release, steps or origin",
                "put them back, or accept them from the next step on with --accept-changes",
            )
        self._fields |= {"noise": digest, "deployment": str(manifest.get("deployment"))[:_MOST_CHARACTERS]}

    def note(self, log: str, line: bytes) -> None:
        """Make durable that a line is about to be published; what was promised is noted already."""
        before = self._hash[log].hexdigest()
        self._hash[log].update(line)
        self._lines[log] += 1
        promised = self._promised.pop(log, None)
        if promised is not None and promised.digest == self._hash[log].hexdigest():
            return
        if promised is not None and self.take_over is None:
            raise KeyUsedError(
                f"line {self._lines[log]:,} of {log}.jsonl must be the one that was begun when the run ended",
                "another value",
                "start it with the input and settings that it had then; or, where they cannot be had again, "
                "say why with --take-over REASON",
            )
        self.save(log, before)

    def hold_to_kafka(self, topic: str, steps: Mapping[str, int]) -> None:
        """Note how long a log on Kafka is, by partition, and let the key go: the broker keeps others out."""
        self._open()
        try:
            self._fields |= {_TOPIC: topic, _STEPS: dict(steps)}
            self.save()
        finally:
            self.close()

    def close(self) -> None:
        """Let another run have the key."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _open(self) -> None:
        """Lock the file, and read the last place that was written whole."""
        self._descriptor = _locked(self.path)
        self._fields = read_record(self.path)

    def _take_up(self, path: Path, log: str, noted: LogEnd) -> bool:
        """Read a log's whole lines; whether they go on from where it is noted to end."""
        goes_on = noted.lines == 0
        if path.exists():
            with path.open("rb") as lines:
                for line in lines:
                    if not line.endswith(b"\n"):
                        break
                    self._hash[log].update(line)
                    self._lines[log] += 1
                    if self._lines[log] == noted.lines:
                        goes_on = self._hash[log].hexdigest() == noted.digest
        if self._lines[log] == noted.lines - 1:
            self._promised[log] = noted
            goes_on = self._hash[log].hexdigest() == noted.before
        return goes_on

    def save(self, noted: str | None = None, before: str | None = None) -> None:
        """Write the place that is not the last; ``before`` is the digest of a log without its last line."""
        assert self._descriptor is not None
        for log in _LOGS:
            end = LogEnd(self._lines[log], self._hash[log].hexdigest(), before if log == noted else None)
            self._fields[log] = list(self._promised.get(log, end))
        self._fields["number"] = self._fields.get("number", 0) + 1
        place = seal(self._fields).rstrip(b"\n").ljust(_PLACE_BYTES - 1) + b"\n"
        with writing(self.path):
            os.pwrite(self._descriptor, place, self._fields["number"] % 2 * _PLACE_BYTES)
            os.fsync(self._descriptor)


def _locked(path: Path) -> int:
    """The open file, held by this process alone."""
    make_folder(path.parent, SECRET_FOLDER_MODE)
    with writing(path):
        descriptor = os.open(path, os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, SECRET_MODE)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(descriptor)
        raise OutputLockedError(
            "a noise key must be used by one run of a deployment at a time",
            f"another one, which holds {path}",
            "stop that run first, or give this one a key of its own (`tallyguard keys create`)",
        ) from None
    try:
        sync_folder(path.parent)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def claim_for_kafka(path: Path, topic: str, partition: int, next_step: int) -> None:
    """Note that a key is that of a log of releases on Kafka, by the broker's id of the topic.

    The log itself is the record of what is out, and one writer is let in. The note is for who does not read
    it: :class:`KeyUsedError` where the key was used by a run in a folder, by another log, or by this one when
    it was longer. Where it cannot be written, as beside a key that a container mounts, it is only read.
    """
    known = read_record(path) if path.exists() else {}
    steps = dict(known.get(_STEPS, {}))
    is_other = known.get(_TOPIC, topic) != topic or LogEnd(*known.get(RELEASES, ())).lines > 0
    if is_other or steps.get(str(partition), 0) > next_step:
        raise KeyUsedError(
            "a log on Kafka must hold everything that was published with its noise key before",
            f"another one, or a run in a folder, by {path}"
            if is_other
            else f"step {steps[str(partition)]:,} by {path}, where the log ends at {next_step:,}",
            "go on with the one that has published it, or make a key for this one with `tallyguard keys "
            "create`; where this log has to go on and that is known to reveal more than is accounted, move "
            "the note away",
        )
    try:
        record = KeyRecord(path)
        record.hold_to_kafka(topic, {**steps, str(partition): next_step})
    except OutputLockedError:
        raise
    except OutputError:
        logger.info("%s cannot be written: what else uses the noise key is not seen; set key_record", path)


def read_record(path: Path) -> dict[str, Any]:
    """The last place that was written whole; empty of a new file, :class:`OutputError` of a damaged one."""
    data = path.read_bytes()
    written = [data[begin : begin + _PLACE_BYTES].strip(b"\0 \n") for begin in (0, _PLACE_BYTES)]
    whole = [place for place in map(_place, written) if place]
    if not whole and all(written):  # a single torn place is the first ever: nothing was published after it
        raise OutputError(
            f"{path} must be as it was written",
            "other content",
            "restore it from a backup of the key's folder; without it nobody knows what is published",
        )
    return max(whole, key=lambda place: int(place["number"]), default={})


def carry_record(settings: Settings, folder: Path, key: NoiseKey, later: NoiseKey) -> None:
    """What was published with a key stays known to the key of the next epoch."""
    earlier = record_file(settings, folder, key)
    if earlier.exists():
        replace_file(record_file(settings, folder, later), earlier.read_bytes(), SECRET_MODE)


def _place(text: bytes) -> dict[str, Any] | None:
    """What a place says, where it was written whole."""
    try:
        fields = parse_json(text)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    fields.pop("sha256", None)
    return fields if seal(fields) == text + b"\n" and "number" in fields else None

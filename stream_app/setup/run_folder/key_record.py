"""The noise key of a run: what was published with it, and its replacement by the key of the next epoch.

Noise is a function of key, deployment, interval, sensor, mechanism and count: the same reading always gives
the same value. If a count changed, another folder (or an older copy of this one) would publish a second value
of the same step. Correlated noise is drawn for a window and not for a count, so the two values would reveal
the difference exactly; with other noise they are a second observation that no ledger accounts. An output
folder alone cannot see that it is not the latest. So what is published is noted next to the key before it
leaves, and a log of releases may only grow from where this record says that it ends.

There is one record file per key and deployment, in the key's folder. It has two places that are written in
turn, so that a kill during one write leaves the other intact. Lines are noted once a commit has them, and
before they leave: so a folder is never behind its record, unless it is an older copy or lost what it had.
Lines that are published together are noted together, each with the digest that the log has after it: a folder
that lost some of them publishes the rest exactly as noted. Three lines behind line 6 read::

    "releases": [9, "<digest of 9 lines>", "<digest of 6>", ["<start of that of 7>", "<of 8>"]]
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
from collections.abc import Mapping, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any, NamedTuple

from models.keys import NoiseKey
from models.noise import CorrelatedNoise
from stream_app.exceptions import DiskFullError, KeyUsedError, OutputError, OutputLockedError, RunChangedError
from stream_app.setup.keys import key_file, key_folder, noise_key_file
from stream_app.setup.run_folder.durable import (
    SECRET_FOLDER_MODE,
    SECRET_MODE,
    FolderLock,
    load_document,
    lock_file,
    make_folder,
    replace_file,
    seal,
    sync_folder,
    unsealed,
    writing,
)
from stream_app.setup.run_folder.manifest import refuse_copy, replace_noise_key
from stream_app.setup.run_folder.progress import RELEASES, REVISED, ProgressLog, log_lines, require_committed
from stream_app.setup.run_folder.record import Author
from stream_app.setup.settings import Settings

logger = logging.getLogger(__name__)

_LOGS = (RELEASES, REVISED)
_TOPIC, _STEPS = "kafka", "steps"
_PLACE_BYTES = 4096
_MOST_CHARACTERS = 200  # of a folder's name, each of which may take six bytes of a place
MOST_TOGETHER = 32
"""Lines noted at once that have a digest each, as a place has room for: of more, the last ones."""
_SHORT = 32  # digits of the digests between the first line and the last
_NOISE = ("deployment", "step_seconds", "origin", "release", "windows", "schedule")
_WAY_OUT = (
    "continue the folder that published it, with everything in it; for other counts make a new key with "
    "`tallyguard keys create`; or, if this folder must continue although that reveals more than is "
    "accounted, give the reason with --take-over REASON"
)


class LogEnd(NamedTuple):
    """How many lines of a log were published, their SHA-256, and that without the last ones, if in doubt.

    ``between`` are the digests after each line in doubt but the last, cut short: empty where one is in doubt.
    """

    lines: int = 0
    digest: str = hashlib.sha256().hexdigest()
    before: str | None = None
    between: Sequence[str] = ()

    @property
    def digests(self) -> dict[int, str]:
        """The start of the log's digest, by how many lines there may be: a kill left as few as the first."""
        known = [*([] if self.before is None else [self.before, *self.between]), self.digest]
        return dict(enumerate(known, self.lines + 1 - len(known)))


def record_file(settings: Settings, folder: Path | None, key: NoiseKey) -> Path:
    """Where to note what a deployment published with a key: in the key's folder, unless settings name one.

    For a key that is in no file it is the folder where keys of this output folder are made; on Kafka, where
    there is none, the settings must name one.
    """
    file = key_file(settings, folder)
    where = settings.key_record
    if where is None and file is not None:
        where = file.parent
    elif where is None and folder is not None:
        where = key_folder(folder)
    if where is None:
        raise OutputError(
            "a key that is in no file must have a place for what was published with it",
            "no key_record",
            "set key_record to a folder that outlives the process",
        )
    name = "noise.key" if file is None else file.name
    user = json.dumps([key.fingerprint(), settings.deployment])
    return where / f"{name}.{hashlib.sha256(user.encode()).hexdigest()[:16]}.published"


class KeyRecord:
    """The record of one key and deployment, locked by one run at a time.

    :meth:`compare` holds it against an output folder, :meth:`note` extends it by lines that are about to be
    committed, and :meth:`save` makes that durable, before they are published. ``take_over`` is the
    operator's reason to continue a folder whatever the record says.
    """

    def __init__(self, path: Path, take_over: str | None = None) -> None:
        self.path = path
        self.take_over = take_over
        self._descriptor: int | None = None
        self._fields: dict[str, Any] = {}
        self._hash = {name: hashlib.sha256() for name in _LOGS}
        self._lines = dict.fromkeys(_LOGS, 0)
        self._promised: dict[str, list[str]] = {name: [] for name in _LOGS}
        self._doubted: dict[str, list[str]] = {}  # of noted lines that are not saved: the digests before each

    def compare(self, folder: Path) -> str | None:
        """:class:`KeyUsedError` unless the folder's logs continue where the record ends, or it is taken over.

        Returns the reason for a takeover, None without one. Lines that were noted and are not in the log are
        promised: they may only be published exactly as noted. Those that a killed run had committed and not
        noted are noted now.
        """
        self._open()
        noted = {name: LogEnd(*self._fields.get(name, ())) for name in _LOGS}
        goes_on = [self._read_log(folder / f"{name}.jsonl", name, noted[name]) for name in _LOGS]
        topic = self._fields.pop(_TOPIC, None)
        where, self._fields["folder"] = self._fields.get("folder"), str(folder.resolve())[-_MOST_CHARACTERS:]
        if all(goes_on) and topic is None:
            if any(self._lines[name] > noted[name].lines for name in _LOGS):
                self.save()
            return None
        self._promised = {name: [] for name in _LOGS}
        if self.take_over is not None:
            return self.take_over
        raise KeyUsedError(
            f"{folder} must hold everything that was published with its noise key before",
            f"{noted[RELEASES].lines:,} steps are published according to {self.path}, last from {where}"
            if topic is None
            else f"a log on Kafka that uses it, by {self.path}",
            _WAY_OUT,
        )

    def check_noise(self, manifest: Mapping[str, Any], *, is_accepted: bool) -> None:
        """:class:`KeyUsedError` where the run's manifest has other noise than was noted.

        ``is_accepted`` says that the operator accepts the change from here on.
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

    def note(self, log: str, lines: Sequence[bytes]) -> None:
        """Note lines, for :meth:`save`; :class:`KeyUsedError` where others were promised."""
        digests, promised = [self._hash[log].hexdigest()], self._promised[log]
        is_noted = len(lines) <= len(promised)
        for line in lines:
            self._hash[log].update(line)
            self._lines[log] += 1
            digests.append(self._hash[log].hexdigest())
            # noted by a run that was killed before it wrote the line
            if promised and not digests[-1].startswith(promised.pop(0)) and self.take_over is None:
                raise KeyUsedError(
                    f"line {self._lines[log]:,} of {log}.jsonl must be the one that was begun when the run "
                    "ended",
                    "another value",
                    "start it with the input and settings that it had then; or, if they are lost, give the "
                    "reason to continue without them with --take-over REASON",
                )
        if not is_noted or self.take_over is not None:
            promised.clear()
            self._doubted[log] = digests[:-1]

    def note_kafka_log(self, topic: str, steps: Mapping[str, int]) -> None:
        """Note how long a log on Kafka is, by partition, and unlock: the broker fences other writers."""
        try:
            self._open()
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
        try:
            make_folder(self.path.parent, SECRET_FOLDER_MODE)
            self._descriptor = lock_file(self.path)
        except DiskFullError:
            raise
        except OutputError as error:  # a container mounts its key read-only
            elsewhere = "set key_record to a folder of its own that outlives the process, or "
            raise OutputError(error.must, error.got, elsewhere + error.remedy) from error
        except BlockingIOError:
            raise OutputLockedError(
                "a noise key must be used by one run of a deployment at a time",
                f"another run, which holds {self.path}",
                "stop that run first, or give this one a key of its own (`tallyguard keys create`)",
            ) from None
        sync_folder(self.path.parent)
        self._fields = read_record(self.path)

    def _read_log(self, path: Path, log: str, noted: LogEnd) -> bool:
        """Read a log's whole lines; whether they continue from the end that is noted."""
        digests = noted.digests
        goes_on = noted.lines == 0
        for line in log_lines(path):
            self._hash[log].update(line)
            self._lines[log] += 1
            if self._lines[log] in digests:
                goes_on = self._hash[log].hexdigest().startswith(digests[self._lines[log]])
        if self._lines[log] < noted.lines:
            goes_on = self._hash[log].hexdigest().startswith(digests.get(self._lines[log], "none"))
            self._promised[log] = [digest for lines, digest in digests.items() if lines > self._lines[log]]
        return goes_on

    def save(self) -> None:
        """Write the older of the two places: where the logs end, and with which lines since the last time."""
        assert self._descriptor is not None
        room = MOST_TOGETHER
        for log in _LOGS:
            if self._promised[log]:
                continue  # which stand as they were noted
            doubted = self._doubted.pop(log, [])[-room:]  # the digests before each line
            before, *between = doubted or (None,)
            room = max(1, room - len(between))
            end = LogEnd(self._lines[log], self._hash[log].hexdigest(), before)
            self._fields[log] = [*end[:3], *([[each[:_SHORT] for each in between]] if between else [])]
        self._fields["number"] = self._fields.get("number", 0) + 1
        place = seal(self._fields).rstrip(b"\n").ljust(_PLACE_BYTES - 1) + b"\n"
        with writing(self.path):
            os.pwrite(self._descriptor, place, self._fields["number"] % 2 * _PLACE_BYTES)
            os.fsync(self._descriptor)


def claim_for_kafka(path: Path, topic: str, partition: int, next_step: int) -> None:
    """Note that a key belongs to a log of releases on Kafka, named by the broker's id of the topic.

    On Kafka the log itself is the record of what was published, and the broker admits one writer. The note is
    for runs that do not read that log. :class:`KeyUsedError` where the key was used by a run in a folder, by
    another log, or by this one when it was longer. Where the note cannot be written, as next to a key that a
    container mounts read-only, it is only read.
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
            "continue the one that published it, or make a key for this one with `tallyguard keys create`; "
            "if this log must continue although that reveals more than is accounted, move that file away",
        )
    try:
        record = KeyRecord(path)
        record.note_kafka_log(topic, {**steps, str(partition): next_step})
    except OutputLockedError:
        raise
    except OutputError:
        logger.info("%s cannot be written: what else uses the noise key is not seen; set key_record", path)


def read_record(path: Path) -> dict[str, Any]:
    """The last place that was written whole; empty of a new file, :class:`OutputError` of a damaged one."""
    data = path.read_bytes()
    written = [data[begin : begin + _PLACE_BYTES].strip(b"\0 \n") for begin in (0, _PLACE_BYTES)]
    sealed = [unsealed(place + b"\n") for place in written]
    whole = [fields for fields in sealed if fields and "number" in fields]
    if not whole and all(written):  # a single torn place is the first ever: nothing was published after it
        raise OutputError(
            f"{path} must be as it was written",
            "other content",
            "restore it from a backup of the key's folder; no other file has what the key was used for",
        )
    return max(whole, key=lambda place: int(place["number"]), default={})


def carry_record(settings: Settings, folder: Path, key: NoiseKey, later: NoiseKey) -> None:
    """What was published with a key stays known to the key of the next epoch."""
    earlier = record_file(settings, folder, key)
    if earlier.exists():
        replace_file(record_file(settings, folder, later), earlier.read_bytes(), SECRET_MODE)


# The noise key's next epoch: what was released stays, and the key that it was drawn with is erased.
#
# A key that is stolen later then reveals no count of the steps before. It cannot be undone: values of an
# earlier epoch can neither be drawn again nor be continued for a tier added later.


class AdvancedKey(NamedTuple):
    """The key's file and its epoch from now on; ``first_step`` drawn with it, None where it is not known."""

    file: Path
    epoch: int
    first_step: int | None


def advance_noise_key(settings: Settings, output: Path | None, author: Author | None = None) -> AdvancedKey:
    """Replace the noise key by that of the next epoch; of a stopped run where ``output`` is given.

    The run's record (with the ``author``) and ``run.json`` are written first: a call that was interrupted is
    completed by the next. With a run, :class:`RunChangedError` while a step may be published that its commit
    does not hold: lines that only the commit holds need no key any more.
    """
    if output is not None:
        refuse_copy(output)
    file = noise_key_file(settings, output)
    key = NoiseKey.load(file)
    later = key.at_epoch(key.epoch + 1)
    if output is None:
        carry_record(settings, file.parent, key, later)
        key.advance_file(file, later.epoch)
        return AdvancedKey(file, later.epoch, None)
    if not (output / "run.json").is_file():
        raise OutputError(
            f"{output} must be the output folder of a run",
            "no run.json in it",
            "correct --output; on Kafka leave it out",
        )
    with closing(FolderLock(output)), closing(ProgressLog(output)) as progress:
        first = int(progress.commit_read.get("next_step", 0))
        require_committed(output, first)
        _hand_over(output, key, later, first, author)
        carry_record(settings, output, key, later)
        key.advance_file(file, later.epoch)
    return AdvancedKey(file, later.epoch, first)


def _hand_over(output: Path, key: NoiseKey, later: NoiseKey, first_step: int, author: Author | None) -> None:
    """Let the run continue with the later key from its next step on."""
    run = load_document(output / "run.json")
    noted = run.get("noise_key")
    if noted == later.fingerprint():
        return  # an earlier call was interrupted between the two files
    if noted != key.fingerprint():
        raise RunChangedError(
            f"the noise key must be the one that {output} is drawn with",
            "another key",
            "name the run's key: the settings must be those of the run",
        )
    check_between_windows(run["release"]["covariance"], first_step)
    replace_noise_key(output, later.fingerprint(), first_step, author)


def check_between_windows(covariance: Path | str | None, first_step: int) -> None:
    """:class:`OutputError` for a key that would begin within a noise window.

    A window's vector comes from one key, or it does not hide what it was designed to hide.
    """
    if covariance is None:
        return
    steps = CorrelatedNoise.load(Path(covariance)).steps
    position = first_step % steps
    if position:
        raise OutputError(
            f"a noise window of {steps} steps must end before its key does",
            f"step {first_step}, position {position} of a window",
            f"run on to step {first_step - position + steps} with the key in use and stop there",
        )

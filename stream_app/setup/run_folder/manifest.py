"""What the runs on an output folder were started with: fingerprints and settings, no secret."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from accounting.settings import RiskBudget
from stream_app.exceptions import OutputError, RunChangedError, keeping, restoring
from stream_app.setup.exclusions import check_change, excludes_no_less
from stream_app.setup.priors_verdict import is_no_weaker, priors_check_of
from stream_app.setup.release_settings import BudgetSettings
from stream_app.setup.run_folder.durable import load_document, replace_file
from stream_app.setup.run_folder.facts import (
    HOLIDAYS,
    IN_WORDS,
    NETWORK,
    WINDOWS,
    Network,
    check_holidays,
    check_new_windows,
    differences,
    keeps_windows,
)
from stream_app.setup.run_folder.record import Author, Record

FORMAT = 1
_EARLIER_KEYS = "earlier_noise_keys"
_TAKEN_OVER = "taken_over"
_KEY = "noise_key"
CHECK = "priors_check"
PEOPLE = frozenset({"priors", "people", "people_kept", "assumed_habits"})
"""What is recorded of the people: :mod:`stream_app.setup.run_folder.people_record` compares them in words."""

DECIDED = frozenset({"release", "schedule", "drawn", "draws", "crowd", "adversary", CHECK, _KEY})
"""What decisions follow from, besides accounts: it may change from one step on, with --accept-changes.

A check of the priors may be added, or get stricter, without that: ceilings only rise.
"""

SHARPENED = frozenset({"thresholds", "sharpen", "sharpen_above", "sharpen_operations"})
"""What is looked at more closely: the accounts of the whole log are computed again with it."""

FETCHED = "fetched_from"
SUMMED = "summed_until"  # of a copy: risks of some steps before are as several processes wrote them
"""By which a copy of a deployment on Kafka is known: the digest of the first entry of its record there."""

PARTITIONS = "kafka.partitions"
"""Into how many shares the work on people is split, off Kafka, too: whoever a share cannot pay for keeps the
fast bound. The accounts of a run are computed again with another number; on Kafka it is fixed."""

ACCEPTABLE = DECIDED | SHARPENED | PEOPLE | {NETWORK, "sensors", PARTITIONS}
"""What an operator may change while a deployment lives, with --accept-changes."""


REPORTED = frozenset({"delta", "counted_again", "offset"})
"""What is recorded for readers only: no account depends on it, so it may change without --accept-changes."""


EXCLUSIONS = "exclusions"
"""The table of what is not published, which may change without --accept-changes: a change from a step on that
nothing is known of yet leaves out, or takes back in, what was decided by people (:func:`check_change`)."""

NOT_IN_SNAPSHOTS = DECIDED | REPORTED | {NETWORK, "sensors", EXCLUSIONS}
"""What accounts do not rest on, beside the decisions: the sensors of past steps never change."""

ACCOUNTED_WITH = (
    *("deployment", "step_seconds", "origin", "first_slot", "timezone", "holidays"),
    *("horizon", "mistakes", "thresholds", "sharpen", "sharpen_above", "sharpen_operations", "delta"),
    *("question", "also_asked", "questions", PARTITIONS),
)
"""Settings that accounts depend on: recorded in ``run.json``, and taken from there by readers of the run."""


UNSAID = frozenset({"sharpen", "sharpen_operations", PARTITIONS, NETWORK, "people_kept"})
"""What earlier versions did not record: a run of theirs continues with what is set now."""


_OTHER_HOURS = "past steps would be accounted with habits of other hours"
FIXED: Mapping[str, str] = {
    "deployment": "every message of noise would be another one, and its steps those of another deployment",
    "step_seconds": "steps would be others than those published, and habits are fitted to their length",
    "origin": "steps would begin at other times than those published",
    "first_slot": _OTHER_HOURS,
    "timezone": _OTHER_HOURS,
    "holidays": _OTHER_HOURS,
    "horizon": "ceilings before and after would answer different questions; to ask another one, give "
    "`tallyguard ledger` or `plan` a schedule",
    "mistakes": "ceilings before and after would answer different questions; to ask another one, give "
    "`tallyguard ledger` or `plan` a schedule",
    "question": "ceilings before and after would answer different questions; to ask another one, give "
    "`tallyguard audit` or `plan` a schedule",
    "also_asked": "steps so far have no figures of others; to ask another one, give `tallyguard audit` or "
    "`plan` a schedule",
    "questions": "ceilings before and after would answer different questions; give the other one a name of "
    "its own",
    "pseudonym_key": "people would have other pseudonyms than in the records so far",
    "risk_format": "risks of the steps so far are in the other format",
    "windows": "a count over a window is accounted in each of its steps, before it is published",
    "sensors": "what differs is not known, since the run did not record which sensors it had: start it once "
    "with those, then change them",
}
"""Why it cannot change while a deployment lives, of what the sentence for anything else does not say."""


class Manifest:
    """``run.json`` of a folder, compared with what this run was started with.

    Keys in ``replaceable`` may differ from the earlier run's. :class:`RunChangedError` for any other, unless
    nothing was released yet (``has_released``): then the run starts over. Which noise key belonged to which
    steps is kept as keys change.

    In a copy of a deployment on Kafka (:data:`FETCHED`) all may differ, as the deployment has accepted it.

    Every change is written to the ``record`` first, with its step, author and reason; this file has only what
    holds now. A file that differs from the record was changed by somebody else and is refused. A change that
    weakens a promise (:func:`weakened`) needs the author's reason.
    """

    def __init__(
        self,
        folder: Path,
        wanted: Mapping[str, Any],
        replaceable: frozenset[str],
        *,
        record: Record,
        has_released: bool = True,
    ) -> None:
        self._path = folder / "run.json"
        self._wanted = {"format": FORMAT, **json.loads(json.dumps(wanted))}
        self._record = record
        self._stored = load_document(self._path) if self._path.exists() else None
        self.begins_anew = False
        if self._stored is None:
            if (folder / "releases.jsonl").exists():
                raise OutputError(
                    f"{folder} must be a new folder or one of an earlier run",
                    "releases.jsonl without run.json",
                    restoring("run.json"),
                )
        elif has_released:
            self._stored = self._as_recorded(self._stored)
            is_copy = FETCHED in self._wanted
            if not is_copy and (changed := self._changed(self._stored, replaceable)):
                raise RunChangedError(
                    f"{folder} must be continued with what it was started with",
                    differences(changed, self._stored, self._wanted),
                    keeping(changed, self._acceptable(), FIXED),
                )
            if not is_copy:
                check_reason(self._stored, self._wanted, self._record.author)
        elif self._changed(self._stored, replaceable):
            self._stored, self.begins_anew = None, True
        self.is_new = self._stored is None

    @property
    def has_changed(self) -> bool:
        """Whether something that may change is not as the earlier run had it."""
        return self._stored is not None and any(
            key in self._stored and self._stored[key] != self._wanted.get(key) for key in ACCEPTABLE
        )

    @property
    def has_other_key(self) -> bool:
        """Whether the noise key is not the earlier run's."""
        return self._stored is not None and self._stored.get(_KEY) != self._wanted.get(_KEY)

    def check_declared(self, first_free: int) -> None:
        """:class:`RunChangedError` if exclusions, holidays or new windows differ before ``first_free``.

        That is the first step that nothing is known of.
        """
        if self._stored is not None:
            check_change(self._stored.get(EXCLUSIONS), self._wanted.get(EXCLUSIONS), first_free)
            check_holidays(self._stored, self._wanted, first_free)
            check_new_windows(self._stored, self._wanted, first_free)

    def save(self, published: int, take_over: str | None = None) -> None:
        """Make it durable, once the run can go on; ``published`` steps were released before it.

        ``take_over`` is the reason to continue although more was published with the noise key than it holds.
        """
        document = {**self._wanted}
        taken_over = list((self._stored or {}).get(_TAKEN_OVER, []))
        if take_over is not None:
            taken_over.append({"from_step": published, "reason": take_over})
        if taken_over:
            document[_TAKEN_OVER] = taken_over
        if earlier := self._earlier_keys(published):
            document[_EARLIER_KEYS] = earlier
        self._record.hold(published, document)
        if not self._path.exists() or document != load_document(self._path):
            replace_file(self._path, json.dumps(document, indent=2, sort_keys=True).encode() + b"\n")

    def noise_key(self, step: int, published: int) -> str | None:
        """Fingerprint of the key that a step's noise was, or will be, drawn with."""
        for earlier in self._earlier_keys(published):
            if step < earlier["until_step"]:
                return str(earlier["fingerprint"])
        return self._wanted.get(_KEY)

    def _earlier_keys(self, published: int) -> list[dict[str, Any]]:
        """Keys that are no longer in use, each with the first step it was not used for any more."""
        if self._stored is None:
            return []
        earlier = list(_key_spans(self._path, self._stored.get(_EARLIER_KEYS, [])))
        if self.has_other_key:
            earlier.append({"fingerprint": self._stored.get(_KEY), "until_step": published})
        return earlier

    def _as_recorded(self, stored: dict[str, Any]) -> dict[str, Any]:
        """What the record says; :class:`OutputError` where the file says anything else.

        A run that was killed between the two left the file as the entry before has it.
        """
        held = [dict(entry.facts) for entry in self._record.entries if entry.kind in ("begun", "changed")]
        if not held:
            return stored
        if stored not in held[-2:]:
            raise OutputError(
                f"{self._path} must be as the record of the run says",
                f"another {', '.join(differing(held[-1], stored))}",
                restoring(self._path.name),
            )
        return held[-1]

    def _changed(self, stored: Mapping[str, Any], replaceable: frozenset[str]) -> list[str]:
        """What is not as the run was started with."""
        replaceable = replaceable & self._acceptable() | (replaceable - ACCEPTABLE)
        if stored.get(NETWORK) != self._wanted.get(NETWORK):  # the list of places is part of the priors
            replaceable = replaceable | PEOPLE
        return sorted(
            key
            for key in stored.keys() | self._wanted.keys()
            if stored.get(key) != self._wanted.get(key)
            and key not in replaceable | REPORTED | {EXCLUSIONS, HOLIDAYS, _EARLIER_KEYS, _TAKEN_OVER}
            and not (key in UNSAID and stored.get(key) is None)
            and not (key == WINDOWS and NETWORK in stored and keeps_windows(stored, self._wanted))
            and not (key == CHECK and _is_checked_no_less(stored, self._wanted))
        )

    def _acceptable(self) -> frozenset[str]:
        """What may change here: other sensors only where the run recorded which it had."""
        is_known = NETWORK in (self._stored or {})
        return ACCEPTABLE if is_known else ACCEPTABLE - {"sensors"}


def refuse_copy(folder: Path) -> None:
    """:class:`RunChangedError` for a copy of a deployment on Kafka, which no run can continue."""
    if copied_from(folder) is not None:
        raise RunChangedError(
            f"{folder} must be the folder of a run, to be continued",
            "a copy of a deployment on Kafka, whose steps are decided there",
            "name another folder for the run; `tallyguard fetch` adds to the copy what is published, and a "
            "key on Kafka is advanced without --output",
        )


def require_copy(folder: Path, source: str) -> None:
    """:class:`RunChangedError` for a folder that is neither new nor a copy of this deployment."""
    if not (folder / "run.json").exists() or (found := copied_from(folder)) == source:
        return
    raise RunChangedError(
        f"{folder} must be a new folder, or have been fetched from this deployment",
        "the folder of a run"
        if found is None
        else "a copy of another deployment, or of one that was begun anew",
        "give another folder",
    )


def copied_from(folder: Path) -> str | None:
    """What a copy of a deployment on Kafka was fetched from; None for any other folder."""
    path = folder / "run.json"
    return load_document(path).get(FETCHED) if path.is_file() else None


def replace_noise_key(folder: Path, fingerprint: str, published: int, author: Author | None = None) -> None:
    """Note durably that steps from ``published`` on are drawn with another noise key than those before."""
    stored, record = load_document(folder / "run.json"), Record(folder, author)
    kept = {key: value for key, value in stored.items() if key != _EARLIER_KEYS}
    Manifest(folder, {**kept, _KEY: fingerprint}, frozenset({_KEY}), record=record).save(published)


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Names of what is not the same in both."""
    return sorted(key for key in one.keys() | other.keys() if one.get(key) != other.get(key))


def check_reason(before: Mapping[str, Any], after: Mapping[str, Any], author: Author) -> None:
    """:class:`RunChangedError` for a change that may weaken a promise, without a reason for the record."""
    if author.reason is None and (names := weakened(before, after)):
        raise RunChangedError(
            "a change that may weaken what was promised must have a reason "
            f"({', '.join(IN_WORDS.get(name, name) for name in names)})",
            f"no reason; {differences(names, before, after)}",
            'give one: --reason "why this is acceptable". It is kept in the record, with your name',
        )


def weakened(before: Mapping[str, Any], after: Mapping[str, Any]) -> list[str]:
    """Which facts promise less than before, or cannot be shown to promise as much.

    Other tiers, another schedule, crowd or evidence may reveal more. A later noise key, a stricter limit,
    more noise, a stricter check of the priors and more exclusions do not.
    """
    changed = [
        key
        for key in differing(before, after)
        if key not in {_KEY, _EARLIER_KEYS, "format", *UNSAID - {NETWORK}}
    ]
    kept: dict[str, Callable[[Any, Any], bool]] = {
        "release": _reveals_no_more,
        "delta": lambda was, now: was is None or (now is not None and now <= was),
        "counted_again": _counts_no_less,
        NETWORK: _reveals_no_more_anywhere,
        "offset": lambda was, now: True,  # by which clock times are shown
        "sensors": lambda was, now: True,  # the network says what of them changed
        **dict.fromkeys(PEOPLE, lambda was, now: True),  # who asks for the reason is people_record
        # every ceiling is one, however it is computed
        **dict.fromkeys({*SHARPENED, PARTITIONS}, lambda was, now: True),
        CHECK: lambda was, now: _is_checked_no_less({CHECK: was}, {CHECK: now}),
        f"{CHECK}.kappa_min": lambda was, now: (now or 0.0) >= (was or 0.0),  # as deployments on Kafka say it
        f"{CHECK}.priors": lambda was, now: True,
        EXCLUSIONS: excludes_no_less,
    }
    acceptable = ACCEPTABLE | REPORTED | {EXCLUSIONS}
    return [
        key
        for key in changed
        if key.partition(".")[0] in acceptable
        and not (key in kept and kept[key](before.get(key), after.get(key)))
    ]


def _reveals_no_more_anywhere(was: Any, now: Any) -> bool:
    """Whether no sensor was added and no place renamed, so that it may be another one.

    A run of an earlier version did not say which it had.
    """
    if was is None or now is None:
        return was is None
    before, after = Network.load(was), Network.load(now)
    is_same = after.places[: len(before.places)] == before.places
    return is_same and {each.name for each in after.present} <= {each.name for each in before.present}


def _reveals_no_more(was: Any, now: Any) -> bool:
    """Whether a release policy keeps the limit it had, or a stricter one, with as much noise."""
    if not (isinstance(was, Mapping) and isinstance(now, Mapping)):
        return False
    try:
        limits = [BudgetSettings.model_validate(each.get("budget", {})).limit for each in (was, now)]
    except ValidationError:
        return False
    apart = {"budget", "sigma"}
    if any(was.get(key) != now.get(key) for key in (was.keys() | now.keys()) - apart):
        return False
    less_noise = was.get("sigma") != now.get("sigma") and (now.get("sigma") or 0.0) < (
        was.get("sigma") or 0.0
    )
    return not less_noise and is_no_looser(*limits)


def is_no_looser(was: RiskBudget | None, now: RiskBudget | None) -> bool:
    """Whether every schedule that keeps the limit now also kept the one before."""
    if was is None or was == now:
        return True
    return (
        now is not None
        and now.share <= was.share
        and all(
            old is None or (new is not None and new <= old)
            for old, new in ((was.risk, now.risk), (was.added, now.added))
        )
        and (was.habits_apart or not now.habits_apart)
        and (now.in_hindsight or not was.in_hindsight)
    )


def _counts_no_less(was: Any, now: Any) -> bool:
    """Whether every sensor is assumed to count, and to correct, one person at least as often as before."""
    return all(
        (now or {}).get(sensor, {}).get(name, least) >= often
        for sensor, own in (was or {}).items()
        for name, least in (("most_counts", 1), ("corrections", 0))
        if (often := own.get(name, least)) > least
    )


def _is_checked_no_less(before: Mapping[str, Any], now: Mapping[str, Any]) -> bool:
    """Whether the priors are taken to be at least as wrong as before; False for an unreadable check."""
    try:
        return is_no_weaker(priors_check_of(now), priors_check_of(before))
    except ValidationError:
        return False


def _key_spans(path: Path, stored: Any) -> Iterator[dict[str, Any]]:
    """Which noise keys were in use before, checked."""
    for span in stored if isinstance(stored, list) else [stored]:
        if not (isinstance(span, dict) and type(span.get("until_step")) is int and "fingerprint" in span):
            raise OutputError(
                f"{_EARLIER_KEYS} in {path} must be as they were written",
                "other content",
                restoring(path.name),
            )
        yield span

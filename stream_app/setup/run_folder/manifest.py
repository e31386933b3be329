"""What the runs on an output folder were started with: fingerprints and settings, no secret."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from models.text import parse_json
from stream_app.exceptions import OutputError, RunChangedError, keeping, restoring
from stream_app.setup.priors_verdict import is_no_weaker, priors_check_of
from stream_app.setup.run_folder.durable import replace_file

FORMAT = 1
_SEAL_NAME = "sha256"
_SEAL = b'{"sha256":"'
_EARLIER_KEYS = "earlier_noise_keys"
_KEY = "noise_key"
_CHECK = "priors_check"
ACCEPTABLE = frozenset({"release", "schedule", "drawn", "crowd", _CHECK, _KEY})
"""What may change in a deployment's life, from one step on, when its operator says so.

A check of the priors may come, or get stricter, without asking: ceilings only rise.
"""


REPORTED = frozenset({"delta", "counted_again"})
"""What is recorded for readers: no account depends on it, so it may change without asking."""


UNSAID = frozenset({"sharpen", "sharpen_operations"})
"""What earlier versions left open or did not record: a run of theirs goes on with what is set now."""


class Manifest:
    """``run.json`` of a folder, compared with what the run at hand was started with.

    Keys in ``replaceable`` may differ from the earlier run's; :class:`RunChangedError` for any other, unless
    nothing was released yet (``has_released``): then the run begins anew. Which noise key belonged to which
    steps is kept as it changes.
    """

    def __init__(
        self,
        folder: Path,
        wanted: Mapping[str, Any],
        replaceable: frozenset[str],
        *,
        has_released: bool = True,
    ) -> None:
        self._folder = folder
        self._path = folder / "run.json"
        self._wanted = {"format": FORMAT, **json.loads(json.dumps(wanted))}
        self._stored = load_document(self._path) if self._path.exists() else None
        self.begins_anew = False
        if self._stored is None:
            self._check_is_new()
        elif has_released:
            self._check_changes(self._stored, replaceable)
        elif self._changed(self._stored, replaceable):
            self._stored, self.begins_anew = None, True

    @property
    def is_new(self) -> bool:
        """Whether no earlier run has left one."""
        return self._stored is None

    @property
    def has_other_key(self) -> bool:
        """Whether the noise key is not the earlier run's."""
        return self._stored is not None and self._stored.get(_KEY) != self._wanted.get(_KEY)

    def save(self, published: int) -> None:
        """Make it durable, once the run can go on; ``published`` steps were released before it."""
        document = {**self._wanted}
        if earlier := self._earlier_keys(published):
            document[_EARLIER_KEYS] = earlier
        if document != self._stored:
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

    def _check_is_new(self) -> None:
        if (self._folder / "releases.jsonl").exists():
            raise OutputError(
                f"{self._folder} must be a new folder or one of an earlier run",
                "releases.jsonl without run.json",
                restoring("run.json"),
            )

    def _check_changes(self, stored: Mapping[str, Any], replaceable: frozenset[str]) -> None:
        """Refuse to continue a run that was started with something else."""
        if changed := self._changed(stored, replaceable):
            raise RunChangedError(
                f"{self._folder} must be continued with what it was started with",
                differences(changed, stored, self._wanted),
                keeping(changed, ACCEPTABLE),
            )

    def _changed(self, stored: Mapping[str, Any], replaceable: frozenset[str]) -> list[str]:
        """What is not as the run was started with."""
        return sorted(
            key
            for key in stored.keys() | self._wanted.keys()
            if stored.get(key) != self._wanted.get(key)
            and key not in replaceable | REPORTED | {_EARLIER_KEYS}
            and not (key in UNSAID and stored.get(key) is None)
            and not (key == _CHECK and self._is_checked_no_less(stored))
        )

    def _is_checked_no_less(self, stored: Mapping[str, Any]) -> bool:
        """Whether the priors are held to be as wrong as before, or more; not where nobody can read how."""
        try:
            return is_no_weaker(priors_check_of(self._wanted), priors_check_of(stored))
        except ValidationError:
            return False


def replace_noise_key(folder: Path, fingerprint: str, published: int) -> None:
    """Note durably that steps from ``published`` on are drawn with another noise key than those before."""
    stored = load_document(folder / "run.json")
    kept = {key: value for key, value in stored.items() if key != _EARLIER_KEYS}
    Manifest(folder, {**kept, _KEY: fingerprint}, frozenset({_KEY})).save(published)


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


def load_document(path: Path) -> dict[str, Any]:
    """A JSON object of an output folder; :class:`OutputError` when it is none."""
    try:
        loaded = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise OutputError(f"{path} must be readable JSON", error, restoring(path.name)) from error
    if not isinstance(loaded, dict):
        raise OutputError(f"{path} must hold an object", type(loaded).__name__, restoring(path.name))
    return loaded


def seal(fields: Mapping[str, Any]) -> bytes:
    """A JSON object that :func:`load_sealed` reads again, and only as it was written."""
    document = json.dumps(fields, separators=(",", ":")).encode()
    separator = b"," if fields else b""
    return _SEAL + _digest(document) + b'"' + separator + document[1:] + b"\n"


def unsealed(data: bytes) -> dict[str, Any] | None:
    """What :func:`seal` was given; None for any other bytes."""
    try:
        fields = parse_json(data)
    except ValueError:
        return None
    if not isinstance(fields, dict):
        return None
    fields.pop(_SEAL_NAME, None)
    return fields if data == seal(fields) else None


def load_sealed(path: Path) -> dict[str, Any]:
    """What :func:`seal` was given; :class:`OutputError` when it is anything else."""
    load_document(path)
    fields = unsealed(path.read_bytes())
    if fields is None:
        raise OutputError(f"{path} must be as it was written", "other content", restoring(path.name))
    return fields


def _digest(document: bytes) -> bytes:
    return hashlib.sha256(document).hexdigest().encode()


def differences(changed: list[str], stored: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """What changed, before and now."""
    return "; ".join(f"{key} was {_short(stored.get(key))}, is {_short(wanted.get(key))}" for key in changed)


def _short(value: object) -> str:
    """A value short enough for a sentence."""
    if isinstance(value, dict) and "kappa_min" in value:  # of a check of the priors what ceilings go by
        value = {name: value.get(name) for name in ("verdict", "kappa_min")}
    text = json.dumps(value)
    return text if len(text) <= 80 else text[:77] + "..."

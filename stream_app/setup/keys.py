"""The secrets of a deployment: from a file, from the environment, or made on request."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import SecretStr

from models.keys import NoiseKey, Pseudonymiser, SnapshotKey
from models.private_files import PRIVATE_FOLDER, new_folder, readable_by_others
from stream_app.exceptions import SettingsError
from stream_app.setup.settings import ENVIRONMENT_PREFIX, Settings

logger = logging.getLogger(__name__)

Key = TypeVar("Key", NoiseKey, Pseudonymiser, SnapshotKey)


class Keys(NamedTuple):
    """What hides counts, and what hides names."""

    noise: NoiseKey
    pseudonyms: Pseudonymiser


def load_keys(settings: Settings, folder: Path, *, create: bool = False) -> Keys:
    """The keys the settings name; by default ``noise.key`` and ``pseudonym.key`` in a folder of their own.

    With ``create`` a key whose file is missing is made, with mode 0600; otherwise :class:`SettingsError` says
    how to get one.
    """
    return Keys(
        load_noise_key(settings, folder, create=create), load_pseudonym_key(settings, folder, create=create)
    )


def load_noise_key(settings: Settings, folder: Path | None = None, *, create: bool = False) -> NoiseKey:
    """The key that hides counts; without a folder the settings must name it."""
    return _load("noise", NoiseKey, settings, folder, create)


def load_pseudonym_key(
    settings: Settings, folder: Path | None = None, *, create: bool = False
) -> Pseudonymiser:
    """The key that hides names; without a folder the settings must name it."""
    return _load("pseudonym", Pseudonymiser, settings, folder, create)


def load_snapshot_key(settings: Settings) -> SnapshotKey | None:
    """The key that account workers seal snapshots with; None where the settings name none."""
    if settings.snapshot_key is None and settings.snapshot_key_secret is None:
        return None
    return _load("snapshot", SnapshotKey, settings, None, create=False)


def key_folder(output: Path) -> Path:
    """Where the keys of an output folder are made: next to it, as the folder itself holds public releases."""
    whole = output.resolve()
    return whole.parent / f"{whole.name}-keys"


def noise_key_file(settings: Settings, folder: Path | None) -> Path:
    """The file of the noise key, there or not; :class:`SettingsError` where the key is in no file."""
    file = key_file(settings, folder)
    if file is None:
        raise SettingsError(
            "noise_key must name the file of the key",
            "nothing"
            if settings.noise_key_secret is None
            else f"the key in {ENVIRONMENT_PREFIX}NOISE_KEY_SECRET",
            "write the key to a file of mode 0600 and name that",
        )
    return file


def _load(what: str, kind: type[Key], settings: Settings, folder: Path | None, create: bool) -> Key:
    """The key ``what`` of the settings: the secret itself, or else the key in its file."""
    name, file = f"{what}_key", key_file(settings, folder, what)
    secret: SecretStr | None = getattr(settings, f"{name}_secret")
    if secret is not None:
        return kind.parse(secret.get_secret_value())
    if file is not None and not file.exists() and folder is not None and (folder / "run.json").exists():
        raise SettingsError(
            f"{name} must be the one that {folder} was begun with",
            f"no file {file}",
            f"bring it back, or set {name} to where it is: with another key the run cannot be continued",
        )
    if file is not None and create and not file.exists() and not issubclass(kind, SnapshotKey):
        new_folder(file.parent, PRIVATE_FOLDER)
        made = kind.create(file)
        logger.warning("made %s: keep a copy in a safe place, a run cannot be continued without it", file)
        return made
    if file is None or (getattr(settings, name) is None and not file.exists()):
        raise SettingsError(
            f"{name} must be set",
            "nothing",
            f"write one with `openssl rand -hex 32 > {name}.txt` and set {name} (or {ENVIRONMENT_PREFIX}"
            f"{name.upper()}) to that file; --create-keys makes one beside the output folder",
        )
    if (fault := readable_by_others(file)) is not None:
        raise SettingsError(f"{name} must be readable by its owner only", *fault)
    return kind.load(file)


def require_private_panel(settings: Settings) -> None:
    """:class:`SettingsError` where others than its owner may read volunteers' places."""
    if settings.panel is not None and (fault := readable_by_others(settings.panel)) is not None:
        raise SettingsError("panel must be readable by its owner only", *fault)


def key_file(settings: Settings, folder: Path | None, what: str = "noise") -> Path | None:
    """The file that a key is in, or will be made in; None for a key that is in no file."""
    name, default_name = f"{what}_key", f"{what}.key"
    path: Path | None = getattr(settings, name)
    secret: SecretStr | None = getattr(settings, f"{name}_secret")
    if secret is not None and path is not None:
        raise SettingsError(f"{name} must come from one place", "a file and a secret", "drop one of the two")
    if secret is not None or path is not None or folder is None:
        return path
    beside, within = key_folder(folder) / default_name, folder / default_name
    if not within.exists():
        return beside
    if beside.exists():
        raise SettingsError(
            f"{name} must come from one place", f"{within} and {beside}", "move away the one not in use"
        )
    logger.warning(
        "%s is in a folder that others may read: stop the run, then `mkdir -p -m 700 %s && mv %s %s`",
        *(within, beside.parent, within, beside),
    )
    return within

"""The two secrets of a deployment: from a file, from the environment, or made on request."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple, TypeVar

from pydantic import SecretStr

from models.noise_key import NoiseKey
from models.pseudonym import Pseudonymiser
from stream_app.exceptions import SettingsError
from stream_app.settings import ENVIRONMENT_PREFIX, Settings

Key = TypeVar("Key")


class Keys(NamedTuple):
    """What hides counts, and what hides names."""

    noise: NoiseKey
    pseudonyms: Pseudonymiser


def load_keys(settings: Settings, folder: Path, *, create: bool = False) -> Keys:
    """The keys the settings name; without any, ``noise.key`` and ``pseudonym.key`` in ``folder``.

    With ``create`` a key whose file is missing is made, with mode 0600; otherwise :class:`SettingsError` says
    how to get one.
    """
    return Keys(
        load_noise_key(settings, folder, create=create), load_pseudonym_key(settings, folder, create=create)
    )


def load_noise_key(settings: Settings, folder: Path | None = None, *, create: bool = False) -> NoiseKey:
    """The key that hides counts; without a folder the settings must name it."""
    source = _Source("noise_key", settings.noise_key, settings.noise_key_secret, folder)
    return _load(source, "noise.key", NoiseKey, create)


def load_pseudonym_key(
    settings: Settings, folder: Path | None = None, *, create: bool = False
) -> Pseudonymiser:
    """The key that hides names; without a folder the settings must name it."""
    source = _Source("pseudonym_key", settings.pseudonym_key, settings.pseudonym_key_secret, folder)
    return _load(source, "pseudonym.key", Pseudonymiser, create)


class _Source(NamedTuple):
    """Where one key may come from."""

    name: str
    path: Path | None
    secret: SecretStr | None
    folder: Path | None


def _load(source: _Source, default_name: str, kind: type[Key], create: bool) -> Key:
    """One key: the secret itself, else its file, else the default file."""
    parse: Callable[[str], Key] = kind.parse  # type: ignore[attr-defined]
    load: Callable[[Path], Key] = kind.load  # type: ignore[attr-defined]
    make: Callable[[Path], Key] = kind.create  # type: ignore[attr-defined]
    name, path, secret, folder = source
    default = None if folder is None else folder / default_name
    if secret is not None and path is not None:
        raise SettingsError(f"{name} must come from one place", "a file and a secret", "drop one of the two")
    if secret is not None:
        return parse(secret.get_secret_value())
    file = path or default
    if file is not None and create and not file.exists():
        file.parent.mkdir(parents=True, exist_ok=True)
        return make(file)
    if file is None or (path is None and not file.exists()):
        raise SettingsError(
            f"{name} must be set",
            "nothing",
            f"write one with `openssl rand -hex 32 > {name}.txt` and set {name} (or {ENVIRONMENT_PREFIX}"
            f"{name.upper()}) to that file; --create-keys makes one in the output folder",
        )
    return load(file)

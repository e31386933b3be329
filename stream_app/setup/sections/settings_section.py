"""What all sections of the settings share: nothing unknown in them, lists and secrets as people give them."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, SecretStr
from pydantic_settings import NoDecode

from models.private_files import readable_by_others


def _split(value: object) -> object:
    """A comma-separated text, as the environment gives it, as a list."""
    if not isinstance(value, str):
        return value
    return [part.strip() for part in value.strip("[] ").split(",") if part.strip()]


NameList = Annotated[tuple[str, ...], NoDecode, BeforeValidator(_split)]
NumberList = Annotated[tuple[float, ...], NoDecode, BeforeValidator(_split)]


class Section(BaseModel):
    """A table of the settings file."""

    model_config = ConfigDict(extra="forbid", frozen=True)


_LEAST_CHARACTERS, _LEAST_DIFFERENT = 16, 6  # of a token; random ones of 16 have 12 or more different ones


def require_token(name: str, token: SecretStr | None) -> None:
    """``ValueError`` for a token that can be guessed; never shows it."""
    if token is None:
        return
    text = token.get_secret_value()
    if len(text) < _LEAST_CHARACTERS:
        raise ValueError(f"{name} must have at least {_LEAST_CHARACTERS} characters")
    if len(set(text)) < _LEAST_DIFFERENT or "changeme" in text.lower():
        raise ValueError(f"{name} must be random, e.g. what `openssl rand -hex 32` prints")


def refuse_login(name: str, address: str) -> None:
    """``ValueError`` for an address with a user or password in it: settings are shown, logged and kept."""
    place = address.partition("://")[2] or address
    if "@" in place.partition("/")[0]:
        raise ValueError(f"{name} must have no user or password in it; set username and password_file")


def require_private_key(name: str, path: Path | None) -> None:
    """``ValueError`` for a certificate with its private key in a file that others can read."""
    if path is None or (fault := readable_by_others(path)) is None:
        return
    if b"PRIVATE KEY" in path.read_bytes():
        raise ValueError(
            f"{name} has a private key and must be readable by its owner only, got: {'; '.join(fault)}"
        )


def take_secret(section: BaseModel, name: str) -> None:
    """Fill a secret from the file named beside it; ``ValueError`` for both or an unreadable file."""
    path: Path | None = getattr(section, f"{name}_file")
    if path is None:
        return
    if getattr(section, name) is not None:
        raise ValueError(f"{name} must come from one place, got a file and a secret; drop one of the two")
    if (fault := readable_by_others(path)) is not None:
        raise ValueError(f"{name}_file must be readable by its owner only, got: {'; '.join(fault)}")
    try:
        secret = path.read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError):
        raise ValueError(f"{name}_file must be a readable text file, got {path}; check the path") from None
    object.__setattr__(section, name, SecretStr(secret))

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

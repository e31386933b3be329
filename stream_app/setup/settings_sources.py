"""Where settings come from, and what is said when one is unknown or wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from pathlib import Path
from typing import Any, cast

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
)
from pydantic_settings import SettingsError as PydanticSettingsError

from models.text import parse_toml
from stream_app.exceptions import SettingsError
from stream_app.setup.settings import ENVIRONMENT_PREFIX, Settings

CONFIG_VARIABLE = "TALLYGUARD_CONFIG"
_NOT_SETTINGS = {
    CONFIG_VARIABLE,  # names the settings file
    "TALLYGUARD_SHARED",  # where the tests find reference material
}
_FILES = (
    *("noise_key", "key_record", "pseudonym_key", "page_token_file", "sensors", "locations"),
    *("priors_check", "evidence", "panel"),
)
_FILES_IN = {
    "kafka": ("ca_file", "certificate_file", "password_file"),
    "release": ("covariance", "recipients"),
}
_FILES_OF_CONNECTORS = {
    "http": ("token_file", "certificate_file", "client_ca_file"),
    "mqtt": ("ca_file", "certificate_file", "password_file"),
    "sensorthings": ("ca_file", "password_file", "token_file"),
}


@dataclass(frozen=True)
class SettingDescription:
    """One row of the settings table. ``name`` has dots between levels, as in TOML tables."""

    name: str
    variable: str
    default: str
    description: str
    is_secret: bool


def load_settings(path: Path | None = None, flags: Mapping[str, object] | None = None) -> Settings:
    """Settings from a TOML file, the environment and flags, in rising order of precedence.

    ``path`` defaults to the file that ``TALLYGUARD_CONFIG`` names, if any; paths in the file are relative to
    it. Flags are by the names of settings, with dots between levels; those that are None were not given.
    ``model_fields_set`` names what any of them set.
    :class:`SettingsError` for everything unknown or out of range.
    """
    if path is None and os.environ.get(CONFIG_VARIABLE):
        path = Path(os.environ[CONFIG_VARIABLE])
    check_environment(os.environ)
    from_file = {} if path is None else _read_toml(path)
    given: dict[str, Any] = {}
    for name, value in (flags or {}).items():
        if value is None:
            continue
        *sections, key = name.split(".")
        table = given
        for section in sections:
            table = table.setdefault(section, {})
        table[key] = value

    class Loaded(Settings):
        @classmethod
        def settings_customise_sources(
            cls, settings_cls: type[BaseSettings], *sources: Any, **named: PydanticBaseSettingsSource
        ) -> tuple[PydanticBaseSettingsSource, ...]:
            file_source = InitSettingsSource(settings_cls, init_kwargs=from_file)
            return named["init_settings"], named["env_settings"], file_source

    try:
        loaded: Settings = cast(Any, Loaded)(**given)
    except ValidationError as error:
        raise settings_error(error) from None
    except PydanticSettingsError as error:
        raise SettingsError(
            "an environment variable must hold a value of its kind", error, "see docs/reference/settings.md"
        ) from None
    values = {name: getattr(loaded, name) for name in Settings.model_fields}
    return Settings.model_construct(_fields_set=loaded.model_fields_set, **values)


def check_environment(environment: Mapping[str, str]) -> None:
    """Refuse a variable with our prefix that is no setting: it was meant to do something."""
    sections = {ENVIRONMENT_PREFIX + name.upper() for name in Settings.model_fields}
    known = {row.variable for row in describe()} | sections | _NOT_SETTINGS
    for variable in sorted(environment):
        name = variable.upper()
        if name.startswith(ENVIRONMENT_PREFIX) and name not in known:
            raise SettingsError(
                f"every {ENVIRONMENT_PREFIX} variable must be a setting", variable, _closest(name, known)
            )


def _closest(name: str, known: set[str]) -> str:
    """The variable that was probably meant; the prefix all share does not count as likeness."""
    ours = [variable.removeprefix(ENVIRONMENT_PREFIX) for variable in sorted(known)]
    close = get_close_matches(name.removeprefix(ENVIRONMENT_PREFIX), ours, n=1)
    if close:
        return f"did you mean {ENVIRONMENT_PREFIX}{close[0]}?"
    return "unset it or see `tallyguard config show`"


def describe() -> tuple[SettingDescription, ...]:
    """Every setting with its name, variable, default and meaning, in the order of the documentation."""
    return tuple(_describe(Settings, ()))


def _shown(default: object) -> str:
    """A default as the documentation shows it."""
    if isinstance(default, datetime):
        return default.isoformat().replace("+00:00", "Z")
    if isinstance(default, tuple):
        return ", ".join(map(str, default)) or "none"
    return "none" if default in (None, "", {}) else str(default)


def markdown_table() -> str:
    """The settings as the table of ``docs/reference/settings.md``."""
    rows = [
        f"| `{row.name}` | `{row.variable}` | `{row.default}` | {row.description} |" for row in describe()
    ]
    return "\n".join(["| setting | variable | default | meaning |", "|---|---|---|---|", *rows, ""])


def _describe(model: type[BaseModel], above: tuple[str, ...]) -> Iterator[SettingDescription]:
    """The settings of one section and of the sections in it."""
    for name, field in model.model_fields.items():
        path = (*above, name)
        if isinstance(field.annotation, type) and issubclass(field.annotation, BaseModel):
            yield from _describe(field.annotation, path)
            continue
        default = field.get_default(call_default_factory=True)
        yield SettingDescription(
            name=".".join(path),
            variable=ENVIRONMENT_PREFIX + "__".join(path).upper(),
            default=_shown(default),
            description=field.description or "",
            is_secret=SecretStr in getattr(field.annotation, "__args__", ()),
        )


def _read_toml(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, its paths made relative to it."""
    try:
        values = parse_toml(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise SettingsError(
            f"settings file {path} must be readable", error.strerror, "check the path"
        ) from error
    except ValueError as error:
        raise SettingsError(f"settings file {path} must be TOML", error, "correct it there") from error
    _check_no_secret(values)
    return _relative_to(path.parent, values)


def _check_no_secret(values: Mapping[str, Any]) -> None:
    """:class:`SettingsError` for a settings file with a secret in it: such files are copied and shown."""
    for row in describe():
        *sections, key = row.name.split(".")
        table: Any = values
        for section in sections:
            table = table.get(section) if isinstance(table, Mapping) else None
        if row.is_secret and isinstance(table, Mapping) and key in table:
            file = row.name.removesuffix("_secret") if key.endswith("_secret") else f"{row.name}_file"
            raise SettingsError(
                "secrets must not stand in the settings file",
                row.name,
                f"set {row.variable}, or name a file that only its owner may read with {file}",
            )
    for name, sender in _senders_of(values).items():
        if "token" in sender:
            raise SettingsError(
                "secrets must not stand in the settings file",
                f"connect.http.senders.{name}.token",
                "name a file that only its owner may read with token_file",
            )


def _senders_of(values: Mapping[str, Any]) -> dict[str, dict[str, Any]]:
    """The tables of those who send over HTTP, as far as they are tables."""
    table: Any = values
    for section in ("connect", "http", "senders"):
        table = table.get(section) if isinstance(table, Mapping) else None
    found = table.items() if isinstance(table, Mapping) else ()
    return {name: sender for name, sender in found if isinstance(sender, dict)}


def _relative_to(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """The values with file names taken from the settings file's own folder."""
    placed = dict(values)
    for key in _FILES:
        if isinstance(placed.get(key), str):
            placed[key] = folder / placed[key]
    for section, keys in _FILES_IN.items():
        table = placed.get(section)
        if isinstance(table, dict):
            files = {key: folder / table[key] for key in keys if isinstance(table.get(key), str)}
            placed[section] = {**table, **files}
    connect = placed.get("connect")
    if isinstance(connect, dict):
        placed["connect"] = _placed_connectors(folder, connect)
    return placed


def _placed_connectors(folder: Path, connect: dict[str, Any]) -> dict[str, Any]:
    """The connectors' tables, files in their mappings included."""
    placed = dict(connect)
    if isinstance(placed.get("files"), dict):
        placed["files"] = _placed_map(folder, placed["files"])
    for name, keys in _FILES_OF_CONNECTORS.items():
        table = placed.get(name)
        if isinstance(table, dict):
            files = {key: str(folder / table[key]) for key in keys if isinstance(table.get(key), str)}
            mapping = table.get("map")
            more = {"map": _placed_map(folder, mapping)} if isinstance(mapping, dict) else {}
            placed[name] = {**table, **files, **more}
    for sender in _senders_of({"connect": placed}).values():
        if isinstance(sender.get("token_file"), str):
            sender["token_file"] = str(folder / sender["token_file"])
    return placed


def _placed_map(folder: Path, values: dict[str, Any]) -> dict[str, Any]:
    """A mapping of files or payloads: its preset may be a name, and is a file where it ends so."""
    files = {"lookup_file": values.get("lookup_file"), "preset": values.get("preset")}
    if not str(files["preset"]).endswith(".toml"):
        del files["preset"]
    return {**values, **{key: str(folder / name) for key, name in files.items() if isinstance(name, str)}}


def settings_error(error: ValidationError) -> SettingsError:
    """The first problem in words, with the closest known name for an unknown one."""
    first = error.errors(include_url=False, include_input=False)[0]
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = [row.name for row in describe()]
        close = get_close_matches(name, [*known, *Settings.model_fields], n=1, cutoff=0.5)
        remedy = f"did you mean {close[0]!r}?" if close else "remove it or see `tallyguard config show`"
        return SettingsError("every key must be a setting", repr(name), remedy)
    message = first["msg"].removeprefix("Value error, ")
    return SettingsError(
        f"setting {name} must be valid" if name else "settings must fit together", message, "correct it"
    )


if __name__ == "__main__":
    print(markdown_table(), end="")

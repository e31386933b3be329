"""Where settings come from, and what is said when one is unknown or wrong."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import datetime
from difflib import get_close_matches
from functools import cache
from pathlib import Path
from typing import Any, cast, get_args

from pydantic import BaseModel, SecretStr, ValidationError
from pydantic.fields import FieldInfo
from pydantic_settings import (
    BaseSettings,
    InitSettingsSource,
    PydanticBaseSettingsSource,
)
from pydantic_settings import SettingsError as PydanticSettingsError

from models.text import parse_toml
from stream_app.exceptions import SettingsError
from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.setup.sections import Section
from stream_app.setup.settings import ENVIRONMENT_PREFIX, Settings

CONFIG_VARIABLE = "TALLYGUARD_CONFIG"
_NOT_SETTINGS = {
    CONFIG_VARIABLE,  # names the settings file
    "TALLYGUARD_SHARED",  # where the tests find reference material
}


@dataclass(frozen=True)
class SettingDescription:
    """One row of the settings table. ``name`` has dots between levels, as in TOML tables."""

    name: str
    variable: str
    default: str
    description: str
    is_secret: bool


_FROM_FILE: ContextVar[dict[str, Any]] = ContextVar("from_file")


class _Loaded(Settings):
    """Settings from a file, too; made once, as pydantic takes longer over a class than over its values."""

    @classmethod
    def settings_customise_sources(
        cls, settings_cls: type[BaseSettings], *sources: Any, **named: PydanticBaseSettingsSource
    ) -> tuple[PydanticBaseSettingsSource, ...]:
        file_source = InitSettingsSource(settings_cls, init_kwargs=_FROM_FILE.get())
        return named["init_settings"], named["env_settings"], file_source


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

    _FROM_FILE.set(from_file)
    try:
        loaded: Settings = cast(Any, _Loaded)(**given)
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


@cache
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
            description=" ".join((field.description or "").split()),
            is_secret=_is_secret(field),
        )


def _read_toml(path: Path) -> dict[str, Any]:
    """The settings of a TOML file, its paths taken from its folder.

    :class:`SettingsError` for a secret in it: such files are copied and shown.
    """
    try:
        values = parse_toml(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise SettingsError(
            f"settings file {path} must be readable", error.strerror, "check the path"
        ) from error
    except ValueError as error:
        raise SettingsError(f"settings file {path} must be TOML", error, "correct it there") from error
    for place, name, field, table in _entries(Settings, values, ""):
        if _is_secret(field):
            # Tables with names of the user's own, as those of senders, have no variables.
            variable = next((row.variable for row in describe() if row.name == place + name), None)
            key = name if variable is None else place + name
            file = key.removesuffix("_secret") if name.endswith("_secret") else f"{key}_file"
            remedy = f"name a file that only its owner may read with {file}"
            raise SettingsError(
                "secrets must not stand in the settings file",
                place + name,
                remedy if variable is None else f"set {variable}, or {remedy}",
            )
        text = table[name]
        if _has_truth_value(text) and not {bool, Any, object} & set(_kinds_in(field.annotation)):
            raise SettingsError(
                f"setting {place + name} must be a number, a text or a list of them",
                "true or false, which are for what is on or off",
                "write the value",
            )
        is_file = _names_file(field) or (name == "preset" and str(text).endswith(".toml"))
        if is_file and isinstance(text, str):
            table[name] = str(path.parent / text)
    return values


def _entries(
    model: type[BaseModel], table: dict[str, Any], place: str
) -> Iterator[tuple[str, str, FieldInfo, dict[str, Any]]]:
    """What a settings file says: the place of each key, its name, its field, and the table it stands in.

    What is unknown, or no table where one should be, is left to the validation.
    """
    for name, field in model.model_fields.items():
        value = table.get(name)
        section = _section_in(field.annotation)
        if section is None:
            if name in table:
                yield place, name, field, table
        elif isinstance(value, dict):
            is_by_name = field.annotation is not section
            for key, each in value.items() if is_by_name else [("", value)]:
                if isinstance(each, dict):
                    inner = f"{place}{name}.{key}." if is_by_name else f"{place}{name}."
                    yield from _entries(section, each, inner)


def _has_truth_value(value: Any) -> bool:
    """Whether there is a true or false in it: pydantic would take it for 1 or 0."""
    within = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return isinstance(value, bool) or any(map(_has_truth_value, within))


def _kinds_in(annotation: Any) -> Iterator[Any]:
    """The types that an annotation is made of."""
    yield annotation
    for each in get_args(annotation):
        yield from _kinds_in(each)


def _section_in(annotation: Any) -> type[BaseModel] | None:
    """The section that a field is, or of which it has one by name (``dict[str, SenderSettings]``)."""
    for kind in (annotation, *get_args(annotation)):
        if isinstance(kind, type) and issubclass(kind, Section):
            return kind
    return None


def _is_secret(field: FieldInfo) -> bool:
    return SecretStr in get_args(field.annotation)


def _names_file(field: FieldInfo) -> bool:
    """Whether a text there is the name of a file; ``priors_check`` is read from the one it names."""
    return not {Path, PriorsVerdict}.isdisjoint({field.annotation, *get_args(field.annotation)})


_BOUNDS = {
    "less_than_equal": ("le", "at most"),
    "less_than": ("lt", "below"),
    "greater_than_equal": ("ge", "at least"),
    "greater_than": ("gt", "above"),
}
"""Kinds of pydantic's errors of a bound: where the bound is, and what is said of it."""


def settings_error(error: ValidationError) -> SettingsError:
    """The first problem in words, with the closest known name for an unknown one."""
    first = error.errors(include_url=False)[0]
    got = first["input"]  # shown where it is a number, so no secret
    name = ".".join(str(part) for part in first["loc"])
    if first["type"] == "extra_forbidden":
        known = [row.name for row in describe()]
        close = get_close_matches(name, [*known, *Settings.model_fields], n=1, cutoff=0.5)
        remedy = f"did you mean {close[0]!r}?" if close else "remove it or see `tallyguard config show`"
        return SettingsError("every key must be a setting", repr(name), remedy)
    if first["type"] in _BOUNDS:
        limit, words = _BOUNDS[first["type"]]
        most = first["ctx"][limit]
        is_share = most == 1 and limit in ("le", "lt")
        remedy = "shares and chances are fractions: 5 % is 0.05" if is_share else "correct it"
        return SettingsError(f"setting {name} must be {words} {most:g}", got, remedy)
    form = first["msg"].partition("Input should be ")[2].partition(", ")[0].replace("tuple", "list")
    form = "the path of a file, in quotes" if first["type"] == "path_type" else form
    if form:
        table = "a table of settings: [name] above, or {key = value}"
        kinds: dict[Any, str] = {str: "a text", dict: "a table", list: "a list"}
        found = got if isinstance(got, int | float) else kinds.get(type(got), "another value")
        must = table if "dictionary" in form else form
        return SettingsError(f"setting {name} must be {must}", found, "correct it")
    message = first["msg"].removeprefix("Value error, ")
    return SettingsError(
        f"setting {name} must be valid" if name else "settings must fit together", message, "correct it"
    )

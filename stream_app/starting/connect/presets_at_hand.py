"""Presets: mappings as TOML files, those of the package and those of a user."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.resources import files
from pathlib import Path
from typing import Any, TypeVar

from pydantic import ValidationError

from models.text import parse_toml
from stream_app.exceptions import SettingsError, meant
from stream_app.setup.sections import FilesMap, PayloadSettings, Section
from stream_app.starting.counts.tables import is_named

_ABOUT = "about"
_RECOGNISE = "recognise"
"""Columns (with * for anything) that only files of the preset have."""
_SUFFIX = ".toml"
_KINDS: Mapping[type[Section], str] = {FilesMap: "files", PayloadSettings: "payloads"}
Map = TypeVar("Map", bound=Section)


def preset_names(kind: type[Section] = FilesMap) -> dict[str, str]:
    """The presets of the package for a kind of mapping, with what each is for."""
    return {name: str(parse_toml(preset_text(name, kind))[_ABOUT]) for name in _names(kind)}


def preset_text(name: str, kind: type[Section] = FilesMap) -> str:
    """A preset of the package as it stands in its file; :class:`SettingsError` for an unknown one."""
    file = _folder(kind) / f"{name}{_SUFFIX}"
    if Path(name).name != name or not file.is_file():
        known = _names(kind)
        hint = meant(name, known, f"there are {', '.join(known)}")
        raise SettingsError("a preset must be one of the package, or a .toml file", repr(name), hint)
    return str(file.read_text(encoding="utf-8-sig"))


def recognised_preset(names: Sequence[str]) -> tuple[str, str] | None:
    """The preset of which a file has all the columns that it is told by, and what it is for."""
    for name in _names(FilesMap):
        values = parse_toml(preset_text(name))
        told = values.get(_RECOGNISE, [])
        if told and all(any(is_named(each, [column]) for each in names) for column in told):
            return name, str(values[_ABOUT])
    return None


def resolved_map(given: Map) -> Map:
    """The mapping in force: the preset's, overridden by what the settings set.

    :class:`SettingsError` names the preset and what is wrong in it.
    """
    own = {name: getattr(given, name) for name in given.model_fields_set}
    name = str(own.get("preset") or "")
    kind = type(given)
    values = {**(_preset(name, kind) if name else {}), **own}
    try:
        return kind.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        key = ".".join(map(str, first["loc"]))
        is_unknown = first["type"] == "extra_forbidden"
        hint = meant(key, kind.model_fields if is_unknown else (), "correct it")
        where = f"preset {name}" if name else "connect"
        raise SettingsError(
            f"{where} must be a mapping of {_KINDS[kind]}", f"{key}: {first['msg']}", hint
        ) from None


def _preset(name: str, kind: type[Section]) -> dict[str, Any]:
    """The keys of a preset; those with file names are relative to a user's file.

    That may have them in its table [connect.files], as settings do, and begin with a preset of the package.
    """
    if not name.endswith(_SUFFIX):
        values = parse_toml(preset_text(name, kind))
    else:
        path = Path(name)
        try:
            values = parse_toml(path.read_text(encoding="utf-8-sig"))
        except (OSError, ValueError) as error:
            raise SettingsError(
                f"preset {path} must be a TOML file", error, "check path and content"
            ) from None
        if kind is FilesMap and isinstance(values.get("connect"), dict):
            values = dict(values["connect"].get("files", {}))
        if isinstance(values.get("lookup_file"), str):
            values["lookup_file"] = path.parent / values["lookup_file"]
        begun = str(values.pop("preset", ""))
        if begun.endswith(_SUFFIX):
            raise SettingsError(f"preset {path} must begin with one of the package", begun, "copy its keys")
        values = {**(_preset(begun, kind) if begun else {}), **values}
    values.pop(_ABOUT, None)
    values.pop(_RECOGNISE, None)
    return values


def _names(kind: type[Section]) -> list[str]:
    files = (each.name for each in _folder(kind).iterdir())
    return sorted(name.removesuffix(_SUFFIX) for name in files if name.endswith(_SUFFIX))


def _folder(kind: type[Section]) -> Any:
    return files("stream_app.starting.connect") / "presets" / _KINDS[kind]

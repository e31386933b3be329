"""Priors as JSON: the form people write by hand and other tools send; ``docs/reference/priors.md``."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, replace
from io import TextIOWrapper
from pathlib import Path
from typing import Any, BinaryIO

from models.exceptions import PriorFileError
from models.prior_files.fitted_member import check_fitted
from models.prior_files.prior_record import add_record, chain_to_record, check_assumed, unknown_member
from models.priors import FittedWindows, Population, PopulationBuilder
from models.text import JsonStream, JsonSyntaxError


def read_json(path: Path) -> Population:
    """Read a priors file person by person; :class:`PriorFileError` names file, person and member."""
    builder = PopulationBuilder()
    locations: tuple[str, ...] | None = None
    assumed: str | None = None
    fitted: FittedWindows | None = None
    try:
        with path.open(encoding="utf-8") as source:
            stream = JsonStream(source)
            for key in stream.members():
                if key == "locations":
                    locations = _locations(path, stream.value())
                elif key == "assumed":
                    assumed = check_assumed(str(path), stream.value())
                elif key == "fitted":
                    fitted = check_fitted(str(path), stream.value())
                elif key == "people":
                    known = _Names(path, locations)
                    for number, record in enumerate(_people(path, stream)):
                        add_record(builder, f"people[{number}] in {path}", record, known.index)
                else:
                    stream.value()
                    raise unknown_member(str(path), key, ("assumed", "fitted", "locations", "people"))
            stream.finish()
    except JsonSyntaxError as error:
        raise PriorFileError(f"{path} must be JSON", error, "mend the file at that line") from None
    except UnicodeDecodeError as error:
        raise PriorFileError(f"{path} must be UTF-8 text", error.reason, "save it as UTF-8") from None
    return replace(builder.build(locations), assumed=assumed, fitted=fitted)


def write_json(population: Population, file: BinaryIO) -> None:
    """Write everybody, one line a person; reading the file gives the same population bit for bit."""
    out = TextIOWrapper(file, encoding="utf-8")
    names = json.dumps(population.location_names, ensure_ascii=False)
    label = f'"assumed": {json.dumps(population.assumed)},\n ' if population.assumed is not None else ""
    if population.fitted is not None:
        label += f'"fitted": {json.dumps(asdict(population.fitted), ensure_ascii=False)},\n '
    out.write(f'{{{label}"locations": {names},\n "people": [')
    for number, person in enumerate(population.people):
        record = chain_to_record(person, population.chain(number), population.initial(number))
        if population.weights is not None:
            record["weight"] = float(population.weights[number])
        out.write(",\n  " if number else "\n  ")
        out.write(json.dumps(record, ensure_ascii=False))
    out.write("\n ]}\n")
    out.detach()  # flushed, and still open: whoever opened it makes it durable


def _people(path: Path, stream: JsonStream) -> Iterator[Any]:
    """The elements of ``people``."""
    if stream.peek() != "[":
        raise PriorFileError(
            f"'people' in {path} must be a list", stream.peek(), "write one object a person in [...]"
        )
    return stream.elements()


def _locations(path: Path, value: Any) -> tuple[str, ...]:
    """The list of location names, checked."""
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        raise PriorFileError(
            f"'locations' in {path} must be a list of names", type(value).__name__, "put each name in quotes"
        )
    if len(set(value)) < len(value):
        twice = next(name for name in value if value.count(name) > 1)
        raise PriorFileError(
            f"'locations' in {path} must be unique", f"{twice!r} twice", "rename one of the two"
        )
    return tuple(value)


class _Names:
    """Location indices by name; looks ahead in the file when people are written before the locations."""

    def __init__(self, path: Path, locations: tuple[str, ...] | None) -> None:
        self._path = path
        self._locations = locations
        self._index: dict[str, int] | None = None

    def index(self, name: str) -> int | None:
        """Index of a location, None if there is no such name."""
        if self._index is None:
            names = self._locations if self._locations is not None else self._look_ahead()
            self._index = {name: index for index, name in enumerate(names)}
        return self._index.get(name)

    def _look_ahead(self) -> tuple[str, ...]:
        if not self._path.is_file():
            return ()
        with self._path.open(encoding="utf-8") as source:
            stream = JsonStream(source)
            for key in stream.members():
                if key == "locations":
                    return _locations(self._path, stream.value())
                if key == "people":
                    for _ in stream.elements():
                        pass
                else:
                    stream.value()
        return ()

"""Lines of a run's logs, as commands read them while the run may go on."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from stream_app.exceptions import OutputError

Record = TypeVar("Record", bound=BaseModel)


def complete_lines(path: Path) -> Iterator[bytes]:
    """The lines of a file, none where there is no file; a torn last one is still being written."""
    if not path.exists():
        return
    with path.open("rb") as content:
        for line in content:
            if line.endswith(b"\n"):
                yield line


def record_of(kind: type[Record], path: Path, line: bytes) -> Record:
    """The record in a line; :class:`OutputError` says what is wrong with it and quotes nothing."""
    try:
        return kind.model_validate_json(line)
    except ValidationError as error:
        raise OutputError(
            f"each line of {path} must be as it was written",
            error.errors(include_url=False, include_input=False)[0]["msg"],
            "restore the file",
        ) from None

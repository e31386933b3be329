"""Reading and writing priors, JSON or Parquet by the file's name."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO

from models.arguments import checked
from models.exceptions import PriorError, PriorFileError
from models.priors import Population
from models.private_files import private_file

_SUFFIXES = (".json", ".parquet")


@checked(PriorFileError)
def load_population(path: str | Path) -> Population:
    """Everybody's prior from a ``.json`` or ``.parquet`` file.

    :class:`~models.exceptions.PriorFileError` names the file, the person and the place in it.
    """
    path = Path(path)
    if not path.is_file():
        raise PriorFileError("the priors file must exist", str(path), "check the path")
    try:
        return _reader(path)(path)
    except PriorError as error:
        raise PriorFileError(f"in {path}, {error.must}", error.got, error.remedy) from error


@checked(PriorFileError)
def save_population(population: Population, path: str | Path) -> None:
    """Write everybody's prior, for its owner only; the file appears whole or not at all."""
    path = Path(path)
    if not path.parent.is_dir():
        raise PriorFileError("a priors file must be in a folder that exists", str(path), "make the folder")
    write = _writer(path)
    with private_file(path) as file:
        write(population, file)


def _reader(path: Path) -> Callable[[Path], Population]:
    """The function that reads such a file; the other format's library is not loaded."""
    if _format(path) == ".json":
        from models.prior_files.prior_json import read_json

        return read_json
    from models.prior_files.prior_parquet import read_parquet

    return read_parquet


def _writer(path: Path) -> Callable[[Population, BinaryIO], None]:
    """The function that writes such a file."""
    if _format(path) == ".json":
        from models.prior_files.prior_json import write_json

        return write_json
    from models.prior_files.prior_parquet import write_parquet

    return write_parquet


def _format(path: Path) -> str:
    """The file's format by its name."""
    suffix = path.suffix.lower()
    if suffix not in _SUFFIXES:
        raise PriorFileError(
            "a priors file must end in .json or .parquet",
            path.name,
            "rename it to say which it is",
        )
    return suffix

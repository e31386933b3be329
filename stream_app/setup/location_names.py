"""The names of a deployment's locations in a file of their own, for whoever does not read the priors."""

from __future__ import annotations

from pathlib import Path

from stream_app.exceptions import SettingsError
from stream_app.setup.settings import Settings


def location_names(settings: Settings, where: str, remedy: str) -> tuple[str, ...]:
    """The names in the file that ``locations`` names, one a line; ``where`` says who needs it.

    :class:`SettingsError` where there is no such file or it is not as it should be.
    """
    path: Path | None = settings.locations
    if path is None:
        raise SettingsError(f"locations must name a file {where}", "nothing", remedy)
    try:
        names = tuple(line.strip() for line in path.read_text(encoding="utf-8").splitlines())
    except (OSError, UnicodeDecodeError) as error:
        raise SettingsError(
            f"locations file {path} must be readable text", error, "check the path"
        ) from error
    if not names or "" in names:
        raise SettingsError(
            f"locations file {path} must have a name in each line", "an empty line", "fill it"
        )
    if len(set(names)) < len(names):
        raise SettingsError(
            f"locations file {path} must name each once", "a name twice", "rename one of them"
        )
    return names

"""What the program says of its work on stderr: one place for every command and worker.

Nothing at ``info`` and above names a person, by id or pseudonym, or a count of a sensor.
"""

from __future__ import annotations

import logging
import sys
from typing import TYPE_CHECKING

from stream_app.setup.settings import LogSettings

if TYPE_CHECKING:
    from structlog.typing import Processor

_OURS = ("stream_app", "accounting", "models")
_NOT_OURS = ("stream_app.kafka.broker.connection",)  # where Faust speaks in our name


class _Stderr(logging.Handler):
    """Writes to whatever stderr is at the time."""

    def emit(self, record: logging.LogRecord) -> None:
        """One line."""
        try:
            print(self.format(record), file=sys.stderr, flush=True)
        except Exception:
            self.handleError(record)


def start_logging(settings: LogSettings) -> None:
    """Log as the settings say: our own modules at one level, everybody else's at another."""
    import structlog

    steps: list[Processor] = [
        structlog.stdlib.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper("iso", utc=True),
    ]
    if settings.format == "json":
        steps.append(structlog.processors.format_exc_info)
    last: Processor = (
        structlog.processors.JSONRenderer()
        if settings.format == "json"
        else structlog.dev.ConsoleRenderer(
            colors=False,
            pad_event_to=0,
            exception_formatter=structlog.dev.plain_traceback,  # no values of variables: they may be counts
        )
    )
    handler = _Stderr()
    handler.setFormatter(
        structlog.stdlib.ProcessorFormatter(
            processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, last],
            foreign_pre_chain=steps,
        )
    )
    root = logging.getLogger()
    root.handlers = [each for each in root.handlers if not isinstance(each, _Stderr)] + [handler]
    root.setLevel(settings.libraries.upper())
    for name in _OURS:
        logging.getLogger(name).setLevel(settings.level.upper())
    for name in _NOT_OURS:
        logging.getLogger(name).setLevel(settings.libraries.upper())


def only_errors_of(library: str) -> None:
    """Leave out the warnings of a library that say nothing to whoever runs the program."""
    logging.getLogger(library).setLevel(logging.ERROR)

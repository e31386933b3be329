"""Volunteers' true places, read while the engine runs and compared with what the priors predict.

Only the operator may read the file. Nothing of it leaves this process but the number of guesses judged, the
evidence they add up to, and whether that refutes the priors, all updated every twenty guesses so that no
single guess shows. Evidence is a function of the file: a restart reads it again from the start.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from math import exp
from pathlib import Path
from select import select

from prometheus_client import CollectorRegistry, start_http_server
from pydantic import ValidationError

from accounting.audit.calibration import PanelCheck, RunningCheck
from accounting.settings import HorizonSettings
from models.priors import Population
from models.private_files import readable_by_others
from models.text import DocumentError, parse_json
from stream_app.exceptions import SettingsError
from stream_app.setup.keys import require_private_panel
from stream_app.setup.settings import Settings
from stream_app.setup.this_process import stop_on_signals
from stream_app.watching.events import Observer, Observers, PanelChecked, RunStarted, StepClosed
from stream_app.watching.metrics import PriorMetrics
from stream_app.watching.web import parse_address
from stream_app.wire import MAX_LINE_BYTES, PlaceReport

logger = logging.getLogger(__name__)

SHOWN_EVERY = 20
"""Guesses: evidence that moved with each would reveal whether a volunteer was where the prior expects."""
_MOST_LOG = 700.0  # of the evidence: a float holds no more


class VolunteerPanel(Observer):
    """Reads what was appended to the file, at the start and after every step, and notifies ``observer``.

    ``shown`` is what was last shown.
    """

    may_lag = True

    def __init__(
        self, path: Path, population: Population, check: PanelCheck, observer: Observer | None = None
    ) -> None:
        self._path = path
        self._check = check
        self._observer = observer or Observer()
        self._people = {person: position for position, person in enumerate(population.people)}
        self._locations = {name: index for index, name in enumerate(population.location_names)}
        self._read_bytes = self._lines = 0
        self._is_open_to_others = False
        self.shown = PanelChecked(0, 1.0, is_refuted=False)

    def started(self, event: RunStarted) -> None:
        """Read everything there is."""
        self._observer.panel_checked(self.shown)
        self.read()

    def closed(self, event: StepClosed) -> None:
        """Read what was appended."""
        self.read()

    def read(self) -> None:
        """Read what was appended, and show the evidence after every twenty guesses."""
        before, refused_lines = self.shown, []
        for line in self._appended():
            self._lines += 1
            if not self._take(line):
                refused_lines.append(self._lines)
        if refused_lines:
            logger.warning(
                "panel: %d lines do not say where a person of the priors was, at one of their locations and "
                "later than was known; the first is line %d",
                len(refused_lines),
                refused_lines[0],
            )
        if self.shown != before:
            self._observer.panel_checked(self.shown)
        if self.shown.is_refuted and not before.is_refuted:
            logger.warning("panel: the priors are refuted; see docs/runbooks/priors-refuted.md")

    def _take(self, line: bytes) -> bool:
        """Take one line; False unless it has a person and a location of the priors, at a later step."""
        try:
            report = PlaceReport.model_validate_json(line)
            parse_json(line)  # which refuses a repeated member
        except (ValidationError, DocumentError):
            return False
        person, location = self._people.get(report.person), self._locations.get(report.location)
        if person is None or location is None:
            return False
        before = self._check.guesses
        is_new = self._check.record(person, report.step, location)
        if self._check.guesses > before and self._check.guesses % SHOWN_EVERY == 0:
            running = self._check.check
            evidence = exp(min(running.log_evidence, _MOST_LOG))
            self.shown = PanelChecked(self._check.guesses, evidence, is_refuted=running.is_refuted)
        return is_new

    def _appended(self) -> Iterator[bytes]:
        """Whole lines after those already read; none while others than the owner may read the file."""
        if not self._path.is_file():
            return
        fault = readable_by_others(self._path)
        if fault is not None:
            if not self._is_open_to_others:
                logger.warning("panel: %s, so it is not read: %s", *fault)
            self._is_open_to_others = True
            return
        self._is_open_to_others = False
        with self._path.open("rb") as file:
            file.seek(self._read_bytes)
            while (line := file.readline(MAX_LINE_BYTES)).endswith(b"\n") or len(line) == MAX_LINE_BYTES:
                self._read_bytes += len(line)
                yield line


def panel_observer(
    settings: Settings, population: Population, horizon: HorizonSettings, observer: Observer | None = None
) -> Observer:
    """The panel of the settings; an observer of nothing where there is none."""
    if settings.panel is None:
        return Observers()
    check = PanelCheck(population, horizon, RunningCheck(settings.panel_level))
    return VolunteerPanel(settings.panel, population, check, observer)


# The panel in a process of its own, next to workers on Kafka, none of which has all people.


def panel_of(settings: Settings, population: Population) -> VolunteerPanel:
    """The panel of the settings; :class:`SettingsError` where there is none, or others may read it."""
    require_private_panel(settings)
    panel = panel_observer(settings, population, settings.horizon_settings(settings.first_slot))
    if not isinstance(panel, VolunteerPanel):
        raise SettingsError(
            "panel must name the file of volunteers' true places",
            "no panel in the settings",
            'write panel = "panel.jsonl" into the settings file',
        )
    return panel


def watch_panel(
    panel: VolunteerPanel, settings: Settings, every: float, announce: Callable[[str], None]
) -> None:
    """Read the panel every so many seconds and serve the metrics, until somebody asks to stop."""
    registry = CollectorRegistry()
    metrics = PriorMetrics(registry, settings.priors_check)
    with stop_on_signals() as request, _metrics_at(settings.listen, registry, announce):
        while not request.is_set:
            panel.read()
            metrics.panel_checked(panel.shown)
            select([request.wake], [], [], every)


@contextmanager
def _metrics_at(listen: str, registry: CollectorRegistry, announce: Callable[[str], None]) -> Iterator[None]:
    """Serve the metrics at an address; nothing where that is empty."""
    if not listen:
        yield
        return
    host, port = parse_address(listen)
    try:
        server, _ = start_http_server(port, host, registry)
    except OSError as error:
        raise SettingsError(
            f"listen address {listen} must be free, and of this machine",
            error.strerror,
            "name another with --listen: the engine has one of its own",
        ) from error
    try:
        announce(f"metrics at http://{host}:{server.server_port}/metrics")
        yield
    finally:
        server.shutdown()
        server.server_close()

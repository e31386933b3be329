"""Metrics of how far priors can be trusted: refuted by a check, or by volunteers while the engine runs."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Gauge

from stream_app.setup.priors_verdict import PriorsVerdict
from stream_app.watching.events import PanelChecked


class PriorMetrics:
    """What real traces said of the priors; 0 everywhere where none were asked."""

    def __init__(self, registry: CollectorRegistry, check: PriorsVerdict | None) -> None:
        self._refuted = Gauge(
            "tallyguard_priors_refuted",
            "1 where real traces refuted the priors as too low: by priors_check, or by the panel",
            ["found_by"],
            registry=registry,
        )
        self._guesses = Gauge(
            "tallyguard_panel_guesses",
            "Guesses about volunteers that were held against their true places; counted in twenties",
            registry=registry,
        )
        self._evidence = Gauge(
            "tallyguard_panel_evidence",
            "Evidence of volunteers against the priors: refuted from 1 / panel_level on; 0 without a panel",
            registry=registry,
        )
        self._refuted.labels("check").set(check is not None and check.is_too_low)
        self._refuted.labels("panel").set(0)

    def panel_checked(self, event: PanelChecked) -> None:
        """Twenty guesses more, or the beginning."""
        self._refuted.labels("panel").set(event.is_refuted)
        self._guesses.set(event.guesses)
        self._evidence.set(event.evidence)

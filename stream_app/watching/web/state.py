"""The picture of a running engine as one JSON document: what the page draws. Nobody in person."""

from __future__ import annotations

import json
import math
from typing import Any

from stream_app.setup.settings import Settings
from stream_app.watching.prior_notes import ceiling_condition
from stream_app.watching.web.status import Status
from stream_app.watching.wording import not_reached_in_words
from stream_app.wire import RiskSummary


def state_json(status: Status, about: Settings | None, *, has_people: bool) -> str:
    """The document; ``has_people`` says whether there is a token to ask for single people with."""
    document = {
        **vars(status),
        "history": [vars(line) for line in status.history],
        "distribution": vars(status.distribution) if status.distribution else None,
        "sensors": [vars(line) for line in status.sensors.values()],
        "releases": [vars(line) for line in status.releases],
        "hidden": [vars(line) for line in status.hidden],
        "summary": _summary(status.summary),
        "not_reached": not_reached_in_words(status.summary.not_reached) if status.summary else None,
        "about": _about(about),
        "has_people": has_people,
    }
    try:
        return _text(document)
    except ValueError:  # an infinity somewhere: rare, and costly to look for
        return _text(_finite(document))


def _summary(summary: RiskSummary | None) -> dict[str, Any] | None:
    """The last summary, without the single draws."""
    return None if summary is None else summary.model_dump(mode="json", exclude={"attack": {"parts"}})


def _text(document: dict[str, Any]) -> str:
    return json.dumps(document, separators=(",", ":"), allow_nan=False, default=dict)


def _about(settings: Settings | None) -> dict[str, Any] | None:
    """What the figures refer to."""
    if settings is None:
        return None
    return {
        "deployment": settings.deployment,
        "step_seconds": settings.step_seconds,
        "origin_seconds": settings.origin_seconds,
        "horizon": settings.horizon,
        "mistakes": settings.mistakes,
        "delta": settings.delta,
        "thresholds": list(settings.thresholds),
        "condition": ceiling_condition(settings.priors_check, settings.draws),
        "is_raised": settings.priors_check is not None and settings.priors_check.is_too_low,
    }


def _finite(value: Any) -> Any:
    """The same without infinities, which JSON does not know: null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

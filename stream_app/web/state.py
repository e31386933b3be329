"""The picture of a running engine as one JSON document: what the page draws. Nobody in person."""

from __future__ import annotations

import json
import math
from dataclasses import asdict
from typing import Any

from stream_app.settings import Settings
from stream_app.web.status import Status


def state_json(status: Status, about: Settings | None, *, has_people: bool) -> str:
    """The document; ``has_people`` says whether there is a token to ask for single people with."""
    document = asdict(status)
    document["sensors"] = [asdict(line) for line in status.sensors.values()]
    document["summary"] = status.summary.model_dump(mode="json") if status.summary else None
    document["about"] = _about(about)
    document["has_people"] = has_people
    return json.dumps(_finite(document), separators=(",", ":"), allow_nan=False)


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
        "thresholds": list(settings.thresholds),
    }


def _finite(value: Any) -> Any:
    """The same without infinities, which JSON does not know: null."""
    if isinstance(value, dict):
        return {key: _finite(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(each) for each in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value

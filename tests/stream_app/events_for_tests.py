"""Hand-made engine events for the tests of those who only listen."""

from __future__ import annotations

from models.mechanisms import parse
from models.releases import Sensor, SensorRelease, StepSchedule
from stream_app.watching.events import StepClosed
from stream_app.wire.messages import Attack, AttackedPart, RiskSummary

STATION = Sensor("station", (0,), "public")
SCHOOL = Sensor("school", (1,), "public")
STREET = Sensor("mill street", (2,), "homes")
SENSORS = (STATION, SCHOOL, STREET)
DRAWN = AttackedPart(people=200, draws=200, added=(64,) * 50)
GAUSSIAN = parse("gaussian", {"sigma": 2.0})


def summary(step: int, people: int = 200) -> RiskSummary:
    """A summary with a different figure in every field."""
    return RiskSummary(
        step=step,
        people=people,
        at_risk={"0.01": 120, "0.5": 7},
        at_added_risk={"0.01": 90, "0.5": 3},
        risk={"0.5": 0.05, "0.9": 0.3, "0.99": 0.6, "1.0": 0.97},
        added={"0.5": 0.04, "0.9": 0.2, "0.99": 0.4, "1.0": 0.45},
        baseline={"0.5": 0.01, "0.9": 0.1, "0.99": 0.2, "1.0": 0.91},
        mean_risk=0.11,
        mean_added=0.07,
        mean_baseline=0.04,
        at_baseline={"0.01": 30, "0.5": 4},
        most_risk=0.98,
        most_added=0.66,
        attack=Attack(success=0.06, low=0.05, high=0.08, confidence=0.95, parts=(DRAWN,)),
    )


def closed(step: int, *, is_replayed: bool = False, people: int = 200) -> StepClosed:
    """A step with a noised, a missing and a suppressed sensor."""
    releases = (
        SensorRelease(STATION, GAUSSIAN),
        SensorRelease(STREET, GAUSSIAN),
        SensorRelease(SCHOOL, parse("suppressed", {})),
    )
    return StepClosed(
        step=step,
        schedule=StepSchedule(step, releases),
        published={"station": 41},
        missing=("mill street",),
        people=people,
        summary=summary(step, people),
        latency_seconds=0.004,
        lag_steps=2,
        is_replayed=is_replayed,
    )

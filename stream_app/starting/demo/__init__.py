"""The demo: the engine end to end on a simulated city, and what a newcomer should see of it."""

from stream_app.starting.demo.run_demo import DemoOptions, DemoReport, ExposedPerson, WayOfLife, run_demo
from stream_app.starting.demo.scenario import Scenario

__all__ = [
    "DemoOptions",
    "DemoReport",
    "ExposedPerson",
    "Scenario",
    "WayOfLife",
    "run_demo",
]

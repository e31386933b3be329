"""The demo: the engine end to end on a simulated city, and what a newcomer should see of it."""

from stream_app.starting.demo.run_demo import DemoOptions, DemoReport, run_demo

__all__ = ["DemoOptions", "DemoReport", "run_demo"]

"""A simulated city for the demo, tests and benchmarks: homes, work, evenings, sensors; seeded."""

from stream_app.city.simulation import HABITS, City, CityOptions, CityStep, build_city, sensors_json

__all__ = [
    "HABITS",
    "City",
    "CityOptions",
    "CityStep",
    "build_city",
    "sensors_json",
]

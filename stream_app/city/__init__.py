"""A simulated city for the demo, tests and benchmarks: homes, work, evenings, sensors; seeded."""

from stream_app.city.city_files import sensors_json
from stream_app.city.city_habits import HABITS
from stream_app.city.simulation import City, CityOptions, CityStep, build_city

__all__ = [
    "HABITS",
    "City",
    "CityOptions",
    "CityStep",
    "build_city",
    "sensors_json",
]

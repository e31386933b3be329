"""A simulated city for the demo, tests and benchmarks: homes, work, evenings, sensors; seeded."""

from stream_app.city.simulation import City, CityOptions, CityStep, build_city

__all__ = ["City", "CityOptions", "CityStep", "build_city"]

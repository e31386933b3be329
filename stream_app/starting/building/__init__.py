"""An occupancy service from nothing: a building as a table, its people's days, the deployment's files."""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.starting.building.building_file import Building, load_building
from stream_app.starting.building.deployment import PRIORS, write_building
from stream_app.starting.building.habits import people_of

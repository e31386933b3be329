"""An occupancy service from nothing: a building as a table, its people's days, the deployment's files."""

from stream_app.starting.building.building_file import Building, load_building
from stream_app.starting.building.deployment import PRIORS, LeftOut, write_building
from stream_app.starting.building.habits import people_of

__all__ = ["PRIORS", "Building", "LeftOut", "load_building", "people_of", "write_building"]

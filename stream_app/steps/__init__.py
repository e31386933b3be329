"""The walk of a reading: intake, open steps, the engine, publication."""

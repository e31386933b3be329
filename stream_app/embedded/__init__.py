"""One process that reads messages, runs the engine and keeps the output folder."""

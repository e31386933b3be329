"""The release worker: closes steps, draws values and writes the logs."""

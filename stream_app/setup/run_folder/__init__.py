"""The folder of a run: durable files, what it was made with, epochs of its key."""

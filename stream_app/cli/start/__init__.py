"""Commands that set a deployment up and run it."""

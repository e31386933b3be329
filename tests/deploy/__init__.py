"""Deployment files against their schemas, and against the program they start."""

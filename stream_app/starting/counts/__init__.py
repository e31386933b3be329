"""A deployment's files from counts as cities have them.

Modules are also imported singly: a command loads what it needs.
"""

# mypy: implicit-reexport
# ruff: noqa: F401

from stream_app.starting.counts.count_table import CountTable
from stream_app.starting.counts.deployment_files import NewDeployment, write_deployment

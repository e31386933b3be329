"""A deployment's files from counts as cities have them.

Modules are also imported singly: a command loads what it needs.
"""

from stream_app.starting.counts.deployment_files import NewDeployment, write_deployment
from stream_app.starting.counts.read import CountTable, read_counts

__all__ = ["CountTable", "NewDeployment", "read_counts", "write_deployment"]

"""A deployment's files from counts as cities have them.

Modules are also imported singly: a command loads what it needs.
"""

from stream_app.starting.counts.deployment_files import Deployment, write_deployment
from stream_app.starting.counts.read import Counts, read_counts

__all__ = ["Counts", "Deployment", "read_counts", "write_deployment"]

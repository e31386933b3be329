"""A deployment's files from counts as cities have them."""

from stream_app.starting.counts.deployment_files import Deployment, write_deployment
from stream_app.starting.counts.read import CountsQuestions, read_counts
from stream_app.starting.counts.step_counts import Counts

__all__ = ["Counts", "CountsQuestions", "Deployment", "read_counts", "write_deployment"]

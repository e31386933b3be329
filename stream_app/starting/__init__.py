"""A deployment's files from counts as cities have them."""

from stream_app.starting.counts import Counts
from stream_app.starting.files import Deployment, write_deployment
from stream_app.starting.read import CountsQuestions, read_counts

__all__ = ["Counts", "CountsQuestions", "Deployment", "read_counts", "write_deployment"]

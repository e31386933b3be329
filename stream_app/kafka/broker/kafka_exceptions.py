"""What can go wrong between a worker and its broker, in words an operator can act on."""

from __future__ import annotations

from models.exceptions import TallyguardError


class BrokerError(TallyguardError):
    """The broker cannot be reached, refuses us, or is not as it must be."""


class TopicError(BrokerError):
    """A topic is missing or has another shape than the deployment needs."""


class FencedError(BrokerError):
    """Another release worker has taken over; this one must not publish any more."""


class StalledError(BrokerError):
    """There is work, and nothing moves."""


class RecordError(ValueError):
    """A record is not what its topic holds; the text quotes nothing of it."""


class LogError(BrokerError):
    """A log does not hold what it must: a step is missing, or a record cannot be read."""
